-- Serial groups. `BASE:g:QUEUE`: group to its row; `BASE:l:QUEUE`: the lines of all groups, ordered
-- by group, priority, position, due, enqueue; `BASE:gm:QUEUE`: members that are held or scheduled,
-- by group and enqueue. A group that may be claimed from has a place in the overflow sets of its
-- lanes, or in the line of the share of its first job. Its only ready job may be alone in its row,
-- in no line. A row: version and flags 1 | [active jobs 2 | last of them 16] | [holding id 16 | its
-- lane if it is ready, else 255] | per priority with ready jobs: priority and bits 1 | [ready jobs
-- 4 | known ones 1] | the known ones, first in line, 16 each | [place 10 | [length of its share 2 |
-- the share] | [length of the limit that keeps it back 1 | the limit | the job it does so for 16]].
-- Who is alone is known. Shares count groups that have had jobs with one.
do

-- The first byte of a row: its version times eight, and flags.
local ROW_VERSION, HAS_ACTIVE, HAS_HOLDING, HAS_SHARES, HAS_LIMITS = 1, 1, 2, 4, 8
-- Bits beside a priority.
local OF_SUSPECTS, ALONE, HAS_PLACE = 16, 32, 64
-- Jobs of a group that may be active at a time, and of a line that its row knows.
local ACTIVE_MAX, KNOWN_MAX = 1, 8

local function line_key(r) return S.base .. ':l:' .. r.name end
local function later_key(r) return S.base .. ':gm:' .. r.name end

local function line_member(j)
  return j.opts.g .. '\0' .. char(j.prio) .. (j.ext.fr and '\0' or '\1') .. Job.key(j) .. (is_suspect(j) and '\1' or '\0') .. j.id
end

-- The same of a record, unless its job is a suspect.
local function member_of_record(group, id, raw, in_front)
  return group .. '\0' .. sub(raw, %REC_PRIORITY%, %REC_PRIORITY%) .. (in_front and '\0' or '\1') .. sub(raw, %REC_DUE%) .. sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. '\0' .. id
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
    set[n + 1], set[n + 2], set.n = '0', member, n + 2
  else
    set[n + 1], set.n = member, n + 1
  end
end

Group.gather, Group.member_of_record = gather, member_of_record

-- Writes what was gathered; before a line is read.
function Group.write_lines()
  local sets = S.gathered
  S.gathered = nil
  for _, set in ipairs(sets or {}) do
    if set.goes_in then call_many('ZADD', set.key, set) else call_many('ZREM', set.key, set) end
  end
end

-- The first job that a row knows of a line: `known` has their ids, 16 bytes each.
local function head_of(line) return sub(line.known, %ID_BYTES%) end

