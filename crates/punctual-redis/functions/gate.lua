-- Limits of a queue: how many of its jobs are active, how many start in a span. A queue with the
-- flag ROW_LIMITED has a gate, `BASE:s`, field `l` + queue: concurrency 4 (0: any) | kind of rate 1
-- (0: none, else RATE + 1) | starts 4 | per 8 | burst 4 | open since 8 | full 1 | until when a
-- smooth rate is used up 8 | first start of the last part of a window 8 | starts counted 4 | its
-- parts: last start 8 and starts 4 each. The arithmetic is that of `rate.rs` in the machine.
do

local LIMITS, STANDS, HEAD_BYTES, PART, PART_BYTES = '>I4BI4I8I4', '>I8BI8I8I4', 50, '>I8I4', 12
local SMOOTH, SLIDING = %RATE_SMOOTH% + 1, %RATE_WINDOW% + 1
-- Starts of a window that are counted one by one; more are counted in as many parts of it.
local PARTS = 64

-- What follows from the limits.
local function derive(g)
  g.every = g.kind == SMOOTH and max(1, floor((g.per + g.starts - 1) / g.starts)) or 0
  g.part = g.kind == SLIDING and g.starts > PARTS and floor((g.per + PARTS - 1) / PARTS) or 0
  g.limits = pack(LIMITS, g.most, g.kind, g.starts, g.per, g.burst)
  return g
end

local function new()
  return {most = 0, kind = 0, starts = 0, per = 0, burst = 0, open_since = 0, full = false, next = 0, since = 0, sum = 0, parts = '', taken = 0}
end

local function read(raw)
  local g, full = new(), nil
  g.most, g.kind, g.starts, g.per, g.burst = unp(LIMITS, raw)
  g.open_since, full, g.next, g.since, g.sum = unp(STANDS, raw, 22)
  g.full, g.parts = full == 1, sub(raw, HEAD_BYTES + 1)
  return derive(g)
end

local function write(g)
  return g.limits .. pack(STANDS, g.open_since, g.full and 1 or 0, g.next, g.since, g.sum) .. g.parts
end

-- The gate of a queue with the flag.
function Gate.of(r)
  local g = r.gate
  if not g then
    local raw = call('HGET', S.k.s, 'l' .. r.name)
    g = raw and read(raw) or derive(new())
    r.gate = g
  end
  return g
end

-- The limits let jobs start from then on, if not later.
local function opens(g, at)
  if at > g.open_since then g.open_since, g.changed = at, true end
end

-- By how much a smooth rate is used up ahead of now. After a change of the rate or of the clock it
-- may be further than starts can have brought it.
local function ahead(g) return min(max(0, g.next - S.now), g.every * (g.burst + 1)) end

