-- What becomes of a settled job: kept whole (`BASE:k:STATE:QUEUE` by finish, `BASE:kp` by the end
-- of its retention) or reduced to a tombstone in its record's place. Tombstones of jobs that
-- completed together refer (tag 8 | finished 8 | sub 2 | no 1) to what is said once of all of them:
-- `BASE:md`, finished 8 | sub 2 | no 1 to attempt 4 | token 12 | n 2 | ids | due and hash of each |
-- part of the ids, 255 if they are of several.
-- `BASE:mp` has all tombstones in order: finished 8 and ids (and,
-- with results, their bytes 4), or finished 8 | sub 2 | no 1 and, once
-- a part was pruned, | how many 2; or finished 8 | number 11 of a bundle.
do

local TOMBSTONE = %TOMB_BYTES%
local RETENTION = {[CANCELLED] = 'cancelled_retention', [DEAD] = 'dead_retention'} -- of S.limits
local NO_TOKEN = '\0\0\0\0\0\0\0\0\0\0\0\0'

local function kept_set(q, state) return S.base .. ':k:' .. state .. ':' .. q end

-- Cancelled and dead jobs of a queue are all kept equally long: their order by finish is the one
-- by the end of their retention. In `BASE:kp` such an order has one member: 16 zeros | state 1 |
-- queue, by a lower bound of its first end. Others have one each, their ids.
local ORDER = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

-- How long such jobs are kept, and at least their ids.
local function span_of(state) return max(S.limits[RETENTION[state]], WINDOW) end

-- Cancelled or dead jobs of a queue that finished then are kept.
function Settled.keeps(q, state, finished)
  local till = finished + span_of(state)
  call('ZADD', S.k.kp, 'LT', fmt('%d', till), ORDER .. char(state) .. q)
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

-- A tombstone's bytes; `core` is due 8 | hash 8, `token` 12 bytes.
local function tombstone_of(core, state, late, finished, attempt, token, result)
  return '\%TAG_TOMBSTONE%' .. core .. char(state + (late and 8 or 0)) .. u8(finished) .. pack('>I4', attempt) .. token .. (result or '')
end

Settled.RETENTION, Settled.NO_TOKEN, Settled.tombstone_of = RETENTION, NO_TOKEN, tombstone_of

-- Whether it is the tombstone of a job with a `remember` over the window.
local function is_remembered(raw) return byte(raw) == %TAG_TOMBSTONE% and byte(raw, %TOMB_STATE%) >= %TOMB_REMEMBERED% end

-- Whether a tombstone still counts.
function Settled.tombstone_counts(raw)
  if is_remembered(raw) then return unp('>I8', raw, %TOMB_UNTIL%) > S.now end
  return unp('>I8', raw, %TOMB_FINISHED%) + WINDOW > S.now
end

-- A tombstone in full: itself, or what its reference leads to; nil if that is gone.
function Settled.tombstone(id, raw)
  if byte(raw) == %TAG_TOMBSTONE% then return raw end
  local all = call('HGET', S.k.md, sub(raw, %TOMB_REF_NUMBER%))
  if not all then return nil end
  local n, at = unp('>I2', all, 17), 19
  while at do
    at = find(all, id, at, true)
    if not at or at >= 19 + 16 * n then return nil end
    if (at - 19) % 16 == 0 then break end
    at = at + 1
  end
  local core = 16 * n + at
  return '\%TAG_TOMBSTONE%' .. sub(all, core, core + 15) .. char(COMPLETED) .. sub(raw, %TOMB_REF_FINISHED%) .. sub(all, %TOGETHER_SETTLEMENT%)
end

-- Blocks of tombstones that one step of a call may have: their number is one byte.
local BLOCKS_MAX = 256

-- Whether one more block may be written in this step.
function Settled.has_block() return (S.blocks or 0) < BLOCKS_MAX end

-- A list of as many ids with their tombstones as were written last.
local last_count, last_pairs = 0, {}