local function read_row(row, raw)
  local flags, at, size = byte(raw) - 8 * ROW_VERSION, 2, #raw
  if flags < 0 or flags > 15 then refuse('data_damaged', 'a group has a row of a version that this library does not know; use a newer one') end
  if flags % 2 == HAS_ACTIVE then
    row.n, row.a = unp('>I2c16', raw, at)
    at = at + 18
  end
  local kept
  if flags > HAS_ACTIVE then
    if flags % (2 * HAS_HOLDING) >= HAS_HOLDING then
      row.h, row.h_lane = unp('>c16B', raw, at)
      if row.h_lane == 255 then row.h_lane = nil end
      at = at + 17
    end
    kept, row.shares = flags >= HAS_LIMITS, flags % (2 * HAS_SHARES) >= HAS_SHARES or nil
  end
  while at <= size do
    local bits = byte(raw, at)
    local prio, suspect, n, count = bits % 16, bits % (2 * OF_SUSPECTS) >= OF_SUSPECTS, 1, 1
    at = at + 1
    if bits % (2 * ALONE) >= ALONE then
      row.alone = prio
    else
      n, count = unp('>I4B', raw, at)
      at = at + 5
    end
    local line = {n = n, known = sub(raw, at, at + 16 * count - 1), suspect = suspect}
    at = at + 16 * count
    if bits >= HAS_PLACE then
      line.place, line.lane = sub(raw, at, at + 9), suspect and prio + 10 or prio
      at = at + 10
      if row.shares then
        local length = unp('>I2', raw, at)
        if length > 0 then line.share = sub(raw, at + 2, at + 1 + length) end
        at = at + 2 + length
      end
      if kept then
        local length = byte(raw, at)
        if length > 0 then line.limit, line.kept_for = unp('>c' .. length .. 'c16', raw, at + 1) end
        at = at + 1 + length + (length > 0 and 16 or 0)
      end
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
  if row.shares then flags = flags + HAS_SHARES end
  local kept = false
  for _, line in pairs(row.lines) do kept = kept or line.limit ~= nil end
  if kept then flags = flags + HAS_LIMITS end
  local raw = char(8 * ROW_VERSION + flags) .. head
  for prio, line in pairs(row.lines) do
    local known, place, bits = line.known, line.place, prio
    if row.h then known = '' end -- the place is of the holding one
    if place then bits = bits + HAS_PLACE end
    if place and line.lane >= 10 or not place and known ~= '' and line.suspect then bits = bits + OF_SUSPECTS end
    if place and row.shares then place = place .. pack('>I2', #(line.share or '')) .. (line.share or '') end
    if place and kept then place = place .. (line.limit and char(#line.limit) .. line.limit .. line.kept_for or '\0') end
    if row.alone == prio then
      raw = raw .. char(bits + ALONE) .. known .. (place or '')
    else
      raw = raw .. char(bits) .. pack('>I4B', line.n, #known / 16) .. known .. (place or '')
    end
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

-- Reads the rows of groups that a call does not know yet; `found`: those of all, if they are read.
function Group.fetch(r, groups, found)
  local rows, wanted = known_rows(r), {}
  for i = 1, #groups do
    local group = groups[i]
    if not rows[group] then
      wanted[#wanted + 1], rows[group] = group, new_row(r, group)
    end
  end
  local raws = found or get_many(S.base .. ':g:' .. r.name, wanted)
  for i = 1, #wanted do
    local raw = raws[found and wanted[i] or i]
    if raw then read_row(rows[wanted[i]], raw) end
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

Group.changes = changes

-- The first of a group's line in a priority, as members of it.
local function first_members(r, group, prio, limit)
  Group.write_lines()
  local from = group .. '\0' .. char(prio)
  return call('ZRANGEBYLEX', line_key(r), '[' .. from, '(' .. group .. '\0' .. char(prio + 1), 'LIMIT', 0, limit)
end

Group.first_members = first_members

-- The first of a priority of a group; nil if there is none. A suspect is known only while it is the
-- first.
local function first_of(r, row, prio, line)
  if line.known ~= '' then return head_of(line) end
  local ids = {}
  for k, member in ipairs(first_members(r, row.group, prio, min(line.n, KNOWN_MAX))) do
    local suspect = byte(member, -17) == 1
    if k == 1 then line.suspect = suspect elseif suspect or line.suspect then break end
    ids[k] = sub(member, -16)
  end
  line.known = concat(ids)
  return ids[1]
end

-- Whether a job that is there waits or runs in a group.
local function is_of(j, r, group) return j and j.tag < %TAG_HELD% and j.q == r.name and j.opts.g == group end

-- A place of a group as a member of an overflow set: behind the jobs that were due before it came
-- up.
local function member_of(place, group)
  return '\1\0' .. sub(place, %GROUP_STAMP_START%) .. '\255' .. sub(place, %GROUP_STAMP_REST_AT%) .. group
end

-- The group whose place a member of an overflow set is; nil if it is a job.
function Group.of_place(member)
  if byte(member, %PLACE_MARK_AT%) == 255 then return sub(member, %PLACE_GROUP_AT%) end
end

local function leave_place(row, line)
  if not line.place then return end
  local left = row.left
  if not left then
    left = {}
    row.left = left
  end
  local n = #left
  left[n + 1], left[n + 2], left[n + 3], left[n + 4] = line.lane, line.place, line.share or false, line.limit or false
  line.place, line.share, line.limit = nil, nil, nil
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

-- The place of a group that comes up next, in the microsecond of a stamp.
local function next_place(stamp)
  S.part = min(S.part + 1, 65535) -- so many groups, and writes of a microsecond, are in no order
  return stamp .. pack('>I3', min(M.sub, 4095) * 4096 + S.part % 4096)
end

Group.member_of, Group.next_place = member_of, next_place

-- The shares of the first jobs of groups that have jobs with one, by id.
local function shares_of_heads(changed_rows)
  local ids, out = {}, {}
  for i = 1, #changed_rows do
    local row = changed_rows[i]
    if row.shares then
      for prio, line in pairs(row.lines) do
        if wanted_lane(Row.of(row.q), row, prio, line) then ids[#ids + 1] = row.h or head_of(line) end
      end
    end
  end
  if #ids == 0 then return out end
  local raws = Job.raws(ids)
  for i = 1, #ids do
    if raws[i] and byte(raws[i]) < %TAG_TOMBSTONE% then out[ids[i]] = Job.parse(ids[i], raws[i]).opts.sh end
  end
  return out
end

-- Puts the groups that the call has changed in the lanes they may be claimed from, where one that
-- has its turn keeps it, and writes their rows.
function Group.flush()
  local changed_rows, queues = S.changed_groups, {}
  S.changed_groups = nil
  Group.write_lines()
  local stamp, heads = sub(u8(S.now), 2), shares_of_heads(changed_rows)
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
      local share = row.shares and lane and heads[row.h or head_of(line)] or nil
      if line.place and (line.lane ~= lane or line.share ~= share) then leave_place(row, line) end
      local stood
      -- Another job comes first now, which may have other limits or none.
      if line.limit and line.kept_for ~= (row.h or head_of(line)) then
        stood = line.place
        leave_place(row, line)
      end
      if lane and not line.place then
        line.lane, line.place, line.share = lane, stood or next_place(stamp), share
        local place = member_of(line.place, row.group)
        if share then
          Share.place_in(of.r, Share.row(of.r, share), lane, place)
        else
          local to = lane_list(of.to, lane)
          to[#to + 1], to[#to + 2] = '0', place
        end
      end
    end
    local left = row.left
    if left then
      for k = 1, #left, 4 do
        local lane, place, share, limit = left[k], member_of(left[k + 1], row.group), left[k + 2], left[k + 3]
        if limit then
          Named.leave(of.r, limit, lane, place)
        elseif share then
          Share.place_out(of.r, Share.row(of.r, share), lane, place)
        else
          local from = lane_list(of.from, lane)
          from[#from + 1] = place
        end
      end
      row.left = nil
    end
    if row.n > 0 or row.h or next(row.lines) ~= nil then
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
  if line.share then Share.waits(r, line.share, line.known) end -- where a new bound counts, it may pass its count by
  local member
  if line.raw then
    member = member_of_record(row.group, line.known, line.raw)
  else
    local j = Job.load(line.known)
    if is_of(j, r, row.group) then member = line_member(j) end
  end
  if member then return gather(line_key(r), member, true) end
  r.counts[READY], S.lost = max(0, r.counts[READY] - 1), true -- another client deleted its record
  leave_place(row, line)
  row.lines[prio] = nil
end

-- Whether a group has nothing to do: what comes up may be alone in its row.
local function is_idle(row) return row.n == 0 and not row.h and next(row.lines) == nil end

function Group.up(r, j)
  local row, prio = Group.row(r, j.opts.g), j.prio
  if j.opts.sh then row.shares = true end
  if row.h == j.id then row.h_lane = lane_of(j) end
  if row.alone then join_line(r, row) end
  local line = row.lines[prio]
  if is_idle(row) then row.alone = prio else gather(line_key(r), line_member(j), true) end
  if not line then
    row.lines[prio] = {n = 1, known = j.id, suspect = is_suspect(j)}
  else
    line.n, line.known = line.n + 1, '' -- it may stand anywhere in it
  end
  changes(row)
end

-- Puts jobs in line that are each the only one of a new group, which is not known before; `found`
-- has the rows of all. Their rows and places are written as they are. Whether it did.
local function line_up_new(r, ids, raws, groups, found)
  local rows, seen, n = known_rows(r), {}, #ids
  for i = 1, n do
    local group = groups[i]
    if rows[group] or seen[group] then return false end
    seen[group] = true
  end
  for i = 1, n do if found[i] then return false end end
  if S.changed_groups then Group.flush() end -- those came before
  local stamp, kv, to, head = sub(u8(S.now), 2), {}, {}, char(8 * ROW_VERSION)
  for i = 1, n do
    local lane, place = byte(raws[i], %REC_PRIORITY%), next_place(stamp)
    kv[2 * i - 1], kv[2 * i] = groups[i], head .. char(lane + ALONE + HAS_PLACE) .. ids[i] .. place
    local members = lane_list(to, lane)
    local k = #members
    members[k + 1], members[k + 2] = '0', member_of(place, groups[i])
  end
  for lane, members in pairs(to) do Line.places_taken(r, lane, members) end
  call_many('HSET', S.base .. ':g:' .. r.name, kv)
  r.counts[READY] = r.counts[READY] + n
  return true
end

-- Puts jobs of groups that were enqueued now, in their order, at the end of their lines: ids,
-- records, groups, and shares if there are any.
function Group.line_up(r, ids, raws, groups, shares)
  local found = get_many(S.base .. ':g:' .. r.name, groups)
  if not shares and line_up_new(r, ids, raws, groups, found) then return end
  local others, of, read = Group.line_up_behind(r, ids, raws, groups, shares, found)
  local rows, key = Group.fetch(r, of, read), line_key(r)
  for _, i in ipairs(others) do
    local row, raw = rows[groups[i]], raws[i]
    if shares and shares[i] then row.shares = true end
    if row.alone then join_line(r, row) end
    local prio = byte(raw, %REC_PRIORITY%)
    local line = row.lines[prio]
    if not line and is_idle(row) then
      row.alone, row.lines[prio] = prio, {n = 1, known = ids[i], suspect = false, raw = raw}
    else
      gather(key, member_of_record(groups[i], ids[i], raw), true)
      if not line then
        row.lines[prio] = {n = 1, known = ids[i], suspect = false}
      else
        if #line.known == 16 * line.n and line.n < KNOWN_MAX and not line.suspect then line.known = line.known .. ids[i] end
        line.n = line.n + 1
      end
    end
    changes(row)
  end
  r.counts[READY] = r.counts[READY] + #ids
end

local function is_alone(row, prio, id) return row.alone == prio and row.lines[prio].known == id end

function Group.has(r, j)
  if is_alone(Group.row(r, j.opts.g), j.prio, j.id) then return true end
  Group.write_lines()
  return call('ZSCORE', line_key(r), line_member(j)) and true
end

-- A ready job has left its group's line.
local function left_line(row, prio, id)
  local line = row.lines[prio]
  if line then
    line.n = line.n - 1
    local known = line.known
    for at = 1, #known, 16 do
      if sub(known, at, at + 15) == id then
        line.known, line.suspect = sub(known, 1, at - 1) .. sub(known, at + 16), line.suspect and at > 1
        break
      end
    end
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
  if is_alone(row, j.prio, j.id) then row.alone = nil else gather(line_key(r), line_member(j), false) end
  left_line(row, j.prio, j.id)
end

-- The job that a group's place in a lane stands for.
function Group.candidate(r, group, lane)
  local row = Group.row(r, group)
  if row.h_lane == lane then return row.h end
  local line = row.lines[lane % 10]
  return line and first_of(r, row, lane % 10, line)
end

-- The only ready job of a group, if it is in no line.
function Group.alone(row) return row.alone and row.lines[row.alone].known end

-- A job was claimed: its group is busy. `j` is given if it is a suspect.
function Group.started(r, group, id, raw, in_front, j)
  local row, prio = Group.row(r, group), byte(raw, %REC_PRIORITY%)
  row.h, row.h_lane = nil, nil
  row.n, row.a = row.n + 1, id
  if is_alone(row, prio, id) then
    row.alone = nil
  else
    gather(line_key(r), j and line_member(j) or member_of_record(group, id, raw, in_front), false)
  end
  left_line(row, prio, id)
end

-- The job of a group's place in a lane is gone without a word: the next one stands there. Whether
-- it stood in line.
function Group.lost(r, group, lane, id)
  local row, prio = Group.row(r, group), lane % 10
  local line, stood = row.lines[prio], false
  if row.h == id then row.h, row.h_lane = nil, nil end
  if line then
    line.place, line.share = nil, nil
    local is_only = is_alone(row, prio, id)
    local first = not is_only and first_members(r, group, prio, 1)[1]
    stood = is_only or first and sub(first, -16) == id
    if is_only then row.alone = nil end
    if stood and first then gather(line_key(r), first, false) end
    if stood then line.n = line.n - 1 end
    if line.n <= 0 then row.lines[prio] = nil end
    line.known = ''
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

local function leave(row, id) if row.a == id then row.n, row.a = row.n - 1, nil end end

-- The attempt of an active job is over and the job waits again; `holds` keeps the others back.
function Group.ended(r, j, holds)
  local row = Group.row(r, j.opts.g)
  leave(row, j.id)
  row.h, row.h_lane = holds and j.id or nil, nil
  changes(row)
end

-- A job of a group has settled.
function Group.settled(r, group, id)
  local row = Group.row(r, group)
  if row.a ~= id and row.h ~= id then return end
  leave(row, id)
  if row.h == id then row.h, row.h_lane = nil, nil end
  changes(row)
end

-- The same of jobs that settled together.
function Group.settled_many(r, groups, ids)
  local k = Group.settled_alone(r, groups, ids, get_many(S.base .. ':g:' .. r.name, groups))
  if k < #groups then Group.fetch(r, slice(groups, k + 1, #groups)) end
  for i = k + 1, #groups do Group.settled(r, groups[i], ids[i]) end
end

-- A job of a group, whose order of enqueue is `seq`, is held or scheduled, or is so no longer.
function Group.waits(r, group, seq, id, does)
  gather(later_key(r), group .. '\0' .. seq .. id, does)
end

-- Unsettled jobs of a group after a cursor, each with the cursor after it: the active one, those in
-- line, others.
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
