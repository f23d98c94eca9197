-- Schedules: lists of instants that need more of them, which `maintain` reports.
do

local advance, set_list, after = Schedule.advance, Schedule.set_list, Schedule.after

-- Adds instants that a calendar named to a list, if that is as the process that asked it has seen
-- it. `an` 1: instead of those of an older tz database. Whether it did.
local function refill(map)
  local one = type(map) == 'table' and Schedule.load(map.na)
  if not one or one.version ~= map.ve or u8(one.row.searched) ~= map.se then return false end
  local s, row = one.s, one.row
  local list = sub(row.list, 8 * row.used + 1)
  if map.an == 1 then
    if row.pending and row.pending > S.now then
      Schedule.discard(s, row.pending)
      row.pending = nil
    end
    list = ''
  end
  set_list(row, list .. after(map.ne, max(row.pending or 0, map.an == 1 and S.now or 0)))
  row.searched, row.complete = at8(map.sn), map.co == 1
  if map.tz and below(map.tz, row.tz) then call('HSET', S.k.s, 'z', map.tz) end -- a newer one examines all again
  row.tz, row.old = map.tz or row.tz, false
  advance(one)
  return true
end

function Schedule.refill(map)
  local done = 0
  for _, one in ipairs(map.rf or {}) do if refill(one) then done = done + 1 end end
  return {d = done}
end

-- Lists that one `maintain` reports, or goes on with; bytes of its report; names whose tz
-- database it examines.
local REPORTED, REPORT_BYTES, EXAMINED_MAX = 64, 1048576, 100

-- With a newer tz database all lists are short: their instants may be others. The fields `z` and
-- `y` of `BASE:s` are the newest one, and the last name that was read.
local function refill_older(tz)
  local known = Schedule.fields_of(S.k.s, 'z', 'y')
  local newest, from = known[1], known[2]
  if not newest or below(newest, tz) then
    if call('EXISTS', S.k.sn) == 0 then return false end
    call('HSET', S.k.s, 'z', tz, 'y', '')
    newest, from = tz, ''
  end
  if not from then return false end
  local names = call('ZRANGEBYLEX', S.k.sn, from == '' and '-' or '(' .. from, '+', 'LIMIT', 0, EXAMINED_MAX)
  for _, name in ipairs(names) do
    local one = Schedule.load(name)
    if one and not one.s.sums and not one.row.old and below(one.row.tz, newest) then
      one.row.low, one.row.old = true, true
      call('ZADD', S.k.sl, 'NX', fmt('%d', S.now), name)
      Schedule.write_row(one)
    end
  end
  if #names < EXAMINED_MAX then call('HDEL', S.k.s, 'y') else call('HSET', S.k.s, 'y', names[#names]) end
  return #names == EXAMINED_MAX
end

-- Schedules that a process with calendars forgets, of the first ones whose list is short: names of
-- those that have had no run to come for over a minute; and name and last known instant of those
-- that still have one, although for over a minute nothing has refilled them.
local NEGLECTED_US, NEGLECTED_MAX = 60e6, 100
function Schedule.neglected()
  local found, dry, ending = redis.pcall('ZRANGE', S.k.sl, 0, NEGLECTED_MAX - 1, 'WITHSCORES'), {}, {}
  for i = 1, found.err and 0 or #found, 2 do
    local stored = Schedule.fields_of(S.k.sc, found[i], '~' .. found[i])
    local row = Schedule.read_row(stored[1], stored[2])
    if row and not row.complete then
      local left = #row.list - 8 * row.used
      if not row.pending then
        if S.now - row.searched > NEGLECTED_US then dry[#dry + 1] = found[i] end
      elseif S.now - tonum(found[i + 1]) > NEGLECTED_US or left == 0 and S.now - (row.last or 0) > NEGLECTED_US then
        ending[#ending + 1] = {found[i], left > 0 and sub(row.list, -8) or u8(row.pending)}
      end
    end
  end
  return #dry > 0 and dry or nil, #ending > 0 and ending or nil
end

-- Goes on with schedules whose list is short: with sums here; of calendars it answers name,
-- version, spec, from where on to ask, instants that are left, the last of them, missed ones that
-- are looked at, tz database. And whether there is more to do here.
function Schedule.maintain(tz)
  local more = tz and refill_older(tz) or false
  if call('EXISTS', S.k.sc) ~= call('EXISTS', S.k.sn) then -- one of them was lost
    Heal.note()
    more = true
  end
  local reported, bytes = {}, 0
  for _, name in ipairs(call('ZRANGE', S.k.sl, 0, REPORTED - 1)) do
    local one = Schedule.load(name)
    local s, row = one and one.s, one and one.row
    if not one then
      call('ZREM', S.k.sl, name)
    elseif s.sums then
      advance(one)
      more = more or row.low
    else
      bytes = bytes + #s.sp
      if bytes > REPORT_BYTES and #reported > 0 then break end
      local last = #row.list >= 8 and sub(row.list, -8) or u8(0)
      reported[#reported + 1] = {name, one.version, s.sp, u8(row.searched), #row.list / 8 - row.used, last, s.missed == 1 and s.late or 0, row.tz}
      call('ZADD', S.k.sl, fmt('%d', S.now), name)
    end
  end
  return #reported > 0 and reported or nil, more
end

end
