-- Groups whose ready jobs are of one priority, with nothing else to say: most of a queue with
-- groups. Their rows are known by their bytes: jobs come, start and end without a look at more of
-- them.
do

-- What the row of such a group begins with, besides its priority and bits; and one whose job runs.
local IDLE, RUNS = '\8', '\9\0\1'
-- Bits beside a priority: with a place, and alone in its row, too. Bytes of one that is alone, and
-- of one with a line besides the jobs that it knows.
local HAS_PLACE, BITS, ROW_BYTES, LINE_BYTES = 64, 96, 28, 17
-- What a row begins with whose group runs jobs; how many jobs a row knows.
local ACTIVE, KNOWN_MAX = '\9', 8

-- How many of these places in an overflow set are those of such groups, from the first on; the
-- groups and the ids of their first jobs; and what was read: of so many groups the rows.
local function known_ones(r, lane, members)
  local groups, ids, n, k = {}, {}, 0, 0
  for i = 1, #members do
    local group = Group.of_place(members[i])
    if not group then break end
    n = n + 1
    groups[n] = group
  end
  if n == 0 then return 0 end
  local read = {n = n, rows = {}}
  local raws, rows, alone, lined = get_many(S.base .. ':g:' .. r.name, groups), S.groups and S.groups[r.name], IDLE .. char(lane + BITS), IDLE .. char(lane + HAS_PLACE)
  for i = 1, n do read.rows[groups[i]] = raws[i] end
  for i = 1, n do
    local raw, member = raws[i], members[i]
    if not raw or rows and rows[groups[i]] then break end
    local front, size = sub(raw, 1, 2), #raw
    if front == lined then
      local count = byte(raw, %GROUP_KNOWN_AT%)
      if not count or count == 0 or size ~= LINE_BYTES + 16 * count then break end
      ids[i] = sub(raw, %GROUP_FIRST%)
    elseif front == alone and size == ROW_BYTES then
      ids[i] = sub(raw, %GROUP_ALONE_ID%)
    else
      break
    end
    if sub(raw, -10, -4) ~= sub(member, %PLACE_STAMP%) or sub(raw, -3) ~= sub(member, %PLACE_STAMP_END%) then break end -- it stands elsewhere
    k = i
  end
  return k, groups, ids, read
end

