-- claim: what one takes, by priority and in order.
do

-- Records that are read together at first, and then: more could be many times the bytes that the
-- claim may take.
local POP_FIRST, POP_MAX = 16, 64
-- Jobs that are looked at cost ten times as much: a claim takes no more of them, and says that
-- there are more. So do those that it meets expired, and settles.
local EXAMINED_MAX, EXPIRED_MAX = 250, 125
Claim.examined_max = EXAMINED_MAX

-- What a claim has taken: ids, records if they were read, and the queue rows they came from; shares
-- and groups of jobs that have one.
function Claim.new_take(limit, bytes, call_)
  return {limit = limit, bytes = bytes, call_ = call_, n = 0, ids = {}, records = {}, rows = {}, shares = {}, groups = {}, size = 0, expired = 0, kept_back = 0, unseen = 0, full = false, plain = true, sent = true,
    steps = false, has_shares = false, has_groups = false}
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
    if take.dues then -- the payloads of some are not known
      take.full = true
      return false
    end
    take.left = take.bytes
    for i = 1, take.n do take.left = take.left - payload_of(take.records[i]) end
  end
  local bytes = payload_of(raw)
  take.full = take.n > 0 and bytes > take.left
  take.left = max(0, take.left - bytes)
  return not take.full
end

-- Adds a job: `kind` is that of a chunk of such jobs, nothing if its record says more than what was
-- sent; its share and its group, if its end touches them.
local function add(take, r, id, raw, kind, share, group)
  local n = take.n + 1
  take.n, take.ids[n], take.records[n], take.rows[n] = n, id, raw, r
  if not kind or kind < %CHUNK_SENT% then take.sent = false end
  if kind == %CHUNK_STEPS% then take.steps = true end
  if share then take.shares[n], take.has_shares = share, true end
  if group then take.groups[n], take.has_groups = group, true end
end

-- Whether jobs of a queue may be added to a claim by what is known of them: as they were sent, none
-- has expired, and its claimer reads records itself.
function Claim.may_be_unseen(take, r)
  local call_ = take.call_
  return call_.flags >= %CLAIM_READS_EXT% and %call_.flags has CLAIM_READS% and not take.left and S.now < M.expiry and not flag(r, %ROW_NAMED%)
end

-- Adds n jobs of shares so: their ids, dues and shares; their bytes are counted by the caller.
function Claim.add_unseen(take, r, ids, dues, shares, n)
  local from, all, rows, dues_of, shares_of = take.n, take.ids, take.rows, take.dues or {}, take.shares
  for i = 1, n do
    local k = from + i
    all[k], rows[k], dues_of[k], shares_of[k] = ids[i], r, dues[i], shares[i]
  end
  take.n, take.unseen, take.dues, take.plain, take.has_shares = from + n, take.unseen + n, dues_of, false, true
end

