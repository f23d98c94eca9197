-- Records by id, in 32 hashes `BASE:b:PART`, so that none becomes too large to move to another
-- server. The part of an id is bits 9 to 13 of its milliseconds: ids that are made within half a
-- second have the same one, so most calls need one hash. Bundles are in hashes by their numbers,
-- which have the microseconds of their call.
do

local ID_BYTE, NUMBER_BYTE = %PART_OF_ID%, %PART_OF_NUMBER%
--TEST ID_BYTE = 16 -- one that is random, so that the ids of a call are of many parts
local of_id, of_number = {}, {} -- part by the byte that has it
for value = 0, 255 do
  of_id[value] = (value - value % 2) / 2 % %PARTS%
  of_number[value] = (value - value % 8) / 8 % %PARTS%
end

local HASHES = {%PART_KEYS%} -- each one a part

-- The keys of a shard that are one a part, by name and part; and since when each is a table.
function Records.keys_of_parts(base)
  local k = {tables = {}}
  for _, name in ipairs(HASHES) do
    k[name] = {}
    for part = 0, %PARTS% - 1 do k[name][part] = base .. ':' .. name .. ':' .. part end
  end
  return k
end

-- Refuses keys that another program made: of `all` parts, or of one, another each second.
function Records.check(base, all, not_ours)
  if all and call('EXISTS', base .. ':b') == 1 then
    refuse('data_damaged', 'key ' .. base .. ':b has records of a version before the first; export them with that one, rename or delete it, and import them')
  end
  local turn = call('TIME')[1] % %PARTS%
  for part = all and 0 or turn, all and %PARTS% - 1 or turn do
    for _, name in ipairs(HASHES) do
      local key = base .. ':' .. name .. ':' .. part
      local answer = redis.pcall('HGET', key, '')
      if type(answer) == 'table' and answer.err then not_ours(key) end
    end
  end
end

-- The hash that an id is in, of those of a shard.
function Records.key(b, id) return b[of_id[byte(id, ID_BYTE) or 0]] end

-- The same where no shard is open.
function Records.key_in(base, id) return base .. ':b:' .. of_id[byte(id, ID_BYTE) or 0] end

-- The hash that a bundle's number is in, of those of a shard.
function Records.key_of_number(keys, no) return keys[of_number[byte(no, NUMBER_BYTE)]] end

-- The hash that all ids of a list are in, which stand `step` apart in it; nil if they are in
-- several.
local function only_key(list, step)
  local first = byte(list[1], ID_BYTE)
  local part = of_id[first]
  for i = 1 + step, #list, step do
    local one = byte(list[i], ID_BYTE)
    if one ~= first and of_id[one] ~= part then return nil end
  end
  return S.k.b[part]
end

-- The same for who asks more than once about a list; false if they are in several.
function Records.only_key(ids) return #ids > 0 and only_key(ids, 1) or false end

-- The same of n ids that stand one after the other in bytes from a place on, and their part; 255 if
-- they are in several.
function Records.key_of_bytes(bytes, from, n)
  local at_first = from + ID_BYTE - 1
  local first = byte(bytes, at_first)
  local part = of_id[first]
  for at = at_first + 16, from + 16 * n - 1, 16 do
    local one = byte(bytes, at)
    if one ~= first and of_id[one] ~= part then return false, 255 end
  end
  return S.k.b[part], part
end

-- The hash of a part; false for 255.
function Records.key_of_part(part) return S.k.b[part] or false end

