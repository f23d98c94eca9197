-- The open shard: engine time, counts, rows of its queues. A call opens it, changes it and commits
-- it with one HSET: key `BASE:s`, fields `m`, `q`..queue. `BASE:qs`: queues by name.

-- What other files use of this one.
local S, M, kept_shards, LIMITS, KEYS, clock, write_shard, NEVER, next_sweep, limits_of,
  ROW_BYTES, new_row, read_row, write_row, flag, set_flag, ENQUEUES, LEASES, CLAIMS, SETTLES,
  may, others, read_rows, schedule, notify, close_row, keep, note
do

local NOTHING_OPEN = {}
S = NOTHING_OPEN -- the shard of this call
-- M is its `m`: numbers by name.
-- Parsed shards by base, trusted only while the bytes are the same, and how many. Every write
-- changes them: the parsed rows of a shard (`rows`, all of them counted) are trusted as long.
kept_shards = {}
local kept_shard_count, kept_count = 0, 0

LIMITS = {sweep = %LIMIT_SWEEP%, tombstone_bytes = %LIMIT_TOMBSTONE_BYTES%, retained = %LIMIT_RETAINED%, retained_bytes = %LIMIT_RETAINED_BYTES%,
  namespace_retained_bytes = %LIMIT_NAMESPACE_RETAINED_BYTES%, feed = %LIMIT_FEED%, schedules = %LIMIT_SCHEDULES%, early_clears = %LIMIT_EARLY_CLEARS%,
  settled_window = %LIMIT_SETTLED_WINDOW%, cancelled_retention = %LIMIT_CANCELLED_RETENTION%, dead_retention = %LIMIT_DEAD_RETENTION%} -- spans in us
-- `m` is written by every call: what changes often first, then the rest as it was read if nothing
-- of it changed (M.rest), then limits.
local OFTEN, SELDOM = '>I8I2I8I8c8', '>I8I8I8I8I8I8I8I8I8I8I8I4I8B'
local OFTEN_BYTES, SHARD_BYTES = 34, 135

-- The keys of a shard by their short names, made once.
local kept_keys, kept_key_count = {}, 0
KEYS = {%SHARD_KEYS%}

local function keys_of(base)
  local k = kept_keys[base]
  if not k then
    if kept_key_count > 1000 then kept_keys, kept_key_count = {}, 0 end
    k = Records.keys_of_parts(base)
    for _, name in ipairs(KEYS) do k[name] = base .. ':' .. name end
    kept_keys[base], kept_key_count = k, kept_key_count + 1
  end
  return k
end

function clock(base)
  local t = call('TIME')
  local now = t[1] * 1e6 + t[2]
  --TEST local given = call('GET', base .. ':clock') now = given and (byte(given) == 43 and now or 0) + tonum(given) or now
  return now
end