-- Takes the jobs of the first places in an overflow set, as far as they are those of such groups,
-- and can start; how many, or else what was read, as known_ones.
function Group.take_alone(take, r, lane, members)
  if lane > 9 then return 0 end
  local n, groups, ids, read = known_ones(r, lane, members)
  if 2 * n < #members or n == 0 then return 0, read end -- what comes of few is not worth a look at all of them again
  local raws, k, kv, out = Job.raws(slice(ids, 1, n)), 0, {}, {}
  for i = 1, n do
    local raw, id, group = raws[i], ids[i], groups[i]
    if not raw or byte(raw) ~= %TAG_WAITING% or Claim.ends(take) then break end
    local starts, e, may_be_suspect, kind, share = Share.may_start(take, raw)
    if not starts or may_be_suspect or not Claim.fits(take, raw) then break end
    k = i
    Claim.add(take, r, id, raw, kind, share, group)
    local row, after = read.rows[group], RUNS .. id
    if #row ~= ROW_BYTES or byte(row, 2) < BITS then
      out[#out + 1] = Group.member_of_record(group, id, raw, e.fr)
      local left = unp('>I4', row, 3) - 1
      if left > 0 then after = after .. char(lane) .. pack('>I4B', left, byte(row, %GROUP_KNOWN_AT%) - 1) .. sub(row, %GROUP_REST_AT%, -11) end
    end
    kv[2 * i - 1], kv[2 * i] = group, after
  end
  if k == 0 then return 0, read end
  take.plain = false
  Group.write_lines()
  call_many('ZREM', S.base .. ':l:' .. r.name, out)
  Line.overflow_remove_many(r, lane, k == #members and members or slice(members, 1, k))
  call_many('HSET', S.base .. ':g:' .. r.name, kv)
  return k
end

-- The row and the lane of a group whose only active job has ended, by its bytes; nothing where more
-- of it changes. It comes up at a place.
local function without_active(r, group, raw, id)
  if not raw or #raw < 25 or sub(raw, %GROUP_RUNNING%) ~= RUNS .. id then return nil end
  local lane, n, count = unp('>BI4B', raw, 20)
  if lane > 9 or #raw ~= 25 + 16 * count then return nil end
  if count > 0 then return sub(raw, %GROUP_LINE_AT%), lane end
  local known = {}
  for k, member in ipairs(Group.first_members(r, group, lane, min(n, KNOWN_MAX))) do
    if byte(member, -17) == 1 then return nil end -- a suspect
    known[k] = sub(member, -16)
  end
  if #known > 0 then return pack('>I4B', n, #known) .. concat(known), lane end
end

-- Jobs of groups have settled, which were active: of the first of these groups, as far as each is
-- such a one, the rows are written by their bytes. `raws` has the rows. How many these are.
function Group.settled_alone(r, groups, ids, raws)
  local rows, seen, gone, kv, to, stamp, k = S.groups and S.groups[r.name] or {}, {}, {}, {}, {}, sub(u8(S.now), 2), 0
  if S.changed_groups then Group.flush() end -- those came before
  for i = 1, #groups do
    local group, raw, id = groups[i], raws[i], ids[i]
    if rows[group] or seen[group] then break end
    seen[group] = true
    if raw == RUNS .. id then
      gone[#gone + 1] = group
    else
      local row, lane = without_active(r, group, raw, id)
      if not row then break end
      local place, members, n = Group.next_place(stamp), to[lane] or {}, #kv
      to[lane] = members
      members[#members + 1], members[#members + 2] = '0', Group.member_of(place, group)
      kv[n + 1], kv[n + 2] = group, IDLE .. char(lane + HAS_PLACE) .. row .. place
    end
    k = i
  end
  for lane, members in pairs(to) do Line.places_taken(r, lane, members) end
  local key = S.base .. ':g:' .. r.name
  call_many('HSET', key, kv)
  call_many('HDEL', key, gone)
  return k
end

-- A row with one more job at the end of its only line, by its bytes; nil where more of it changes.
local function with_one_more(raw, prio, id)
  local at, bits = 2, prio + HAS_PLACE
  if sub(raw, 1, 1) == ACTIVE then
    at, bits = 20, prio
  elseif sub(raw, 1, 1) ~= IDLE then
    return nil
  end
  if byte(raw, at) ~= bits then return nil end
  local n, count = unp('>I4B', raw, at + 1)
  local last = at + 5 + 16 * count
  if #raw ~= last + (bits >= HAS_PLACE and 10 or 0) then return nil end
  if count < n or n >= KNOWN_MAX then return sub(raw, 1, at) .. pack('>I4', n + 1) .. sub(raw, at + 5) end
  return sub(raw, 1, at) .. pack('>I4B', n + 1, count + 1) .. sub(raw, at + 6, last) .. id .. sub(raw, last + 1)
end

-- Puts jobs at the end of the lines of groups of which nothing else changes; `found` has the rows
-- of all by place. Answers the places of the others, their groups, and the rows of these by group.
function Group.line_up_behind(r, ids, raws, groups, shares, found)
  local rows, now_is, kv, members, others, of, read = S.groups and S.groups[r.name] or {}, {}, {}, {}, {}, {}, {}
  for i = 1, #ids do
    local group, raw = groups[i], raws[i]
    local row = now_is[group] or found[i]
    row = row and not rows[group] and not (shares and shares[i]) and with_one_more(row, byte(raw, %REC_PRIORITY%), ids[i])
    if row then
      local k = #members
      now_is[group], members[k + 1], members[k + 2] = row, '0', Group.member_of_record(group, ids[i], raw)
    else
      local k = #others + 1
      others[k], of[k], read[group] = i, group, found[i]
    end
  end
  for group, row in pairs(now_is) do
    kv[#kv + 1], kv[#kv + 2] = group, row
    if read[group] then read[group] = row end
  end
  call_many('ZADD', S.base .. ':l:' .. r.name, members)
  call_many('HSET', S.base .. ':g:' .. r.name, kv)
  return others, of, read
end

end
