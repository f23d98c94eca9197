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
  if tag == 1 then return true end
  local length = unp('>I4', raw, 32)
  return length == 0 or not mp.unpack(sub(raw, 36, 35 + length)).l
end

-- The live ones among ids just taken off a list.
local function sift(r, lane, ids, records, stamps)
  local out_ids, out_records, out_stamps, k, stale = {}, {}, {}, 0, r.T[lane]
  for i = 1, #ids do
    if stale == 0 or Line.is_live(records[i], stamps[i]) then
      k = k + 1
      out_ids[k], out_records[k], out_stamps[k] = ids[i], records[i], stamps[i]
    else
      stale = stale - 1
    end
  end
  r.T[lane] = stale
  return out_ids, out_records, out_stamps, k
end

-- Takes ids off a list, `want` of them if there are as many: whole packs, and a part of the last.
local function take_ids(key, want)
  local ids, stamps, k, per_pack = {}, {}, 0, want
  while k < want do
    local packs = call('LPOP', key, max(1, floor((want - k) / per_pack)))
    if not packs then break end
    for p = 1, #packs do
      local one = packs[p]
      local n = (#one - 10) / 16
      local take, stamp10 = min(n, want - k), sub(one, 1, 10)
      per_pack = max(1, n)
      for i = 1, take do
        k = k + 1
        ids[k], stamps[k] = sub(one, 16 * i - 5, 16 * i + 10), stamp10
      end
      if k >= want then -- the rest goes back to the front, the last pack first
        for back = #packs, p + 1, -1 do call('LPUSH', key, packs[back]) end
        if take < n then call('LPUSH', key, stamp10 .. sub(one, 16 * take + 11)) end
        break
      end
    end
  end
  return ids, stamps, k
end

-- Takes at most `want` live jobs off a lane's list: ids, records, the stamp of each, and how many.
function Line.pop(r, lane, want)
  local live = r.L[lane] or 0
  if live == 0 and (r.T[lane] or 0) == 0 then return {}, {}, {}, 0 end
  want = min(want, live)
  local key = list_of(r, lane)
  if (r.T[lane] or 0) == 0 then
    local ids, stamps, k = take_ids(key, want)
    r.L[lane] = live - k
    return ids, get_many(S.base .. ':b', ids), stamps, k
  end
  local ids, records, stamps, k, looked = {}, {}, {}, 0, 0
  while k < want and looked < 2000 do
    local fresh, of, m = take_ids(key, want - k)
    if m == 0 then
      live, r.T[lane] = k, 0
      break
    end
    looked = looked + m
    local f_ids, f_records, f_stamps, n = sift(r, lane, fresh, get_many(S.base .. ':b', fresh), of)
    for i = 1, n do
      k = k + 1
      ids[k], records[k], stamps[k] = f_ids[i], f_records[i], f_stamps[i]
    end
  end
  r.L[lane] = live - k
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
