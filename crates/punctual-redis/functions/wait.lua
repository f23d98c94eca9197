-- What waiters need: listen, watch, and the feed of changes (`BASE:f`, watched by `BASE:fw`).
do


-- listen. Key: base. Argument: instance, map {q, any}. Reply: map {w, wk, n, i}.
function Wait.listen(base, blob)
  local map = Check.map('listen', blob)
  Shard.open(base, sub(blob, %CALL_INSTANCE%), map.q, true, map.any)
  local work, open = 0, {}
  for _, name in ipairs(map.q or {}) do
    local r = not S.empty and Row.find(name)
    if r and not flag(r, %ROW_PAUSED%) then
      open[#open + 1] = r
      if Line.has_work(r, true) then work = 1 end
    end
  end
  local wake = work == 0 and Leader.wake_at(open) or 0
  if wake > 0 and Leader.is_covered(open, wake) then wake = 0 end
  return mp.pack({w = work, wk = wake > 0 and wake or nil, n = S.now, i = M.instance})
end

-- watch: registers a process for wakeups when jobs settle, and answers those not settled.
-- Key: base. Argument: instance, map {t, p, un}. Reply: map {o, n, i}.
function Wait.watch(base, blob)
  local map = Check.map('watch', blob)
  Shard.open(base, sub(blob, %CALL_INSTANCE%))
  Sweep.run()
  local open, key = {}, base .. ':ws'
  local records = Job.raws(map.t or {})
  for i, id in ipairs(map.t or {}) do
    local raw = records[i]
    if raw and byte(raw) <= %TAG_HELD% then
      open[#open + 1] = id
      local of, known = call('HGET', key, id) or '', false
      for at = 1, #of, 8 do known = known or sub(of, at, at + 7) == map.p end
      if not known then call('HSET', key, id, of .. map.p) end
    end
  end
  if #open > 0 then
    M.watch, M.rest = max(M.watch, map.un or 0, S.now + MINUTE), nil
    -- Who still waits watches again before that; without names no client is looked for any more.
    call('EXPIRE', key, '120')
  end
  Shard.commit()
  return mp.pack({o = open, n = S.now, i = M.instance})
end

-- A cursor of changes is their number, and from this bit on 12 bits of the instance: one of another
-- namespace, or of what was there before, is none of this one.
local NUMBERS = 2 ^ 40

-- changes: those after a cursor; records the feed, and wakes the process, for a minute.
-- Key: base. Argument: instance, map {p, af}. Reply: map {c, cu, g, n, i}.
function Wait.changes(base, blob)
  local map = Check.map('changes', blob)
  Shard.open(base, sub(blob, %CALL_INSTANCE%))
  local recorded = M.feed >= S.now
  M.feed, M.rest = S.now + MINUTE, nil
  call('HSET', base .. ':fw', map.p or BELOW, fmt('%d', M.feed))
  local own = unp('>I2', M.instance) % 4096 * NUMBERS
  local latest, after, out, gap = M.change, map.af and map.af - own, {}, false
  if after then
    if not recorded then call('DEL', base .. ':f') end
    local oldest = latest - call('LLEN', base .. ':f') + 1
    gap = not recorded or after + 1 < oldest or after > latest -- of another one it is far below or above
    local cursor = gap and oldest - 1 or after
    local found = call('LRANGE', base .. ':f', cursor - oldest + 1, cursor - oldest + 1000)
    for i = 1, #found do out[i] = mp.unpack(found[i]) end
    latest = cursor + #found
  end
  Sweep.run()
  Shard.commit()
  return mp.pack({c = out, cu = latest + own, g = gap and 1 or 0, n = S.now, i = M.instance})
end

end
