-- Workers that claim. `BASE:s`, field `w` + worker: when it claimed last 8 | jobs that it claimed
-- at most then 2 | jobs that it holds 4 | what it says of itself; `a` + worker: tokens of its
-- leases, of one that may be given suspects. `BASE:wk`: workers that have either, by when they were
-- last looked at.
do

local KEPT, KEPT_BYTES = 200, 1024 -- workers of a shard that this process remembers, and bytes of each

-- A worker as it was written last, by its bytes; nil if it is not known.
local function read(raw)
  return raw and {seen8 = sub(raw, %INSTANT_BYTES%), limit2 = sub(raw, %WORKER_LIMIT%), held = unp('>I4', raw, 11), record = sub(raw, %WORKER_RECORD_AT%)} or nil
end

function Workers.bytes(w) return w.seen8 .. w.limit2 .. pack('>I4', w.held) .. w.record end

local function find_worker(id) return M.workers and M.workers[id] or read(call('HGET', S.k.s, 'w' .. id)) end

local function noted(id)
  local notes = S.workers_noted or {}
  local note_ = notes[id]
  if not note_ then
    note_ = {held = 0}
    notes[id], S.workers_noted = note_, notes
  end
  return note_
end

-- A worker has claimed; it is written with the commit. An empty map is no worker's.
function Workers.seen(id, limit, record)
  if record == '\128' then return end
  local note_ = noted(id)
  note_.limit2, note_.record = pack('>I2', limit), record
end

-- A worker holds so many jobs more, or less.
function Workers.holds(id, n)
  local note_ = noted(id)
  note_.held = note_.held + n
end

-- Remembers a worker for the next call.
local function keep(id, w)
  local kept = M.workers
  if not kept or M.workers_kept > KEPT then
    kept = {}
    M.workers, M.workers_kept = kept, 0
  end
  if #w.record > KEPT_BYTES then w = nil end
  if w and not kept[id] then M.workers_kept = M.workers_kept + 1 end
  kept[id] = w
end

-- Adds the workers that the call has noted to the fields that it writes; whether one claims for the
-- first time.
function Workers.flush(kv)
  local notes, is_new, now8 = S.workers_noted, false, nil
  S.workers_noted = nil
  for id, note_ in pairs(notes) do
    local w = find_worker(id)
    if note_.record then
      if not w then
        call('ZADD', S.k.wk, fmt('%d', S.now), id)
        is_new, w = true, {held = 0}
      end
      now8 = now8 or u8(S.now)
      w.seen8, w.limit2, w.record = now8, note_.limit2, note_.record
    end
    if w then -- one that was forgotten holds no job
      w.held = max(0, w.held + note_.held)
      kv[#kv + 1], kv[#kv + 2] = 'w' .. id, Workers.bytes(w)
      keep(id, w)
    end
  end
  return is_new
end

-- Workers that claimed in the last minute, in the order of their ids.
function Workers.all()
  if S.workers then return S.workers end
  local ids, out, fields = call('ZRANGE', S.k.wk, 0, -1), {}, {}
  table.sort(ids, below)
  for i = 1, #ids do fields[i] = 'w' .. ids[i] end
  local raws = get_many(S.k.s, fields)
  for i = 1, #ids do
    local w = read(raws[i])
    local seen = w and at8(w.seen8)
    if w and seen + MINUTE >= S.now then
      local record, bytes = Check.worker(w.record), w.record
      if not record or (record.s or 0) == 0 then
        record = record or {}
        record.s = unp('>I2', w.limit2) -- who names no slots has as many as it claimed
        bytes = mp.pack(record)
      end
      out[#out + 1] = {id = ids[i], seen = seen, held = w.held, raw = bytes, record = record}
    end
  end
  S.workers = out
  return out
end

-- Whether one of these leases has not ended.
local function holds_any(tokens)
  for at = 1, #tokens, 16 do
    if Lease.load(sub(tokens, at, at + 15)) then return true end
  end
end

-- Workers that one call examines.
local EXAMINED_MAX = 500

-- Forgets workers that hold nothing and are no longer listed, if that was last done so
-- long ago: who claims under another id each time is many. Whether it looked.
function Workers.forget(span)
  local last = call('HGET', S.k.s, 'f')
  if last and at8(last) + span > S.now then return false end
  local ids = call('ZRANGEBYSCORE', S.k.wk, '-inf', fmt('%d', S.now - MINUTE), 'LIMIT', 0, EXAMINED_MAX)
  if #ids < EXAMINED_MAX then call('HSET', S.k.s, 'f', u8(S.now)) end
  local fields, gone, out, stay = {}, {}, {}, {}
  for i = 1, #ids do fields[2 * i - 1], fields[2 * i] = 'w' .. ids[i], 'a' .. ids[i] end
  local raws = get_many(S.k.s, fields)
  for i = 1, #ids do
    local w, tokens = read(raws[2 * i - 1]), raws[2 * i]
    local seen = w and at8(w.seen8)
    local keeps = w and (seen + MINUTE >= S.now or w.held > 0)
    local has = tokens and holds_any(tokens)
    if w and not keeps then gone[#gone + 1] = fields[2 * i - 1] end
    if tokens and not has then gone[#gone + 1] = fields[2 * i] end
    if keeps or has then
      stay[#stay + 1], stay[#stay + 2] = fmt('%d', S.now), ids[i]
    else
      out[#out + 1] = ids[i]
    end
  end
  call_many('HDEL', S.k.s, gone)
  call_many('ZADD', S.k.wk, stay)
  call_many('ZREM', S.k.wk, out)
  M.workers = nil
  return true
end

end
