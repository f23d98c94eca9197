-- stats and info: counts, the due histogram, history by minutes, workers seen, liveness.
-- `BASE:hi:QUEUE`: closed minutes, a day of them; `BASE:hb:QUEUE`: buckets of the minute that runs.
do

local HISTORY = 1440

-- Longer times count as an hour, which is in this bucket; a histogram of a call has at most so
-- many.
local TIME_MAX, BUCKET_MAX, TIMES_MAX = 3600e6, 1707, 1000

-- The largest value of a bucket of times.
local function value_of(bucket)
  if bucket < 64 then return bucket end
  local scale = 2 ^ (floor(bucket / 64) - 1)
  return min((bucket % 64 + 65) * scale - 1, TIME_MAX)
end

-- Times are gathered here, by bucket, and written each second: two commands a bucket and call would
-- cost more than the call. What is lost with the process is a second of measurements.
local gathered = {}
local GATHER = 1e6
local KINDS = {'l', 'r'} -- lateness, run time

-- What was gathered under a key, of this data and no other, as it would be written: fields and
-- times.
local function gathered_of(key)
  local times, out = gathered[key], {}
  if not times or times.instance ~= M.instance then return out end
  for i = 1, 2 do
    for bucket, n in pairs(times[i]) do out[KINDS[i] .. bucket] = n end
  end
  return out
end

-- Writes what was gathered of a queue.
local function write_gathered(q)
  local key = S.base .. ':hb:' .. q
  local times = gathered_of(key)
  gathered[key] = nil
  for field, n in pairs(times) do call('HINCRBY', key, field, n) end
end

-- The queue is deleted: what was gathered of it is of no queue.
function Stats.forget_queue(q) gathered[S.base .. ':hb:' .. q] = nil end

