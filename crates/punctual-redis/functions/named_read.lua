-- What is read of named limits: how they stand, why a job waits, who waits; and what heals them
-- after lost records.
do

-- How a limit stands: name, its settings (concurrency, rate, what a full one does with a new job),
-- whose they are, active, waiting, what is closed (0 nothing, 1 concurrency, 2 rate, 3 blocked),
-- when time opens it.
local function stands(row)
  local by, till = Named.closed(row, 1)
  local limits = row.limits
  return {row.name, row.set_by and {limits.most, limits.rate or {}, limits.full} or {}, row.set_by or '', row.active, row.waiting, by or 0, by and till > 0 and u8(till) or ''}
end

function Named.read(name) return stands(Named.row(name)) end

-- Limits after a name, in order: those with settings, and those with something to know.
function Named.list(after, limit)
  Named.sweep()
  Named.flush()
  local names, out = call('ZRANGEBYLEX', S.k.nn, after ~= '' and '(' .. after or '-', '+', 'LIMIT', 0, limit), {}
  local rows = Named.fetch(names)
  for i = 1, #names do out[i] = stands(rows[names[i]]) end
  return out
end

-- The named limits that keep a ready job from starting, as reasons.
function Named.why(j, out)
  local rows, units = Named.fetch(j.opts.li), j.opts.co or 1
  for _, name in ipairs(j.opts.li) do
    local row = rows[name]
    local limits = row.limits
    if row.blocked > S.now then out[#out + 1] = {25, name, u8(row.blocked)} end
    if limits.most > 0 and row.active >= limits.most then out[#out + 1] = {26, name, limits.most, row.active, limits.full} end
    local at = Named.rate_opens(row, units)
    if at then out[#out + 1] = {27, name, limits.rate, u8(at)} end
  end
end

-- Jobs before one in the line of the limit that keeps it back; nil if no limit does.
function Named.ahead(r, j)
  local limit = not j.opts.g and Named.kept_by(r, j)
  if not limit then return nil end
  return call('ZLEXCOUNT', Named.kept_key(r), '[' .. limit .. '\0', '(' .. limit .. '\0' .. char(lane_of(j)) .. Line.place_of(j))
end

-- Kept places after one, each with itself as the cursor: the id of a job, or of one that is alone
-- in its group; false where the lines of groups have it.
function Named.listed(r, after, limit)
  local out = {}
  if Named.kept_of(r) == 0 then return out end
  Group.write_lines()
  for i, member in ipairs(call('ZRANGEBYLEX', Named.kept_key(r), after and '(' .. after or '-', '+', 'LIMIT', 0, limit)) do
    local place = sub(member, find(member, '\0', 1, true) + 2)
    local group = Group.of_place(place)
    local id = group and Group.alone(Group.row(r, group)) or not group and sub(place, %PLACE_ID_AT%)
    out[i] = {id or false, member}
  end
  return out
end

-- Places of a queue that a limit keeps back, after one: the id of the job, of a group that of its
-- first one, and the place as the cursor.
local function kept_by(r, limit, after, most)
  if Named.kept_of(r) == 0 then return {} end
  Group.write_lines()
  local out, front = {}, limit .. '\0'
  if after and sub(after, 1, #front) ~= front then Inspect.bad_cursor() end
  for i, member in ipairs(call('ZRANGEBYLEX', Named.kept_key(r), after and '(' .. after or '[' .. front, '(' .. limit .. '\1', 'LIMIT', 0, most)) do
    local lane, place = byte(member, #front + 1), sub(member, #front + 2)
    local group = Group.of_place(place)
    out[i] = {group and Group.candidate(r, group, lane) or not group and sub(place, %PLACE_ID_AT%) or false, member}
  end
  return out
end

local function queue_from(name, is_after)
  local from = name and (is_after and '(' or '[') .. name or '-'
  return call('ZRANGEBYLEX', S.k.qs, from, '+', 'LIMIT', 0, 1)[1]
end

-- Jobs that hold a limit or wait at it, queue by queue: active ones, of which some have it, then
-- those that it keeps back, each with its cursor: part | queue NUL | place in it. The end of each
-- queue is an entry without a job, so that a call is bounded.
function Named.jobs(limit, cursor, most)
  local out, part, q, after = {}, 'a', queue_from(nil), nil
  if cursor then
    local nul = find(cursor, '\0', 1, true)
    part = sub(cursor, 1, 1)
    if not nul or part ~= 'a' and part ~= 'k' and part ~= 'z' then Inspect.bad_cursor() end
    local at = sub(cursor, 2, nul - 1)
    q = queue_from(at, part == 'z')
    if q == at then after = #cursor > nul and sub(cursor, nul + 1) or nil else part = 'a' end
  end
  while q and #out < most do
    local r, found, want = Row.find(q), {}, most - #out
    if r and flag(r, %ROW_NAMED%) then
      found = part == 'a' and Inspect.active_ids(q, after, want) or part == 'k' and kept_by(r, limit, after, want) or {}
    end
    for i = 1, #found do out[#out + 1] = {found[i][1], part .. q .. '\0' .. found[i][2]} end
    if #found == want then break end
    after = nil
    if part == 'a' then
      part = 'k'
    else
      out[#out + 1] = {false, 'z' .. q .. '\0'}
      q, part = queue_from(q, true), 'a'
    end
  end
  return out
end

-- Jobs of active leases that are counted anew at a time: of more their limits keep what was
-- counted.
local RECOUNTED = 2000

-- One step of a walk over the kept places of a queue: those whose records are gone are taken out.
function Named.heal(r, cursor, step)
  if Named.kept_of(r) == 0 then return '0' end
  Group.write_lines()
  local from, ids = tonum(cursor), {}
  local members = call('ZRANGE', Named.kept_key(r), from, from + step - 1)
  for i, member in ipairs(members) do
    local place = sub(member, find(member, '\0', 1, true) + 2)
    ids[i] = Group.of_place(place) and '' or sub(place, %PLACE_ID_AT%)
  end
  local raws, gone = Job.raws(ids), 0
  for i, member in ipairs(members) do
    if ids[i] ~= '' and not (raws[i] and byte(raws[i]) <= %TAG_WAITING%) then
      local nul = find(member, '\0', 1, true)
      Named.leave(r, sub(member, 1, nul - 1), byte(member, nul + 1), sub(member, nul + 2))
      Named.count(r, -1)
      r.counts[READY], gone = max(0, r.counts[READY] - 1), gone + 1
    end
  end
  Named.flush()
  return #members == step and fmt('%d', from + step - gone) or '0'
end

-- Counts of the active jobs of all limits, by their leases; nil if they are too many.
local function recount()
  local counts, n = {}, 0
  for _, q in ipairs(call('ZRANGE', S.k.e, 0, -1)) do
    local r = Row.find(q)
    if r and flag(r, %ROW_NAMED%) then
      n = n + r.counts[ACTIVE]
      if n > RECOUNTED then return nil end
      for _, token in ipairs(Lease.tokens_of(q)) do
        local p = Lease.load(token)
        local ids = p and not p.plain and Lease.rest(p) or {}
        for i, raw in ipairs(#ids > 0 and Job.raws(ids) or {}) do
          local j = raw and byte(raw) <= %TAG_WAITING% and Job.parse(ids[i], raw)
          for _, name in ipairs(j and j.q == q and j.opts.li or {}) do counts[name] = (counts[name] or 0) + 1 end
        end
      end
    end
  end
  return counts
end

-- One step of a walk over the limits: their active jobs are counted anew.
function Named.heal_counts(cursor, step)
  local answer = call('HSCAN', S.k.nl, cursor, 'COUNT', step)
  if #answer[2] == 0 then return answer[1] end
  local counts, names = recount(), {}
  if not counts then return '0' end
  for i = 1, #answer[2], 2 do names[#names + 1] = answer[2][i] end
  local rows = Named.fetch(names)
  for i = 1, #names do
    local row, active = rows[names[i]], counts[names[i]] or 0
    if row.active ~= active then
      row.active = active
      Named.changes(row)
      Named.wake(row)
    end
  end
  Named.flush()
  return answer[1]
end

end