-- A list of ids, or of ids and values, cut by part: lists, each with its hash, and the places if
-- they are asked for.
local function apart(list, step, places)
  local lists, by, b = {}, {}, S.k.b
  for i = 1, #list, step do
    local part = of_id[byte(list[i], ID_BYTE) or 0]
    local one = by[part]
    if not one then
      one = {key = b[part], n = 0, places = {}}
      by[part], lists[#lists + 1] = one, one
    end
    local n = one.n
    one[n + 1], one.n = list[i], n + step
    if step == 2 then one[n + 2] = list[i + 1] elseif places then one.places[n + 1] = i end
  end
  return lists
end

-- What stands under an id; false if nothing.
function Records.get(id) return call('HGET', Records.key(S.k.b, id), id) end

-- What stands under each of these ids. `key`, here and below: their only hash, if it is known.
function Records.get_many(ids, key)
  if #ids == 0 then return {} end
  key = key or key == nil and only_key(ids, 1)
  if key then return get_many(key, ids) end
  local out = {}
  for _, one in ipairs(apart(ids, 1, true)) do
    local found, places = get_many(one.key, one), one.places
    for k = 1, one.n do out[places[k]] = found[k] end
  end
  return out
end

-- Writes what is to stand under an id.
function Records.set(id, bytes) return call('HSET', Records.key(S.k.b, id), id, bytes) end

local function change(command, list, step, key)
  if #list == 0 then return 0 end
  key = key or key == nil and only_key(list, step)
  if key then return call_many(command, key, list) end
  local sum = 0
  for _, one in ipairs(apart(list, step)) do sum = sum + call_many(command, one.key, one) end
  return sum
end

local LONG_FROM, TABLE_FOR = 65, 10e6 -- bytes of a long value; us that a hash is known to be a table
local long

-- Lets the server make a hash a table before short values come: while it has a few hundred of them
-- and no long one, each access would read it from its start. Whether its long value is to be
-- deleted behind these: an empty hash would be no table any more.
local function be_table(k, key, now)
  local since = k.tables[key]
  if since and since <= now and now < since + TABLE_FOR or not allows('HDEL', key) then return false end
  long = long or rep('-', LONG_FROM)
  call('HSET', key, '', long)
  k.tables[key] = now
  return true
end

-- Writes short values to a hash that is a table: fields and values by turns. How many are new.
local function set_short(k, key, now, kv)
  local is_padded = be_table(k, key, now)
  local new = call_many('HSET', key, kv)
  if is_padded then call('HDEL', key, '') end
  return new
end
Records.set_short = set_short

-- Writes the record of a new id to a shard whose keys are `k`.
function Records.add(k, now, id, bytes)
  local key = Records.key(k.b, id)
  local is_padded = #bytes < LONG_FROM and be_table(k, key, now)
  call('HSET', key, id, bytes)
  if is_padded then call('HDEL', key, '') end
end

-- Writes records of new ids, a list of both; how many there were not.
function Records.add_many(kv, key)
  if #kv == 0 then return 0 end
  local is_short = #kv[2] < LONG_FROM
  key = key or key == nil and only_key(kv, 2)
  if key then
    if is_short then return set_short(S.k, key, S.now, kv) end
    return call_many('HSET', key, kv)
  end
  local sum = 0
  for _, one in ipairs(apart(kv, 2)) do
    sum = sum + (is_short and set_short(S.k, one.key, S.now, one) or call_many('HSET', one.key, one))
  end
  return sum
end

-- Writes what is to stand under ids, a list of both; how many are new.
function Records.set_many(kv, key) return change('HSET', kv, 2, key) end

-- Forgets an id; how many were there.
function Records.delete(id) return call('HDEL', Records.key(S.k.b, id), id) end

-- Forgets ids; how many were there.
function Records.delete_many(ids, key) return change('HDEL', ids, 1, key) end

-- A step of a scan of all of them, from a cursor on: ids and values, and the next cursor, `0` at
-- the end. A cursor is a part, a dot, and the cursor of its hash; `0.0` is the first.
function Records.scan(cursor, count)
  local dot = find(cursor, '.', 1, true)
  local part, at = tonum(sub(cursor, 1, dot - 1)), sub(cursor, dot + 1)
  local answer = call('HSCAN', S.k.b[part], at, 'COUNT', count)
  if answer[1] ~= '0' then return answer[2], part .. '.' .. answer[1] end
  return answer[2], part + 1 < %PARTS% and part + 1 .. '.0' or '0'
end

end
