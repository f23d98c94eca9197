-- Flows: what an enqueue links, and what the end of a job means for those that wait for it.
do

local UPSTREAM, STEP = 6, 0 -- a reason of a cancel; the role of a step
local COMPLETED_ON, FAILED_ON = 0, 1 -- how a job must end
local CANCEL_REST, CONTINUE = 1, 2 -- what a failed step does to the others
local NEXT = {[0] = 'completed', 'cancelled_steps', 'dead'}
local SEND_TIMEOUT = 3600e6
local PARENTS = 8 -- jobs outside of its flow that a link names
local WAITING, MET, BROKEN = Flow.WAITING, Flow.MET, Flow.BROKEN
Flow.UPSTREAM, Flow.STEP = UPSTREAM, STEP

-- The count of a flow that an end belongs to.
local function class(state, skipped) return skipped and 'skipped' or NEXT[state - COMPLETED] end
Flow.class = class

-- How a job ended: its state, and whether it was passed over.
local function end_of(j) return j.tag, j.tag == CANCELLED and j.ext.cd == UPSTREAM end

-- Whether a job ended as another one asks; `policy` is that of their flow.
local function is_met(on, state, policy)
  if on == COMPLETED_ON then return state == COMPLETED or policy == CONTINUE end
  return on ~= FAILED_ON or state ~= COMPLETED
end
Flow.is_met = is_met

local last_head, last_sent = nil, nil -- the last link that waits for no other, which never changes: many steps say the same

-- Reads what a call says of the links of its jobs: per job flags 1 (1 it has a link, 2 its flow may
-- be sealed, 4 it is a callback that was released before an import) | role 1 | sent 8 | n 2 | id 16
-- and how it must end 1, n times; only a byte 0 for a job without a link.
function Flow.read_sent(bytes, at, index)
  if sub(bytes, at, at + 11) == last_head then return last_sent, at + 12 end
  local flags, role = byte(bytes, at), byte(bytes, at + 1)
  if flags == 0 then return false, at + 1 end
  if not role or flags > 7 or flags % 2 == 0 or role > 3 then refuse('invalid_input', 'a link is out of range index=' .. index) end
  local sent, n = unp('>c8I2', bytes, at + 2)
  local head = sub(bytes, at, at + 11)
  at = at + 12
  if n > %FLOW_EDGES_MAX% or at + 17 * n > #bytes + 1 then refuse('invalid_input', 'a link is cut short index=' .. index) end
  for k = at + 16, at + 17 * n - 1, 17 do
    if byte(bytes, k) > 2 then refuse('invalid_input', 'a link is out of range index=' .. index) end
  end
  local link = {grows = flags % 4 >= 2, fired = flags >= 4, role = role, sent = sent, after = sub(bytes, at, at + 17 * n - 1)}
  if n == 0 then last_head, last_sent = head, link end
  return link, at + 17 * n
end

-- The state in which a job ended, and whether it was passed over; nil if it has not, false if it is
-- not known.
local function parent(id)
  local link = Flow.link(id)
  if link then return link.ended, link.skipped end
  local raw = Job.raw(id)
  if not raw then return false end
  if byte(raw) >= %TAG_TOMBSTONE% then
    raw = Settled.tombstone(id, raw)
    if not raw or not Settled.tombstone_counts(raw) then return false end
    return byte(raw, %TOMB_STATE%) % 8
  end
  local tag = byte(raw)
  if tag <= %TAG_HELD% then return nil end
  return end_of(Job.parse(id, raw))
end
Flow.parent = parent

-- The ids of what a job waits for.
local function parents_of(after)
  local ids = {}
  for at = 1, #after, 17 do ids[#ids + 1] = sub(after, at, at + 15) end
  return ids
end

-- What is known of a linked job that is sent again: verdict, due8; nil if nothing.
function Flow.known_as(id, sent)
  local link = Flow.link(id)
  if not link then return nil end
  return link.sent == sent.sent and 1 or 4, link.due8
end

local function waits_for_failure(after)
  for at = 17, #after, 17 do if byte(after, at) == FAILED_ON then return true end end
  return false
end

