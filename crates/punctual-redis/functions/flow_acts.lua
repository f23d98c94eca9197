-- Flows: what is done with them on request, and what they answer.
do

-- Steps that one retry reads, and of those the steps that it runs again; steps that a recount
-- reads, and edges; flows of a list; jobs that an explanation names.
local EXAMINED, RETRIED, RECOUNTED, RECOUNTED_EDGES, LISTED, NAMED = 1000, 125, 500, 20000, 500, 8
local EVERY = 2 ^ 32 - 1 -- above the number of any step
local CANCEL_REST = 1
local PAGE = 65536 -- edges of one page at most
local UPSTREAM, STEP, MET, BROKEN, leave_out = Flow.UPSTREAM, Flow.STEP, Flow.MET, Flow.BROKEN, Flow.leave_out

local SHOWN_MAX = 2 * %NAME_BYTES_MAX% + 8 -- bytes of a step's name and its flow's

local function refused(kind, message, name, step, waits_for)
  local at = ' (flow: ' .. Check.shown(name, SHOWN_MAX) .. (step and ', step: ' .. Check.shown(step, SHOWN_MAX) or '')
  refuse(kind, message .. at .. (waits_for and ', waits_for: ' .. Check.shown(waits_for, SHOWN_MAX) or '') .. ')')
end

-- How a flow stands.
local function status(row)
  local callbacks = {}
  for i, one in ipairs(row.callbacks) do callbacks[i] = {one.role, one.fired and 1 or 0, one.id} end
  return {na = row.name, pf = row.on_failure, ca = row.cancelled and 1 or nil, cr = row.created, se = row.sealed, st = row.settled, un = row.till,
    c = {row.steps, row.open, row.completed, row.skipped, row.cancelled_steps, row.dead}, cb = callbacks, ch = row.changes, pl = row.planned}
end

