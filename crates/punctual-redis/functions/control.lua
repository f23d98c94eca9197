-- control: pause, resume, purge, delete, and named versioned records, `BASE:rec`: name to version 8
-- | value.
do

local function obey(name, value)
  local r = Row.of(name)
  local settings = value and byte(value) == %VALUE_SETTINGS% and mp.unpack(sub(value, 2)) or {}
  Share.bound(r, settings.sm, M.version)
  set_flag(r, %ROW_BOUNDED%, settings.mp ~= nil or settings.sm ~= nil)
  set_flag(r, %ROW_DEAD_LETTERS%, settings.of == 1)
  r.max, r.rest = min(settings.mp or settings.sm and 2 ^ 53 or 0, 2 ^ 53), nil
  Gate.set(r, settings)
  Share.set(r, settings)
end

-- Refuses limits where a namespace is cut into shards: each would let that many jobs start.
local function may_limit(value)
  local settings = value and byte(value) == %VALUE_SETTINGS% and mp.unpack(sub(value, 2)) or {}
  if (value and byte(value) == %VALUE_LIMIT% or settings.lc or settings.lr or settings.sc or settings.sr or settings.sm) and (tonum(call('HGET', S.k.s, 'n') or nil) or 1) > 1 then
    refuse('unsupported', 'a namespace that is cut into shards keeps no limits, as each shard would let that many start; use another namespace, at an address without `shards`, for limited queues and named limits')
  end
end

local function write_record(map)
  local key = S.k.rec
  local known = call('HGET', key, map.na)
  local schedule_name = sub(map.na, %RECORD_SCHEDULE%) == 'schedule/' and sub(map.na, %RECORD_SCHEDULE_NAME_AT%)
  local version = known and (schedule_name and Schedule.version(schedule_name, known) or at8(known)) or 0
  if version ~= (map.ex or 0) then
    refuse('version_conflict', 'record was changed since it was read; read it again version=' .. fmt('%d', version))
  end
  local limit = sub(map.na, %RECORD_LIMIT%) == 'limit/' and sub(map.na, %RECORD_LIMIT_NAME_AT%)
  if limit or sub(map.na, %RECORD_QUEUE%) == 'queue/' then may_limit(map.v) end
  if limit then Named.may_write(limit, known, map.v) end
  Sweep.run()
  M.version, M.rest = M.version + 1, nil
  if sub(map.na, %RECORD_QUEUE%) == 'queue/' then obey(sub(map.na, %RECORD_QUEUE_NAME_AT%), map.v) end
  if schedule_name then Schedule.write(schedule_name, known, map) end
  if map.v then call('HSET', key, map.na, u8(M.version) .. map.v) else call('HDEL', key, map.na) end
  if limit then Named.set(limit, known, map.v) end
  return {ve = M.version}
end

-- Fields of unique keys that one step of a delete examines.
local KEYS_MAX = 500

