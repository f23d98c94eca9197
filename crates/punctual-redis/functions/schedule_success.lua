-- Schedules: their last run that completed, and by when one is expected to.
do

-- Whether a schedule names no instant any more, and has no run to come.
function Schedule.has_ended(row) return row.complete and not row.pending and not row.ahead[1] and 8 * row.used >= #row.list end

-- From when on a success is expected, if that is known, and the last one: instant 8, finished 8,
-- result.
function Schedule.success_of(name)
  local raw = Schedule.fields_of(S.k.sc, '+' .. name)[1]
  if not raw or #raw < 8 then return nil, '' end
  return at8(raw), sub(raw, %BEHIND_INSTANT%)
end

-- Keeps the last success that an import brings, if the schedule has none.
function Schedule.restore(name, success)
  local from, known = Schedule.success_of(name)
  if #known < 16 then redis.pcall('HSET', S.k.sc, '+' .. name, u8(from or S.now) .. success) end
end

-- By when a run of a schedule is to complete; nil if none is expected.
function Schedule.expected_by(one, from)
  if not one.s.within or one.s.paused or Schedule.has_ended(one.row) then return nil end
  return (from or S.now) + one.s.within
end

-- Expects a run of a schedule to complete: from an instant on, or from the one that is known.
function Schedule.expect(one, from)
  if not one.s.within then return end
  local known, success = Schedule.success_of(one.name)
  from = max(from or known or S.now, known or 0)
  if from ~= known then redis.pcall('HSET', S.k.sc, '+' .. one.name, u8(from) .. success) end
  local by = Schedule.expected_by(one, from)
  if by then redis.pcall('ZADD', S.k.sx, fmt('%d', by), one.name) else redis.pcall('ZREM', S.k.sx, one.name) end
end

-- Schedules whose success is overdue, the longest ones first: name and since when.
local OVERDUE_MAX = 100
function Schedule.overdue()
  local found, out = redis.pcall('ZRANGEBYSCORE', S.k.sx, '-inf', fmt('(%d', S.now), 'WITHSCORES', 'LIMIT', 0, OVERDUE_MAX), {}
  if found.err then return nil end
  for i = 1, #found, 2 do out[#out + 1] = {found[i], u8(tonum(found[i + 1]))} end
  return #out > 0 and out or nil
end

-- Keeps what runs that completed leave to the next ones: id, opts and result of each.
function Schedule.keep_successes(runs)
  local fields, order, now8 = {}, {}, u8(S.now)
  Schedule.read_schedules(runs, function(run) return run[2].sc end)
  for _, run in ipairs(runs) do
    local one = Schedule.load(run[2].sc)
    if one then
      local n = #fields
      fields[n + 1], fields[n + 2] = '+' .. one.name, now8 .. u8(Schedule.instant(run[1], run[2])) .. now8 .. (run[3] or '')
      local by = Schedule.expected_by(one, S.now)
      if by then
        local k = #order
        order[k + 1], order[k + 2] = fmt('%d', by), one.name
      end
    end
  end
  S.schedules_read = nil
  Schedule.write_rows(fields)
  if #order > 0 then redis.pcall('ZADD', S.k.sx, unpack_list(order)) end
end

end
