-- How many jobs of a share wait, while the settings of the queue bound that. `BASE:sw:QUEUE` has a
-- member of each: when its bound was set 8 | share | NUL | id. So a job counts once, and a number
-- is a range. The field `b` + queue of `BASE:s` is the bound: the version of the record that set it
-- 8 | how many may wait 4 | where the count of jobs is that waited then, 0 at its end 1 | cursor.
-- What former bounds left is taken out in bounded steps. The machine has the same in
-- `share_bounds.rs`.
do

-- Jobs that the write of a bound examines, and an enqueue until all are counted.
local AT_ONCE, PER_CALL = 1000, 250
-- Members of former bounds that a write takes out, and a step of the repair.
local FORGOTTEN, FORGOTTEN_A_STEP = 10000, 1000
-- Where jobs wait, in the order in which they are counted: a job moves only forward in it, or is
-- counted by what moves it. Of ready ones only the lines of groups, shares and limits have any
-- with a share; those of shares are read before and after those of groups, as a job that is alone
-- in its group stands in a share.
local HELD_ONES, SCHEDULED_ONES, SHARES, GROUPS, LIMITS, AGAIN = 1, 2, 3, 4, 5, 6

local function key_of(r) return S.base .. ':sw:' .. r.name end

-- The bound of a queue; false if it has none.
local function bound_of(r)
  if not flag(r, %ROW_BOUNDED%) then return false end
  local bound = r.bound
  if bound == nil then
    local raw = call('HGET', S.k.s, 'b' .. r.name)
    bound = raw and {since = sub(raw, %INSTANT_BYTES%), most = unp('>I4', raw, 9), place = byte(raw, %BOUND_STATE_AT%), cursor = #raw > 13 and sub(raw, %BOUND_PLACE_AT%) or nil} or false
    r.bound = bound
  end
  return bound
end

function Share.is_bounded(r) return bound_of(r) and true or false end

-- A job of a share takes a place among those that wait, or waits no more.
function Share.waits(r, share, id)
  local bound = bound_of(r)
  if bound then Group.gather(key_of(r), bound.since .. share .. '\0' .. id, true) end
end

function Share.waits_no_more(r, share, id)
  local bound = bound_of(r)
  if bound then Group.gather(key_of(r), bound.since .. share .. '\0' .. id, false) end
end

-- Jobs of a claim, from one to another, wait no more. Their shares are known, or empty.
function Share.claimed(r, take, from, till)
  if not bound_of(r) then return end
  for i = from, till do
    local share, raw, _ = take.shares[i], take.records[i], nil
    if not share and raw and byte(raw) == %TAG_WAITING% then _, _, _, _, _, _, _, _, _, share = Job.parts(raw) end
    if share then Share.waits_no_more(r, share, take.ids[i]) end
  end
end

local function keep(r, bound)
  r.bound = bound
  call('HSET', S.k.s, 'b' .. r.name, bound.since .. pack('>I4B', bound.most, bound.place) .. (bound.cursor or ''))
end

-- Ids that wait in a place, after a cursor, each with the cursor after it.
local function ids_in(r, place, cursor, limit)
  if place == HELD_ONES then return Inspect.by_state(r, HELD, cursor, limit) end
  if place == SCHEDULED_ONES then return Inspect.by_state(r, SCHEDULED, cursor, limit) end
  if place == LIMITS then return Named.listed(r, cursor, limit) end
  if place ~= GROUPS then return r.flags >= %ROW_SHARED% and Share.listed(r, cursor, limit) or {} end
  local out = {}
  for i, member in ipairs(call('ZRANGEBYLEX', S.base .. ':l:' .. r.name, cursor and '(' .. cursor or '-', '+', 'LIMIT', 0, limit)) do
    out[i] = {sub(member, -16), member}
  end
  return out
end

-- Counts some of the jobs that waited when the bound was set.
local function count_more(r, limit)
  local bound, left = bound_of(r), limit
  while bound.place > 0 and left > 0 do
    if S.changed_shares or S.changed_groups then Share.flush() end
    Group.write_lines()
    local found, ids = ids_in(r, bound.place, bound.cursor, left), {}
    for i = 1, #found do ids[#ids + 1] = found[i][1] or nil end
    local raws = Job.raws(ids)
    for i = 1, #ids do
      local raw = raws[i]
      local o = raw and byte(raw) <= %TAG_HELD% and byte(raw) > %TAG_PLAIN% and Job.parse(ids[i], raw).opts
      if o and o.sh then Share.waits(r, o.sh, ids[i]) end
    end
    bound.cursor = found[#found] and found[#found][2]
    if #found < left then bound.place, bound.cursor = (bound.place + 1) % (AGAIN + 1), nil end
    left = left - #found
  end
  keep(r, bound)
end

-- The bound that keeps a new job of a share out; nil if none does. Jobs of `goes` go anyway.
function Share.full(r, share, goes)
  local bound = share and bound_of(r)
  if not bound then return nil end
  if bound.place > 0 and not S.counts_more then
    S.counts_more = true
    count_more(r, PER_CALL)
  end
  Group.write_lines()
  local own = bound.since .. share
  local n = call('ZLEXCOUNT', key_of(r), '[' .. own .. '\0', '(' .. own .. '\1')
  for i = 1, #goes do
    if call('ZSCORE', key_of(r), own .. '\0' .. goes[i]) then n = n - 1 end
  end
  return n >= bound.most and bound.most or nil
end

-- A queue obeys other settings of its shares, which a record of that version has.
function Share.bound(r, most, version)
  local before = flag(r, %ROW_BOUNDED%) and bound_of(r)
  set_flag(r, %ROW_BOUNDED%, true)
  if before and most then
    before.most = most
    keep(r, before)
  elseif most then
    keep(r, {since = u8(version), most = most, place = HELD_ONES})
    count_more(r, AT_ONCE)
  elseif before then
    call('HDEL', S.k.s, 'b' .. r.name)
    call('ZREMRANGEBYRANK', key_of(r), 0, FORGOTTEN - 1)
    if call('EXISTS', key_of(r)) == 1 then Heal.note() end
  end
  if not most then r.bound = false end
end

-- One step of a walk over what is counted: members of former bounds, or of jobs without a record,
-- are taken out.
function Share.heal_waiting(r, cursor, walk)
  Group.write_lines()
  local bound = bound_of(r)
  local former = call('ZRANGEBYLEX', key_of(r), '-', bound and '(' .. bound.since or '+', 'LIMIT', 0, FORGOTTEN_A_STEP)
  if #former > 0 then
    call_many('ZREM', key_of(r), former)
    return '0.'
  end
  if not bound then return '0' end
  return walk(key_of(r), cursor == '0.' and '0' or cursor)
end

end