-- Median and 99th percentile of a kind of the minute that runs; -1 if nothing was measured.
local function quantiles(times, kind)
  local buckets, total = {}, 0
  for field, n in pairs(times) do
    if sub(field, 1, 1) == kind then
      buckets[#buckets + 1] = {tonum(sub(field, 2)), n}
      total = total + n
    end
  end
  if total == 0 then return -1, -1 end
  table.sort(buckets, function(a, b) return a[1] < b[1] end)
  local seen, half, most = 0, nil, nil
  for _, one in ipairs(buckets) do
    seen = seen + one[2]
    if not half and seen >= total * 0.5 then half = value_of(one[1]) end
    if not most and seen >= total * 0.99 then most = value_of(one[1]) end
  end
  return half, most
end

local function minute_of(r)
  local key, times = S.base .. ':hb:' .. r.name, {}
  local written = call('HGETALL', key)
  for i = 1, #written, 2 do times[written[i]] = tonum(written[i + 1]) end
  for field, n in pairs(gathered_of(key)) do times[field] = (times[field] or 0) + n end
  local l50, l99 = quantiles(times, 'l')
  local r50, r99 = quantiles(times, 'r')
  local h = r.minute_counts
  return {r.minute, h[1], h[2], h[3], h[4], h[5], h[6], l50, l99, r50, r99}
end

-- The minute of a row is over.
function Row.close_minute(r)
  write_gathered(r.name)
  local key = S.base .. ':hi:' .. r.name
  call('RPUSH', key, mp.pack(minute_of(r)))
  call('LTRIM', key, -HISTORY, -1)
  call('DEL', S.base .. ':hb:' .. r.name)
end

local forms = {} -- by count

-- Adds a histogram as it was sent: count 2, then bucket 2 and times 4 each.
local function add_times(of, blob, at)
  local left, room = unp('>I2', blob, at), TIMES_MAX
  at = at + 2
  if left == 1 then
    local bucket, n_times = unp('>I2I4', blob, at)
    bucket, n_times = min(bucket, BUCKET_MAX), min(n_times, room)
    if n_times > 0 then of[bucket] = (of[bucket] or 0) + n_times end
    return
  end
  while left > 0 and room > 0 do
    local n = min(left, 50)
    forms[n] = forms[n] or '>' .. rep('I2I4', n)
    local times = {unp(forms[n], blob, at)}
    for i = 1, 2 * n, 2 do
      local bucket, n_times = min(times[i], BUCKET_MAX), min(times[i + 1], room)
      if n_times > 0 then of[bucket] = (of[bucket] or 0) + n_times end
      room = room - n_times
    end
    at, left = at + 6 * n, left - n
  end
end

-- What workers measured: where in a call two histograms begin, of lateness and of run time.
function Stats.measured(q, blob, late, run)
  note(Row.of(q), 3, 0)
  Stats.gather(q, blob, late, run)
end

-- The same, of a queue whose minute runs.
function Stats.gather(q, blob, late, run)
  local key = S.base .. ':hb:' .. q
  local times = gathered[key]
  if not times or times.instance ~= M.instance then
    times = {{}, {}, since = S.now, instance = M.instance}
    gathered[key] = times
  end
  add_times(times[1], blob, late)
  add_times(times[2], blob, run)
  if (S.now - times.since >= GATHER or S.now < times.since) and allows('HINCRBY', key) then write_gathered(q) end
end

-- The earliest due among the first of each lane; nil if there is none.
local function oldest_due(r)
  local oldest = r.head > 0 and r.head <= S.now and r.head or nil
  for lane = 0, 19 do
    if lane < 10 and (r.in_lists[lane] or 0) > 0 then
      local found = Line.first_due(r, lane)
      if found and (not oldest or found < oldest) then oldest = found end
    end
    if (r.in_overflow[lane] or 0) > 0 then
      local member = call('ZRANGE', S.base .. ':x:' .. lane .. ':' .. r.name, 0, 0)[1]
      if member then
        local due = at8(member, 2)
        local group = Group.of_place(member)
        if group then
          local id = Group.candidate(r, group, lane)
          local j = id and Job.load(id)
          due = j and j.due or due
        end
        if not oldest or due < oldest then oldest = due end
      end
    end
    local due = r.flags >= %ROW_SHARED% and Share.oldest(r, lane)
    if due and (not oldest or due < oldest) then oldest = due end
  end
  for _, opened in ipairs({r.flags >= %ROW_SHARED% and Share.oldest_opened(r) or NEVER, flag(r, %ROW_NAMED%) and Named.oldest_opened(r) or NEVER}) do
    if opened < (oldest or NEVER) then oldest = opened end
  end
  return oldest
end

local SPANS = {{60e6, 10}, {600e6, 5}, {3600e6, 23}, {86400e6, 30}}

-- Scheduled jobs in buckets of a minute, ten minutes, an hour and a day.
local function due_histogram(r)
  local buckets, from, key = {}, S.now, S.base .. ':n:' .. r.name
  if r.counts[SCHEDULED] == 0 then return buckets end
  for _, span in ipairs(SPANS) do
    for _ = 1, span[2] do
      buckets[#buckets + 1] = {from, from + span[1], 0}
      from = from + span[1]
    end
  end
  buckets[#buckets + 1] = {from, %INSTANT_MAX_US%, 0}
  for i, one in ipairs(buckets) do
    local low = i == 1 and '-inf' or fmt('%d', one[1])
    one[3] = call('ZCOUNT', key, low, i == #buckets and '+inf' or '(' .. fmt('%d', one[2]))
  end
  Due.cold_counts(r, 10000, function(due, n)
    for i = #buckets, 1, -1 do
      if due >= buckets[i][1] or i == 1 then
        buckets[i][3] = buckets[i][3] + n
        break
      end
    end
  end)
  local out = {}
  for _, one in ipairs(buckets) do if one[3] > 0 then out[#out + 1] = one end end
  return out
end

local function history_of(r)
  local out = {}
  for _, raw in ipairs(call('LRANGE', S.base .. ':hi:' .. r.name, 0, -1)) do
    local one = mp.unpack(raw)
    if S.now - one[1] <= HISTORY * MINUTE then out[#out + 1] = one end
  end
  if r.minute > 0 and S.now - r.minute <= HISTORY * MINUTE then out[#out + 1] = minute_of(r) end
  return out
end

-- Queues of one call.
local PAGE, PAGE_MAX = 100, 1000

-- The rows of these queues, of those that there are.
local function rows_of(names)
  local rows = {}
  read_rows(names)
  for i = 1, #names do rows[#rows + 1] = S.rows[names[i]] or nil end
  return rows
end

-- The rows of the queues that are asked for, by name, or of those of a page after a name; the last
-- name if there are more.
local function rows_asked(asked, after, limit)
  if asked and #asked > 0 then
    local names, seen = {}, {}
    for _, name in ipairs(asked) do
      if not seen[name] then seen[name], names[#names + 1] = true, name end
    end
    table.sort(names, below)
    return rows_of(names)
  end
  limit = min(max(1, limit or PAGE), PAGE_MAX)
  local names = call('ZRANGEBYLEX', S.k.qs, after and '(' .. after or '-', '+', 'LIMIT', 0, limit + 1)
  local more = #names > limit and names[limit] or nil
  return rows_of(slice(names, 1, limit)), more
end

-- stats. Key: base. Argument: instance, map {q or af and li, h, du, en, sh, any}. Reply: map {q,
-- cu, w, e, n, i}.
function Stats.call(base, blob)
  local map = Check.map('stats', blob)
  Shard.open(base, sub(blob, %CALL_INSTANCE%), nil, true, map.any)
  local queues, workers, more = {}, {}, nil
  if not S.empty then
    local rows
    rows, more = rows_asked(map.q, map.af, map.li)
    for i, r in ipairs(rows) do
      local oldest, c, limits = oldest_due(r), r.counts, nil
      if r.flags >= %ROW_LIMITED% then limits, oldest = Gate.stats(r, oldest) end
      queues[i] = {r.name, {c[0], c[1], c[2], c[3], c[4], c[5], c[6]}, flag(r, %ROW_PAUSED%) and 1 or 0, oldest and S.now - oldest or -1,
        map.du == 1 and due_histogram(r) or {}, map.h == 1 and history_of(r) or {}, map.en == 1 and Ends.of(r) or '', limits or {},
        (map.sh or 0) > 0 and r.flags >= %ROW_SHARED% and Share.top(r, map.sh) or nil}
    end
    for i, w in ipairs(Workers.all()) do workers[i] = {w.id, w.seen, w.held, w.raw} end
  end
  return mp.pack({q = queues, cu = more, w = workers, e = M.due > S.now and 1 or 0, ov = not map.af and not S.empty and Schedule.overdue() or nil, n = S.now, i = M.instance})
end

-- Workers that are free, by queue.
local function free_workers()
  local names, free = {}, {}
  for _, w in ipairs(Workers.all()) do
    if w.seen + 5e6 >= S.now and (w.record.b or 0) < w.record.s then
      for _, q in ipairs(w.record.q or {}) do
        if not free[q] then names[#names + 1] = q end
        free[q] = (free[q] or 0) + 1
      end
    end
  end
  table.sort(names, below)
  return names, free
end

-- Queues whose oldest due job waits over 5 s while workers are free: name, span, workers.
local function problems()
  local out, names, free = {}, free_workers()
  for _, r in ipairs(rows_of(names)) do
    local ready = false
    for _, n in pairs(r.in_lists) do if n > 0 then ready = true end end
    for lane, n in pairs(r.in_overflow) do if n > 0 and lane < 10 then ready = true end end
    if r.flags >= %ROW_SHARED% and Share.ready(r, 0, 9) > 0 then ready = true end
    local oldest = ready and not flag(r, %ROW_PAUSED%) and oldest_due(r)
    if oldest and r.flags >= %ROW_LIMITED% then _, oldest = Gate.stats(r, oldest) end
    if oldest and S.now - oldest > 5e6 then out[#out + 1] = {r.name, S.now - oldest, free[r.name]} end
  end
  return out
end

-- info. Key: base. Argument: instance, map {any}. Reply: map {v, ju, pr, ob, te, dr, ru, n, i}.
function Stats.info(base, blob)
  local map = Check.map('info', blob)
  Shard.open(base, sub(blob, %CALL_INSTANCE%), nil, true, map.any)
  local dry, ending
  if not S.empty then dry, ending = Schedule.neglected() end
  return mp.pack({v = VERSION, ju = M.jumps, pr = S.empty and {} or problems(), ob = not S.empty and {Outbox.waiting()} or nil, n = S.now, i = M.instance, te = not S.empty and call('HGET', S.k.s, 'te') or nil,
    dr = dry, ru = ending})
end

end