-- The starts that a window counts, but for those that it counts no more.
local function live(g)
  local parts, now, per, at = g.parts, S.now, g.per, 1
  if parts == '' then return 0 end
  if unp(PART, parts, #parts - 11) > now then -- the clock was set back
    local out = {}
    for i = 1, #parts, PART_BYTES do
      local last, n = unp(PART, parts, i)
      out[#out + 1] = pack(PART, min(last, now), n)
    end
    parts, g.since = concat(out), min(g.since, now)
    g.parts = parts
  end
  while at < #parts do
    local last, n = unp(PART, parts, at)
    if last + per > now then break end
    g.sum, at = g.sum - n, at + PART_BYTES
  end
  if at > 1 then g.parts = sub(parts, at) end
  return g.sum
end

-- How many may start by the rate. It is reckoned once for an instant; `left` is less by each start.
local function starts_left(g)
  if g.kind == 0 then return math.huge end
  if g.left_at == S.now then return g.left end
  local left
  if g.kind == SLIDING then
    left = max(0, g.starts - live(g))
  else
    local used, most = ahead(g), g.every * g.burst
    left = used > most and 0 or floor((most - used) / g.every) + 1
  end
  g.left, g.left_at = left, S.now
  return left
end

local function slots_left(r, g)
  if g.most == 0 then return math.huge end
  return max(0, g.most - r.counts[ACTIVE] - g.taken)
end

-- When a rate that is used up lets the next job start; nil if one may now.
local function opens_at(g)
  if starts_left(g) > 0 then return nil end
  if g.kind == SMOOTH then return S.now + ahead(g) - g.every * g.burst end
  local left = g.sum
  for at = 1, #g.parts, PART_BYTES do
    local last, n = unp(PART, g.parts, at)
    left = left - n
    if left < g.starts then return last + g.per end
  end
  return S.now + g.per
end

Gate.starts_left, Gate.opens_at = starts_left, opens_at

-- When a job may start that takes so many units; nil if it may now. One that takes more than ever
-- may start at once is to start while nothing counts.
function Gate.opens_for(g, units)
  if g.kind == SMOOTH then
    local over = max(0, g.next - S.now) - g.every * (g.burst + 1 - min(units, g.burst + 1))
    return over > 0 and S.now + over or nil
  end
  local left, most, opens = live(g), g.starts - min(units, g.starts), nil
  for at = 1, #g.parts, PART_BYTES do
    if left <= most then break end
    local last, n = unp(PART, g.parts, at)
    left, opens = left - n, last + g.per
  end
  return opens
end

-- Counts a start of so many units, whatever was counted ahead of now.
function Gate.take_units(g, units)
  if g.kind == SMOOTH then
    g.next, g.left_at = max(g.next, S.now) + g.every * units, nil
  else
    Gate.count(g, units)
  end
end

-- What was counted by a rate of before is no further ahead than starts can bring it.
function Gate.bound(g)
  if g.kind == SMOOTH then g.next = min(g.next, S.now + g.every * (g.burst + 1)) end
end

-- What a rate of its own has counted, of bytes of before, if there are any.
function Gate.counter(rate, raw)
  local g = new()
  g.kind, g.starts, g.per, g.burst = rate[1] + 1, rate[2], rate[3], rate[4]
  if raw then
    g.next, g.since, g.sum = unp('>I8I8I4', raw)
    g.parts = sub(raw, %GATE_PARTS_AT%)
  end
  return derive(g)
end

-- Its bytes; nil if it counts nothing any more.
function Gate.counted(g)
  if g.kind == SLIDING then live(g) end
  if g.parts == '' and g.next <= S.now then return nil end
  return pack('>I8I8I4', g.next, g.since, g.sum) .. g.parts
end

-- When nothing that was counted counts any more.
function Gate.counts_until(g)
  if g.kind == SMOOTH then return g.next end
  return live(g) > 0 and unp('>I8', g.parts, #g.parts - 11) + g.per or 0
end

-- How many jobs may start now.
function Gate.room(r)
  local g = Gate.of(r)
  local slots = slots_left(r, g)
  if g.full and slots > 0 then -- another call of this step has ended a job
    g.full, g.changed = false, true
    opens(g, S.now)
  end
  return min(slots, starts_left(g))
end

function Gate.is_closed(r) return Gate.room(r) == 0 end

-- What workers said of their slots, by their records as they came.
local kept_slots, kept_slot_count, KEPT = {}, 0, 1000

-- The slots that the worker of a claim has free.
function Gate.slots(call_)
  local slots = call_.slots
  if not slots then
    local known = kept_slots[call_.record]
    if not known then
      local worker = Check.worker(call_.record) or {}
      known = {worker.s or 0, worker.b or 0}
      if kept_slot_count >= KEPT then kept_slots, kept_slot_count = {}, 0 end
      if #call_.record <= 1024 then kept_slots[call_.record], kept_slot_count = known, kept_slot_count + 1 end
    end
    slots = max(0, (known[1] == 0 and call_.limit or known[1]) - known[2])
    call_.slots = slots
  end
  return slots
end

-- How many jobs of a limited queue a claim may take that has taken `n`: no more than its worker
-- has slots free.
function Gate.room_for(r, call_, n)
  local room = Gate.room(r)
  return min(room, max(0, Gate.slots(call_) - n))
end

-- So many jobs of a queue were claimed, and are not counted as active yet.
function Gate.took(r, n)
  local g = Gate.of(r)
  g.taken = g.taken + n
  Gate.count(g, n)
end

-- A rate counts starts.
function Gate.count(g, n)
  if g.kind == 0 or n == 0 then return end
  local now, left = S.now, starts_left(g)
  if g.kind == SMOOTH then
    g.next = now + ahead(g) + g.every * n
  else
    live(g)
    local last, before
    if g.parts ~= '' then last, before = unp(PART, g.parts, #g.parts - 11) end
    if last and (last == now or now - g.since < g.part) then
      g.parts = sub(g.parts, 1, -13) .. pack(PART, now, before + n)
    else
      g.parts, g.since = g.parts .. pack(PART, now, n), now
    end
    g.sum = g.sum + n
  end
  g.changed, g.left = true, max(0, left - n)
  local at = opens_at(g)
  if at then opens(g, at) end
end

-- The limited ones of a claim's queues, each with since when it is open: count 1, then per queue
-- its name and the instant. Nothing if there are none.
function Gate.limited(rows)
  local out, n = nil, 0
  for i = 1, #rows do
    local r = rows[i]
    if r.flags >= %ROW_LIMITED% then
      Gate.room(r)
      out, n = out or {}, n + 1
      out[n] = char(#r.name) .. r.name .. u8(min(Gate.of(r).open_since, S.now))
    end
  end
  return out and char(n) .. concat(out)
end

-- Whether jobs of a queue are ready, suspects aside or not.
local function has_ready(r, suspects)
  for _, n in pairs(r.in_lists) do if n > 0 then return true end end
  for lane, n in pairs(r.in_overflow) do if n > 0 and (lane < 10 or suspects) then return true end end
  return r.flags >= %ROW_SHARED% and Share.ready(r, 0, suspects and 19 or 9) > 0
end

-- When time opens a closed limit, 0 if only a job that ends does; nil if it is open.
function Gate.closed_until(r)
  if not Gate.is_closed(r) then return nil end
  local g = Gate.of(r)
  return slots_left(r, g) > 0 and opens_at(g) or 0
end

-- When time alone lets a job of a closed queue start; 0 if only a job that ends does.
function Gate.wake_at(r)
  local g = Gate.of(r)
  local at, lease = opens_at(g) or 0, Lease.first_end({r}) or 0
  if slots_left(r, g) == 0 then return lease > 0 and max(lease, at) or 0 end
  if has_ready(r) then return at end
  local first = r.head
  if lease > 0 and (first == 0 or lease < first) then first = lease end
  return first > 0 and max(first, at) or 0
end

-- A row is written: whether the last slot was taken or freed, and whom to wake. New work behind a
-- closed limit wakes no worker: a job that ends does, and of a rate the leader knows when it opens.
function Gate.close(r)
  if r.share then Share.close(r) end
  if r.named then Named.close(r) end
  local g = Gate.of(r)
  g.taken = 0
  local full = slots_left(r, g) == 0
  if full ~= g.full then
    g.full, g.changed = full, true
    if not full then
      opens(g, S.now)
      if not r.notify and (r.head > 0 or has_ready(r, true)) then notify(r) end
    end
  end
  if r.notify == 1 then
    local at = not full and opens_at(g)
    if full or at and r.leader_wake > S.now and r.leader_wake <= at then r.notify = nil end
  end
  if g.most == 0 and g.kind == 0 and r.flags < %ROW_NAMED% and (g.open_since == 0 or not has_ready(r, true)) then
    set_flag(r, %ROW_LIMITED%, false)
    r.gate = nil
    call('HDEL', S.k.s, 'l' .. r.name)
  elseif g.changed then
    g.changed, S.fields = nil, S.fields or {}
    S.fields['l' .. r.name] = write(g)
  end
end

-- Obeys the limits of settings. What a rate of the same kind has counted stays, and jobs that were
-- kept back are not late since before.
function Gate.set(r, settings)
  local rate, limited = settings.lr or {}, r.flags >= %ROW_LIMITED%
  local most, kind = settings.lc or 0, rate[1] and rate[1] + 1 or 0
  if most == 0 and kind == 0 and not limited then return end
  local g = limited and Gate.of(r) or derive(new())
  if not limited then r.gate = g end
  if most == g.most and kind == g.kind and (kind == 0 or rate[2] == g.starts and rate[3] == g.per and rate[4] == g.burst) then return end
  local was_closed = limited and Gate.is_closed(r)
  if kind ~= g.kind then g.next, g.since, g.sum, g.parts = 0, 0, 0, '' end
  g.most, g.kind, g.starts, g.per, g.burst, g.changed = most, kind, rate[2] or 0, rate[3] or 0, rate[4] or 0, true
  derive(g)
  g.left_at = nil
  g.open_since = min(g.open_since, S.now) -- of the limits of before nothing is left
  local at = opens_at(g)
  if at then opens(g, at) elseif was_closed and slots_left(r, g) > 0 then opens(g, S.now) end
  g.full = slots_left(r, g) == 0
  set_flag(r, %ROW_LIMITED%, true)
  r.notify = 3
end

-- The limits that keep a ready job back, as reasons.
function Gate.why(r, out)
  if not Gate.is_closed(r) then return end
  local g = Gate.of(r)
  local at = opens_at(g)
  if at then out[#out + 1] = {17, {g.kind - 1, g.starts, g.per, g.burst}, u8(at)} end
  if slots_left(r, g) == 0 then out[#out + 1] = {16, g.most, r.counts[ACTIVE]} end
end

-- How the limits stand, for statistics: concurrency, rate, what is closed (0 nothing, 1
-- concurrency, 2 rate), when a rate opens, how long the oldest waits; false if there are none.
-- Then the due from which its oldest job is late, nil at a closed limit.
function Gate.stats(r, oldest)
  local g, closed = Gate.of(r), Gate.is_closed(r)
  local at = closed and opens_at(g) or nil
  local late = not closed and oldest and max(oldest, min(g.open_since, S.now)) or nil
  if g.most == 0 and g.kind == 0 then return false, late end
  return {g.most, g.kind > 0 and {g.kind - 1, g.starts, g.per, g.burst} or {}, at and 2 or closed and 1 or 0, at and u8(at) or '',
    closed and oldest and S.now - oldest or -1}, late
end

end
