-- Settled jobs that are kept whole: `BASE:k:STATE:QUEUE` has them by finish, `BASE:kp` by the end
-- of their retention.
do

local RETENTION = {[CANCELLED] = 'cancelled_retention', [DEAD] = 'dead_retention'} -- of S.limits
local NO_TOKEN, tombstone_of, keep_longer = Settled.NO_TOKEN, Settled.tombstone_of, Settled.keep_longer
Settled.RETENTION = RETENTION

local function kept_set(q, state) return S.base .. ':k:' .. state .. ':' .. q end

local function kept_bytes(j) return j.payload + 256 end

-- Cancelled and dead jobs of a queue are all kept equally long: their order by finish is the one
-- by the end of their retention. In `BASE:kp` such an order has one member: 16 zeros | state 1 |
-- queue, by a lower bound of its first end. Completed ones are kept as long as each asks: they have
-- one each, their ids; those that were kept together have one: 16 zeros | state 1 | finished 8 |
-- queue, by a lower bound of the first end of those of the queue that finished then.
local ORDER = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

-- How long such jobs are kept, and at least their ids.
local function span_of(state) return max(S.limits[RETENTION[state]], WINDOW) end

-- Cancelled or dead jobs of a queue that finished then are kept.
function Settled.keeps(q, state, finished)
  local till = finished + span_of(state)
  call('ZADD', S.k.kp, 'LT', fmt('%d', till), ORDER .. char(state) .. q)
  schedule('kept', till)
end

local function instant_of(q, finished) return ORDER .. char(COMPLETED) .. u8(finished) .. q end

-- Completed jobs of a queue that finish now are kept together, at least so long.
function Settled.keeps_together(q, retention)
  local till = S.now + max(retention, WINDOW)
  call('ZADD', S.k.kp, 'LT', fmt('%d', till), instant_of(q, S.now))
  schedule('kept', till)
end

-- The queue is deleted: it has no such orders any more.
function Settled.forget_queue(q) call('ZREM', S.k.kp, ORDER .. char(CANCELLED) .. q, ORDER .. char(DEAD) .. q) end

-- Reads when the first job of such an order is no longer kept, its `member` in `BASE:kp`: its
-- id and that instant; nil if there is none.
local function first_kept(member)
  local state = byte(member, %ORDER_STATE_AT%)
  local first = call('ZRANGE', kept_set(sub(member, %ORDER_QUEUE_AT%), state), 0, 0, 'WITHSCORES')
  if not first[1] then
    call('ZREM', S.k.kp, member)
    return nil
  end
  local till = tonum(first[2]) + span_of(state)
  call('ZADD', S.k.kp, fmt('%d', till), member)
  return sub(first[1], %KEPT_ID_AT%), till
end

-- The `remember` of a record, us; 0 if it has none.
local function remember_of(id, raw)
  if byte(raw, %REC_FLAGS%) % 4 < %SPEC_EXAMINED% or not find(raw, '\162rm', 1, true) then return 0 end
  return tonum(Job.parse(id, raw).opts.rm) or 0
end

-- Counts bytes of kept jobs, of all queues: `kb` of `BASE:s`, written with the commit.
local function count_kept(bytes) S.kept_more = (S.kept_more or 0) + bytes end

function Settled.flush_kept()
  call('HINCRBY', S.k.s, 'kb', fmt('%d', S.kept_more))
  S.kept_more, S.kept_known = nil, nil
end

local last_bytes, last_said = nil, nil -- of the kept job that left last: those that ended together mostly say the same

