-- One job by itself, plain or with a key, an expiry or a retention: an enqueue, a claim or a settle
-- of one, by the shard and the row that the last call left. It does what the usual way does, in
-- fewer steps; where anything is out of the ordinary it changes nothing and answers nil, and the
-- call goes the usual way.
do

-- Flags and count of a lease of one job, and the first byte of the length of its queue.
local PLAIN, EXAMINED = '\2\0\1\0', '\0\0\1\0'
local SIZES = 1000 -- sizes of records that are kept as bytes
local WIDEST = 16777215 -- bytes of a record that a chunk can say
local UNSEEN_BYTES = 4096 -- as of a usual claim
-- A claim that meets a chunk of jobs to look at leaves so many more to the usual way.
local SKIPS = 16

local key_of = Records.key
local sizes, size_count = {}, 0

-- A size as 4 bytes.
local function size4(size)
  local bytes = sizes[size]
  if not bytes then
    if size_count > SIZES then sizes, size_count = {}, 0 end
    bytes = pack('>I4', size)
    sizes[size], size_count = bytes, size_count + 1
  end
  return bytes
end

-- What this process knows of a queue: its row, which may be older than the one that is stored.
local function known(base, q)
  local m = kept_shards[base]
  return m and m.rows[q]
end

-- Opens a shard for a call about one queue, if it is as this process knows it, nothing is due in
-- it, its clock runs, and no client follows its changes: the shard, the row, and engine time.
local function open(base, blob, q)
  local m = kept_shards[base]
  local r = m and m.rows[q]
  if not r or m.behind > 0 or r.flags % %ROW_DEAD_LETTERS% > %ROW_IDLE% or r.flags >= %ROW_LIMITED% or call('HGET', m.k.s, 'm') ~= m.raw then return nil end
  local instance = sub(blob, %CALL_INSTANCE%)
  if instance ~= m.instance and instance ~= BELOW then return nil end
  local now, head, next_ = clock(base), r.head, m.next
  if not next_ then
    next_ = next_sweep(m)
    m.next = next_
  end
  local gap = now - m.last
  if gap <= 0 or now >= next_ or m.feed >= now or now - r.minute >= MINUTE or now < r.minute or head > 0 and head <= now then return nil end
  if gap >= 1000 and m.lease_duration > 0 and gap * 2 > m.lease_duration then return nil end
  local s = r.alone
  if not s then
    s = {base = base, k = m.k, now = 0, sub = '\0\0', spread = 0, wakeup = base .. ':d:' .. q, ends = base .. ':eo:' .. q}
    r.alone = s
  end
  M, S, s.now, s.limits = m, s, now, limits_of(m)
  WINDOW = s.limits.settled_window
  return m, r, now
end

-- From the first write on: if it breaks off, what is known of the shard is as it was stored.
local function begin(base) kept_shards[base] = nil end

-- Writes the shard, its row and a worker, which are known for the next call.
local function close(base, m, r, now, now8, row, worker, w)
  m.last, m.sub = now, 0
  local raw
  if not m.rest then
    raw = write_shard(m)
    m.tail_of = nil
  else
    if m.tail_of ~= m.tombstones then m.tail_of, m.tail = m.tombstones, u8(m.tombstones) .. m.instance end
    raw = now8 .. '\0\0' .. (m.fence == now and now8 or u8(m.fence)) .. m.tail .. m.rest
  end
  if w then
    call('HSET', m.k.s, 'm', raw, r.field, row, 'w' .. worker, w.seen8 .. w.limit2 .. size4(w.held) .. w.record)
  else
    call('HSET', m.k.s, 'm', raw, r.field, row)
  end
  r.raw, m.raw, kept_shards[base] = row, raw, m
end

-- Stores a job that is due later: its row.
local function wait_for(m, r, now, id, record, due, manner)
  Records.add(m.k, now, id, record)
  r.minute_counts[1] = r.minute_counts[1] + 1
  Due.add_many(r, {due}, {id}, {record}, nil, {manner})
  if S.spread > 0 then S.spread = 0 end
  if S.lost then
    S.lost = nil
    Heal.note()
  end
  return close_row(r, now)
end

