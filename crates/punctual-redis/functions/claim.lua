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
-- Records that are read together at first, and then: more could be many times the bytes that the
-- claim may take.
local POP_FIRST, POP_MAX = 16, 64
-- Jobs that are looked at cost ten times as much: a claim takes no more of them, and says that
-- there are more. So do those that it meets expired, and settles.
local EXAMINED_MAX, EXPIRED_MAX = 250, 125

-- What a claim has taken: ids, records, and the queue rows they came from.
local function new_take(limit, bytes, call_)
  return {limit = limit, bytes = bytes, call_ = call_, n = 0, ids = {}, records = {}, rows = {}, size = 0, expired = 0, full = false, plain = true}
end

-- Whether a claim has settled as many expired jobs as one call may: what it has then is its answer.
local function ends(take)
  if take.expired >= EXPIRED_MAX then take.full = true end
  return take.full
end

local function payload_of(raw)
  return Job.parse('', raw).payload
end

-- Whether one more job fits; the first one always does. Records are longer than payloads, so while
-- their sum fits nothing need be looked into.
local function fits(take, raw)
  if not take.left then
    take.size = take.size + #raw
    if take.size <= take.bytes then return true end
    take.left = take.bytes
    for i = 1, take.n do take.left = take.left - payload_of(take.records[i]) end
  end
  local bytes = payload_of(raw)
  take.full = take.n > 0 and bytes > take.left
  take.left = max(0, take.left - bytes)
  return not take.full
end

local function add(take, r, id, raw)
  local n = take.n + 1
  take.n, take.ids[n], take.records[n], take.rows[n] = n, id, raw, r
end

