-- What becomes of a settled job: kept whole (`BASE:k:STATE:QUEUE` by finish, `BASE:kp` by the end of its
-- retention) or reduced to a mark in its record's place (`BASE:mp`: finished 8, then ids, in order).
do

local RETENTION = {[CANCELLED] = 86400e6, [DEAD] = 2592000e6}
local NO_TOKEN = '\0\0\0\0\0\0\0\0\0\0\0\0'

local function kept_set(q, state) return S.base .. ':k:' .. state .. ':' .. q end

-- A mark's bytes; `core` is due 8 | hash 8, `token` 12 bytes.
local function mark_of(core, state, late, finished, attempt, token, result)
  return '\7' .. core .. char(state + (late and 8 or 0)) .. u8(finished) .. pack('>I4', attempt) .. token .. (result or '')
end

-- Whether a mark still counts.
function Settled.mark_counts(raw) return unp('>I8', raw, 19) + WINDOW > S.now end

-- Keeps marks, written by the caller, in their order; `ids` is a string of ids, n of them.
function Settled.marks(finished, ids, n)
  call('RPUSH', S.base .. ':mp', u8(finished) .. ids)
  M.marks = M.marks + n
  duty_at('mark', finished + WINDOW + 1e6)
  if M.marks > S.limits.marks then Settled.prune_marks(M.marks - S.limits.marks, true) end
end

-- An id whose mark is in the order of marks stands for something else now: the prune passes it over once.
function Settled.reuse(id)
  call('HINCRBY', S.base .. ':rv', id, 1)
  M.reused, M.rest = M.reused + 1, nil
end

-- Forgets marks past the window, or the oldest ones whatever their age; how many.
function Settled.prune_marks(limit, any_age)
  local key, pruned = S.base .. ':mp', 0
  while pruned < limit do
    local one = call('LINDEX', key, 0)
    if not one then break end
    if not any_age and at8(one) + WINDOW > S.now then
      duty_at('mark', at8(one) + WINDOW + 1e6)
      break
    end
    call('LPOP', key)
    local ids, n = {}, (#one - 8) / 16
    local take = min(n, limit - pruned)
    for i = 1, take do ids[i] = sub(one, 16 * i - 7, 16 * i + 8) end
    if take < n then call('LPUSH', key, sub(one, 1, 8) .. sub(one, 16 * take + 9)) end
    pruned = pruned + take
    if M.reused > 0 then
      local counts, gone = get_many(S.base .. ':rv', ids), {}
      for i = 1, take do
        if not counts[i] then
          gone[#gone + 1] = ids[i]
        elseif call('HINCRBY', S.base .. ':rv', ids[i], -1) <= 0 then
          call('HDEL', S.base .. ':rv', ids[i])
        end
        if counts[i] then M.reused, M.rest = M.reused - 1, nil end
      end
      ids = gone
    end
    call_many('HDEL', S.base .. ':b', ids)
    M.marks = max(0, M.marks - take)
  end
  return pruned
end

-- Drops a job's record and leaves a mark, while that is worth anything.
function Settled.drop(j, finished)
  if finished + WINDOW <= S.now then
    call('HDEL', S.base .. ':b', j.id)
    return
  end
  local e = j.ext
  call('HSET', S.base .. ':b', j.id,
    mark_of((e.rd or j.due8) .. j.hash, j.tag, e.la, finished, e.sa or 0, e.sk or NO_TOKEN, e.re))
  Settled.marks(finished, j.id, 1)
end

local function kept_bytes(j) return j.payload + 256 end

-- Takes a kept job out of the orders it stands in.
function Settled.unkeep(j)
  local r, state = Row.of(j.q), j.tag
  call('ZREM', kept_set(j.q, state), Job.seq(j) .. j.id)
  call('ZREM', S.base .. ':kp', j.id)
  r.c[state], r.rest = r.c[state] - 1, nil
  r.b[state] = max(0, r.b[state] - kept_bytes(j))
end

-- Removes a kept job's record; within the settled window its mark stays.
function Settled.forget(j)
  Settled.unkeep(j)
  Settled.drop(j, j.ext.fi or 0)
end

function Settled.keep(j, finished)
  local state, r = j.tag, Row.of(j.q)
  local retention = RETENTION[state] or j.opts.rn or 0
  if retention == 0 then return Settled.drop(j, finished) end
  Job.save(j)
  local till = finished + max(retention, WINDOW)
  call('ZADD', kept_set(j.q, state), fmt('%.0f', finished), Job.seq(j) .. j.id)
  call('ZADD', S.base .. ':kp', fmt('%.0f', till), j.id)
  duty_at('kept', till)
  r.c[state], r.rest = r.c[state] + 1, nil
  r.b[state] = r.b[state] + kept_bytes(j)
  while r.c[state] > S.limits.retained or r.b[state] > S.limits.retained_bytes do
    local oldest = call('ZRANGE', kept_set(j.q, state), 0, 0)[1]
    local job = oldest and Job.load(sub(oldest, 13))
    if not job then break end
    Settled.forget(job)
  end
end

local NOTED = {[COMPLETED] = 3, [CANCELLED] = 6, [DEAD] = 5}

-- Settles a job that stands in no place any more; its reasons are already in its ext.
function Settled.as(j, state)
  j.tag = state
  local e = j.ext
  e.fi, e.fr = S.now, nil
  local r = Row.of(j.q)
  Unique.free(j)
  if j.opts.g then Group.member(r, j, false) end
  Place.forget_expiry(j)
  note(r, NOTED[state], 1)
  changed(j.id, j.q, state)
  S.settled = S.settled or {}
  S.settled[#S.settled + 1] = j.id
  Settled.keep(j, S.now)
end

-- Settles a pending job as cancelled: 0 requested, 1 expired, 2 replaced, 3 purged.
function Settled.cancel_waiting(j, reason)
  Place.out(j)
  j.ext.cd = reason
  if reason == 0 then j.ext.sp = 0 end
  Settled.as(j, CANCELLED)
end

-- Expires a pending job whose instant has passed; whether it did.
function Settled.expire_if_late(j)
  if j.tag > 3 or not Job.has_expired(j) then return false end
  if j.tag < 3 and j.due <= S.now and Page.of(j) then return false end
  Settled.cancel_waiting(j, 1)
  return true
end

-- Removes kept jobs past their retention; how many.
function Settled.prune_kept(limit)
  local key = S.base .. ':kp'
  local ids = call('ZRANGEBYSCORE', key, '-inf', fmt('%.0f', S.now), 'LIMIT', 0, limit)
  for i = 1, #ids do
    local j = Job.load(ids[i])
    if j and j.tag > 3 then Settled.forget(j) else call('ZREM', key, ids[i]) end
  end
  return #ids
end

end
