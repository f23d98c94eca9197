-- Limits of shares: how many jobs of one are active, how many start in a span of time, and blocks.
-- A share whose limits are closed leaves the order of turns with all its jobs, and waits for an
-- instant or for a job of it that ends.
do

-- Shares that one claim files anew, besides those it claims from, and idle ones that it forgets.
local EXAMINED_MAX, FORGOTTEN = 250, 16
-- What is closed.
local CONCURRENCY, RATE, BLOCKED, PAUSED = 1, 2, 3, 4
-- Until when a paused share is blocked: no block lasts that long.
local UNTIL_RESUMED = 9007199254740991
Share.UNTIL_RESUMED = UNTIL_RESUMED
Share.CONCURRENCY, Share.RATE, Share.BLOCKED = CONCURRENCY, RATE, BLOCKED

local EQUAL = {most = 0, weights = {}}

-- Settings of shares, of those of their queue.
local function read_settings(settings)
  if not (settings.sc or settings.sr or settings.sw) then return EQUAL end
  local weights, pairs_of = {}, settings.sw or {}
  for i = 1, #pairs_of, 2 do weights[pairs_of[i]] = pairs_of[i + 1] end
  return {most = settings.sc or 0, rate = settings.sr, weights = weights, has_limits = settings.sc or settings.sr}
end

-- The settings of the shares of a queue.
function Share.settings(r)
  local sh = Share.of(r)
  local limits = sh.settings
  if not limits then
    local known = call('HGET', S.k.rec, 'queue/' .. r.name)
    limits = known and byte(known, %VALUE_KIND_AT%) == %VALUE_SETTINGS% and read_settings(mp.unpack(sub(known, %VALUE_MAP_AT%))) or EQUAL
    sh.settings = limits
  end
  return limits
end

function Share.weight(r, share)
  local sh = r.share
  return (sh and sh.settings or Share.settings(r)).weights[share] or 1
end

-- What the rate of a share has counted, as a gate.
function Share.counter(row, limits)
  local g = row.gate
  if not g or g.of ~= limits.rate then
    g = Gate.counter(limits.rate, g and Gate.counted(g) or row.counted)
    g.of, row.gate = limits.rate, g
  end
  return g
end

-- What keeps jobs of a share from starting, and when time opens it; 0: only a job that ends does.
local function closed(row, limits)
  local blocked = row.blocked > S.now and row.blocked or 0
  if blocked == UNTIL_RESUMED then return PAUSED, 0 end
  if not limits.has_limits then
    if blocked > 0 then return BLOCKED, blocked end
    return nil
  end
  local rate = limits.rate and Gate.opens_at(Share.counter(row, limits)) or 0
  local full = limits.most > 0 and row.active >= limits.most
  local by = blocked > 0 and BLOCKED or full and CONCURRENCY or rate > 0 and RATE or nil
  if by then return by, full and 0 or max(rate, blocked) end
end
Share.closed = closed

-- How many jobs of a share its limits let start now.
function Share.room(row, limits)
  if not limits.has_limits then return math.huge end
  local slots = limits.most > 0 and max(0, limits.most - row.active) or math.huge
  return limits.rate and min(slots, Gate.starts_left(Share.counter(row, limits))) or slots
end

-- Until when something of a share is to be remembered; nil if nothing is.
local function remembered(row, limits)
  local till = limits.rate and Gate.counts_until(Share.counter(row, limits)) or 0
  if row.blocked > till then till = row.blocked end
  return till > S.now and till or nil
end

-- Says where a share is to be filed: among turns, or by the instant at which it is filed again.
function Share.file(r, row, ready, limits)
  local by, till = closed(row, limits)
  row.round = ready and not by and floor(row.active / (limits.weights[row.share] or 1)) or nil
  row.idle, row.until_ = nil, nil
  if not ready then
    row.until_ = remembered(row, limits)
    row.idle = row.until_ and 1
  elseif by and till > 0 then
    row.idle, row.until_ = 0, till
  end
  if by and till > row.open_since then row.open_since = till end
end

-- After a change of the limits, files some of the shares anew that were not filed since.
local function check_some(r)
  local sh = Share.of(r)
  local answer = call('HSCAN', Share.rows_key(r), sh.check, 'COUNT', EXAMINED_MAX)
  local shares = {}
  for i = 1, #answer[2], 2 do shares[#shares + 1] = answer[2][i] end
  local rows = Share.fetch(r, shares)
  for i = 1, #shares do Share.catch_up(r, rows[shares[i]]) end
  sh.check, sh.changed = answer[1] ~= '0' and answer[1] or '', true