-- Jobs of a queue by state; nil if it has none.
local function jobs_of(r)
  local counts, all = {}, 0
  for state = HELD, DEAD do
    counts[#counts + 1] = r.counts[state]
    all = all + r.counts[state]
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

-- Deletes a queue that has no jobs, in steps (`st`): 0 counts them, 1 frees keys from
-- `cu` on, 2 deletes.
-- Answers its jobs by state if it has any.
local function delete_queue(map)
  local r, record = Row.find(map.q), 'queue/' .. map.q
  local jobs = r and jobs_of(r) or nil -- `find` answers false where there is no row
  if jobs or map.st == 0 then return {c = jobs, sc = jobs and Schedule.of_queue(r) or nil} end
  if map.st == 1 then return {cu = free_keys(map.q, map.cu or '0')} end
  local has_settings = call('HDEL', S.k.rec, record) > 0
  if has_settings then M.version, M.rest = M.version + 1, nil end
  if r then Row.forget(r) end
  return {d = (r or has_settings) and 1 or 0}
end

-- A clock that is less ahead than this catches up by itself.
local AHEAD_MIN = 1e6

-- Forgets who leads and who was seen at instants that have not come yet.
local function forget_the_future(now)
  local all, gone = call('HGETALL', S.k.s), {'te'}
  for i = 1, #all, 2 do
    local kind = sub(all[i], 1, 1)
    if kind == 'q' then
      local r = Row.of(sub(all[i], 2))
      r.leader_wake, r.leader, r.short = 0, '', min(r.short, now)
    elseif kind == 'w' or kind == 'f' then
      gone[#gone + 1] = all[i]
    end
  end
  call_many('HDEL', S.k.s, gone)
  call('DEL', S.k.wk)
  M.workers, M.workers_kept = nil, nil
end

-- Ends leases whatever their deadline, the first ones first: their jobs return to the front.
local function end_leases(limit)
  local ended = 0
  while ended < limit do
    local first = call('ZRANGE', S.k.e, 0, 0, 'WITHSCORES')
    if not first[1] then break end
    S.now = max(S.now, tonum(first[2]))
    ended = ended + max(1, Lease.rescue(limit - ended))
  end
  M.last = max(M.last, S.now)
end

-- Sets engine time back to the server's clock (`dy`: only says what would be done). Refused while
-- workers were seen or leases are open, unless `fo`; then those end. `mo`: there are more of them,
-- come again.
local function set_clock_back(map)
  local ahead, workers, leases = max(0, Shard.ahead()), #Workers.all(), call('EXISTS', S.k.e)
  local answer = {ah = ahead, wk = workers, le = leases, d = 0}
  if map.dy == 1 or ahead < AHEAD_MIN or (workers > 0 or leases == 1) and map.fo ~= 1 then return answer end
  if leases == 1 then end_leases(125) end
  if call('EXISTS', S.k.e) == 1 then
    answer.mo = 1
    return answer
  end
  local now = M.last - Shard.ahead()
  forget_the_future(now)
  Shard.set_back(now)
  answer.d = 1
  return answer
end

-- Records that one call for names reads: each may have 64 KiB.
local NAMES_MAX = 100

local ACTIONS = {
  [%CONTROL_PAUSE%] = function(map)
    local r = Row.of(map.q)
    local was = flag(r, %ROW_PAUSED%)
    set_flag(r, %ROW_PAUSED%, true)
    return {d = was and 0 or 1}
  end,
  [%CONTROL_RESUME%] = function(map)
    local r = Row.of(map.q)
    local was = flag(r, %ROW_PAUSED%)
    set_flag(r, %ROW_PAUSED%, false)
    if was then r.notify = 3 end
    return {d = was and 1 or 0}
  end,
  [%CONTROL_PURGE%] = function(map)
    local examined, matched, cursor = Edit.purge(map.q, Inspect.limit(map.li or 1000, true), map.cu)
    return {ex = examined, ma = matched, cu = cursor}
  end,
  [%CONTROL_READ%] = function(map)
    local known = call('HGET', S.k.rec, map.na)
    return known and {ve = at8(known), v = sub(known, %VALUE_KIND_AT%)} or {}
  end,
  [%CONTROL_NAMES%] = function(map)
    local answer = call('HSCAN', S.k.rec, map.cu or '0', 'MATCH', (map.na or '') .. '*', 'COUNT', min(Inspect.limit(map.li or 1000, true), NAMES_MAX))
    local names, found = {}, answer[2]
    for i = 1, #found, 2 do names[#names + 1] = found[i] end
    table.sort(names, below)
    return {na = names, cu = answer[1] ~= '0' and answer[1] or nil}
  end,
  [%CONTROL_WRITE%] = write_record,
  [%CONTROL_BOUNDS%] = function(map)
    M.limits_raw, M.rest = mp.pack(map.v or {}), nil
    S.limits = limits_of(M)
    WINDOW = S.limits.settled_window
    return {}
  end,
  [%CONTROL_DELETE%] = delete_queue,
  [%CONTROL_CLOCK%] = set_clock_back,
  [%CONTROL_BLOCK_SHARE%] = function(map) return {d = Share.block(map.q, map.sk, map.sp) and 1 or 0} end,
  [%CONTROL_BLOCKED_SHARES%] = function(map) return Share.list_blocked(map.q, map.cu or '0', Inspect.limit(map.li or 1000, true)) end,
  [%CONTROL_BLOCK_LIMIT%] = function(map)
    may_limit('\%VALUE_LIMIT%')
    return {d = Named.block(map.na, map.sp) and 1 or 0}
  end,
  [%CONTROL_LIMIT%] = function(map) return {l = Named.read(map.na)} end,
  [%CONTROL_LIMITS%] = function(map) return {l = Named.list(map.af or '', Inspect.limit(map.li or 200, true))} end,
  [%CONTROL_SCHEDULES%] = Schedule.list,
  [%CONTROL_SCHEDULE%] = Schedule.act,
  [%CONTROL_REFILL%] = Schedule.refill,
  [%CONTROL_COUNT_SCHEDULES%] = Schedule.count,
  [%CONTROL_FLOWS%] = Flow.list,
  [%CONTROL_FLOW%] = Flow.act,
  [%CONTROL_DEPENDANTS%] = Flow.dependants,
  [%CONTROL_GUARDED%] = Control.guarded,
  [%CONTROL_COPY%] = Control.copy,
  [%CONTROL_VERSION%] = Control.version,
}

-- control. Key: base. Argument: instance, map {c, ...}. Reply: map.
function Control.call(base, blob)
  local map = Check.map('control', blob)
  local act = ACTIONS[map.c]
  if not act then refuse('invalid_input', 'no such control') end
  Check.control(map)
  Shard.open(base, sub(blob, %CALL_INSTANCE%))
  if act ~= write_record then Sweep.run() end
  local ok, answer = attempt(act, map)
  Shard.commit() -- what the sweep has moved
  if not ok then error(answer) end
  answer.n, answer.i = S.now, M.instance
  return mp.pack(answer)
end

end
