-- claim: a lease of what is ready.
do

-- A lease of fewer jobs and bytes is answered with its records: one more round trip would cost
-- more.
local UNSEEN_MIN, UNSEEN_BYTES = 8, 4096
--SMALL UNSEEN_MIN = 3
Claim.unseen_min = UNSEEN_MIN
-- From so many bytes on a claim of plain jobs is answered as many as fit by the sums of their
-- chunks, not one by one.
local ROUGH_BYTES = 65536
local EXAMINED_MAX = Claim.examined_max

-- Jobs of a queue, from one of the claim's to another, got a lease.
local function taken_of(take, r, from, till)
  local n = till - from + 1
  if flag(r, %ROW_BOUNDED%) then Share.claimed(r, take, from, till) end
  r.counts[READY], r.counts[ACTIVE] = r.counts[READY] - n, r.counts[ACTIVE] + n
  if r.gate then r.gate.taken = 0 end
  if r.share then r.share.fresh, r.share.others = 0, 0 end
  note(r, 2, n)
end

-- The same as add_records where another client has deleted some: a lease has those that are there.
local function add_kept(lease, ids, records, at, n)
  local lengths, own, kept, k = {}, {}, {}, 0
  for i = at + 1, at + n do
    local raw = records[i]
    if raw then
      k = k + 1
      lengths[k], own[k], kept[k] = #raw, raw, ids[i]
    end
  end
  lease[2], lease[3] = sub(lease[2], 1, -3) .. pack('>I2', k), concat(kept)
  lease[4], lease[5] = pack('>' .. rep('I4', k), unpack_list(lengths)), concat(own)
  return lease
end

-- Adds the records of its n jobs to a lease, which stand behind a place in lists.
local function add_records(lease, ids, records, at, n)
  local lengths = {}
  for i = 1, n do
    local raw = records[at + i]
    if not raw then return add_kept(lease, ids, records, at, n) end
    lengths[i] = #raw
  end
  lease[4], lease[5] = pack('>' .. rep('I4', n), unpack_list(lengths)), n == 1 and records[at + 1] or concat(records, '', at + 1, at + n)
  return lease
end

-- Counts what was taken, opens its lease, and answers the lease: a list of strings.
local function open_lease(take, alone, call_)
  local n, ids, records, rows = take.n, take.ids, take.records, take.rows
  local first, plain = rows[1], take.plain and not alone
  local queues, seen = first.name, {[first.name] = true}
  local low, high, lo, hi, last8 = math.huge, -1, nil, nil, nil -- over priorities and overflow sets the first is not the least
  local same, since = first, 1
  for i = 1, n do
    local raw, r = records[i], rows[i]
    local due8 = raw and sub(raw, %REC_DUE%) or take.dues[i]
    if due8 ~= last8 then
      local due = unp('>I8', due8) -- it has passed: exact
      last8 = due8
      if due < low then low, lo = due, due8 end
      if due > high then high, hi = due, due8 end
    end
    if r ~= same then
      taken_of(take, same, since, i - 1)
      same, since, plain = r, i, false
      if not seen[r.name] then seen[r.name], queues = true, queues .. '\0' .. r.name end
    end
  end
  taken_of(take, same, since, n)
  if M.feed >= S.now then
    for i = 1, n do changed(ids[i], rows[i].name, ACTIVE) end
  end
  local fence, all = max(M.fence + 1, S.now), n == 1 and ids[1] or concat(ids)
  M.fence = fence
  local token = u8(fence) .. call_.nonce
  local sent, keyed = nil, nil
  if take.sent and not alone and not plain and queues == first.name then
    sent = %LEASE_SENT% + (take.steps and %LEASE_STEPS% or 0)
    if take.has_shares or take.has_groups then
      sent, keyed = sent + %LEASE_KEYED%, Lease.pack_keyed(take.has_shares and take.shares, take.has_groups and take.groups, n)
    end
  end
  Lease.open(token, call_.worker, call_.lease_duration, all, n, lo, hi, alone, queues, plain, nil, sent, keyed)
  for _, j in ipairs(take.starts or {}) do Unique.free(j) end
  local lease = {token, pack('>I8I8I2', S.now + call_.lease_duration, S.now, n), all, '', ''}
  lease.unseen = take.unseen == n and n >= UNSEEN_MIN
  if lease.unseen then return lease end
  return add_records(lease, ids, take.dues and Job.raws(ids) or records, 0, n)
