-- Schedules: how each stands, and its instants to come. `BASE:rec` has under `schedule/NAME`
-- version 8 | 2 | map: what its user wrote. `BASE:sc`: name to its row, version 1 | flags 1 |
-- searched 8 | pending 8 | last 8 | fired 6 | skipped 6 | missed 6 | used 2 | listed 2 |
-- tz database; `~` and the name to the `listed` instants that a calendar named, 8 each, of which
-- the first `used` ones are past. Spans and fixed instants are sums, and have no list; `+` and the
-- name to expected from 8 | instant of the last run that completed 8, finished 8, result, where
-- one did. `BASE:sn`: names; `BASE:sl`: those whose list is short, by since when, or by when
-- `maintain` last named them; `BASE:sx`: by when a run of them is expected to complete.
do

local ROW, ROW_BYTES, ROW_VERSION = '>BBI8I8I8I6I6I6I2I2', 48, 1
local COMPLETE, PENDING, FIRED, LOW, OLD = 1, 2, 4, 8, 16 -- flags of a row
-- Instants of sums that one call examines, over all schedules.
local INSTANTS_MAX = 1024
local MISSED_MAX = 100
-- Numbers are exact up to there, in the year 2255.
local FAR = 2 ^ 53

-- What was read last, by its bytes, and how many.
local parsed, parsed_count = {}, 0

-- The state of a draw after bytes: see *Retry* in docs/wire-protocol.md.
local function drawn(state, bytes)
  for i = 1, #bytes do state = (state * 48271 + byte(bytes, i)) % 2147483647 end
  return state
end

local function read_value(name, value)
  if byte(value) ~= %VALUE_SCHEDULE% then return nil end
  local map = mp.unpack(sub(value, 2))
  local spec = mp.unpack(map.sp)
  local every, at = {}, {}
  for i, one in ipairs(spec.ev or {}) do every[i] = {one[1], one[2] or 0} end
  for i = 1, #(spec.at or ''), 8 do at[#at + 1] = at8(spec.at, i) end
  return {
    map = map, sp = map.sp, job = map.jb, front = sub(map.id, %RUN_FRONT%), middle = byte(map.id, %RUN_MIDDLE_AT%), low = byte(map.id, %RUN_LOW_AT%) - byte(map.id, %RUN_LOW_AT%) % 64,
    every = every, at = at, start = spec.st or 0, stop = min(spec.en or FAR, FAR), most = spec.mr, sums = not spec.pt and not spec.ex,
    jitter = floor((spec.ji or 0) / 1000), seed = spec.ji and drawn(1, name), has_group = map.ov == 3 or (map.ow or 0) >= 2,
    queue = sub(map.jb, %SPEC_NAME_AT%, %SPEC_QUEUE_AT% + byte(map.jb, %SPEC_QUEUE_AT%)),
    missed = map.mi or 0, late = map.mv or 0, paused = map.pa == 1, within = map.xw,
  }
end

-- What a user wrote, of its bytes; nil if they are rubbish.
local function schedule_of(name, raw)
  local key = name .. '\0' .. sub(raw, %VALUE_KIND_AT%)
  local s = parsed[key]
  if s then return s end
  local ok, read = pcall(read_value, name, sub(raw, %VALUE_KIND_AT%))
  if not ok or not read then return nil end
  if parsed_count >= 500 then parsed, parsed_count = {}, 0 end
  if #key < 4096 then parsed[key], parsed_count = read, parsed_count + 1 end
  return read
end

local function new_row(searched)
  return {searched = searched, ahead = {}, list = '', used = 0, fired = 0, skipped = 0, missed = 0, tz = ''}
end

local function set_list(row, list) row.list, row.used, row.has_new_list = list, 0, true end

local function read_row(raw, list)
  if not raw or #raw < ROW_BYTES or byte(raw) ~= ROW_VERSION then return nil end
  local row = new_row(0)
  local flags, pending, last
  local _
  local listed
  _, flags, row.searched, pending, last, row.fired, row.skipped, row.missed, row.used, listed = unp(ROW, raw)
  row.complete, row.low, row.old = flags % 2 == 1, flags % 16 >= LOW, flags % 32 >= OLD
  if flags % 4 >= PENDING then row.pending = pending end
  if flags % 8 >= FIRED then row.last = last end
  row.tz, row.list = sub(raw, ROW_BYTES + 1), list or ''
  if #row.list ~= 8 * listed or row.used > listed then -- it was lost: what follows is to be named again
    row.searched, row.complete, row.list_is_lost = max(S.now, row.pending or 0) + 1, false, true
    set_list(row, '')
  end
  return row
end

