-- Schedules: the job of the next run, and what their users write.
do

local id_of, due_of, nth, set_list = Schedule.id_of, Schedule.due_of, Schedule.nth, Schedule.set_list
-- A list is short with fewer instants, or if it is half empty and reaches less far ahead.
local LOW_MIN, HALF, REACH = 8, 128, 1800e6
-- Why a run is cancelled.
Schedule.SKIPPED, Schedule.MISSED = 4, 5

-- Enqueues the run of an instant, where it waits for its due; whether it did: its id may be known.
local function enqueue(s, at)
  local id, due = id_of(s, at), due_of(s, at)
  if S.gathered_runs and Schedule.gather(s, id, due) then return true end
  local due8 = u8(due)
  if Schedule.is_known(id) then return false end
  local j = Job.parse(id, '\%TAG_PLAIN%' .. u8(S.now) .. S.sub .. due8 .. s.job)
  local r = Row.of(j.q)
  note(r, 1, 1)
  Job.save(j)
  Schedule.wait_for_due(r, j)
  return true
end

local function is_low(s, row)
  if row.old then return true end
  if row.complete then return false end
  if not row.pending then return true end
  if s.sums then return false end
  local left = #row.list / 8 - row.used
  local last = #row.list > 0 and at8(row.list, #row.list - 7) or 0
  return left < max(LOW_MIN, s.missed == 1 and s.late or 0) or left < HALF and last - S.now < REACH
end

-- Enqueues the next run, if none is to come, passes over what is missed, and writes the row.
local function advance(one)
  local s, row = one.s, one.row
  if s.most and row.fired >= s.most then
    row.ahead, row.complete = {}, true
    if row.used * 8 < #row.list then set_list(row, '') end
  end
  while not row.pending do
    Schedule.pass_missed(s, row)
    local at = nth(s, row, 1)
    if not at then break end
    local missed = Schedule.is_missed(s, row, due_of(s, at), 1)
    if missed == nil then break end
    Schedule.take(s, row)
    if missed then
      row.missed = row.missed + 1
    elseif enqueue(s, at) then
      row.pending = at
    end
  end
  local low = is_low(s, row)
  if low then redis.pcall('ZADD', S.k.sl, 'NX', fmt('%d', S.now), one.name) elseif row.low then redis.pcall('ZREM', S.k.sl, one.name) end
  row.low = low
  Schedule.write_row(one)
  if s.within and Schedule.has_ended(row) then redis.pcall('ZREM', S.k.sx, one.name) end
end

-- Reads a hash whatever stands under the key: a foreign key stops no other job.
local function fields_of(key, ...)
  local answer = redis.pcall('HMGET', key, ...)
  return answer.err and {} or answer
end

-- A schedule with its row, read once a call; false if there is none. A row that is gone, or is
-- rubbish, begins anew.
function Schedule.load(name)
  local all = S.schedules
  if not all then
    all = {}
    S.schedules = all
  end
  local one = all[name]
  if one ~= nil then return one end
  local read = S.schedules_read and S.schedules_read[name]
  local raw = read and read[1] or fields_of(S.k.rec, 'schedule/' .. name)[1]
  local s = raw and #raw > 9 and Schedule.schedule_of(name, raw)
  if not s then
    all[name] = false
    return false
  end
  local row, list = read and read[2], read and read[3]
  if not row then
    local stored = fields_of(S.k.sc, name, '~' .. name)
    row, list = stored[1], stored[2]
  end
  one = {name = name, s = s, raw = raw, version = at8(raw), row = Schedule.read_row(row, list)}
  all[name] = one
  if one.row and one.row.list_is_lost then advance(one) end
  if not one.row then
    one.row, S.lost = Schedule.new_row(S.now + 1), true
    set_list(one.row, '')
    advance(one)
  end
  return one
end

-- Removes all that says how a schedule stands.
function Schedule.drop(name)
  call('HDEL', S.k.sc, name, '~' .. name, '+' .. name)
  call('ZREM', S.k.sn, name)
  call('ZREM', S.k.sl, name)
  redis.pcall('ZREM', S.k.sx, name)