-- Tombstones jobs that completed together: ids as a list and a string, cores as a string; all of
-- one attempt under one token. No other thing counts these blocks: two of one number would be one.
function Settled.tombstone_many(ids, n, all, cores, attempt, token)
  S.blocks = (S.blocks or 0) + 1
  local no = u8(S.now) .. S.sub .. char(S.blocks - 1)
  local tombstone, at = '\%TAG_TOMBSTONE_REF%' .. no, 0
  if n ~= last_count then last_count, last_pairs = n, {} end
  local kv = last_pairs
  for i = 1, n do
    kv[at + 1], kv[at + 2] = ids[i], tombstone
    at = at + 2
  end
  local key, part = Records.key_of_bytes(all, 1, n)
  Records.set_many(kv, key)
  call('HSET', S.k.md, no, pack('>I4', attempt) .. sub(token, %TOKEN_SEAL%) .. pack('>I2', n) .. all .. cores .. char(part))
  Settled.tombstones(S.now, no, n)
end

-- Lets the oldest tombstones go while all are too many bytes, those that are remembered last.
local function bound_tombstones()
  local most = S.limits.tombstone_bytes
  if M.tombstones <= most then return end
  Settled.prune_tombstones(1 + floor((M.tombstones - most - 1) / TOMBSTONE), true)
end

-- Leaves a tombstone that counts until an instant beyond the window. `BASE:rm` has such ids by that
-- instant, and `BASE:s` how many bytes they count under `tr`.
local function keep_longer(until_, id, core, state, late, finished, attempt, token, result)
  Job.put(id, tombstone_of(core, state + %TOMB_REMEMBERED%, late, finished, attempt, token, u8(until_) .. (result or '')))
  call('ZADD', S.k.rm, fmt('%d', until_), id)
  local bytes = TOMBSTONE + #(result or '')
  call('HINCRBY', S.k.s, 'tr', bytes)
  M.tombstones = M.tombstones + bytes
  schedule('tombstone', until_)
  bound_tombstones()
end

-- A remembered tombstone goes.
local function forget_remembered(id, raw)
  local bytes = TOMBSTONE + #raw + 1 - %TOMB_UNTIL_RESULT%
  call('ZREM', S.k.rm, id)
  call('HINCRBY', S.k.s, 'tr', -bytes)
  M.tombstones = max(0, M.tombstones - bytes)
end

-- Refuses a job that is to be remembered while those of others have their share of the bound: half
-- of it.
function Settled.may_remember(index)
  local held = tonum(call('HGET', S.k.s, 'tr') or nil) or 0
  if held * 2 < S.limits.tombstone_bytes then return end
  refuse('engine_full', 'tombstones of jobs with a `remember` have reached their share of the bound, half of it; send without `remember`, or later index=' .. index)
end

-- Forgets remembered tombstones past their time, or the first ones whatever it is until the bound
-- is kept; how many.
local function prune_remembered(limit, any_age)
  local key, pruned = S.k.rm, 0
  local ids = any_age and call('ZRANGE', key, 0, limit - 1) or call('ZRANGEBYSCORE', key, '-inf', fmt('%d', S.now), 'LIMIT', 0, limit)
  local raws = Records.get_many(ids)
  for i = 1, #ids do
    if any_age and M.tombstones <= S.limits.tombstone_bytes then break end
    if raws[i] and is_remembered(raws[i]) then
      forget_remembered(ids[i], raws[i])
      Records.delete(ids[i])
    else
      call('ZREM', key, ids[i])
    end
    pruned = pruned + 1
  end
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[2] then schedule('tombstone', tonum(first[2])) end
  return pruned
end

