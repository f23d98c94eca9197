-- enqueue: jobs that the functions look into. Mostly all of a call are stored together, with a few
-- commands for all. Else a call's jobs are stored in their order: those that nothing stands in the
-- way of together; each of the others (known, its key taken, imported, late) by itself, after those
-- before it.
do

-- The ext of a job that waits for names, of the opts that were asked for last: the jobs of a call
-- mostly have the same.
local last_opts, last_ext = nil, nil

-- The ext of the record of a held job as it is stored at first, with its length, by its opts.
function Enqueue.held_ext(held)
  if held ~= last_opts then
    local ext = mp.pack({w = held.w})
    last_opts, last_ext = held, pack('>I4', #ext) .. ext
  end
  return last_ext
end

-- The spec of a record that was made so.
local function spec_of(raw)
  if byte(raw) == %TAG_PLAIN% then return sub(raw, %REC_HASH_AT%) end
  return sub(raw, %REC_TAIL%) .. sub(raw, 36 + unp('>I4', raw, 32))
end

-- Whether such jobs can be stored together with others: theirs are no past, no `remember`
-- and no crash limit of one. Limits that decide on each new job are asked for all of a call.
function Enqueue.goes_along(o)
  return not o.hi and not o.rm and not o.sc and (o.mc == nil or type(o.mc) == 'number' and o.mc > 1)
end

-- Refuses a user who may not all that storing such batches takes.
function Enqueue.may(batches)
  for b = 1, #batches do if batches[b].has_examined then Shard.may_all() end end
end

-- Whether no job holds the unique keys of batches, and no two jobs of them have the same; their
-- fields stay with the batches.
function Enqueue.keys_are_free(batches)
  local all, seen, n = {}, {}, 0
  for b = 1, #batches do
    local batch = batches[b]
    if batch.has_examined then
      local fields, keys, parts, before = {}, batch.keys, batch.parts, n
      for k = 1, #parts do
        local part = parts[k]
        local at, front = part.at, part.q .. '\0'
        for i = 1, part.n do
          local key = keys[at[i]]
          if key then
            local field = front .. key
            if seen[field] then return false end
            n = n + 1
            seen[field], fields[at[i]], all[n] = true, field, field
          end
        end
      end
      batch.fields = n > before and fields or nil
    end
  end
  local holders = get_many(S.k.u, all)
  for k = 1, n do if holders[k] then return false end end
  return true
end

-- Lets jobs that were just stored hold their keys, and remembers when they expire.
function Enqueue.hold_keys(batches)
  local held, periods, expiring = {}, {}, {}
  for b = 1, #batches do
    local batch = batches[b]
    if batch.has_examined then
      local ids, examined, n, lowest = batch.ids, batch.examined, #held, nil
      for i, field in pairs(batch.fields or {}) do
        local uh, holder = examined[i].uh, ids[i]
        if uh and uh > 0 then
          local till = S.now + uh - 1
          holder = holder .. u8(till)
          periods[#periods + 1], periods[#periods + 2] = fmt('%d', till), field
          schedule('period', till)
        end
        held[n + 1], held[n + 2] = field, holder
        n = n + 2
      end
      n = #expiring
      for i, ex in pairs(batch.ends) do
        local at = at8(ex)
        if not lowest or at < lowest then lowest = at end
        expiring[n + 1], expiring[n + 2] = fmt('%d', at), ids[i]
        n = n + 2
      end
      if lowest then schedule('expiry', lowest) end
    end
  end
  if #held > 0 then Records.set_short(S.k, S.k.u, S.now, held) end
  call_many('ZADD', S.k.up, periods)
  call_many('ZADD', S.k.xp, expiring)
end

-- Remembers a held or scheduled job of a group by its record, if it is of one.
local function wait_in_group(r, group, id, raw)
  if group then Group.waits(r, group, sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%), id, true) end
end

-- Puts the jobs of a part of a batch in the lines of their groups, shares or limits, or where they
-- become due.
function Enqueue.line_up_keyed(batch, part)
  if part.n == batch.n and not part.later and not part.limited and M.feed < S.now then
    local r, kv, raws = part.row, batch.kv, {}
    for i = 1, part.n do raws[i] = kv[2 * i] end
    if part.grouped then return Group.line_up(r, batch.ids, raws, batch.groups, part.shared and batch.shares or nil) end
    return Share.line_up(r, batch.ids, raws, batch.shares, part.kind)
  end
  local r, ids, raws, groups, shares, dues, examined = part.row, {}, {}, {}, {}, {}, {}
  for i = 1, part.n do
    local at = part.at[i]
    ids[i], raws[i], groups[i], shares[i] = batch.ids[at], batch.kv[2 * at], batch.groups[at], batch.shares[at]
    changed(ids[i], r.name, part.later and SCHEDULED or READY)
    if part.later then
      dues[i], examined[i] = batch.dues[at], true
      wait_in_group(r, groups[i], ids[i], raws[i])
    end
  end
  if part.later then return Due.add_many(r, dues, ids, raws, nil, examined) end
  if part.limited then return Named.line_up(r, ids, raws, groups, shares) end
  if part.grouped then return Group.line_up(r, ids, raws, groups, part.shared and shares or nil) end
  Share.line_up(r, ids, raws, shares, part.kind)
end

-- Holds the jobs of a part of a batch back.
function Enqueue.hold(batch, part)
  local r, members, stamp, ids, kv, groups, feeds = part.row, {}, u8(S.now) .. batch.sub, batch.ids, batch.kv, batch.groups, M.feed >= S.now
  for i = 1, part.n do
    local at = part.at[i]
    local raw, id, group = kv[2 * at], ids[at], groups[at]
    members[2 * i - 1], members[2 * i] = '0', stamp .. sub(raw, %REC_IDX%) .. id
    if group then wait_in_group(r, group, id, raw) end
    if feeds then changed(id, r.name, HELD) end
  end
  call_many('ZADD', S.base .. ':h:' .. r.name, members)
  r.counts[HELD], r.rest = r.counts[HELD] + part.n, nil
end

-- What is gathered to be stored together: arguments of commands, and jobs by queue.
local function nothing_yet() return {n = 0, kv = {}, keys = {}, periods = {}, ends = {}, places = {}, stamp = u8(S.now) .. S.sub, feed = M.feed >= S.now} end

-- Where jobs of a queue go that are gathered: lists by lane, those that are due later, held ones.
local function place_of(all, r)
  local place = all.places[r]
  if not place then
    place = {n = 0, lanes = {}, ids = {}, dues = {}, records = {}, manners = {}, held = {}, grouped = {ids = {}, raws = {}, groups = {}, shares = {}}, shared = {ids = {}, raws = {}, shares = {}},
      limited = {ids = {}, raws = {}, groups = {}, shares = {}}}
    all.places[r] = place
    all.places[#all.places + 1] = r
  end
  return place
end

local function gather_ready(place, id, raw, o, flow)
  local prio = byte(raw, %REC_PRIORITY%)
  local lane = place.lanes[prio]
  if not lane then
    lane = {ids = {}, sizes = {}}
    place.lanes[prio] = lane
  end
  local n = #lane.ids + 1
  lane.ids[n], lane.sizes[n] = id, #raw
  local kind = o and Line.kind_of(o, flow) or 1
  lane.kind = Line.both(kind, lane.kind or kind)
end

-- Adds a job that nothing stands in the way of; `field` is that of its unique key, `ex` when it
-- expires, `group` its group, `share` its share, `flow` its place in a flow.
local function gather(all, r, id, raw, due, o, field, ex, group, share, flow)
  local n = all.n + 1
  all.n, all.kv[2 * n - 1], all.kv[2 * n] = n, id, raw
  if field then
    local holder, k = id, #all.keys
    if o.uh and o.uh > 0 then
      local till = S.now + o.uh - 1
      holder = id .. u8(till)
      all.periods[#all.periods + 1], all.periods[#all.periods + 2] = fmt('%d', till), field
      schedule('period', till)
    end
    all.keys[k + 1], all.keys[k + 2] = field, holder
  end
  if ex then
    local k, at = #all.ends, at8(ex)
    all.ends[k + 1], all.ends[k + 2] = fmt('%d', at), id
    schedule('expiry', at)
  end
  local place = all.places[r] or place_of(all, r)
  place.n = place.n + 1
  if byte(raw) == %TAG_HELD% then
    local k = #place.held
    place.held[k + 1], place.held[k + 2] = '0', all.stamp .. sub(raw, %REC_IDX%) .. id
    if group then wait_in_group(r, group, id, raw) end
    if all.feed then changed(id, r.name, HELD) end
  elseif (group or share or o and o.li) and due <= S.now then
    local of = o.li and place.limited or group and place.grouped or place.shared
    local k = #of.ids + 1
    of.ids[k], of.raws[k], of.shares[k] = id, raw, share or false
    if of.groups then of.groups[k] = group or false end
    if group then of.groups[k], of.has_shares = group, of.has_shares or share end
    changed(id, r.name, READY)
  elseif due > S.now or r.head > 0 and r.head <= S.now then -- or a pile is being moved: behind it
    local k = #place.ids + 1
    place.ids[k], place.dues[k], place.records[k], place.manners[k] = id, due, raw, o and ((group or share or o.li) and true or Due.manner(o, flow))
    wait_in_group(r, group, id, raw)
    if due > S.now then changed(id, r.name, SCHEDULED) end
  else
    gather_ready(place, id, raw, o, flow)
    changed(id, r.name, READY)
  end
end

-- Stores what was gathered.
local function store_gathered(all)
  if all.n == 0 then return end
  Records.add_many(all.kv, all.key)
  if #all.keys > 0 then Records.set_short(S.k, S.k.u, S.now, all.keys) end
  call_many('ZADD', S.k.up, all.periods)
  call_many('ZADD', S.k.xp, all.ends)
  for _, r in ipairs(all.places) do
    local place = all.places[r]
    note(r, 1, place.n)
    local held = #place.held / 2
    if held > 0 then
      call_many('ZADD', S.base .. ':h:' .. r.name, place.held)
      r.counts[HELD], r.rest = r.counts[HELD] + held, nil
    end
    if #place.ids > 0 then Due.add_many(r, place.dues, place.ids, place.records, nil, place.manners) end
    local grouped, shared, limited = place.grouped, place.shared, place.limited
    if #grouped.ids > 0 then Group.line_up(r, grouped.ids, grouped.raws, grouped.groups, grouped.has_shares and grouped.shares or nil) end
    if #shared.ids > 0 then Share.line_up(r, shared.ids, shared.raws, shared.shares) end
    if #limited.ids > 0 then Named.line_up(r, limited.ids, limited.raws, limited.groups, limited.shares) end
    for prio, lane in pairs(place.lanes) do
      Line.push(r, prio, lane.ids, lane.kind, lane.sizes)
      r.counts[READY] = r.counts[READY] + #lane.ids
    end
  end
end

-- The rows of a batch's jobs, by place.
local function rows_of(batch)
  local rows = {}
  for _, part in ipairs(batch.parts) do
    for k = 1, part.n do rows[part.at and part.at[k] or k] = part.row end
  end
  return rows
end

-- The fields of the unique keys of a batch's jobs, by place, and by field whether some job holds
-- it.
local function fields_of(keys, rows, n)
  local of, fields, taken = {}, {}, {}
  for i = 1, n do
    if keys[i] then
      of[i] = rows[i].name .. '\0' .. keys[i]
      fields[#fields + 1] = of[i]
    end
  end
  local holders = get_many(S.k.u, fields)
  for k = 1, #fields do taken[fields[k]] = holders[k] end
  return of, taken
end

-- Stores a call's jobs; its answer from the form on. `has_room` if their queues have, for all of
-- them.
function Enqueue.each(batch)
  Shard.may_all()
  local n, ids, kv, examined, lates, sub_ = batch.n, batch.ids, batch.kv, batch.examined or {}, batch.lates or {}, S.sub
  local key = Records.only_key(ids)
  local known = Job.raws(ids, key)
  for i = 1, n do -- before anything is changed
    if known[i] then Job.check(known[i]) elseif examined[i] and examined[i].rm then Settled.may_remember(i - 1) end
  end
  local rows = batch.has_room and rows_of(batch)
  local ends, groups, shares, fields, taken, seen, out, all, form = batch.ends or {}, batch.groups or {}, batch.shares or {}, {}, {}, {}, {}, nothing_yet(), 0
  if rows and batch.keys then fields, taken = fields_of(batch.keys, rows, n) end
  S.sub = batch.sub
  all.stamp, all.key = u8(S.now) .. S.sub, key
  local links, last_opts, last_goes = batch.links, nil, true
  if links then Flow.read_links(ids) end
  for i = 1, n do
    local id, o, field, late, sent = ids[i], examined[i], fields[i], batch.late or lates[i], links and links[i]
    local flow = batch.flows and batch.flows[i]
    if o ~= last_opts then last_opts, last_goes = o, not o or Enqueue.goes_along(o) end
    local due8, is_held = batch.due8 or batch.dues8[i], false
    local is_new = rows and not known[i] and not seen[id] and not late and not (field and taken[field]) and last_goes and not (o and (o.li and Named.decides(o.li) or o.w and Enqueue.was_cleared(id, o.w))) and not (ends[i] and at8(ends[i]) <= S.now)
    if is_new and sent then
      is_held = Flow.add_free(id, flow, batch.steps[i], due8, sent)
      if is_held == nil then
        is_new = Flow.is_new(id, flow, sent)
        if is_new then is_held = Flow.add(id, flow, batch.steps[i], due8, sent) end
      end
    end
    if is_new then
      local raw = kv[2 * i]
      local tag = byte(raw)
      if is_held and tag ~= %TAG_HELD% then
        raw = '\%TAG_HELD%' .. sub(raw, 2)
      elseif not is_held and tag == %TAG_HELD% and not (o.w and #o.w > 0) then -- its flow runs
        raw = '\%TAG_WAITING%' .. sub(raw, 2)
      end
      gather(all, rows[i], id, raw, batch.dues and batch.dues[i] or batch.parts[1].due, o, field, ends[i], groups[i], shares[i], flow)
      out[i] = false
    else
      store_gathered(all)
      all = nothing_yet()
      all.key = key
      local verdict, other
      verdict, due8, late, other = Enqueue.one(id, due8, late, spec_of(kv[2 * i]), true, sent)
      if verdict > 0 or late then form = 1 end
      out[i] = char(verdict) .. due8 .. (late and '\1' or '\0') .. (other or '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0')
    end
    seen[id] = true
    if field then taken[field] = true end
  end
  store_gathered(all)
  S.sub = sub_
  if form == 0 then return '\0' end
  for i = 1, n do
    out[i] = out[i] or '\0' .. (batch.due8 or batch.dues8[i]) .. '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
  end
  return '\1' .. concat(out)
end

end
