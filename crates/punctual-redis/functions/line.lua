-- Lines: who may be claimed next. Jobs in order stand in lists of packs, `BASE:r:PRIORITY:QUEUE`; jobs
-- out of order (rescued, moved, cleared), suspects and groups stand in side sets,
-- `BASE:x:LANE:QUEUE`, ordered by rank, due and enqueue. A claim merges the two.
do

local function list_of(r, lane) return S.base .. ':r:' .. lane .. ':' .. r.name end
local function side_of(r, lane) return S.base .. ':x:' .. lane .. ':' .. r.name end
local function stamp() return u8(S.now) .. S.sub end

-- Puts jobs in order at the end of a lane's list: one pack.
function Line.push(r, lane, ids)
  call('RPUSH', list_of(r, lane), stamp() .. concat(ids))
  r.L[lane] = (r.L[lane] or 0) + #ids
  ring(r)
end

function Line.side_add(r, lane, member)
  call('ZADD', side_of(r, lane), 0, member)
  r.X[lane] = (r.X[lane] or 0) + 1
  ring(r)
end

function Line.side_remove(r, lane, member)
  if (r.X[lane] or 0) == 0 or call('ZREM', side_of(r, lane), member) == 0 then return false end
  r.X[lane] = r.X[lane] - 1
  return true
end

local function side_member(j)
  return (j.ext.fr and '\0' or '\1') .. Job.key(j) .. 'J' .. j.id
end

-- Puts a ready job in its lane, or in its group's line. Not counted here.
function Line.up(r, j)
  if j.opts.g then return Group.up(r, j) end
  Line.side_add(r, lane_of(j), side_member(j))
end

-- Takes a ready job out of its lane or line. From a list it leaves a stale entry behind, and never
-- stands in a list again (`l`).
function Line.down(r, j)
  if j.opts.g then return Group.down(r, j) end
  if Line.side_remove(r, lane_of(j), side_member(j)) then return end
  r.L[j.prio], r.T[j.prio] = r.L[j.prio] - 1, (r.T[j.prio] or 0) + 1
  j.ext.l = 1
end

-- Whether an entry of a pack stands for this record.
function Line.is_live(raw, stamp10)
  if not raw then return false end
  local tag = byte(raw)
  if tag > 2 or sub(raw, 2, 11) > stamp10 then return false end
  return tag == 1 or not mp.unpack(sub(raw, 36, 35 + unp('>I4', raw, 32))).l
end

-- Takes at most `want` live jobs off a lane's list: ids, records, and the stamp of each.
function Line.pop(r, lane, want)
  local ids, records, stamps, k = {}, {}, {}, 0
  local live = r.L[lane] or 0
  if live == 0 and (r.T[lane] or 0) == 0 then return ids, records, stamps, 0 end
  want = min(want, live)
  local key, per_pack, looked = list_of(r, lane), want, 0
  while k < want and looked < 2000 do
    local packs = call('LPOP', key, max(1, floor((want - k) / per_pack)))
    if not packs then
      r.L[lane], r.T[lane] = k, 0
      break
    end
    local fresh, of, m = {}, {}, 0
    for p = 1, #packs do
      local one = packs[p]
      local n = (#one - 10) / 16
      per_pack = max(1, n)
      local take = min(n, want - k - m)
      local stamp10 = sub(one, 1, 10)
      for i = 1, take do
        m = m + 1
        fresh[m], of[m] = sub(one, 16 * i - 5, 16 * i + 10), stamp10
      end
      if k + m >= want then -- the rest goes back to the front, the last pack first
        for back = #packs, p + 1, -1 do call('LPUSH', key, packs[back]) end
        if take < n then call('LPUSH', key, stamp10 .. sub(one, 16 * take + 11)) end
        break
      end
    end
    local found = get_many(S.base .. ':b', fresh)
    looked = looked + m
    local stale = r.T[lane] or 0
    if stale == 0 and k == 0 then
      ids, records, stamps, k = fresh, found, of, m
    else
      for i = 1, m do
        if stale == 0 or Line.is_live(found[i], of[i]) then
          k = k + 1
          ids[k], records[k], stamps[k] = fresh[i], found[i], of[i]
        else
          stale = stale - 1
        end
      end
      r.T[lane] = stale
    end
  end
  r.L[lane] = r.L[lane] - k
  return ids, records, stamps, k
end

-- Puts jobs from place `from` on back to the front of a lane's list.
function Line.unpop(r, lane, ids, stamps, from)
  local key, i = list_of(r, lane), #ids
  while i >= from do
    local one, stamp10 = {}, stamps[i]
    while i >= from and stamps[i] == stamp10 do
      one[#one + 1] = ids[i]
      i = i - 1
    end
    local n = #one
    for a = 1, floor(n / 2) do one[a], one[n + 1 - a] = one[n + 1 - a], one[a] end
    call('LPUSH', key, stamp10 .. concat(one))
    r.L[lane] = (r.L[lane] or 0) + n
  end
end

-- Whether a claim at once could answer something.
function Line.has_work(r, alone)
  if not r or flag(r, 2) then return false end
  for _, n in pairs(r.L) do if n > 0 then return true end end
  for lane, n in pairs(r.X) do if n > 0 and (lane < 10 or alone) then return true end end
  return r.head > 0 and r.head <= S.now
end

function Line.has_suspects(r)
  for lane, n in pairs(r.X) do if n > 0 and lane >= 10 then return true end end
  return false
end

end
