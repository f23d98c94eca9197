-- Settles jobs of a queue together: a few commands for all of them. What becomes of each is as in
-- Settled.as.
do

local NOTHING = Job.NOTHING
local SHAPES = 8 -- that are made of the jobs of a call
local NOTED = {[COMPLETED] = 3, [CANCELLED] = 6, [DEAD] = 5}

-- Jobs of a queue that are settled together as lists: all ids; ids and cores of those that leave a
-- tombstone like others; of those that leave one of their own, and of those that are kept; fields
-- of unique keys; who expires; groups; shares; limits and who has them; jobs of flows, or that
-- waited for others, and their results; runs of schedules that completed.
local function new_list(q, state, lists, by_queue)
  local list = {r = Row.of(q), state = state, n = 0, ids = {}, shares = {}, limits = {}, limited = {}, alike = {}, cores = {}, own = {}, kept = {}, kept_count = 0, kept_records = {}, kept_from = {}, kept_for = {}, kept_exts = {}, kept_results = {}, span = nil, spans = 0, bytes = 0, fields = {}, holders = {}, expiring = {}, groups = {}, members = {}, linked = {}, results = {}, scheduled = {}, runs = {}, run = -1}
  Shard.may_count(list.r)
  lists[#lists + 1], by_queue[q] = list, list
  return list
end

-- Goes on with jobs that are as the one before them, which was taken: in all up to their payload,
-- bytes `same`, or in all but a value, as `shape` says. `e`, `from` and `retention` are what that
-- one had. Answers the place of the first one that is not so.
local function gather_alike(list, taken, ids, raws, places, i, tag, same, shape, e, o, at, from, retention, results, passes)
  local listed, n, name, till, core = list.ids, list.n, shape and shape.name, same and %REC_PRIORITY% + #same, e.rd
  local kept, records, froms, spans, exts, k, bytes = list.kept, list.kept_records, list.kept_from, list.kept_for, list.kept_exts, list.kept_count, list.bytes
  local alike, cores, r, count = list.alike, list.cores, list.r, #ids
  while i <= count do
    local raw, value = raws[i], nil
    if not raw or byte(raw) ~= tag or places ~= true and not places[i] or results and results[i] then break end
    if shape then
      value = Job.value_in(shape, raw, %REC_FLAGS%)
      if not value then break end
    elseif sub(raw, %REC_FLAGS%, till) ~= same then
      break
    end
    if not passes or passes(i, r, raw, e, o, name == 'u' and value or nil, name == 'ex' and value or nil, name == 'sh' and value or nil, nil) then
      local id = ids[i]
      n = n + 1
      listed[n], taken[i] = id, list
      if name then
        if name == 'u' then
          local m = #list.fields + 1
          list.fields[m], list.holders[m] = r.name .. '\0' .. value, id
        elseif name == 'g' then
          local m = #list.groups + 1
          list.groups[m], list.members[m] = value, id
        elseif name == 'sh' then
          list.shares[#list.shares + 1] = value
        else
          list.expiring[#list.expiring + 1] = id
        end
      end
      if retention > 0 then
        k = k + 1
        kept[k], records[k], froms[k], spans[k], bytes = id, raw, at, retention, bytes + #raw - from + 257
        if e ~= NOTHING then exts[k] = e end
      else
        local m = #alike + 1
        alike[m], cores[m] = id, core and core .. sub(raw, %REC_HASH%) or sub(raw, %REC_CORE%)
      end
    end
    i = i + 1
  end
  list.runs[list.run] = list.runs[list.run] + n - list.n
  list.n, list.kept_count, list.bytes = n, k, bytes
  return i
end

-- Takes apart which of these jobs can be settled together as `state`: waiting ones, of no
-- `remember`, and of no group and no limit unless they were active, whose attempt was `attempt` if
-- it is given, and that `passes`. `places`: true, or of which by place. Answers lists, one for
-- each queue, and by place in which a job is.
function Settled.gather(ids, raws, places, state, attempt, results, passes)
  local lists, by_queue, taken = {}, {}, {}
  local list, front, width, q, kind, alike, shapes = nil, '\0', 1, nil, nil, nil, 0
  local same, same_tag, same_at, same_ext, same_opts, same_from = nil, 0, 0, nil, nil, 0 -- a job's record that has no value of its own, from its flags to its payload
  local bound = Settled.RETENTION[state]
  bound = bound and S.limits[bound]
  local i, count = 1, #ids
  while i <= count do
    local raw = raws[i]
    local tag = raw and (places == true or places[i]) and byte(raw) or 0
    if tag == %TAG_PLAIN% or tag == %TAG_WAITING% then
      local at, e, from, o, key, ex, group, flow, share = 32, NOTHING, nil, NOTHING, nil, nil, nil, nil, nil
      local is_same = same and tag == same_tag and sub(raw, %REC_FLAGS%, %REC_PRIORITY% + #same) == same
      local shape, value = not is_same and alike and tag == %TAG_WAITING% and alike.last, nil
      if shape then value = Job.value_in(shape, raw, %REC_FLAGS%) end
      if shape and not value then shape, value = Job.of_another_shape(alike, raw, %REC_FLAGS%, #raw) end
      if is_same then
        at, e, o, from = same_at, same_ext, same_opts, same_from
      elseif value then
        at, o, from = %REC_NEXT_QUEUE%, shape.opts, %REC_FLAGS% + shape.all
        if shape.name == 'u' then key = value elseif shape.flow then flow = value elseif shape.name == 'g' then group = value elseif shape.name == 'sh' then share = value elseif shape.name then ex = value end
      elseif tag == %TAG_WAITING% then
        local length = unp('>I4', raw, 32)
        at = 36 + length
        if length > 1 then e = Job.read_ext(raw, length) end
      end
      if not is_same and not value and sub(raw, at, at + width - 1) ~= front then
        alike, same = nil, nil -- they are of the list before
        local ql = byte(raw, at)
        local kl = byte(raw, at + ql + 1)
        width = ql + kl + 2
        front, q = sub(raw, at, at + width - 1), sub(raw, at + 1, at + ql)
        kind = kl > 0 and sub(raw, at + ql + 2, at + width - 1) or q
        list = by_queue[q] or new_list(q, state, lists, by_queue)
      end
      if not is_same and not value then
        from = at + width
        if byte(raw, %REC_FLAGS%) % 2 == 1 then
          local length = unp('>I4', raw, from)
          o, key, ex, group, flow, share = Job.read_opts(raw, from + 4, from + 3 + length)
          if at == %REC_NEXT_QUEUE% and e == NOTHING and shapes < SHAPES then
            alike, shapes = Job.keep_shape(alike, Job.shape(raw, %REC_FLAGS%, from + 4, from + 3 + length, key, ex, group, share, flow), o, raw, %REC_FLAGS%), shapes + 1
          end
          from = from + 4 + length
        end
        if not (key or ex or group or flow or share) then
          same, same_tag, same_at, same_ext, same_opts, same_from = sub(raw, %REC_FLAGS%, from - 1), tag, at, e, o, from
        end
      end
      if (attempt or not group and not o.li) and not o.rm and not e.wd and (not attempt or (e.a or 0) + 1 == attempt) and (not passes or passes(i, list.r, raw, e, o, key, ex, share, flow)) then
        local id, n = ids[i], list.n + 1
        list.n, list.ids[n], taken[i] = n, id, list
        if kind == list.kind then
          list.runs[list.run] = list.runs[list.run] + 1
        else
          list.run, list.kind = list.run + 2, kind
          list.runs[list.run], list.runs[list.run + 1] = 1, kind
        end
        if key then
          local k = #list.fields + 1
          list.fields[k], list.holders[k] = q .. '\0' .. key, id
        end
        if group then
          local k = #list.groups + 1
          list.groups[k], list.members[k] = group, id
        end
        if share then list.shares[#list.shares + 1] = share end
        if o.li then list.limits[#list.limits + 1], list.limited[#list.limits + 1] = o.li, id end
        if ex then list.expiring[#list.expiring + 1] = id end
        if flow then
          local k = #list.linked + 1
          list.linked[k], list.results[k] = id, results and results[i] or false
        end
        if o.sc and state == COMPLETED then list.scheduled[#list.scheduled + 1] = {id, o, results and results[i]} end
        local retention = bound or o.rn or 0
        if retention > 0 then
          local k = list.kept_count + 1
          list.kept_count, list.kept[k], list.kept_records[k], list.kept_from[k], list.kept_for[k] = k, id, raw, at, retention
          if e ~= NOTHING then list.kept_exts[k] = e end
          if results and results[i] then list.kept_results[k] = results[i] end
          list.bytes = list.bytes + #raw - from + 257
          if retention ~= list.span then list.span, list.spans = retention, list.spans + 1 end
        elseif state ~= COMPLETED or results and results[i] or e.la then
          list.own[#list.own + 1] = {id, raw, e, results and results[i]}
        else
          local k = #list.alike + 1
          list.alike[k], list.cores[k] = id, e.rd and e.rd .. sub(raw, %REC_HASH%) or sub(raw, %REC_CORE%)
        end
        if (is_same or value) and not flow and not o.li and not o.sc and (retention > 0 or state == COMPLETED and not e.la) then
          i = gather_alike(list, taken, ids, raws, places, i + 1, tag, is_same and same, value and shape, e, o, at, from, retention, results, passes) - 1
        end
      end
    end
    i = i + 1
  end
  return lists, taken
end

-- Leaves tombstones of jobs that completed with nothing more to say, if they are many one for all
-- of them.
local function leave_alike(ids, cores, said)
  local n, all = #ids, concat(ids)
  if n >= 8 and Settled.has_block() then return Settled.tombstone_many(ids, n, all, concat(cores), said.sa, said.sk) end
  local kv = {}
  for i = 1, n do kv[2 * i - 1], kv[2 * i] = ids[i], Settled.tombstone_of(cores[i], COMPLETED, false, S.now, said.sa, said.sk) end
  Records.set_many(kv)
  Settled.tombstones(S.now, all, n)
end

-- Leaves a tombstone of each job that has more to say: that it was late, its result, that it did
-- not complete.
local function leave_own(jobs, state, said)
  local kv, ids, bytes = {}, {}, 0
  for k, job in ipairs(jobs) do
    local id, raw, e, result = job[1], job[2], job[3], job[4]
    local core = (e.rd or sub(raw, %REC_DUE%)) .. sub(raw, %REC_HASH%)
    if not said.sa then result = e.re end
    kv[2 * k - 1] = id
    kv[2 * k] = Settled.tombstone_of(core, state, e.la, S.now, said.sa or e.sa or 0, said.sk or e.sk or Settled.NO_TOKEN, result)
    ids[k], bytes = id, bytes + #(result or '')
  end
  Records.set_many(kv)
  Settled.tombstones(S.now, concat(ids), #ids, nil, bytes)
end

-- An ext with what is said at the end, and its length before it.
local function last_ext(e, said, result)
  local out = {}
  for name, value in pairs(e) do out[name] = value end
  for name, value in pairs(said) do out[name] = value end
  out.fi, out.fr = S.now, nil
  if said.sa then out.re = result end
  local bytes = mp.pack(out)
  return pack('>I4', #bytes) .. bytes
end

-- As many completed jobs are kept together.
local TOGETHER_MIN = 8
--SMALL TOGETHER_MIN = 3

-- Keeps jobs whole: their records, their orders by finish and by the end of their retention.
local function keep(list, said)
  local r, kv, order, ends, same, head, is_alike = list.r, {}, {}, {}, nil, char(list.state), Settled.RETENTION[list.state]
  local finished, last, till8, together = fmt('%d', S.now), nil, nil, nil
  local n, ids, records, from, spans, exts, results = list.kept_count, list.kept, list.kept_records, list.kept_from, list.kept_for, list.kept_exts, list.kept_results
  local many = n >= TOGETHER_MIN
  local are_same = many and list.spans == 1 and next_of(exts) == nil and next_of(results) == nil
  if are_same then
    local ext = last_ext(NOTHING, said)
    together = list.span
    if is_alike then schedule('kept', S.now + max(together, WINDOW)) end
    for k = 1, n do
      local id, raw = ids[k], records[k]
      kv[2 * k - 1], kv[2 * k] = id, head .. sub(raw, %REC_HEAD%) .. ext .. sub(raw, from[k])
      order[2 * k - 1], order[2 * k] = finished, sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. id
    end
  end
  for k = 1, are_same and 0 or n do
    local id, raw, retention, e, result = ids[k], records[k], spans[k], exts[k], results[k]
    if many and not is_alike then
      if retention ~= last then last, together = retention, min(together or retention, retention) end
    elseif retention ~= last then
      local till = S.now + max(retention, WINDOW)
      last, till8 = retention, fmt('%d', till)
      schedule('kept', till)
    end
    local ext = not e and not result and same
    if not ext then
      ext = last_ext(e or NOTHING, said, result)
      if not e and not result then same = ext end
    end
    kv[2 * k - 1], kv[2 * k] = id, head .. sub(raw, %REC_HEAD%) .. ext .. sub(raw, from[k])
    order[2 * k - 1], order[2 * k] = finished, sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. id
    if not is_alike and not many then ends[2 * k - 1], ends[2 * k] = till8, id end
  end
  Records.set_many(kv)
  call_many('ZADD', S.base .. ':k:' .. list.state .. ':' .. r.name, order)
  if is_alike then Settled.keeps(r.name, list.state, S.now) elseif many then Settled.keeps_together(r.name, together) else call_many('ZADD', S.k.kp, ends) end
  r.counts[list.state], r.kept_bytes[list.state], r.rest = r.counts[list.state] + n, r.kept_bytes[list.state] + list.bytes, nil
  Settled.bound_kept(list.bytes)
  Settled.forget_oldest(r, list.state)
end

-- Counts and reports that jobs have ended.
local function count_ends(list)
  local r, ids, n = list.r, list.ids, list.n
  note(r, NOTED[list.state], n)
  Ends.completed(r, concat(ids), n, Ends.last_runs(list.runs, n), list.state)
  if M.watch >= S.now then
    S.settled = S.settled or {}
    for i = 1, n do S.settled[#S.settled + 1] = ids[i] end
  end
  if M.feed >= S.now then
    for i = 1, n do changed(ids[i], r.name, list.state) end
  end
end

-- Settles the jobs of a list, which stand in no place any more; `said` goes into the ext of each
-- that is kept.
function Settled.many(list, said)
  if next(S.bundle_of) then
    for i = 1, list.n do Bundle.leave(list.ids[i]) end
  end
  if list.are_held then
    call_many('HDEL', S.k.u, list.fields)
  elseif #list.fields > 0 then
    Unique.free_many(list)
  end
  call_many('ZREM', S.k.xp, list.expiring)
  if #list.groups > 0 then Group.settled_many(list.r, list.groups, list.members) end
  if #list.alike > 0 then leave_alike(list.alike, list.cores, said) end
  if #list.own > 0 then leave_own(list.own, list.state, said) end
  if list.kept_count > 0 then keep(list, said) end
  count_ends(list)
  if list.scheduled[1] then Schedule.keep_successes(list.scheduled) end
  if list.linked[1] then Flow.settled_many(list.linked, list.results, list.state) end
end

end
