-- Guards: effects that take place only while a record has the version that they were made under;
-- and the effect that cancels by a unique key.
do

-- The version of a record, 0 if there is none; and what is stored of it.
local function version_of(name)
  local known = call('HGET', S.k.rec, name)
  return known and at8(known) or 0, known
end

-- The version of the record of a guard that does not hold; nil if it holds.
function Settle.guard_conflict(guard)
  local version = version_of(guard[1])
  if version == guard[2] then return nil end
  return version
end

-- Checks `flag 1 | queue length 1 | queue | key`; flag 1: other shards may have the key.
function Check.cancel(bytes, index)
  local flag, length = byte(bytes, 1, 2)
  if not length or flag > 1 then refuse('invalid_input', 'an effect is cut short index=' .. index) end
  Check.name('queue', sub(bytes, %CANCEL_KEY_AT%, 2 + length))
  Check.key('unique key', sub(bytes, 3 + length))
end

-- Cancels the job that holds a unique key, `queue length 1 | queue | key`; whether one holds it
-- here.
function Settle.cancel(bytes)
  local length = byte(bytes)
  local holder = Unique.holder(sub(bytes, 2, 1 + length), sub(bytes, 2 + length))
  if not holder then return false end
  Edit.one(holder.id, %EDIT_CANCEL%, {}, false)
  return true
end

-- Refuses bytes under the name of settings.
local function may_be_of_bytes(name)
  local kind = name:match('^(%a+)/')
  if kind == 'queue' or kind == 'limit' or kind == 'schedule' then refuse('invalid_input', 'record is not of its kind; see docs/wire-protocol.md') end
end

-- Compares the version of a record, writes it if asked, and causes effects, which `max_pending` may
-- refuse. `no`: random bytes for ids in the outbox.
function Control.guarded(map)
  Check.name('record', map.na)
  if not map.no or not map.ef or map.v ~= nil and byte(map.v) ~= %VALUE_OPAQUE% then
    refuse('invalid_input', 'a guarded call names `no` and `ef`, and its record is of bytes; see docs/wire-protocol.md')
  end
  if map.v then may_be_of_bytes(map.na) end
  for i, effect in ipairs(map.ef) do Settle.check_effect(effect[1], effect[2], i - 1) end
  local version, known = version_of(map.na)
  if version ~= (map.ex or 0) then return {gc = 1, ve = version, v = known and sub(known, %VALUE_KIND_AT%) or nil} end
  for _, effect in ipairs(map.ef) do -- a queue whose keys are not ours is refused before anything is changed
    if effect[1] == %EFFECT_JOB% then Row.of(sub(effect[2], %EFFECT_NAME_AT%, %EFFECT_QUEUE_AT% + byte(effect[2], %EFFECT_QUEUE_AT%))) end
  end
  if map.v then
    M.version, M.rest = M.version + 1, nil
    version = M.version
    call('HSET', S.k.rec, map.na, u8(version) .. map.v)
  end
  local out = {}
  for i, effect in ipairs(map.ef) do out[i] = Settle.bring_about(map.no, effect, true) end
  return {ve = version, vs = concat(out)}
end

-- The version of a record alone.
function Control.version(map) return {ve = version_of(Check.name('record', map.na))} end

-- Keeps a record of the first shard under its version there, unless a later one is kept; `ex`: that
-- one is of a write that the first shard has lost.
function Control.copy(map)
  Check.name('record', map.na)
  if not map.ve or type(map.v) ~= 'string' or byte(map.v) ~= %VALUE_OPAQUE% then refuse('invalid_input', 'a copy has a version and a value of bytes') end
  may_be_of_bytes(map.na)
  local version = version_of(map.na)
  if version < map.ve or version == map.ex then call('HSET', S.k.rec, map.na, u8(map.ve) .. map.v) end
  return {ve = map.ve}
end

end