-- Stores a job that is due now at the end of its list: its row. `manner` is the kind of its chunk.
local function line_up(m, r, now, now8, prio, id, record, manner)
  local c = r.counts
  call('RPUSH', Line.list_of(r, prio), now8 .. '\0\0' .. manner .. sub(size4(#record), 2) .. id)
  Records.add(m.k, now, id, record)
  r.in_lists[prio], c[READY], r.minute_counts[1] = (r.in_lists[prio] or 0) + 1, c[READY] + 1, r.minute_counts[1] + 1
  if %r.flags has ROW_IDLE% then
    call('ZADD', S.wakeup, 0, '1')
    r.flags, r.short = r.flags - 1, now
  end
  return write_row(r, now)
end

local function may_store(s) return allows('HSET', s) and allows('ZADD', s) and allows('RPUSH', s) and allows('HDEL', s) end

-- An enqueue of one job of which the functions look into the opts: a free key, an expiry or a
-- retention.
local function enqueue_examined(base, blob)
  local size, kind, prio, sflags, ql = #blob, byte(blob, %FIRST_DUE_KIND%), byte(blob, %FIRST_PRIORITY%, %FIRST_QUEUE_AT%)
  local kl = ql and byte(blob, %FIRST_NAME_AT% + ql)
  local from = 55 + (ql or 0) + (kl or size)
  if from > size or sflags > %SPEC_FLAGS_MAX% or sflags % 4 ~= 3 or prio > %PRIORITY_MAX% or kind > %DUE_AT% or size >= WIDEST or sub(blob, %FIRST_LENGTH%) ~= size4(size - 15) then return nil end
  local q, id = sub(blob, %FIRST_NAME_AT%, %FIRST_QUEUE_AT% + ql), sub(blob, %FIRST_ID%)
  local m, r, now = open(base, blob, q)
  if not m or r.flags >= %ROW_BOUNDED% then return nil end
  if kl > 0 then Check.name('kind', sub(blob, from - kl, from - 1)) end
  local _, o, key, ex, group, flow, share = Check.opts(blob, from, size, true, 0)
  local at, field, k = ex and at8(ex), key and q .. '\0' .. key, m.k
  if group or share or o.li or o.w or o.uh or flow or at and at <= now or not Enqueue.goes_along(o) then return nil end
  if call('HGET', key_of(k.b, id), id) or field and call('HGET', k.u, field) or not may_store(k.s) then return nil end
  local now8 = u8(now)
  local due8, late, due = Enqueue.due_of(kind, sub(blob, %FIRST_DUE%), now8, 0)
  if late or kind > 0 and due <= now then return nil end
  local record = '\%TAG_WAITING%' .. now8 .. '\0\0' .. due8 .. sub(blob, %FIRST_TAIL%) .. '%REC_NO_EXT%' .. sub(blob, %FIRST_QUEUE_AT%)
  begin(base)
  if field then Records.set_short(k, k.u, now, {field, id}) end
  if at then
    call('ZADD', k.xp, fmt('%d', at), id)
    schedule('expiry', at)
  end
  local row
  if kind > 0 then row = wait_for(m, r, now, id, record, due, Due.manner(o)) else row = line_up(m, r, now, now8, prio, id, record, char(Line.kind_of(o))) end
  close(base, m, r, now, now8, row)
  return now8 .. m.instance .. '\0'
end

-- An enqueue of one job: its answer. Due at once it is pushed to its list, else it waits for its
-- due.
function Lone.enqueue(base, blob)
  local flags, high, low, kind = byte(blob, %ENQUEUE_FLAGS_AT%, %ENQUEUE_JOBS_AT%)
  if low ~= 1 or high > 0 then return nil end
  if flags == 0 then return enqueue_examined(base, blob) end
  if flags ~= %ENQUEUE_UNIFORM% or kind > %DUE_AT% then return nil end
  local size, prio, ql = #blob, byte(blob, %ENQUEUE_PRIORITY_AT%, %ENQUEUE_QUEUE_AT%)
  local at = 27 + (ql or size) -- of the id
  if at + 31 > size then return nil end
  local q, id = sub(blob, %ENQUEUE_NAME_AT%, at - 5), sub(blob, at, at + 15)
  local prio_, sflags, ql_ = byte(blob, at + 26, at + 28)
  local kl = byte(blob, at + 29 + ql)
  local from = at + 30 + ql + (kl or size)
  if size - at >= WIDEST or sub(blob, at - 4, at - 1) ~= size4(size + 1 - at) or prio_ ~= prio or prio > %PRIORITY_MAX% or sflags > %SPEC_FLAGS_MAX% or %sflags has SPEC_EXAMINED% or from > size + 1 or sub(blob, at + 29, at + 28 + ql_) ~= q then return nil end
  local m, r, now = open(base, blob, q)
  if not m or r.flags >= %ROW_BOUNDED% then return nil end
  if kl > 0 then Check.name('kind', sub(blob, from - kl, from - 1)) end
  if %sflags has SPEC_OPTS% then Check.opts(blob, from, size, false, 0) end
  local k = m.k
  if call('HGET', key_of(k.b, id), id) then return nil end
  local now8, row = u8(now), nil
  if kind > 0 then
    local due8, late, due = Enqueue.due_of(kind, sub(blob, %ENQUEUE_DUE%), now8, 0)
    if late or due <= now or not may_store(k.s) then return nil end
    begin(base)
    row = wait_for(m, r, now, id, '\%TAG_PLAIN%' .. now8 .. '\0\0' .. due8 .. sub(blob, at + 16), due)
  else
    if not allows('HSET', k.s) or %r.flags has ROW_IDLE% and not allows('ZADD', k.s) then return nil end
    begin(base)
    row = line_up(m, r, now, now8, prio, id, '\%TAG_PLAIN%' .. now8 .. '\0\0' .. now8 .. sub(blob, at + 16), '\%CHUNK_IDS%')
  end
  close(base, m, r, now, now8, row)
  return now8 .. m.instance .. '\0'
end

-- The only priority level that has ready jobs, and how many; nil if another one has some too, or a
-- job needs a look.
local function only_lane(r)
  local X, L = r.in_overflow, r.in_lists
  local one, n = next_of(X)
  while one do
    if n > 0 then return nil end
    one, n = next_of(X, one)
  end
  local lane, live
  one, n = next_of(L)
  while one do
    if n > 0 then
      if lane then return nil end
      lane, live = one, n
    end
    one, n = next_of(L, one)
  end
  if lane and (r.stale[lane] or 0) == 0 then return lane, live end
end

-- When the claimer is to come again, whether another worker does, and what wakeup its queue needs.
-- `is_shared`: more than its own lease and the next due may matter.
local function wake_of(r, now, deadline, is_shared, worker, is_full, flags)
  local wake, another = deadline, false
  if is_shared then
    wake = Leader.wake_at({r})
  elseif r.head > 0 and r.head < wake then
    wake = r.head
  end
  if is_full then
    Leader.resign(worker, {r}, wake)
  elseif %flags has CLAIM_RETURNS% then
    another = Leader.elect({worker = worker, woken = %flags has CLAIM_WOKEN%, stays = true}, {r}, wake)
  end
  if r.flags % %ROW_PAUSED% == 0 then r.flags = r.flags + %ROW_IDLE% end
  r.short = now
  return wake, another
end

local heads, head_count = {}, 0

-- What a claim says before its queue: a list of its lease duration, limit, bytes and flags; false
-- if it goes the usual way.
local function head_of(bytes)
  local head = heads[bytes]
  if head == nil then
    local lease_duration, limit, max_bytes, flags, count = unp('>I8I2I4BB', bytes)
    head = count == 1 and flags % %CLAIM_WOKEN% == 0 and %flags has CLAIM_READS% and not (%flags has CLAIM_SUSPECTS%) and limit > 0 and limit <= %BATCH_ITEMS_MAX% and lease_duration >= 1000
      and lease_duration <= %LEASE_MAX_MS%e3 and {lease_duration, limit, max_bytes, flags, sub(bytes, %HEAD_DURATION%), sub(bytes, %HEAD_LIMIT%)}
    if head_count > SIZES then heads, head_count = {}, 0 end
    heads[bytes], head_count = head, head_count + 1
  end
  return head
end

-- A claim that is to have one job, which needs no look: its answer.
function Lone.claim(base, blob)
  local size = #blob
  local head, ql = size > %CLAIM_NAME_AT% and head_of(sub(blob, %CLAIM_HEAD%)), byte(blob, %CLAIM_QUEUE_AT%)
  if not head or size - ql > 1000 then return nil end
  local lease_duration, limit, max_bytes, flags, at = head[1], head[2], head[3], head[4], %CLAIM_NAME_AT% + ql
  local q = sub(blob, %CLAIM_NAME_AT%, at - 1)
  local r, m, now = known(base, q), nil, nil
  local lane, live
  if r then lane, live = only_lane(r) end
  if not lane or limit > 1 and live > 1 then return nil end
  if r.skips and r.skips > 0 then
    r.skips = r.skips - 1
    return nil
  end
  m, r, now = open(base, blob, q)
  if not m then return nil end
  local k, worker, nonce = m.k, sub(blob, %CLAIM_WORKER%), sub(blob, %CLAIM_NONCE%)
  local known_as, s, pg, w = 'n' .. worker .. nonce, k.s, k.pg, m.workers and m.workers[worker]
  if not w or call('HGET', pg, known_as) or not (allows('HSET', s) and allows('ZADD', s) and allows('LPUSH', s)) then return nil end
  local list = Line.list_of(r, lane)
  local chunk = call('LPOP', list)
  if not chunk then return nil end
  local of, b1, b2, b3 = byte(chunk, %CHUNK_KIND%, 14)
  local moved, exts = of == %CHUNK_MOVED% or of == %CHUNK_EXT_MOVED% or of == %CHUNK_SENT_MOVED%, of >= %CHUNK_EXT%
  local from = moved and %CHUNK_MOVED_FROM% or %CHUNK_FROM%
  local id, ids = sub(chunk, from, from + 15), (#chunk - from + 1) / 16
  local bytes = (b1 * 65536 + b2 * 256 + b3) / ids
  local fits = of > 0 and of ~= %CHUNK_BUNDLE% and bytes <= max_bytes
  local unseen = fits and bytes > UNSEEN_BYTES and (not exts or flags >= %CLAIM_READS_EXT%)
  local record = fits and not unseen and call('HGET', key_of(k.b, id), id)
  local tag = record and byte(record)
  if not unseen and tag ~= %TAG_PLAIN% and not (exts and tag == %TAG_WAITING%) then
    call('LPUSH', list, chunk)
    r.skips = SKIPS
    return nil
  end
  begin(base)
  if ids > 1 then Line.put_back(list, chunk, 1) end
  local now8, deadline, c, h = u8(now), now + lease_duration, r.counts, r.minute_counts
  local was_active, deadline8, fence = c[ACTIVE] > 0, u8(deadline), now
  if m.fence >= now then fence = m.fence + 1 end
  m.fence = fence
  local token = (fence == now and now8 or u8(fence)) .. nonce
  local first8 = sub(chunk, %CHUNK_TIME%)
  local range = moved and sub(chunk, %CHUNK_DUES%) or first8 .. first8
  call('HSET', pg, token, worker .. now8 .. head[5] .. range .. (exts and EXAMINED or PLAIN) .. sub(blob, %CLAIM_QUEUE_AT%, at - 1) .. id, known_as, token, 'j' .. id, token)
  call('ZADD', S.ends, fmt('%d', deadline), token)
  if r.first_end == 0 or deadline < r.first_end then Lease.schedule(r, deadline) end
  if deadline < m.ends then m.ends, m.rest = deadline, nil end
  if m.lease_duration == 0 or lease_duration < m.lease_duration then m.lease_duration, m.rest = lease_duration, nil end
  r.in_lists[lane], c[READY], c[ACTIVE], h[2] = live - 1, c[READY] - 1, c[ACTIVE] + 1, h[2] + 1
  local wake8, another, wake = now8, false, nil
  if live > 1 then
    if r.leader == worker then r.leader_wake = 0 end
    r.notify = 2
  else
    wake, another = wake_of(r, now, deadline, was_active or m.expiry < NEVER or m.period < NEVER, worker, limit == 1, flags)
    wake8 = wake == deadline and deadline8 or u8(wake)
  end
  local row = r.notify and close_row(r, now) or write_row(r, now)
  w.seen8, w.limit2, w.held, w.record = now8, head[6], w.held + 1, sub(blob, at)
  close(base, m, r, now, now8, row, worker, w)
  flags = (unseen and %CLAIMED_UNSEEN% or 0) + (another and %CLAIMED_ANOTHER% or 0)
  if unseen then return now8 .. wake8 .. char(flags, 1) .. token .. deadline8 .. now8 .. '\0\1' .. id end
  return now8 .. wake8 .. char(flags, 1) .. token .. deadline8 .. now8 .. '\0\1' .. id .. size4(#record) .. record
end

-- What settles a job that was claimed by itself and not known to be plain, where its attempt was
-- the first and nothing is kept of it: its due and hash, the field of its unique key, and whether
-- it could expire; nothing if it goes the usual way.
local function ends_of(k, q, id)
  local raw = call('HGET', key_of(k.b, id), id)
  local tag = raw and byte(raw)
  if tag == %TAG_PLAIN% then return sub(raw, %REC_CORE%) end
  if tag ~= %TAG_WAITING% or sub(raw, %REC_BODY%, %REC_EXT%) ~= '%REC_NO_EXT%' then return nil end
  local _, o, key, ex, group, of, _, _, flow, share = Job.parts(raw)
  if group or share or o.li or o.rn or o.rm or flow or of ~= q then return nil end
  local field = key and q .. '\0' .. key
  if field and call('HGET', k.u, field) ~= id then return nil end
  return sub(raw, %REC_CORE%), field, ex
end

-- Form 5, of a first attempt, for one job.
local ALONE_COMPLETED = '\%FORM_CORES_KINDS%\0\0\0\1\0\1'

-- A settle of one job that was claimed alone and completed: its answer; else nil, and the lease if
-- it was read.
function Lone.settle(base, blob)
  local m, size = kept_shards[base], #blob
  if not m or size < 70 or size > 500 then return nil end
  local late, token = byte(blob, %LEASES_LATE_AT% + 1), sub(blob, %LEASES_TOKEN%)
  local times = %LEASES_LATE_AT% + 2 + 6 * late
  local run = byte(blob, times + 1)
  if not run or sub(blob, %LEASES_COUNT%) ~= '\0\1' or sub(blob, %LEASES_LATE_AT%, %LEASES_LATE_AT%) ~= '\0' or sub(blob, times, times) ~= '\0' then return nil end
  local at = times + 2 + 6 * run
  if at + 39 > size or sub(blob, at, at + 6) ~= ALONE_COMPLETED then return nil end
  local id, kinds, kl, kind = sub(blob, at + 7, at + 22), byte(blob, at + 39), 0, ''
  if kinds == 1 then
    local high, low, length = byte(blob, at + 40, at + 42)
    if low ~= 1 or high > 0 or not length then return nil end
    kl = length + 3
    kind = sub(blob, at + 43)
    if length > 0 then Check.name('kind', kind) end
  end
  if kinds > 1 or size ~= at + 39 + kl then return nil end
  local k = m.k
  local pg, s = k.pg, k.s
  local lease = call('HGET', pg, token)
  local ql = lease and byte(lease, %LEASE_HEAD_BYTES%)
  local head = lease and sub(lease, %LEASE_FLAGS_COUNT%)
  if not lease or head ~= PLAIN and head ~= EXAMINED or sub(lease, %LEASE_NAME_AT% + ql) ~= id or call('HGET', pg, '~' .. token) then return nil, lease end
  local q = sub(lease, %LEASE_NAME_AT%, %LEASE_HEAD_BYTES% + ql)
  local m_, r, now = open(base, blob, q)
  if not m_ or m.watch >= now or m.tombstones + %TOMB_BYTES% > S.limits.tombstone_bytes then return nil, lease end
  if kind == q then kind = '' end
  local worker = sub(lease, %LEASE_WORKER%)
  local w = m.workers and m.workers[worker]
  if not w or w.held == 0 then return nil, lease end
  local timed, core, field, ex = late + run > 0, nil, nil, nil
  if head == PLAIN then core = sub(blob, at + 23, at + 38) else core, field, ex = ends_of(k, q, id) end
  if not core then return nil, lease end
  if not (allows('RPUSH', s) and allows('HDEL', s) and allows('ZREM', s) and allows('APPEND', s)) then return nil, lease end
  begin(base)
  local now8, c, h = u8(now), r.counts, r.minute_counts
  if field then call('HDEL', k.u, field) end
  if ex then call('ZREM', k.xp, id) end
  call('HSET', key_of(k.b, id), id, '\%TAG_TOMBSTONE%' .. core .. '\%TAG_COMPLETED%' .. now8 .. '\0\0\0\1' .. sub(token, %TOKEN_SEAL%))
  call('RPUSH', k.mp, now8 .. id)
  call('HDEL', pg, token, 'n' .. worker .. sub(token, %TOKEN_NONCE_AT%), 'j' .. id)
  call('ZREM', S.ends, token)
  Ends.append(r, now8 .. char(COMPLETED, 1, #kind) .. kind .. id)
  m.tombstones = m.tombstones + %TOMB_BYTES%
  if now + WINDOW + 1e6 < m.tombstone then m.tombstone, m.rest = now + WINDOW + 1e6, nil end
  c[ACTIVE], h[3] = c[ACTIVE] - 1, h[3] + 1
  if timed then Stats.gather(q, blob, %LEASES_LATE_AT%, times) end
  w.held = w.held - 1
  close(base, m, r, now, now8, write_row(r, now), worker, w)
  return now8 .. '\0'
end

end
