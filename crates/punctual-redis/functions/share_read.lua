-- What is read of shares: the first jobs of those whose turn is next, why a job of one waits, which
-- are the largest; and what heals them after lost records.
do

-- Shares that statistics read beyond the largest ones, and turns that are counted before one.
local SAMPLED, AHEAD_MAX = 1000, 1000
-- Shares of a lane among which the oldest job is searched: those whose turn is next.
local HEADS = 64

-- The job that a place of a share stands for.
local function job_of(r, lane, place)
  local group = Group.of_place(place)
  if group then return Group.candidate(r, group, lane) end
  return sub(place, %PLACE_ID_AT%)
end

-- The first places of the first few shares of a lane, in the order of turns, and their rows.
function Share.heads(r, lane, limit)
  if S.changed_shares or S.changed_groups then Share.flush() end
  local stands = Share.of(r).lanes[lane]
  if not stands or stands.places == stands.parked then return {}, {} end
  local shares, places, of = {}, {}, {}
  for i, member in ipairs(call('ZRANGE', Share.turns_key(r, lane), 0, limit - 1)) do shares[i] = sub(member, %TURN_SHARE_AT%) end
  local rows = Share.fetch(r, shares)
  for i = 1, #shares do
    local row = rows[shares[i]]
    local line = row.lanes[lane]
    if line and #line.known == 0 then Share.more(r, row, lane, 1) end
    if line and line.known[1] then places[#places + 1], of[#of + 1] = line.known[1], row end
  end
  return places, of
end

-- Any ready jobs of shares, at most so many: their ids.
function Share.some(r, limit)
  Group.write_lines()
  local ids = {}
  for _, member in ipairs(call('ZRANGEBYLEX', Share.places_key(r), '-', '+', 'LIMIT', 0, limit)) do
    local nul = find(member, '\0', 1, true)
    ids[#ids + 1] = job_of(r, byte(member, nul + 1), sub(member, nul + 2))
  end
  return ids
end

-- The earliest due among the first jobs of shares in a lane, or when their limits opened; nil if
-- there is none.
function Share.oldest(r, lane)
  local places, rows = Share.heads(r, lane, HEADS)
  local ids, oldest = {}, nil
  for i = 1, #places do ids[i] = job_of(r, lane, places[i]) or '' end
  local raws = Job.raws(ids)
  for i = 1, #ids do
    local due = raws[i] and byte(raws[i]) <= %TAG_WAITING% and max(at8(raws[i], %REC_DUE_AT%), rows[i].open_since)
    if due and (not oldest or due < oldest) then oldest = due end
  end
  return oldest
end

-- The earliest since when a job may start of a few shares that time has opened, and that no claim
-- has asked for since; nil if there is none.
function Share.oldest_opened(r)
  local sh = Share.of(r)
  if sh.park == 0 or sh.park > S.now then return nil end
  local found = call('ZRANGEBYSCORE', S.base .. ':sp:' .. r.name, '-inf', fmt('%d', S.now), 'WITHSCORES', 'LIMIT', 0, HEADS)
  local shares, ids, since, oldest = {}, {}, {}, nil
  for i = 1, #found, 2 do shares[#shares + 1] = found[i] end
  local rows = Share.fetch(r, shares)
  for i = 1, #shares do
    for lane, line in pairs(rows[shares[i]].lanes) do
      if #line.known == 0 then Share.more(r, rows[shares[i]], lane, 1) end
      if line.known[1] then ids[#ids + 1], since[#since + 1] = job_of(r, lane, line.known[1]) or '', tonum(found[2 * i]) end
    end
  end
  local raws = Job.raws(ids)
  for i = 1, #ids do
    local due = raws[i] and byte(raws[i]) <= %TAG_WAITING% and max(at8(raws[i], %REC_DUE_AT%), since[i])
    if due and (not oldest or due < oldest) then oldest = due end
  end
  return oldest
end

-- What the limits of its share say about a ready job, or how many others have a turn first, as
-- reasons.
function Share.why(r, j, lane, out)
  local share, limits = j.opts.sh, Share.settings(r)
  local row = Share.row(r, share)
  if not row.was_there then return end
  local by = Share.closed(row, limits)
  if row.blocked == Share.UNTIL_RESUMED then
    out[#out + 1] = {28, share}
  elseif row.blocked > S.now then
    out[#out + 1] = {21, share, u8(row.blocked)}
  end
  if limits.most > 0 and row.active >= limits.most then out[#out + 1] = {22, share, limits.most, row.active} end
  local at = limits.rate and Gate.opens_at(Share.counter(row, limits))
  if at then out[#out + 1] = {23, share, limits.rate, u8(at)} end
  local line = row.lanes[lane]
  if by or not line or not line.member then return end
  local ahead = call('ZLEXCOUNT', Share.turns_key(r, lane), '-', '(' .. line.member)
  if ahead > 0 then out[#out + 1] = {24, share, min(ahead, AHEAD_MAX)} end
end

-- Jobs of shares that would be claimed before a job of a lane: those of its own share, and all of
-- lanes that go first.
function Share.ahead(r, j, lane)
  local ahead = Share.ready(r, lane >= 10 and 10 or 0, lane - 1)
  if not j.opts.sh or j.opts.g then return ahead end
  local prefix = Share.place_prefix(j.opts.sh, lane)
  return ahead + call('ZLEXCOUNT', Share.places_key(r), '[' .. prefix, '(' .. prefix .. Line.place_of(j))
end

-- The shares with the most ready jobs: share, ready, active, weight, what is closed (0 nothing),
-- and when time opens it.
function Share.top(r, limit)
  local limits, shares, out = Share.settings(r), call('ZRANGE', S.base .. ':sb:' .. r.name, 0, SAMPLED - 1, 'REV'), {}
  local rows = Share.fetch(r, shares)
  local seen = {}
  local function put(row)
    if seen[row] or not row.was_there then return end
    seen[row] = true
    local by, till = Share.closed(row, limits)
    out[#out + 1] = {row.share, Share.ready_of(row), row.active, limits.weights[row.share] or 1, by or 0, by and till > 0 and u8(till) or ''}
  end
  for i = 1, #shares do put(rows[shares[i]]) end
  if #out < limit then
    local at, more = '0', {}
    repeat
      local answer = call('HSCAN', Share.rows_key(r), at, 'COUNT', SAMPLED)
      for i = 1, #answer[2], 2 do more[#more + 1] = answer[2][i] end
      at = answer[1]
    until at == '0' or #more >= SAMPLED
    Share.fetch(r, more)
    for i = 1, #more do put(rows[more[i]]) end
  end
  table.sort(out, function(a, b)
    if a[2] ~= b[2] then return a[2] > b[2] end
    if a[3] ~= b[3] then return a[3] > b[3] end
    return below(a[1], b[1])
  end)
  return slice(out, 1, limit)
end

-- Places of shares after one, each with itself as the cursor: the id of a job, or of one that is
-- alone in its group; false where the lines of groups have it.
function Share.listed(r, after, limit)
  local out = {}
  for i, member in ipairs(call('ZRANGEBYLEX', Share.places_key(r), after and '(' .. after or '-', '+', 'LIMIT', 0, limit)) do
    local place = sub(member, find(member, '\0', 1, true) + 2)
    local group = Group.of_place(place)
    local id = group and Group.alone(Group.row(r, group)) or not group and sub(place, %PLACE_ID_AT%)
    out[i] = {id or false, member}
  end
  return out
end

-- Active jobs that are counted anew at a time: of more their shares keep what was counted.
local RECOUNTED = 2000

-- Counts the active jobs of shares anew, after a record was lost.
local function recount(r)
  if r.counts[ACTIVE] > RECOUNTED then return end
  local counts = {}
  for _, token in ipairs(r.counts[ACTIVE] > 0 and Lease.tokens_of(r.name) or {}) do
    local p = Lease.load(token)
    local ids = p and not p.plain and Lease.rest(p) or {}
    for i, raw in ipairs(#ids > 0 and Job.raws(ids) or {}) do
      local j = raw and byte(raw) <= %TAG_WAITING% and Job.parse(ids[i], raw)
      if j and j.q == r.name and j.opts.sh then counts[j.opts.sh] = (counts[j.opts.sh] or 0) + 1 end
    end
  end
  return counts
end

-- One step of a walk over the shares of a queue: places whose records are gone are taken out, and
-- active jobs counted anew.
function Share.heal(r, cursor, step)
  if r.flags < %ROW_SHARED% then return '0' end
  if sub(cursor, 1, 1) ~= 'r' then
    Group.write_lines()
    local from, ids = tonum(cursor), {}
    local members = call('ZRANGE', Share.places_key(r), from, from + step - 1)
    for i, member in ipairs(members) do
      local nul = find(member, '\0', 1, true)
      ids[i] = Group.of_place(sub(member, nul + 2)) and '' or sub(member, -16)
    end
    local raws, gone = Job.raws(ids), 0
    for i, member in ipairs(members) do
      if ids[i] ~= '' and not (raws[i] and byte(raws[i]) <= %TAG_WAITING%) then
        local nul = find(member, '\0', 1, true)
        Share.place_out(r, Share.row(r, sub(member, 1, nul - 1)), byte(member, nul + 1), sub(member, nul + 2))
        r.counts[READY], gone = max(0, r.counts[READY] - 1), gone + 1
      end
    end
    Share.flush()
    return #members == step and fmt('%d', from + step - gone) or 'r0'
  end
  local counts, sh = recount(r), Share.of(r)
  if not counts then return '0' end
  local answer, shares = call('HSCAN', Share.rows_key(r), sub(cursor, 2), 'COUNT', step), {}
  for i = 1, #answer[2], 2 do shares[#shares + 1] = answer[2][i] end
  local rows = Share.fetch(r, shares)
  for i = 1, #shares do
    local row = rows[shares[i]]
    local active = counts[row.share] or 0
    if row.active ~= active then
      sh.active, sh.changed = max(0, sh.active + active - row.active), true
      row.active = active
      Share.changes(row)
    end
  end
  Share.flush()
  return answer[1] ~= '0' and 'r' .. answer[1] or '0'
end

end
