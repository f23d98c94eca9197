-- Named limits in claims, settles and controls: what keeps a job back, what takes a slot and frees
-- it, which lines open, settings and blocks.
do

-- Lines of one queue that one claim reads; limits that one step reads again after a change of their
-- family, and idle ones that it forgets.
local LINES_OPENED, EXAMINED_MAX = 64, 250

local NOT_BY_TIME = Named.NOT_BY_TIME

-- Whether a place before this one waits for a limit: it is not to be overtaken by jobs that cost
-- less.
local function waits_before(r, limit, lane, place)
  local first = Named.first(r, limit, lane < 10 and 0 or 10)
  return first and below(first, char(lane) .. place)
end

-- The limit that keeps a job from starting now that stands at a place: of several the one that
-- opens last, else one for which a place before it waits in its queue.
function Named.closed_for(r, o, lane, place)
  local names, rows, units = o.li, Named.fetch(o.li), o.co or 1
  local last, opens = nil, -1
  for i = 1, #names do
    local by, till = Named.closed(rows[names[i]], units)
    if by then
      if till == 0 then till = NOT_BY_TIME end
      if till > opens or till == opens and below(last, names[i]) then last, opens = names[i], till end
    end
  end
  if last then return last end
  if Named.kept_of(r) == 0 then return nil end
  for i = 1, #names do
    if waits_before(r, names[i], lane, place) then return names[i] end
  end
end

-- A ready job of no group comes up: whether a limit keeps it back.
function Named.up(r, j)
  local lane, place = lane_of(j), Line.place_of(j)
  local limit = Named.closed_for(r, j.opts, lane, place)
  if limit then Named.keep_back(r, limit, lane, place) end
  return limit ~= nil
end

-- Reads the rows of the limits of jobs, by their records, with few commands.
function Named.prefetch(raws)
  local names, last = {}, nil
  for i = 1, #raws do
    local raw = raws[i]
    if raw and byte(raw) == %TAG_WAITING% then
      local _, o = Job.parts(raw)
      for k = 1, o ~= last and o.li and #o.li or 0 do names[#names + 1] = o.li[k] end
      last = o
    end
  end
  if #names > 0 then Named.fetch(names) end
end

