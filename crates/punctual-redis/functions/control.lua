-- control: pause, resume, purge, delete, and named versioned records, `BASE:rec`: name to version 8
-- | value.
do

local function obey(name, value)
  local r = Row.of(name)
  local settings = value and byte(value) == 0 and mp.unpack(sub(value, 2)) or {}
  set_flag(r, %ROW_BOUNDED%, settings.mp ~= nil)
  set_flag(r, %ROW_DEAD_LETTERS%, settings.of == 1)
  r.max, r.rest = min(settings.mp or 0, 2 ^ 53), nil
end

local function write_record(map)
  local key = S.k.rec
  local known = call('HGET', key, map.na)
  local version = known and at8(known) or 0
  if version ~= (map.ex or 0) then
    refuse('version_conflict', 'record was changed since it was read; read it again version=' .. fmt('%d', version))
  end
  Sweep.run()
  M.version, M.rest = M.version + 1, nil
  if sub(map.na, 1, 6) == 'queue/' then obey(sub(map.na, 7), map.v) end
  if map.v then call('HSET', key, map.na, u8(M.version) .. map.v) else call('HDEL', key, map.na) end
  return {ve = M.version}
end

-- Fields of unique keys that one step of a delete looks at.
local KEYS_MAX = 500

-- Jobs of a queue by state; nil if it has none.
local function jobs_of(r)
  local counts, all = {}, 0
  for state = HELD, DEAD do
    counts[#counts + 1] = r.c[state]
    all = all + r.c[state]
  end
  return all > 0 and counts or nil
end

-- Frees the unique keys that settled jobs of a queue hold for a period, a bounded number; where to
-- go on.
local function free_keys(q, cursor)
  local answer = call('HSCAN', S.k.u, cursor, 'COUNT', KEYS_MAX)
  local fields, prefix = answer[2], q .. '\0'
  for i = 1, #fields, 2 do
    if sub(fields[i], 1, #prefix) == prefix then
      call('HDEL', S.k.u, fields[i])
      call('ZREM', S.k.up, fields[i])
    end
  end
  return answer[1] ~= '0' and answer[1] or nil
end

-- Deletes a queue that has no jobs, in steps (`st`): 0 looks whether it has any, 1 frees keys from
-- `cu` on, 2 deletes.
-- Answers its jobs by state if it has any.
local function delete_queue(map)
  local r, record = Row.find(map.q), 'queue/' .. map.q
  local jobs = r and jobs_of(r) or nil -- `find` answers false where there is no row
  if jobs or map.st == 0 then return {c = jobs} end
  if map.st == 1 then return {cu = free_keys(map.q, map.cu or '0')} end
  local has_settings = call('HDEL', S.k.rec, record) > 0
  if has_settings then M.version, M.rest = M.version + 1, nil end
  if r then Row.forget(r) end
  return {d = (r or has_settings) and 1 or 0}
end

local ACTIONS = {
  [0] = function(map)
    local r = Row.of(map.q)
    local was = flag(r, %ROW_PAUSED%)
    set_flag(r, %ROW_PAUSED%, true)
    return {d = was and 0 or 1}
  end,
  function(map)
    local r = Row.of(map.q)
    local was = flag(r, %ROW_PAUSED%)
    set_flag(r, %ROW_PAUSED%, false)
    if was then r.notify = 3 end
    return {d = was and 1 or 0}
  end,
  function(map)
    local examined, matched, cursor = Edit.purge(map.q, Inspect.limit(map.li or 1000, true), map.cu)
    return {ex = examined, ma = matched, cu = cursor}
  end,
  function(map)
    local known = call('HGET', S.k.rec, map.na)
    return known and {ve = at8(known), v = sub(known, 9)} or {}
  end,
  function(map)
    local names, prefix = {}, map.na or ''
    for _, name in ipairs(call('HKEYS', S.k.rec)) do
      if sub(name, 1, #prefix) == prefix then names[#names + 1] = name end
    end
    table.sort(names, below)
    return {na = slice(names, 1, 1000)}
  end,
  write_record,
  function(map)
    M.limits_raw, M.rest = mp.pack(map.v or {}), nil
    S.limits = limits_of(M)
    WINDOW = S.limits.settled_window
    return {}
  end,
  delete_queue,
}

-- control. Key: base. Argument: instance, map {c, ...}. Reply: map.
function Control.call(base, blob)
  local map = Check.map('control', blob)
  local act = ACTIONS[map.c]
  if not act then refuse('invalid_input', 'no such control') end
  Check.control(map)
  Shard.open(base, sub(blob, 1, 8))
  if act ~= write_record then Sweep.run() end
  local ok, answer = attempt(act, map)
  Shard.commit() -- what the sweep has moved
  if not ok then error(answer) end
  answer.n, answer.i = S.now, M.instance
  return mp.pack(answer)
end

end
