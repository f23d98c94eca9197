-- Shares: jobs of one key take turns with those of others, by weight. `BASE:ss:QUEUE`: share to
-- its row; `BASE:sy:QUEUE`: the places of all shares, share NUL lane 1 | place as in an overflow
-- set; `BASE:st:LANE:QUEUE`: shares that may be claimed from, round 4 | pass 8 | share, so that
-- the first one has the next turn; `BASE:sp:QUEUE`: closed ones, by the instant at which time
-- opens them; `BASE:si:QUEUE`: ones without ready jobs, by the instant until which something is
-- remembered of them; `BASE:sb:QUEUE`: shares of 16 jobs and more, by the power of two of their
-- number. A queue with shares has the flags ROW_SHARED and ROW_LIMITED, and a field `y` + queue of
-- `BASE:s`. A share without jobs and without anything to remember has no row. The order of turns
-- is that of `shares.rs` in the machine.
--
-- A row: version 1 | flags 1 | active 4 | open since 8 | [round 4] | [1 if it is idle 1 | until 8]
-- | [blocked until 8] | [what its rate has counted, as in a gate: length 2, bytes] | per lane with
-- ready jobs: lane 1 | pass 8 | places 4 | known ones 1, each length 2 and the place, first in
-- line | [bytes of the longest of their records, which are as they were sent 3].
do

local ROW_VERSION = 1
local HAS_ROUND, HAS_PARKED, HAS_BLOCK, HAS_RATE, HAS_SENT = 1, 2, 4, 8, 16
-- Places that a row knows: a claim takes them without another read.
local KNOWN_MAX = 8
Share.KNOWN_MAX = KNOWN_MAX
-- Bytes of the place of a job, and how a row says that.
local JOB_PLACE, PLACE_LENGTH = 38, '\0\38'
Share.KNOWN_BYTES = 2 + JOB_PLACE
-- How much a turn of weight 1 raises a pass: every weight up to 1,000 divides it well.
local TURN = 1000000
-- Of a longer record a row does not say how long it is.
Share.WIDEST = 65535
-- A share of fewer jobs is not in the order of the largest.
local LARGE_MIN = 16

local function rows_key(r) return S.base .. ':ss:' .. r.name end
local function places_key(r)
  local key = r.places_key
  if not key then
    key = S.base .. ':sy:' .. r.name
    r.places_key = key
  end
  return key
end
local function turns_key(r, lane) return S.base .. ':st:' .. lane .. ':' .. r.name end
Share.rows_key, Share.places_key, Share.turns_key = rows_key, places_key, turns_key

-- What the shares of a queue have together: version 1 | shares 4 | blocked 4 | active 4 | lower
-- bound of the instants in `sp` and `si` 8 | cursor of the check after a change of limits 1, bytes
-- | per lane with places: lane 1 | largest pass that was claimed 8 | pass of jobs without a share 8
-- (0: none) | places 4 | those of closed shares 4.
local STATE_VERSION, STATE, LANE = 1, '>BI4I4I4I8B', '>BI8I8I4I4'
local STATE_BYTES, LANE_BYTES = 22, 25

local function new_state() return {shares = 0, blocked = 0, active = 0, park = 0, check = '', lanes = {}, fresh = 0, others = 0} end

local function read_state(raw)
  local sh, version, length = new_state(), nil, nil
  version, sh.shares, sh.blocked, sh.active, sh.park, length = unp(STATE, raw)
  if version ~= STATE_VERSION then refuse_later('what is stored of shares') end
  sh.check = sub(raw, STATE_BYTES + 1, STATE_BYTES + length)
  for at = STATE_BYTES + length + 1, #raw, LANE_BYTES do
    local lane, turn, others, places, parked = unp(LANE, raw, at)
    sh.lanes[lane] = {turn = turn, others = others, places = places, parked = parked}
  end
  return sh
end

