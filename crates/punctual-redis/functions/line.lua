-- Lines: who may be claimed next. Jobs in order stand in lists of chunks, `BASE:r:PRIORITY:QUEUE`:
-- now 8 | sub 2 | kind 1 | size 3 | [lo 8 | hi 8] | ids. Kind 1: plain jobs due at `now`; 2: plain
-- jobs due from lo to hi; 4, 5: the same of jobs that may have an ext, of which a claim has to look
-- at none unless some have expired; 6, 7: the same of jobs as they were sent, at whose end there is
-- no more than a key and an expiry; 8: as 6, but some may be steps; 0: look at each; 3: jobs of the
-- bundle now, sub and no: no 1 | from 2 | n 2 | count of the bundle 2 instead of ids. Size: bytes
-- of the records together, at most: as many as if each were the largest. Jobs out of order
-- (rescued, moved, cleared), suspects and groups stand in overflow sets, `BASE:x:LANE:QUEUE`,
-- ordered by position, due and enqueue. A claim merges the two.
do

local function list_of(r, lane)
  local keys = r.lists
  if not keys then
    keys = {}
    r.lists = keys
  end
  local key = keys[lane]
  if not key then
    key = S.base .. ':r:' .. lane .. ':' .. r.name
    keys[lane] = key
  end
  return key
end
local function overflow_of(r, lane) return S.base .. ':x:' .. lane .. ':' .. r.name end

-- A claim that wants less than a chunk copies its rest: so chunks are small.
local CHUNK = 100

-- Whether a chunk has a first and a last due of its own.
local function is_moved(chunk)
  local kind = byte(chunk, %CHUNK_KIND%)
  return kind == %CHUNK_MOVED% or kind == %CHUNK_EXT_MOVED% or kind == %CHUNK_SENT_MOVED%
end

-- The kind of a chunk of a job that was sent with these opts, none of which keeps it from the
-- others of its call; `flow` if it is a step.
function Line.kind_of(o, flow)
  if o.uh == 0 then return 0 end
  if o.rn or o.rm or o.w or o.sc or o.mc then return %CHUNK_EXT% end
  return flow and %CHUNK_STEPS% or %CHUNK_SENT%
end

-- The kind of a chunk of jobs of two kinds, moved ones or others.
function Line.both(a, b)
  if a == b then return a end
  local less, more = min(a, b), max(a, b)
  if less == %CHUNK_SENT% then return more end
  return (less == 0 or less >= %CHUNK_EXT%) and less or more
end

