-- Serial groups. `BASE:g:QUEUE`: group to its row; `BASE:l:QUEUE`: the lines of all groups, ordered by group, priority,
-- position, due, enqueue; `BASE:gm:QUEUE`: members that are held or scheduled, by group and enqueue. A group that may be
-- claimed from has a place in the overflow sets of its lanes. Its only ready job may be alone in its row, in no line.
-- A row: version 1 | flags 1 | [active jobs 2 | last of them 16] | [holding id 16 | its lane if it is ready, else 255] |
-- [tat 8 | virtual time 8] | per priority with ready jobs: priority and bits 1 | [ready jobs 4] | [first 16] | [place 12].
do

local ROW_VERSION = 1
-- Flags of a row, and bits beside a priority.
local HAS_ACTIVE, HAS_HOLDING, HAS_LIMIT = 1, 2, 4
local KNOWS_FIRST, OF_SUSPECTS, ALONE, HAS_PLACE = 16, 32, 64, 128
-- Jobs of a group that may be active at a time.
local ACTIVE_MAX = 1

local function line_key(r) return S.base .. ':l:' .. r.name end
local function later_key(r) return S.base .. ':gm:' .. r.name end

local function line_member(j)
  return j.opts.g .. '\0' .. char(j.prio) .. (j.ext.fr and '\0' or '\1') .. Job.key(j) .. (is_suspect(j) and '\1' or '\0') .. j.id
end