-- Whether a linked job of which nothing is stored can be stored as it asks.
function Flow.is_new(id, name, sent) return not Flow.link(id) and not Flow.refusal(name, sent) end

-- Whether a flow takes no such job any more.
local function is_closed(row, sent)
  if row.settled > 0 or row.cancelled then return true end
  if row.sealed == 0 then return false end
  return not (sent.grows and sent.role == STEP)
    or row.on_failure == CANCEL_REST and Flow.failures(row) > 0 and not waits_for_failure(sent.after)
end

-- Adds a new step that waits for no other to a flow that is known: whether it is held; nil if it is
-- no such step, or the flow does not take it. The links of the call were read.
function Flow.add_free(id, name, step, due8, sent)
  local all = S.flows
  local row = all.rows[name]
  if not row or sent.role ~= STEP or sent.after ~= '' or all.links[id] ~= false or is_closed(row, sent) then return nil end
  Flow.put_new(all, id, name, step, row.steps, sent.sent, due8)
  row.steps, row.open, row.changes = row.steps + 1, row.open + 1, row.changes + 1
  all.changed_rows[name] = row
  return not Flow.runs(row)
end

-- Why a job cannot be linked as it asks: a verdict, and an id; nil if it can.
function Flow.refusal(name, sent)
  if name ~= '' then
    local row = Flow.row(name)
    local closed
    if row then closed = is_closed(row, sent) else closed = sent.grows end
    if closed then return 8 end
  end
  if #sent.after == 0 then return nil end
  local ids = parents_of(sent.after)
  Flow.read_links(ids)
  for i = 1, #ids do
    if parent(ids[i]) == false then return 7, ids[i] end
  end
end

-- Marks a job as one that others wait for: its end is not plain.
local function watch(id)
  local link = Flow.link(id)
  if link then
    if not link.watched then
      link.watched = true
      Flow.put_link(link)
    end
    return
  end
  local j = Job.load(id)
  if not j or j.ext.wd then return end
  local function mark()
    j.ext.wd = 1
    if j.tag == %TAG_PLAIN% then j.tag = %TAG_WAITING% end
    Job.save(j)
  end
  if j.tag == %TAG_HELD% or j.opts.sc then return mark() end
  local p = j.due <= S.now and Lease.of(j)
  if p then
    mark()
    return Lease.spoil(p)
  end
  Place.out(j)
  mark()
  Place.put(j)
end

-- Lets a job wait for others, as far as they have not ended as asked.
local function add_edges(link, after, runs, policy)
  local row = link.flow ~= '' and Flow.row(link.flow)
  if row and row.is_flat then
    row.is_flat = false
    Flow.changed(row)
  end
  for at = 1, #after, 17 do
    local from, on = sub(after, at, at + 15), byte(after, at + 16)
    local other = Flow.link(from)
    local is_sibling = other and link.flow ~= '' and other.flow == link.flow
    local state = parent(from)
    local is = WAITING
    if state then
      -- What ended before the seal counts once it comes.
      if not is_sibling or runs then is = is_met(on, state, is_sibling and policy) and MET or BROKEN end
    elseif state == nil then
      watch(from)
    end
    if not is_sibling and #(link.parents or '') < 17 * PARENTS then link.parents = (link.parents or '') .. from .. char(on + 3 * is) end
    if is ~= MET then
      link.unmet = link.unmet + 1
      if not is_sibling then link.outside = link.outside + 1 end
    end
    if is == BROKEN then link.broken = link.broken + 1 end
    if on == FAILED_ON then link.on_failed = true end
    -- One that has ended may run again: this job then waits again.
    if state and other and not other.watched then
      other.watched = true
      Flow.put_link(other)
    end
    -- An edge from a job of no flow is of use until it has ended.
    if is == WAITING or other then Flow.put_edge(from, link.id, on, is) end
  end
end
Flow.add_edges = add_edges

