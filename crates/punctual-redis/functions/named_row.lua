-- Named limits: over all queues of the shard no more jobs with a name are active, or start, than
-- its settings say. `BASE:nl`: limit to its row, while jobs of it are active or wait, or something
-- of it is to be remembered; `BASE:nn`: limits with a row or settings, by name; `BASE:ni`: limits
-- of which no job is active or waits, by until when something is remembered. A ready place that a
-- closed limit keeps back has left its lane: `BASE:nk:QUEUE`, limit NUL lane 1 | place as in an
-- overflow set. These are the lines of limits; `BASE:no:QUEUE`: limits with a line, by when its
-- first place may go as far as time decides. `BASE:s`: field `j` + queue, its jobs with limits 4 |
-- places that are kept back 4 | the first instant in `no` 8; field `g`, version 1 | limits with
-- settings 4 | blocked ones 4 | families whose settings changed: mp list of prefix and last name
-- looked at.
--
-- A row: version 1 | flags 1 | active 4 | waiting 4 | open since 8 | [blocked until 8] | [the rate
-- that counted: kind 1 | starts 4 | per 8 | burst 4, and what it counted, as in a gate: length 2,
-- bytes] | [remembered until 8] | [jobs that may be asked to stop, by their starts: length 1, id 16
-- each] | queues with a line, as many as a freed slot wakes: length 1,
-- name each. The rules are those of `named.rs` and `named_lines.rs` in the machine.
do

local ROW_VERSION, STATE_VERSION, HEAD_BYTES = 1, 1, 18
local HAS_BLOCK, HAS_RATE, HAS_IDLE, HAS_RUNNING = 1, 2, 4, 8
-- What is closed.
local CONCURRENCY, RATE, BLOCKED = 1, 2, 3
-- Queues that a freed slot wakes; others read the limit once a second.
local QUEUES_WOKEN, POLL_EVERY = 64, 1e6
-- Lines that one call reads because slots were freed; a claim of their queue reads the others.
local LINES_FILED = 250
-- An instant of a line that only a job which ends brings.
local NOT_BY_TIME = 9007199254740991

-- How long an idle limit is remembered after it opened: a job that has waited for another limit is
-- late since the last one opened.
local OPENING_KEPT = 60e6

Named.NOT_BY_TIME, Named.OPENING_KEPT = NOT_BY_TIME, OPENING_KEPT

local function kept_key(r) return S.base .. ':nk:' .. r.name end
local function opens_key(r) return S.base .. ':no:' .. r.name end
Named.kept_key, Named.opens_key = kept_key, opens_key

-- Refuses jobs with named limits where a namespace is cut into shards: each would let as many
-- start. Before the call changes anything. Only the first shard may know how many there are.
function Named.may_name()
  if not find(S.base, '/0}', 1, true) or (tonum(call('HGET', S.k.s, 'n') or nil) or 1) > 1 then
    refuse('unsupported', 'a namespace that is cut into shards has no named limits, as each shard would let that many start; use another namespace, at an address without `shards`, for jobs with limits')
  end
end

-- What is known of named limits in this call.
function Named.all()
  local all = S.named
  if not all then
    local raw = call('HGET', S.k.s, 'g')
    all = {rows = {}, dirty = {}, lines = {}, noted = {}, records = 0, blocked = 0, check = {}, raw = raw or nil}
    if raw then
      local version
      version, all.records, all.blocked = unp('>BI4I4', raw)
      if version ~= STATE_VERSION then refuse_later('what is stored of named limits') end
      all.check = mp.unpack(sub(raw, %LIMITS_CHECK_AT%))
    end
    S.named = all
  end
  return all
end

-- What a queue has of jobs with limits.
function Named.of(r)
  local of = r.named
  if not of then
    local raw = flag(r, %ROW_NAMED%) and call('HGET', S.k.s, 'j' .. r.name)
    of = {jobs = 0, kept = 0, park = NOT_BY_TIME, first = {}}
    if raw then of.jobs, of.kept, of.park = unp('>I4I4I8', raw) end
    r.named = of
  end
  return of
end