-- A member goes into a sorted set, or out of it, with the others of this call.
local function gather(key, member, goes_in)
  local sets = S.gathered
  if not sets then
    sets = {}
    S.gathered = sets
  end
  local set = sets[key]
  if set and set.goes_in ~= goes_in then
    Group.write_lines()
    return gather(key, member, goes_in)
  end
  if not set then
    set = {key = key, goes_in = goes_in, n = 0}
    sets[key], sets[#sets + 1] = set, set
  end
  local n = set.n
  if goes_in then
    set[n + 1], set[n + 2], set.n = 0, member, n + 2
  else
    set[n + 1], set.n = member, n + 1
  end
end

-- Writes what was gathered; before a line is read.
function Group.write_lines()
  local sets = S.gathered
  S.gathered = nil
  for _, set in ipairs(sets or {}) do call_many(set.goes_in and 'ZADD' or 'ZREM', set.key, set) end
end

local function read_row(row, raw)
  local version, flags = byte(raw, 1, 2)
  if version ~= ROW_VERSION then refuse('data_damaged', 'a group has a row of a version that this library does not know; use a newer one') end
  local at, size = 3, #raw
  if flags % 2 == HAS_ACTIVE then
    row.n, row.a = unp('>I2c16', raw, at)
    at = at + 18
  end
  if floor(flags / HAS_HOLDING) % 2 == 1 then
    row.h, row.h_lane = unp('>c16B', raw, at)
    if row.h_lane == 255 then row.h_lane = nil end
    at = at + 17
  end
  if flags >= HAS_LIMIT then
    row.limit = sub(raw, at, at + 15)
    at = at + 16
  end
  while at <= size do
    local bits = byte(raw, at)
    local prio, line = bits % 16, {n = 1}
    local suspect = floor(bits / OF_SUSPECTS) % 2 == 1
    at = at + 1
    if floor(bits / ALONE) % 2 == 1 then
      row.alone = prio
    else
      line.n = unp('>I4', raw, at)
      at = at + 4
    end
    if floor(bits / KNOWS_FIRST) % 2 == 1 then
      line.id, line.suspect = sub(raw, at, at + 15), suspect
      at = at + 16
    end
    if bits >= HAS_PLACE then
      line.place, line.lane = sub(raw, at, at + 11), suspect and prio + 10 or prio
      at = at + 12
    end
    row.lines[prio] = line
  end
end

local function write_row(row)
  local flags, head = 0, ''
  if row.n > 0 then
    flags, head = HAS_ACTIVE, pack('>I2', row.n) .. row.a
  end
  if row.h then
    flags, head = flags + HAS_HOLDING, head .. row.h .. char(row.h_lane or 255)
  end
  if row.limit then
    flags, head = flags + HAS_LIMIT, head .. row.limit
  end
  local raw = char(ROW_VERSION, flags) .. head
  for prio, line in pairs(row.lines) do
    local id, place = not row.h and line.id, line.place
    local suspect
    if place then suspect = line.lane >= 10 else suspect = id and line.suspect end
    local alone = row.alone == prio
    raw = raw .. char(prio + (id and KNOWS_FIRST or 0) + (suspect and OF_SUSPECTS or 0) + (alone and ALONE or 0) + (place and HAS_PLACE or 0))
      .. (alone and '' or pack('>I4', line.n)) .. (id or '') .. (place or '')
  end
  return raw
end

local function new_row(r, group) return {q = r.name, group = group, n = 0, lines = {}} end

local function known_rows(r)
  local all = S.groups
  if not all then
    all = {}
    S.groups = all
  end
  local rows = all[r.name]
  if not rows then
    rows = {}
    all[r.name] = rows
  end
  return rows
end

-- Reads the rows of groups that the call does not know yet.
function Group.fetch(r, groups)
  local rows, wanted = known_rows(r), {}
  for i = 1, #groups do
    local group = groups[i]
    if not rows[group] then
      wanted[#wanted + 1], rows[group] = group, new_row(r, group)
    end
  end
  local raws = get_many(S.base .. ':g:' .. r.name, wanted)
  for i = 1, #wanted do
    if raws[i] then read_row(rows[wanted[i]], raws[i]) end
  end
  return rows
end

-- A group's row, read once per call and written with the commit.
function Group.row(r, group)
  return known_rows(r)[group] or Group.fetch(r, {group})[group]
end

-- A row has changed: its group is put where it belongs, once for all changes up to then.
local function changes(row)
  if row.dirty then return end
  row.dirty = true
  local changed_rows = S.changed_groups
  if not changed_rows then
    changed_rows = {}
    S.changed_groups = changed_rows
  end
  changed_rows[#changed_rows + 1] = row
end

-- The first of a group's line in a priority, as a member of it.
local function first_member(r, group, prio)
  Group.write_lines()
  local from = group .. '\0' .. char(prio)
  return call('ZRANGEBYLEX', line_key(r), '[' .. from, '(' .. group .. '\0' .. char(prio + 1), 'LIMIT', 0, 1)[1]
end

-- The first of a priority of a group; nil if there is none.
local function first_of(r, row, prio, line)
  if not line.id then
    local member = first_member(r, row.group, prio)
    if member then line.id, line.suspect, line.member = sub(member, -16), byte(member, -17) == 1, member end
  end
  return line.id
end

-- Whether a job that is there waits or runs in a group.
local function is_of(j, r, group) return j and j.tag < %TAG_HELD% and j.q == r.name and j.opts.g == group end

-- A place of a group as a member of an overflow set: behind the jobs that were due before it came up.
local function member_of(place, group)
  return '\1' .. sub(place, 1, 8) .. '\255' .. sub(place, 9) .. group
end

-- The group whose place a member of an overflow set is; nil if it is a job.
function Group.of_place(member)
  if byte(member, 10) == 255 then return sub(member, 15) end
end

local function leave_place(row, line)
  if not line.place then return end
  local left = row.left
  if not left then
    left = {}
    row.left = left
  end
  left[#left + 1], left[#left + 2] = line.lane, line.place
  line.place = nil
end

-- Which lane a group may be claimed from for its jobs of a priority; nil if none.
local function wanted_lane(r, row, prio, line)
  if row.n >= ACTIVE_MAX then return nil end
  if row.h then return row.h_lane and row.h_lane % 10 == prio and row.h_lane or nil end
  if first_of(r, row, prio, line) then return line.suspect and prio + 10 or prio end
end

local function lane_list(lists, lane)
  local list = lists[lane]
  if not list then
    list = {}
    lists[lane] = list
  end
  return list
end

-- Puts the groups that the call has changed in the lanes they may be claimed from, where one that has its turn keeps it,
-- and writes their rows.
function Group.flush()
  local changed_rows, queues = S.changed_groups, {}
  S.changed_groups = nil
  Group.write_lines()
  local stamp = u8(S.now) .. S.sub
  for i = 1, #changed_rows do
    local row = changed_rows[i]
    row.dirty = nil
    local of = queues[row.q]
    if not of then
      of = {r = Row.of(row.q), kv = {}, gone = {}, to = {}, from = {}}
      queues[row.q] = of
    end
    for prio, line in pairs(row.lines) do
      local lane = wanted_lane(of.r, row, prio, line)
      if line.place and line.lane ~= lane then leave_place(row, line) end
      if lane and not line.place then
        S.part = min(S.part + 1, 65535) -- behind the jobs of this step; so many groups are in no order
        line.lane, line.place = lane, stamp .. pack('>I2', S.part)
        local to = lane_list(of.to, lane)
        to[#to + 1], to[#to + 2] = 0, member_of(line.place, row.group)
      end
    end
    local left = row.left
    if left then
      for k = 1, #left, 2 do
        local from = lane_list(of.from, left[k])
        from[#from + 1] = member_of(left[k + 1], row.group)
      end
      row.left = nil
    end
    if row.n > 0 or row.h or row.limit or next(row.lines) ~= nil then
      local kv = of.kv
      kv[#kv + 1], kv[#kv + 2] = row.group, write_row(row)
    else
      of.gone[#of.gone + 1] = row.group
    end
  end
  for q, of in pairs(queues) do
    for lane, members in pairs(of.from) do Line.places_left(of.r, lane, members) end
    for lane, members in pairs(of.to) do Line.places_taken(of.r, lane, members) end
    call_many('HSET', S.base .. ':g:' .. q, of.kv)
    call_many('HDEL', S.base .. ':g:' .. q, of.gone)
  end
end

-- The only ready job of a group gets others beside it: it goes to its line.
local function join_line(r, row)
  local prio = row.alone
  local line = row.lines[prio]
  row.alone = nil
  if not line.member then
    local j = Job.load(line.id)
    if is_of(j, r, row.group) then line.member = line_member(j) end
  end
  if line.member then return gather(line_key(r), line.member, true) end
  r.c[READY], S.lost = max(0, r.c[READY] - 1), true -- its record was deleted by somebody else
  leave_place(row, line)
  row.lines[prio] = nil
end

-- Puts a job in the line of its group: it was enqueued now, or not; `suspect` if it is.
function Group.stand(r, row, prio, id, suspect, member, is_new)
  if row.alone then join_line(r, row) end
  local lines = row.lines
  local line = lines[prio]
  if not line then
    if row.n == 0 and not row.h and next(lines) == nil then
      row.alone = prio
    else
      gather(line_key(r), member, true)
    end
    lines[prio] = {n = 1, id = id, suspect = suspect, member = member}
  else
    gather(line_key(r), member, true)
    line.n = line.n + 1
    if line.id and not is_new then -- one enqueued now is behind all that wait
      if not line.member then
        line.id = nil
      elseif below(member, line.member) then
        line.id, line.suspect, line.member = id, suspect, member
      end
    end
  end
  changes(row)
end

function Group.up(r, j)
  local row = Group.row(r, j.opts.g)
  if row.h == j.id then row.h_lane = lane_of(j) end
  Group.stand(r, row, j.prio, j.id, is_suspect(j), line_member(j), false)
end

local function is_alone(row, j) return row.alone == j.prio and row.lines[j.prio].id == j.id end

function Group.has(r, j)
  if is_alone(Group.row(r, j.opts.g), j) then return true end
  Group.write_lines()
  return call('ZSCORE', line_key(r), line_member(j)) and true
end

-- Takes a ready job out of its group's line.
local function take_out(r, row, j)
  local prio = j.prio
  local line = row.lines[prio]
  if is_alone(row, j) then
    row.alone = nil
  else
    gather(line_key(r), line_member(j), false)
  end
  if line then
    line.n = line.n - 1
    if line.id == j.id then line.id, line.member = nil, nil end
    if line.n <= 0 then
      leave_place(row, line)
      row.lines[prio] = nil
    end
  end
  changes(row)
end

function Group.down(r, j)
  local row = Group.row(r, j.opts.g)
  if row.h == j.id then row.h_lane = nil end
  take_out(r, row, j)
end

-- The job that a group's place in a lane stands for.
function Group.candidate(r, group, lane)
  local row = Group.row(r, group)
  if row.h_lane == lane then return row.h end
  local line = row.lines[lane % 10]
  return line and first_of(r, row, lane % 10, line)
end

-- The only ready job of a group, if it is in no line.
function Group.alone(row) return row.alone and row.lines[row.alone].id end

-- A claimed job: its group is busy.
function Group.started(r, j)
  local row = Group.row(r, j.opts.g)
  row.h, row.h_lane = nil, nil
  row.n, row.a = row.n + 1, j.id
  take_out(r, row, j)
end

-- The job of a group's place in a lane is gone without a word: the next one stands there. Whether it stood in line.
function Group.lost(r, group, lane, id)
  local row, prio = Group.row(r, group), lane % 10
  local line, stood = row.lines[prio], false
  if row.h == id then row.h, row.h_lane = nil, nil end
  if line then
    line.place = nil
    local is_only = row.alone == prio and line.id == id
    local first = not is_only and first_member(r, group, prio)
    stood = is_only or first and sub(first, -16) == id
    if is_only then row.alone = nil end
    if stood and first then gather(line_key(r), first, false) end
    if stood then line.n = line.n - 1 end
    if line.n <= 0 then row.lines[prio] = nil end
    line.id, line.member = nil, nil
  end
  S.lost = true
  changes(row)
  return stood
end

-- Lets go of a group whose active or holding job has no record any more.
function Group.heal(r, group)
  local row = Group.row(r, group)
  if row.a and not is_of(Job.load(row.a), r, group) then row.n, row.a = 0, nil end
  if row.h and not is_of(Job.load(row.h), r, group) then row.h, row.h_lane = nil, nil end
  changes(row)
end

local function leave(row, j)
  if row.a == j.id then row.n, row.a = row.n - 1, nil end
end

-- The attempt of an active job is over and the job waits again; `holds` keeps the others back.
function Group.ended(r, j, holds)
  local row = Group.row(r, j.opts.g)
  leave(row, j)
  row.h, row.h_lane = holds and j.id or nil, nil
  changes(row)
end

-- A job of a group has settled.
function Group.settled(r, j)
  local row = Group.row(r, j.opts.g)
  if row.a ~= j.id and row.h ~= j.id then return end
  leave(row, j)
  if row.h == j.id then row.h, row.h_lane = nil, nil end
  changes(row)
end

-- A job of a group is held or scheduled, or is so no longer.
function Group.waits(r, j, does)
  gather(later_key(r), j.opts.g .. '\0' .. Job.seq(j) .. j.id, does)
end

-- Unsettled jobs of a group after a cursor, each with the cursor after it: the active one, those in line, others.
function Group.members(r, group, cursor, limit)
  local start, out, part, after = group .. '\0', {}, 1, nil
  if cursor then
    part, after = byte(cursor, #start + 1), sub(cursor, #start + 2)
    if sub(cursor, 1, #start) ~= start or not part or part < 1 or part > 3 then Inspect.bad_cursor() end
  end
  local function put(id, at) if #out < limit then out[#out + 1] = {id, start .. char(part) .. at} end end
  while part <= 3 and #out < limit do
    if part == 1 then
      local row = Group.row(r, group)
      local only = row.a or Group.alone(row)
      if only and not after then put(only, '') end
    else
      Group.write_lines()
      local from = after and '(' .. start .. after or '[' .. start
      local members = call('ZRANGEBYLEX', part == 2 and line_key(r) or later_key(r), from, '(' .. group .. '\1', 'LIMIT', 0, limit - #out)
      for _, member in ipairs(members) do put(sub(member, -16), sub(member, #start + 1)) end
    end
    part, after = part + 1, nil
  end
  return out
end

end
