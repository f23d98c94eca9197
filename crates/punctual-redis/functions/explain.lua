-- explain: why a job has not run, every reason that holds, the weightiest first; numbers as in
-- docs/wire-protocol.md.
do

local AHEAD_MAX = 1000

-- Workers of the last minute: whether one claims from the queue, and whether one of them takes the
-- kind.
local function takers(q, kind)
  local here, takes = false, false
  for _, w in ipairs(Workers.all()) do
    for _, name in ipairs(w.record.q or {}) do
      if name == q then
        here = true
        local kinds = w.record.k or {}
        if #kinds == 0 then takes = true end
        for _, known in ipairs(kinds) do if known == kind then takes = true end end
      end
    end
  end
  return here, takes
end

-- Jobs of a list before one: chunks are in order, those pushed before. Where there are stale
-- entries each is looked at; behind too many of them it is at most as many as the list has.
local function listed_before(r, lane, id)
  local key, live, examines = S.base .. ':r:' .. lane .. ':' .. r.name, r.in_lists[lane], (r.stale[lane] or 0) > 0
  local n, start = 0, 0
  repeat
    local chunks = call('LRANGE', key, start, start + 9)
    for i = 1, #chunks do
      if examines then
        local ids = Line.live(chunks[i])
        for k = 1, #ids do if ids[k] == id then return n + k - 1 end end
        n = n + #ids
      else
        local one = Line.spelt(chunks[i])
        local from = Line.ids_from(one)
        local at = find(one, id, from, true)
        if at then return n + (at - from) / 16 end
        n = n + (#one - from + 1) / 16
      end
      if n >= AHEAD_MAX then return n end
    end
    start = start + 10
  until #chunks < 10 or examines and start >= 2 * AHEAD_MAX / 100
  return max(n, live - 1)
end

-- Jobs that would be claimed before it, counted up to a bound.
local function ahead_of(r, j)
  local own, kept = lane_of(j), j.opts.li and Named.ahead(r, j)
  if kept then return min(kept, AHEAD_MAX) end
  local ahead, key = r.flags >= %ROW_SHARED% and Share.ahead(r, j, own) or 0, '\1' .. Job.key(j)
  local elsewhere = j.opts.g or j.opts.sh
  for lane = own >= 10 and 10 or 0, own do
    local listed, overflow = r.in_lists[lane] or 0, r.in_overflow[lane] or 0
    if lane < own then
      ahead = ahead + overflow + (lane < 10 and listed or 0)
    elseif overflow > 0 and not elsewhere then
      ahead = ahead + call('ZLEXCOUNT', S.base .. ':x:' .. lane .. ':' .. r.name, '-', '(' .. (j.ext.fr and '\0' .. Job.key(j) or key))
    end
    if ahead >= AHEAD_MAX then return AHEAD_MAX end
  end
  if own < 10 and (r.in_lists[own] or 0) > 0 and not elsewhere then ahead = ahead + listed_before(r, own, j.id) end
  return floor(min(ahead, AHEAD_MAX))
end

local function why_ready(j)
  local r, out = Row.find(j.q), {}
  if flag(r, %ROW_PAUSED%) then out[1] = {4} end
  if r.flags >= %ROW_LIMITED% then Gate.why(r, out) end
  if r.flags >= %ROW_SHARED% and j.opts.sh then Share.why(r, j, lane_of(j), out) end
  if j.opts.li then Named.why(j, out) end
  if j.opts.g then
    local row = Group.row(r, j.opts.g)
    if row.a then
      out[#out + 1] = {5, row.a}
    elseif row.h and row.h ~= j.id then
      local holding = Job.load(row.h)
      out[#out + 1] = {6, row.h, holding and holding.due or S.now}
    end
  end
  if is_suspect(j) then out[#out + 1] = {7, j.ext.c or 0} end
  local here, takes = takers(j.q, j.kind)
  if not here then out[#out + 1] = {8} elseif not takes then out[#out + 1] = {9} end
  local ahead = ahead_of(r, j)
  if #out == 0 or ahead > 0 then out[#out + 1] = {10, ahead} end
  return out
end

-- The id that a name of a held job is, in the form with hyphens; nil if it is none.
local function named(name)
  if #name ~= 36 or not find(name, '^%x+%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x+$') then return nil end
  local hex = string.gsub(name, '%-', '')
  if #hex ~= 32 then return nil end
  return (string.gsub(hex, '%x%x', function(two) return char(tonum(two, 16)) end))
end

-- The jobs of this shard that ended without clearing their name: nothing releases who waits for
-- them.
local function never_released(names, out)
  for i = 1, #names do
    local id = named(names[i])
    local raw = id and Job.raw(id)
    local state = nil
    if raw and byte(raw) >= %TAG_TOMBSTONE% then
      raw = Settled.tombstone(id, raw)
      if raw and Settled.tombstone_counts(raw) then state = byte(raw, %TOMB_STATE%) % 8 end
    elseif raw then
      local parent = Job.parse(id, raw)
      state = parent.tag
      if state <= 3 and Job.has_expired(parent) and not (state < 3 and parent.due <= S.now and Lease.of(parent)) then state = CANCELLED end
    end
    if state and state > ACTIVE then out[#out + 1] = {15, id, state} end
  end
end

-- The reasons of a job in a state.
function Explain.reasons(j, state)
  if state == ACTIVE then return {{11}} end
  if state > ACTIVE then return {{state + 8}} end
  if state == READY then return why_ready(j) end
  local out = {}
  if state == HELD then
    local names = j.ext.w or {}
    never_released(names, out)
    if j.ext.fo then out[#out + 1] = {3, j.ext.fo} end
    Flow.why(j, out)
    if #names > 0 then
      local reason = {2}
      for i = 1, #names do reason[i + 1] = names[i] end
      out[#out + 1] = reason
    end
    if Settle.holds(j) then out[#out + 1] = {0, j.due8} end
  elseif (j.ext.a or 0) > 0 then
    out[1] = {1, j.due8, j.ext.f or 0}
  else
    out[1] = {0, j.due8}
  end
  local r = Row.find(j.q)
  if r and flag(r, %ROW_PAUSED%) then out[#out + 1] = {4} end
  return out
end

end