local function kept_of(r) return flag(r, %ROW_NAMED%) and Named.of(r).kept or 0 end
Named.kept_of = kept_of

-- Jobs with limits came into the line of a queue or got a lease, or have left it.
function Named.count(r, n)
  local of = Named.of(r)
  of.jobs, of.changed = max(0, of.jobs + n), true
  if of.jobs > 0 then
    set_flag(r, %ROW_NAMED%, true)
    set_flag(r, %ROW_LIMITED%, true)
  end
end

-- A queue's row is written: what it has of jobs with limits, too.
function Named.close(r)
  local of = r.named
  if not of.changed then return end
  of.changed = nil
  if of.jobs == 0 and of.kept == 0 or r.counts[READY] == 0 and r.counts[ACTIVE] == 0 then
    set_flag(r, %ROW_NAMED%, false)
    call('HDEL', S.k.s, 'j' .. r.name)
    r.named = nil
  else
    S.fields = S.fields or {}
    S.fields['j' .. r.name] = pack('>I4I4I8', of.jobs, of.kept, of.park)
  end
end

local NO_LIMITS = {most = 0, full = 0}

-- Settings as they are stored, of so many that were read last.
local parsed, parsed_count = {}, 0

local function read_settings(raw)
  local limits = parsed[raw]
  if not limits then
    if byte(raw, %VALUE_KIND_AT%) ~= %VALUE_LIMIT% then return NO_LIMITS end
    local map = mp.unpack(sub(raw, %VALUE_MAP_AT%))
    limits = {most = map.lc or 0, rate = map.lr, full = map.wf or 0}
    if parsed_count > 500 then parsed, parsed_count = {}, 0 end
    parsed[raw], parsed_count = limits, parsed_count + 1
  end
  return limits
end

-- The settings of limits: their own, or those of their families; and whose they are.
local function fetch_settings(rows, names)
  local fields = {}
  for i = 1, #names do
    local name = names[i]
    local colon = find(name, ':', 1, true)
    fields[2 * i - 1], fields[2 * i] = 'limit/' .. name, colon and 'limit/' .. sub(name, 1, colon - 1) or 'limit/'
  end
  local found = get_many(S.k.rec, fields)
  for i = 1, #names do
    local row, own, family = rows[names[i]], found[2 * i - 1], found[2 * i]
    row.is_own, row.set_by = own and true, own and names[i] or family and sub(fields[2 * i], %RECORD_LIMIT_NAME_AT%) or nil
    row.limits = own and read_settings(own) or family and read_settings(family) or NO_LIMITS
  end
end

local function new_row(name)
  return {name = name, active = 0, waiting = 0, open_since = 0, blocked = 0, queues = {}, running = {}, limits = NO_LIMITS, was_there = false, was_blocked = false}
end

