-- Punctual's functions for Redis: one library, made of the files of this folder in the order of
-- ORDER. docs/wire-protocol.md describes calls, replies and records; docs/job-lifecycle.md the law.
--
-- This file: the globals, bound at the first call (none can be reached while the library loads).

-- Grows with each change of the library: a newer one is respected, an older one replaced.
local VERSION = 1

local call, allows, sub, byte, char, rep, find, fmt, concat, floor, min, max, pack, unp, mp, unpack_list, tonum, next_of
local BELOW = '\0\0\0\0\0\0\0\0'
local WINDOW -- settled_window of the shard of this call, us
local MINUTE = 60e6

-- The parts of the library, each in the file of its name.
local Shard, Row, Job, Due, Line, Group, Unique, Place, Settled, Lease, Sweep = {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}
local Calls, Leader, Check, Heal = {}, {}, {}, {}
local Enqueue, Claim, Settle, Retry, Edit, Inspect, Explain, Stats, Control, Wait, Text = {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}
local Outbox, Bundle, Ends, Lone, Workers, Schedule, Gate, Flow, Share, Records, Named = {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}

local function bind()
  call, allows = redis.call, redis.acl_check_cmd
  sub, byte, char, rep, find, fmt = string.sub, string.byte, string.char, string.rep, string.find, string.format
  concat, floor, min, max = table.concat, math.floor, math.min, math.max
  pack, unp, mp, unpack_list, tonum, next_of = struct.pack, struct.unpack, cmsgpack, unpack, tonumber, next
end

-- Ends the call with an error reply; nothing may have been written before.
local function refuse(code, message)
  error({err = 'PUNCTUAL ' .. code .. ' ' .. message})
end

-- Ends a call that has met what a later library has written.
local function refuse_later(what)
  refuse('data_damaged', what .. ' is of a later version; use a newer library')
end

-- Runs one of several calls: whether it went well, and its answer or the refusal, a table.
local function attempt(f, argument)
  local ok, answer = pcall(f, argument)
  if ok then return true, answer end
  return false, {err = type(answer) == 'table' and answer.err or tostring(answer)} -- the server makes it a text
end

-- Reads a call: its answer, its refusal as it is, or that it is no such call.
local function reading(f, ...)
  local ok, answer = pcall(f, ...)
  if ok then return answer end
  local said = type(answer) == 'table' and answer.err or tostring(answer) -- the server makes it a text
  if find(said, '^%-?%u+ ') and not find(said, '^%-?ERR ') then error({err = (said:gsub('^%-', ''))}) end
  refuse('invalid_input', 'the call is cut short')
end

local function u8(n) return pack('>I8', n) end
local function at8(s, i) return (unp('>I8', s, i or 1)) end

-- Whether one string of bytes comes before another. `<` would ask the server's locale.
local function below(a, b)
  if a == b then return false end
  local n, at = min(#a, #b), 1
  while at + 5 <= n do -- six bytes are a number
    local x, y = unp('>I6', a, at), unp('>I6', b, at)
    if x ~= y then return x < y end
    at = at + 6
  end
  for i = at, n do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- A copy of a list's items from i to j, at most 7,000: what one call can take.
local function slice(list, i, j)
  local out = {}
  for k = i, min(j, #list) do out[#out + 1] = list[k] end
  return out
end

local forms = {} -- of so many ids, by count

-- A list of n ids, of 16 bytes each, that stand in a string from a place on: a hundred at once.
local function cut_ids(s, at, n)
  local out, done = nil, 0
  repeat
    local some = min(n - done, 100)
    local form = forms[some]
    if not form then
      form = rep('c16', some)
      forms[some] = form
    end
    local ids = {unp(form, s, at + 16 * done)}
    ids[some + 1] = nil -- where it ended
    if not out then out = ids else for i = 1, some do out[done + i] = ids[i] end end
    done = done + some
  until done >= n
  return out
end

-- Calls with any number of items after the fixed arguments, at most 6,000 a time; sums the answers.
local function call_many(command, key, items)
  local n, sum = #items, 0
  if n <= 6000 then return n > 0 and call(command, key, unpack_list(items)) or 0 end
  for i = 1, n, 6000 do sum = sum + call(command, key, unpack_list(slice(items, i, i + 5999))) end
  return sum
end

-- HMGET of any number of fields; an answer per field.
local function get_many(key, fields)
  local n = #fields
  if n == 0 then return {} end
  if n <= 6000 then return call('HMGET', key, unpack_list(fields)) end
  local out = {}
  for i = 1, n, 6000 do
    for _, value in ipairs(call('HMGET', key, unpack_list(slice(fields, i, i + 5999)))) do out[#out + 1] = value end
  end
  return out
end
