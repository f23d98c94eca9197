-- claim: turns of shares. A claim reads as many shares as it may take jobs, says in which order
-- they and the jobs without a share have their turns, and takes the jobs in that order.
do

-- Places that are read at a time where a share has more turns than it knows places.
local MORE_MIN, MORE_MAX = 8, 64
-- Reads in a row of one claim that take nothing: the jobs have expired, or their records are gone.
local IDLE_MAX = 200
-- Behind a share that is shorter than the bytes that are compared as a number.
local NO_FRONT = '\0\0\0\0\0\0'

-- Whether a turn comes before another one: the smaller round, then the smaller pass, then by share,
-- of which `front` are the first bytes as a number.
local function is_before(a, b)
  if a.round ~= b.round then return a.round < b.round end
  if a.pass ~= b.pass then return a.pass < b.pass end
  if a.front ~= b.front then return a.front < b.front end
  return below(a.row.share, b.row.share)
end

-- The shares that have the next turns in a lane, by their members in its order and what was read of
-- them; how many were filed elsewhere, as their limits are closed by now.
local function next_turns(r, lane, members, shares, found)
  local key, limits = Share.turns_key(r, lane), Share.settings(r)
  local turns, closed, gone = {}, 0, {}
  local rows = Share.fetch(r, shares, found)
  for i = 1, #members do
    local row = rows[shares[i]]
    local line = row.lanes[lane]
    if not line or line.member ~= members[i] then -- no row says that it stands there
      gone[#gone + 1], closed = members[i], closed + 1
    elseif Share.closed(row, limits) then
      Share.changes(row)
      closed = closed + 1
    else
      local weight = limits.weights[row.share] or 1
      turns[#turns + 1] = {row = row, line = line, share = row.share, prefix = line.prefix, had = 0, round = row.round, pass = line.pass, weight = weight, step = Share.raised(0, weight), active = row.active,
        front = unp('>I6', row.share .. NO_FRONT), taken = 0, last = 0, room = min(line.n, Share.room(row, limits))}
    end
  end
  call_many('ZREM', key, gone)
  return turns, closed
end

-- The order of the next turns in a lane: shares and, as false, jobs without one; and the passes of
-- these turns.
local function in_order(r, lane, turns, limit)
  local sh, out, passes, n, back, head, tail, first = Share.of(r), {}, {}, 0, {}, 1, 0, 1
  local stands = sh.lanes[lane] or {turn = 0, others = 0}
  local left = lane < 10 and (r.in_lists[lane] or 0) + (r.in_overflow[lane] or 0) or r.in_overflow[lane] or 0
  -- Jobs without a share have their turn from when they are first there, whatever came since.
  if left > 0 then stands.others, sh.changed = stands.others > 0 and max(stands.others, stands.turn) or Share.behind(stands.turn, 1), true end
  local round, pass, turn = max(0, r.counts[ACTIVE] - (sh.active - sh.fresh)) + sh.others, stands.others, stands.turn
  while n < limit do
    local one, returns = turns[first], back[head]
    local from_back = returns and (not one or is_before(returns, one))
    if from_back then one = returns end
    if left > 0 then
      pass = pass > 0 and max(pass, turn) or Share.behind(turn, 1)
      if not one or one.round > round or one.round == round and one.pass >= pass then
        n = n + 1
        out[n], turn, pass, left, round = false, max(turn, pass), Share.raised(pass, 1), left - 1, round + 1
        one = nil
      end
    elseif not one then
      break
    end
    if one then
      if from_back then head = head + 1 else first = first + 1 end
      local its_pass, taken, weight = one.pass, one.taken + 1, one.weight
      n = n + 1
      out[n], passes[n], one.taken = one, its_pass, taken
      if its_pass > turn then turn = its_pass end
      if taken < one.room then
        local its_round, last = weight == 1 and one.active + taken or floor((one.active + taken) / weight), back[tail]
        one.round, one.pass, tail = its_round, its_pass + one.step, tail + 1
        local at = tail
        -- Mostly it comes behind all others.
        if at > head and not (last.round < its_round or last.round == its_round and last.pass == one.pass and last.front < one.front) then
          while at > head and is_before(one, back[at - 1]) do
            back[at], at = back[at - 1], at - 1
          end
        end
        back[at] = one
      end
    end
  end
  return out, passes
end

-- The places that the turns are for: of each share as many of its first as it has turns.
local function places_of(r, lane, order, shares)
  local places, at = {}, {}
  for i = 1, #order do
    local one = order[i]
    if one then
      local row, known = one.row, one.line.known
      local nth = (at[row] or 0) + 1
      if not known[nth] then
        local found = Share.more(r, row, lane, max(MORE_MIN, min(MORE_MAX, floor((#order - i) / shares) + 1)))
        if found == 0 then -- it has fewer than is counted
          one.line.n, S.lost = #known, true
          Share.changes(row)
          return places, i - 1
        end
      end
      at[row], places[i] = nth, known[nth]
    end
  end
  return places, #order
end

-- Whether a record with an ext can be claimed as it stands, as Claim.may_start: most differ from
-- the one before in nothing but their share or group.
local function may_start(take, raw)
  local alike = take.alike
  local shape, value = alike and alike.last, nil
  if shape then value = Job.value_in(shape, raw, %REC_FLAGS%) end
  if shape and not value then shape, value = Job.of_another_shape(alike, raw, %REC_FLAGS%, #raw) end
  if value then return true, Job.NOTHING, nil, shape.kind, shape.name == 'sh' and value or nil end
  local starts, e, may_be_suspect, kind, own = Claim.may_start(raw)
  if starts and not may_be_suspect and sub(raw, %REC_BODY%, %REC_EXT%) == '%REC_NO_EXT%' then
    local ql = byte(raw, %REC_NEXT_QUEUE%)
    local from = 39 + ql + byte(raw, 38 + ql)
    local last = from + 3 + unp('>I4', raw, from)
    local _, _, key, ex, group, flow, share = Job.split_opts(raw, from + 4, last)
    shape = (share or group) and not flow and Job.shape(raw, %REC_FLAGS%, from + 4, last, key, ex, group, share)
    if shape then
      shape.kind, take.alike = kind, Job.keep_shape(alike, shape, Job.NOTHING, raw, %REC_FLAGS%)
    end
  end
  return starts, e, may_be_suspect, kind, own
end
Share.may_start = may_start

-- Notes since when a share is open of which a job is taken that was due before.
local function has_opened(take, r, row, due)
  if row.open_since <= due then return end
  local opened = take.opened or {}
  if not opened[row] then opened[row], opened[#opened + 1] = true, {r, row.share, row.open_since} end
  take.opened = opened
end

-- Takes the job of a place, in its share's turn. Whether it did, and whether the claim may go on.
local function take_place(take, r, lane, one, pass, place, id, raw, group)
  if Claim.ends(take) then return false, false end
  local row, starts, e, may_be_suspect, kind, share = one.row, nil, nil, nil, nil, nil
  if not raw or byte(raw) > %TAG_WAITING% then -- another client deleted its record
    Share.place_out(r, row, lane, place)
    S.lost = true
    if not group or Group.lost(r, group, lane, id) then r.counts[READY] = max(0, r.counts[READY] - 1) end
    return false, true
  end
  if byte(raw) == %TAG_WAITING% then starts, e, may_be_suspect, kind, share = may_start(take, raw) end
  if starts and not (group and may_be_suspect) then
    if not Claim.fits(take, raw) then return false, false end
    if group then Group.started(r, group, id, raw, e.fr) else Share.place_out(r, row, lane, place) end
    take.plain = false
    Claim.add(take, r, id, raw, kind, share, group)
  else
    local j = Job.parse(id, raw)
    if Job.has_expired(j) then
      Settled.cancel_waiting(j, 1)
      take.expired = take.expired + 1
      return false, not Claim.ends(take)
    end
    if j.opts.li and Named.meets(take, r, j, lane, place, group, row) then return false, not Claim.ends(take) end
    if not Claim.fits(take, raw) then return false, false end
    if group then Group.started(r, group, id, raw, nil, j) else Share.place_out(r, row, lane, place) end
    Claim.take_one(take, r, j, raw)
  end
  if row.open_since > 0 then has_opened(take, r, row, at8(raw, %REC_DUE_AT%)) end
  Share.started(r, row, lane, 1, pass)
  return true, true
end

-- Jobs without a share had so many turns.
function Share.others_had_turns(r, lane, n)
  local sh = Share.of(r)
  local stands = sh.lanes[lane]
  sh.others, sh.changed = sh.others + n, true
  for _ = 1, stands and n or 0 do
    local pass = stands.others > 0 and max(stands.others, stands.turn) or Share.behind(stands.turn, 1)
    stands.turn, stands.others = max(stands.turn, pass), Share.raised(pass, 1)
  end
end

local others_had_turns = Share.others_had_turns

-- Shares of a lane have had turns, as Share.started: each so many of the first of its line, whose
-- places are out of those of all shares.
local function had_turns(r, lane, of, count)
  local sh, limits, started, turn = Share.of(r), Share.settings(r), 0, 0
  local weights, stands = limits.weights, sh.lanes[lane]
  for i = 1, count do
    local one = of[i]
    local row, line, n, pass, left = one.row, one.line, one.had, one.last, {}
    local known, bytes = line.known, line.known_bytes
    for k = n + 1, #known do left[k - n] = known[k] end
    bytes = bytes and not line.mixed and #known <= Share.KNOWN_MAX and sub(bytes, n * Share.KNOWN_BYTES + 1) or nil
    line.known, line.known_bytes, line.n, line.pass = left, bytes, line.n - n, Share.raised(pass, weights[row.share] or 1)
    row.active, started = row.active + n, started + n
    if pass > turn then turn = pass end
    if limits.rate then Gate.count(Share.counter(row, limits), n) end
    Share.changes(row)
  end
  sh.active, sh.fresh, sh.changed = sh.active + started, sh.fresh + started, true
  if stands and stands.turn < turn then stands.turn = turn end
  if stands and Share.has_no_others(r, lane) then stands.others = 0 end
end

-- Takes the jobs of turns unseen, if all are as they were sent; whether it did.
local function take_unseen(take, r, lane, order, passes, places, last)
  if not Claim.may_be_unseen(take, r) or Claim.ends(take) then return false end
  local size = take.size
  for i = 1, last do
    local sent = order[i] and order[i].line.sent
    if not sent then return false end
    size = size + sent
  end
  if size > take.bytes then return false end
  take.size = size
  local ids, dues, shares, gone, of, count = {}, {}, {}, {}, {}, 0
  for i = 1, last do
    local one, place = order[i], places[i]
    local due8, had = sub(place, %PLACE_DUE%), one.had
    ids[i], dues[i], shares[i], gone[i], one.had, one.last = sub(place, %PLACE_ID_AT%), due8, one.share, one.prefix .. place, had + 1, passes[i]
    if had == 0 then
      count = count + 1
      of[count] = one
    end
    if one.row.open_since > 0 then has_opened(take, r, one.row, unp('>I8', due8)) end
  end
  Group.write_lines()
  call_many('ZREM', Share.places_key(r), gone)
  if count > 0 then had_turns(r, lane, of, count) end
  Claim.add_unseen(take, r, ids, dues, shares, last)
  return true
end

-- Takes jobs of a lane in the order that was found, as far as their records are read; how many
-- turns were had, and whether the claim may go on.
local function take_turns(take, r, lane, order, passes, places, last)
  if take_unseen(take, r, lane, order, passes, places, last) then return last, true end
  local at = 1
  while at <= last do
    local till, ids, groups, n = min(last, at + max(1, Claim.pop_most(take)) - 1), {}, {}, 0
    local of = {}
    for i = at, till do
      local group = places[i] and Group.of_place(places[i])
      if group then groups[#groups + 1] = group end
      of[i] = group
    end
    if #groups > 0 then Group.fetch(r, groups) end
    for i = at, till do
      if places[i] then n, ids[n + 1] = n + 1, of[i] and (Group.candidate(r, of[i], lane) or '') or sub(places[i], %PLACE_ID_AT%) end
    end
    local raws, k = Job.raws(ids), 0
    if flag(r, %ROW_NAMED%) then Named.prefetch(raws) end
    while at <= till do
      if places[at] then
        k = k + 1
        local taken, goes_on = take_place(take, r, lane, order[at], passes[at], places[at], ids[k], raws[k], of[at])
        if not taken then return at - 1, goes_on end
        at = at + 1
      else
        local turns, before = 1, take.n
        while at + turns <= till and not places[at + turns] do turns = turns + 1 end
        Claim.take_lane(take, r, lane, turns)
        others_had_turns(r, lane, take.n - before)
        if take.n - before < turns then return at - 1 + take.n - before, not take.full end
        at = at + turns
      end
    end
  end
  return last, true
end

-- Takes at most `most` jobs of a lane in which shares may be claimed from.
function Share.take_lane(take, r, lane, most)
  local start, goes_on, idle = take.n, true, 0
  while goes_on and not take.full do
    local room = min(take.limit - take.n, most - (take.n - start))
    if room <= 0 or Share.ready(r, lane, lane) == 0 then break end
    local members, shares = call('ZRANGE', Share.turns_key(r, lane), 0, room - 1), {}
    for i = 1, #members do shares[i] = sub(members[i], %TURN_SHARE_AT%) end
    local found, had = Share.take_alone(take, r, lane, members, shares)
    if had > 0 then
      idle = 0
    else
      local turns, closed = next_turns(r, lane, members, shares, found)
      take.expired = take.expired + closed
      if Claim.ends(take) then break end
      if #turns > 0 then
        local order, passes = in_order(r, lane, turns, room)
        local places, last = places_of(r, lane, order, #turns)
        had, goes_on = take_turns(take, r, lane, order, passes, places, last)
      end
      Share.flush()
      idle = had == 0 and closed == 0 and idle + 1 or 0
      if idle > IDLE_MAX then break end
    end
  end
  local room = min(take.limit - take.n, most - (take.n - start))
  if goes_on and not take.full and room > 0 and Share.ready(r, lane, lane) == 0 then
    local before = take.n
    Claim.take_lane(take, r, lane, room)
    others_had_turns(r, lane, take.n - before)
  end
end

-- The shares that were closed while jobs of theirs were due, and since when they are open: count 2,
-- then the place of their queue among those of the claim that are limited 1, length 2, share, and
-- the instant.
function Share.openings(opened, rows)
  local at, n, out = {}, 0, {}
  for i = 1, #rows do
    if rows[i].flags >= %ROW_LIMITED% then at[rows[i]], n = n, n + 1 end
  end
  for _, one in ipairs(opened) do
    local r, share, since = unpack_list(one)
    if at[r] then out[#out + 1] = char(at[r]) .. pack('>I2', #share) .. share .. u8(since) end
  end
  return #out > 0 and pack('>I2', #out) .. concat(out) or nil
end

end