-- Puts jobs that were enqueued now, in their order, in line: ids, records, and groups and shares of
-- those that have one.
function Named.line_up(r, ids, raws, groups, shares)
  local grouped, shared, lanes, n = {{}, {}, {}, {}}, {{}, {}, {}}, {}, #ids
  local has_shares = false
  Named.count(r, n)
  Named.prefetch(raws)
  for i = 1, n do
    local id, raw, group, share = ids[i], raws[i], groups[i], shares[i]
    local lane, place = byte(raw, %REC_PRIORITY%), '\1' .. sub(raw, %REC_DUE%) .. sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. 'J' .. id
    local _, o = Job.parts(raw)
    local limit = not group and Named.closed_for(r, o, lane, place)
    if group then
      local k = #grouped[1] + 1
      grouped[1][k], grouped[2][k], grouped[3][k], grouped[4][k], has_shares = id, raw, group, share or false, has_shares or share
    elseif not limit and share then
      local k = #shared[1] + 1
      shared[1][k], shared[2][k], shared[3][k] = id, raw, share
    else
      r.counts[READY] = r.counts[READY] + 1
      local members = lanes[lane] or {}
      if limit then
        Named.keep_back(r, limit, lane, place)
      else
        lanes[lane], members[#members + 1], members[#members + 2] = members, '0', place
      end
    end
  end
  if #grouped[1] > 0 then Group.line_up(r, grouped[1], grouped[2], grouped[3], has_shares and grouped[4] or nil) end
  if #shared[1] > 0 then Share.line_up(r, shared[1], shared[2], shared[3]) end
  for lane, members in pairs(lanes) do Line.places_taken(r, lane, members) end
end

-- The limit that keeps back a ready job of no group; nil if none does.
function Named.kept_by(r, j)
  if Named.kept_of(r) == 0 then return nil end
  local behind, key = '\0' .. char(lane_of(j)) .. Line.place_of(j), Named.kept_key(r)
  Group.write_lines()
  for _, name in ipairs(j.opts.li) do
    if call('ZSCORE', key, name .. behind) then return name end
  end
end

-- Takes a ready job of no group out of the line it stands in; whether it stood in one.
function Named.down(r, j)
  local limit = Named.kept_by(r, j)
  if limit then Named.leave(r, limit, lane_of(j), Line.place_of(j)) end
  return limit ~= nil
end

-- The place of a group in a lane has left it: a limit of its job keeps it back.
function Group.kept_back(r, group, lane, limit, id)
  local row = Group.row(r, group)
  local line = row.lines[lane % 10]
  line.limit, line.kept_for = limit, id
  Group.changes(row)
end

-- It stands in its lane again; its share, if it has one.
function Group.let_go(r, group, lane)
  local row = Group.row(r, group)
  local line = row.lines[lane % 10]
  if not line then return nil end
  line.limit = nil
  Group.changes(row)
  return line.share
end

-- Keeps back a place that a claim has met, if a limit of its job is closed; whether it did. `row`
-- is that of its share, if it has one.
function Named.meets(take, r, j, lane, place, group, row)
  local limit = Named.closed_for(r, j.opts, lane, place)
  if not limit then return false end
  if row then Share.place_out(r, row, lane, place) else Line.overflow_remove(r, lane, place) end
  if group then Group.kept_back(r, group, lane, limit, j.id) end
  Named.keep_back(r, limit, lane, place)
  if j.opts.sh then Share.waits(r, j.opts.sh, j.id) end -- where a new bound counts, it may pass its count by
  take.kept_back, take.expired = take.kept_back + 1, take.expired + 1
  return true
end

local REFUSES, CANCELS = 1, 2

local function is_full(row) return row.limits.most > 0 and row.active >= row.limits.most end

-- Whether one of these limits does more with a new job, while it is full, than make it wait.
function Named.decides(names)
  local rows = Named.fetch(names)
  for i = 1, #names do if rows[names[i]].limits.full > 0 then return true end end
  return false
end

-- Whether full limits decide on a new job: it would be in line at once, and was sent by a caller.
function Named.decides_on(j)
  local o = j.opts
  return o.li and j.due <= S.now and not (o.hi or o.sc or o.fl or o.w and #o.w > 0 or Job.has_expired(j)) and Named.decides(o.li)
end

-- Which of these limits refuses a new job, if one does.
function Named.refuses(names)
  local rows = Named.fetch(names)
  for i = 1, #names do
    local row = rows[names[i]]
    if row.limits.full == REFUSES and is_full(row) then return i end
  end
end

-- Asks the job of a limit to stop that started first and was not asked yet; `served` are limits of
-- such jobs.
local function cancel_first(row, served)
  while row.running[1] do
    local j = Job.load(table.remove(row.running, 1))
    local p = j and not j.ext.cr and Lease.of(j)
    Named.changes(row)
    if p then
      for _, name in ipairs(j.opts.li) do served[name] = true end
      return Edit.ask_cancel(j, p)
    end
  end
end

-- A new job came: each of its limits that is full, and cancels, asks a job to stop. A job that was
-- asked for one serves for all that it has.
function Named.cancel_for(names)
  local rows, served = Named.fetch(names), {}
  for i = 1, #names do
    local row = rows[names[i]]
    if row.limits.full == CANCELS and is_full(row) and not served[names[i]] then cancel_first(row, served) end
  end
end

-- A job has started: a limit that asks jobs to stop knows it, in the order of their starts.
local function note_running(row, id)
  local running = row.running
  if row.limits.full ~= CANCELS then
    if running[1] then row.running = {} end
    return
  end
  if #running >= %CANCELLING_MAX% then table.remove(running, 1) end
  running[#running + 1] = id
end

local function forget_running(row, id)
  for i, one in ipairs(row.running) do
    if one == id then return table.remove(row.running, i) end
  end
end

-- A job has left its place and gets a lease: it takes of each of its limits. Notes which of them
-- have opened after its due.
function Named.started(take, r, j)
  local rows, units = Named.fetch(j.opts.li), j.opts.co or 1
  for _, name in ipairs(j.opts.li) do
    local row = rows[name]
    local since = min(row.open_since, S.now)
    Named.start(row, units)
    note_running(row, j.id)
    Named.changes(row)
    if since > j.due then
      local opened, key = take.opened_limits or {}, r.name .. '\0' .. name
      if not opened[key] then opened[key], opened[#opened + 1] = true, {r, name, since} end
      take.opened_limits = opened
    end
  end
end

-- A job has left its lease: a slot that was the last one lets others start.
function Named.freed(r, names, id)
  local rows, others_wait = Named.fetch(names), Named.kept_of(r) > 0
  for i = 1, #names do
    local row = rows[names[i]]
    local most = row.limits.most
    if most > 0 and row.active >= most then
      row.open_since = max(row.open_since, S.now)
      Named.wake(row)
    end
    if others_wait then row.idle = row.open_since + Named.OPENING_KEPT end
    row.active = max(0, row.active - 1)
    if row.running[1] then forget_running(row, id) end
    Named.changes(row)
  end
  Named.count(r, -1)
end

-- The same of jobs of one queue that ended together; `ids` are theirs.
function Named.freed_many(r, lists, ids)
  local names = {}
  for i = 1, #lists do
    for k = 1, #lists[i] do names[#names + 1] = lists[i][k] end
  end
  Named.fetch(names)
  for i = 1, #lists do Named.freed(r, lists[i], ids[i]) end
end

-- A place leaves its line for its lane.
local function back_to_lane(r, limit, first, raw)
  local lane, place = byte(first), sub(first, 2)
  local group, share = Group.of_place(place), nil
  Named.leave(r, limit, lane, place)
  if group then
    share = Group.let_go(r, group, lane)
  elseif raw and byte(raw) <= %TAG_WAITING% then
    local _, _, _, _, _, _, _, _, _, of = Job.parts(raw)
    share = of
  end
  if share then Share.place_in(r, Share.row(r, share), lane, place) else Line.places_taken(r, lane, {'0', place}) end
end

-- The places of a line from a lane to before another one, at most so many: what stands there, and
-- the records of their jobs.
local function places_of(r, limit, from, till, most)
  Group.write_lines()
  local key, firsts, ids = Named.kept_key(r), {}, {}
  local found = call('ZRANGEBYLEX', key, '[' .. limit .. '\0' .. char(from), '(' .. limit .. '\0' .. char(till), 'LIMIT', 0, most)
  for i = 1, #found do
    firsts[i] = sub(found[i], #limit + 2)
    ids[i] = Named.job_of(r, firsts[i]) or ''
  end
  return firsts, Job.raws(ids)
end

-- Whether the job of a record may start as a limit would stand then; it is counted there. Another
-- client may have deleted the record: the claim takes its place out.
local function may_go(seen, raw)
  if not raw or byte(raw) > %TAG_WAITING% then return true end
  local _, o = Job.parts(raw)
  local units = o.co or 1
  if Named.closed(seen, units) then return false end
  Named.start(seen, units)
  return true
end

-- Puts places of a line whose limit is open back into their lanes, at most so many and a suspect;
-- how many more may be.
local function open_line(r, limit, left)
  local seen = Named.copy(Named.row(limit)) -- what would be counted if those started
  local firsts, raws = places_of(r, limit, 0, 10, left)
  for i = 1, #firsts do
    if not may_go(seen, raws[i]) then break end
    back_to_lane(r, limit, firsts[i], raws[i])
    left = left - 1
  end
  firsts, raws = places_of(r, limit, 10, 255, 1)
  if firsts[1] and may_go(seen, raws[1]) then back_to_lane(r, limit, firsts[1], raws[1]) end
  Named.note_line(r, limit)
  return left
end

-- Places of a queue whose limits are open stand in their lanes again, so many of them and a suspect
-- of each limit; before a claim.
function Named.open(r, want)
  if want <= 0 then return end
  if S.changed_groups then Group.flush() end
  if S.named then Named.flush() end
  local of = Named.of(r)
  if of.kept == 0 or of.park > S.now then return end
  local limits, left = call('ZRANGEBYSCORE', Named.opens_key(r), '-inf', fmt('%d', S.now), 'LIMIT', 0, LINES_OPENED), want
  Named.fetch(limits)
  for i = 1, #limits do
    left = open_line(r, limits[i], left)
    if left <= 0 then break end
  end
  if S.changed_shares or S.changed_groups then Share.flush() end -- a queue has shares again
end

-- Since when the job of a record may start that one of its limits lets start since an instant; nil
-- while another one does not.
local function open_since(r, raw, since)
  local _, o = Job.parts(raw)
  local rows = Named.fetch(o.li or {})
  since = max(since, at8(raw, %REC_DUE_AT%))
  for _, name in ipairs(o.li or {}) do
    if Named.closed(rows[name], o.co or 1) then return nil end
    since = max(since, min(rows[name].open_since, S.now))
  end
  local row = o.sh and r.flags >= %ROW_SHARED% and Share.row(r, o.sh)
  if row and Share.closed(row, Share.settings(r)) then return nil end
  return row and max(since, min(row.open_since, S.now)) or since
end

-- Jobs of one line that statistics read: of the first one another limit may be closed.
local HEADS = 4

-- The earliest since when one of the first jobs of a line may start that is open; nil if none may.
function Named.oldest_opened(r)
  if not Named.has_open(r) then return nil end
  local found, oldest = call('ZRANGEBYSCORE', Named.opens_key(r), '-inf', fmt('%d', S.now), 'WITHSCORES', 'LIMIT', 0, LINES_OPENED), nil
  for i = 1, #found, 2 do
    local firsts, raws = places_of(r, found[i], 0, 255, HEADS)
    for k = 1, #firsts do
      local raw = raws[k]
      local since = raw and byte(raw) <= %TAG_WAITING% and open_since(r, raw, tonum(found[i + 1]))
      if since and (not oldest or since < oldest) then oldest = since end
    end
  end
  return oldest
end

-- Whether a line of a queue is open by now.
function Named.has_open(r) return Named.kept_of(r) > 0 and Named.of(r).park <= S.now end

-- When time opens the first line of a queue, and the limits of the queue let jobs start; 0 if
-- never.
function Named.wake_at(r)
  if Named.kept_of(r) == 0 then return 0 end
  local at = Named.of(r).park
  if at >= NOT_BY_TIME then return 0 end
  at = max(at, S.now)
  local closed_till = Gate.closed_until(r)
  return closed_till and (closed_till > 0 and max(at, closed_till) or 0) or at
end

-- Other settings hold for a limit, or it was blocked, or is so no more.
local function limit_changed(row)
  if not row.was_there and not row.is_dirty then return end
  -- What was to open later has nothing to do with what holds now.
  row.open_since = min(row.open_since, S.now)
  local by, till = Named.closed(row, 1)
  if not by and row.waiting > 0 then
    row.open_since = S.now
  elseif by and till > 0 then
    row.open_since = till
  end
  Named.changes(row)
  Named.wake(row)
end

-- Goes on with limits whose family has other settings, a bounded part.
function Named.check_some()
  local all = Named.all()
  local one = table.remove(all.check)
  if not one then return end
  local prefix, last = one[1], one[2]
  local found = call('ZRANGEBYLEX', S.k.nn, last == '' and '[' .. prefix .. ':' or '(' .. last, '(' .. prefix .. ';', 'LIMIT', 0, EXAMINED_MAX)
  Named.fetch(found)
  for i = 1, #found do limit_changed(all.rows[found[i]]) end
  if #found == EXAMINED_MAX then all.check[#all.check + 1] = {prefix, found[#found]} end
end

-- Before a claim of a queue with such jobs: goes on with what a change of a family left.
function Named.prepare()
  if #Named.all().check > 0 then Named.check_some() end
end

-- Refuses one more limit with settings than there may be.
function Named.may_write(name, known, value)
  if known or not value or Named.all().records < %LIMIT_RECORDS_MAX% then return end
  refuse('conflict', 'namespace has too many named limits; remove some, or set one for all keys of a name limit=' .. name .. ' most=%LIMIT_RECORDS_MAX%')
end

-- The settings of a limit were written: those who obey them are looked at.
function Named.set(name, known, value)
  local all = Named.all()
  Named.reload()
  local row = Named.row(name)
  all.records = max(0, all.records + (value and 1 or 0) - (known and 1 or 0))
  if value then
    call('ZADD', S.k.nn, '0', name)
  elseif not row.was_there then
    call('ZREM', S.k.nn, name)
  end
  limit_changed(row)
  if find(name, ':', 1, true) then return end
  for i, one in ipairs(all.check) do
    if one[1] == name then
      table.remove(all.check, i)
      break
    end
  end
  all.check[#all.check + 1] = {name, ''}
  Named.check_some()
end

-- Blocks a limit for a span, or ends its block; whether that changed anything.
function Named.block(name, span)
  local row, all = Named.row(name), Named.all()
  local before, till = row.blocked > S.now and row.blocked or 0, span > 0 and S.now + span or 0
  if till == before then return false end
  if till > 0 and before == 0 and all.blocked >= %BLOCKED_LIMITS_MAX% then
    refuse('conflict', 'too many named limits are blocked; wait for some to open limit=' .. name .. ' most=%BLOCKED_LIMITS_MAX%')
  end
  row.blocked = till
  Named.changes(row)
  limit_changed(row)
  return true
end

-- Forgets limits of which nothing is to be remembered any more, a bounded part, and goes on with
-- what a change of a family left.
function Named.sweep()
  Named.prepare()
  local found = call('ZRANGEBYSCORE', S.k.ni, '-inf', fmt('%d', S.now), 'LIMIT', 0, EXAMINED_MAX)
  if #found == 0 then return end
  local rows = Named.fetch(found)
  for i = 1, #found do
    if rows[found[i]].was_there then Named.changes(rows[found[i]]) else call('ZREM', S.k.ni, found[i]) end
  end
end

end
