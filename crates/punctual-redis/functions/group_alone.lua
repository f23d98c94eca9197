-- Groups of one ready job, with nothing else to say: most of a queue with many groups. Their rows
-- are known by their bytes: jobs start without a look at more of them. And jobs that come behind
-- others of their groups, by the bytes of their rows.
do

-- What the row of such a group begins with, besides its priority and bits; and one whose only job
-- runs.
local IDLE, RUNS = '\8', '\9\0\1'
-- Bits beside a priority: alone in its row, and with a place.
local BITS, ROW_BYTES = 96, 28
-- What a row begins with whose group runs jobs; the bit of a place; how many jobs a row knows.
local ACTIVE, HAS_PLACE, KNOWN_MAX = '\9', 64, 8

-- How many of these places in an overflow set are those of such groups, from the first on; the
-- groups and the ids of their jobs; and what was read: of so many groups the rows.
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
  local raws, rows, front = get_many(S.base .. ':g:' .. r.name, groups), S.groups and S.groups[r.name], IDLE .. char(lane + BITS)
  for i = 1, n do read.rows[groups[i]] = raws[i] end
  for i = 1, n do
    local raw, member = raws[i], members[i]
    if not raw or #raw ~= ROW_BYTES or rows and rows[groups[i]] or sub(raw, 1, 2) ~= front then break end
    if sub(raw, %GROUP_ALONE_STAMP%) ~= sub(member, %PLACE_STAMP%) or sub(raw, %GROUP_ALONE_END_AT%) ~= sub(member, %PLACE_STAMP_END%) then break end -- it stands elsewhere
    k, ids[i] = i, sub(raw, %GROUP_ALONE_ID%)
  end
  return k, groups, ids, read
end

-- Takes the jobs of the first places in an overflow set, as far as they are those of such groups,
-- and can start; how many, or else what was read, as known_ones.
function Group.take_alone(take, r, lane, members)
  if lane > 9 then return 0 end
  local n, groups, ids, read = known_ones(r, lane, members)
  if 2 * n < #members or n == 0 then return 0, read end -- what comes of few is not worth a look at all of them again
  local raws, k, kv = Job.raws(slice(ids, 1, n)), 0, {}
  for i = 1, n do
    local raw = raws[i]
    if not raw or byte(raw) ~= %TAG_WAITING% or Claim.ends(take) then break end
    local starts, _, may_be_suspect, kind, share = Share.may_start(take, raw)
    if not starts or may_be_suspect or not Claim.fits(take, raw) then break end
    k = i
    Claim.add(take, r, ids[i], raw, kind, share, groups[i])
    kv[2 * i - 1], kv[2 * i] = groups[i], RUNS .. ids[i]
  end
  if k == 0 then return 0, read end
  take.plain = false
  Line.overflow_remove_many(r, lane, slice(members, 1, k))
  call_many('HSET', S.base .. ':g:' .. r.name, kv)
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
