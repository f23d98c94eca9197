-- What becomes of a settled job: kept whole (kept.lua) or reduced to a tombstone in its record's
-- place. Tombstones of jobs that completed together refer (tag 8 | finished 8 | sub 2 | no 1) to what is said once of all of them:
-- `BASE:md`, finished 8 | sub 2 | no 1 to attempt 4 | token 12 | n 2 | ids | due and hash of each |
-- part of the ids, 255 if they are of several.
-- `BASE:mp` has all tombstones in order: finished 8 and ids (and,
-- with results, their bytes 4), or finished 8 | sub 2 | no 1 and, once
-- a part was pruned, | how many 2; or finished 8 | number 11 of a bundle.
do

local TOMBSTONE = %TOMB_BYTES%
local NO_TOKEN = '\0\0\0\0\0\0\0\0\0\0\0\0'

-- A tombstone's bytes; `core` is due 8 | hash 8, `token` 12 bytes.
local function tombstone_of(core, state, late, finished, attempt, token, result)
  return '\%TAG_TOMBSTONE%' .. core .. char(state + (late and 8 or 0)) .. u8(finished) .. pack('>I4', attempt) .. token .. (result or '')
end

Settled.NO_TOKEN, Settled.tombstone_of = NO_TOKEN, tombstone_of

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

Settled.keep_longer = keep_longer

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

end
