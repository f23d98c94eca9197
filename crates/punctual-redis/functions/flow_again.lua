-- Steps that run again: what depends on them waits again, or is found to be gone.
do

local WAITING, MET, BROKEN = Flow.WAITING, Flow.MET, Flow.BROKEN
local REPLACED, UPSTREAM = 2, Flow.UPSTREAM
local FAILED_ON = 1 -- how a job must end
local LEFT_OUT = 10 -- steps of each kind that a retry names

-- Counts a step as ended in another way: lost, or passed over.
local function recount(row, link, lost)
  local n = lost and 1 or -1
  row.skipped, row.cancelled_steps, row.changes = max(0, row.skipped - n), max(0, row.cancelled_steps + n), row.changes + 1
  Flow.add_lost(row, n)
  Flow.changed(row)
  link.skipped, link.lost = not lost or nil, lost or nil
  Flow.put_link(link)
end

-- A job that a step waits for ended otherwise: one that could not run again is not needed, and nor
-- are those behind it.
function Flow.pass_over_lost(link)
  local row = link.lost and Flow.row(link.flow)
  if not row then return end
  recount(row, link, false)
  local j = Job.load(link.id)
  if not j or j.tag <= %TAG_HELD% then
    Flow.push('fire', link.id, link.ended, true, link.flow)
  elseif j.ext.cd == REPLACED then
    j.ext.cd = UPSTREAM
    Job.save(j)
  end
end

-- A step was to run again and cannot: its job is not kept, or another job has its unique key. If it
-- was passed over it counts as cancelled from now on, as do the steps behind it whose jobs are gone
-- too, so that its flow does not end as done without them. A flow that is done stays so until one
-- of its steps runs again.
function Flow.lose(id, j)
  local link = Flow.link(id)
  local row = link and link.ended and Flow.row(link.flow)
  if not row or Flow.has_task(link.flow, Flow.FORGET) then return end
  if row.settled > 0 and row.dead + row.cancelled_steps == 0 then
    if link.skipped then
      Flow.again(row).cl = 1
      Flow.changed(row)
    end
    return
  end
  if link.skipped then
    recount(row, link, true)
    if j then
      j.ext.cd = REPLACED
      Job.save(j)
    end
  end
  if not j then Flow.add_task(link.flow, Flow.REOPEN, id, {gn = 1}) end
end

-- Adds a step that was to run again and could not: its job is gone, or a job holds its unique key.
function Flow.leave_out(out, step, holder)
  local count, names = holder and 'hl' or 'gn', holder and 'hs' or 'gs'
  out[count] = (out[count] or 0) + 1
  out[names] = out[names] or {}
  if #out[names] < LEFT_OUT then out[names][#out[names] + 1] = holder and {step, holder} or step end
end

-- How a flow names a step of another one.
function Flow.of_other(link) return link.step .. ' (flow ' .. link.flow .. ')' end

-- Notes a step that is to run again behind one of a flow, and cannot, for the retries of both flows
-- that go on.
local function note_lost(name, link, j)
  local holder = j and Unique.other(j)
  if j and not holder then return end
  for _, of in ipairs(link.flow == name and {name} or {link.flow, name}) do
    local row, is_own = Flow.row(of), of == link.flow
    local read = row and row.again and row.again.rd
    -- The retry comes to a step of its own flow behind those that it has read.
    if read and (not is_own or link.number < read) then
      Flow.leave_out(row.again, is_own and link.step or Flow.of_other(link), holder)
      Flow.changed(row)
    end
  end
end

-- Lets a job that depends on a step wait again, if that one is `gone` only as it is gone too;
-- whether anything changed.
local function reopen_edge(name, from, edge, all, gone)
  local to, on, is = edge[1], edge[2], edge[3]
  local link = is ~= WAITING and Flow.link(to)
  if not link then return false end
  local j = Job.load(to)
  -- Behind a step that is gone, what is kept stays passed over.
  if gone and (j or not (link.skipped or link.lost)) then return false end
  local is_held = j and j.tag == %TAG_HELD%
  local is_free = j and j.tag < %TAG_HELD% and not (j.due <= S.now and Lease.of(j))
  local waits, again = link.ended or is_held or is_free, link.ended and (all or link.skipped or link.lost)
  local waited = link.broken == 0 and link.unmet > 0
  if is == BROKEN and waits then
    link.broken = max(0, link.broken - 1)
  elseif is == MET and waits then -- it does not run, or may run again: it waits for the new end
    link.unmet = link.unmet + 1
    if link.flow ~= name then link.outside = link.outside + 1 end
  else
    return false
  end
  Flow.note_parent(link, from, WAITING)
  Flow.put_edge(from, to, on, WAITING)
  Flow.put_link(link)
  if again and link.broken == 0 then
    local runs = j and Flow.hold_again(to, all)
    -- What waits for a failure is not expected to run.
    if not runs and on ~= FAILED_ON then
      if not waited then note_lost(name, link, j) end -- it may be behind several that run again
      Flow.lose(to, j)
    end
  elseif is_free then
    Flow.hold(j)
  end
  return true
end

-- A flow that was done goes on: its steps that were to run again meanwhile, and cannot, count.
local function count_lost(name, todo, budget)
  local ids = Flow.steps_from(name, todo.nu or 0, budget)
  Flow.read_links(ids)
  for i = 1, #ids do
    local link = Flow.link(ids[i])
    if link and link.ended and link.skipped and link.broken == 0 then -- nothing that it waits for ended otherwise any more
      local j = Job.load(ids[i])
      if not j or Unique.other(j) then Flow.lose(ids[i], j) end
    end
  end
  todo.nu = (todo.nu or 0) + #ids
  return #ids < budget, #ids
end

-- Lets those that depend on a step wait again.
function Flow.reopen_some(name, from, todo, budget)
  if from == Flow.NIL then return count_lost(name, todo, budget) end
  local edges, more = Flow.edges_of(from, todo.cu, budget)
  local n = 0
  for i = 1, #edges do
    if n == budget then return false, n end
    if reopen_edge(name, from, edges[i], todo.al == 1, todo.gn == 1) then n = n + 1 end
  end
  todo.cu = more
  return not more, n
end

end