-- Takes a job that needs a look: a key that is held until the start is freed with the lease.
local function take_one(take, r, j, raw)
  take.plain = false
  if j.opts.u and j.opts.uh == 0 then
    take.starts = take.starts or {}
    take.starts[#take.starts + 1] = j
  end
  if j.opts.li then Named.started(take, r, j) end
  add(take, r, j.id, raw)
end

-- Expires a job that was taken off a list; whether it did.
local function expired_off_list(r, j)
  if not Job.has_expired(j) then return false end
  r.counts[READY] = r.counts[READY] - 1
  j.ext.cd = 1
  Settled.as(j, CANCELLED)
  return true
end

-- Whether a record with an ext can be claimed as it stands: it has not expired, has no named
-- limits, and keeps its key when it starts. Then its ext, whether it may be a suspect, the kind of
-- a chunk of such jobs if it is as it was sent, and its share.
local function may_start(raw)
  local e, o, _, ex, _, _, _, _, flow, share = Job.parts(raw)
  if e.ex ~= nil then ex = e.ex ~= '' and e.ex end
  return o.uh ~= 0 and not o.li and not (ex and at8(ex) <= S.now), e, e.c or o.mc, e == Job.NOTHING and Line.kind_of(o, flow) or nil, share
end

-- Takes one job that is off its list; false if it does not fit.
local function take_listed(take, r, id, raw)
  if ends(take) then return false end
  if not raw then -- another client deleted its record
    r.counts[READY], S.lost = max(0, r.counts[READY] - 1), true
    return true
  end
  if byte(raw) == %TAG_PLAIN% then
    if not fits(take, raw) then return false end
    add(take, r, id, raw, %CHUNK_SENT%)
    return true
  end
  local starts, _, kind, share
  if byte(raw) == %TAG_WAITING% then starts, _, _, kind, share = may_start(raw) end
  if starts then
    if not fits(take, raw) then return false end
    take.plain = false
    add(take, r, id, raw, kind, share)
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

-- The jobs that entries of an overflow set stand for: their ids, records and groups. `read`: rows
-- of the first of these groups, if they were read.
local function candidates_of(r, lane, overflow, read)
  local groups, of, ids = {}, {}, {}
  for s = 1, #overflow do
    local group = Group.of_place(overflow[s])
    of[s] = group or false
    if group then groups[#groups + 1] = group end
  end
  if #groups > 0 then Group.fetch(r, groups, read and read.n == #groups and read.rows or nil) end
  for s = 1, #overflow do ids[s] = of[s] and Group.candidate(r, of[s], lane) or not of[s] and sub(overflow[s], %PLACE_ID_AT%) or '' end
  return ids, Job.raws(ids), of
end

-- Takes one entry of an overflow set: what stands there, and its job with its record and group;
-- `taken` has the jobs to be taken out of the set. Answers false if it does not fit.
local function take_overflow(take, r, lane, member, id, raw, group, taken)
  if ends(take) then return false end
  local starts, e, may_be_suspect, kind, share
  if raw and byte(raw) == %TAG_WAITING% then starts, e, may_be_suspect, kind, share = may_start(raw) end
  if starts and not (group and may_be_suspect) then
    if not fits(take, raw) then return false end
    if group then Group.started(r, group, id, raw, e.fr) else taken[#taken + 1] = member end
    take.plain = false
    add(take, r, id, raw, kind, share, group)
    return true
  end
  if not raw or byte(raw) > %TAG_WAITING% then -- another client deleted its record: its place goes too, and holds up no others
    Line.overflow_remove(r, lane, member)
    S.lost = true
    if not group or Group.lost(r, group, lane, id) then r.counts[READY] = max(0, r.counts[READY] - 1) end
    return true
  end
  local j = Job.parse(id, raw)
  if Job.has_expired(j) then
    Settled.cancel_waiting(j, 1)
    take.expired = take.expired + 1
    return true
  end
  if j.opts.li and Named.meets(take, r, j, lane, member, group) then return true end
  if not fits(take, raw) then return false end
  if group then
    Group.started(r, group, id, raw, nil, j)
  elseif j.opts.li then
    taken[#taken + 1] = member
  else
    Line.overflow_remove(r, lane, member)
  end
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

-- Takes jobs of a lane, of which the first in its overflow set were read, as many as there is
-- `room` for, and of its list; whether there were any.
local function take_merged(take, r, lane, overflow, read, want, room)
  local stand, raws, groups = candidates_of(r, lane, overflow, read)
  if flag(r, %ROW_NAMED%) then Named.prefetch(raws) end
  local taken = {}
  local ids, records, stamps, n = {}, {}, {}, 0
  if lane < 10 then ids, records, stamps, n = Line.pop(r, lane, want) end
  local at, s = 1, 1
  while (at <= n or s <= #overflow) and room() > 0 do
    -- Behind what was read of one order there may be more of it, before the next of the other.
    if at > n and n >= want or s > #overflow and #overflow >= want then break end
    local raw = records[at]
    local first = raw and '\1' .. sub(raw, %REC_DUE%) .. sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%)
    if s <= #overflow and (not raw or below(sub(overflow[s], %PLACE_BYTES%), first)) then
      if not take_overflow(take, r, lane, overflow[s], stand[s], raws[s], groups[s], taken) then break end
      s = s + 1
    else
      if not take_listed(take, r, ids[at], raw) then break end
      at = at + 1
    end
  end
  if #taken > 0 then Line.overflow_remove_many(r, lane, taken) end
  if at <= n then Line.unpop(r, lane, ids, stamps, at) end
  return #overflow > 0 or n > 0
end

-- Takes at most `most` jobs of a lane.
local function take_lane(take, r, lane, most)
  local start = take.n
  local function room() return min(take.limit - take.n, most - (take.n - start)) end
  while not take.full and room() > 0 do
    if S.changed_groups then Group.flush() end
    if (r.in_overflow[lane] or 0) == 0 then
      if (r.in_lists[lane] or 0) == 0 then return end
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
      local n, read = 0, nil
      if (r.in_lists[lane] or 0) == 0 and not flag(r, %ROW_NAMED%) then n, read = Group.take_alone(take, r, lane, overflow) end
      if n == 0 and not take_merged(take, r, lane, overflow, read, want, room) then return end
    end
  end
end

Claim.ends, Claim.fits, Claim.add, Claim.take_one, Claim.may_start, Claim.take_lane, Claim.pop_most = ends, fits, add, take_one, may_start, take_lane, pop_most

-- Takes from the lanes of a queue by priority, until it has `most` more than at the start.
local function take_lanes(take, r, start, most)
  if S.changed_groups then Group.flush() end
  local lanes = {}
  for lane, n in pairs(r.in_lists) do if n > 0 then lanes[lane] = true end end
  for lane, n in pairs(r.in_overflow) do if n > 0 and lane < 10 then lanes[lane] = true end end
  local shared = r.flags >= %ROW_SHARED%
  for lane = 0, 9 do
    if take.full or take.n >= take.limit or take.n - start >= most then break end
    local left = most - (take.n - start)
    if shared and Share.ready(r, lane, lane) > 0 then
      Share.take_lane(take, r, lane, left)
    elseif lanes[lane] then
      local before = take.n
      take_lane(take, r, lane, left)
      if shared then Share.others_had_turns(r, lane, take.n - before) end -- in later lanes they are active
    end
  end
end

-- Takes from a queue by priority, at most `most`; how many.
function Claim.take_from(take, r, most)
  local start = take.n
  if not r or flag(r, %ROW_PAUSED%) then return 0 end
  local limited = r.flags >= %ROW_LIMITED%
  if limited then most = min(most, Gate.room_for(r, take.call_, start)) end
  if most == 0 then return 0 end
  if not flag(r, %ROW_NAMED%) then
    take_lanes(take, r, start, most)
  else
    repeat -- a job that went from one limit's line to another's leaves room for the next one
      local kept_back = take.kept_back
      Named.open(r, min(most, take.limit - start) - (take.n - start))
      take_lanes(take, r, start, most)
    until take.kept_back == kept_back or take.full or take.n >= take.limit or take.n - start >= most
  end
  if limited then Gate.took(r, take.n - start) end
  return take.n - start
end

function Claim.take_suspect(take, rows)
  take.limit = 1
  for _, r in ipairs(rows) do
    local limited = r.flags >= %ROW_LIMITED%
    if not flag(r, %ROW_PAUSED%) and not (limited and Gate.room_for(r, take.call_, 0) == 0) then
      if flag(r, %ROW_NAMED%) then Named.open(r, 1) end
      for lane = 10, 19 do
        if r.flags >= %ROW_SHARED% and Share.ready(r, lane, lane) > 0 then
          Share.take_lane(take, r, lane, 1)
        elseif (r.in_overflow[lane] or 0) > 0 then
          take_lane(take, r, lane, 1)
        end
        if take.n > 0 and limited then Gate.took(r, 1) end
        if take.n > 0 then return true end
      end
    end
  end
  return false
end

end