end

-- Puts a schedule right, whatever of it was lost.
function Schedule.heal(name)
  local one = Schedule.load(name)
  if not one then
    if fields_of(S.k.rec, 'schedule/' .. name)[1] then return end -- rubbish: a write puts it right
    Schedule.drop(name)
    return
  end
  call('ZADD', S.k.sn, 0, name)
  local row = one.row
  local j = row.pending and Job.load(id_of(one.s, row.pending))
  if row.pending and not (j and j.tag <= %TAG_HELD%) then row.pending, row.skipped = nil, row.skipped + 1 end
  if row.low or not row.pending then advance(one) end
  Schedule.expect(one)
end

-- The version that a write of a schedule must name; 0 if what stands there is rubbish.
function Schedule.version(name, raw) return #raw > 9 and Schedule.schedule_of(name, raw) and at8(raw) or 0 end

-- Forgets what this call knows of a schedule.
local function forget(name) if S.schedules then S.schedules[name] = nil end end

-- Removes a run that is to be replaced, and leaves nothing of it.
local function discard(s, at)
  local j = Job.load(id_of(s, at))
  if not j or j.tag > %TAG_HELD% then return end
  Place.out(j)
  Job.drop(j.id)
end

-- The instants of a list that are after one.
local function after(list, at)
  local from = 1
  while from + 7 <= #list and at8(list, from) <= at do from = from + 8 end
  return sub(list, from)
end

-- Refuses one more schedule than there may be; `others` are those of other shards.
local function check_count(others)
  local most = S.limits.schedules
  if call('ZCOUNT', S.k.sn, '-inf', '+inf') + others < most then return end
  refuse('conflict', fmt('namespace has %d schedules, the most that it may have; remove some', most))
end

-- Obeys a schedule that is written, or removed. A change counts from now on. `before`: what stood
-- there; map: `v` the value, `ne` the first instants of its calendar, `se` from where on it is to
-- be asked again, `co` 1 if there are no more, `tz` its tz database.
function Schedule.write(name, before, map)
  if not map.v then
    local one = before and Schedule.load(name)
    if one and one.row.pending then discard(one.s, one.row.pending) end
    Schedule.drop(name)
    return forget(name)
  end
  if not before then check_count(map.ot or 0) end
  local known = before and Schedule.load(name)
  forget(name)
  local raw = u8(M.version) .. map.v
  local one = {name = name, s = Schedule.schedule_of(name, raw), raw = raw, version = M.version, row = known and known.row or Schedule.new_row(S.now + 1)}
  local s, row, was = one.s, one.row, known and known.s
  local same_spec = was and was.sp == s.sp
  local same_job = was and was.job == s.job
  local at = row.pending
  if at and not (same_spec and same_job) then
    discard(was, at)
    row.pending = nil
    if same_spec and s.sums then
      table.insert(row.ahead, 1, at)
    elseif same_spec then
      set_list(row, u8(at) .. sub(row.list, 8 * row.used + 1))
    end
  end
  if not same_spec then
    row.ahead, row.searched, row.complete, row.tz, row.old = {}, S.now + 1, false, '', false
    set_list(row, '')
    if not s.sums and map.se then
      set_list(row, after(map.ne or '', S.now))
      row.searched, row.complete, row.tz = max(at8(map.se), S.now + 1), map.co == 1, map.tz or ''
    end
  end
  call('ZADD', S.k.sn, 0, name)
  S.schedules = S.schedules or {}
  S.schedules[name] = one
  advance(one)
  local is_news = not was or was.paused or was.within ~= s.within or not same_spec
  if s.within then Schedule.expect(one, is_news and S.now or nil) elseif was and was.within then redis.pcall('ZREM', S.k.sx, name) end
end

Schedule.advance, Schedule.discard, Schedule.after, Schedule.fields_of = advance, discard, after, fields_of

end
