-- Serial groups. `BASE:g:QUEUE`: group to its row; `BASE:l:QUEUE`: the lines of all groups, ordered
-- by group, priority, position, due, enqueue; `BASE:gm:QUEUE`: unsettled members by group and
-- enqueue. A group that may be claimed from stands in the overflow sets of its lanes. A row: a
-- active id, h holding id, r ready jobs by priority, m members, p places by lane.
do

local function line_member(j)
  return j.opts.g .. '\0' .. char(j.prio) .. (j.ext.fr and '\0' or '\1') .. Job.key(j) .. (is_suspect(j) and '\1' or '\0') .. j.id
end

-- A group's row, read once per call and written with the commit.
function Group.row(r, group)
  S.groups = S.groups or {}
  local name = r.name .. '\0' .. group
  local row = S.groups[name]
  if row then return row end
  local raw = call('HGET', S.base .. ':g:' .. r.name, group)
  row = {r = {}, m = 0, p = {}, q = r.name, group = group}
  S.groups[name] = row
  if raw then
    local known = mp.unpack(raw)
    row.a, row.h, row.m = known.a, known.h, known.m
    for i = 1, #known.r, 2 do row.r[known.r[i]] = known.r[i + 1] end
    for i = 1, #known.p, 2 do row.p[known.p[i]] = known.p[i + 1] end
  end
  return row
end