end

-- Files those of an order by time anew whose instant has come.
local function file_due(r, kind, limit)
  local found = call('ZRANGEBYSCORE', S.base .. kind .. r.name, '-inf', fmt('%d', S.now), 'LIMIT', 0, limit)
  local rows = Share.fetch(r, found)
  for i = 1, #found do
    local row = rows[found[i]]
    if row.until_ and row.until_ > row.open_since and row.idle == 0 then row.open_since = row.until_ end
    if not row.was_there then call('ZREM', S.base .. kind .. r.name, found[i]) end -- it is of none
    Share.catch_up(r, row)
  end
end

-- Shares whose limits have opened by now stand among turns again; before a claim.
function Share.open(r)
  local sh = Share.of(r)
  if sh.check ~= '' then check_some(r) end
  if sh.park > 0 and sh.park <= S.now then
    file_due(r, ':sp:', EXAMINED_MAX)
    file_due(r, ':si:', FORGOTTEN)
    Share.flush()
    local first = 0
    for _, kind in ipairs({':sp:', ':si:'}) do
      local found = call('ZRANGE', S.base .. kind .. r.name, 0, 0, 'WITHSCORES')
      local at = tonum(found[2] or nil)
      if at and (first == 0 or at < first) then first = at end
    end
    sh.park, sh.changed = first, true
  elseif S.changed_shares then
    Share.flush()
  end
end

-- Places of shares in lanes from which a claim may take.
function Share.ready(r, from, till)
  if S.changed_shares or S.changed_groups then Share.flush() end
  local n = 0
  for lane, stands in pairs(Share.of(r).lanes) do
    if lane >= from and lane <= till then n = n + stands.places - stands.parked end
  end
  return n
end

-- When time opens the first closed share with ready jobs; nil if none is closed so.
local function opens(r)
  if Share.of(r).park == 0 then return nil end
  local first = call('ZRANGE', S.base .. ':sp:' .. r.name, 0, 0, 'WITHSCORES')
  return first[2] and max(tonum(first[2]), S.now) or nil
end

-- When time opens a share and the limits of its queue let jobs start; 0 if never.
function Share.wake_at(r)
  local at = opens(r)
  if not at then return 0 end
  local closed_till = Gate.closed_until(r)
  return closed_till and (closed_till > 0 and max(at, closed_till) or 0) or at
end

-- The shares of a queue obey other settings.
function Share.set(r, settings)
  if r.flags < %ROW_SHARED% and not r.share then return end
  local before, sh = Share.settings(r), Share.of(r)
  local after = read_settings(settings)
  sh.settings = after
  if sh.shares == 0 then return end
  local one, other = before.rate or {}, after.rate or {}
  if before.most ~= after.most or one[1] ~= other[1] or one[2] ~= other[2] or one[3] ~= other[3] or one[4] ~= other[4] then
    sh.check, sh.changed, r.notify = '0', true, 3
    check_some(r)
  end
  local named = {}
  for share, weight in pairs(before.weights) do if after.weights[share] ~= weight then named[#named + 1] = share end end
  for share in pairs(after.weights) do if before.weights[share] == nil then named[#named + 1] = share end end
  local rows = Share.fetch(r, named)
  for i = 1, #named do if rows[named[i]].was_there then Share.changes(rows[named[i]]) end end
end

-- Blocks a share for a span, or pauses it without one; 0 ends both, another span ends no pause.
-- Whether that changed anything.
function Share.block(q, share, span)
  if span == 0 and not Row.find(q) then return false end
  local r = Row.of(q)
  local row, sh, till = Share.row(r, share), Share.of(r), not span and UNTIL_RESUMED or span > 0 and S.now + span or 0
  local before = row.blocked > S.now and row.blocked or 0
  if till == before or before == UNTIL_RESUMED and till > 0 then return false end
  if till > 0 and before == 0 and sh.blocked >= %BLOCKED_SHARES_MAX% then
    refuse('engine_full', 'too many shares of the queue are blocked; wait for some to open, or pause the queue queue=' .. q .. ' limit=%BLOCKED_SHARES_MAX%')
  end
  row.blocked = till
  row.open_since = max(min(row.open_since, S.now), span and till > 0 and till or S.now)
  Share.catch_up(r, row)
  return true
end

end