end

-- The lane whose list has what a claim of so many jobs of a queue is to be answered; nothing if it
-- has to look further.
local function plain_lane(r, limit)
  if S.changed_groups then Group.flush() end
  if flag(r, %ROW_PAUSED%) or M.feed >= S.now then return nil end
  for lane, n in pairs(r.in_overflow) do if n > 0 and lane < 10 then return nil end end
  if r.flags >= %ROW_SHARED% and Share.ready(r, 0, 9) > 0 then return nil end
  if r.flags >= %ROW_NAMED% and Named.has_open(r) then return nil end
  local first, live, other = 10, 0, false
  for lane, n in pairs(r.in_lists) do
    if n > 0 then
      if first < 10 then other = true end
      if lane < first then first, live = lane, n end
    end
  end
  if first == 10 or (other and live < limit) then return nil end
  return first, live
end

-- Opens a lease of jobs of one queue that were not looked at; the lease without its records. `runs`
-- if its jobs are in bundles, `exts` if some may have an ext, `sent` if all are as they were sent,
-- `steps` if some of these may be steps.
local function plain_lease(call_, r, all, n, lo, hi, runs, exts, sent, steps)
  local fence = max(M.fence + 1, S.now)
  M.fence = fence
  local token = u8(fence) .. call_.nonce
  local packed = runs and Bundle.pack_runs(runs)
  Lease.open(token, call_.worker, call_.lease_duration, all, n, lo, hi, false, r.name, not exts, packed, sent and (steps and %LEASE_SENT% + %LEASE_STEPS% or %LEASE_SENT%) or 0)
  return {token, pack('>I8I8I2', S.now + call_.lease_duration, S.now, n), all, runs and pack('>I2', #runs) or '', packed or '', bundles = runs}
end

-- Takes plain jobs of one queue off the list of its first priority, and opens a lease of them
-- without a look at each. Answers the lease, whose records are `unread`, and whether the claimer is
-- to read them itself; nothing if jobs must be looked at.
local function lease_of_plain(r, call_)
  local limit, limited = call_.limit, r.flags >= %ROW_LIMITED%
  if limited then limit = min(limit, Gate.room_for(r, call_, 0)) end
  local first = limit > 0 and plain_lane(r, limit)
  if not first then return nil end
  local in_bundles, bytes = limit >= UNSEEN_MIN and %call_.flags has CLAIM_BUNDLES%, call_.max_bytes
  local all, n, size, lo, hi, runs, mixed, exts, sent, steps = Line.take_unseen(r, first, limit, bytes, in_bundles)
  if not all and bytes >= ROUGH_BYTES and (n or 0) > 0 then -- so many do fit
    all, n, size, lo, hi, runs, mixed, exts, sent, steps = Line.take_unseen(r, first, n, bytes, in_bundles)
  end
  if not all then return nil end
  if limited then Gate.count(Gate.of(r), n) end
  r.counts[READY], r.counts[ACTIVE] = r.counts[READY] - n, r.counts[ACTIVE] + n
  note(r, 2, n)
  if runs and (mixed or n < UNSEEN_MIN) then
    for _, run in ipairs(runs) do Bundle.take_out(run.no, run.from, run.n, run.of) end
    runs = nil
  end
  local may_be_unseen = %call_.flags has CLAIM_READS% and (not exts or call_.flags >= %CLAIM_READS_EXT%)
  local lease = plain_lease(call_, r, all, n, lo, hi, runs, exts, sent, steps)
  lease.unread = not (may_be_unseen and (n >= UNSEEN_MIN or size > UNSEEN_BYTES)) and n or nil
  lease.full = n >= call_.limit
  return lease, not lease.unread
end

-- Reads the records of the leases that are to be answered with them, all at once.
local function read_records(leases)
  local ids, n = {}, 0
  for k = 1, #leases do
    local all = leases[k][3]
    for i = 1, leases[k].unread do ids[n + i] = sub(all, 16 * i - 15, 16 * i) end
    n = n + leases[k].unread
  end
  local records, at = Job.raws(ids), 0
  for k = 1, #leases do
    add_records(leases[k], ids, records, at, leases[k].unread)
    at = at + leases[k].unread
  end
end

-- The lease of a claim whose answer was lost: what is left of it.
local function lease_again(token)
  local p = Lease.load(token)
  local ids = p and Lease.rest(p) or {}
  local records, lengths = Job.raws(ids), {}
  local kept, out, n = {}, {}, 0
  for i = 1, #ids do
    if records[i] then
      n = n + 1
      kept[n], out[n], lengths[n] = ids[i], records[i], pack('>I4', #records[i])
    end
  end
  return {token, pack('>I8I8I2', Lease.deadline(p), p.started, n), concat(kept), concat(lengths), concat(out), full = true, alone = p.alone}
end

-- Takes what a call asks for, by priority and turn: its lease.
local function lease_of_any(rows, call_, alone, turns)
  Shard.may_all()
  Line.let_go()
  if S.changed_groups then Group.flush() end
  local limit = min(call_.limit, EXAMINED_MAX)
  local take = Claim.new_take(limit, call_.max_bytes, call_)
  local suspect = alone and Claim.take_suspect(take, rows)
  if not suspect then
    take.limit = limit
    if not turns then
      for _, r in ipairs(rows) do Claim.take_from(take, r, limit) end
    else
      local turn = rows
      while #turn > 0 and take.n < limit and not take.full do
        local next_turn = {}
        for _, r in ipairs(turn) do
          if Claim.take_from(take, r, 1) == 1 then next_turn[#next_turn + 1] = r end
        end
        turn = next_turn
      end
    end
  end
  local lease = take.n > 0 and open_lease(take, suspect, call_) or nil
  if lease then lease.full, lease.alone, lease.opened, lease.opened_limits = alone or take.full or take.n >= limit, suspect, take.opened, take.opened_limits end
  if S.changed_groups then Group.flush() end -- what is left is counted
  if S.changed_shares then Share.flush() end
  if S.named then Named.flush() end
  Line.hold()
  return lease
end

-- What a worker that may be given suspects holds, `a` and its id to tokens in `BASE:s`: those of
-- its leases that have not ended, and the end of one that is of a suspect alone.
local function held_by(call_)
  local raw, tokens, out, ends = call('HGET', S.k.s, 'a' .. call_.worker) or '', {}, {}, nil
  for at = 1, #raw, 16 do tokens[#tokens + 1] = sub(raw, at, at + 15) end
  for _, token in ipairs(tokens) do
    local p = Lease.load(token)
    if p then
      out[#out + 1] = token
      if p.alone then ends = Lease.deadline(p) end
    end
  end
  return out, ends
end

-- Whether a shard is all there is of its namespace: of others it does not know what a worker holds
-- there.
local function is_whole() return (tonum(call('HGET', S.k.s, 'n') or nil) or 1) == 1 end

-- The lease of a claim whose worker may be given a suspect, and when its lease of one ends: so long
-- it is given nothing. One that holds nothing is given a suspect before anything else.
local function lease_of_own(rows, call_, alone, turns)
  local tokens, ends = held_by(call_)
  local lease, unseen
  if not ends then
    local waits = false
    for _, r in ipairs(rows) do waits = waits or not flag(r, %ROW_PAUSED%) and Line.has_suspects(r) end
    alone = alone or #tokens == 0 and waits and is_whole()
    if not alone and not turns and #rows == 1 then lease, unseen = lease_of_plain(rows[1], call_) end
    lease = lease or lease_of_any(rows, call_, alone, turns)
    tokens[#tokens + 1] = lease and lease[1]
  end
  S.fields['a' .. call_.worker] = concat(tokens)
  return lease, unseen, ends
end

-- One claim: the head of its answer, and its lease if there is one.
local function claim(call_)
  local rows, flags = {}, call_.flags
  for i = 1, #call_.queues do
    rows[i] = Row.of(call_.queues[i])
    Shard.may_count(rows[i])
    if rows[i].flags >= %ROW_SHARED% then
      Shard.may_all()
      Share.open(rows[i])
    end
    if flag(rows[i], %ROW_NAMED%) then
      Shard.may_all()
      Named.prepare()
      Named.flush()
    end
  end
  local alone, turns = %flags has CLAIM_ALONE%, %flags has CLAIM_TURNS%
  local again = S.fetched['n' .. call_.worker .. call_.nonce]
  local limited, lease, unseen, ends = Gate.limited(rows), nil, nil, nil
  if again and Lease.load(again) then
    lease = lease_again(again)
  elseif limited and #rows == 1 and Gate.room_for(rows[1], call_, 0) == 0 then -- at a closed limit
  elseif call_.may_be_alone then
    lease, unseen, ends = lease_of_own(rows, call_, alone, turns)
  else
    if not alone and not turns and #rows == 1 then
      lease, unseen = lease_of_plain(rows[1], call_)
    end
    lease = lease or lease_of_any(rows, call_, alone, turns)
  end
  local open, left, suspects = {}, false, false
  for _, r in ipairs(rows) do
    r.notify = nil -- the claimer takes care itself
    if not flag(r, %ROW_PAUSED%) then
      open[#open + 1] = r
      if Line.has_suspects(r) then suspects = true end
      if not ends and Line.has_work(r, alone) then
        r.notify = 2
        -- A worker without a free slot leaves a limited queue to others.
        left = left or r.flags < %ROW_LIMITED% or Gate.slots(call_) > 0
      end
    end
  end
  local wake, another_wakes = left and S.now or Leader.soon_enough(flags, open, Leader.wake_at(open)), false
  if ends then
    wake = ends
  elseif left or lease and lease.full then
    Leader.resign(call_.worker, open, left and 0 or wake)
  elseif wake > 0 then
    another_wakes = Leader.elect(call_, open, wake)
  end
  for _, r in ipairs(rows) do
    if r.notify ~= 2 then
      set_flag(r, %ROW_IDLE%, true)
      r.short = S.now
    end
  end
  Workers.seen(call_.worker, call_.limit, call_.record)
  if call_.flags < %CLAIM_READS_EXT% then limited = nil end
  if lease and lease.unseen then unseen = true end
  local opened = limited and lease and lease.opened and Share.openings(lease.opened, rows)
  local by_name = limited and lease and lease.opened_limits and Share.openings(lease.opened_limits, rows)
  if opened then limited = limited .. opened end
  if by_name then limited = limited .. by_name end
  return {pack('>I8I8BB', S.now, wake, (by_name and %CLAIMED_NAMED% or 0) + (opened and %CLAIMED_SHARES% or 0) + (limited and %CLAIMED_LIMITED% or 0) + (suspects and %CLAIMED_SUSPECTS% or 0) + (unseen and %CLAIMED_UNSEEN% or 0) + (another_wakes and %CLAIMED_ANOTHER% or 0)
    + (lease and lease.bundles and %CLAIMED_BUNDLES% or 0) + (lease and lease.alone and %CLAIMED_ALONE% or 0), lease and 1 or 0), lease, limited}
end

-- Claims of a few plain jobs of the same queue, one after the other, as one: their leases share a
-- range of dues. Answers how many of the calls from `first` on it has run.
local function claim_alike(calls, first, heads, leases)
  local lead = calls[first]
  local r = lead.asks and Row.find(lead.asks) and Row.of(lead.asks)
  local lane, live = nil, 0
  if r then
    Shard.may_count(r)
    lane, live = plain_lane(r, lead.limit)
  end
  if not lane or r.flags >= %ROW_LIMITED% then return 0 end
  local total, bytes, last = 0, lead.max_bytes, first - 1
  for k = first, #calls do
    local call_ = calls[k]
    if call_.asks ~= lead.asks or total + call_.limit > live or S.fetched['n' .. call_.worker .. call_.nonce] then break end
    total, bytes, last = total + call_.limit, min(bytes, call_.max_bytes), k
  end
  if last <= first then return 0 end
  local all, n, size, lo, hi, _, _, exts, sent, steps = Line.take_unseen(r, lane, total, bytes)
  if not all then return 0 end
  r.counts[READY], r.counts[ACTIVE] = r.counts[READY] - n, r.counts[ACTIVE] + n
  note(r, 2, n)
  local at, unseen, left = 1, not exts and %lead.flags has CLAIM_READS% and size > UNSEEN_BYTES * (last - first + 1), Line.has_work(r, false)
  local wake = left and S.now or Leader.wake_at({r})
  r.notify = left and 2 or nil
  for k = first, last do Leader.resign(calls[k].worker, {r}, left and 0 or wake) end
  if r.notify ~= 2 then
    set_flag(r, %ROW_IDLE%, true)
    r.short = S.now
  end
  local head = pack('>I8I8BB', S.now, wake, (Line.has_suspects(r) and %CLAIMED_SUSPECTS% or 0) + (unseen and %CLAIMED_UNSEEN% or 0), 1)
  for k = first, last do
    local call_ = calls[k]
    local m = call_.limit
    local lease = plain_lease(call_, r, sub(all, at, at + 16 * m - 1), m, lo, hi, nil, exts, sent, steps)
    lease.unread = not unseen and m or nil
    heads[k], leases[k], at = head, lease, at + 16 * m
    Workers.seen(call_.worker, call_.limit, call_.record)
  end
  return last - first + 1
end

-- The field of `BASE:pg` that says whether a claim was answered before.
function Claim.known_as(blob) return 'n' .. sub(blob, %CLAIM_WORKER%) .. sub(blob, %CLAIM_NONCE%) end

-- Runs claims, the shard being open, its leases fetched; puts the answer of each in `replies`, at
-- the places given.
function Claim.run(calls, places, replies)
  S.fields = S.fields or {}
  Line.hold()
  local heads, leases, tails, unread, k = {}, {}, {}, {}, 1
  while k <= #calls do
    local alike = claim_alike(calls, k, heads, leases)
    if alike == 0 then
      local ok, answer = attempt(claim, calls[k])
      if ok then heads[k], leases[k], tails[k] = answer[1], answer[2], answer[3] else heads[k] = answer end
      alike = 1
    end
    for of = k, k + alike - 1 do
      if leases[of] and leases[of].unread then unread[#unread + 1] = leases[of] end
    end
    k = k + alike
  end
  Line.let_go()
  if #unread > 0 then read_records(unread) end
  for k = 1, #calls do
    local lease = leases[k]
    replies[places[k]] = lease and heads[k] .. lease[1] .. lease[2] .. lease[3] .. lease[4] .. lease[5] .. (tails[k] or '') or tails[k] and heads[k] .. tails[k] or heads[k]
  end
end


-- claim. Key: base. Argument: instance 8 | nonce 8 | worker 16 | lease_duration 8 | limit 2 |
-- max_bytes 4 | flags 1 | queues | worker record. Reply: now 8 | wake_at 8 | flags 1 | leases 1 |
-- leases.
function Claim.call(base, blob)
  local one = Lone.claim(base, blob)
  if one then return one end
  local call_, replies = Claim.read(blob), {}
  Shard.open(base, sub(blob, %CALL_INSTANCE%), call_.queues, nil, nil, Shard.CLAIMS)
  Sweep.run()
  S.fetched = Lease.fetch(base, {Claim.known_as(blob)})
  Claim.run({call_}, {1}, replies)
  Shard.commit()
  if type(replies[1]) == 'table' then error(replies[1]) end
  return replies[1]
end

end