-- Writes the rows that the call has changed.
function Group.flush()
  local sets, gone = {}, {}
  for _, row in ipairs(S.changed_groups) do
    row.dirty = nil
    local q = row.q
    if row.m == 0 and next(row.r) == nil then
      gone[q] = gone[q] or {}
      gone[q][#gone[q] + 1] = row.group
    else
      local ready, places, kv = {}, {}, sets[q] or {}
      for prio, n in pairs(row.r) do ready[#ready + 1], ready[#ready + 2] = prio, n end
      for lane, member in pairs(row.p) do places[#places + 1], places[#places + 2] = lane, member end
      kv[#kv + 1], kv[#kv + 2] = row.group, mp.pack({a = row.a, h = row.h, r = ready, m = row.m, p = places})
      sets[q] = kv
    end
  end
  for q, kv in pairs(sets) do call_many('HSET', S.base .. ':g:' .. q, kv) end
  for q, groups in pairs(gone) do call_many('HDEL', S.base .. ':g:' .. q, groups) end
  S.changed_groups = nil
end

-- The first of a group's line in a priority: id and whether it is suspect.
function Group.head(r, group, prio)
  local from = group .. '\0' .. char(prio)
  local found = call('ZRANGEBYLEX', S.base .. ':l:' .. r.name, '[' .. from, '(' .. group .. '\0' .. char(prio + 1), 'LIMIT', 0, 1)[1]
  if found then return sub(found, -16), byte(found, -17) == 1 end
end

-- Whether a job that is there waits or runs in a group.
local function is_of(j, r, group) return j and j.tag < %TAG_HELD% and j.q == r.name and j.opts.g == group end

local function wanted_lanes(r, group, row)
  local lanes = {}
  if row.a then return lanes end
  if row.h then
    local j = Job.load(row.h)
    if is_of(j, r, group) then
      if call('ZSCORE', S.base .. ':l:' .. r.name, line_member(j)) then lanes[lane_of(j)] = true end
      return lanes
    end
    S.lost, row.h = true, nil -- its record is gone: it holds nothing any more
  end
  for prio in pairs(row.r) do
    local id, suspect = Group.head(r, group, prio)
    if id then lanes[suspect and prio + 10 or prio] = true end
  end
  return lanes
end

-- Stands a group in the lanes it may be claimed from, keeping its turn where it has one.
function Group.refresh(r, group, row)
  local lanes = wanted_lanes(r, group, row)
  for lane, member in pairs(row.p) do
    if lanes[lane] then
      lanes[lane] = nil
    else
      Line.overflow_remove(r, lane, member)
      row.p[lane] = nil
    end
  end
  for lane in pairs(lanes) do
    S.part = min(S.part + 1, 65535) -- behind the jobs of this step; so many groups are in no order
    local member = '\1' .. u8(S.now) .. u8(S.now) .. S.sub .. pack('>I2', S.part) .. 'G' .. group
    Line.overflow_add(r, lane, member)
    row.p[lane] = member
  end
  if not row.dirty then
    row.dirty = true
    S.changed_groups = S.changed_groups or {}
    S.changed_groups[#S.changed_groups + 1] = row
  end
end

local function add_ready(row, prio, n)
  local left = (row.r[prio] or 0) + n
  row.r[prio] = left > 0 and left or nil
end

function Group.has(r, j)
  return call('ZSCORE', S.base .. ':l:' .. r.name, line_member(j)) and true
end

function Group.up(r, j)
  call('ZADD', S.base .. ':l:' .. r.name, 0, line_member(j))
  local row = Group.row(r, j.opts.g)
  add_ready(row, j.prio, 1)
  Group.refresh(r, j.opts.g, row)
end

function Group.down(r, j)
  call('ZREM', S.base .. ':l:' .. r.name, line_member(j))
  local row = Group.row(r, j.opts.g)
  add_ready(row, j.prio, -1)
  Group.refresh(r, j.opts.g, row)
end

-- The job that a group's place in a lane stands for.
function Group.candidate(r, group, lane)
  local row = Group.row(r, group)
  return row.h or (Group.head(r, group, lane % 10))
end

-- A claimed job: its group is busy.
function Group.started(r, j)
  local row = Group.row(r, j.opts.g)
  call('ZREM', S.base .. ':l:' .. r.name, line_member(j))
  add_ready(row, j.prio, -1)
  row.h, row.a = nil, j.id
  Group.refresh(r, j.opts.g, row)
end

-- The job of a group's place in a lane is gone without a word: the next one stands there. Whether
-- it stood in line.
function Group.lost(r, group, lane, id)
  local row = Group.row(r, group)
  row.p[lane] = nil
  local prio = lane % 10
  local from, line = group .. '\0' .. char(prio), S.base .. ':l:' .. r.name
  if row.h == id then row.h = nil end
  local first = call('ZRANGEBYLEX', line, '[' .. from, '(' .. group .. '\0' .. char(prio + 1), 'LIMIT', 0, 1)[1]
  local stood = first and sub(first, -16) == id
  if stood then
    call('ZREM', line, first)
    add_ready(row, prio, -1)
    if call('ZREM', S.base .. ':gm:' .. r.name, group .. '\0' .. sub(first, -29, -18) .. id) == 1 then row.m = max(0, row.m - 1) end
  end
  S.lost = true
  Group.refresh(r, group, row)
  return stood
end

-- Members of a group that one step of the walk looks at.
local MEMBERS = 500

-- Lets go of a group whose active or holding job has no record any more, and forgets members
-- without one.
function Group.heal(r, group)
  local row, members, ids = Group.row(r, group), S.base .. ':gm:' .. r.name, {}
  if row.a and not is_of(Job.load(row.a), r, group) then row.a = nil end
  local found = call('ZRANGEBYLEX', members, '[' .. group .. '\0', '(' .. group .. '\1', 'LIMIT', 0, MEMBERS)
  for i, member in ipairs(found) do ids[i] = sub(member, -16) end
  local raws = Job.raws(ids)
  for i, member in ipairs(found) do
    if not raws[i] then
      call('ZREM', members, member)
      row.m = max(0, row.m - 1)
    end
  end
  Group.refresh(r, group, row)
end

-- The attempt of an active job is over and the job waits again; `holds` keeps the others back.
function Group.ended(r, j, holds)
  local row = Group.row(r, j.opts.g)
  row.a, row.h = nil, holds and j.id or nil
  Group.refresh(r, j.opts.g, row)
end

-- A job of a group was enqueued or has settled.
function Group.member(r, j, joins)
  local group = j.opts.g
  local member = group .. '\0' .. Job.seq(j) .. j.id
  local members = S.base .. ':gm:' .. r.name
  if joins then call('ZADD', members, 0, member) else call('ZREM', members, member) end
  local row = Group.row(r, group)
  row.m = max(0, row.m + (joins and 1 or -1))
  if not joins then
    if row.a == j.id then row.a = nil end
    if row.h == j.id then row.h = nil end
  end
  Group.refresh(r, group, row)
end

end