local function add_to_flow(link, sent)
  local row = Flow.row(link.flow)
  if not row then
    row = Flow.new_row(link.flow)
    row.till = S.now + SEND_TIMEOUT
    Flow.check_at(row.name, row.till)
  end
  if sent.role == STEP then
    link.number = row.steps
    row.steps, row.open, row.changes = row.steps + 1, row.open + 1, row.changes + 1
    Flow.append_step(row.name, link.id)
  else
    row.callbacks[#row.callbacks + 1] = {role = sent.role, id = link.id, fired = sent.fired or false}
  end
  Flow.changed(row)
  return row
end

-- Keeps what a new job waits for; whether that holds it.
function Flow.add(id, name, step, due8, sent)
  local link = {id = id, flow = name, step = step, role = sent.role, number = 0, unmet = 0, broken = 0, outside = 0, on_failed = false,
    sent = sent.sent, due8 = due8}
  local runs, policy = true, nil
  if link.flow ~= '' then
    local row = add_to_flow(link, sent)
    runs, policy = Flow.runs(row), row.on_failure
  end
  if #sent.after > 0 then add_edges(link, sent.after, runs, policy) end
  Flow.put_link(link)
  if link.broken > 0 and runs then Flow.push('skip', id) end
  if link.role == STEP then return link.unmet > 0 or not runs end
  return not sent.fired
end

-- Counts a step that has ended; whether its flow is yet to be sealed, so that the seal wakes those
-- that wait for it.
local function count_end(link, state, skipped)
  local row = Flow.row(link.flow)
  if not row then return false end
  if link.role == STEP then
    local count = class(state, skipped)
    row.open, row[count], row.changes = max(0, row.open - 1), row[count] + 1, row.changes + 1
    if not skipped and state ~= COMPLETED and row.on_failure == CANCEL_REST and Flow.runs(row) then Flow.begin_cancel(row.name, UPSTREAM, true) end
    if row.open == 0 then Flow.push('end', row.name) end
    Flow.changed(row)
  end
  return row.sealed == 0
end

-- A linked or watched job has settled: its flow counts it, and those that wait learn of it before
-- this call ends.
local function ended(id, link, state, skipped, result, is_watched)
  if link then
    is_watched = is_watched or link.watched
    if link.flow == '' then
      Flow.drop_link(id)
    else
      link.ended, link.skipped, link.lost, link.result = state, skipped, nil, result
      is_watched = count_end(link, state, skipped) or is_watched
      Flow.put_link(link)
    end
  end
  if is_watched then Flow.push('fire', id, state, skipped, link and link.flow or '') end
end

-- Keeps how a step ended whose job is gone: an import brings it. Those that wait for it learn of it
-- at the seal.
function Flow.restore(name, one)
  local link = {id = one[1], flow = name, step = one[2], role = one[3], number = 0, unmet = 0, broken = 0, outside = 0, on_failed = false,
    sent = one[7], due8 = u8(S.now)}
  add_to_flow(link, {role = one[3], fired = one[8] == 1})
  ended(link.id, link, one[4], one[5] == 1, one[6] ~= '' and sub(one[6], 2) or nil, true)
end

function Flow.settled(j, state)
  ended(j.id, j.opts.fl and Flow.link(j.id), state, state == CANCELLED and j.ext.cd == UPSTREAM, j.ext.re, j.ext.wd == 1)
end

-- The same of jobs that ended together, none of them passed over: ids, and results by place.
function Flow.settled_many(ids, results, state)
  Flow.read_links(ids)
  local all, row, name, n = S.flows, nil, nil, 0
  local function count()
    if n > 0 then
      local of = class(state, false)
      row.open, row[of], row.changes, n = max(0, row.open - n), row[of] + n, row.changes + n, 0
      if row.open == 0 then Flow.push('end', row.name) end
      Flow.changed(row)
    end
  end
  for i = 1, #ids do
    local of = state == COMPLETED and Flow.end_unwatched(all, ids[i], state, results[i])
    if of and of ~= name then
      count()
      row, name = Flow.row(of), of
    end
    if of and row then n = n + 1 elseif not of then ended(ids[i], Flow.link(ids[i]), state, false, results[i] or nil, false) end
  end
  count()
end

-- Whether a callback was released.
local function has_fired(row, id)
  for _, one in ipairs(row.callbacks) do if one.id == id then return one.fired end end
  return false
end

-- Whether a job is kept from running by others, by its flow, or because it is a callback.
function Flow.holds(j)
  local link = j.opts.fl and Flow.link(j.id)
  if not link then return false end
  if link.unmet > 0 then return true end
  local row = link.flow ~= '' and Flow.row(link.flow)
  if not row then return false end
  if link.role == STEP then return not Flow.runs(row) end
  return not has_fired(row, j.id)
end

-- Lets a job run that waits for nothing more.
function Flow.release(id)
  local j = Job.load(id)
  if not j or j.tag ~= %TAG_HELD% or Flow.holds(j) or Settled.expire_if_late(j) then return end
  if #(j.ext.w or {}) > 0 or j.ext.fo then return end
  Place.out(j)
  j.tag = %TAG_WAITING%
  if j.due < S.now then -- it could not run before: it is late only from now on
    local link = Flow.link(id)
    if not j.ext.rd and not (link and link.flow ~= '') then j.ext.rd = j.due8 end
    j.due8, j.due = u8(S.now), S.now
  end
  Job.save(j)
  Place.put(j)
end

-- Lets a job wait again that was free to run, and does not.
function Flow.hold(j)
  Place.out(j)
  j.tag, j.ext.fr = %TAG_HELD%, nil
  Job.save(j)
  Place.put(j)
end

-- Passes over a job that waits for one which ended otherwise.
function Flow.skip(id)
  local j = Job.load(id)
  if not j or j.tag > %TAG_HELD% or j.tag < %TAG_HELD% and j.due <= S.now and Lease.of(j) then return end
  Settled.cancel_waiting(j, UPSTREAM)
end

-- Whether a settled job may run again, and then whether it has to wait; nil if it waits for a job
-- that ended otherwise, or its flow was never sealed.
function Flow.may_run_again(j)
  local link = j.opts.fl and Flow.link(j.id)
  if not link or link.flow == '' or Flow.has_task(link.flow, Flow.FORGET) then return false end
  -- What is left of a cancel would cancel it again.
  if Flow.has_task(link.flow, Flow.CANCEL) then return nil end
  local row, may = Flow.row(link.flow), true
  if row and link.role == STEP then
    may = row.sealed > 0 and link.broken == 0
  elseif row then
    may = has_fired(row, j.id)
  end
  if not may then return nil end
  return link.unmet > 0
end

-- A step that had settled runs or waits again: its flow goes on, and what depends on it waits
-- again.
function Flow.runs_again(j, all)
  local link = j.opts.fl and Flow.link(j.id)
  local row = link and link.ended and Flow.row(link.flow)
  if not row or Flow.has_task(link.flow, Flow.FORGET) then return end
  local state, skipped, lost = link.ended, link.skipped, link.lost
  link.ended, link.skipped, link.lost, link.result = nil, nil, nil, nil
  Flow.put_link(link)
  if link.role == STEP then
    if lost then Flow.add_lost(row, -1) end
    local count = class(state, skipped)
    row[count], row.open, row.changes = max(0, row[count] - 1), row.open + 1, row.changes + 1
    row.cancelled, row.settled, row.till = false, 0, 0
    if row.again and row.again.cl then
      row.again.cl = nil
      Flow.add_task(row.name, Flow.REOPEN, Flow.NIL, {})
    end
    Flow.changed(row)
    if not Flow.has_tasks(row.name) then Flow.check_at(row.name, 0) end
    for _, one in ipairs(row.callbacks) do if not one.fired then Flow.hold_again(one.id, false) end end
  end
  if link.watched then
    -- Dependants that have not learned of the end must not learn of it now.
    Flow.drop_task(row.name, Flow.FIRE, j.id)
    Flow.add_task(row.name, Flow.REOPEN, j.id, {al = all and 1 or nil})
  end
end

-- Lets a settled job wait again, as far as it is kept and its unique key is free; whether it does.
function Flow.hold_again(id, all)
  local j = Job.load(id)
  if not j or j.tag <= %TAG_HELD% or Unique.other(j) then return false end
  Flow.runs_again(j, all)
  Edit.run_again(j, true)
  return true
end

end