-- Enqueues jobs order at the end of a lane's list. `kind` as above; `sizes` bytes of each record if
-- the kind is not 0; `lo`, `hi` for kind 2.
function Line.push(r, lane, ids, kind, sizes, lo, hi)
  local n, chunks = #ids, {}
  local stamp10 = u8(S.now) .. S.sub
  for from = 1, n, CHUNK do
    local last, size = min(n, from + CHUNK - 1), 0
    if kind > 0 then
      for i = from, last do if sizes[i] > size then size = sizes[i] end end
      size = size * (last - from + 1)
    end
    local head = stamp10 .. (size > 16777215 and '\0\0\0\0' or char(kind) .. pack('>I3', size))
    if is_moved(head) then head = head .. lo .. hi end
    chunks[#chunks + 1] = head .. (from == last and ids[from] or concat(ids, '', from, last))
  end
  call_many('RPUSH', list_of(r, lane), chunks)
  r.in_lists[lane] = (r.in_lists[lane] or 0) + n
  notify(r)
end

-- Puts bundles at the end of a lane's list.
function Line.push_bundles(r, lane, bundles)
  local chunks, n = {}, 0
  for k = 1, #bundles do
    local bundle = bundles[k]
    chunks[k] = sub(bundle.no, %BUNDLE_STAMP%) .. '\%CHUNK_BUNDLE%' .. pack('>I3', bundle.size) .. sub(bundle.no, %BUNDLE_REST_AT%) .. pack('>I2I2I2', 1, bundle.n, bundle.n)
    n = n + bundle.n
  end
  call_many('RPUSH', list_of(r, lane), chunks)
  r.in_lists[lane] = (r.in_lists[lane] or 0) + n
  notify(r)
end

-- Where the ids of a chunk begin.
local function ids_from(chunk) return is_moved(chunk) and 31 or 15 end
Line.ids_from = ids_from

local function count_of(chunk)
  if byte(chunk, %CHUNK_KIND%) == %CHUNK_BUNDLE% then return (unp('>I2', chunk, 18)) end
  return (#chunk - ids_from(chunk) + 1) / 16
end

-- Jobs of a chunk of kind 3: number of the bundle, from, n, count.
local function run_of(chunk)
  local no, from, n, of = unp('>c1I2I2I2', chunk, %CHUNK_FROM%)
  return sub(chunk, %CHUNK_STAMP%) .. no, from, n, of
end

-- A chunk with its ids in it.
function Line.spelt(chunk)
  if byte(chunk, %CHUNK_KIND%) ~= %CHUNK_BUNDLE% then return chunk end
  return sub(chunk, %CHUNK_STAMP%) .. '\%CHUNK_IDS%' .. sub(chunk, %CHUNK_SIZE%) .. Bundle.ids(run_of(chunk))
end

function Line.overflow_add(r, lane, member)
  call('ZADD', overflow_of(r, lane), 0, member)
  r.in_overflow[lane] = (r.in_overflow[lane] or 0) + 1
  notify(r)
end

-- Places of groups go into a lane's overflow set, each behind a 0, or leave it.
function Line.places_taken(r, lane, members)
  r.in_overflow[lane] = (r.in_overflow[lane] or 0) + call_many('ZADD', overflow_of(r, lane), members)
  notify(r)
end

function Line.places_left(r, lane, members)
  r.in_overflow[lane] = max(0, (r.in_overflow[lane] or 0) - call_many('ZREM', overflow_of(r, lane), members))
end

function Line.overflow_remove(r, lane, member)
  if (r.in_overflow[lane] or 0) == 0 or call('ZREM', overflow_of(r, lane), member) == 0 then return false end
  r.in_overflow[lane] = r.in_overflow[lane] - 1
  return true
end

-- Takes entries out that are there.
function Line.overflow_remove_many(r, lane, members)
  r.in_overflow[lane] = max(0, r.in_overflow[lane] - call_many('ZREM', overflow_of(r, lane), members))
end

-- Puts jobs out of order in the set of a lane for which no crash speaks: ids and their records.
function Line.up_many(r, lane, ids, raws)
  local items = {}
  for i = 1, #ids do
    local raw = raws[i]
    items[2 * i - 1], items[2 * i] = '0', '\1' .. sub(raw, %REC_DUE%) .. sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. 'J' .. ids[i]
  end
  call_many('ZADD', overflow_of(r, lane), items)
  r.in_overflow[lane] = (r.in_overflow[lane] or 0) + #ids
  notify(r)
end

local function overflow_member(j)
  return (j.ext.fr and '\0' or '\1') .. Job.key(j) .. 'J' .. j.id
end

Line.place_of = overflow_member

-- Puts a ready job in its lane, or in the line of its group, its share or a limit. Not counted
-- here.
function Line.up(r, j)
  if j.opts.li then Named.count(r, 1) end
  if j.opts.g then return Group.up(r, j) end
  if j.opts.li and Named.up(r, j) then return end
  if j.opts.sh then return Share.up(r, j) end
  Line.overflow_add(r, lane_of(j), overflow_member(j))
end

-- Whether a job out of order stands in its overflow set, or in the line of its group, its share or
-- a limit.
function Line.has(r, j)
  if j.opts.g then return Group.has(r, j) end
  if j.opts.li and Named.kept_by(r, j) then return true end
  if j.opts.sh then return Share.has(r, j) end
  return call('ZSCORE', overflow_of(r, lane_of(j)), overflow_member(j)) and true
end

-- Whether an entry of a chunk stands for this record.
function Line.is_live(raw, stamp10)
  if not raw then return false end
  local tag = byte(raw)
  if tag > %TAG_WAITING% or below(stamp10, sub(raw, %REC_STAMP%)) then return false end
  if tag == %TAG_PLAIN% then return true end
  local length = unp('>I4', raw, %REC_BODY%)
  return length == 0 or not mp.unpack(sub(raw, %REC_EXT%, 35 + length)).l
end

-- The live ones of a chunk: ids and records, and the chunk with its ids in it.
function Line.live(one)
  one = Line.spelt(one)
  local all, ids, records, k = {}, {}, {}, 0
  for i = ids_from(one), #one, 16 do all[#all + 1] = sub(one, i, i + 15) end
  local raws, stamp10 = Job.raws(all), sub(one, %CHUNK_STAMP%)
  for i = 1, #all do
    if Line.is_live(raws[i], stamp10) then
      k = k + 1
      ids[k], records[k] = all[i], raws[i]
    end
  end
  return ids, records, one
end

local tidied_to = {} -- by list: the chunk at which to go on

-- Takes the stale entries out of one chunk of a list.
local function tidy(r, lane)
  local key = list_of(r, lane)
  local at = tidied_to[key] or 0
  local one = call('LINDEX', key, at)
  tidied_to[key] = one and at + 1 or nil
  if not one then return end
  local n, left, _, whole = count_of(one), Line.live(one)
  if #left == n then return end
  r.stale[lane] = max(0, r.stale[lane] - (n - #left))
  if #left > 0 and byte(one, %CHUNK_KIND%) == %CHUNK_BUNDLE% then Bundle.take_out(run_of(one)) end -- the chunk names no bundle any more
  call('LSET', key, at, #left > 0 and sub(whole, 1, ids_from(whole) - 1) .. concat(left) or '')
  if #left > 0 then return end
  call('LREM', key, 1, '')
  tidied_to[key] = at
end

-- Takes chunks of none but stale entries off the front of a list: who cancels a queue from its
-- front leaves none.
local function drop_stale(r, lane)
  local key = list_of(r, lane)
  for _ = 1, 2 do
    local one = call('LINDEX', key, 0)
    if not one or #Line.live(one) > 0 then return end
    call('LPOP', key)
    r.stale[lane] = max(0, r.stale[lane] - count_of(one))
  end
end

-- Nothing in a list is live any more.
local function forget_list(r, lane)
  local key = list_of(r, lane)
  if S.open_chunks then S.open_chunks[key] = nil end
  call('DEL', key)
  r.stale[lane] = 0
end

-- Takes a ready job out of its lane or line. From a list it leaves a stale entry behind, and never
-- stands in a list again (`l`).
function Line.down(r, j)
  if j.opts.li then Named.count(r, -1) end
  if j.opts.g then return Group.down(r, j) end
  if j.opts.li and Named.down(r, j) then return end
  if j.opts.sh then return Share.down(r, j) end
  if Line.overflow_remove(r, lane_of(j), overflow_member(j)) then return end
  local lane = j.prio
  r.in_lists[lane], r.stale[lane] = r.in_lists[lane] - 1, (r.stale[lane] or 0) + 1
  j.ext.l = 1
  if r.in_lists[lane] == 0 then
    forget_list(r, lane)
  elseif r.stale[lane] > r.in_lists[lane] + 1000 then -- stale entries do not outnumber live ones for long
    tidy(r, lane)
  elseif r.stale[lane] % CHUNK == 0 then
    drop_stale(r, lane)
  end
end

-- The live ones among ids just taken off a list.
local function sift(r, lane, ids, records, stamps)
  local out_ids, out_records, out_stamps, k, stale = {}, {}, {}, 0, r.stale[lane]
  for i = 1, #ids do
    if stale == 0 or Line.is_live(records[i], stamps[i]) then
      k = k + 1
      out_ids[k], out_records[k], out_stamps[k] = ids[i], records[i], stamps[i]
    else
      stale = stale - 1
    end
  end
  r.stale[lane] = stale
  return out_ids, out_records, out_stamps, k
end

-- While claims of one call go on, the chunk that the last one left in part stays in hand: where it
-- stood first, it is put back before anything else reads its list: what comes after its `first`
-- jobs, or n of that.
local function put_back(key, chunk, first, n)
  local all = count_of(chunk)
  n = n or all - first
  if n < all then
    local head = sub(chunk, 1, %CHUNK_KIND%) .. pack('>I3', floor(unp('>I3', chunk, %CHUNK_SIZE_AT%) * n / all))
    if byte(chunk, %CHUNK_KIND%) == %CHUNK_BUNDLE% then
      local from, _, of = unp('>I2I2I2', chunk, 16)
      chunk = head .. sub(chunk, %CHUNK_FROM%, %CHUNK_FROM%) .. pack('>I2I2I2', from + first, n, of)
    else
      local at = ids_from(chunk)
      chunk = head .. sub(chunk, %CHUNK_FROM%, at - 1) .. sub(chunk, at + 16 * first, at + 16 * (first + n) - 1)
    end
  end
  call('LPUSH', key, chunk)
end

Line.put_back, Line.list_of = put_back, list_of

function Line.hold() S.open_chunks = {} end

function Line.let_go()
  local open = S.open_chunks
  S.open_chunks = nil
  for key, one in pairs(open or {}) do put_back(key, one[1], one[2]) end
end

-- Chunks of nothing that one look takes off at most, where there are stale entries: each is a look
-- at its bundle.
local GONE_MAX = 100

-- Takes chunks off a list that hold `want` ids together, if there are as many: the last one in
-- part. Answers pieces, each of a chunk, how many of its ids come before, and how many it has; how
-- many in all; and how many chunks were dropped, as their bundle is gone with all of its jobs, or
-- nothing was left in them. Whose claimer does not read bundles, jobs of such a chunk are taken out
-- of theirs, those that stay in line too.
local function take_chunks(r, lane, want, in_bundles)
  local key, pieces, k, gone = list_of(r, lane), {}, 0, 0
  local open = S.open_chunks and S.open_chunks[key]
  if open then S.open_chunks[key] = nil end
  local most = (r.stale[lane] or 0) > 0 and GONE_MAX or math.huge
  while k < want and gone < most do
    local found = open or call('LPOP', key, open and 1 or max(1, floor((want - k) / CHUNK)))
    if not found then break end
    local one, last = nil, open and 1 or #found
    for p = 1, last do
      local first = 0
      if open then one, first = open[1], open[2] else one = found[p] end
      local n = count_of(one) - first
      if not in_bundles and byte(one, %CHUNK_KIND%) == %CHUNK_BUNDLE% then
        local no, from, _, of_n = run_of(one)
        if Bundle.take_out(no, from + first, n, of_n) then
          one = Line.spelt(one)
        else
          r.stale[lane], n = max(0, (r.stale[lane] or 0) - n), 0
        end
      end
      local take = min(n, want - k)
      if n == 0 then gone = gone + 1 else pieces[#pieces + 1], k = {one, first, take}, k + take end
      if k >= want then
        for back = last, p + 1, -1 do call('LPUSH', key, found[back]) end
        if take < n then
          if S.open_chunks then S.open_chunks[key] = {one, first + take} else put_back(key, one, first + take) end
        end
        break
      end
    end
    open = nil
  end
  return pieces, k, gone
end

-- Takes ids off a list, `want` of them if there are as many, each with its chunk's stamp.
local function take_ids(r, lane, want)
  local pieces, k, gone = take_chunks(r, lane, want)
  local ids, stamps, n = {}, {}, 0
  for p = 1, #pieces do
    local one = Line.spelt(pieces[p][1])
    local at, stamp10 = ids_from(one) + 16 * pieces[p][2], sub(one, %CHUNK_STAMP%)
    for i = 1, pieces[p][3] do
      n = n + 1
      ids[n], stamps[n] = sub(one, at + 16 * i - 16, at + 16 * i - 1), stamp10
    end
  end
  return ids, stamps, k, gone
end

-- Takes at most `want` jobs of a lane unseen, at most `bytes` of records: a string of ids, how
-- many, how many bytes at most, and their earliest and latest due; runs of those that are in
-- bundles, if they may be, and whether others are not; whether some may have an ext, and then
-- whether all are as they were sent, and whether some of these may be steps. Nothing if the jobs of
-- a chunk must be read, or if these are more bytes: then, how many are not.
function Line.take_unseen(r, lane, want, bytes, in_bundles)
  local live = r.in_lists[lane] or 0
  if live == 0 or (r.stale[lane] or 0) > 0 then return nil end
  local key = list_of(r, lane)
  local pieces, k = take_chunks(r, lane, min(want, live), in_bundles)
  local size, lo, hi, ids, runs, may_expire, exts, sent, steps, fit = 0, nil, nil, {}, nil, S.now >= M.expiry, false, true, false, 0
  for p = 1, #pieces do
    local one, skip, n = unpack_list(pieces[p])
    local kind, of = unp('>BI3', one, 11)
    size = size + of * n / count_of(one)
    if kind > 0 and size > bytes then fit = fit + max(0, n + floor((bytes - size) * count_of(one) / of)) else fit = fit + n end
    if kind == 0 or size > bytes or may_expire and kind >= %CHUNK_EXT% then -- as they were
      if S.open_chunks then
        Line.let_go()
        Line.hold()
      end
      for back = #pieces, 1, -1 do
        local it = pieces[back]
        put_back(key, it[1], it[2], it[3])
      end
      return nil, kind > 0 and size > bytes and fit or 0
    end
    local first, last
    exts, sent, steps = exts or kind >= %CHUNK_EXT%, sent and (kind < %CHUNK_EXT% or kind >= %CHUNK_SENT%), steps or kind == %CHUNK_STEPS%
    if is_moved(one) then first, last = sub(one, %CHUNK_FIRST_DUE%), sub(one, %CHUNK_LAST_DUE%) else first = sub(one, %CHUNK_TIME%) last = first end
    if not lo or below(first, lo) then lo = first end
    if not hi or below(hi, last) then hi = last end
    if kind == 3 then
      local no, from, _, of_n = run_of(one)
      runs = runs or {}
      runs[#runs + 1] = {no = no, from = from + skip, n = n, of = of_n}
      ids[p] = Bundle.ids(no, from + skip, n)
    else
      local at = ids_from(one) + 16 * skip
      ids[p] = sub(one, at, at + 16 * n - 1)
    end
  end
  r.in_lists[lane] = live - k
  return #ids == 1 and ids[1] or concat(ids), k, size, lo, hi, runs, runs and #runs < #pieces, exts, exts and sent, steps
end

-- Takes at most `want` live jobs off a lane's list: ids, records, the stamp of each, and how many.
function Line.pop(r, lane, want)
  local live = r.in_lists[lane] or 0
  if live == 0 and (r.stale[lane] or 0) == 0 then return {}, {}, {}, 0 end
  want = min(want, live)
  if (r.stale[lane] or 0) == 0 then
    local ids, stamps, k = take_ids(r, lane, want)
    r.in_lists[lane] = live - k
    return ids, Job.raws(ids), stamps, k
  end
  local ids, records, stamps, k, examined = {}, {}, {}, 0, 0
  while k < want and examined < 2000 do
    local fresh, of, m, gone = take_ids(r, lane, want - k)
    if m + gone == 0 then
      live, r.stale[lane] = k, 0
      break
    end
    examined = examined + m + 10 * gone
    local f_ids, f_records, f_stamps, n = sift(r, lane, fresh, Job.raws(fresh), of)
    for i = 1, n do
      k = k + 1
      ids[k], records[k], stamps[k] = f_ids[i], f_records[i], f_stamps[i]
    end
  end
  r.in_lists[lane] = live - k
  if live == k and r.stale[lane] > 0 then forget_list(r, lane) end
  return ids, records, stamps, k
end

-- The due of the first live job of a list. Behind STALE_CHUNKS chunks of stale entries only: no
-- later than it, by what the next chunk says.
local STALE_CHUNKS = 5
function Line.first_due(r, lane)
  for at = 0, STALE_CHUNKS do
    local one = call('LINDEX', list_of(r, lane), at)
    if not one then return nil end
    if at == STALE_CHUNKS then return at8(one, is_moved(one) and 15 or 1) end
    local _, records = Line.live(one)
    if records[1] then return at8(records[1], %REC_DUE_AT%) end
  end
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
    call('LPUSH', key, stamp10 .. '\0\0\0\0' .. concat(one))
    r.in_lists[lane] = (r.in_lists[lane] or 0) + n
  end
end

-- Whether a claim at once could answer something.
function Line.has_work(r, alone)
  if not r or flag(r, %ROW_PAUSED%) or r.flags >= %ROW_LIMITED% and Gate.is_closed(r) then return false end
  for _, n in pairs(r.in_lists) do if n > 0 then return true end end
  for lane, n in pairs(r.in_overflow) do if n > 0 and (lane < 10 or alone) then return true end end
  if r.flags >= %ROW_SHARED% and Share.ready(r, 0, alone and 19 or 9) > 0 then return true end
  if r.flags >= %ROW_NAMED% and Named.has_open(r) then return true end
  return r.head > 0 and r.head <= S.now
end

function Line.has_suspects(r)
  for lane, n in pairs(r.in_overflow) do
    if n > 0 and lane >= 10 then return r.flags < %ROW_LIMITED% or not Gate.is_closed(r) end
  end
  return r.flags >= %ROW_SHARED% and Share.ready(r, 10, 19) > 0 and not Gate.is_closed(r)
end

end