local function write_state(sh)
  local raw = pack(STATE, STATE_VERSION, sh.shares, sh.blocked, sh.active, sh.park, #sh.check) .. sh.check
  for lane, stands in pairs(sh.lanes) do raw = raw .. pack(LANE, lane, stands.turn, stands.others, stands.places, stands.parked) end
  return raw
end

-- What the shares of a queue have together.
function Share.of(r)
  local sh = r.share
  if not sh then
    local raw = r.flags >= %ROW_SHARED% and call('HGET', S.k.s, 'y' .. r.name)
    sh = raw and read_state(raw) or new_state()
    r.share = sh
  end
  return sh
end

-- A lane of it, to be changed.
local function lane_of_state(sh, lane)
  local stands = sh.lanes[lane]
  if not stands then
    stands = {turn = 0, others = 0, places = 0, parked = 0}
    sh.lanes[lane] = stands
  end
  return stands
end
Share.lane_of_state = lane_of_state

-- A queue's row is written: what its shares have together, too.
function Share.close(r)
  local sh = r.share
  sh.fresh, sh.others = 0, 0
  if sh.shares == 0 then
    if r.flags >= %ROW_SHARED% then
      set_flag(r, %ROW_SHARED%, false)
      call('HDEL', S.k.s, 'y' .. r.name)
    end
    r.share = nil
  elseif sh.changed then
    sh.changed, S.fields = nil, S.fields or {}
    S.fields['y' .. r.name] = write_state(sh)
  end
end

local function new_row(r, share)
  return {q = r.name, share = share, active = 0, open_since = 0, blocked = 0, lanes = {}, round = nil, dirty = nil, was_there = false, was_round = nil,
    was_blocked = false, was_ready = 0, was_class = nil, idle = nil, until_ = nil} -- room for all
end

-- Jobs of a share that are ready, by its places.
local function ready_of(row)
  local n = 0
  for _, line in pairs(row.lanes) do n = n + line.n end
  return n
end
Share.ready_of = ready_of

-- The power of two of the jobs of a large share; nil if it is none.
local function class_of(jobs)
  if jobs < LARGE_MIN then return nil end
  local class = 4
  while jobs >= 2 ^ (class + 1) do class = class + 1 end
  return class
end

-- How a row is stored now: what a change of it is compared with.
local function note_stored(row, is_there, ready, class)
  row.was_there, row.was_round, row.was_idle, row.was_until, row.was_blocked = is_there, row.round, row.idle, row.until_, row.blocked > 0
  row.was_ready, row.was_class = ready, class
end

local function read_row(row, raw)
  local version, flags, at = nil, nil, 15
  version, flags, row.active, row.open_since = unp('>BBI4I8', raw)
  if version ~= ROW_VERSION then refuse_later('the row of a share') end
  if flags % (2 * HAS_ROUND) >= HAS_ROUND then row.round, at = unp('>I4', raw, at) end
  if flags % (2 * HAS_PARKED) >= HAS_PARKED then
    row.idle, row.until_ = unp('>BI8', raw, at)
    at = at + 9
  end
  if flags % (2 * HAS_BLOCK) >= HAS_BLOCK then row.blocked, at = unp('>I8', raw, at) end
  if flags % (2 * HAS_RATE) >= HAS_RATE then
    local length = unp('>I2', raw, at)
    row.counted, at = sub(raw, at + 2, at + 1 + length), at + 2 + length
  end
  local size, sent = #raw, nil
  if flags >= HAS_SENT then
    size = size - 3
    sent = unp('>I3', raw, size + 1)
  end
  while at <= size do
    local lane, pass, n, count = unp('>BI8I4B', raw, at)
    local known, mixed, first = {}, false, at + 14
    at = first
    for k = 1, count do
      local length = unp('>I2', raw, at)
      known[k], at = sub(raw, at + 2, at + 1 + length), at + 2 + length
      mixed = mixed or length ~= JOB_PLACE
    end
    row.lanes[lane] = {pass = pass, n = n, was_n = n, known = known, known_bytes = not mixed and sub(raw, first, at - 1) or nil, mixed = mixed, sent = sent, filed_round = row.round, filed_pass = pass,
      prefix = row.share .. '\0' .. char(lane), member = row.round and pack('>I4I8', row.round, pass) .. row.share or nil}
  end
end

-- The places that a row knows of a line, each behind its length: the first that are stored.
local function known_places(line)
  local bytes, known = line.known_bytes, line.known
  if bytes then return bytes end
  local count = min(#known, KNOWN_MAX)
  if not line.mixed then
    bytes = count > 0 and PLACE_LENGTH .. concat(known, PLACE_LENGTH, 1, count) or ''
  else
    local parts = {}
    for k = 1, count do parts[2 * k - 1], parts[2 * k] = pack('>I2', #known[k]), known[k] end
    bytes = concat(parts)
  end
  line.known_bytes = bytes
  return bytes
end

local function write_row(row)
  local flags, head = 0, ''
  if row.round then
    flags, head = HAS_ROUND, pack('>I4', row.round)
  end
  if row.until_ then
    flags, head = flags + HAS_PARKED, head .. pack('>BI8', row.idle, row.until_)
  end
  if row.blocked > 0 then
    flags, head = flags + HAS_BLOCK, head .. u8(row.blocked)
  end
  local counted = row.gate and Gate.counted(row.gate) or row.counted
  if counted then
    flags, head = flags + HAS_RATE, head .. pack('>I2', #counted) .. counted
  end
  local parts, n = {pack('>BBI4I8', ROW_VERSION, flags, row.active, row.open_since), head}, 2
  for lane, line in pairs(row.lanes) do
    parts[n + 1], parts[n + 2], n = pack('>BI8I4B', lane, line.pass, line.n, min(#line.known, KNOWN_MAX)), known_places(line), n + 2
  end
  return concat(parts)
end

-- Rows of shares are kept with the row of their queue, and trusted as long. These many of all
-- queues; then all are read anew.
local KEPT_MAX = 1024
local kept_count, kept_since = 0, 0

-- The rows of a queue's shares that are known, by share.
local function known_rows(r)
  local sh = Share.of(r)
  local rows = sh.rows
  if not rows or sh.rows_since ~= kept_since and sh.rows_of ~= S then
    rows = {}
    sh.rows, sh.rows_since, sh.rows_of = rows, kept_since, S
  end
  return rows
end

Share.known_rows = known_rows

-- Reads the rows of shares that are not known yet; all that are known, by share. `found` has bytes
-- that were read, by share.
function Share.fetch(r, shares, found)
  local rows, wanted, n, missing = known_rows(r), {}, 0, nil
  for i = 1, #shares do
    local share = shares[i]
    if share and not rows[share] then
      n = n + 1
      wanted[n], rows[share] = share, new_row(r, share)
      missing = missing or not found or found[share] == nil
    end
  end
  if n == 0 then return rows end
  local raws = missing and get_many(rows_key(r), wanted) or nil
  for i = 1, n do
    local row, raw = rows[wanted[i]], nil
    if raws then raw = raws[i] else raw = found[wanted[i]] end
    if raw then read_row(row, raw) end
    local ready = ready_of(row)
    note_stored(row, raw and true or false, ready, class_of(ready + row.active))
  end
  kept_count = kept_count + n
  if kept_count > KEPT_MAX then
    kept_count, kept_since = 0, kept_since + 1
    Share.of(r).rows_of = S -- those of this call stay for it
  end
  return rows
end

-- A share's row, read once per call and written with the commit.
function Share.row(r, share)
  return known_rows(r)[share] or Share.fetch(r, {share})[share]
end

-- A row has changed: it is filed anew, once for all changes up to then.
local function changes(row)
  if row.dirty then return end
  row.dirty = true
  local changed_rows = S.changed_shares
  if not changed_rows then
    changed_rows = {}
    S.changed_shares = changed_rows
  end
  changed_rows[#changed_rows + 1] = row
end
Share.changes = changes

-- The pass of a share one turn behind the last claim.
local function behind(turn, weight) return turn + floor(TURN / weight) end

-- The pass of a share, or of jobs without one, that has had a turn.
local function raised(pass, weight)
  return pass + floor(TURN / weight)
end
Share.behind, Share.raised = behind, raised

-- A share that could not be claimed from has no credit for that time.
local function catch_up(r, row)
  local lanes = Share.of(r).lanes
  for lane, line in pairs(row.lanes) do
    local stands = lanes[lane]
    if stands and stands.turn > line.pass then line.pass = stands.turn end
  end
  changes(row)
end
Share.catch_up = catch_up

-- Where the places of a share in a lane begin.
local function place_prefix(share, lane) return share .. '\0' .. char(lane) end
Share.place_prefix = place_prefix

-- The line of a share in a lane, to be changed: a new one if it has none there.
local function line_in(r, row, lane)
  local line = row.lanes[lane]
  if not line then
    line = {n = 0, was_n = 0, pass = 0, known = {}, prefix = place_prefix(row.share, lane), member = nil, filed_round = nil, filed_pass = nil, mixed = false, sent = nil} -- room for all
    row.lanes[lane] = line
  end
  if line.n == 0 then
    local stands = Share.of(r).lanes[lane]
    line.pass = behind(stands and stands.turn or 0, Share.weight(r, row.share))
  end
  return line
end

-- A place of a share in a lane comes; `is_last` if none of its jobs there is behind it; `size`, the
-- bytes of its record, if that is as it was sent, and its end touches no more than its key, its
-- expiry and its share.
local function place_in(r, row, lane, place, is_last, size)
  local line = line_in(r, row, lane)
  local known, n = line.known, line.n
  if n == 0 then
    line.sent = size
  elseif line.sent then
    line.sent = size and max(size, line.sent)
  end
  local at = #known + 1
  if not is_last or at > 1 and Group.of_place(known[at - 1]) then -- a group of this microsecond stands last
    while at > 1 and below(place, known[at - 1]) do at = at - 1 end
  end
  if at <= #known or #known == n and n < KNOWN_MAX then
    table.insert(known, at, place)
    line.known_bytes = nil
    if #place ~= JOB_PLACE then line.mixed = true end
    if #known > 2 * KNOWN_MAX then known[#known] = nil end
  end
  line.n = n + 1
  Group.gather(places_key(r), line.prefix .. place, true)
  changes(row)
end

-- A place of a share in a lane goes.
local function place_out(r, row, lane, place)
  local line = row.lanes[lane]
  Group.gather(places_key(r), (line and line.prefix or place_prefix(row.share, lane)) .. place, false)
  if not line or line.n == 0 then return end
  local known = line.known
  for k = 1, #known do
    if known[k] == place then
      table.remove(known, k)
      line.known_bytes = nil
      break
    end
  end
  line.n = line.n - 1
  if line.n == 0 then line.known, line.known_bytes = {}, nil end
  changes(row)
end
Share.line_in, Share.place_in, Share.place_out = line_in, place_in, place_out

-- The places of a share in a lane behind those that its row knows, at most so many more.
function Share.more(r, row, lane, limit)
  Group.write_lines()
  local line, prefix = row.lanes[lane], place_prefix(row.share, lane)
  local known = line.known
  local from = #known > 0 and '(' .. prefix .. known[#known] or '[' .. prefix
  local found = call('ZRANGEBYLEX', places_key(r), from, '(' .. place_prefix(row.share, lane + 1), 'LIMIT', 0, limit)
  for i = 1, #found do
    local place = sub(found[i], #prefix + 1)
    known[#known + 1], line.known_bytes = place, nil
    if #place ~= JOB_PLACE then line.mixed = true end
  end
  return #found
end

-- A ready job with a share, of no group, takes its place or leaves it.
function Share.up(r, j) place_in(r, Share.row(r, j.opts.sh), lane_of(j), Line.place_of(j)) end
function Share.down(r, j) place_out(r, Share.row(r, j.opts.sh), lane_of(j), Line.place_of(j)) end
function Share.has(r, j)
  Group.write_lines()
  return call('ZSCORE', places_key(r), place_prefix(j.opts.sh, lane_of(j)) .. Line.place_of(j)) and true
end

-- Whether no job without a share is in a lane: if so they have no credit when some come.
local function has_no_others(r, lane) return (r.in_overflow[lane] or 0) == 0 and (lane > 9 or (r.in_lists[lane] or 0) == 0) end
Share.has_no_others = has_no_others

-- Jobs of a share get a lease, in its turns, of which the last has that pass.
function Share.started(r, row, lane, n, pass)
  local sh, limits, line = Share.of(r), Share.settings(r), row.lanes[lane]
  local stands = sh.lanes[lane]
  row.active, sh.active, sh.fresh, sh.changed = row.active + n, sh.active + n, sh.fresh + n, true
  if limits.rate then Gate.count(Share.counter(row, limits), n) end
  if stands and stands.turn < pass then stands.turn = pass end
  if stands and has_no_others(r, lane) then stands.others = 0 end
  if line then line.pass = raised(pass, limits.weights[row.share] or 1) end
  changes(row)
end

-- Jobs of a share have left their lease: it has no credit for the time that they ran.
local function freed(r, row, n)
  local sh = Share.of(r)
  row.active = max(0, row.active - n)
  sh.active, sh.changed = max(0, sh.active - n), true
  if not row.was_round and S.now > row.open_since then row.open_since = S.now end
  if next_of(row.lanes) then catch_up(r, row) else changes(row) end
end

function Share.freed(r, share) freed(r, Share.row(r, share), 1) end

-- The same of jobs of several shares.
function Share.freed_many(r, shares)
  local counts, order, k, found = {}, {}, 0, nil
  for i = 1, #shares do
    local share = shares[i]
    local n = counts[share]
    if n then
      counts[share] = n + 1
    else
      k = k + 1
      counts[share], order[k] = 1, share
    end
  end
  order, found = Share.freed_alone(r, counts, order)
  if #order == 0 then return end
  local rows, sh, now, ended = Share.fetch(r, order, found), Share.of(r), S.now, 0
  local lanes = sh.lanes
  for i = 1, #order do
    local row, n = rows[order[i]], counts[order[i]]
    row.active, ended = max(0, row.active - n), ended + n
    if not row.was_round and now > row.open_since then row.open_since = now end
    for lane, line in next_of, row.lanes do
      local stands = lanes[lane]
      if stands and stands.turn > line.pass then line.pass = stands.turn end
    end
    changes(row)
  end
  sh.active, sh.changed = max(0, sh.active - ended), true
end

local function list_in(lists, name)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  return list
end

-- Moves a share in the order of turns, and counts its places.
local function move_turns(of, row)
  local sh, round = of.sh, row.round
  for lane, line in pairs(row.lanes) do
    local member = round and line.n > 0 and pack('>I4I8', round, line.pass) .. row.share or nil
    if member ~= line.member then
      if line.member then
        local out = list_in(of.turns_out, lane)
        out[#out + 1] = line.member
      end
      if member then
        local into = list_in(of.turns_in, lane)
        into[#into + 1], into[#into + 2] = '0', member
      end
    end
    local stands = lane_of_state(sh, lane)
    stands.places = max(0, stands.places + line.n - line.was_n)
    stands.parked = max(0, stands.parked + (round and 0 or line.n) - (row.was_round and 0 or line.was_n))
    line.member, line.was_n, line.filed_round, line.filed_pass = member, line.n, round, line.pass
    if line.n == 0 then row.lanes[lane] = nil end
  end
end

-- The order of the largest shares, where a share's jobs are so many or were.
local function file_class(of, row, jobs)
  if jobs < LARGE_MIN and not row.was_class then return nil end
  local class = class_of(jobs)
  if class ~= row.was_class then
    local list = list_in(class and of.into or of.out, ':sb:')
    if class then list[#list + 1] = fmt('%d', class) end
    list[#list + 1] = row.share
  end
  return class
end

-- Makes what files the row of a share with jobs in one lane, and with nothing that could close it,
-- as refile. It knows what the row and the turn before began and ended with: shares that take
-- turns mostly have that alike.
local function new_refile_open()
  local last_sent, last_sent3, last_active, last_since, last_n, last_known, last_flags, last_head = nil, nil, nil, nil, nil, nil, nil, nil
  local last_round, last_pass, last_lane, turn_round, turn_pass, turn_front = nil, nil, nil, nil, nil, nil
  return function(of, row, lane, line)
    local share, active, n, class, weight = row.share, row.active, line.n, row.was_class, of.limits.weights[row.share]
    local round, jobs, kv, k = weight and floor(active / weight) or active, n + active, of.kv, #of.kv
    if lane ~= of.lane then
      of.lane, of.stands, of.into_lane, of.out_lane = lane, lane_of_state(of.sh, lane), list_in(of.turns_in, lane), list_in(of.turns_out, lane)
    end
    local stands, pass, before = of.stands, line.pass, line.member
    if not before or round ~= line.filed_round or pass ~= line.filed_pass then
      if round ~= turn_round or pass ~= turn_pass then turn_round, turn_pass, turn_front = round, pass, pack('>I4I8', round, pass) end
      local member, into = turn_front .. share, of.into_lane
      local at = #into
      if before then of.out_lane[#of.out_lane + 1] = before end
      into[at + 1], into[at + 2] = '0', member
      line.member, line.filed_round, line.filed_pass = member, round, pass
    end
    if n ~= line.was_n then stands.places = max(0, stands.places + n - line.was_n) end
    if not row.was_round then stands.parked = max(0, stands.parked - line.was_n) end
    if not row.was_round or n > row.was_ready then notify(of.r) end
    row.round, row.idle, line.was_n = round, nil, n
    if class and (jobs < 2 ^ class or jobs >= 2 ^ (class + 1)) or not class and jobs >= LARGE_MIN then class = file_class(of, row, jobs) end
    local sent, places = line.sent, line.known_bytes or known_places(line)
    local since, known, flags = row.open_since, min(#line.known, KNOWN_MAX), sent and HAS_ROUND + HAS_SENT or HAS_ROUND
    if n ~= last_n or active ~= last_active or pass ~= last_pass or known ~= last_known or since ~= last_since or flags ~= last_flags or round ~= last_round or lane ~= last_lane then
      last_n, last_active, last_pass, last_known, last_since, last_flags, last_round, last_lane = n, active, pass, known, since, flags, round, lane
      last_head = pack('>BBI4I8I4BI8I4B', ROW_VERSION, flags, active, since, round, lane, pass, n, known)
    end
    local head = last_head
    if sent and sent ~= last_sent then last_sent, last_sent3 = sent, pack('>I3', sent) end
    kv[k + 1], kv[k + 2] = share, sent and head .. places .. last_sent3 or head .. places
    if not row.was_there then of.sh.shares = of.sh.shares + 1 end
    row.was_there, row.was_round, row.was_ready, row.was_class = true, round, n, class
  end
end

local refile_open = new_refile_open()

-- Files a row that has changed: among turns, or by the instant at which it is filed again.
local function refile(of, row)
  local sh, now = of.sh, S.now
  local lane, line = next_of(row.lanes)
  if lane and line.n > 0 and not of.limits.has_limits and row.blocked == 0 and not row.was_blocked and not row.was_until and not row.gate and not row.counted
    and next_of(row.lanes, lane) == nil then
    return refile_open(of, row, lane, line)
  end
  if row.blocked <= now then row.blocked = 0 end
  local ready = ready_of(row)
  Share.file(of.r, row, ready > 0, of.limits)
  local opens = row.round and (not row.was_round or ready > row.was_ready)
  move_turns(of, row)
  if row.until_ ~= row.was_until or row.idle ~= row.was_idle then
    if row.was_until then
      local out = list_in(of.out, row.was_idle == 1 and ':si:' or ':sp:')
      out[#out + 1] = row.share
    end
    if row.until_ then
      local into = list_in(of.into, row.idle == 1 and ':si:' or ':sp:')
      into[#into + 1], into[#into + 2] = fmt('%d', row.until_), row.share
      if sh.park == 0 or row.until_ < sh.park then sh.park = row.until_ end
      -- Another instant at which there is work: who sleeps is to know it.
      if row.idle == 0 and (row.was_idle ~= 0 or row.until_ < row.was_until) then opens = true end
    end
  end
  local class, is_blocked = file_class(of, row, ready + row.active), row.blocked > 0
  if is_blocked ~= row.was_blocked then sh.blocked = max(0, sh.blocked + (is_blocked and 1 or -1)) end
  local is_there = row.active > 0 or ready > 0 or row.until_ ~= nil
  if is_there then
    of.kv[#of.kv + 1], of.kv[#of.kv + 2] = row.share, write_row(row)
    if not row.was_there then sh.shares = sh.shares + 1 end
  elseif row.was_there then
    of.gone[#of.gone + 1], sh.shares = row.share, max(0, sh.shares - 1)
    row.gate, row.counted, row.open_since = nil, nil, 0
  end
  note_stored(row, is_there, ready, class)
  if opens then notify(of.r) end
end

-- Files the shares that the call has changed, and writes their rows.
function Share.flush()
  if S.changed_groups then Group.flush() end
  local changed_rows, queues = S.changed_shares, {}
  S.changed_shares = nil
  Group.write_lines()
  for i = 1, #(changed_rows or {}) do
    local row = changed_rows[i]
    row.dirty = nil
    local of = queues[row.q]
    if not of then
      local r = Row.of(row.q)
      of = {r = r, sh = Share.of(r), limits = Share.settings(r), kv = {}, gone = {}, turns_in = {}, turns_out = {}, into = {}, out = {}}
      queues[row.q] = of
    end
    refile(of, row)
  end
  for q, of in pairs(queues) do
    local r = of.r
    for lane, members in pairs(of.turns_out) do call_many('ZREM', turns_key(r, lane), members) end
    for lane, members in pairs(of.turns_in) do call_many('ZADD', turns_key(r, lane), members) end
    for kind, members in pairs(of.out) do call_many('ZREM', S.base .. kind .. q, members) end
    for kind, members in pairs(of.into) do call_many('ZADD', S.base .. kind .. q, members) end
    call_many('HSET', rows_key(r), of.kv)
    call_many('HDEL', rows_key(r), of.gone)
    of.sh.changed = true
    for lane, stands in pairs(of.sh.lanes) do
      if stands.places == 0 then of.sh.lanes[lane] = nil end
    end
    if of.sh.shares > 0 then
      set_flag(r, %ROW_SHARED%, true)
      set_flag(r, %ROW_LIMITED%, true)
    end
  end
end

end