-- Flows by name, behind one.
function Flow.list(map)
  local limit = min(Inspect.limit(map.li or 100, true), LISTED)
  local names, out = call('ZRANGEBYLEX', S.k.fn, map.af and map.af ~= '' and '(' .. map.af or '-', '+', 'LIMIT', 0, limit), {}
  for _, name in ipairs(names) do
    local row = Flow.row(name)
    if row then out[#out + 1] = status(row) else S.lost = true end
  end
  return {l = out, mo = #names == limit and names[#names] or nil}
end

local ROLES = {'on_done', 'on_failed', 'on_settled'}

-- Refuses a plan whose callbacks are not those that the flow has: `sent` has a bit for each role.
local function check_callbacks(row, sent)
  for role = 1, 3 do
    local has, is_sent = false, floor(sent / 2 ^ role) % 2 > 0
    for _, one in ipairs(row.callbacks) do has = has or one.role == role end
    if has and not is_sent then
      refused('conflict', fmt('flow has a callback that this plan lacks, %s; send it under another name', ROLES[role]), row.name)
    elseif is_sent and not has then
      refused('conflict', fmt('flow lacks a callback of its plan, %s; send it before the seal', ROLES[role]), row.name)
    end
  end
end

local function seal(row, map)
  local steps, on_failure = map.sp, map.pf
  if map.cb then check_callbacks(row, map.cb) end
  if row.sealed > 0 then
    if row.planned == steps and row.on_failure == on_failure then return end
    refused('conflict', fmt('flow was sealed as another plan of %d steps; send this one under another name', row.planned), row.name)
  end
  if row.cancelled then refused('conflict', '%TEXT_NOT_SEALED%', row.name) end
  if row.steps ~= steps then
    refused('conflict', fmt('flow has %d steps and its plan %d; send those that are missing, or cancel it', row.steps, steps), row.name)
  end
  Flow.start(row, steps, on_failure)
end

-- The plan is whole: its steps start.
function Flow.start(row, planned, on_failure)
  row.sealed, row.on_failure, row.planned, row.till = S.now, on_failure, planned, 0
  Flow.changed(row)
  Flow.check_at(row.name, 0)
  if on_failure == CANCEL_REST and row.dead + row.cancelled_steps > 0 then Flow.begin_cancel(row.name, UPSTREAM, true) end
  Flow.add_task(row.name, Flow.START, Flow.NIL, {})
  Flow.push('end', row.name)
end

-- A settled job that is kept; false if it is not.
local function kept(id)
  local j = Job.load(id)
  return j and j.tag > %TAG_HELD% and j
end

-- Lets a step wait for more jobs.
local function wait_more(row, map)
  local link, new = Flow.link(map.to), {}
  if not link or link.flow ~= row.name then refused('not_found', '%TEXT_NO_STEP%', row.name, sub(Text.id(map.to), 2, -2)) end
  -- An import brings steps whose jobs are gone first: they never run, whatever they wait for.
  local is_gone = link.ended and not kept(map.to)
  local ids = {}
  for at = 1, #map.ed, 17 do ids[#ids + 1] = sub(map.ed, at, at + 15) end
  Flow.read_links(ids)
  for i, id in ipairs(ids) do
    if not Flow.edge(id, map.to) then new[#new + 1] = sub(map.ed, 17 * i - 16, 17 * i) end
    if Flow.parent(id) == false then refuse('not_found', 'a job to wait for is not known; send it first (job: ' .. sub(Text.id(id), 2, -2) .. ')') end
    local from = Flow.link(id)
    if from and from.flow == row.name and from.role ~= STEP then
      refuse('invalid_input', 'a step waits for a callback of its flow, which waits for the step; let it wait for steps (job: ' .. sub(Text.id(id), 2, -2) .. ')')
    end
    if from and from.flow == row.name and from.number >= link.number and not is_gone then
      refuse('invalid_input', '%TEXT_WAITS_LATER% (job: ' .. sub(Text.id(id), 2, -2) .. ')')
    end
  end
  if #new == 0 then return end
  if row.sealed > 0 or row.cancelled then refused('conflict', '%TEXT_WAITS_CLOSED%', row.name) end
  Flow.add_edges(link, concat(new), false, nil)
  Flow.put_link(link)
end

local function cancel(row)
  if row.settled > 0 or row.cancelled then return end
  row.cancelled, row.till = true, 0
  Flow.changed(row)
  Flow.check_at(row.name, 0)
  Flow.begin_cancel(row.name, 0, false)
end

-- A retry begins, which reads the steps from a number on itself.
local function begin_again(row, read)
  local again = Flow.again(row)
  again.rd, again.gn, again.gs, again.hl, again.hs = read, nil, nil, nil, nil
  Flow.changed(row)
end

-- A retry ends, and its answer has what it noted.
local function end_again(name, out)
  local row = Flow.row(name)
  local again = row and row.again
  if not again then return end
  for _, step in ipairs(again.gs or {}) do leave_out(out, step) end
  for _, one in ipairs(again.hs or {}) do leave_out(out, one[1], one[2]) end
  -- More of them than have names.
  if again.gn then out.gn = out.gn + again.gn - #again.gs end
  if again.hl then out.hl = out.hl + again.hl - #again.hs end
  again.rd, again.gn, again.gs, again.hl, again.hs = nil, nil, nil, nil, nil
  Flow.changed(row)
end

-- Runs a kept step again, unless its unique key is held or it waits for a failure; whether it does.
local function retry_one(j, link, all, out)
  local waits = Flow.may_run_again(j)
  if waits == nil then return false end
  local holder = Unique.other(j)
  if holder then
    leave_out(out, link.step, holder)
    return false
  end
  Flow.runs_again(j, all)
  Edit.run_again(j, waits)
  return true
end

-- One of the jobs that a step waits for and that ended otherwise: the name of a step, with its flow
-- if that is another one, or the id of a job without a flow.
local function broken_parent(link)
  local parents = link.parents or ''
  for at = 1, #parents, 17 do
    if floor(byte(parents, at + 16) / 3) == BROKEN then
      local id = sub(parents, at, at + 15)
      local other = Flow.link(id)
      return other and other.flow ~= '' and Flow.of_other(other) or sub(Text.id(id), 2, -2)
    end
  end
  for _, from in ipairs(Flow.steps_from(link.flow, 0, EXAMINED)) do
    local _, is = Flow.edge(from, link.id)
    local other = is == BROKEN and Flow.link(from)
    if other then return other.step end
  end
end

-- Runs one step again, however it ended; how many run.
local function retry_from(row, id, step, out)
  local link = Flow.link(id)
  if not link or link.flow ~= row.name then refused('not_found', '%TEXT_NO_STEP%', row.name, step) end
  if not link.ended then
    refused('conflict', 'step has not ended yet; let it end, or cancel it, before you retry it', row.name, link.step)
  end
  if link.broken > 0 then
    local text = 'step does not run, as a job that it waits for did not end as it asks; retry from that one, or send the step as another flow'
    refused('conflict', text, row.name, link.step, broken_parent(link))
  end
  local j = kept(id)
  if not j then refused('conflict', '%TEXT_STEP_GONE%', row.name, link.step) end
  begin_again(row, EVERY)
  return retry_one(j, link, true, out) and 1 or 0
end

-- Runs a step again if it failed and passes a filter; whether it does.
local function retry_failed(row, id, filter, out)
  local link = Flow.link(id)
  -- A step that nothing kept back was passed over because another one had failed.
  if not link or not link.ended or link.ended == COMPLETED or link.skipped and link.broken > 0 then return false end
  local j = kept(id)
  if not j then
    if filter then return false end -- what it asks went with the job
    leave_out(out, link.step)
    Flow.lose(id, nil)
    Flow.finish()
    return false
  end
  if filter then
    -- One that is lost and waits for a step that runs again was noted by that one.
    if not Inspect.passes(filter, j, j.tag) or link.lost and link.unmet > 0 then return false end
  else
    Flow.again(row).rd = link.number + 1
  end
  return retry_one(j, link, false, out)
end

-- Notes callbacks of a flow that goes on, if they cannot run in its end.
local function note_callbacks(name, out)
  local row = Flow.row(name)
  if not row or row.settled > 0 then return end
  for _, one in ipairs(row.callbacks) do
    local j = one.fired or Job.load(one.id)
    local holder = j and not one.fired and Unique.other(j)
    if not j or holder then leave_out(out, ROLES[one.role], holder) end
  end
end

-- Runs steps again that failed, from a number on; where to go on.
local function retry_some(row, from, filter, out)
  local ids = Flow.steps_from(row.name, from, EXAMINED)
  Flow.read_links(ids)
  for i, id in ipairs(ids) do
    -- Dependants of earlier steps wait again before the retry reads them.
    if out.rt == RETRIED or Flow.has_task(row.name, Flow.REOPEN) then return from + i - 1 end
    if retry_failed(row, id, filter, out) then
      out.rt = out.rt + 1
      Flow.finish()
    end
  end
  return #ids == EXAMINED and from + EXAMINED or nil
end

-- Runs steps again that are dead or cancelled, from a number on; or one step, and those behind it.
local function retry(row, map)
  if row.sealed == 0 then refused('conflict', row.cancelled and '%TEXT_NOT_SEALED%' or '%TEXT_NEVER_SEALED%', row.name) end
  if Flow.has_task(row.name, Flow.CANCEL) then refused('conflict', 'flow is being cancelled; retry it in a moment', row.name) end
  local out = {rt = 0}
  if not map.id then
    -- What a filter asks of a step that is gone cannot be answered.
    if not map.nu then begin_again(row, map.f and EVERY or 0) end
    out.nx = retry_some(row, map.nu or 0, map.f, out)
  elseif not map.nu then
    out.rt = retry_from(row, map.id, map.sn, out)
  end
  Flow.finish()
  -- Only then it is known which of those behind these cannot run.
  if not out.nx and Flow.has_task(row.name, Flow.REOPEN) then out.nx = EVERY end
  if not out.nx then
    end_again(row.name, out)
    note_callbacks(row.name, out)
  end
  return out
end

-- The state of a linked job by its own record, and whether it was passed over; of one that is not
-- kept, as its link says.
local function state_of(link, raw)
  if raw and byte(raw) < %TAG_TOMBSTONE% then
    local j = Job.parse(link.id, raw)
    return Job.state(j), j.ext.cd == UPSTREAM
  end
  raw = raw and Settled.tombstone(link.id, raw)
  if raw and Settled.tombstone_counts(raw) then return byte(raw, %TOMB_STATE%) % 8, link.skipped end
  return link.ended or HELD, link.skipped
end

-- The state of any job; nil if it is not known any more.
local function state_now(id, raw)
  local link = Flow.link(id)
  if link then return (state_of(link, raw)) end
  if not raw then return nil end
  if byte(raw) < %TAG_TOMBSTONE% then return Job.state(Job.parse(id, raw)) end
  raw = Settled.tombstone(id, raw)
  return raw and Settled.tombstone_counts(raw) and byte(raw, %TOMB_STATE%) % 8 or nil
end

-- Jobs outside of its flow that a job waits for: id, how it must end, whether that has happened,
-- and its state, if it is known.
local function outside(link)
  local out, ids, parents = {}, {}, link.parents or ''
  for at = 1, #parents, 17 do ids[#ids + 1] = sub(parents, at, at + 15) end
  if #ids == 0 then return out end
  local raws = Job.raws(ids)
  for i, id in ipairs(ids) do
    local how = byte(parents, 17 * i)
    out[i] = {id, how % 3, floor(how / 3) == MET and 1 or 0, state_now(id, raws[i])}
  end
  return out
end

local function steps_of(ids)
  local out, raws, n = {}, Job.raws(ids), 0
  Flow.read_links(ids)
  for i, id in ipairs(ids) do
    local link = Flow.link(id)
    if link then
      local state = state_of(link, raws[i])
      n = n + 1
      out[n] = {link.step, id, state, link.ended and link.skipped and 1 or 0, link.unmet, link.number, link.sent, outside(link), link.result}
    end
  end
  return out
end

local function read_steps(row, map)
  local from, limit = map.nu or 0, min(Inspect.limit(map.li or 100, true), 1000)
  local ids = Flow.steps_from(row.name, from, limit)
  return {sl = steps_of(ids), nx = #ids == limit and from + limit or nil}
end

-- Who waits for whom, by steps from a number on, or by the jobs of a list: `cu` goes on within the
-- first.
local function read_edges(row, map)
  local from, limit, out, cursor = map.nu or 0, min(Inspect.limit(map.li or 100, true), 1000), {}, map.cu and Inspect.digits(map.cu)
  local ids = row and Flow.steps_from(row.name, from, limit) or slice(map.t, from + 1, #map.t)
  for i, id in ipairs(ids) do
    -- A cursor within a step: that of the page, and how many of it were read.
    local at, skip = cursor and floor(cursor / PAGE) or 0, cursor and cursor % PAGE or 0
    local edges, more = Flow.edges_of(id, fmt('%d', at), limit - #out)
    cursor = nil
    for k = skip + 1, #edges do
      if #out == limit then return {el = out, nx = from + i - 1, cu = fmt('%d', at * PAGE + k - 1)} end
      out[#out + 1] = {id, edges[k][1], edges[k][2], edges[k][3] == MET and 1 or 0}
    end
    if more then return {el = out, nx = from + i - 1, cu = fmt('%d', tonum(more) * PAGE)} end
    if #out >= limit then return {el = out, nx = from + i} end
  end
  return {el = out, nx = row and #ids == limit and from + limit or nil}
end

-- Who waits for jobs, of flows or of none.
function Flow.dependants(map) return read_edges(nil, map) end

-- Brings what an import knows of a flow besides its jobs: `es` steps that have ended, `sp` all its
-- steps and `pl` those of its plan where it was sealed, `ca` that it was cancelled.
local function restore(row, map)
  local is_closed, new, seen, coming = row and (row.sealed > 0 or row.cancelled), {}, {}, 0
  for _, one in ipairs(map.es or {}) do
    if not Flow.link(one[1]) and not seen[one[1]] then
      seen[one[1]], new[#new + 1] = true, one
      if one[3] == STEP then coming = coming + 1 end
    end
  end
  if is_closed and #new > 0 then
    refused('conflict', 'flow is here already, without a step that the import has; remove it, or import into another namespace', map.na)
  end
  local is_sealed = row and row.sealed > 0
  local has = (row and row.steps or 0) + coming
  if map.sp and (not is_sealed and has ~= map.sp or is_sealed and row.planned ~= map.pl) then
    refused('conflict', fmt('flow has %d steps here, and %d in the import: some were refused, or another flow has its name here', has, map.sp), map.na)
  end
  for _, one in ipairs(new) do Flow.restore(map.na, one) end
  row = Flow.row(map.na)
  if row and map.sp and row.sealed == 0 and not row.cancelled then Flow.start(row, map.pl, map.pf) end
  if row and map.ca == 1 and not is_closed then cancel(row) end
end

-- Steps whose number of unmet jobs is not what the edges say, if those are few.
local function wrong_waits(ids, differ)
  local unmet, left = {}, RECOUNTED_EDGES
  for _, id in ipairs(ids) do
    local cursor
    repeat
      local edges, more = Flow.edges_of(id, cursor, 1000)
      left, cursor = left - #edges, more
      if left <= 0 then return end
      for _, edge in ipairs(edges) do if edge[3] ~= MET then unmet[edge[1]] = (unmet[edge[1]] or 0) + 1 end end
    until not cursor
  end
  for _, id in ipairs(ids) do
    local link = Flow.link(id)
    -- Edges from elsewhere are not among those seen here.
    if link and link.unmet ~= (unmet[id] or 0) + link.outside then differ[#differ + 1] = link.step end
  end
end

-- Counts steps by their jobs.
local function recount(row, map)
  local from, counts, differ = map.nu or 0, {0, 0, 0, 0, 0, 0}, {}
  local ids = Flow.steps_from(row.name, from, RECOUNTED)
  local raws, place = Job.raws(ids), {completed = 3, skipped = 4, cancelled_steps = 5, dead = 6}
  Flow.read_links(ids)
  for i, id in ipairs(ids) do
    local link = Flow.link(id)
    if link then
      local state, skipped = state_of(link, raws[i])
      local ended = state > ACTIVE and state or nil
      skipped = ended and skipped or false
      local at = ended and place[Flow.class(state, skipped)] or 2
      counts[1], counts[at] = counts[1] + 1, counts[at] + 1
      if ended ~= link.ended or ended and skipped ~= (link.skipped or false) then differ[#differ + 1] = link.step end
    end
  end
  local nx = #ids == RECOUNTED and from + RECOUNTED or nil
  if from == 0 and not nx then wrong_waits(ids, differ) end
  return {c = counts, di = slice(differ, 1, 10), nx = nx, f = status(row)}
end

-- What is asked of a flow: what changes it and is answered by how it then stands, and what has an
-- answer of its own.
local CHANGES = {[%FLOW_SEAL%] = seal, [%FLOW_WAIT_MORE%] = wait_more, [%FLOW_CANCEL%] = cancel}
local READS = {[%FLOW_RETRY%] = retry, [%FLOW_STEPS%] = read_steps, [%FLOW_STEPS_OF%] = function(_, map) return {sl = steps_of(map.t)} end,
  [%FLOW_EDGES%] = read_edges, [%FLOW_RECOUNT%] = recount}

function Flow.act(map)
  local row = Flow.row(map.na)
  if map.fa == %FLOW_RESTORE% then
    restore(row, map)
  elseif not row then
    if map.fa == %FLOW_READ% then return {} end
    refused('not_found', '%TEXT_NO_FLOW%', map.na)
  end
  if READS[map.fa] then return READS[map.fa](row, map) end
  if CHANGES[map.fa] then CHANGES[map.fa](row, map) end
  Flow.finish() -- what the act causes is part of its answer
  row = Flow.row(map.na)
  return {f = row and status(row) or nil}
end

-- Jobs that one waits for with their states, those outside of its flow first: id, state and so on.
local function add_parents(link, some)
  local n = 0
  for _, one in ipairs(outside(link)) do
    if one[3] == 0 and one[4] and one[4] <= ACTIVE then
      n = n + 1
      some[#some + 1], some[#some + 2] = one[1], one[4]
    end
  end
  if link.flow == '' then return end
  for _, from in ipairs(Flow.steps_from(link.flow, 0, EXAMINED)) do
    if n >= NAMED then break end
    local _, is = Flow.edge(from, link.id)
    if is and is ~= MET then
      n = n + 1
      some[#some + 1], some[#some + 2] = from, state_now(from, Job.raw(from)) or HELD
    end
  end
end

-- Adds why a held job waits for others.
function Flow.why(j, out)
  local link = j.opts.fl and Flow.link(j.id)
  if not link then return end
  if link.unmet > 0 then
    local reason = {18, link.unmet}
    add_parents(link, reason)
    out[#out + 1] = reason
  end
  local row = link.flow ~= '' and Flow.row(link.flow)
  if not row then return end
  if row.sealed == 0 then
    out[#out + 1] = {19, link.flow}
  elseif link.role ~= STEP then
    out[#out + 1] = {20, link.flow, row.open}
  end
end

end
