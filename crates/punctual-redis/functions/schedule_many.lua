-- Schedules: what the moves of many runs have in common, read and written with a few commands.
do

-- Reads the records and rows of the schedules of runs, for `Schedule.load`, until `schedules_read`
-- is emptied.
function Schedule.read_schedules(runs, name_of)
  local names, records, fields, seen = {}, {}, {}, {}
  for i = 1, #runs do
    local name = name_of(runs[i])
    if not seen[name] and not (S.schedules and S.schedules[name] ~= nil) then
      local n = #names + 1
      seen[name], names[n], records[n], fields[2 * n - 1], fields[2 * n] = true, name, 'schedule/' .. name, name, '~' .. name
    end
  end
  if #names > 0 then
    local raws, rows, read = redis.pcall('HMGET', S.k.rec, unpack_list(records)), redis.pcall('HMGET', S.k.sc, unpack_list(fields)), {}
    if not raws.err and not rows.err then
      for n = 1, #names do read[names[n]] = {raws[n], rows[2 * n - 1], rows[2 * n]} end
      S.schedules_read = read
    end
  end
end

local function name_of(run) return run.opts.sc end

-- The same, and whether the ids that come next are known.
local function read_ahead(runs, known)
  local ids = {}
  Schedule.read_schedules(runs, name_of)
  for i = 1, #runs do
    local one = Schedule.load(runs[i].opts.sc)
    local at = one and Schedule.nth(one.s, one.row, 1)
    if at then ids[#ids + 1] = Schedule.id_of(one.s, at) end
  end
  S.schedules_read = nil
  local raws = Records.get_many(ids)
  for i = 1, #ids do known[ids[i]] = raws[i] and true or false end
end

-- From here on next runs, rows and runs that start are gathered.
function Schedule.begin_gathering(r, runs, in_order)
  local known = {}
  read_ahead(runs, known)
  S.gathered_runs = {r = r, known = known, in_order = in_order, rows = {}, kv = {}, queues = {}, lanes = {}}
end

-- Gathers the next run of a schedule, if its id is known to be new; whether it does.
function Schedule.gather(s, id, due)
  local all = S.gathered_runs
  if s.has_group or all.known[id] ~= false then return false end
  local record = '\%TAG_WAITING%' .. u8(S.now) .. S.sub .. u8(due) .. sub(s.job, %SPEC_FRONT%) .. '%REC_NO_EXT%' .. sub(s.job, %SPEC_QUEUE_AT%)
  local of = all.queues[s.queue]
  if not of then
    of = {dues = {}, ids = {}, records = {}, examined = {}}
    all.queues[s.queue] = of
    all.queues[#all.queues + 1] = s.queue
  end
  local n, k = #of.ids + 1, #all.kv
  of.dues[n], of.ids[n], of.records[n], of.examined[n] = due, id, record, true
  all.kv[k + 1], all.kv[k + 2], all.known[id] = id, record, true
  return true
end

-- Gathers a run that starts, if it may stand in the list of its lane; whether it does.
function Schedule.gather_start(j)
  local all, o = S.gathered_runs, j.opts
  if not all or not all.in_order or j.q ~= all.r.name or o.g or o.sh or o.li or o.uh == 0 or j.ext.fr or not below(j.enq8, j.due8) or is_suspect(j) then return false end
  local lane = all.lanes[j.prio]
  if not lane then
    lane = {ids = {}, sizes = {}, lo = j.due8}
    all.lanes[j.prio] = lane
  end
  local n = #lane.ids + 1
  lane.ids[n], lane.sizes[n], lane.hi = j.id, j.size, j.due8
  return true
end

-- Puts the runs that start in their lists.
function Schedule.line_up_gathered()
  local all = S.gathered_runs
  if not all then return end
  for prio, lane in pairs(all.lanes) do Line.push(all.r, prio, lane.ids, %CHUNK_EXT_MOVED%, lane.sizes, lane.lo, lane.hi) end
  all.lanes = {}
end

-- Writes what was gathered.
function Schedule.end_gathering()
  Schedule.line_up_gathered()
  local all = S.gathered_runs
  S.gathered_runs = nil
  Records.set_many(all.kv)
  for _, queue in ipairs(all.queues) do
    local of, r = all.queues[queue], Row.of(queue)
    note(r, 1, #of.ids)
    Due.add_many(r, of.dues, of.ids, of.records, nil, of.examined)
    for i = 1, #of.ids do changed(of.ids[i], queue, SCHEDULED) end
  end
  Schedule.write_rows(all.rows)
end

end