-- Keeps n tombstones, written by the caller, in their order: a string of ids, or a reference;
-- `results`, the bytes of those.
function Settled.tombstones(finished, what, n, at_once, results)
  if n == 1 and finished == S.now and not at_once then -- with the others of this call
    S.tombstones = S.tombstones or {}
    S.tombstones[#S.tombstones + 1] = what
    S.tombstone_results = (S.tombstone_results or 0) + (results or 0)
    return
  end
  if #what % 16 == 0 then what = u8(finished) .. what .. (results and results > 0 and pack('>I4', results) or '') end
  call('RPUSH', S.k.mp, what)
  M.tombstones = M.tombstones + n * TOMBSTONE + (results or 0)
  schedule('tombstone', finished + WINDOW + 1e6)
  bound_tombstones()
end

-- Writes the tombstones that were kept one by one in this call.
function Settled.flush_tombstones()
  local ids, results = S.tombstones, S.tombstone_results
  S.tombstones, S.tombstone_results = nil, nil
  if ids then Settled.tombstones(S.now, concat(ids), #ids, true, results) end
end

-- An id whose tombstone is in the order of tombstones stands for something else now: the prune
-- passes it over once.
function Settled.reuse(id, raw)
  if raw and is_remembered(raw) then return forget_remembered(id, raw) end
  if Bundle.leave(id) then return end
  call('HINCRBY', S.k.rv, id, 1)
  M.reused, M.rest = M.reused + 1, nil
end

-- Forgets the tombstones of an entry of ids, at most so many; how many.
local function prune_entry(key, one, limit)
  local ids, all, from, n, records = nil, one, 9, floor((#one - 8) / 16), nil
  local results = #one % 16 == 12 and sub(one, -4) or ''
  local no = (#one == 11 or #one == 13) and sub(one, %TOGETHER_NUMBER%)
  if no then -- a reference; ids before `from` are pruned
    all = call('HGET', S.k.md, no) or rep('\0', 18)
    records = Records.key_of_part(byte(all, -1))
    local gone = #one == 13 and unp('>I2', one, 12) or 0
    from, n = 19 + 16 * gone, unp('>I2', all, 17) - gone
  end
  local take = min(n, limit)
  ids = cut_ids(all, from, take)
  if no and take == n then
    call('HDEL', S.k.md, no)
  elseif no then
    call('LPUSH', key, no .. pack('>I2', (from - 19) / 16 + take))
  elseif take < n then
    call('LPUSH', key, sub(one, %INSTANT_BYTES%) .. sub(one, 16 * take + 9)) -- its results go with the rest
  elseif results ~= '' then
    M.tombstones = M.tombstones - unp('>I4', results)
  end
  if M.reused > 0 then
    local counts, gone = get_many(S.k.rv, ids), {}
    for i = 1, take do
      if not counts[i] then
        gone[#gone + 1] = ids[i]
      elseif call('HINCRBY', S.k.rv, ids[i], -1) <= 0 then
        call('HDEL', S.k.rv, ids[i])
      end
      if counts[i] then M.reused, M.rest = M.reused - 1, nil end
    end
    ids = gone
  end
  Records.delete_many(ids, records)
  M.tombstones = max(0, M.tombstones - take * TOMBSTONE)
  return take
end

-- Forgets tombstones past the window, or the oldest ones whatever their age until the bound is
-- kept; how many. `BASE:s` has under `te` when the last job finished whose tombstone went early.
function Settled.prune_tombstones(limit, any_age)
  local key, pruned, early = S.k.mp, 0, nil
  while pruned < limit and not (any_age and M.tombstones <= S.limits.tombstone_bytes) do
    local one = call('LINDEX', key, 0)
    if not one then break end
    if any_age then early = sub(one, %INSTANT_BYTES%) end
    if not any_age and at8(one) + WINDOW > S.now then
      schedule('tombstone', at8(one) + WINDOW + 1e6)
      break
    end
    call('LPOP', key)
    if #one == 19 then
      local gone, more = Bundle.prune(sub(one, %BEHIND_INSTANT%), sub(one, %INSTANT_BYTES%), limit - pruned)
      pruned, M.tombstones = pruned + gone, max(0, M.tombstones - gone * TOMBSTONE)
      if more then call('LPUSH', key, one) end
    else
      pruned = pruned + prune_entry(key, one, limit - pruned)
    end
  end
  if early and at8(early) + WINDOW > S.now then call('HSET', S.k.s, 'te', early) end
  if pruned < limit then pruned = pruned + prune_remembered(limit - pruned, any_age) end
  return pruned
end

-- Drops a job's record and leaves a tombstone, while that is worth anything.
function Settled.drop(j, finished)
  local e, span = j.ext, max(WINDOW, tonum(j.opts.rm) or 0)
  if finished + span <= S.now then
    Job.drop(j.id)
    return
  end
  local core, attempt, token = (e.rd or j.due8) .. j.hash, e.sa or 0, e.sk or NO_TOKEN
  if span > WINDOW then return keep_longer(finished + span, j.id, core, j.tag, e.la, finished, attempt, token, e.re) end
  Job.put(j.id, tombstone_of(core, j.tag, e.la, finished, attempt, token, e.re))
  Settled.tombstones(finished, j.id, 1, nil, e.re and #e.re)
end

local function kept_bytes(j) return j.payload + 256 end

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

-- A kept job that has left its order is no longer kept: mostly no tombstone of it is left. Its id
-- goes to `gone`, or a tombstone stands in its place.
local function let_go(r, state, id, raw, gone, said)
  local width = #raw - said.till + 256
  r.counts[state], r.kept_bytes[state], r.rest = r.counts[state] - 1, max(0, r.kept_bytes[state] - width), nil
  count_kept(-width)
  if said.finished + max(WINDOW, said.rm) > S.now then return Settled.drop(Job.parse(id, raw), said.finished) end
  Bundle.leave(id)
  gone[#gone + 1] = id
end

-- Jobs that one call lets go at most beside its own.
local KEPT_MAX = 100

-- Lets kept jobs go, those first whose retention ends first, while those of all queues are too many
-- bytes.
function Settled.bound_kept(bytes)
  count_kept(bytes)
  S.kept_known = S.kept_known or tonum(call('HGET', S.k.s, 'kb') or nil) or 0
  local most, gone = S.limits.namespace_retained_bytes, 0
  while S.kept_known + S.kept_more > most and gone < KEPT_MAX do
    local found = call('ZRANGE', S.k.kp, 0, 0, 'WITHSCORES')
    local id = found[1]
    if not id then break end
    local order, till = #id > 16 and id, nil
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

-- A kept job's record is gone, and its entry too: its bytes are not known.
function Settled.unkept(r, state)
  r.counts[state], r.rest, S.lost = max(0, r.counts[state] - 1), nil, true
  if r.counts[state] == 0 and r.kept_bytes[state] > 0 then
    count_kept(-r.kept_bytes[state])
    r.kept_bytes[state] = 0
  end
end

-- Takes a kept job out of the orders it stands in.
function Settled.unkeep(j)
  local r, state = Row.of(j.q), j.tag
  call('ZREM', kept_set(j.q, state), Job.seq(j) .. j.id)
  if not RETENTION[state] then call('ZREM', S.k.kp, j.id) end
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
    local raws, kv, by_finish, gone, longer = Job.raws(ids), {}, {}, {}, {}
    for i, id in ipairs(ids) do
      local raw = raws[i]
      local said = raw and byte(raw) == state and said_of(id, raw)
      if said and said.q == r.name then
        local e, width = said.e, #raw - said.till + 256
        r.counts[state], r.kept_bytes[state] = r.counts[state] - 1, max(0, r.kept_bytes[state] - width)
        count_kept(-width)
        Bundle.leave(id)
        local finished, rm = said.finished, said.rm
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
      call_many('ZREM', S.k.kp, orders)
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

local NOTED = {[COMPLETED] = 3, [CANCELLED] = 6, [DEAD] = 5}

-- Settles a job that stands in no place any more; its reasons are already in its ext.
function Settled.as(j, state)
  j.tag = state
  local e = j.ext
  e.fi, e.fr = S.now, nil
  local r = Row.of(j.q)
  Unique.free(j)
  if j.opts.sh then Share.waits_no_more(r, j.opts.sh, j.id) end -- a run may settle as it moves
  if j.opts.g then Group.settled(r, j.opts.g, j.id) end
  Place.forget_expiry(j)
  note(r, NOTED[state], 1)
  Ends.add(r, state, j.kind ~= j.q and j.kind or '', j.id, 1)
  changed(j.id, j.q, state)
  S.settled = S.settled or {}
  S.settled[#S.settled + 1] = j.id
  if j.opts.fl or e.wd then Flow.settled(j, state) end
  Settled.keep(j, S.now)
  if j.opts.sc then Schedule.settled(j, state) end
end

-- Settles a pending job as cancelled: 0 requested, 1 expired, 2 replaced, 3 purged, 4 skipped, 6
-- upstream.
function Settled.cancel_waiting(j, reason)
  Place.out(j)
  j.ext.cd = reason
  if reason == 0 then j.ext.sp = 0 end
  Settled.as(j, CANCELLED)
end

-- Expires a pending job whose instant has passed; whether it did.
function Settled.expire_if_late(j)
  if j.tag > %TAG_HELD% or not Job.has_expired(j) then return false end
  if j.tag < %TAG_HELD% and j.due <= S.now and Lease.of(j) then return false end
  Settled.cancel_waiting(j, 1)
  return true
end

-- Removes the first jobs of an order, those that are past its span, at most so many; how many.
local function prune_order(member, limit)
  local state, q = byte(member, %ORDER_STATE_AT%), sub(member, %ORDER_QUEUE_AT%)
  if not Row.find(q) then return call('ZREM', S.k.kp, member) end
  local key, r, ids, gone = kept_set(q, state), Row.of(q), {}, {}
  local found = call('ZRANGEBYSCORE', key, '-inf', fmt('%d', S.now - span_of(state)), 'LIMIT', 0, limit)
  local n = #found
  if n > 0 then
    for i = 1, n do ids[i] = sub(found[i], %KEPT_ID_AT%) end
    local raws = Job.raws(ids)
    call('ZREMRANGEBYRANK', key, 0, n - 1)
    for i = 1, n do
      local raw = raws[i]
      if raw and byte(raw) == state then let_go(r, state, ids[i], raw, gone, said_of(ids[i], raw)) else Settled.unkept(r, state) end
    end
    Records.delete_many(gone)
  end
  first_kept(member)
  return n
end

-- Removes kept jobs past their retention, which is no shorter than the settled window, unless that
-- has grown since. How many.
function Settled.prune_kept(limit)
  local key, ids, n, pruned = S.k.kp, {}, 0, 0
  local found = call('ZRANGEBYSCORE', key, '-inf', fmt('%d', S.now), 'LIMIT', 0, limit)
  for i = 1, #found do
    local member = found[i]
    if #member == 16 then
      n = n + 1
      ids[n] = member
    elseif pruned < limit then
      pruned = pruned + prune_order(member, limit - pruned)
    end
  end
  local raws, gone, members, sets = Job.raws(ids), {}, {}, {}
  local last, last_state, r, list
  for i = 1, n do
    local raw = raws[i]
    local state = raw and byte(raw)
    if state and state > %TAG_HELD% and state < %TAG_TOMBSTONE% then
      local said = said_of(ids[i], raw)
      if said ~= last or state ~= last_state then
        local set = kept_set(said.q, state)
        last, last_state, r, list = said, state, Row.of(said.q), members[set]
        if not list then
          list = {}
          members[set], sets[#sets + 1] = list, set
        end
      end
      list[#list + 1] = sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. ids[i]
      let_go(r, state, ids[i], raw, gone, said)
    elseif not raw then
      S.lost = true
    end
  end
  if n > 0 and n == #found then call('ZREMRANGEBYRANK', key, 0, n - 1) else call_many('ZREM', key, ids) end
  for _, set in ipairs(sets) do call_many('ZREM', set, members[set]) end
  Records.delete_many(gone)
  return pruned + n
end

end