local function read_shard(raw)
  local last, sub_, fence, tombstones, instance = unp(OFTEN, raw)
  local version, due, ends, expiry, kept, tombstone, period, lease_duration, watch, feed, change, jumps, reused, behind = unp(SELDOM, raw, OFTEN_BYTES + 1)
  if behind >= %SHARD_LATER% then refuse_later('the shard') end
  return {last = last, sub = sub_, fence = fence, tombstones = tombstones, instance = instance, version = version, due = due, ends = ends,
    expiry = expiry, kept = kept, tombstone = tombstone, period = period, lease_duration = lease_duration, watch = watch, feed = feed, change = change,
    jumps = jumps, reused = reused, behind = behind, rest = sub(raw, OFTEN_BYTES + 1), limits_raw = #raw > SHARD_BYTES and sub(raw, SHARD_BYTES + 1) or nil}
end

function write_shard(m)
  if not m.rest then
    m.rest = pack(SELDOM, m.version, m.due, m.ends, m.expiry, m.kept, m.tombstone, m.period, m.lease_duration, m.watch, m.feed, m.change,
      m.jumps, m.reused, m.behind) .. (m.limits_raw or '')
    m.next = nil
  end
  return pack(OFTEN, m.last, m.sub, m.fence, m.tombstones, m.instance) .. m.rest
end

-- When something is to be done: a job falls due, a lease ends, a job expires, a kept job or a
-- tombstone goes, a unique key's period ends. Lower bounds; the sweep reads again.
NEVER = 2 ^ 62

local function idle_shard(instance)
  return {last = 0, sub = 0, fence = 0, version = 0, due = NEVER, ends = NEVER, expiry = NEVER, kept = NEVER, tombstone = NEVER,
    period = NEVER, tombstones = 0, lease_duration = 0, watch = 0, feed = 0, change = 0, jumps = 0, reused = 0, behind = 0, instance = instance}
end

function next_sweep(m)
  return min(m.due, m.ends, m.expiry, m.kept, m.tombstone, m.period)
end

local function new_shard(base, now)
  local digest = redis.sha1hex(base .. now .. concat(call('TIME'), '.'))
  local instance = {}
  for i = 1, 8 do instance[i] = char(tonum(sub(digest, 2 * i - 1, 2 * i), 16)) end
  local m = idle_shard(concat(instance))
  m.limits_raw = call('GET', base .. ':limits') or nil
  return m
end

local parsed_limits = {}
function limits_of(m)
  local raw = m.limits_raw
  if not raw then return LIMITS end
  if not parsed_limits[raw] then
    local given, limits = mp.unpack(raw), {}
    for name, value in pairs(LIMITS) do limits[name] = given[name] or value end
    parsed_limits = {[raw] = limits}
  end
  return parsed_limits[raw]
end

-- A row of a queue: jobs by state, bytes of kept ones by state, jobs in lists and their stale
-- entries by lane, entries of overflow sets by lane, what the running minute counts, the earliest
-- due (head), a lower bound of the first end of a lease. What changes often stands first, then the
-- rest as it was read if nothing of it changed (r.rest), then the lanes.
local ROW_OFTEN, ROW_SELDOM = '>BI8I6I6I4I4I4', '>I8I8I8I6I6I6I6I6I7I7I7I4I4I4I8I6I8'
local ROW_OFTEN_BYTES = 33
ROW_BYTES = 142
local LEADER = 255 -- where a lane's number would stand

function new_row(name)
  return {name = name, field = 'q' .. name, flags = %ROW_IDLE%, short = 0, head = 0, scheduled = 0, max = 0, hot_until = 0, cold = 0, first_end = 0, counts = {[0] = 0, 0, 0, 0, 0, 0, 0},
    kept_bytes = {[4] = 0, [5] = 0, [6] = 0}, minute = 0, minute_counts = {0, 0, 0, 0, 0, 0}, in_lists = {}, stale = {}, in_overflow = {}, leader_wake = 0, leader_since = 0, leader = ''}
end

function read_row(name, raw)
  local r = new_row(name)
  local c, b, h, at = r.counts, r.kept_bytes, r.minute_counts, ROW_BYTES + 1
  r.flags, r.short, c[2], c[3], h[1], h[2], h[3] = unp(ROW_OFTEN, raw)
  if r.flags >= %ROW_LATER% then refuse_later('the row of a queue') end
  r.minute, r.head, r.max, c[0], c[1], c[4], c[5], c[6], b[4], b[5], b[6], h[4], h[5], h[6], r.hot_until, r.cold, r.first_end =
    unp(ROW_SELDOM, raw, ROW_OFTEN_BYTES + 1)
  r.rest, r.scheduled = sub(raw, ROW_OFTEN_BYTES + 1, ROW_BYTES), Due.next_sweep(r)
  while at <= #raw do
    if byte(raw, at) == LEADER then
      r.leader_wake, r.leader_since = unp('>I8I8', raw, at + 1)
      r.leader = sub(raw, at + 17)
      break
    end
    local lane, n, stale = unp('>BI5I5', raw, at)
    if lane < 10 then r.in_lists[lane], r.stale[lane] = n, stale else r.in_overflow[lane - 10] = n end
    at = at + 11
  end
  return r
end

function write_row(r, now)
  local c, b, h = r.counts, r.kept_bytes, r.minute_counts
  if not r.rest then
    r.rest = pack(ROW_SELDOM, r.minute, r.head, r.max, c[0], c[1], c[4], c[5], c[6], b[4], b[5], b[6], h[4], h[5], h[6],
      r.hot_until, r.cold, r.first_end)
  end
  local raw = pack(ROW_OFTEN, r.flags, r.short, c[2], c[3], h[1], h[2], h[3]) .. r.rest
  local L, T, X = r.in_lists, r.stale, r.in_overflow
  local lane, n = next_of(L)
  while lane do
    local stale = T[lane] or 0
    if n > 0 or stale > 0 then raw = raw .. pack('>BI5I5', lane, n, stale) end
    lane, n = next_of(L, lane)
  end
  lane, n = next_of(X)
  while lane do
    if n > 0 then raw = raw .. pack('>BI5I5', lane + 10, n, 0) end
    lane, n = next_of(X, lane)
  end
  if r.leader_wake > now then raw = raw .. pack('>BI8I8', LEADER, r.leader_wake, r.leader_since) .. r.leader end
  return raw
end

-- Something of a row changes that seldom does.
local function seldom(r) r.rest = nil end

-- Flags of a row: ROW_IDLE, ROW_PAUSED, ROW_DEAD_LETTERS, ROW_BOUNDED, ROW_LIMITED, ROW_NAMED,
-- ROW_SHARED.
function flag(r, bit) return floor(r.flags / bit) % 2 == 1 end
function set_flag(r, bit, on)
  if flag(r, bit) ~= on then r.flags = r.flags + (on and bit or -bit) end
end

-- The row of a queue, if it is kept. A call that writes takes it out: the commit keeps it again if
-- it has written it.
local function take_row(name)
  local row = S.kept[name]
  if row and not S.is_read then S.kept[name], kept_count = nil, kept_count - 1 end
  return row
end

-- How a key of each type is asked for something without harm, and the keys of a shard by that.
local PROBES = {HGET = {%SHARD_HASHES%}, LLEN = {%SHARD_LISTS%}, ZSCORE = {%SHARD_SORTED%}}

local function not_ours(key)
  refuse('data_damaged', 'key ' .. key .. " holds what is not punctual's; rename or delete it")
end

-- Every command of this library that takes a key.
local COMMANDS = {'APPEND', 'DEL', 'EXISTS', 'EXPIRE', 'GET', 'GETRANGE', 'HDEL', 'HGET', 'HGETALL', 'HINCRBY', 'HKEYS', 'HLEN', 'HMGET', 'HSCAN', 'HSET',
  'LINDEX', 'LLEN', 'LPOP', 'LPUSH', 'LRANGE', 'LREM', 'LSET', 'LTRIM', 'RPUSH', 'ZADD', 'ZCOUNT', 'ZLEXCOUNT', 'ZRANGE',
  'ZRANGEBYLEX', 'ZRANGEBYSCORE', 'ZREM', 'ZREMRANGEBYRANK', 'ZSCORE'}

-- Those that calls of plain jobs give behind their first write: enqueues, claims, settles, and all
-- that is about leases. Others, and what they meet that is not plain, need all of them
-- (`Shard.may_all`).
ENQUEUES = {'HSET', 'HDEL', 'RPUSH', 'ZADD'}
LEASES = {'APPEND', 'DEL', 'GET', 'HSET', 'HDEL', 'HINCRBY', 'RPUSH', 'LPUSH', 'LPOP', 'LINDEX', 'ZADD', 'ZREM', 'ZRANGE', 'ZRANGEBYSCORE',
  'ZSCORE', 'EXISTS'}
CLAIMS = {'HSET', 'HDEL', 'LPUSH', 'LPOP', 'ZADD', 'ZRANGE'}
SETTLES = {'APPEND', 'DEL', 'HSET', 'HDEL', 'RPUSH', 'ZADD', 'ZREM'}
-- What they give besides where jobs expire or keys are held for a period, and where tombstones are
-- many.
local WAKES = {'ZRANGEBYSCORE', 'EXISTS'}
local PRUNES = {'LINDEX', 'LPOP', 'LPUSH', 'HDEL', 'HGET', 'HINCRBY', 'ZRANGE', 'ZREM'}
Shard.ENQUEUES, Shard.CLAIMS, Shard.SETTLES, Shard.LEASES = ENQUEUES, CLAIMS, SETTLES, LEASES

-- Refuses a user who may not all of these, before anything is changed: a call that is denied its
-- second write has made its first.
function may(commands, base)
  local key = base .. ':s'
  for i = 1, #commands do
    if not allows(commands[i], key) then
      error({err = "NOPERM The user executing the script can't run '" .. commands[i] .. "'"})
    end
  end
end

-- All but those that the call has asked for, by these.
others = {}

local function others_than(commands)
  local rest, asked = {}, {}
  for _, command in ipairs(commands) do asked[command] = true end
  for _, command in ipairs(COMMANDS) do if not asked[command] then rest[#rest + 1] = command end end
  return rest
end

-- Refuses a user who may not all that this library does; once a call.
function Shard.may_all()
  if S.may_all then return end
  local asked = S.asked
  if asked and not others[asked] then others[asked] = others_than(asked) end
  may(asked and others[asked] or COMMANDS, S.base)
  S.may_all = true
end

-- The same where one of these rows has a minute that is over: its counts are moved.
function Shard.may_count(r)
  if r.minute > 0 and r.minute ~= S.now - S.now % MINUTE then Shard.may_all() end
end

-- Refuses a shard one of whose keys another program made, before anything is changed; `all`: also
-- those of all parts.
function Shard.check(base, all)
  may(COMMANDS, base)
  Records.check(base, all, not_ours)
  for probe, names in pairs(PROBES) do
    for _, name in ipairs(names) do
      local key = base .. ':' .. name
      local answer
      if probe == 'LLEN' then answer = redis.pcall(probe, key) else answer = redis.pcall(probe, key, '') end
      if type(answer) == 'table' and answer.err then not_ours(key) end
    end
  end
end

-- What a queue's keys begin with.
local QUEUE_KEYS = {%QUEUE_KEYS%, 'k:4', 'k:5', 'k:6'}
for lane = 0, 19 do
  if lane < 10 then QUEUE_KEYS[#QUEUE_KEYS + 1] = 'r:' .. lane end
  QUEUE_KEYS[#QUEUE_KEYS + 1], QUEUE_KEYS[#QUEUE_KEYS + 2] = 'x:' .. lane, 'st:' .. lane
end

-- A queue without a row has no keys: what is there is foreign.
local function check_queue(name)
  local keys = {}
  for i, kind in ipairs(QUEUE_KEYS) do keys[i] = S.base .. ':' .. kind .. ':' .. name end
  if call('EXISTS', unpack_list(keys)) == 0 then return end
  for _, key in ipairs(keys) do
    if call('EXISTS', key) == 1 then not_ours(key) end
  end
end

-- A wakeup may be left of a deleted queue: only its type is checked.
local function check_wakeup_key(name)
  local key = S.base .. ':d:' .. name
  local answer = redis.pcall('ZSCORE', key, '')
  if type(answer) == 'table' and answer.err then not_ours(key) end
end

-- The row of a queue; false if there is none yet.
function Row.find(name)
  local r = S.rows[name]
  if r == nil then
    r = take_row(name)
    if not r then
      local raw = call('HGET', S.k.s, 'q' .. name)
      r = raw and read_row(name, raw)
    end
    S.rows[name] = r
  end
  return r
end

-- The row of a queue, to be changed: made if there is none, written with the commit.
function Row.of(name)
  local r = S.rows[name] or Row.find(name)
  if not r then
    check_queue(name)
    check_wakeup_key(name)
    r = new_row(name)
    r.is_new, r.is_unlisted, S.rows[name] = true, true, r
  end
  if not r.dirty then
    r.dirty = true
    S.dirty[#S.dirty + 1] = r
  end
  return r
end

-- What the sweep has made stays, whatever becomes of the call.
function Row.stay()
  for _, r in ipairs(S.dirty) do r.is_new = nil end
end

-- Lets go of the rows that this call has made and stored nothing in: what it was asked for was
-- refused.
function Row.let_go()
  local dirty = {}
  for _, r in ipairs(S.dirty) do
    if r.is_new and r.minute == 0 then S.rows[r.name] = nil else dirty[#dirty + 1] = r end
  end
  S.dirty = dirty
end

-- Forgets a queue that has no jobs: its row and every key of it.
function Row.forget(r)
  local keys = Due.cold_keys(r)
  for _, kind in ipairs(QUEUE_KEYS) do keys[#keys + 1] = S.base .. ':' .. kind .. ':' .. r.name end
  keys[#keys + 1] = S.base .. ':d:' .. r.name
  for i = 1, #keys, 1000 do call('DEL', unpack_list(slice(keys, i, i + 999))) end
  call('ZREM', S.k.w, r.name)
  call('ZREM', S.k.e, r.name)
  call('ZREM', S.k.qs, r.name)
  call('HDEL', S.k.s, 'q' .. r.name, 'l' .. r.name, 'y' .. r.name, 'j' .. r.name, 'b' .. r.name)
  Stats.forget_queue(r.name)
  Settled.forget_queue(r.name)
  local dirty = {}
  for _, other in ipairs(S.dirty) do if other ~= r then dirty[#dirty + 1] = other end end
  S.dirty, S.rows[r.name] = dirty, false
end

-- Notes for the sweep when to look at a queue.
function Row.schedule(r, at_)
  if at_ > 0 then call('ZADD', S.k.w, fmt('%d', at_), r.name) else call('ZREM', S.k.w, r.name) end
  r.scheduled = at_
end

-- Reads the rows of queues, those that are not kept with one command.
function read_rows(queues)
  local rows, names, fields = S.rows, nil, nil
  for i = 1, #queues do
    local name = queues[i]
    if rows[name] == nil then
      local r = take_row(name)
      if r then
        rows[name] = r
      else
        names, fields = names or {}, fields or {}
        names[#names + 1], fields[#fields + 1] = name, 'q' .. name
      end
    end
  end
  if not names then return end
  local raws = get_many(S.k.s, fields)
  for i = 1, #names do rows[names[i]] = raws[i] and read_row(names[i], raws[i]) end
end

-- The number of the first write of a microsecond: another after engine time was set back, as its
-- instants come once more and what was numbered by them may still be there.
function Shard.first_write() return (M.behind - M.behind % 2) * 7500 end

-- Sets engine time back to the server's, as if nothing was written since. Leases must be gone.
function Shard.set_back(now)
  M.behind = (M.behind - M.behind % 2 + 2) % 8
  M.last, M.sub, M.jumps = now, Shard.first_write(), M.jumps + 1
  M.expiry, M.ends, M.due, M.period, M.tombstone, M.kept, M.rest = 0, 0, 0, 0, 0, 0, nil
  M.watch, M.feed = min(M.watch, now + MINUTE), min(M.feed, now + MINUTE)
  S.now, S.sub = now, pack('>I2', M.sub)
end

-- By how much engine time is ahead of the server's.
function Shard.ahead() return M.last - clock(S.base) end

-- Opens the shard for a call, with these queues. A read changes nothing, and asks for `maintain`
-- first (touch) where a write would sweep. `commands`: what a call of plain jobs gives, else all.
function Shard.open(base, instance, queues, is_read, any, commands)
  local s = {base = base, k = keys_of(base), rows = {}, dirty = {}, now = 0, sub = '', part = 0, since = 0, spread = 0, examined = 0, limits = LIMITS,
    bundles = {}, bundle_of = {}, is_read = is_read}
  S = s
  local now = clock(base)
  local kept, raw = kept_shards[base], call('HGET', s.k.s, 'm')
  if kept and not is_read then kept_shards[base], kept_shard_count = nil, kept_shard_count - 1 end
  if kept and kept.raw == raw then
    M, s.kept = kept, kept.rows
  else
    M, s.kept = raw and read_shard(raw), {}
  end
  if queues then read_rows(queues) end
  if instance ~= BELOW and not (M and M.instance == instance) then
    refuse('engine_data_missing', 'the data of this shard has vanished or is another one; see the server and its durability')
  end
  if is_read then
    if not M then
      s.now, s.empty, s.limits, WINDOW = now, true, LIMITS, LIMITS.settled_window
      M = idle_shard(BELOW)
      return now
    end
    s.limits = limits_of(M)
    WINDOW = s.limits.settled_window
    local gap = now - M.last
    if not any and (gap < 0 or now >= next_sweep(M) or (M.lease_duration > 0 and (gap >= 1000 or gap * 8 >= M.lease_duration))) then
      refuse('touch', 'call maintain, then this read again')
    end
    s.now = max(now, M.last)
    return s.now
  end
  if commands then may(commands, base) else Shard.may_all() end
  s.asked = commands
  if not M then M = new_shard(base, now) end
  s.limits = limits_of(M)
  WINDOW = s.limits.settled_window
  if M.feed >= now or M.watch >= now then Shard.may_all() end
  if commands and (M.expiry < NEVER or M.period < NEVER) then may(WAKES, base) end
  if commands and M.tombstones + 10000 * %TOMB_BYTES% > s.limits.tombstone_bytes then may(PRUNES, base) end
  local last = M.last
  local was = M.behind % 2
  local behind = now < last and (was == 1 or last - now >= 1000) and 1 or 0
  if behind ~= was then M.behind, M.jumps, M.rest = M.behind - was + behind, M.jumps + behind, nil end
  if now < last then now = last + 1 end
  local first = Shard.first_write()
  if now == last then M.sub = M.sub + 1 else M.sub = first end
  if M.sub > 60000 then now, M.sub = now + 1, first end -- leaves room for the steps of one call
  M.last, s.now, s.sub, s.part = now, now, pack('>I2', M.sub), 61440
  s.since = last
  return now
end

-- Into how many shards its namespace is cut: as the first client said. Refuses who insists on
-- another number.
function Shard.cut(wanted, insists)
  local known = tonum(call('HGET', S.k.s, 'n') or nil)
  if known and known ~= wanted and insists then
    refuse('shards_differ', fmt('this namespace is cut into %d shards, not %d; connect with shards=%d, or export its jobs, delete its keys and import them', known, wanted, known))
  end
  if not known then call('HSET', S.k.s, 'n', fmt('%d', wanted)) end
  return known or wanted
end

-- Begins one more write within a call: later than those before it, at the same instant.
function Shard.step()
  M.sub = M.sub + 1
  S.sub, S.part, S.blocks = pack('>I2', M.sub), 61440, 0
end

-- Something of that kind is to be done at that instant.
function schedule(kind, at)
  if at < M[kind] then M[kind], M.rest = at, nil end
end

-- The commit sends a wakeup for the queue: 1 if a worker may sleep without a leader, 2 also if a
-- claim came up short not long ago (a claim that leaves work wakes others), 3 always, 4 for a
-- worker that may take the lead over; no other worker needs that one.
function notify(r) r.notify = 1 end

-- Sends a wakeup to a process. The key of a dead process expires.
local function notify_process(process, what)
  local wakeup = S.base .. ':p:' .. process
  call('ZADD', wakeup, 0, what)
  call('EXPIRE', wakeup, 60)
end

local function notify_watchers()
  local kv = {}
  for i = 1, #S.settled do kv[i] = S.settled[i] end
  local watchers = get_many(S.k.ws, kv)
  for i = 1, #kv do
    local of = watchers[i]
    if of then
      for at = 1, #of, 8 do notify_process(sub(of, at, at + 7), 's' .. kv[i]) end
      call('HDEL', S.k.ws, kv[i])
    end
  end
  if call('EXISTS', S.k.ws) == 0 then M.watch, M.rest = 0, nil end
end

local function write_changes()
  local items = {}
  for i, change in ipairs(S.changes) do items[i] = change end
  M.change, M.rest = M.change + #items, nil
  call_many('RPUSH', S.k.f, items)
  call('LTRIM', S.k.f, -S.limits.feed, -1)
  local watchers = call('HGETALL', S.k.fw)
  for i = 1, #watchers, 2 do
    if tonum(watchers[i + 1]) >= S.now then
      notify_process(watchers[i], 'f')
    else
      call('HDEL', S.k.fw, watchers[i])
      call('DEL', S.base .. ':p:' .. watchers[i])
    end
  end
end

-- Sends the wakeup that a row asks for, and schedules its next sweep; its bytes.
function close_row(r, now)
  if r.flags >= %ROW_LIMITED% then Gate.close(r) end
  if r.notify then
    local idle = %r.flags has ROW_IDLE%
    if flag(r, %ROW_PAUSED%) then -- paused: the resume sends the wakeup
    elseif idle or r.notify == 3 or r.notify == 2 and now - r.short < 5e6 then
      if idle and r.notify < 4 then r.flags, r.short = r.flags - 1, now end
      call('ZADD', S.base .. ':d:' .. r.name, 0, '1')
    end
    r.notify = nil
  end
  if r.ended then Ends.write(r) end
  local at_ = Due.next_sweep(r)
  if at_ ~= r.scheduled then Row.schedule(r, at_) end
  r.raw, r.dirty, r.is_new = write_row(r, now), nil, nil
  return r.raw
end

-- Keeps a shard and its rows for the next call.
function keep(base, m)
  if kept_count > 1000 or kept_shard_count >= 1000 then
    kept_shards, kept_shard_count, kept_count, m.rows = {}, 0, 0, {}
  end
  if not kept_shards[base] then kept_shard_count = kept_shard_count + 1 end
  kept_shards[base] = m
end

-- Writes what the call has changed, and sends wakeups.
function Shard.commit()
  if S.cleared then Settle.release() end
  if S.flows then Flow.commit() end
  if S.open_chunks then Line.let_go() end
  if S.departing then Lease.settle_all_departed() end
  if S.small then Settle.flush() end
  if S.opened or S.closed then Lease.flush() end
  if S.tombstones then Settled.flush_tombstones() end
  if S.kept_more then Settled.flush_kept() end
  if S.changed_bundles then Bundle.flush() end
  if S.changed_groups then Group.flush() end
  if S.changed_shares then Share.flush() end
  if S.named then Named.commit() end
  if S.gathered then Group.write_lines() end
  if S.settled and M.watch >= S.now then notify_watchers() end
  if S.changes then write_changes() end
  if S.lost and not S.heals then Heal.note() end
  local kv = {'m', ''}
  for i = 1, #S.dirty do
    local r = S.dirty[i]
    local raw = close_row(r, S.now)
    if r.is_unlisted then
      call('ZADD', S.k.qs, 0, r.name)
      r.is_unlisted = nil
    end
    kv[2 * i + 1], kv[2 * i + 2] = r.field, raw
    if not S.kept[r.name] then kept_count = kept_count + 1 end
    S.kept[r.name] = r
  end
  local is_first = S.workers_noted and Workers.flush(kv)
  kv[2] = write_shard(M)
  M.raw, M.rows, M.k = kv[2], S.kept, S.k
  keep(S.base, M)
  for field, value in pairs(S.fields or {}) do kv[#kv + 1], kv[#kv + 2] = field, value end
  call_many('HSET', S.k.s, kv)
  S.dirty, S.swept = {}, nil
  -- A worker claims for the first time; where no process maintains, that is when others are
  -- forgotten.
  if is_first and allows('ZRANGEBYSCORE', S.k.s) and allows('ZREM', S.k.s) then Workers.forget(2 * MINUTE) end
end

-- Runs what may write. Nothing that it wrote is undone if it ends midway: what the shard counts of
-- that is written too, or its rows and its lists would part.
function Shard.whole(f, base, argument)
  S = NOTHING_OPEN
  local ok, answer = pcall(f, base, argument)
  if ok then return answer end
  if S.swept then -- what it was at is looked for again: these are lower bounds
    M.expiry, M.ends, M.due, M.period, M.tombstone, M.kept, M.rest = 0, 0, 0, 0, 0, 0, nil
  end
  if S.swept or S.dirty and #S.dirty > 0 then pcall(Shard.commit) end
  local said = type(answer) == 'table' and answer.err or tostring(answer) -- the server makes it a text
  if find(said, '^%-?%u+ ') then error({err = (said:gsub('^%-', ''))}) end
  error(said, 0)
end

-- Counts in this minute: 1 enqueued, 2 claimed, 3 completed, 4 failed, 5 dead, 6 cancelled.
function note(r, what, n)
  local minute = S.now - S.now % MINUTE
  if r.minute ~= minute then
    if r.minute > 0 then Row.close_minute(r) end
    r.minute, r.minute_counts, r.rest = minute, {0, 0, 0, 0, 0, 0}, nil
  end
  r.minute_counts[what] = r.minute_counts[what] + n
  if what > 3 then r.rest = nil end
end

end