-- Takes a job that needs a look: a key that is held until the start is freed with the lease.
local function take_one(take, r, j, raw)
  take.plain = false
  if j.opts.u and j.opts.uh == 0 then
    take.starts = take.starts or {}
    take.starts[#take.starts + 1] = j
  end
  add(take, r, j.id, raw)
end

-- Expires a job that was taken off a list; whether it did.
local function expired_off_list(r, j)
  if not Job.has_expired(j) then return false end
  r.c[READY] = r.c[READY] - 1
  j.ext.cd = 1
  Settled.as(j, CANCELLED)
  return true
end

-- Whether a record with an ext can be claimed as it stands: it has not expired, and keeps its key
-- when it starts. Then its ext, and whether it may be a suspect.
local function may_start(raw)
  local e, o, _, ex = Job.parts(raw)
  if e.ex ~= nil then ex = e.ex ~= '' and e.ex end
  return o.uh ~= 0 and not (ex and at8(ex) <= S.now), e, e.c or o.mc
end

-- Takes one job that is off its list; false if it does not fit.
local function take_listed(take, r, id, raw)
  if ends(take) then return false end
  if not raw then -- another client deleted its record
    r.c[READY], S.lost = max(0, r.c[READY] - 1), true
    return true
  end
  if byte(raw) == %TAG_PLAIN% then
    if not fits(take, raw) then return false end
    add(take, r, id, raw)
    return true
  end
  if byte(raw) == %TAG_WAITING% and may_start(raw) then
    if not fits(take, raw) then return false end
    take.plain = false
    add(take, r, id, raw)
    return true
  end
  local j = Job.parse(id, raw)
  if expired_off_list(r, j) then
    take.expired = take.expired + 1
    return true
  end
  if not fits(take, raw) then return false end
  take_one(take, r, j, raw)
  return true
end

-- The jobs that entries of an overflow set stand for: their ids, records and groups.
local function candidates_of(r, lane, overflow)
  local groups, of, ids = {}, {}, {}
  for s = 1, #overflow do
    local group = Group.of_place(overflow[s])
    of[s] = group or false
    if group then groups[#groups + 1] = group end
  end
  if #groups > 0 then Group.fetch(r, groups) end
  for s = 1, #overflow do ids[s] = of[s] and Group.candidate(r, of[s], lane) or not of[s] and sub(overflow[s], 23) or '' end
  return ids, Job.raws(ids), of
end

-- Takes one entry of an overflow set: what stands there, and its job with its record and group;
-- `taken` has the jobs to be taken out of the set. Answers false if it does not fit.
local function take_overflow(take, r, lane, member, id, raw, group, taken)
  if ends(take) then return false end
  local starts, e, may_be_suspect
  if raw and byte(raw) == %TAG_WAITING% then starts, e, may_be_suspect = may_start(raw) end
  if starts and not (group and may_be_suspect) then
    if not fits(take, raw) then return false end
    if group then Group.started(r, group, id, raw, e.fr) else taken[#taken + 1] = member end
    take.plain = false
    add(take, r, id, raw)
    return true
  end
  if not raw or byte(raw) > %TAG_WAITING% then -- another client deleted its record: its place goes too, and holds up no others
    Line.overflow_remove(r, lane, member)
    S.lost = true
    if not group or Group.lost(r, group, lane, id) then r.c[READY] = max(0, r.c[READY] - 1) end
    return true
  end
  local j = Job.parse(id, raw)
  if Job.has_expired(j) then
    Settled.cancel_waiting(j, 1)
    take.expired = take.expired + 1
    return true
  end
  if not fits(take, raw) then return false end
  if group then Group.started(r, group, id, raw, nil, j) else Line.overflow_remove(r, lane, member) end
  take_one(take, r, j, raw)
  return true
end

-- Takes a whole list of plain jobs into an empty claim, if they are plain and fit for sure.
local function all_plain(take, r, ids, records, n)
  local size, rows = 0, {}
  for i = 1, n do
    local raw = records[i]
    if not raw or byte(raw) ~= %TAG_PLAIN% then return false end
    size, rows[i] = size + #raw, r
  end
  if size > take.bytes then return false end
  take.n, take.ids, take.records, take.rows, take.size = n, ids, records, rows, size
  return true
end

-- How many records to read next: as many as may fit, by the mean of those before.
local function pop_most(take)
  if take.n == 0 then return POP_FIRST end
  local left = take.left or take.bytes - take.size
  return max(1, min(POP_MAX, 1 + floor(left * take.n / max(1, take.size))))
end

-- Takes at most `most` jobs of a lane.
local function take_lane(take, r, lane, most)
  local start = take.n
  local function room() return min(take.limit - take.n, most - (take.n - start)) end
  while not take.full and room() > 0 do
    if S.changed_groups then Group.flush() end
    if (r.X[lane] or 0) == 0 then
      if (r.L[lane] or 0) == 0 then return end
      local ids, records, stamps, n = Line.pop(r, lane, min(room(), pop_most(take)))
      if n == 0 then return end
      if take.n > 0 or not all_plain(take, r, ids, records, n) then
        for i = 1, n do
          if not take_listed(take, r, ids[i], records[i]) then
            Line.unpop(r, lane, ids, stamps, i)
            break
          end
        end
      end
    else
      local want = min(room(), pop_most(take))
      local overflow = call('ZRANGE', S.base .. ':x:' .. lane .. ':' .. r.name, 0, want - 1)
      local stand, raws, groups = candidates_of(r, lane, overflow)
      local taken = {}
      local ids, records, stamps, n = {}, {}, {}, 0
      if lane < 10 then ids, records, stamps, n = Line.pop(r, lane, want) end
      local at, s = 1, 1
      while (at <= n or s <= #overflow) and room() > 0 do
        -- Behind what was read of one order there may be more of it, before the next of the other.
        if at > n and n >= want or s > #overflow and #overflow >= want then break end
        local raw = records[at]
        local first = raw and '\1' .. sub(raw, %REC_DUE%) .. sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%)
        if s <= #overflow and (not raw or below(sub(overflow[s], 1, 21), first)) then
          if not take_overflow(take, r, lane, overflow[s], stand[s], raws[s], groups[s], taken) then break end
          s = s + 1
        else
          if not take_listed(take, r, ids[at], raw) then break end
          at = at + 1
        end
      end
      if #taken > 0 then Line.overflow_remove_many(r, lane, taken) end
      if at <= n then Line.unpop(r, lane, ids, stamps, at) end
      if #overflow == 0 and n == 0 then return end
    end
  end
end

-- Takes from a queue by priority, at most `most`; how many.
local function take_from(take, r, most)
  local start = take.n
  if not r or flag(r, %ROW_PAUSED%) then return 0 end
  local limited = r.flags >= %ROW_LIMITED%
  if limited then most = min(most, Gate.room_for(r, take.call_, start)) end
  if most == 0 then return 0 end
  if S.changed_groups then Group.flush() end
  local lanes = {}
  for lane, n in pairs(r.L) do if n > 0 then lanes[lane] = true end end
  for lane, n in pairs(r.X) do if n > 0 and lane < 10 then lanes[lane] = true end end
  for lane = 0, 9 do
    if take.full or take.n >= take.limit or take.n - start >= most then break end
    if lanes[lane] then take_lane(take, r, lane, most - (take.n - start)) end
  end
  if limited then Gate.took(r, take.n - start) end
  return take.n - start
end

local function take_suspect(take, rows)
  take.limit = 1
  for _, r in ipairs(rows) do
    local limited = r.flags >= %ROW_LIMITED%
    if not flag(r, %ROW_PAUSED%) and not (limited and Gate.room_for(r, take.call_, 0) == 0) then
      for lane = 10, 19 do
        if (r.X[lane] or 0) > 0 then take_lane(take, r, lane, 1) end
        if take.n > 0 and limited then Gate.took(r, 1) end
        if take.n > 0 then return true end
      end
    end
  end
  return false
end

local function taken_of(r, n)
  r.c[READY], r.c[ACTIVE] = r.c[READY] - n, r.c[ACTIVE] + n
  if r.gate then r.gate.taken = 0 end
  note(r, 2, n)
end

-- Counts what was taken, opens its lease, and answers the lease: a list of strings.
local function open_lease(take, alone, call_)
  local n, ids, records, rows = take.n, take.ids, take.records, take.rows
  local first, plain = rows[1], take.plain and not alone
  local lengths, queues, seen = {}, first.name, {[first.name] = true}
  local low, high, earliest, latest = math.huge, -1, nil, nil -- over priorities and overflow sets the first is not the least
  local same, since = first, 1
  for i = 1, n do
    local raw, r = records[i], rows[i]
    local due = unp('>I8', raw, %REC_DUE_AT%) -- it has passed: exact
    lengths[i] = #raw
    if due < low then low, earliest = due, raw end
    if due > high then high, latest = due, raw end
    if r ~= same then
      taken_of(same, i - since)
      same, since, plain = r, i, false
      if not seen[r.name] then seen[r.name], queues = true, queues .. '\0' .. r.name end
    end
  end
  taken_of(same, n + 1 - since)
  local lo, hi = sub(earliest, %REC_DUE%), sub(latest, %REC_DUE%)
  if M.feed >= S.now then
    for i = 1, n do changed(ids[i], rows[i].name, ACTIVE) end
  end
  local fence, all = max(M.fence + 1, S.now), n == 1 and ids[1] or concat(ids)
  M.fence = fence
  local token = u8(fence) .. call_.nonce
  Lease.open(token, call_.worker, call_.lease_duration, all, n, lo, hi, alone, queues, plain)
  for _, j in ipairs(take.starts or {}) do Unique.free(j) end
  return {token, pack('>I8I8I2', S.now + call_.lease_duration, S.now, n), all, pack('>' .. rep('I4', n), unpack_list(lengths)), concat(records)}
end

-- The lane whose list has what a claim of so many jobs of a queue is to be answered; nothing if it
-- has to look further.
local function plain_lane(r, limit)
  if S.changed_groups then Group.flush() end
  if flag(r, %ROW_PAUSED%) or M.feed >= S.now then return nil end
  for lane, n in pairs(r.X) do if n > 0 and lane < 10 then return nil end end
  local first, live, other = 10, 0, false
  for lane, n in pairs(r.L) do
    if n > 0 then
      if first < 10 then other = true end
      if lane < first then first, live = lane, n end
    end
  end
  if first == 10 or (other and live < limit) then return nil end
  return first, live
end

-- Opens a lease of jobs of one queue that were not looked at; the lease without its records. `runs`
-- if its jobs are in bundles, `exts` if some may have an ext.
local function plain_lease(call_, r, all, n, lo, hi, runs, exts)
  local fence = max(M.fence + 1, S.now)
  M.fence = fence
  local token = u8(fence) .. call_.nonce
  local packed = runs and Bundle.pack_runs(runs)
  Lease.open(token, call_.worker, call_.lease_duration, all, n, lo, hi, false, r.name, not exts, packed)
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
  local all, n, size, lo, hi, runs, mixed, exts = Line.take_unseen(r, first, limit, bytes, in_bundles)
  if not all and bytes >= ROUGH_BYTES and (n or 0) > 0 then -- so many do fit
    all, n, size, lo, hi, runs, mixed, exts = Line.take_unseen(r, first, n, bytes, in_bundles)
  end
  if not all then return nil end
  if limited then Gate.count(Gate.of(r), n) end
  r.c[READY], r.c[ACTIVE] = r.c[READY] - n, r.c[ACTIVE] + n
  note(r, 2, n)
  if runs and (mixed or n < UNSEEN_MIN) then
    for _, run in ipairs(runs) do Bundle.take_out(run.no, run.from, run.n, run.of) end
    runs = nil
  end
  local may_be_unseen = %call_.flags has CLAIM_READS% and (not exts or call_.flags >= %CLAIM_READS_EXT%)
  local lease = plain_lease(call_, r, all, n, lo, hi, runs, exts)
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
    local lease, lengths, own, kept = leases[k], {}, {}, {}
    for i = 1, lease.unread do
      local raw = records[at + i]
      if raw then
        own[#own + 1], kept[#kept + 1] = raw, ids[at + i]
        lengths[#own] = #raw
      end
    end
    at = at + lease.unread
    if #own < lease.unread then -- another client deleted a record
      lease[2], lease[3] = sub(lease[2], 1, -3) .. pack('>I2', #own), concat(kept)
    end
    lease[4], lease[5] = pack('>' .. rep('I4', #own), unpack_list(lengths)), #own == 1 and own[1] or concat(own)
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
  local take = new_take(limit, call_.max_bytes, call_)
  local suspect = alone and take_suspect(take, rows)
  if not suspect then
    take.limit = limit
    if not turns then
      for _, r in ipairs(rows) do take_from(take, r, limit) end
    else
      local turn = rows
      while #turn > 0 and take.n < limit and not take.full do
        local next_turn = {}
        for _, r in ipairs(turn) do
          if take_from(take, r, 1) == 1 then next_turn[#next_turn + 1] = r end
        end
        turn = next_turn
      end
    end
  end
  local lease = take.n > 0 and open_lease(take, suspect, call_) or nil
  if lease then lease.full, lease.alone = alone or take.full or take.n >= limit, suspect end
  if S.changed_groups then Group.flush() end -- what is left is counted
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
  return {pack('>I8I8BB', S.now, wake, (limited and %CLAIMED_LIMITED% or 0) + (suspects and %CLAIMED_SUSPECTS% or 0) + (unseen and %CLAIMED_UNSEEN% or 0) + (another_wakes and %CLAIMED_ANOTHER% or 0)
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
  local all, n, size, lo, hi, _, _, exts = Line.take_unseen(r, lane, total, bytes)
  if not all then return 0 end
  r.c[READY], r.c[ACTIVE] = r.c[READY] - n, r.c[ACTIVE] + n
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
    local lease = plain_lease(call_, r, sub(all, at, at + 16 * m - 1), m, lo, hi, nil, exts)
    lease.unread = not unseen and m or nil
    heads[k], leases[k], at = head, lease, at + 16 * m
    Workers.seen(call_.worker, call_.limit, call_.record)
  end
  return last - first + 1
end

-- The field of `BASE:pg` that tells whether a claim was answered before.
function Claim.known_as(blob) return 'n' .. sub(blob, 17, 32) .. sub(blob, 9, 16) end

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
    local reply = lease and heads[k] .. lease[1] .. lease[2] .. lease[3] .. lease[4] .. lease[5] or heads[k]
    replies[places[k]] = tails[k] and reply .. tails[k] or reply
  end
end


-- claim. Key: base. Argument: instance 8 | nonce 8 | worker 16 | lease_duration 8 | limit 2 |
-- max_bytes 4 | flags 1 | queues | worker record. Reply: now 8 | wake_at 8 | flags 1 | leases 1 |
-- leases.
function Claim.call(base, blob)
  local one = Lone.claim(base, blob)
  if one then return one end
  local call_, replies = Claim.read(blob), {}
  Shard.open(base, sub(blob, 1, 8), call_.queues, nil, nil, Shard.CLAIMS)
  Sweep.run()
  S.fetched = Lease.fetch(base, {Claim.known_as(blob)})
  Claim.run({call_}, {1}, replies)
  Shard.commit()
  if type(replies[1]) == 'table' then error(replies[1]) end
  return replies[1]
end

end
