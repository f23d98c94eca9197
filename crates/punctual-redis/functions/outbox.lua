-- Effects for other shards. A settle posts them in its own step; a client that then has time
-- delivers them there and removes them here. `BASE:o`: entry id to kind 1 | length 1, target |
-- effect. `BASE:oz:TARGET`: entry ids by when they were posted, `BASE:ot` the targets that have
-- any. At the target, `BASE:oi:SOURCE`: entry ids that were taken, by when they were posted;
-- `BASE:of`: source to the source's instant up to which ids may have been forgotten: what was read
-- there before is refused.
--
-- A target is NAMESPACE/SHARD, or `*`: the shard of this namespace that knows the job.
do

-- A bounded enqueue may meet a full queue; a clear is kept if no shard knows its job.
local ENQUEUE, CLEAR, CANCEL, BOUNDED, KEEP, SIGNAL = 0, 1, 2, 3, 4, 5
Outbox.CANCEL, Outbox.BOUNDED, Outbox.SIGNAL = CANCEL, BOUNDED, SIGNAL
local OLD = 1e6 -- younger entries are being delivered by who posted them
local LEASE, LEASE_BYTES = 100, 1048576

-- Posts an effect; answers the entry's id. Its first 8 bytes are the instant, its last ones the
-- token's: a shard that lost its last second never gives an id again.
function Outbox.post(token, target, kind, bytes)
  S.posted = (S.posted or 0) + 1
  local id = u8(S.now) .. S.sub .. pack('>I2', S.posted) .. sub(token, %TOKEN_NONCE_START%)
  if (kind == ENQUEUE or kind == BOUNDED) and byte(bytes, %EFFECT_DUE_KIND_AT%) == %DUE_AFTER% then -- the delay counts from here and now
    bytes = sub(bytes, %ID_BYTES%) .. '\%DUE_AT%' .. Enqueue.due_of(%DUE_AFTER%, sub(bytes, %EFFECT_DUE%), u8(S.now), 0) .. sub(bytes, %EFFECT_SPEC_AT%)
  end
  call('HSET', S.base .. ':o', id, char(kind, #target) .. target .. bytes)
  call('ZADD', S.base .. ':oz:' .. target, fmt('%d', S.now), id)
  call('ZADD', S.base .. ':ot', 0, target)
  return id
end

local function targets() return call('ZRANGE', S.base .. ':ot', 0, -1) end

-- When the oldest entry for a target was posted; nil if there is none.
local function oldest(target)
  return tonum(call('ZRANGE', S.base .. ':oz:' .. target, 0, 0, 'WITHSCORES')[2])
end

-- How many entries wait for their delivery longer than they should, and the longest wait.
function Outbox.waiting()
  local count, longest = 0, 0
  for _, target in ipairs(targets()) do
    count = count + call('ZCOUNT', S.base .. ':oz:' .. target, '-inf', fmt('%d', S.now - OLD))
    longest = max(longest, S.now - (oldest(target) or S.now))
  end
  return count, longest
end

local function remove(ids)
  local entries = get_many(S.base .. ':o', ids)
  for i, raw in ipairs(entries) do
    if raw then
      local target = sub(raw, %OUTBOX_TARGET_AT%, %OUTBOX_LENGTH_AT% + byte(raw, %OUTBOX_LENGTH_AT%))
      call('HDEL', S.base .. ':o', ids[i])
      call('ZREM', S.base .. ':oz:' .. target, ids[i])
      if not oldest(target) then call('ZREM', S.base .. ':ot', target) end
    end
  end
end

-- Old entries, a share for each target and another one first each time: one that is away holds up
-- no other.
local function old_ids(limit)
  local ids, all = {}, targets()
  local share, first = max(1, floor(limit / max(1, #all))), S.now % max(1, #all)
  for i = 1, #all do
    local key = S.base .. ':oz:' .. all[(first + i) % #all + 1]
    local found = call('ZRANGEBYSCORE', key, '-inf', fmt('%d', S.now - OLD), 'LIMIT', 0, min(share, limit - #ids))
    for _, id in ipairs(found) do ids[#ids + 1] = id end
    if #ids >= limit then break end
  end
  return ids
end

-- outbox: removes delivered entries, answers those asked for or old ones, and for each target
-- since when everything before is delivered. Key: base. Argument: instance, map {st ids, t ids or
-- li}. Reply: map {e, old, n, i}.
function Outbox.call(base, blob)
  local map = Check.map('outbox', blob)
  Shard.open(base, sub(blob, %CALL_INSTANCE%))
  local settled_for = {}
  if map.st then
    for _, raw in ipairs(get_many(base .. ':o', map.st)) do
      if raw then settled_for[sub(raw, %OUTBOX_TARGET_AT%, %OUTBOX_LENGTH_AT% + byte(raw, %OUTBOX_LENGTH_AT%))] = true end
    end
    remove(map.st)
  end
  local ids = map.t or old_ids(min(map.li or 0, LEASE))
  local out, bytes = {}, 0
  for i, raw in ipairs(get_many(base .. ':o', ids)) do
    if raw and (#out == 0 or bytes + #raw <= LEASE_BYTES) then
      local length = byte(raw, %OUTBOX_LENGTH_AT%)
      bytes = bytes + #raw
      out[#out + 1] = {ids[i], sub(raw, %OUTBOX_TARGET_AT%, %OUTBOX_LENGTH_AT% + length), byte(raw), sub(raw, %OUTBOX_TARGET_AT% + length)}
    end
  end
  local anywhere, since = oldest('*') or S.now, {}
  for target in pairs(settled_for) do since[#since + 1] = {target, min(anywhere, oldest(target) or S.now)} end
  Shard.commit()
  return mp.pack({e = out, old = since, n = S.now, i = M.instance})
end

-- Forgets entries that their source has acknowledged, a bounded number a call.
local function forget(source, till, before)
  call('HSET', S.base .. ':of', source, fmt('%d', till))
  local key = S.base .. ':oi:' .. source
  local gone = call('ZRANGEBYSCORE', key, '-inf', '(' .. fmt('%d', before), 'LIMIT', 0, 1000)
  call_many('ZREM', key, gone)
end

local CHECKS = {[ENQUEUE] = Check.job, [CLEAR] = Check.clear, [KEEP] = Check.clear, [BOUNDED] = Check.job, [SIGNAL] = Check.signal,
  [CANCEL] = function(bytes, index) return Check.cancel('\0' .. bytes, index) end}

-- deliver: takes effects that were posted elsewhere, each once. `t` is the source's instant at
-- which they were read; `k`: everything posted before the second instant was acknowledged by the
-- first. Key: base. Argument: instance, map {f source, t, k, e list of [id, kind, bytes]}. Reply:
-- map {v list of [verdict, id], st 1 if read too long ago, n, i}. Verdict 253: no such job here.
function Outbox.deliver(base, blob)
  local map = Check.map('deliver', blob)
  Check.shard(map.f)
  if not map.t or not map.e then refuse('invalid_input', 'deliver names no source, instant or effects') end
  Shard.open(base, sub(blob, %CALL_INSTANCE%))
  for i, one in ipairs(map.e) do
    if type(one[1]) ~= 'string' or #one[1] ~= 16 or type(one[3]) ~= 'string' or not CHECKS[one[2]] then
      refuse('invalid_input', 'an effect is cut short index=' .. i - 1)
    end
    CHECKS[one[2]](one[3], i - 1)
  end
  for _, one in ipairs(map.e) do -- a queue whose keys are not ours is refused before anything is changed
    if one[2] == ENQUEUE or one[2] == BOUNDED then Row.of(sub(one[3], %EFFECT_NAME_AT%, %EFFECT_QUEUE_AT% + byte(one[3], %EFFECT_QUEUE_AT%))) end
  end
  Sweep.run()
  local floor_ = tonum(call('HGET', base .. ':of', map.f) or 0)
  local known, verdicts = map.k, {}
  local stale = map.t <= floor_
  if not stale then
    if known and known[1] > floor_ and known[1] < map.t then forget(map.f, known[1], known[2]) end
    local taken = base .. ':oi:' .. map.f
    for i, one in ipairs(map.e) do
      local id, kind, bytes = one[1], one[2], one[3]
      local verdict, other = 1, nil
      if call('ZSCORE', taken, id) then
        if kind ~= ENQUEUE and kind ~= BOUNDED then verdict = %VERDICT_CLEARED% end
      elseif kind == ENQUEUE or kind == BOUNDED then
        local _, _, _, into
        verdict, _, _, into = Enqueue.effect(sub(bytes, %EFFECT_TO_HASH%) .. pack('>I2', i) .. sub(bytes, %EFFECT_PRIORITY_AT%), nil, kind == BOUNDED)
        other = into
      elseif kind == CANCEL then
        verdict = Settle.cancel(bytes) and %VERDICT_CLEARED% or %VERDICT_NOT_HERE%
      elseif kind == SIGNAL then
        verdict = Settle.signal(bytes) and %VERDICT_CLEARED% or %VERDICT_NOT_HERE%
      else
        local of, name = sub(bytes, %ID_BYTES%), sub(bytes, %CLEAR_NAME_AT%)
        local is_known = Settle.clear(of, name)
        if kind == KEEP and not is_known then Settle.keep_clear(of, name) end
        verdict = (is_known or kind == KEEP) and %VERDICT_CLEARED% or %VERDICT_NOT_HERE%
      end
      if verdict ~= %VERDICT_NOT_HERE% then call('ZADD', taken, fmt('%d', at8(id)), id) end
      verdicts[i] = {verdict, other or ''}
    end
  end
  Shard.commit()
  return mp.pack({v = verdicts, st = stale and 1 or nil, n = S.now, i = M.instance})
end

end