local function write_row(one)
  local row = one.row
  local ahead = row.ahead[1]
  local flags = (row.complete and not ahead and COMPLETE or 0) + (row.pending and PENDING or 0) + (row.last and FIRED or 0) + (row.low and LOW or 0) + (row.old and OLD or 0)
  local raw = pack(ROW, ROW_VERSION, flags, ahead or row.searched, row.pending or 0, row.last or 0, row.fired, row.skipped, row.missed, row.used, #row.list / 8) .. row.tz
  local fields = S.gathered_runs and S.gathered_runs.rows or {}
  local n = #fields
  fields[n + 1], fields[n + 2] = one.name, raw
  if row.has_new_list then
    row.has_new_list, fields[n + 3], fields[n + 4] = nil, '~' .. one.name, row.list
  end
  if not S.gathered_runs then Schedule.write_rows(fields) end
end

-- Writes rows. A foreign key there stops no other job; `maintain` says so.
function Schedule.write_rows(fields)
  if #fields > 0 then redis.pcall('HSET', S.k.sc, unpack_list(fields)) end
end

-- The id of the run of an instant.
local function id_of(s, at)
  local bytes = u8(at)
  return s.front .. char(s.middle, s.low + byte(bytes, 2) % 64) .. sub(bytes, %RUN_REST_AT%)
end

-- When the run of an instant is due: later by the jitter.
local function due_of(s, at)
  if s.jitter == 0 then return at end
  local draw = drawn(s.seed, u8(at) .. '\0\0') % 1048576
  return at + floor((s.jitter + 1) * draw / 1048576) * 1000
end

-- The first instant that sums name, from one on.
local function next_sum(s, from)
  from = max(from, s.start)
  local first = nil
  for i = 1, #s.every do
    local span, at = s.every[i][1], s.every[i][2]
    if from > at then
      local over = (from - at) % span
      at = over == 0 and from or from + span - over
    end
    if not first or at < first then first = at end
  end
  for i = 1, #s.at do
    local at = s.at[i]
    if at >= from and (not first or at < first) then first = at end
  end
  return first and first <= s.stop and first or nil
end

-- The k-th instant to come: nil if there is none, false if it is not known here.
local function nth(s, row, k)
  if s.sums then
    local ahead = row.ahead
    while #ahead < k do
      if row.complete then return nil end
      if (S.instants or 0) >= INSTANTS_MAX then return false end
      S.instants = (S.instants or 0) + 1
      local at = next_sum(s, row.searched)
      if not at then
        row.complete = true
        return nil
      end
      ahead[#ahead + 1], row.searched = at, at + 1
    end
    return ahead[k]
  end
  local from = 8 * (row.used + k - 1) + 1
  if from + 7 <= #row.list then return at8(row.list, from) end
  if row.complete then return nil end
  return false
end

-- Takes the first instant off those to come.
local function take(s, row)
  if s.sums then table.remove(row.ahead, 1) else row.used = row.used + 1 end
end

-- Whether a run that is due is too late, in view of the instants to come but so many; nil if that
-- takes instants that are not known.
local function is_missed(s, row, due, passed)
  if due > S.now then return false end
  local later = min(s.late, MISSED_MAX)
  if s.missed ~= 1 then
    if S.now - due <= s.late then return false end
    if s.missed == 2 then return true end
    later = 1
  end
  for k = 1, later do
    local at = nth(s, row, passed + k)
    if at == false then return nil end
    if not at or due_of(s, at) > S.now then return false end
  end
  return true
end

-- Whole spans in a stretch of time.
local function spans_in(stretch, span) return stretch > 0 and (stretch - stretch % span) / span or 0 end

-- Passes over all instants of a span that are missed, without a look at each.
local function pass_missed(s, row)
  if not s.sums or #s.every ~= 1 or #s.at > 0 then return end
  local span = s.every[1][1]
  local first = next_sum(s, row.ahead[1] or row.searched)
  if not first or first > S.now then return end
  local last_ones, grace = 1, s.late
  if s.missed == 1 then last_ones, grace = min(s.late, MISSED_MAX), 0 end
  local before_last = spans_in(min(S.now, s.stop) - first, span) - last_ones - 1
  local too_late = spans_in(S.now - grace - s.jitter * 1000 - first, span)
  local passed = min(before_last, too_late)
  if passed <= 0 then return end
  row.missed, row.ahead, row.searched, row.complete = row.missed + passed, {}, first + span * passed, false
end

Schedule.MISSED_MAX = MISSED_MAX
Schedule.schedule_of, Schedule.new_row, Schedule.read_row, Schedule.write_row, Schedule.set_list = schedule_of, new_row, read_row, write_row, set_list
Schedule.id_of, Schedule.due_of, Schedule.next_sum, Schedule.nth, Schedule.take = id_of, due_of, next_sum, nth, take
Schedule.is_missed, Schedule.pass_missed = is_missed, pass_missed

end
