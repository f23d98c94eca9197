-- The wakeup leader of a queue: the worker that claims next by the clock, and when, so that one of
-- all sleepers comes and no thundering herd. It is a hint: the polls of the others notice a leader
-- that fails.
do

-- Who has not claimed for so long may be gone: workers claim more often than that, to be seen.
local HOLDS = 30e6

-- So many expiries and ends of periods are looked through for those of a claim's own queues.
local EXAMINED = 8

-- Whether a job of these queues may be kept back by another, which goes by itself: by one of its
-- group, or as the follower of a key.
local function is_kept_back(open)
  for _, r in ipairs(open) do
    if r.counts[HELD] > 0 or call('EXISTS', S.base .. ':g:' .. r.name) == 1 then return true end
  end
  return false
end

-- The first of an order by time that `is_of` says of a member is of these queues; where none of the
-- first EXAMINED is, it is looked again at the last of them.
local function first_of(open, key, is_of)
  local own = {}
  for _, r in ipairs(open) do own[r.name] = true end
  local found = call('ZRANGEBYSCORE', S.base .. key, '(' .. fmt('%d', S.now), '+inf', 'WITHSCORES', 'LIMIT', 0, EXAMINED)
  for i = 1, #found, 2 do
    if i == 2 * EXAMINED - 1 or is_of(found[i], own) then return tonum(found[i + 1]) end
  end
end

local function is_of_period(field, own) return own[sub(field, 1, find(field, '\0', 1, true) - 1)] end

-- One that cannot be read may be of any queue: who comes too early for it goes again.
local function is_of_job(id, own)
  local ok, j = pcall(Job.load, id)
  return not ok or j ~= nil and own[j.q] and (j.opts.g or j.opts.u or j.tag == %TAG_HELD%)
end

-- The same of queues whose limits are open.
local function wake_at_open(open)
  if #open == 0 then return 0 end
  local wake = Lease.first_end(open) or 0
  if (M.expiry < NEVER or M.period < NEVER) and is_kept_back(open) then
    local expiry = M.expiry < NEVER and first_of(open, ':xp', is_of_job)
    local period = M.period < NEVER and first_of(open, ':up', is_of_period)
    if expiry and (wake == 0 or expiry < wake) then wake = expiry end
    if period and (wake == 0 or period < wake) then wake = period end
  end
  for _, r in ipairs(open) do
    if r.head > 0 and (wake == 0 or r.head < wake) then wake = r.head end
  end
  return wake
end

-- The earliest instant at which a claim of these queues could answer more by time alone; 0: none.
function Leader.wake_at(open)
  local wake, free = 0, nil
  for i = 1, #open do
    local r = open[i]
    if r.flags >= %ROW_LIMITED% and Gate.is_closed(r) then
      free = free or slice(open, 1, i - 1)
      local at = Gate.wake_at(r)
      if at > 0 and (wake == 0 or at < wake) then wake = at end
    elseif free then
      free[#free + 1] = r
    end
    if r.flags >= %ROW_SHARED% then
      local at = Share.wake_at(r)
      if at > 0 and (wake == 0 or at < wake) then wake = at end
    end
    if r.flags >= %ROW_NAMED% then
      local at = Named.wake_at(r)
      if at > 0 and (wake == 0 or at < wake) then wake = at end
    end
  end
  local first = wake_at_open(free or open)
  return first > 0 and (wake == 0 or first < wake) and first or wake
end

-- The least that a claimer without an engine is to sleep while leases last.
local SLEEP = 0.5e6

-- When a claimer is to come again. One without an engine, who does not read records itself, may be
-- all that calls: while leases of its queues last it comes before half of the shortest has passed,
-- so that its sleep is no pause of the engine.
function Leader.soon_enough(flags, rows, wake)
  if M.kept <= S.now and Flow.is_behind() then return S.now + 1000 end
  if wake <= S.now or M.lease_duration == 0 or %flags has CLAIM_READS% then return wake end
  for _, r in ipairs(rows) do
    if r.counts[ACTIVE] > 0 then return min(wake, S.now + max(floor(M.lease_duration / 3), SLEEP)) end
  end
  return wake
end

local function holds(r, wake, but)
  return r.leader_wake > S.now and r.leader_wake <= wake and S.now - r.leader_since < HOLDS and r.leader ~= but
end

-- Whether another worker than this one leads each of these queues by then.
function Leader.is_covered(rows, wake, but)
  for _, r in ipairs(rows) do
    if not holds(r, wake, but) then return false end
  end
  return #rows > 0
end

-- A claim has found less than it may take, and by time alone there is more at `wake`. Whether
-- another worker comes then; if not, this one leads. A worker that received a wakeup takes the
-- lead.
function Leader.elect(call_, rows, wake)
  if not call_.stays then return false end
  if not call_.woken and Leader.is_covered(rows, wake, call_.worker) then return true end
  for _, r in ipairs(rows) do
    if call_.woken or not holds(r, wake, call_.worker) then r.leader_wake, r.leader_since, r.leader = wake, S.now, call_.worker end
  end
  return false
end

-- A claim took all it may, so its worker may not sleep: sends a wakeup where no other worker leads.
function Leader.resign(worker, rows, wake)
  for _, r in ipairs(rows) do
    if r.leader == worker then r.leader_wake = 0 end
    if wake > 0 and not holds(r, wake, worker) then r.notify = 4 end
  end
end

end
