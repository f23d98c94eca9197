-- The last jobs of a queue that ended: `BASE:z:QUEUE`, entries one after the other, the newest
-- last. An entry is at 8 | state 1 | count 1 | klen 1, kind (empty if it is the queue's name) | ids
-- 16 each. A call appends once per queue.
do

local KEPT = 100
-- Over this the older entries go: room for some hundred more of the same kind, so that few calls
-- cut.
local BYTES_MAX = 8192

-- Notes n jobs of a queue that ended alike, ids in a string; they are written with the commit.
function Ends.add(r, state, kind, ids, n)
  local all = r.ended
  if not all then
    r.ended = {n = n, {state, kind, ids, n}}
    return
  end
  all.n = all.n + n
  local last = all[#all]
  if last[1] == state and last[2] == kind and last[4] < KEPT then
    last[3], last[4] = last[3] .. ids, last[4] + n
  else
    all[#all + 1] = {state, kind, ids, n}
  end
end

-- The kind as an entry has it, of a record.
local function kind_of(raw)
  local at = byte(raw) > %TAG_PLAIN% and 36 + unp('>I4', raw, %REC_BODY%) or 32
  local ql = byte(raw, at)
  local kl = byte(raw, at + ql + 1)
  local kind = sub(raw, at + ql + 2, at + ql + 1 + kl)
  return kind ~= sub(raw, at + 1, at + ql) and kind or ''
end

-- The kinds of the last hundred jobs of a lease at most, by their records: count and kind by turns.
-- `records`, if they have been read.
function Ends.kinds(ids, n, records)
  local runs, from, raws = {}, max(0, n - KEPT), {}
  if records then
    raws = slice(records, from + 1, n)
  else
    local ok, read = attempt(Job.raws, cut_ids(ids, 16 * from + 1, n - from))
    raws = ok and read or {}
  end
  for i = 1, n - from do
    local raw, last = raws[i], #runs
    local kind = raw and byte(raw) < %TAG_TOMBSTONE% and kind_of(raw) or ''
    if last > 0 and runs[last] == kind then
      runs[last - 1] = runs[last - 1] + 1
    else
      runs[last + 1], runs[last + 2] = 1, kind
    end
  end
  return runs
end

-- Of runs of the kinds of n jobs, count and kind by turns, those of the last hundred.
function Ends.last_runs(runs, n)
  local over, first = n - KEPT, 1
  if over <= 0 then return runs end
  while runs[first] <= over do over, first = over - runs[first], first + 2 end
  local out = slice(runs, first, #runs)
  out[1] = out[1] - over
  return out
end

-- Reads kinds as a settle has them: runs 1 | per run count 2, klen 1, kind; no run if all are of
-- the queue's name. Answers them and where they end; nothing if they are not of n jobs.
function Ends.read_kinds(blob, at, n)
  local runs, left, count = {}, min(n, KEPT), byte(blob, at)
  if not count then return nil end
  at = at + 1
  if count == 0 then return runs, at end
  for k = 1, 2 * count, 2 do
    if at + 2 > #blob then return nil end
    local m, length = unp('>I2B', blob, at)
    if length > 0 then Check.name('kind', sub(blob, at + 3, at + 2 + length)) end
    runs[k], runs[k + 1] = m, sub(blob, at + 3, at + 2 + length)
    at, left = at + 3 + length, left - m
  end
  if left ~= 0 or at > #blob + 1 then return nil end
  return runs, at
end

-- Notes n jobs that ended alike, most often completed, ids in a string, and their kinds.
function Ends.completed(r, ids, n, runs, state)
  local from = max(0, n - KEPT)
  state = state or COMPLETED
  if #runs == 0 then return Ends.add(r, state, '', from > 0 and sub(ids, 16 * from + 1) or ids, n - from) end
  local at = 16 * from
  for k = 1, #runs, 2 do
    local m, kind = runs[k], runs[k + 1]
    Ends.add(r, state, kind ~= r.name and kind or '', sub(ids, at + 1, at + 16 * m), m)
    at = at + 16 * m
  end
end

-- The last entries that have a hundred ends, the first of these cut.
local function cut(bytes)
  local starts, counts, at, total = {}, {}, 1, 0
  while at <= #bytes do
    local n, kl = unp('>BB', bytes, at + 9)
    starts[#starts + 1], counts[#counts + 1] = at, n
    total, at = total + n, at + 11 + kl + 16 * n
  end
  local over, k = total - KEPT, 1
  if over <= 0 then return bytes end
  while counts[k] <= over do
    over, k = over - counts[k], k + 1
  end
  local start, n = starts[k], counts[k]
  if over == 0 then return sub(bytes, start) end
  local ids = start + 11 + byte(bytes, start + 10)
  return sub(bytes, start, start + 8) .. char(n - over) .. sub(bytes, start + 10, ids - 1) .. sub(bytes, ids + 16 * over)
end

-- Appends entries, and cuts the older ones off if they are too long together; a kind has at most so
-- many bytes.
local function append(key, entries, longest)
  if call('APPEND', key, entries) > BYTES_MAX + 2 * KEPT * longest and allows('GET', key) and allows('DEL', key) then
    local kept = cut(call('GET', key))
    call('DEL', key)
    call('APPEND', key, kept)
  end
end

-- Writes what has ended of a queue in this call.
function Ends.write(r)
  local all, key, now8, out = r.ended, S.base .. ':z:' .. r.name, u8(S.now), {}
  local over, longest = all.n - KEPT, 0
  r.ended = nil
  for i = 1, #all do
    local one = all[i]
    local gone = max(0, min(over, one[4]))
    local n = one[4] - gone
    over = over - gone
    if n > 0 then
      out[#out + 1] = now8 .. char(one[1], n, #one[2]) .. one[2] .. (gone > 0 and sub(one[3], 16 * gone + 1) or one[3])
      longest = max(longest, #one[2])
    end
  end
  out = concat(out)
  if all.n >= KEPT then call('DEL', key) end
  append(key, out, longest)
end

-- Writes one job that has ended, as an entry.
function Ends.append(r, entry)
  local key = r.ends_key
  if not key then
    key = S.base .. ':z:' .. r.name
    r.ends_key = key
  end
  append(key, entry, #entry)
end

-- The last ends of a queue as they are stored.
function Ends.of(r)
  local bytes = call('GET', S.base .. ':z:' .. r.name)
  return bytes and cut(bytes) or ''
end

end
