-- The sweep before every write: what time causes is done, a bounded part of each kind.
do

-- Expires pending jobs whose instant has passed; how many.
local function expire(limit)
  local key, expired = S.k.xp, 0
  local ids = call('ZRANGEBYSCORE', key, '-inf', fmt('%d', S.now), 'LIMIT', 0, limit)
  for i = 1, #ids do
    local j = Job.load(ids[i])
    if j and Settled.expire_if_late(j) then
      expired = expired + 1
    else
      call('ZREM', key, ids[i]) -- active: looked at again when its attempt ends
      if j then Settle.waited(j) end
    end
  end
  return expired
end

-- Queues that one call moves jobs of; of those that it is about itself, so many.
local TURNS, OWN = 20, 8

-- The queues of the call that have due jobs and are not paused, those with the least ready ones
-- first.
local function own_due()
  local own = {}
  for _, r in pairs(S.rows) do
    local at_ = r and not flag(r, %ROW_PAUSED%) and Due.next_sweep(r) or 0
    if at_ > 0 and at_ <= S.now then own[#own + 1] = r end
  end
  table.sort(own, function(a, b) return a.counts[READY] < b.counts[READY] or a.counts[READY] == b.counts[READY] and below(a.name, b.name) end)
  return own
end

-- Moves due jobs of all queues, the earliest first; how many. Half of it is for the queues of the
-- call itself: a pile of another, which may be paused, keeps none from its time.
local function move_due(limit)
  local moved, turns, own = 0, 0, own_due()
  local few = min(#own, OWN)
  if few == 1 and call('ZRANGE', S.k.w, 0, 0)[1] == own[1].name then few = 0 end
  for i = 1, few do
    local r = Row.of(own[i].name)
    moved = moved + Due.move(r, min(limit - moved, max(1, floor(limit / 2 / few))))
    Row.schedule(r, Due.next_sweep(r))
    turns = turns + 1
    if moved >= limit then break end
  end
  while moved < limit and turns < TURNS and S.spread < 250 and S.examined < 125 do
    local first = call('ZRANGE', S.k.w, 0, 0, 'WITHSCORES')
    if not first[1] or tonum(first[2]) > S.now then break end
    local r = Row.of(first[1])
    moved = moved + Due.move(r, limit - moved)
    Row.schedule(r, Due.next_sweep(r))
    turns = turns + 1
  end
  return moved
end

local function end_periods(limit)
  local found = call('ZRANGEBYSCORE', S.k.up, '-inf', fmt('%d', S.now), 'LIMIT', 0, limit)
  for i = 1, #found do
    call('ZREM', S.k.up, found[i])
    local nul = find(found[i], '\0', 1, true)
    Unique.holder(sub(found[i], 1, nul - 1), sub(found[i], nul + 1))
  end
end

-- Reads an order by time: when its first comes.
local function schedule_first(kind, key)
  local first = call('ZRANGE', S.base .. key, 0, 0, 'WITHSCORES')
  if first[2] then schedule(kind, tonum(first[2])) end
end

-- What costs tens of microseconds each is done in smaller slices, so that no call takes long.
local SLICE = 125
-- What a call that has work of its own does beside it, so that both together take no longer than a
-- round.
local BESIDE = 250

-- Does what is due; `all` also prunes tombstones at the very end of their window. Answers how many
-- were moved, expired, rescued, pruned.
function Sweep.run(all)
  local now, m, limit = S.now, M, S.limits.sweep
  local moved, expired, rescued, pruned = 0, 0, 0, 0
  local gap = now - S.since
  if m.lease_duration > 0 and S.since > 0 and gap >= 1000 and gap * 2 > m.lease_duration then
    Shard.may_all()
    Lease.extend_after_pause(gap)
  end
  if all then -- lower bounds become true ones
    m.expiry, m.ends, m.due, m.period, m.kept = 0, 0, 0, 0, 0
  elseif now < next_sweep(m) then
    return 0, 0, 0, 0
  end
  Shard.may_all()
  m.rest, S.swept = nil, true
  if now >= m.expiry then
    m.expiry = NEVER
    expired = expire(min(limit, SLICE))
    schedule_first('expiry', ':xp')
  end
  if now >= m.ends then
    m.ends = NEVER
    rescued = Lease.rescue(min(limit, SLICE))
    schedule_first('ends', ':e')
  end
  if now >= m.due then
    m.due = NEVER
    moved = move_due(all and limit or min(limit, BESIDE))
    schedule_first('due', ':w')
  end
  if now >= m.period then
    m.period = NEVER
    end_periods(limit)
    schedule_first('period', ':up')
  end
  if now >= m.tombstone or all then
    m.tombstone = NEVER
    pruned = Settled.prune_tombstones(limit)
    if pruned >= limit then schedule('tombstone', now) end
  end
  if now >= m.kept then
    m.kept = NEVER
    pruned = pruned + Settled.prune_kept(min(limit, BESIDE))
    schedule_first('kept', ':kp')
    -- Also by `kept`: flows that are to be forgotten, and what is left to do for others.
    if Flow.sweep() then schedule_first('kept', ':ft') end
    Settle.end_early_clears(SLICE)
    schedule_first('kept', ':ec')
  end
  if S.changed_groups then Group.flush() end -- what the call itself does finds them where they belong
  return moved, expired, rescued, pruned
end

-- maintain: what is due, in bounded parts, and when to come again. Key: base. Argument: instance,
-- map {sh shards that a new namespace is cut into, ss 1 if it must be so}. Reply: moved, expired,
-- rescued, pruned, next, shards, entries of the outbox that wait, cold jobs that were spread,
-- schedules whose list is short.
function Sweep.maintain(base, args)
  local instance = args and sub(args, %CALL_INSTANCE%) or BELOW
  local map = args and #args > 8 and Check.map('maintain', args) or {}
  Shard.check(base, map.sh ~= nil)
  Shard.open(base, instance)
  local cut = map.sh and Shard.cut(map.sh, map.ss == 1) or nil
  local moved, expired, rescued, pruned = Sweep.run(true)
  Row.forget_idle(Workers.forget(MINUTE))
  Named.sweep()
  if S.lost then Heal.note() end
  S.heals = true -- what the walk meets begins no other
  local heals = Heal.walk()
  local low, more = Schedule.maintain(map.tz)
  Shard.commit()
  local oldest, remembered = call('LINDEX', base .. ':mp', 0), call('ZRANGE', base .. ':rm', 0, 0, 'WITHSCORES')
  local soon = (heals or more) and S.now or min(M.due, M.ends, M.expiry, M.kept, M.period, oldest and at8(oldest) + WINDOW or NEVER, tonum(remembered[2]) or NEVER)
  return mp.pack({mo = moved, xp = expired, rs = rescued, pr = pruned, n = S.now, i = M.instance, nx = soon < NEVER and soon or nil, sh = cut, ob = Outbox.waiting(), sp = S.spread > 0 and S.spread or nil, lo = low})
end

end