-- What the record of a kept job says from its flags to its payload: its queue, its ext (not to be
-- changed), when it finished, its `remember`, and where that ends.
local function said_of(id, raw)
  if last_bytes and sub(raw, %REC_FLAGS%, %REC_PRIORITY% + #last_bytes) == last_bytes then return last_said end
  local length = unp('>I4', raw, %REC_BODY%)
  local at = %REC_EXT% + length
  local e = length > 1 and Job.read_ext(raw, length) or Job.NOTHING
  last_said = {q = sub(raw, at + 1, at + byte(raw, at)), e = e, finished = e.fi or 0, rm = remember_of(id, raw),
    till = #raw - Job.payload_bytes(raw, at, byte(raw, %REC_FLAGS%))}
  last_bytes = sub(raw, %REC_FLAGS%, last_said.till)
  return last_said
end

-- The bytes of the payload of a kept job, its `remember`, and how long it asks to be kept, if that
-- is `asked` for.
local function spans_of(raw, asked)
  local flags, from = byte(raw, %REC_FLAGS%), %REC_EXT% + unp('>I4', raw, %REC_BODY%)
  if %flags has SPEC_OPTS% and (asked or flags % 4 >= %SPEC_EXAMINED% and find(raw, '\162rm', 1, true)) then
    from = from + 1 + byte(raw, from)
    from = from + 1 + byte(raw, from)
    local last = from + 3 + unp('>I4', raw, from)
    local o = Job.read_opts(raw, from + 4, last)
    return #raw - last, tonum(o.rm) or 0, o.rn or 0
  end
  return Job.payload_bytes(raw, from, flags), 0, 0
end

-- So many kept jobs of a queue, of so many bytes, are no longer kept.
local function count_left(r, state, n, bytes)
  r.counts[state], r.kept_bytes[state], r.rest = r.counts[state] - n, max(0, r.kept_bytes[state] - bytes), nil
  count_kept(-bytes)
end

-- A job that is no longer kept goes: mostly no tombstone of it is left, and its id goes to `gone`;
-- else a tombstone stands in its place.
local function let_go(id, raw, gone, remember)
  if remember > WINDOW then
    local j = Job.parse(id, raw)
    if (j.ext.fi or 0) + remember > S.now then return Settled.drop(j, j.ext.fi or 0) end
  end
  gone[#gone + 1] = id
end

-- Jobs that one call lets go at most beside its own.
local KEPT_MAX = 100

local INSTANT = 250 -- jobs of one instant that are read together
local ALIKE_MISSES = 4 -- jobs that differ, and no further ones are compared

-- The jobs of an instant that are kept, at most so many behind others: what stands for each in its
-- order, ids, records, and the order's key.
local function of_instant(order, behind, most)
  local q, score, ids = sub(order, %ORDER_INSTANT_QUEUE_AT%), fmt('%d', at8(order, %ORDER_INSTANT_AT%)), {}
  local key = kept_set(q, COMPLETED)
  local found = call('ZRANGEBYSCORE', key, score, score, 'LIMIT', behind, most)
  for i = 1, #found do ids[i] = sub(found[i], %KEPT_ID_AT%) end
  return found, ids, Job.raws(ids), key, score
end

-- When the first job of an instant's order ends; nil: there is none any more.
local function reschedule(order, till)
  if till then call('ZADD', S.k.kp, fmt('%d', till), order) else call('ZREM', S.k.kp, order) end
end

local function are_too_many() return S.kept_known + S.kept_more > S.limits.namespace_retained_bytes end

-- The ends of jobs of an instant's order, some behind others, and the first of them; takes out
-- those whose record is gone.
local function ends_of(key, finished, found, raws)
  local tills, first, lost = {}, nil, 0
  for i = 1, #found do
    if raws[i] and byte(raws[i]) == COMPLETED then
      local _, _, retention = spans_of(raws[i], true)
      tills[i] = finished + max(retention, WINDOW)
      if not first or tills[i] < first then first = tills[i] end
    else
      call('ZREM', key, found[i])
      lost, S.lost = lost + 1, true
    end
  end
  return tills, first, lost
end

-- Lets jobs of an instant go while those of all queues are too many bytes, those that end first, if
-- they do at a time: how many steps that were. Reads on until some end by then.
local function shed(order, till, most)
  local finished, behind, nearest, gone, these = at8(order, %ORDER_INSTANT_AT%), 0, nil, 0, {}
  local found, ids, raws, key, tills, first, lost
  repeat
    found, ids, raws, key = of_instant(order, behind, INSTANT)
    tills, first, lost = ends_of(key, finished, found, raws)
    if first then nearest = min(nearest or first, first) end
    behind = behind + #found - lost
  until first and first <= till or #found < INSTANT
  if not first or first > till then
    reschedule(order, nearest)
    return 1
  end
  local next_
  for i = 1, #found do
    if tills[i] == first then these[#these + 1] = i elseif tills[i] then next_ = min(next_ or tills[i], tills[i]) end
  end
  table.sort(these, function(a, b) return below(ids[a], ids[b]) end)
  for _, i in ipairs(these) do
    if gone < most and are_too_many() then
      local j = Job.parse(ids[i], raws[i])
      Settled.unkeep(j)
      Settled.drop(j, finished)
      gone = gone + 1
    else
      next_ = first
    end
  end
  if behind < INSTANT and #found < INSTANT then reschedule(order, next_) end
  return max(1, gone)
end

-- Lets kept jobs go, those first whose retention ends first, while those of all queues are too many
-- bytes.
function Settled.bound_kept(bytes)
  count_kept(bytes)
  S.kept_known = S.kept_known or tonum(call('HGET', S.k.s, 'kb') or nil) or 0
  local gone = 0
  while gone < KEPT_MAX and are_too_many() do
    local found = call('ZRANGE', S.k.kp, 0, 0, 'WITHSCORES')
    local id = found[1]
    if not id then break end
    local order, till = #id > 16 and id, nil
    if order and byte(order, %ORDER_STATE_AT%) == COMPLETED then
      gone = gone + shed(order, tonum(found[2]), KEPT_MAX - gone)
    else
      if order then id, till = first_kept(order) end
      if not order or till and till <= tonum(found[2]) then
        local j = Job.load(id)
        if j and j.tag > %TAG_HELD% then
          Settled.unkeep(j)
          Settled.drop(j, j.ext.fi or 0)
        elseif order then
          call('ZREMRANGEBYRANK', kept_set(sub(order, %ORDER_QUEUE_AT%), byte(order, %ORDER_STATE_AT%)), 0, 0)
          S.lost = true
        else
          call('ZREM', S.k.kp, id)
        end
        if order then first_kept(order) end
      end
      gone = gone + 1
    end
  end
end

-- A kept job's record is gone, and its entry too: its bytes are not known.
function Settled.unkept(r, state)
  r.counts[state], r.rest, S.lost = max(0, r.counts[state] - 1), nil, true
  if r.counts[state] == 0 and r.kept_bytes[state] > 0 then
    count_kept(-r.kept_bytes[state])
    r.kept_bytes[state] = 0
  end
end

-- Completed jobs of a queue that finished then, at instants from the first to the last, have left
-- their order: what stands in `BASE:kp` for instants of which there are no others goes, too.
local function forget_instants(q, instants)
  local last = instants[#instants]
  local score, gone = fmt('%d', last or 0), {}
  local is_left = last and call('ZCOUNT', kept_set(q, COMPLETED), score, score) > 0
  for i = 1, #instants do
    if not (is_left and instants[i] == last) and instants[i] ~= instants[i - 1] then gone[#gone + 1] = instant_of(q, instants[i]) end
  end
  call_many('ZREM', S.k.kp, gone)
end

-- Takes a kept job out of the orders it stands in.
function Settled.unkeep(j)
  local r, state = Row.of(j.q), j.tag
  call('ZREM', kept_set(j.q, state), Job.seq(j) .. j.id)
  if not RETENTION[state] and call('ZREM', S.k.kp, j.id) == 0 then forget_instants(j.q, {j.ext.fi}) end
  r.counts[state], r.rest = r.counts[state] - 1, nil
  r.kept_bytes[state] = max(0, r.kept_bytes[state] - kept_bytes(j))
  count_kept(-kept_bytes(j))
end

-- Forgets the oldest kept jobs of a queue in a state while there are more, or more bytes of them,
-- than are kept. Those of one look are forgotten together.
function Settled.forget_oldest(r, state)
  local key, limits = kept_set(r.name, state), S.limits
  while r.counts[state] > limits.retained or r.kept_bytes[state] > limits.retained_bytes do
    local over = min(max(1, r.counts[state] - limits.retained), 250)
    local oldest, ids = call('ZRANGE', key, 0, over - 1), {}
    if #oldest == 0 then break end
    for i, member in ipairs(oldest) do ids[i] = sub(member, %KEPT_ID_AT%) end
    local raws, kv, by_finish, gone, longer, instants = Job.raws(ids), {}, {}, {}, {}, {}
    for i, id in ipairs(ids) do
      local raw = raws[i]
      local said = raw and byte(raw) == state and said_of(id, raw)
      if said and said.q == r.name then
        local e, width = said.e, #raw - said.till + 256
        r.counts[state], r.kept_bytes[state] = r.counts[state] - 1, max(0, r.kept_bytes[state] - width)
        count_kept(-width)
        Bundle.leave(id)
        local finished, rm = said.finished, said.rm
        instants[#instants + 1] = finished
        if rm > WINDOW and finished + rm > S.now then
          longer[#longer + 1] = {finished + rm, id, (e.rd or sub(raw, %REC_DUE%)) .. sub(raw, %REC_HASH%), state, e.la, finished, e.sa or 0, e.sk or NO_TOKEN, e.re}
        elseif finished + WINDOW > S.now then
          kv[#kv + 1], kv[#kv + 2] = id, tombstone_of((e.rd or sub(raw, %REC_DUE%)) .. sub(raw, %REC_HASH%), state, e.la, finished, e.sa or 0, e.sk or NO_TOKEN, e.re)
          by_finish[finished] = by_finish[finished] or {results = 0}
          table.insert(by_finish[finished], id)
          by_finish[finished].results = by_finish[finished].results + (e.re and #e.re or 0)
        else
          gone[#gone + 1] = id
        end
      else -- its record is gone, or is of another job
        Settled.unkept(r, state)
        ids[i] = false
      end
    end
    r.rest = nil
    call('ZREMRANGEBYRANK', key, 0, #oldest - 1)
    if not RETENTION[state] then
      local orders = {}
      for i = 1, #oldest do if ids[i] then orders[#orders + 1] = ids[i] end end
      if call_many('ZREM', S.k.kp, orders) < #orders then forget_instants(r.name, instants) end
    end
    Records.set_many(kv)
    Records.delete_many(gone)
    for _, one in ipairs(longer) do keep_longer(one[1], one[2], one[3], one[4], one[5], one[6], one[7], one[8], one[9]) end
    for finished, all in pairs(by_finish) do Settled.tombstones(finished, concat(all), #all, nil, all.results) end
  end
end

function Settled.keep(j, finished)
  local state, r = j.tag, Row.of(j.q)
  local bound = RETENTION[state]
  local retention = bound and S.limits[bound] or j.opts.rn or 0
  if retention == 0 then return Settled.drop(j, finished) end
  Job.save(j)
  local till = finished + max(retention, WINDOW)
  call('ZADD', kept_set(j.q, state), fmt('%d', finished), Job.seq(j) .. j.id)
  if bound then
    Settled.keeps(j.q, state, finished)
  else
    call('ZADD', S.k.kp, fmt('%d', till), j.id)
    schedule('kept', till)
  end
  r.counts[state], r.rest = r.counts[state] + 1, nil
  r.kept_bytes[state] = r.kept_bytes[state] + kept_bytes(j)
  Settled.bound_kept(kept_bytes(j))
  Settled.forget_oldest(r, state)
end

-- Removes the first jobs of an order, those that are past its span, at most so many; how many.
local function prune_order(member, limit)
  local state, q = byte(member, %ORDER_STATE_AT%), sub(member, %ORDER_QUEUE_AT%)
  if not Row.find(q) then return call('ZREM', S.k.kp, member) end
  local key, r, ids, gone, left, bytes = kept_set(q, state), Row.of(q), {}, {}, 0, 0
  local found = call('ZRANGEBYSCORE', key, '-inf', fmt('%d', S.now - span_of(state)), 'LIMIT', 0, limit)
  local n = #found
  if n > 0 then
    for i = 1, n do ids[i] = sub(found[i], %KEPT_ID_AT%) end
    local raws = Job.raws(ids)
    call('ZREMRANGEBYRANK', key, 0, n - 1)
    for i = 1, n do
      local raw = raws[i]
      if raw and byte(raw) == state then
        local payload, remember = spans_of(raw, false)
        left, bytes = left + 1, bytes + payload + 256
        let_go(ids[i], raw, gone, remember)
      else
        Settled.unkept(r, state)
      end
    end
    count_left(r, state, left, bytes)
    Records.delete_many(gone)
  end
  first_kept(member)
  return n
end

-- Removes those jobs of an instant that are past their retention, at most so many; how many.
local function prune_instant(order, limit)
  local q, finished = sub(order, %ORDER_INSTANT_QUEUE_AT%), at8(order, %ORDER_INSTANT_AT%)
  if not Row.find(q) then return call('ZREM', S.k.kp, order) end
  local r, stay, pruned, first, n = Row.of(q), 0, 0, nil, nil
  repeat
    local most = min(limit - pruned, INSTANT)
    local found, ids, raws, key, score = of_instant(order, stay, most)
    local out, gone, left, bytes, same, misses, behind, remember, retention = {}, {}, 0, 0, nil, 0, 0, 0, 0
    n = #found
    for i = 1, n do
      local raw = raws[i]
      if raw and byte(raw) == COMPLETED then
        local payload = #raw - behind
        if not (same and sub(raw, %REC_FLAGS%, behind) == same) then -- most are as the one before
          payload, remember, retention = spans_of(raw, true)
          misses, behind = misses + 1, #raw - payload
          same = misses < ALIKE_MISSES and sub(raw, %REC_FLAGS%, behind)
        end
        local till = finished + max(retention, WINDOW)
        if till <= S.now then
          left, bytes, out[#out + 1] = left + 1, bytes + payload + 256, found[i]
          let_go(ids[i], raw, gone, remember)
        else
          first = min(first or till, till)
        end
      else
        Settled.unkept(r, COMPLETED)
        out[#out + 1] = found[i]
      end
    end
    if #out == n and n > 0 then
      local first_at = call('ZCOUNT', key, '-inf', '(' .. score) + stay
      call('ZREMRANGEBYRANK', key, first_at, first_at + n - 1)
    else
      call_many('ZREM', key, out)
    end
    count_left(r, COMPLETED, left, bytes)
    Records.delete_many(gone)
    pruned, stay = pruned + #out, stay + n - #out
    if n < most then
      reschedule(order, first)
      return pruned
    end
  until limit - pruned < INSTANT / 4 -- else pages of few, which read the same ones over and over
  return pruned
end

-- Removes jobs that are past their retention, of which each has an entry of its own: the first of
-- all entries, if they `are_all` that are past it.
local function prune_ids(ids, are_all)
  local raws, gone, members, sets = Job.raws(ids), {}, {}, {}
  for i = 1, #ids do
    local raw, id = raws[i], ids[i]
    local state = raw and byte(raw)
    if state and state > %TAG_HELD% and state < %TAG_TOMBSTONE% then
      local said = said_of(id, raw)
      local set, width = kept_set(said.q, state), #raw - said.till + 256
      local list = members[set]
      if not list then
        list = {}
        members[set], sets[#sets + 1] = list, set
      end
      list[#list + 1] = sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. id
      count_left(Row.of(said.q), state, 1, width)
      if said.finished + max(WINDOW, said.rm) > S.now then Settled.drop(Job.parse(id, raw), said.finished) else gone[#gone + 1] = id end
    elseif not raw then
      S.lost = true
    end
  end
  if are_all then call('ZREMRANGEBYRANK', S.k.kp, 0, #ids - 1) else call_many('ZREM', S.k.kp, ids) end
  for _, set in ipairs(sets) do call_many('ZREM', set, members[set]) end
  Records.delete_many(gone)
end

-- Removes kept jobs past their retention, which is no shorter than the settled window, unless that
-- has grown since. How many.
function Settled.prune_kept(limit)
  local key, ids, n, pruned = S.k.kp, {}, 0, 0
  local found = call('ZRANGEBYSCORE', key, '-inf', fmt('%d', S.now), 'LIMIT', 0, limit)
  for i = 1, #found do
    if #found[i] == 16 then
      n = n + 1
      ids[n] = found[i]
    end
  end
  if n > 0 then prune_ids(ids, n == #found) end
  for i = 1, #found do -- behind the others: an instant may have jobs of these
    local member = found[i]
    if n + pruned >= limit then break end
    if #member > 16 then
      local prune = byte(member, %ORDER_STATE_AT%) == COMPLETED and prune_instant or prune_order
      pruned = pruned + prune(member, limit - n - pruned)
    end
  end
  return n + pruned
end

end
