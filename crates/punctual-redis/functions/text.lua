-- By hand: the verbs in words, for redis-cli and for any program with nothing but a Redis client.
-- Words are packed, handed to the verb's own entry, and its packed answer is written as one line of
-- JSON: the law stands in the packed verbs only. This file: how words are read, and how a call
-- runs.
do

local MS_MAX = 253402300799999 -- the end of the year 9999, ms since 1970

local shown, is_utf8, is_hostile, check_name, check_key = Check.shown, Check.is_utf8, Check.is_hostile, Check.name, Check.key

-- The bytes of hexadecimal digits.
local function unhex(digits)
  return (digits:gsub('%x%x', function(pair) return char(tonum(pair, 16)) end))
end

local function is_id(word)
  return find(word, '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$') ~= nil
    or #word == 32 and not find(word, '%X')
end

local function read_id(word)
  if not is_id(word) then
    refuse('invalid_input', '%TEXT_JOB_ID% (id: ' .. shown(word) .. ')')
  end
  return unhex((word:gsub('-', '')))
end

local function read_token(word)
  if #word ~= 32 or find(word, '%X') then
    refuse('invalid_input', 'token is not one that claim answers; write its 32 hexadecimal digits (token: ' .. shown(word) .. ')')
  end
  return unhex(word)
end

-- A whole number from low to high.
local function read_number(what, word, low, high, code)
  local n = #word <= 15 and find(word, '^%d+$') and tonum(word)
  if not n or n < low or n > high then
    refuse(code or 'invalid_input', fmt('%s is out of range; use a whole number from %.0f to %.0f (value: %s)', what, low, high, shown(word)))
  end
  return n
end

local BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

local function unbase64(text)
  local digits = text:gsub('=+$', '')
  if find(text, '[^%w+/=]') or find(digits, '=') or #text % 4 ~= 0 then
    refuse('invalid_input', 'payload is not base64 with its padding; leave BASE64 out to send bytes as they are')
  end
  local out, bits, value = {}, 0, 0
  for i = 1, #digits do
    value, bits = value * 64 + find(BASE64, sub(digits, i, i), 1, true) - 1, bits + 6
    if bits >= 8 then
      bits = bits - 8
      out[#out + 1] = char(floor(value / 2 ^ bits))
      value = value % 2 ^ bits
    end
  end
  return concat(out)
end

local KEYS = {UNIQUE = 'unique key', GROUP = 'group key', SHARE = 'share', WAIT_FOR = 'name in WAIT_FOR', WORKER = 'worker name'}

local READERS = {
  name = function(option, word) return check_name(option:lower(), word) end,
  key = function(option, word) return check_key(KEYS[option] or option:lower(), word) end,
  ms = function(option, word) return read_number(option, word, 0, MS_MAX, 'invalid_delay') * 1000 end,
  id = function(_, word) return read_id(word) end,
  bytes = function(_, word) return word end,
}

-- One option's value. A kind is the name of a reader, {low, high} of a number, or {'word', 'word',
-- ...}.
local function read_value(option, kind, word)
  if type(kind) == 'string' then return READERS[kind](option, word) end
  if type(kind[1]) == 'number' then return read_number(option, word, kind[1], kind[2]) end
  for i = 1, #kind do if word:lower() == kind[i] then return kind[i], i - 1 end end
  refuse('invalid_input', option .. ' takes ' .. concat(kind, ', ') .. ', not ' .. shown(word))
end

-- Reads options from a place on: values by name. `spec` is a verb's options in help's order:
-- {name, kind, how to write its value, flags}; kind false takes no value; `many` makes a list.
-- Stops before a word for which `ends` holds; answers the place after the last word read.
local function read_options(verb, spec, args, at, ends)
  local found = {}
  while args[at] and not (ends and ends(args[at])) do
    local option, given = args[at]:upper(), nil
    for _, one in ipairs(spec) do if one[1] == option then given = one end end
    if not given then
      local names = {}
      for i, one in ipairs(spec) do names[i] = one[1] end
      refuse('invalid_input', fmt('%s has no option %s; it takes %s; see punctual_1_help', verb, shown(args[at]), concat(names, ', ')))
    end
    if found[option] ~= nil and not given.many then refuse('invalid_input', 'option ' .. option .. ' stands twice; give it once') end
    local value = true
    if given[2] then
      if not args[at + 1] then refuse('invalid_input', fmt('option %s has no value; write %s %s', option, option, given[3])) end
      value = read_value(option, given[2], args[at + 1])
      at = at + 1
    end
    at = at + 1
    if given.many then
      found[option] = found[option] or {}
      table.insert(found[option], value)
    else
      found[option] = value
    end
  end
  return found, at
end

-- What a job is named by: its id, or a queue and the unique key in it.
local function read_target(verb, args)
  if #args == 1 then return {read_id(args[1])} end
  if #args == 2 then return {check_name('queue', args[1]), check_key('unique key', args[2])} end
  refuse('invalid_input', verb .. ' takes ID, or QUEUE and UNIQUE_KEY; ' .. #args .. ' arguments were given; see punctual_1_help')
end

-- Bytes that no other call of this shard has drawn: the shard's state differs at each write.
local function draw(base, salt)
  local time, state = call('TIME'), call('HGET', base .. ':s', 'm') or ''
  return unhex(redis.sha1hex(concat({base, time[1], time[2], state, salt}, '|')))
end

local function check_base(base)
  local namespace, shard = base:match('^punctual:{(.+)/(%d%d?%d?%d?)}$')
  if not namespace or tonum(shard) > 1023 then
    refuse('invalid_input', 'key is no namespace shard; write punctual:{NAMESPACE/SHARD}, for most punctual:{default/0} (key: ' .. shown(base) .. ')')
  end
  check_name('namespace', namespace)
  return tonum(shard)
end

-- Runs a verb by hand: JSON, or an error that names the thing and the remedy.
function Text.run(verb, base, args)
  local ok, answer = pcall(Shard.whole, function() return Text[verb](base, args, check_base(base)) end)
  if ok then return redis.status_reply(answer) end
  local said = type(answer) == 'table' and answer.err or tostring(answer)
  if find(said, '^%-?WRONGTYPE') then
    said = 'PUNCTUAL data_damaged a key that begins with ' .. base .. " holds what is not punctual's; rename or delete it"
  end
  return redis.error_reply(said)
end

-- Whether arguments are words: one packed argument has a byte that no name, id or token has.
function Text.is_words(args, packed_bytes)
  return #args ~= 1 or #args[1] < packed_bytes or not find(args[1], '[%z\128-\255]')
end

Text.shown, Text.is_utf8, Text.is_hostile, Text.is_id, Text.base64_digits = shown, is_utf8, is_hostile, is_id, BASE64
Text.check_name, Text.check_key, Text.unbase64 = check_name, check_key, unbase64
Text.read_id, Text.read_token, Text.read_number, Text.read_options, Text.read_target = read_id, read_token, read_number, read_options, read_target
Text.draw, Text.MS_MAX = draw, MS_MAX

end
