-- Bundles: plain jobs of one call that were due at once, stored together as they came. As records
-- all their ids have the same reference, 9 | number: enqueued 8 | sub 2 | no 1. `BASE:sd:PART`:
-- number to the payloads: idx of the first 2 | count 2 | largest 2 | where each payload begins and
-- the last one ends, 2 each | bytes that all records share, from the priority on | payloads.
-- `BASE:sh:PART`: number to ids 16 each | hashes 8 each | part of the ids, 255 if they are of
-- several; '~' + number to what changes: count 2 | jobs left 2 | notes, one for jobs that completed
-- together: finished 8 | token 12 | jobs 2 | mask length 2, mask: a '1' for each job it is of; no
-- mask: all. A job leaves when something is written under its own id. The payloads go with the last
-- one that waits or runs, the rest with the last tombstone.
do

local BYTES_MAX, JOBS_MAX = 65535, 100
-- Fewer that complete together have tombstones of their own: a note costs as many bytes as the
-- bundle has jobs.
local NOTED_MIN = 8
--SMALL NOTED_MIN = 3
--TEST local met = {stored = 0, given = 0, noted = 0} function Bundle.met() return {met.stored, met.given, met.noted} end

local function read_notes(s, raw)
  local at = 5
  s.n, s.left = unp('>I2I2', raw)
  while at <= #raw do
    local finished8, token12, jobs, length = unp('>c8c12I2I2', raw, at)
    s.notes[#s.notes + 1] = {finished8 = finished8, token12 = token12, n = jobs, mask = length > 0 and sub(raw, at + 24, at + 23 + length) or nil}
    at = at + 24 + length
  end
end

local key_of = Records.key_of_number

local function head_of(s)
  if not s.head then s.head = call('HGET', key_of(S.k.sh, s.no), s.no) or '' end
  return s.head
end

-- A bundle by its number, read once per call; nil if there is none. `n` is its count, where that is
-- known.
local function of(no, n)
  local s = S.bundles[no]
  if s then return s end
  s = {no = no, notes = {}, at = {}}
  local raw = call('HGET', key_of(S.k.sh, no), '~' .. no)
  if raw then
    read_notes(s, raw)
  else
    s.n = n or floor(#head_of(s) / 24)
    if s.n == 0 then return nil end
    s.left = s.n
  end
  s.had = s.left
  S.bundles[no] = s
  return s
end

local function id_at(s, i) return sub(head_of(s), 16 * i - 15, 16 * i) end
local function hash_at(s, i) return sub(head_of(s), 16 * s.n + 8 * i - 7, 16 * s.n + 8 * i) end

-- The place of an id; most often they are asked for in order.
local function place(s, id)
  local i, head = s.next or 1, head_of(s)
  if i > s.n or sub(head, 16 * i - 15, 16 * i) ~= id then
    local at = 1
    repeat
      at = find(head, id, at, true)
      if not at or at > 16 * s.n then return nil end
      i, at = (at + 15) / 16, at + 1
    until i == floor(i)
  end
  s.next = i + 1
  return i
end

-- The note that a job is of; nil if it has not completed here.
local function note_at(s, i)
  for k = 1, #s.notes do
    local mask = s.notes[k].mask
    if not mask or byte(mask, i) == 49 then return s.notes[k], k end
  end
end

local function changes(s)
  if s.dirty then return end
  s.dirty = true
  S.changed_bundles = S.changed_bundles or {}
  S.changed_bundles[#S.changed_bundles + 1] = s
end

-- A job as a record of its own.
local function record(s, i)
  if not s.shared then
    s.data = s.data or call('HGET', key_of(S.k.sd, s.no), s.no)
    if not s.data then refuse('data_damaged', 'the payloads of jobs are gone; see the server and its durability') end
    s.idx, s.shared = unp('>I2', s.data), sub(s.data, 2 * s.n + 9, (unp('>I2', s.data, 7)))
    s.front = '\%TAG_PLAIN%' .. sub(s.no, %BUNDLE_STAMP%) .. sub(s.no, %INSTANT_BYTES%)
  end
  local from, till = unp('>I2I2', s.data, 2 * i + 5)
  local hash = 16 * s.n + 8 * i
  return s.front .. sub(head_of(s), hash - 7, hash) .. pack('>I2', s.idx + i - 1) .. s.shared .. sub(s.data, from + 1, till)
end

local function tombstone_of(s, i, finished8, token12)
  return '\%TAG_TOMBSTONE%' .. sub(s.no, %INSTANT_BYTES%) .. hash_at(s, i) .. char(COMPLETED) .. finished8 .. '\0\0\0\1' .. token12
end

-- What a reference stands for: the record of a job, or its tombstone; false if there is nothing any
-- more.
function Bundle.read(id, ref)
  local s = of(sub(ref, 2))
  local i = s and place(s, id)
  if not i then return false end
  S.bundle_of[id], s.at[id] = s, i
  local note_ = #s.notes > 0 and note_at(s, i)
  return note_ and tombstone_of(s, i, note_.finished8, note_.token12) or record(s, i)
end

-- The same for those of a list of ids that are references, from the i-th on: what they stand for
-- comes in their place. Most of a bundle stand one after the other.
function Bundle.read_from(ids, raws, first)
  local by_id, ref, s, head, at, shared, start = S.bundle_of, nil, nil, nil, nil, nil, nil
  for i = first, #ids do
    local raw, id = raws[i], ids[i]
    if raw and byte(raw) == %TAG_BUNDLE_REF% then
      local k = raw == ref and s.next
      if k and k <= s.n and sub(head, 16 * k - 15, 16 * k) == id then
        s.next, by_id[id], at[id] = k + 1, s, k
        local from, till = unp('>I2I2', s.data, 2 * k + 5)
        local hash = 16 * s.n + 8 * k
        raws[i] = start .. sub(head, hash - 7, hash) .. pack('>I2', s.idx + k - 1) .. shared .. sub(s.data, from + 1, till)
      else
        raws[i] = Bundle.read(id, raw)
        s = by_id[id]
        ref = s and s.shared and #s.notes == 0 and raw or nil -- others of it have no note either
        if ref then head, at, shared, start = head_of(s), s.at, s.shared, s.front end
      end
    end
  end
end

-- Whether a reference is of a job that has not settled.
function Bundle.is_open(id, ref)
  local s = of(sub(ref, 2))
  local i = s and place(s, id)
  return i and not note_at(s, i)
end

-- Something of its own is written under an id that was read in this call; whether it was in a
-- bundle.
function Bundle.leave(id)
  local s = S.bundle_of[id]
  if not s then return false end
  S.bundle_of[id] = nil
  if #s.notes == 0 then
    s.left = s.left - 1
    changes(s)
    return true
  end
  local i = s.at[id]
  local note_, k = note_at(s, i)
  if note_ then
    local mask = note_.mask or rep('1', s.n)
    note_.mask, note_.n = sub(mask, 1, i - 1) .. '0' .. sub(mask, i + 1), note_.n - 1
    if note_.n == 0 then table.remove(s.notes, k) end
    M.tombstones = max(0, M.tombstones - %TOMB_BYTES%)
  else
    s.left = s.left - 1
  end
  changes(s)
  return true
end

-- Jobs in a row of a bundle, as a string of ids.
function Bundle.ids(no, from, n)
  local s = of(no, nil)
  return s and sub(head_of(s), 16 * from - 15, 16 * (from + n - 1)) or ''
end

-- Takes jobs in a row out of their bundle, as far as they are in it: each gets a record of its own.
-- Whether there is that bundle: it goes with the last of its jobs, which may leave entries in line
-- behind.
function Bundle.take_out(no, from, n, of_n)
  local s, ref, ids, kv = of(no, of_n), '\%TAG_BUNDLE_REF%' .. no, {}, {}
  if #head_of(s) == 0 then return false end
  for k = 1, n do ids[k] = id_at(s, from + k - 1) end
  local raws = Records.get_many(ids)
  for k = 1, n do
    if raws[k] == ref and not note_at(s, from + k - 1) then
      kv[#kv + 1], kv[#kv + 2], S.bundle_of[ids[k]] = ids[k], record(s, from + k - 1), nil
    end
  end
  s.left = s.left - #kv / 2
  changes(s)
  Records.set_many(kv)
  return true
end

-- Runs as a lease keeps them: number 11 | from 2 | n 2 | count of the bundle 2.
function Bundle.pack_runs(runs)
  local out = {}
  --TEST met.given = met.given + #runs
  for k = 1, #runs do
    local run = runs[k]
    out[k] = run.no .. pack('>I2I2I2', run.from, run.n, run.of)
  end
  return concat(out)
end

-- Jobs of a bundle, n in runs of places, completed together.
local function complete(s, runs, n, token)
  local finished8, token12 = u8(S.now), sub(token, %TOKEN_SEAL%)
  changes(s)
  s.left = s.left - n
  if n < NOTED_MIN and n < s.n then
    local kv, ids = {}, {}
    for k = 1, #runs, 2 do
      for i = runs[k], runs[k] + runs[k + 1] - 1 do
        local id = id_at(s, i)
        ids[#ids + 1] = id
        kv[#kv + 1], kv[#kv + 2] = id, tombstone_of(s, i, finished8, token12)
        S.bundle_of[id] = nil
      end
    end
    Records.set_many(kv)
    return Settled.tombstones(S.now, concat(ids), n)
  end
  local mask = n < s.n and Lease.tombstone_runs(rep('0', s.n), runs) or nil
  s.notes[#s.notes + 1] = {finished8 = finished8, token12 = token12, n = n, mask = mask}
  --TEST met.noted = met.noted + 1
  Settled.tombstones(S.now, finished8 .. s.no, n)
end

-- Jobs of a lease of bundles completed: those at runs of places.
function Bundle.complete(p, places)
  local bundles, at, k = p.runs, 1, 1
  for r = 1, #bundles, 17 do
    local no, from, length, of_n = unp('>c11I2I2I2', bundles, r)
    local own, n = {}, 0
    while places[k] and places[k] < at + length do
      local first, last = max(places[k], at), min(places[k] + places[k + 1], at + length)
      own[#own + 1], own[#own + 2] = from + first - at, last - first
      n = n + last - first
      if places[k] + places[k + 1] > last then break end
      k = k + 2
    end
    if n > 0 then complete(of(no, of_n), own, n, p.token) end
    at = at + length
  end
end

-- Forgets tombstones of a note, at most so many: how many, and whether more of it are left.
function Bundle.prune(no, finished8, want)
  local s = of(no)
  for k, note_ in ipairs(s and s.notes or {}) do
    if note_.finished8 == finished8 then
      local ids, mask, i = {}, note_.mask or rep('1', s.n), 0
      if not note_.mask and want >= s.n and #head_of(s) >= 24 * s.n then
        ids = cut_ids(head_of(s), 1, s.n)
      else
        while #ids < want and #ids < note_.n do
          i = find(mask, '1', i + 1, true)
          ids[#ids + 1] = id_at(s, i)
        end
      end
      Records.delete_many(ids, Records.key_of_part(byte(head_of(s), 24 * s.n + 1)))
      note_.n, note_.mask = note_.n - #ids, rep('0', i) .. sub(mask, i + 1)
      if note_.n == 0 then table.remove(s.notes, k) end
      changes(s)
      return #ids, note_.n > 0
    end
  end
  return 0, false
end

-- Writes the bundles that the call has changed; what no job needs any more goes.
function Bundle.flush()
  local lists, by = {}, {}
  for _, s in ipairs(S.changed_bundles) do
    local heads = key_of(S.k.sh, s.no)
    local list = by[heads]
    if not list then
      list = {heads = heads, payloads = key_of(S.k.sd, s.no), kv = {}, gone = {}, emptied = {}}
      by[heads], lists[#lists + 1] = list, list
    end
    local kv, gone, emptied = list.kv, list.gone, list.emptied
    if s.left == 0 and s.had > 0 then emptied[#emptied + 1] = s.no end
    if s.left == 0 and #s.notes == 0 then
      gone[#gone + 1], gone[#gone + 2] = s.no, '~' .. s.no
    else
      local out = {pack('>I2I2', s.n, s.left)}
      for k, note_ in ipairs(s.notes) do
        local mask = note_.mask or ''
        out[k + 1] = note_.finished8 .. note_.token12 .. pack('>I2I2', note_.n, #mask) .. mask
      end
      kv[#kv + 1], kv[#kv + 2] = '~' .. s.no, concat(out)
    end
  end
  S.changed_bundles = nil
  for _, list in ipairs(lists) do
    call_many('HSET', list.heads, list.kv)
    call_many('HDEL', list.heads, list.gone)
    call_many('HDEL', list.payloads, list.emptied)
  end
end

local forms = {} -- ids of so many, by count
local good_offsets, good_count = {}, 0 -- largest, and where payloads begin, that were checked before

-- Whether payloads follow one another from the first to the end, and none is larger than the
-- largest.
local function check_offsets(data, n, idx)
  local given = sub(data, 5, 2 * n + 8)
  if good_offsets[given] then return end
  local largest, before = unp('>I2I2', given)
  for i = 1, n do
    local next_one = unp('>I2', given, 3 + 2 * i)
    if next_one < before or next_one - before > largest then refuse('invalid_input', 'a payload of a bundle is out of place index=' .. idx + i - 1) end
    before = next_one
  end
  if good_count > 500 then good_offsets, good_count = {}, 0 end
  good_offsets[given], good_count = true, good_count + 1
end

-- Reads a bundle as it is sent: its number (which `no` of its call it is), count, ids; before
-- anything is changed.
function Bundle.sent(head, data, no)
  local n = #head / 24
  if n ~= floor(n) or n < 2 or n > JOBS_MAX or #data < 2 * n + 8 or #data > BYTES_MAX then
    refuse('invalid_input', 'a bundle has 2 to 100 jobs and at most 64 KiB')
  end
  local idx, count, largest, first = unp('>I2I2I2I2', data)
  if count ~= n or first < 2 * n + 8 or unp('>I2', data, 2 * n + 7) ~= #data then refuse('invalid_input', 'a bundle is cut short index=' .. idx) end
  check_offsets(data, n, idx)
  if not forms[n] then forms[n] = rep('c16', n) end
  local ids = {unp(forms[n], head)}
  ids[n + 1] = nil
  local key, part = Records.key_of_bytes(head, 1, n)
  return {no = u8(S.now) .. S.sub .. char(no), n = n, ids = ids, key = key, part = part, head = head, data = data, size = n * (21 + first - 2 * n + largest)}, sub(data, 2 * n + 9, first)
end

-- The record that a job of a bundle that was just sent would have.
function Bundle.record(bundle, i) return record(bundle, i) end

local pairs_by_count = {} -- lists of as many ids with their references as the last bundle had

-- Puts references under the ids of a bundle; how many of these there were not.
function Bundle.refer(bundle)
  local ref, n, ids, at = '\%TAG_BUNDLE_REF%' .. bundle.no, bundle.n, bundle.ids, 0
  local kv = pairs_by_count[n] or {}
  pairs_by_count[n] = kv
  for i = 1, n do
    kv[at + 1], kv[at + 2] = ids[i], ref
    at = at + 2
  end
  return Records.add_many(kv, bundle.key)
end

-- Stores what the references lead to; all are of one instant.
function Bundle.store(bundles)
  local heads, payloads = {}, {}
  --TEST met.stored = met.stored + #bundles
  for k = 1, #bundles do
    local bundle = bundles[k]
    heads[2 * k - 1], heads[2 * k] = bundle.no, bundle.head .. char(bundle.part)
    payloads[2 * k - 1], payloads[2 * k] = bundle.no, bundle.data
  end
  call_many('HSET', key_of(S.k.sh, heads[1]), heads)
  call_many('HSET', key_of(S.k.sd, heads[1]), payloads)
end

end
