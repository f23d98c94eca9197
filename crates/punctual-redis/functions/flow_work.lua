-- Flows: what is left to do for them, a bounded part in each call, the rest by the sweep. The end
-- of a job puts work on a queue, which is done before the call ends. What one call may not do any
-- more is kept as tasks of the flow, in an order in which each finds what it needs.
do

-- Jobs of flows that one call handles, of each: its own and those of its sweep; and of one flow
-- before the next has its turn.
local PER_STEP, PER_TURN, TURNS = 125, 25, 8
-- Steps of a flow whose queues are notified of tasks that are left.
local WOKEN = 8
local CALLBACK_POLL = 60e6
-- Kinds of tasks: a step that runs again comes before what its new end causes.
local REOPEN, CANCEL, START, FIRE, SKIP, FORGET = 0, 1, 2, 3, 4, 5
local NIL = BELOW .. BELOW
local WAITING, MET, BROKEN = Flow.WAITING, Flow.MET, Flow.BROKEN
local EXPIRED = 1
Flow.REOPEN, Flow.CANCEL, Flow.START, Flow.FIRE, Flow.FORGET, Flow.NIL = REOPEN, CANCEL, START, FIRE, FORGET, NIL

-- Something that the end of a job causes: `fire` those that wait for it, `skip` it, `end` its flow.
function Flow.push(what, id, state, skipped, flow)
  local all = Flow.known()
  local queue = what == 'end' and all.ends or all.queue
  queue[#queue + 1] = {what, id, state, skipped, flow}
end

-- A flow ends behind what its last step has caused: that may say that a step which a retry could
-- not run is not needed.
local function next_work(all)
  local work = all.queue[all.first]
  if work then
    all.first = all.first + 1
    return work
  end
  all.queue, all.first = {}, 1
  return table.remove(all.ends, 1)
end

-- The flow of a job; empty if it has none.
local function flow_of(id)
  local link = Flow.link(id)
  return link and link.flow or ''
end

local function keep_fire(name, id, state, skipped, cursor)
  Flow.add_task(name, FIRE, id, {cu = cursor, st = state, sk = skipped and 1 or nil})
end

-- Cancels the steps of a flow; `spares` those that wait for a failure.
function Flow.begin_cancel(name, reason, spares) Flow.add_task(name, CANCEL, NIL, {re = reason, al = not spares and 1 or nil}) end

-- What an edge means for the job that waits; whether that is to run.
local function fire_edge(name, from, edge, state, policy)
  local to, on, is = edge[1], edge[2], edge[3]
  local link = Flow.link(to)
  if name == '' or not link then Flow.drop_edge(from, to) end -- it is never needed again
  if not link or is ~= WAITING then return false end
  local is_sibling = link.flow == name
  local met = Flow.is_met(on, state, is_sibling and policy)
  if met then
    link.unmet = max(0, link.unmet - 1)
    if not is_sibling then link.outside = max(0, link.outside - 1) end
  else
    link.broken = link.broken + 1
    Flow.pass_over_lost(link)
  end
  Flow.note_parent(link, from, met and MET or BROKEN)
  if name ~= '' then Flow.put_edge(from, to, on, met and MET or BROKEN) end
  Flow.put_link(link)
  if link.ended or link.flow ~= '' and Flow.is_open(Flow.row(link.flow)) then return false end
  if not met then Flow.skip(to) end
  return met and link.unmet == 0
end

-- A page of edges may have that many more than were asked for, as a small hash is read at once.
local PAGE_MORE = 128

-- Handles those that wait for a job, from a cursor on: the next cursor, and how many. Where the
-- budget ends within a page, the page is read again, and those that were handled no longer wait.
local function fire_edges(name, from, state, cursor, budget)
  local edges, more = Flow.edges_of(from, cursor, budget)
  local row, ids, free = name ~= '' and Flow.row(name), {}, {}
  local most = #edges <= budget + PAGE_MORE and #edges or budget
  for i = 1, #edges do
    if #ids == most then
      more = cursor or '0'
      break
    end
    if edges[i][3] == WAITING then ids[#ids + 1] = edges[i][1] end
  end
  Flow.read_links(ids)
  local n = 0
  for i = 1, #edges do
    if edges[i][3] == WAITING and n < #ids then
      n = n + 1
      if fire_edge(name, from, edges[i], state, row and row.on_failure) then free[#free + 1] = ids[n] end
    end
  end
  if #free > 1 then -- in the order of their enqueue
    table.sort(free, function(a, b) return Flow.link(a).number < Flow.link(b).number end)
  end
  Flow.release_all(free)
  return more, n
end

-- Releases or cancels those that wait for a job, unless tasks of its flow come first; returns
-- what is left of the budget.
local function fire(work, budget)
  local id, state, skipped, name = work[2], work[3], work[4], work[5]
  if budget <= 0 or Flow.has_tasks(name) or name ~= '' and Flow.is_open(Flow.row(name)) then
    keep_fire(name, id, state, skipped)
    return budget
  end
  local more, n = fire_edges(name, id, state, nil, budget)
  if more then keep_fire(name, id, state, skipped, more) end
  return budget - n
end

-- Keeps work as a task, which the next turn begins.
local function keep_work(work)
  local what, id = work[1], work[2]
  if what == 'fire' then
    keep_fire(work[5], id, work[3], work[4])
  elseif what == 'skip' then
    Flow.add_task(flow_of(id), SKIP, id, {})
  else
    Flow.end_flow(id)
  end
end

local function start_some(name, todo, budget)
  local ids, free, are_free, row = Flow.steps_from(name, todo.nu or 0, budget), {}, {}, Flow.row(name)
  if row and row.is_flat then
    free, are_free = ids, true
  else
    Flow.read_links(ids)
    for i = 1, #ids do
      local is_free = Flow.is_free(ids[i])
      local link = not is_free and Flow.link(ids[i])
      if is_free then
        free[#free + 1], are_free[ids[i]] = ids[i], true
      elseif link and not link.ended then
        if link.broken > 0 then Flow.skip(ids[i]) elseif link.unmet == 0 then free[#free + 1] = ids[i] end
      end
    end
  end
  Flow.release_all(free, are_free)
  todo.nu = (todo.nu or 0) + #ids
  return #ids < budget, #ids
end

local function cancel_some(name, todo, budget)
  local ids = Flow.steps_from(name, todo.nu or 0, budget)
  Flow.read_links(ids)
  for i = 1, #ids do
    local link = Flow.link(ids[i])
    if not link or not (link.ended or link.on_failed and todo.al ~= 1) then
      local j = Job.load(ids[i])
      local p = j and j.tag < %TAG_HELD% and j.due <= S.now and Lease.of(j)
      if p then Edit.ask_cancel(j, p) elseif j and j.tag <= %TAG_HELD% then Settled.cancel_waiting(j, todo.re or 0) end
    end
  end
  todo.nu = (todo.nu or 0) + #ids
  local is_done = #ids < budget
  if is_done and todo.al == 1 then Flow.end_flow(name) end
  return is_done, #ids
end

local function fire_some(name, id, todo, budget)
  local more, n = fire_edges(name, id, todo.st, todo.cu, budget)
  todo.cu = more
  return not more, n
end

-- Forgets what is kept of a step.
local function forget_step(id)
  Flow.drop_link(id)
  local raw = Job.raw(id)
  if not raw then return end
  if byte(raw) >= %TAG_TOMBSTONE% then
    raw = Settled.tombstone(id, raw)
    if raw then
      Records.delete(id)
      Settled.reuse(id, raw)
    end
  elseif byte(raw) > %TAG_HELD% then
    Settled.unkeep(Job.parse(id, raw))
    Job.drop(id)
  end
end

-- Forgets a flow that has settled: its steps, who waited for whom, and what is kept of its jobs.
local function forget_some(name, todo, budget)
  local row, used = Flow.row(name), 0
  while used < budget do
    local id = Flow.steps_from(name, todo.nu or 0, 1)[1]
    local callbacks = not id and row and row.callbacks or {}
    for _, one in ipairs(id and {{id = id}} or callbacks) do
      local n, done = Flow.drop_edges(one.id, budget - used)
      used = used + 1 + n
      if not done then return false, used end
      forget_step(one.id)
    end
    if not id then
      Flow.forget_row(name)
      return true, used
    end
    todo.nu = (todo.nu or 0) + 1
  end
  return false, used
end

local DO = {
  [REOPEN] = Flow.reopen_some, [FIRE] = fire_some,
  [CANCEL] = function(name, _, todo, budget) return cancel_some(name, todo, budget) end,
  [START] = function(name, _, todo, budget) return start_some(name, todo, budget) end,
  [FORGET] = function(name, _, todo, budget) return forget_some(name, todo, budget) end,
  [SKIP] = function(_, id)
    Flow.skip(id)
    return true, 1
  end,
}

-- Does tasks of a flow, in their order; what is left of the budget.
local function run_tasks(name, budget)
  while budget > 0 and not Flow.is_open(Flow.row(name)) do
    local kind, id, todo = Flow.first_task(name)
    if not kind then break end
    local is_done, used = DO[kind](name, id, todo, budget)
    budget = budget - max(1, used)
    if is_done then Flow.drop_task(name, kind, id) else Flow.keep_task(name, kind, id, todo) end
    if is_done and (kind == REOPEN or kind == FIRE) then Flow.end_flow(name) end
  end
  return budget
end

-- Whether a callback that was released has not ended.
local function callback_goes_on(row)
  for _, one in ipairs(row.callbacks) do
    local link = one.fired and Flow.link(one.id)
    if link and not link.ended then return true end
  end
  return false
end

-- Cancels a flow that was not sealed in time, or begins to forget one that has settled long ago.
local function meet_deadline(row)
  row.till = 0
  Flow.changed(row)
  if row.settled == 0 then
    row.cancelled = true
    Flow.begin_cancel(row.name, EXPIRED, false)
  elseif callback_goes_on(row) then -- others may wait for it, which needs the flow
    row.till = S.now + CALLBACK_POLL
  else
    Flow.add_task(row.name, FORGET, NIL, {})
  end
end

-- Gives flows their turns, those first that had none for longest: a large one holds up no other.
-- Answers what is left of the budget.
local function take_turns(all, budget)
  while budget > 0 do
    local names = call('ZRANGEBYSCORE', S.k.ft, '-inf', fmt('%d', S.now), 'LIMIT', 0, TURNS)
    if #names == 0 then return budget end
    for _, name in ipairs(names) do
      if budget <= 0 then break end
      local row, share = Flow.row(name), #names == 1 and budget or min(budget, PER_TURN)
      if row and row.till > 0 and row.till <= S.now then meet_deadline(row) end
      budget = budget - share
      budget = budget + min(run_tasks(name, share), share - 1)
      local work = next_work(all)
      while work do -- it may not go beyond the budget either
        keep_work(work)
        work = next_work(all)
      end
      row = Flow.row(name)
      local waits = Flow.has_tasks(name) and not Flow.is_open(row)
      Flow.check_at(name, waits and Flow.turn() or row and row.till or 0)
    end
  end
  return budget
end

-- Wakes workers for tasks that this call could not do: by the queues of those that a job is to
-- report, and of the first and the last steps.
local function wake_for_tasks(names)
  for _, name in ipairs(names) do
    local row = Flow.row(name)
    if Flow.has_tasks(name) and not Flow.is_open(row) then
      local ids = row and Flow.steps_from(name, 0, WOKEN) or {}
      for _, id in ipairs(row and Flow.steps_from(name, max(0, row.steps - WOKEN), WOKEN) or {}) do ids[#ids + 1] = id end
      local _, from, todo = Flow.first_task(name)
      for i, edge in ipairs(from and Flow.edges_of(from, todo.cu, WOKEN) or {}) do
        if i <= WOKEN then ids[#ids + 1] = edge[1] end
      end
      for _, id in ipairs(ids) do
        local j = Job.load(id)
        if j then notify(Row.of(j.q)) end
      end
    end
  end
end

-- Does what the call has caused so far, and tasks that came of it.
function Flow.finish()
  local all = Flow.known()
  local budget = all.left or PER_STEP
  local work = next_work(all)
  while work do
    if work[1] == 'fire' then
      budget = fire(work, budget)
    elseif work[1] == 'skip' and budget > 0 then
      budget = budget - 1
      Flow.skip(work[2])
    else
      keep_work(work)
    end
    work = next_work(all)
  end
  if all.new_tasks[1] then budget = take_turns(all, budget) end
  all.left = budget
end

-- The same at the end of a call.
function Flow.commit()
  Flow.finish()
  wake_for_tasks(S.flows.new_tasks)
  wake_for_tasks(S.flows.swept or {})
  Flow.flush()
end

-- Does tasks that are left, and what the sweep has caused; the call itself may do as much again.
-- Whether there are flows.
function Flow.sweep()
  if not S.flows and call('EXISTS', S.k.ft) == 0 then return false end
  local all = Flow.known()
  all.left = PER_STEP
  Flow.finish()
  take_turns(all, all.left)
  all.left, all.swept, all.new_tasks = PER_STEP, all.new_tasks, {}
  return true
end

-- Whether tasks are left, so that a claimer is to come again soon.
function Flow.is_behind()
  return #call('ZRANGEBYSCORE', S.k.ft, '-inf', fmt('%d', S.now), 'LIMIT', 0, 1) > 0
end

-- The last step of a flow has settled: its callbacks run, each once.
function Flow.end_flow(name)
  local row = Flow.row(name)
  -- What depends on a step that runs again is still to wait for it: it opens the flow. And a step
  -- that could not run may turn out not to be needed.
  if not row or row.open > 0 or row.settled > 0 or row.sealed == 0 and not row.cancelled or Flow.has_task(name, REOPEN)
    or row.again and row.again.lo and Flow.has_task(name, FIRE) then return end
  local failed = row.cancelled or row.dead + row.cancelled_steps > 0
  row.settled, row.till = S.now, S.now + S.limits[row.dead > 0 and 'dead_retention' or 'cancelled_retention']
  if not Flow.has_tasks(name) then Flow.check_at(name, row.till) end
  local fired, passed = {}, {}
  for _, one in ipairs(row.callbacks) do
    if not one.fired then
      local runs = one.role == 3 or one.role == (failed and 2 or 1)
      local j = runs and row.sealed > 0 and Job.load(one.id)
      one.fired = j and j.tag <= %TAG_HELD% or false
      local list = one.fired and fired or passed
      list[#list + 1] = one.id
    end
  end
  Flow.changed(row)
  for _, id in ipairs(fired) do Flow.release(id) end
  for _, id in ipairs(passed) do Flow.skip(id) end
end

-- Whether a step, or a job that is linked, waits for no other.
local function waits_for_none(id)
  if Flow.is_free(id) then return true end
  local link = Flow.link(id)
  return link and link.unmet == 0 and link.role == Flow.STEP
end

-- Whether a held job with such opts and nothing more to say stands in the way of nothing but time.
local function is_simple(raw, e, o, group, ex, flow, share)
  if not flow then return false end
  local name = Job.names(flow)
  local row = name ~= '' and Flow.row(name)
  if row and not Flow.runs(row) or not row and at8(raw, %REC_DUE_AT%) < S.now then return false end
  return next_of(e) == nil and not group and not share and not o.li and o.mc == nil and not o.sc and not (ex and at8(ex) <= S.now)
end

local SHAPES = 8 -- that are made of the jobs of a call

-- Keeps what the records of other steps of a flow look like that can be released as this one is.
local function keep_shape(alike, raw, e, o, key, ex, group, q, at, flow, share)
  if at ~= %REC_NEXT_QUEUE% or next_of(e) then return alike end
  local opts = at + 2 + byte(raw, at) + byte(raw, at + 1 + byte(raw, at))
  local shape = Job.shape(raw, %REC_FLAGS%, opts + 4, opts + 3 + unp('>I4', raw, opts), key, ex, group, share, flow)
  local row = shape and shape.flow and Flow.row(shape.flow)
  if not row then return alike end
  shape.queue, shape.row = q, row
  return Job.keep_shape(alike, shape, o, raw, %REC_FLAGS%)
end

-- The jobs of a queue that are released together into one place.
local function place_of(places, lists, q, prio, later)
  local name = q .. (later and '\0' or '\0' .. prio)
  local list = places[name]
  if not list then
    list = {r = Row.of(q), prio = prio, later = later, n = 0, ids = {}, raws = {}, dues = {}, sizes = {}, examined = {}, held = {}, opts = nil, kind = nil}
    lists[#lists + 1], places[name] = list, list
  end
  return list
end

-- Lets jobs run that wait for nothing more: those that are alike together, with a few commands.
-- `are_free` has the ids of those that are known to wait for no other, or is true if all are.
function Flow.release_all(ids, are_free)
  if #ids == 0 then return end
  local function is_free(id) return are_free and (are_free == true or are_free[id]) or waits_for_none(id) end
  local raws, now8, lists, places, kv, alike, shapes = Job.raws(ids), u8(S.now), {}, {}, {}, nil, 0
  local list
  for i = 1, #ids do
    local id, raw = ids[i], raws[i]
    local is_held = raw and byte(raw) == %TAG_HELD%
    local o, q, from, released = nil, nil, %REC_NEXT_QUEUE%, false
    local shape = is_held and alike and alike.last
    if shape and not Job.is_of_shape(shape, raw, %REC_FLAGS%) then shape = Job.of_another_shape(alike, raw, %REC_FLAGS%, #raw) end
    if shape then
      o, q, released = shape.opts, shape.queue, Flow.runs(shape.row) and (are_free == true or is_free(id))
    elseif is_held then
      local e, key, ex, group, flow, share, _
      e, o, key, ex, group, q, _, from, flow, share = Job.parts(raw)
      released = is_simple(raw, e, o, group, ex, flow, share) and is_free(id)
      if released and shapes < SHAPES then alike, shapes = keep_shape(alike, raw, e, o, key, ex, group, q, from, flow, share), shapes + 1 end
    end
    if released then
      local due, prio = at8(raw, %REC_DUE_AT%), byte(raw, %REC_PRIORITY%)
      local r = list and list.r.name == q and list.r or Row.of(q)
      local later = due > S.now or r.head > 0 and r.head <= S.now -- or a pile is being moved: behind it
      if not list or list.r ~= r or list.later ~= later or list.prio ~= prio then list = place_of(places, lists, q, prio, later) end
      local n, stamp = list.n + 1, sub(raw, %REC_STAMP%)
      local due8 = due > S.now and sub(raw, %REC_DUE%) or now8
      local now_is
      if from == %REC_NEXT_QUEUE% then
        now_is = '\%TAG_WAITING%' .. stamp .. due8 .. sub(raw, %REC_HASH_AT%)
      else
        now_is = '\%TAG_WAITING%' .. stamp .. due8 .. sub(raw, %REC_TAIL%) .. '%REC_NO_EXT%' .. sub(raw, from)
      end
      list.n, list.ids[n], list.held[n] = n, id, stamp .. sub(raw, %REC_IDX%) .. id
      if later then list.raws[n], list.dues[n], list.examined[n] = now_is, max(due, S.now), o.uh == 0 else list.sizes[n] = #now_is end
      if o ~= list.opts then
        local kind = Line.kind_of(o, true)
        list.opts, list.kind = o, Line.both(kind, list.kind or kind)
      end
      kv[#kv + 1], kv[#kv + 2] = id, now_is
      changed(id, q, due > S.now and SCHEDULED or READY)
    else
      Flow.release(id)
    end
  end
  Records.set_many(kv)
  for _, list in ipairs(lists) do
    local r, n = list.r, list.n
    call_many('ZREM', S.base .. ':h:' .. r.name, list.held)
    r.counts[HELD], r.rest = r.counts[HELD] - n, nil
    if list.later then
      Due.add_many(r, list.dues, list.ids, list.raws, nil, list.examined)
    else
      Line.push(r, list.prio, list.ids, list.kind, list.sizes)
      r.counts[READY] = r.counts[READY] + n
    end
  end
end

end
