-- enqueue: calls of jobs, one or several at once. Plain jobs are stored together, whatever client
-- sent them.
do

-- Whether a pile of due jobs is being moved: what is new goes behind it.
local function has_pile(r) return r.head > 0 and r.head <= S.now end

-- The due jobs that batches put in one lane, to be pushed together.
local function lane_of_part(lanes, r, prio)
  local key = prio .. r.name
  local lane = lanes[key]
  if not lane then
    lane = {row = r, prio = prio, ids = {}, sizes = {}, n = 0, kind = 1, is_of_batch = false}
    lanes[key], lanes[#lanes + 1] = lane, lane
  end
  return lane
end

-- Puts the jobs of one lane and due in line: at the places `at` of the batch, or all of it. Due
-- ones are gathered in `lanes`.
local function line_up(batch, part, lanes)
  local r, ids, at, kv, examined = part.row, batch.ids, part.at, batch.kv, batch.has_examined and batch.examined
  local k = part.n
  note(r, 1, k)
  local waits = part.later or has_pile(r)
  if part.held then return Enqueue.hold(batch, part) end
  if part.grouped or part.shared or part.limited then return Enqueue.line_up_keyed(batch, part) end
  if waits then
    local is_all = k == batch.n -- its places are those of the batch, in order
    local dues, these, records, manners, last, manner = is_all and batch.dues or {}, is_all and ids or {}, {}, nil, nil, nil
    for i = 1, k do
      local place = is_all and i or at[i]
      records[i] = kv[2 * place]
      if dues ~= batch.dues then dues[i] = part.due or batch.dues[place] end
      if not is_all then these[i] = ids[place] end
      local o = examined and examined[place]
      if o then
        local flow = batch.flows[place]
        if flow or o ~= last then last, manner = not flow and o or nil, Due.manner(o, flow) end
        manners = manners or {}
        manners[i] = manner
      end
    end
    Due.add_many(r, dues, these, records, #batch.calls == 1 and u8(S.now) .. batch.sub or nil, manners)
  else
    local lane = lane_of_part(lanes, r, part.prio)
    local sizes, n = lane.sizes, lane.n
    local kind = part.kind or 1
    if kind ~= lane.kind then lane.kind = n == 0 and kind or Line.both(kind, lane.kind) end
    if n == 0 and not at then
      lane.ids, lane.is_of_batch = ids, true
      for i = 1, k do sizes[i] = #kv[2 * i] end
    else
      if lane.is_of_batch then lane.ids, lane.is_of_batch = slice(lane.ids, 1, n), false end
      local list = lane.ids
      for i = 1, k do
        local place = at and at[i] or i
        list[n + i], sizes[n + i] = ids[place], #kv[2 * place]
      end
    end
    lane.n = n + k
    r.counts[READY] = r.counts[READY] + k
  end
  if M.feed >= S.now and (part.later or not waits) then
    for i = 1, k do changed(ids[at and at[i] or i], r.name, part.later and SCHEDULED or READY) end
  end
end

-- Reads n jobs that have the head of their batch: into its ids and records as they would be stored.
local function read_alike(batch, blob, n, at)
  local ids, kv, size, from, front, has_opts = batch.ids, batch.kv, #blob, batch.n, nil, false
  local prefix, part, length_of_front = '\%TAG_PLAIN%' .. u8(S.now) .. S.sub .. batch.due8, batch.parts[1], 0
  for i = from + 1, from + n do
    local length, id = unp('>I4c16', blob, at)
    local last = at + 3 + length
    if length < 31 or last > size then refuse('invalid_input', 'a job is cut short index=' .. i - from - 1) end
    local first = at + 30 + length_of_front -- behind the front, if that is the one of the job before
    if first <= last + 1 and front and sub(blob, at + 30, first - 1) == front then
      if has_opts then Check.opts(blob, first, last, false, i - from - 1) end
    else
      Check.front(blob, at + 30, last, i - from - 1)
      local prio, sflags, ql = byte(blob, at + 30, at + 32)
      if prio ~= part.prio or %sflags has SPEC_EXAMINED% or sub(blob, at + 33, at + 32 + ql) ~= part.q then
        refuse('invalid_input', 'a job is not as the head of its call says index=' .. i - from - 1)
      end
      length_of_front, has_opts = 4 + ql + byte(blob, at + 33 + ql), %sflags has SPEC_OPTS%
      front = sub(blob, at + 30, at + 29 + length_of_front)
    end
    ids[i], kv[2 * i - 1], kv[2 * i] = id, id, prefix .. sub(blob, at + 20, last)
    at = last + 1
  end
end

-- Adds the jobs of a call to a batch, all of them or none.
local function add_uniform(batch, blob, k, n, at)
  local ids, kv, from = batch.ids, batch.kv, batch.n
  local ok, refused = pcall(reading, read_alike, batch, blob, n, at)
  if not ok then
    for i = #ids, from + 1, -1 do ids[i], kv[2 * i - 1], kv[2 * i] = nil, nil, nil end
    error(refused, 0)
  end
  batch.n, batch.sub = from + n, S.sub -- of the last call: in line nothing stands before it was enqueued
  batch.parts[1].n = batch.n
  batch.calls[#batch.calls + 1] = {k, from, n, S.sub}
end

-- The head of a call whose jobs are of one due, priority and queue.
local function head_of(blob)
  local ql = byte(blob, %ENQUEUE_QUEUE_AT%)
  if not ql or #blob < %ENQUEUE_QUEUE_AT% + ql then refuse('invalid_input', 'the call is cut short') end
  return sub(blob, %ENQUEUE_JOBS_AT%, %ENQUEUE_QUEUE_AT% + ql), ql
end

-- Reads a call whose jobs are all plain, of one due, priority and queue, as its head says; into the
-- batch before if that has the same head.
local function read_uniform(blob, k, n, last)
  local head, ql = head_of(blob)
  local batch = last and last.head == head and last or nil
  if not batch then
    local due8, late, due = Enqueue.due_of(byte(head), sub(head, %UNIFORM_DUE%), u8(S.now), 0)
    batch = {ids = {}, kv = {}, n = 0, sub = S.sub, plain = not late, head = head, due8 = due8, late = late, calls = {},
      parts = {{prio = byte(head, %UNIFORM_PRIORITY_AT%), q = Check.name('queue', sub(head, %UNIFORM_NAME_AT%)), due = due, later = due > S.now, n = 0}}}
  end
  add_uniform(batch, blob, k, n, %ENQUEUE_NAME_AT% + ql)
  return batch
end

-- Reads a call whose jobs are in bundles, as its head says; each is two arguments. Its only part is
-- of one lane.
local function read_bundles(args, at, k, n)
  local blob, shared = args[at], nil
  local head, ql = head_of(blob)
  local count = byte(blob, %ENQUEUE_NAME_AT% + ql)
  if byte(blob, %ENQUEUE_JOBS_AT%) ~= %DUE_NOW% or not count or count == 0 or not args[at + 2 * count] then refuse('invalid_input', 'the call is cut short') end
  local batch = {bundles = {}, ids = {}, n = 0, sub = S.sub, plain = true, due8 = u8(S.now), late = false, calls = {{k, 0, n, S.sub}}}
  for i = 1, count do
    local bundle, front = Bundle.sent(args[at + 2 * i - 1], args[at + 2 * i], i - 1)
    if front ~= shared then
      local sflags = byte(front, 2)
      if Check.front(front, 1, #front, batch.n) ~= #front + 1 or %sflags has SPEC_EXAMINED% or sub(front, 1, 1) .. sub(front, %LANE_QUEUE_AT%, %LANE_QUEUE_AT% + ql) ~= sub(head, %UNIFORM_PRIORITY_AT%) then
        refuse('invalid_input', 'a job is not as the head of its call says index=' .. batch.n)
      end
      shared = front
    end
    batch.bundles[i], batch.n = bundle, batch.n + bundle.n
  end
  if batch.n ~= n then refuse('invalid_input', 'the bundles have not as many jobs as the call says') end
  batch.parts = {{prio = byte(blob, %ENQUEUE_PRIORITY_AT%), q = sub(blob, %ENQUEUE_NAME_AT%, %ENQUEUE_QUEUE_AT% + ql), due = S.now, later = false, n = n}}
  return batch
end

-- Makes of a batch of bundles one of jobs, for whom one look at each is needed.
local function untie(batch)
  local ids, kv, n = {}, {}, 0
  for _, bundle in ipairs(batch.bundles) do
    for i = 1, bundle.n do
      n = n + 1
      ids[n], kv[2 * n - 1], kv[2 * n] = bundle.ids[i], bundle.ids[i], Bundle.record(bundle, i)
    end
  end
  batch.bundles, batch.ids, batch.kv = nil, ids, kv
end

local NOTHING = {} -- opts of a job that has none; it never changes

-- Shapes of jobs that a call may have: each costs some time to know.
local SHAPES = 8

-- The part of a batch whose jobs are of a lane and have these things; a new one if there is none.
local function part_for(batch, parts, lane, later, held, grouped, shared, limited)
  local till = %LANE_QUEUE_AT% + byte(lane, %LANE_QUEUE_AT%)
  local q = sub(lane, %LANE_NAME_AT%, till)
  local name = held and 'h\0' .. q or later and q or sub(lane, 1, 1) .. sub(lane, %LANE_QUEUE_AT%, till)
  if grouped then name = 'g\0' .. name end
  if shared then name = 's\0' .. name end
  if limited then name = 'l\0' .. name end
  local part = parts[name]
  if not part then
    part = {prio = byte(lane, 1), q = q, later = later, held = held, grouped = grouped, shared = shared, limited = limited, kind = 1, at = {}, n = 0}
    parts[name], batch.parts[#batch.parts + 1] = part, part
  end
  return part
end

-- Notes opts that the functions examine; the names of limits of this and of those before, if any.
local function note_opts(batch, o, limits)
  batch.has_examined = true
  if not Enqueue.goes_along(o) then batch.plain = false end
  for k = 1, o.li and #o.li or 0 do
    limits = limits or {}
    limits[#limits + 1] = o.li[k]
  end
  return limits
end

-- Reads jobs that may differ in all, once: ids and records as they would be stored, in parts of one
-- lane and due. `plain` unless a job can be stored only by itself; `has_examined` if the functions
-- examine some. It is the call `k`; `may_repeat` if an id may be there twice; `is_linked` if links
-- of its jobs follow.
local function read_each(blob, k, n, may_repeat, is_linked)
  local batch = {ids = {}, kv = {}, parts = {}, n = n, sub = S.sub, plain = not may_repeat, calls = {{k, 0, n, S.sub}}}
  local ids, kv, dues, dues8, lates, examined, keys, ends, groups, due_of = batch.ids, batch.kv, {}, {}, {}, {}, {}, {}, {}, Enqueue.due_of
  local flows, steps, shares = {}, {}, {}
  batch.dues, batch.dues8, batch.lates, batch.examined, batch.keys, batch.ends, batch.groups, batch.flows, batch.steps, batch.shares = dues, dues8, lates, examined, keys, ends, groups, flows, steps, shares
  local now, now8, size, at = S.now, u8(S.now), #blob, %ENQUEUE_JOBS_AT%
  local stamp = now8 .. S.sub
  local waiting, plain, linked = '\%TAG_WAITING%' .. stamp, '\%TAG_PLAIN%' .. stamp, '\%TAG_HELD%' .. stamp -- mostly their flow is yet to be sealed
  local last_kind, last_given8, last_lane, due8, late, due, later, part, places, parts, has_opts, is_examined = nil, nil, nil, nil, nil, nil, nil, nil, nil, {}, false, false
  local last_opts, last_held, last_grouped, last_shared, last_limited, alike, shapes, limits, last_kept, chunk_kind, i = nil, nil, nil, nil, nil, nil, 0, nil, nil, 1, 1
  -- The shape of the job before, or its bytes up to its payload if nothing of it is looked into.
  local last_shape, same, same_bytes, same_shape = nil, nil, 0, nil
  while i <= n do
    local length, id, kind, given8 = unp('>I4c16Bc8', blob, at)
    local last = at + 3 + length
    if length < 40 or last > size then refuse('invalid_input', 'a job is cut short index=' .. i - 1) end
    if given8 ~= last_given8 or kind ~= last_kind then
      due8, late, due = due_of(kind, given8, now8, i - 1)
      last_given8, last_kind = given8, kind
      if due > now ~= later then last_lane, later = nil, due > now end
      if late then batch.plain = false end
    end
    local lane, o, key, ex, group, held, flow, share, step = last_lane, nil, nil, nil, nil, nil, nil, nil, nil
    local shape, value, is_same = alike and lane and alike.last, nil, false
    if shape then value = at + 38 + shape.all <= last and Job.value_in(shape, blob, at + 39) end
    if shape and not value then shape, value = Job.of_another_shape(alike, blob, at + 39, last) end
    if value then
      o = shape.opts
      if shape.name then Check.own(shape.name, value, i - 1) end
      if shape.name == 'u' then key = value elseif shape.flow then flow, step = shape.flow, value elseif shape.name == 'g' then group = value elseif shape.name == 'sh' then share = value elseif shape.name then ex = value end
    elseif same and lane and at + 38 + same_bytes <= last and sub(blob, at + 39, at + 38 + same_bytes) == same then
      is_same = true
    else
      local ql, from = byte(blob, at + 41), nil
      local front = at + 43 + ql + (byte(blob, at + 42 + ql) or size)
      if front > last + 1 then refuse('invalid_input', 'a job is cut short index=' .. i - 1) end
      lane = sub(blob, at + 39, front - 1)
      if lane ~= last_lane then
        from, o, key, ex, group, flow, share = Check.front(blob, at + 39, last, i - 1)
        local flags = byte(lane, 2)
        has_opts, is_examined, alike = %flags has SPEC_OPTS%, %flags has SPEC_EXAMINED%, nil
      elseif has_opts then
        from, o, key, ex, group, flow, share = Check.opts(blob, front, last, is_examined, i - 1)
      end
      if o and shapes < SHAPES then
        alike, shapes = Job.keep_shape(alike, Job.shape(blob, at + 39, front + 4, from - 1, key, ex, group, share, flow), o, blob, at + 39), shapes + 1
      end
      if flow then flow, step = Job.names(flow) end
      same = not is_examined and sub(blob, at + 39, (from or front) - 1)
      same_bytes, same_shape = same and #same, nil
    end
    local is_alike = value and shape == last_shape
    last_shape = value and shape
    if is_alike then
      held = last_held
    elseif is_examined then
      o, held = o or NOTHING, o ~= nil and o.w ~= nil and #o.w > 0
      if o ~= last_opts then last_opts, limits = o, note_opts(batch, o, limits) end
    end
    if is_examined then
      if ex and at8(ex) <= now or held and batch.plain and Enqueue.was_cleared(id, o.w) then batch.plain = false end
      examined[i] = o -- nothing is put where there is nothing: a table grows by that, too
      if key then keys[i] = key end
      if ex then ends[i] = ex end
      if group then groups[i] = group end
      if flow then flows[i], steps[i] = flow, step end
      if share then shares[i] = share end
      kv[2 * i] = ((held or flow and is_linked) and linked or waiting) .. due8 .. sub(blob, at + 29, at + 40) .. (held and Enqueue.held_ext(o) or '%REC_NO_EXT%') .. sub(blob, at + 41, last)
    else
      kv[2 * i] = plain .. due8 .. sub(blob, at + 29, last)
    end
    if not is_alike then
      local grouped, shared, limited = group ~= nil, share ~= nil, o ~= nil and o.li ~= nil
      if lane ~= last_lane or held ~= last_held or grouped ~= last_grouped or shared ~= last_shared or limited ~= last_limited then
        if part then part.n = places end
        last_lane, last_held, last_grouped, last_shared, last_limited = lane, held, grouped, shared, limited
        part = part_for(batch, parts, lane, later, held, grouped, shared, limited)
        places = part.n
      end
      if o ~= last_kept or flow then last_kept, chunk_kind = o, o and Line.kind_of(o, flow) or 1 end
      if chunk_kind ~= part.kind then part.kind = places == 0 and chunk_kind or Line.both(chunk_kind, part.kind) end
    end
    places = places + 1
    part.at[places] = i
    ids[i], kv[2 * i - 1], dues[i], dues8[i] = id, id, due, due8
    if late then lates[i] = true end
    at, i = last + 1, i + 1
    if value and is_examined and not late and (not shape.name or Enqueue.VALUES[shape.name]) then
      i, at, places = Enqueue.read_same(batch, blob, i, at, shape, kind, given8, held and linked or waiting, held and Enqueue.held_ext(o) or '%REC_NO_EXT%', due, due8, part, places)
    elseif is_same and not late then
      same_shape = same_shape or {front = same, rest = '', start = same_bytes, length = 0, all = same_bytes}
      i, at, places = Enqueue.read_same(batch, blob, i, at, same_shape, kind, given8, plain, nil, due, due8, part, places)
    end
  end
  if part then part.n = places end
  if limits then Named.may_name() end
  if limits and Named.decides(limits) then batch.plain = false end
  return batch
end

-- Reads a call's jobs. It is the call `k`, which begins with the argument `at`; `last` the batch of
-- the one before; `is_linked` if links of its jobs follow.
local function read_jobs(args, at, k, last, is_linked)
  local blob = args[at]
  local flags, n = unp('>BI2', blob, %ENQUEUE_FLAGS_AT%)
  if is_linked then flags = flags - %ENQUEUE_LINKED% end
  if flags > %ENQUEUE_TWICE% + %ENQUEUE_UNIFORM% and flags ~= %ENQUEUE_UNIFORM% + %ENQUEUE_BUNDLES% then refuse('invalid_input', 'flags are out of range; use 0 to 3, 6, 8 or 9') end
  Check.count(n)
  if flags == %ENQUEUE_UNIFORM% + %ENQUEUE_BUNDLES% then return read_bundles(args, at, k, n) end
  if flags == %ENQUEUE_UNIFORM% then return read_uniform(blob, k, n, last) end
  if flags < %ENQUEUE_UNIFORM% then return read_each(blob, k, n, flags == %ENQUEUE_TWICE%, is_linked) end
  local one = read_uniform(blob, k, n)
  one.plain = false
  return one
end

local LINK_ALONE = 12 -- bytes of a sent link that names no other job

-- Reads a call of jobs that wait for others, or are steps: its second argument has their links.
local function read_linked(args, at, k)
  local bytes, from, link = args[at + 1], 1, nil
  local batch = read_jobs(args, at, k, nil, true)
  local links, flows, n = {}, batch.flows, batch.n
  local are_alike = n > 1 and #bytes == LINK_ALONE * n and bytes == rep(sub(bytes, 1, LINK_ALONE), n)
  batch.plain, batch.links = false, links
  for i = 1, n do
    if i == 1 or not are_alike then link, from = Flow.read_sent(bytes, from, i - 1) end
    if link and not flows[i] then refuse('invalid_input', 'a link is not that of a step index=' .. i - 1) end
    links[i] = link
  end
  return batch
end

-- The same; what is no such call is refused in words.
local function read_call(args, at, k, last)
  local flags = byte(args[at], %ENQUEUE_FLAGS_AT%)
  if flags >= %ENQUEUE_LINKED% then
    if flags > %ENQUEUE_LINKED% + %ENQUEUE_TWICE% then refuse('invalid_input', 'flags are out of range; use 0 to 3, 6, 8 or 9') end
    return reading(read_linked, args, at, k)
  end
  return reading(read_jobs, args, at, k, last)
end

-- Whether every queue of the batches has room for their jobs.
local function have_room(batches)
  local more = {}
  for b = 1, #batches do
    local parts = batches[b].parts
    for k = 1, #parts do
      local part = parts[k]
      local r = Row.of(part.q)
      part.row = r
      Shard.may_count(r)
      if flag(r, %ROW_BOUNDED%) then
        if part.shared and Share.is_bounded(r) then return false end -- each decides by those before it
        more[r] = (more[r] or 0) + part.n
        if Enqueue.pending(r) + more[r] > r.max then return false end
      end
    end
  end
  return true
end

local FINE = '\0'

-- Lines a batch of bundles up, behind what is to be pushed to its lane before.
local function line_up_bundles(batch, lanes)
  local part = batch.parts[1]
  local r, lane = part.row, lanes[part.prio .. part.row.name]
  if lane and lane.n > 0 then
    Line.push(r, part.prio, lane.ids, lane.kind, lane.sizes)
    lane.ids, lane.sizes, lane.n, lane.kind, lane.is_of_batch = {}, {}, 0, 1, false
  end
  note(r, 1, batch.n)
  Line.push_bundles(r, part.prio, batch.bundles)
  r.counts[READY] = r.counts[READY] + batch.n
  if M.feed >= S.now then
    for _, bundle in ipairs(batch.bundles) do
      for i = 1, bundle.n do changed(bundle.ids[i], r.name, READY) end
    end
  end
end

-- Whether an id of bundles is known.
local function has_known(bundles)
  for k = 1, #bundles do
    local known = Records.get_many(bundles[k].ids, bundles[k].key)
    for i = 1, bundles[k].n do if known[i] then return true end end
  end
  return false
end

-- Stores batches together if all their jobs are new and their keys free; there is room. Whether it
-- did.
local function store_together(batches)
  local bundles, has_examined = {}, false
  for b = 1, #batches do
    local batch = batches[b]
    has_examined = has_examined or batch.has_examined
    if batch.bundles and has_pile(batch.parts[1].row) then untie(batch) end
    for _, bundle in ipairs(batch.bundles or {}) do bundles[#bundles + 1] = bundle end
  end
  if has_known(bundles) then return false end
  local ids, kv = batches[1].ids, batches[1].kv or {}
  if #batches > 1 then
    ids, kv = {}, {}
    local n = 0
    for b = 1, #batches do
      local from, pairs_ = batches[b].ids, batches[b].kv
      local k = #from
      for i = 1, k do
        ids[n + i], kv[2 * (n + i) - 1], kv[2 * (n + i)] = from[i], pairs_[2 * i - 1], pairs_[2 * i]
      end
      n = n + k
    end
  end
  local n, key = #ids, Records.only_key(ids)
  local known = Records.get_many(ids, key)
  for i = 1, n do if known[i] then return false end end
  if has_examined and not Enqueue.keys_are_free(batches) then return false end
  local wanted, new = n, Records.add_many(kv, key)
  for k = 1, #bundles do wanted, new = wanted + bundles[k].n, new + Bundle.refer(bundles[k]) end
  if new < wanted then -- two callers sent the same id: one after the other
    Records.delete_many(ids, key)
    for k = 1, #bundles do Records.delete_many(bundles[k].ids, bundles[k].key) end
    return false
  end
  if #bundles > 0 then Bundle.store(bundles) end
  if has_examined then Enqueue.hold_keys(batches) end
  local lanes, sub_ = {}, S.sub
  for b = 1, #batches do
    local batch = batches[b]
    S.sub = batch.sub
    if batch.bundles then
      line_up_bundles(batch, lanes)
    else
      for k = 1, #batch.parts do line_up(batch, batch.parts[k], lanes) end
    end
  end
  for k = 1, #lanes do
    local lane = lanes[k]
    if lane.n > 0 then Line.push(lane.row, lane.prio, lane.ids, lane.kind, lane.sizes) end
  end
  S.sub = sub_
  return true
end

-- One call of a batch of several, as a batch of its own.
local function alone(batch, call_)
  local from, n = call_[2], call_[3]
  local part = batch.parts[1]
  return {ids = slice(batch.ids, from + 1, from + n), kv = slice(batch.kv, 2 * from + 1, 2 * (from + n)), n = n, sub = call_[4],
    plain = batch.plain, due8 = batch.due8, late = batch.late, calls = {{call_[1], 0, n, call_[4]}},
    parts = {{prio = part.prio, q = part.q, due = part.due, later = part.later, n = n}}}
end

-- Stores batches whatever is with their jobs, in their order; `answers` by call. A refusal is a
-- call's own.
local function store_all(batches, answers)
  if #batches == 0 then return end
  local plain, ok, room = true, attempt(have_room, batches)
  for b = 1, #batches do plain = plain and batches[b].plain end
  if plain and ok and room then plain = attempt(Enqueue.may, batches) end
  if ok and room and plain and store_together(batches) then
    for b = 1, #batches do
      for _, call_ in ipairs(batches[b].calls) do answers[call_[1]] = FINE end
    end
  elseif #batches > 1 then
    for b = 1, #batches do store_all({batches[b]}, answers) end
  elseif #batches[1].calls > 1 then
    for _, call_ in ipairs(batches[1].calls) do store_all({alone(batches[1], call_)}, answers) end
  else
    local batch, answer = batches[1], room -- or what refuses its queue
    if ok then
      if batch.bundles then untie(batch) end
      batch.has_room = room
      ok, answer = attempt(Enqueue.each, batch)
    end
    answers[batch.calls[1][1]] = answer
  end
end

-- The queue of the first job, to read its row with the shard.
local function first_queue(blob)
  local flags = byte(blob, %ENQUEUE_FLAGS_AT%)
  local at = flags >= %ENQUEUE_UNIFORM% and flags < %ENQUEUE_LINKED% and %ENQUEUE_QUEUE_AT% or %FIRST_QUEUE_AT%
  local length = byte(blob, at)
  return length and sub(blob, at + 1, at + length) or nil
end

local function open(base, blob)
  if #blob < 11 then refuse('invalid_input', 'the call is cut short') end
  local q = first_queue(blob)
  Shard.open(base, sub(blob, %CALL_INSTANCE%), q and {q}, nil, nil, Shard.ENQUEUES)
end

-- How many arguments a call is that begins with this one.
function Enqueue.length(blob)
  local flags = byte(blob, %ENQUEUE_FLAGS_AT%) or 0
  if flags >= %ENQUEUE_LINKED% then return 2 end
  if flags ~= %ENQUEUE_UNIFORM% + %ENQUEUE_BUNDLES% then return 1 end
  return 1 + 2 * (byte(blob, %ENQUEUE_NAME_AT% + (byte(blob, %ENQUEUE_QUEUE_AT%) or 0)) or 0)
end

-- enqueue. Key: base. Arguments: instance 8 | flags 1 | count 2 | jobs, or with flags 6 their
-- bundles behind it, with 8 their links. Reply: now 8 | instance 8 | form 1 | receipts.
function Enqueue.call(base, args)
  local blob = args[1]
  local known = #args == 1 and Lone.enqueue(base, blob)
  if known then return known end
  if #args ~= Enqueue.length(blob) then
    refuse('invalid_input', 'enqueue takes one packed call, as in docs/wire-protocol.md; for functions by hand see punctual_1_help')
  end
  open(base, blob)
  local batch, answers = read_call(args, 1, 1), {}
  Sweep.run()
  Row.stay()
  store_all({batch}, answers)
  Row.let_go()
  Shard.commit() -- what the sweep has moved
  if type(answers[1]) == 'table' then error(answers[1]) end
  return u8(S.now) .. M.instance .. (answers[1] or FINE)
end

-- Several calls of one instance, each beginning with one of the arguments: the reply of each, or
-- what refuses it and it alone.
function Enqueue.calls(base, args, starts)
  open(base, args[1])
  Sweep.run()
  Row.stay()
  local waiting, answers, last = {}, {}, nil
  for k = 1, #starts do
    if k > 1 then Shard.step() end
    local ok, batch = pcall(read_call, args, starts[k], k, last)
    if not ok then
      answers[k] = {err = type(batch) == 'table' and batch.err or tostring(batch)}
    elseif batch ~= last then
      if last and not (batch.plain and last.plain) then
        store_all(waiting, answers)
        waiting = {}
      end
      waiting[#waiting + 1], last = batch, batch
    end
  end
  store_all(waiting, answers)
  Row.let_go()
  Shard.commit()
  local head = u8(S.now) .. M.instance
  for k = 1, #starts do
    if type(answers[k]) == 'string' then answers[k] = head .. answers[k] end
  end
  return answers
end

end
