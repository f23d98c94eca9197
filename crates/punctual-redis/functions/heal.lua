-- Heals what a lost record leaves behind. A call that meets an entry whose record is gone notes it
-- (`S.lost`); then `maintain` walks, in bounded steps, over unique keys, schedules, groups, held
-- and kept jobs, and takes out what stands for no record. The field `h` of `BASE:s` is where the
-- walk is: part 1 | [queue NUL] cursor.
do

local STEP, STEPS = 100, 3 -- entries of a step, steps of a call

-- Which of these ids have no record that waits, runs or is kept.
local function lost_of(ids)
  local raws, out = Job.raws(ids), {}
  for i = 1, #ids do
    if not raws[i] or byte(raws[i]) > %TAG_DEAD% then out[#out + 1] = i end
  end
  return out
end

local function walk_keys(cursor)
  local answer = call('HSCAN', S.k.u, cursor, 'COUNT', STEP)
  local found = answer[2]
  for i = 1, #found, 2 do
    local nul = find(found[i], '\0', 1, true)
    Unique.holder(sub(found[i], 1, nul - 1), sub(found[i], nul + 1))
  end
  return answer[1]
end

-- Schedules by their records, and then rows without one.
local function walk_schedules(cursor)
  local answer = call('HSCAN', S.k.rec, cursor, 'COUNT', STEP)
  for i = 1, #answer[2], 2 do
    if sub(answer[2][i], %RECORD_SCHEDULE%) == 'schedule/' then Schedule.heal(sub(answer[2][i], %RECORD_SCHEDULE_NAME_AT%)) end
  end
  return answer[1]
end

local function walk_schedule_rows(cursor)
  local answer = call('HSCAN', S.k.sc, cursor, 'COUNT', STEP)
  for i = 1, #answer[2], 2 do Schedule.heal((answer[2][i]:gsub('^[~+]', ''))) end
  return answer[1]
end

local function walk_groups(r, cursor)
  local answer = call('HSCAN', S.base .. ':g:' .. r.name, cursor, 'COUNT', STEP)
  local found = answer[2]
  for i = 1, #found, 2 do Group.heal(r, found[i]) end
  return answer[1]
end

-- Entries of a sorted set by position, which end with the id; `out` takes a lost one out.
local function walk_set(key, cursor, out)
  local from = tonum(cursor)
  local members, ids = call('ZRANGE', key, from, from + STEP - 1), {}
  for i, member in ipairs(members) do ids[i] = sub(member, -16) end
  local gone = lost_of(ids)
  for _, i in ipairs(gone) do
    call('ZREM', key, members[i])
    out()
  end
  return #members == STEP and fmt('%d', from + STEP - #gone) or '0'
end

local function walk_held(r, cursor)
  return walk_set(S.base .. ':h:' .. r.name, cursor, function() r.counts[HELD], r.rest = max(0, r.counts[HELD] - 1), nil end)
end

local function walk_later(r, cursor)
  Group.write_lines()
  return walk_set(S.base .. ':gm:' .. r.name, cursor, function() end)
end

local function kept_walk(state)
  return function(r, cursor)
    return walk_set(S.base .. ':k:' .. state .. ':' .. r.name, cursor, function() Settled.unkept(r, state) end)
  end
end

-- In their order: part, and what takes one step of a queue.
local PARTS = {'u', 'c', 'd', 'n', 'g', 'm', 'y', 'w', 'k', 'h', '4', '5', '6'}
local OF_SHARD = {u = walk_keys, c = walk_schedules, d = walk_schedule_rows, n = function(cursor) return Named.heal_counts(cursor, STEP) end}
local function walk_waiting(r, cursor)
  return Share.heal_waiting(r, cursor, function(key, from) return walk_set(key, from, function() end) end)
end

local WALKS = {w = walk_waiting, g = walk_groups, m = walk_later, y = function(r, cursor) return Share.heal(r, cursor, STEP) end, k = function(r, cursor) return Named.heal(r, cursor, STEP) end, h = walk_held, ['4'] = kept_walk(COMPLETED), ['5'] = kept_walk(CANCELLED), ['6'] = kept_walk(DEAD)}

local function queue_after(name)
  return call('ZRANGEBYLEX', S.k.qs, name and '(' .. name or '-', '+', 'LIMIT', 0, 1)[1]
end

-- Where the walk begins, in a part from a number on; nil at the end.
local function start_of(nth)
  local part = PARTS[nth]
  if not part then return nil end
  if OF_SHARD[part] then return part .. '0' end
  local q = queue_after(nil)
  return q and part .. q .. '\0000'
end

local function step(at)
  local part, nth = sub(at, 1, 1), nil
  for i, one in ipairs(PARTS) do if one == part then nth = i end end
  if not nth then return nil end
  if OF_SHARD[part] then
    local cursor = OF_SHARD[part](sub(at, 2))
    return cursor ~= '0' and part .. cursor or start_of(nth + 1)
  end
  local nul = find(at, '\0', 1, true)
  local name = sub(at, 2, nul - 1)
  local cursor = Row.find(name) and WALKS[part](Row.of(name), sub(at, nul + 1)) or '0'
  if cursor ~= '0' then return part .. name .. '\0' .. cursor end
  local q = queue_after(name)
  return q and part .. q .. '\0000' or start_of(nth + 1)
end

-- Goes on with a walk, if there is one; whether there is more of it.
function Heal.walk()
  local at = call('HGET', S.k.s, 'h')
  if not at then return false end
  for _ = 1, STEPS do at = at and step(at) end
  if at then call('HSET', S.k.s, 'h', at) else call('HDEL', S.k.s, 'h') end
  return at ~= nil
end

-- A record was lost: `maintain` is to walk over everything once more.
function Heal.note() call('HSET', S.k.s, 'h', start_of(1)) end

end