local function read_row(row, raw)
  local version, flags, at = nil, nil, HEAD_BYTES + 1
  version, flags, row.active, row.waiting, row.open_since = unp('>BBI4I4I8', raw)
  if version ~= ROW_VERSION then refuse_later('the row of a named limit') end
  if flags % (2 * HAS_BLOCK) >= HAS_BLOCK then row.blocked, at = unp('>I8', raw, at) end
  if flags % (2 * HAS_RATE) >= HAS_RATE then
    local kind, starts, per, burst, length = unp('>BI4I8I4I2', raw, at)
    row.counted_by, row.counted, at = {kind, starts, per, burst}, sub(raw, at + 19, at + 18 + length), at + 19 + length
  end
  if flags % (2 * HAS_IDLE) >= HAS_IDLE then row.idle, at = unp('>I8', raw, at) end
  if flags >= HAS_RUNNING then
    for i = 1, byte(raw, at) do row.running[i] = sub(raw, at + 16 * i - 15, at + 16 * i) end
    at = at + 1 + 16 * #row.running
  end
  while at <= #raw do
    local length = byte(raw, at)
    row.queues[#row.queues + 1], at = sub(raw, at + 1, at + length), at + 1 + length
  end
  row.was_there, row.was_idle, row.was_blocked = true, row.idle, row.blocked > 0
end

local function write_row(row)
  local flags, parts = 0, {''}
  if row.blocked > 0 then
    flags, parts[2] = HAS_BLOCK, u8(row.blocked)
  end
  local by, counted = row.counted_by, row.counted
  if row.gate then by, counted = row.gate.of, Gate.counted(row.gate) end
  if by and counted then
    flags, parts[#parts + 1] = flags + HAS_RATE, pack('>BI4I8I4I2', by[1], by[2], by[3], by[4], #counted) .. counted
  end
  if row.idle then
    flags, parts[#parts + 1] = flags + HAS_IDLE, u8(row.idle)
  end
  if #row.running > 0 then
    flags, parts[#parts + 1] = flags + HAS_RUNNING, char(#row.running) .. concat(row.running)
  end
  for i = 1, #row.queues do parts[#parts + 1] = char(#row.queues[i]) .. row.queues[i] end
  parts[1] = pack('>BBI4I4I8', ROW_VERSION, flags, row.active, row.waiting, row.open_since)
  return concat(parts)
end

-- The rows of limits, by name; each is read once a call.
function Named.fetch(names)
  local rows, wanted = Named.all().rows, {}
  for i = 1, #names do
    if not rows[names[i]] then
      wanted[#wanted + 1], rows[names[i]] = names[i], new_row(names[i])
    end
  end
  if #wanted == 0 then return rows end
  local raws = get_many(S.k.nl, wanted)
  for i = 1, #wanted do
    if raws[i] then read_row(rows[wanted[i]], raws[i]) end
  end
  fetch_settings(rows, wanted)
  return rows
end

function Named.row(name) return Named.all().rows[name] or Named.fetch({name})[name] end

-- Other settings were written: rows that are known obey them.
function Named.reload()
  local rows, names = Named.all().rows, {}
  for name in pairs(rows) do names[#names + 1] = name end
  if #names > 0 then fetch_settings(rows, names) end
end

-- A row has changed: it is written with the others of this call.
local function changes(row)
  if row.is_dirty then return end
  local dirty = Named.all().dirty
  row.is_dirty, dirty[#dirty + 1] = true, row
end
Named.changes = changes

-- What was counted, as a gate of the rate that holds: nothing of one of another kind, and of a
-- smooth one no more than the new one lets be ahead. It counts for the row from the next start on.
local function counter(row)
  local rate, g = row.limits.rate, row.gate
  local known = g or row.view
  if known and known.of == rate then return known end
  local by, counted = row.counted_by, row.counted
  if g then by, counted = g.of, Gate.counted(g) end
  local is_alike = by and by[1] == rate[1]
  local view = Gate.counter(rate, is_alike and counted or nil)
  if is_alike and (by[2] ~= rate[2] or by[3] ~= rate[3] or by[4] ~= rate[4]) then Gate.bound(view) end
  view.of, row.view = rate, view
  return view
end

-- What keeps a job of so many units from starting, and when time opens it; 0: only a job that ends
-- does.
function Named.closed(row, units)
  local limits, blocked = row.limits, row.blocked > S.now and row.blocked or 0
  local rate = limits.rate and Gate.opens_for(counter(row), units) or 0
  local full = limits.most > 0 and row.active >= limits.most
  local by = blocked > 0 and BLOCKED or full and CONCURRENCY or rate > 0 and RATE or nil
  if by then return by, full and 0 or max(rate, blocked) end
end
local closed = Named.closed

-- When its rate lets a job of so many units start, if it does not now.
function Named.rate_opens(row, units) return row.limits.rate and Gate.opens_for(counter(row), units) end

-- A job that costs so many units starts.
function Named.start(row, units)
  row.active = row.active + 1
  if not row.limits.rate then return end
  local g = counter(row)
  row.gate, row.view = g, nil
  Gate.take_units(g, units)
  local at = Gate.opens_for(g, 1)
  if at and at > row.open_since then row.open_since = at end
end

-- A copy, to see what would be counted.
function Named.copy(row)
  local rate, view = row.limits.rate, nil
  if rate then
    view = Gate.counter(rate, Gate.counted(counter(row)))
    view.of = rate
  end
  return {name = row.name, active = row.active, blocked = row.blocked, open_since = row.open_since, limits = row.limits, gate = view}
end

-- Until when something of it is to be remembered; nil if nothing is.
local function remembered(row)
  local g, till = row.gate, row.blocked > 0 and row.blocked + OPENING_KEPT or 0
  if row.idle then till = max(till, min(row.idle, S.now + OPENING_KEPT)) end
  if not g and row.counted_by and row.counted then
    g = Gate.counter(row.counted_by, row.counted)
  end
  if g then till = max(till, Gate.counts_until(g)) end
  return till > S.now and till or nil
end

-- The line of a limit in a queue has another first place, or its limit stands otherwise.
local function note_line(r, limit)
  local all, key = Named.all(), r.name .. '\0' .. limit
  if all.noted[key] then return end
  all.noted[key], all.lines[#all.lines + 1] = true, {r.name, limit}
end
Named.note_line = note_line

-- A slot was freed, or the limit stands otherwise: jobs that wait at it in these queues may go. A
-- call reads some lines, and notes that the others are to be read now.
function Named.wake(row)
  for _, q in ipairs(row.queues) do
    local r = Row.find(q)
    if r and #Named.all().lines < LINES_FILED then
      note_line(r, row.name)
    elseif r and call('ZSCORE', opens_key(r), row.name) then
      r = Row.of(q)
      local of = Named.of(r)
      call('ZADD', opens_key(r), fmt('%d', S.now), row.name)
      of.park, of.changed = min(of.park, S.now), true
      notify(r)
    end
  end
end

-- The first place of a line in that lane or a later one, as lane 1 | place; false if there is none.
function Named.first(r, limit, lane)
  local of = Named.of(r)
  local key = limit .. '\0' .. char(lane)
  local first = of.first[key]
  if first == nil then
    Group.write_lines()
    local found = call('ZRANGEBYLEX', kept_key(r), '[' .. key, '(' .. limit .. '\1', 'LIMIT', 0, 1)[1]
    first = found and sub(found, #limit + 2) or false
    of.first[key] = first
  end
  return first
end

-- A place that stands in no lane comes into the line of a limit.
function Named.keep_back(r, limit, lane, place)
  local of, row = Named.of(r), Named.row(limit)
  Group.gather(kept_key(r), limit .. '\0' .. char(lane) .. place, true)
  of.kept, of.changed, of.first = of.kept + 1, true, {}
  row.waiting = row.waiting + 1
  set_flag(r, %ROW_NAMED%, true)
  set_flag(r, %ROW_LIMITED%, true)
  changes(row)
  note_line(r, limit)
end

-- A place leaves the line of the limit that keeps it back.
function Named.leave(r, limit, lane, place)
  local of, row = Named.of(r), Named.row(limit)
  Group.gather(kept_key(r), limit .. '\0' .. char(lane) .. place, false)
  of.kept, of.changed, of.first = max(0, of.kept - 1), true, {}
  row.waiting, row.waited = max(0, row.waiting - 1), true
  changes(row)
  note_line(r, limit)
end

-- The job that a kept place stands for; nil if it is a group without one.
local function job_of(r, first)
  local lane, place = byte(first), sub(first, 2)
  local group = Group.of_place(place)
  if group then return Group.candidate(r, group, lane) end
  return sub(place, %PLACE_ID_AT%)
end
Named.job_of = job_of

local function forget_queue(row, q)
  for i, other in ipairs(row.queues) do
    if other == q then
      table.remove(row.queues, i)
      changes(row)
      return
    end
  end
end

-- Files a line by when its first place, that takes so many units, may go; wakes a worker if that is
-- news.
local function file_line(r, row, units)
  local by, till = closed(row, units)
  local woken = false
  for _, q in ipairs(row.queues) do woken = woken or q == r.name end
  if not woken and #row.queues < QUEUES_WOKEN then
    woken, row.queues[#row.queues + 1] = true, r.name
    changes(row)
  end
  local at = not by and S.now or till > 0 and till or woken and NOT_BY_TIME or S.now + POLL_EVERY
  local before = tonum(call('ZSCORE', opens_key(r), row.name) or nil)
  if at ~= before then call('ZADD', opens_key(r), fmt('%.0f', at), row.name) end
  if at <= S.now or at < (before or NOT_BY_TIME) then notify(r) end
end

-- Files the lines that this call has changed.
local function file_lines(all)
  local lines, rows, firsts, ids, queues = all.lines, {}, {}, {}, {}
  all.lines, all.noted = {}, {}
  for i = 1, #lines do
    local q, limit = lines[i][1], lines[i][2]
    local r = Row.find(q)
    local first = r and Named.first(r, limit, 0)
    if r then rows[i], queues[q] = Row.of(q), r end
    firsts[i] = first
    ids[i] = first and job_of(r, first) or ''
  end
  local raws = Job.raws(ids)
  for i = 1, #lines do
    local r, row, raw = rows[i], Named.row(lines[i][2]), raws[i]
    if r and firsts[i] then
      local _, o = nil, Job.NOTHING
      if raw and byte(raw) <= %TAG_WAITING% then _, o = Job.parts(raw) end
      file_line(r, row, o.co or 1)
    elseif r then
      call('ZREM', opens_key(r), row.name)
      forget_queue(row, r.name)
    end
  end
  for _, r in pairs(queues) do
    local of = Named.of(r)
    local first = call('ZRANGE', opens_key(r), 0, 0, 'WITHSCORES')
    of.park, of.changed = tonum(first[2] or nil) or NOT_BY_TIME, true
  end
end

-- Writes the rows of limits that this call has changed.
local function write_rows(all)
  local kv, gone, named, unnamed, idle, busy = {}, {}, {}, {}, {}, {}
  for i = 1, #all.dirty do
    local row = all.dirty[i]
    row.is_dirty = nil
    if row.blocked <= S.now then row.blocked = 0 end
    local is_used = row.active > 0 or row.waiting > 0
    -- A place that goes back to its lane is to find since when the limit is open.
    row.idle = not is_used and (remembered(row) or row.waited and S.now) or nil
    if row.idle ~= row.was_idle then
      if row.idle then idle[#idle + 1], idle[#idle + 2] = fmt('%d', row.idle), row.name else busy[#busy + 1] = row.name end
    end
    if row.blocked > 0 ~= row.was_blocked then all.blocked = max(0, all.blocked + (row.was_blocked and -1 or 1)) end
    local is_there = is_used or row.idle ~= nil
    if is_there then
      kv[#kv + 1], kv[#kv + 2] = row.name, write_row(row)
      if not row.was_there then named[#named + 1], named[#named + 2] = '0', row.name end
    elseif row.was_there then
      gone[#gone + 1] = row.name
      if not row.is_own then unnamed[#unnamed + 1] = row.name end
      row.gate, row.view, row.counted, row.counted_by, row.open_since = nil, nil, nil, nil, 0
    end
    row.was_there, row.was_idle, row.was_blocked, row.waited = is_there, row.idle, row.blocked > 0, nil
  end
  all.dirty = {}
  call_many('HSET', S.k.nl, kv)
  call_many('HDEL', S.k.nl, gone)
  call_many('ZADD', S.k.nn, named)
  call_many('ZREM', S.k.nn, unnamed)
  call_many('ZADD', S.k.ni, idle)
  call_many('ZREM', S.k.ni, busy)
end

-- Writes what this call has changed of named limits, and files their lines.
function Named.flush()
  local all = S.named
  if #all.lines > 0 then file_lines(all) end
  if #all.dirty > 0 then write_rows(all) end
end

-- Writes what the limits of a shard have together, at the end of a call.
function Named.commit()
  local all = S.named
  Named.flush()
  local raw = pack('>BI4I4', STATE_VERSION, all.records, all.blocked) .. mp.pack(all.check)
  if all.records == 0 and all.blocked == 0 and #all.check == 0 then raw = nil end
  if raw == all.raw then return end
  all.raw = raw
  if not raw then return call('HDEL', S.k.s, 'g') end
  S.fields = S.fields or {}
  S.fields.g = raw
end

end
