-- get and list: what there is. Reads change nothing: an expired job that no sweep has come to is
-- answered as the sweep will leave it.
do

-- Refuses a cursor: what a caller made up is their mistake, and no damage.
local function bad_cursor() refuse('invalid_input', 'cursor is not of this request; start again without one') end
Inspect.bad_cursor = bad_cursor

-- A number of a cursor, as engines write them: digits, few enough to be exact.
function Inspect.digits(text)
  if not text or #text > 16 or not find(text, '^%d+$') then bad_cursor() end
  return tonum(text)
end

local function seen_state(j)
  if j.tag > %TAG_HELD% then return j.tag end
  local p = j.tag < %TAG_HELD% and j.due <= S.now and Lease.of(j) or nil
  if p then return ACTIVE, p end
  if Job.has_expired(j) then
    j.tag, j.ext.cd, j.ext.fi, j.ext.fr = CANCELLED, 1, S.now, nil
    return CANCELLED
  end
  return j.tag == %TAG_HELD% and HELD or j.due > S.now and SCHEDULED or READY
end

-- A view of a job in a state.
local function view(j, state, p, without_payload)
  local active = ''
  if p then active = p.worker .. u8(p.started) .. u8(p.deadline or Lease.deadline(p)) end
  return j.id .. char(state) .. active .. Job.bytes(j, without_payload)
end

-- The id that a target names; nil if none.
function Inspect.resolve(target, writes)
  if #target == 1 then return #target[1] == 16 and target[1] or nil end
  local row = (writes and Unique.holder or Unique.seen)(target[1], target[2])
  return row and row.id
end

-- get. Key: base. Argument: instance, map {t, x, any}. Reply: map {j, x, n, i}.
function Inspect.get(base, blob)
  local map = Check.map('get', blob)
  Shard.open(base, sub(blob, %CALL_INSTANCE%), nil, true, map.any)
  local views, why = {}, {}
  for i, target in ipairs(map.t or {}) do
    views[i], why[i] = '', {}
    local id = not S.empty and Inspect.resolve(target)
    local raw = id and Job.raw(id)
    Job.check(raw)
    if raw and byte(raw) >= %TAG_TOMBSTONE% then
      raw = Settled.tombstone(id, raw)
      if raw and Settled.tombstone_counts(raw) then views[i] = id .. '\%TAG_TOMBSTONE%' .. raw end
    elseif raw then
      local j = Job.parse(id, raw)
      local state, p = seen_state(j)
      views[i] = view(j, state, p)
      if map.x then why[i] = Explain.reasons(j, state) end
    end
  end
  return mp.pack({j = views, x = map.x and why or nil, n = S.now, i = M.instance})
end

-- Whether a job is as old as that: a settled one counts from its end, any other from its enqueue.
local function is_older(j, state, span)
  local since = state > ACTIVE and j.ext.fi or unp('>I8', j.ext.en or j.enq8)
  return S.now - since >= span
end

-- Whether a job passes a filter.
local function passes(f, j, state)
  if f.ol and not is_older(j, state, f.ol) then return false end
  if f.q and f.q ~= j.q or f.s and f.s ~= state or f.k and f.k ~= j.kind then return false end
  if f.df and below(j.due8, f.df) or f.db and not below(j.due8, f.db) then return false end
  if f.er and not (j.ext.er and find(j.ext.er, f.er, 1, true)) then return false end
  return not f.te or f.te == '' or find(j.tail, f.te, j.cut + 1, true) ~= nil
end
Inspect.passes = passes

-- Ids of a sorted set ordered by bytes, after a member; each with its member.
local function by_lex(key, after, limit, cut)
  local out = {}
  for i, member in ipairs(call('ZRANGEBYLEX', key, after and '(' .. after or '-', '+', 'LIMIT', 0, limit)) do
    out[i] = {sub(member, cut), member}
  end
  return out
end

-- Ids of a sorted set by score and then bytes, after (score, member), downwards if asked; with
-- both.
local function by_score(key, after, limit, down)
  local function from_position(low, high, with)
    if down then return call('ZRANGE', key, low, high, 'REV', with) end
    return call('ZRANGE', key, low, high, with)
  end
  local position = 0
  if after then
    local bar = find(after, '|', 1, true)
    local score, member = bar and sub(after, 1, bar - 1), bar and sub(after, bar + 1)
    Inspect.digits(score)
    position = down and call('ZCOUNT', key, '(' .. score, '+inf') or call('ZCOUNT', key, '-inf', '(' .. score)
    local high = position + call('ZCOUNT', key, score, score)
    while position < high do -- the first one of the same score behind it, by halving
      local middle = floor((position + high) / 2)
      local one = sub(from_position(middle, middle, 'WITHSCORES')[1], %DUE_ENTRY%)
      if one == member or below(one, member) == not down then position = middle + 1 else high = middle end
    end
  end
  local out, found = {}, from_position(position, position + limit - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local one = found[i]
    local due, key_ = tonum(found[i + 1]), sub(one, %DUE_ENTRY%)
    out[#out + 1] = {sub(one, %DUE_ENTRY_ID%), fmt('%d|', due) .. key_, due = due, member = key_}
  end
  return out
end

-- Places of an overflow set that one call passes over.
local PLACES_MAX = 500

-- The groups of a lane that have only one ready job, which is in no line: its id, and its group's
-- place as a cursor.
local function alone_in_groups(r, lane, after, limit)
  local out, groups = {}, {}
  local members = call('ZRANGEBYLEX', S.base .. ':x:' .. lane .. ':' .. r.name, after and '(' .. after or '-', '+', 'LIMIT', 0, PLACES_MAX)
  for _, member in ipairs(members) do groups[#groups + 1] = Group.of_place(member) end
  local rows = Group.fetch(r, groups)
  for i, member in ipairs(members) do
    local group = Group.of_place(member)
    local id = group and Group.alone(rows[group])
    if id then out[#out + 1] = {id, member} end
    if #out == limit then return out end
    if i == PLACES_MAX then out[#out + 1] = {false, member} end
  end
  return out
end

-- Ready jobs: lane by lane (its list and its overflow set, then groups of one job), then group by
-- group, then what is due and not moved, then share by share, then limit by limit: ids with the
-- cursor after each, and the records of those that were read for that. An id of false says that
-- some were passed over.
local function ready_ids(r, cursor, limit)
  local part, after = 0, nil
  if cursor then part, after = byte(cursor), #cursor > 1 and sub(cursor, 2) or nil end
  if not part or part > 43 then bad_cursor() end
  local out = {}
  local function put(id, at, raw) out[#out + 1] = {id, char(part) .. at, raw} end
  while part <= 43 and #out < limit do
    local want = limit - #out
    if part < 40 then
      -- Part 2 * lane has list and overflow set merged, so that a line is in order; 2 * lane + 1
      -- the groups.
      local lane = floor(part / 2)
      if part % 2 == 0 and ((r.in_lists[lane] or 0) > 0 or (r.in_overflow[lane] or 0) > 0) then
        for _, one in ipairs(Inspect.lane(r, lane, after, want)) do put(one[2], one[1], one[3]) end
      elseif part % 2 == 1 and (r.in_overflow[lane] or 0) > 0 then
        for _, one in ipairs(alone_in_groups(r, lane, after, want)) do put(one[1], one[2]) end
      end
    elseif part == 40 then
      for _, one in ipairs(by_lex(S.base .. ':l:' .. r.name, after, want, -16)) do put(one[1], one[2]) end
    elseif part == 42 then
      for _, one in ipairs(r.flags >= %ROW_SHARED% and Share.listed(r, after, want) or {}) do put(one[1], one[2]) end
    elseif part == 43 then
      for _, one in ipairs(Named.listed(r, after, want)) do put(one[1], one[2]) end
    elseif r.head > 0 and r.head <= S.now then
      for _, one in ipairs(by_score(S.base .. ':n:' .. r.name, after, want)) do put(one[1], one[2]) end
    end
    after = nil
    if #out < limit then part = part + 1 end
  end
  return out
end

-- The key of the first live job of a chunk; nil if there is none.
local function first_key(one)
  local ids, records = Line.live(one)
  local raw = records[1]
  return raw and '\1' .. sub(raw, %REC_DUE%) .. sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. ids[1]
end

-- The last chunk of a list that begins at or before a key: chunks are in order, so halving finds
-- it.
local function pack_before(list, after)
  local low, high = 0, call('LLEN', list) - 1
  while low < high do
    local middle = floor((low + high + 1) / 2)
    local key = first_key(call('LINDEX', list, middle))
    if not key then return low end
    if not below(after, key) then low = middle else high = middle - 1 end
  end
  return max(0, low)
end

-- Jobs of a lane in order after a key, at most so many: {key, id, record if it was read}. Keys are
-- 21 bytes and the id; one without an id is the place of a group, behind which there may be more.
function Inspect.lane(r, lane, after, limit)
  local found = {}
  if lane < 10 and (r.in_lists[lane] or 0) > 0 then
    local key = S.base .. ':r:' .. lane .. ':' .. r.name
    local start = after and pack_before(key, after) or 0
    while #found < limit do
      local wanted = 1 + floor((limit - #found) / 100)
      local chunks = call('LRANGE', key, start, start + wanted - 1)
      local ids, stamps = {}, {}
      for _, chunk in ipairs(chunks) do
        local one = Line.spelt(chunk)
        for at = Line.ids_from(one), #one, 16 do ids[#ids + 1], stamps[#stamps + 1] = sub(one, at, at + 15), sub(one, %CHUNK_STAMP%) end
      end
      local records = Job.raws(ids)
      for i = 1, #ids do
        local raw = records[i]
        if Line.is_live(raw, stamps[i]) then
          local own = '\1' .. sub(raw, %REC_DUE%) .. sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. ids[i]
          if not after or below(after, own) then found[#found + 1] = {own, ids[i], raw} end
        end
      end
      if #chunks < wanted then break end
      start = start + wanted
    end
  end
  local listed = #found
  if (r.in_overflow[lane] or 0) > 0 then
    local from = after and '(' .. (Group.of_place(after) and after or sub(after, %PLACE_BYTES%) .. 'J' .. sub(after, %PLACE_BEHIND_AT%)) or '-'
    local members, k = call('ZRANGEBYLEX', S.base .. ':x:' .. lane .. ':' .. r.name, from, '+', 'LIMIT', 0, PLACES_MAX), 0
    for _, member in ipairs(members) do
      if k < limit and not Group.of_place(member) then
        found[#found + 1], k = {sub(member, %PLACE_BYTES%) .. sub(member, %PLACE_ID_AT%), sub(member, %PLACE_ID_AT%)}, k + 1
      end
    end
    if k < limit and #members == PLACES_MAX then found[#found + 1] = {members[PLACES_MAX], false} end
  end
  if #found > listed and listed > 0 then table.sort(found, function(a, b) return below(a[1], b[1]) end) end
  for i = 1, #found do
    if not found[i][2] then return slice(found, 1, min(i, limit)) end
  end
  return slice(found, 1, limit)
end

-- Active jobs, lease by lease in the order of their fences; cursor: token and place.
function Inspect.active_ids(q, cursor, limit)
  local tokens, out = Lease.tokens_of(q), {}
  table.sort(tokens, below)
  for _, token in ipairs(tokens) do
    if not cursor or not below(token, sub(cursor, %TOKEN_BYTES%)) then
      local p = Lease.load(token)
      local ids, places = Lease.rest(p)
      for i = 1, #ids do
        local here = token .. pack('>I2', places[i])
        if (not cursor or below(cursor, here)) and (not p.plain or p.q == q) then
          local raw = not p.plain and Job.raw(ids[i])
          if p.plain or raw and Job.parse(ids[i], raw).q == q then
            out[#out + 1] = {ids[i], here}
            if #out == limit then return out end
          end
        end
      end
    end
  end
  return out
end

-- Records that one call passes over, as they are only tombstones, or their bundle says that they
-- be.
local PASSED_MAX = 2000

-- Every job is a scan of all records. The cursor is the scan's, and the ids of its step answered
-- before: what an edit takes away in between moves nothing. Answers ids, how many were looked at,
-- and where to go on.
local function all_ids(cursor, limit)
  local out, at, seen, answered, passed = {}, '0.0', {}, {}, 0
  if cursor then
    local bar = find(cursor, ':', 1, true)
    at = bar and sub(cursor, 1, bar - 1)
    local dot = at and find(at, '.', 1, true)
    if not dot or Inspect.digits(sub(at, 1, dot - 1)) >= %PARTS% then bad_cursor() end
    Inspect.digits(sub(at, dot + 1))
    for i = bar + 1, #cursor, 16 do
      answered[#answered + 1] = sub(cursor, i, i + 15)
      seen[answered[#answered]] = true
    end
  end
  while passed < PASSED_MAX do
    local found, next_one = Records.scan(at, 100)
    for i = 1, #found, 2 do
      local id = found[i]
      local raw = found[i + 1]
      if not seen[id] and (byte(raw) < %TAG_TOMBSTONE% or byte(raw) == %TAG_BUNDLE_REF% and Bundle.is_open(id, raw)) then
        if #out == limit then return out, limit, at .. ':' .. concat(answered) end
        seen[id], answered[#answered + 1] = true, id
        out[#out + 1] = {id}
      end
    end
    passed = passed + #found / 2
    at, answered = next_one, {}
    if at == '0' then return out, #out end
    if #out == limit then break end
  end
  return out, min(limit, passed), at .. ':'
end

-- Jobs by due of two lists, at most so many; those without one, listed by place, come last.
local function merge(hot, cold, limit)
  local out, n, f = {}, 1, 1
  while #out < limit and (hot[n] or cold[f]) do
    local one, other = hot[n], cold[f]
    if one and (not other or not other.due or one.due < other.due or one.due == other.due and below(one.member, other.member)) then
      out[#out + 1], n = one, n + 1
    else
      out[#out + 1], f = other, f + 1
    end
  end
  return out
end

-- Scheduled jobs by due, hot or cold: one that becomes hot between two calls keeps its place, but
-- for those of long cold buckets. Who takes them out has the cold ones first, and their cursors
-- begin with s: once no job is hot, cold ones are made so.
local function scheduled_ids(r, cursor, limit, takes)
  local kind = cursor and sub(cursor, 1, 1)
  local function hot(after, want) return by_score(S.base .. ':n:' .. r.name, after, want) end
  local function cold(want) return r.cold > 0 and Due.cold_page(r, cursor, want, takes) or {} end
  if takes then
    if cursor and kind ~= 's' and kind ~= 'p' then return hot(cursor, limit) end
    local out = cold(limit)
    if #out == limit then return out end
    for _, one in ipairs(hot(nil, limit - #out)) do out[#out + 1] = one end
    return out
  end
  if kind == 'p' then return cold(limit) end
  local out = hot(cursor, limit)
  if r.cold == 0 or #out == limit and out[limit].due < Due.cold_from(r) then return out end
  return merge(out, cold(limit), limit)
end

-- Ids of a queue in a state, in their order after a cursor, each with the cursor after it (false
-- where some were passed over); `takes`: to take them out.
function Inspect.by_state(r, state, cursor, limit, takes)
  local q = r.name
  if state == HELD then return by_lex(S.base .. ':h:' .. q, cursor, limit, 13) end
  if state == SCHEDULED then return scheduled_ids(r, cursor, limit, takes) end
  if state == READY then return ready_ids(r, cursor, limit) end
  if state == ACTIVE then return Inspect.active_ids(q, cursor, limit) end
  return by_score(S.base .. ':k:' .. state .. ':' .. q, cursor, limit, true)
end

-- Jobs that one call examines, at most: others wait for it.
local EXAMINED_MAX = 200

-- How many a call examines that shall examine so many.
function Inspect.limit(limit, purges)
  if limit < 1 or limit > %BATCH_ITEMS_MAX% then refuse('invalid_input', 'limit is out of range; use 1 to 1,000') end
  return purges and limit or min(limit, EXAMINED_MAX)
end

-- Whether a named limit holds for a job.
local function names(j, limit)
  local li = j.opts.li or {}
  for i = 1, #li do if li[i] == limit then return true end end
  return false
end

-- Reads an index: jobs with their states and leases, how many were looked at, where to go
-- on.
function Inspect.find(by, q, state, key, f, cursor, limit, writes)
  local found, examined, next_one = {}, nil, nil
  local r = by < 4 and Row.find(q)
  if by == 4 then
    found, examined, next_one = all_ids(cursor, limit)
  elseif by == 5 then
    found = Named.jobs(key, cursor, limit)
  elseif not r then
    found = {}
  elseif by == 2 then
    local row = (writes and Unique.holder or Unique.seen)(q, key)
    if row then
      if not cursor then found[1] = {row.id, '1'} end
      if row.follower and #found < limit and cursor ~= '2' then found[#found + 1] = {row.follower, '2'} end
    end
  elseif by == 3 then
    found = Group.members(r, key, cursor, limit)
  else
    found = Inspect.by_state(r, state, cursor, limit, writes)
  end
  local unread, all, jobs = {}, {}, {}
  for i = 1, #found do if found[i][1] and not found[i][3] then unread[#unread + 1] = found[i][1] end end
  local records, k = Job.raws(unread), 0
  for i = 1, #found do
    local id, _, raw = unpack_list(found[i])
    if id and not raw then
      k = k + 1
      raw = records[k]
    end
    if raw and byte(raw) < %TAG_TOMBSTONE% then all[#all + 1] = Job.parse(id, raw) end
  end
  Lease.load_own(all)
  for i = 1, #all do
    local j = all[i]
    local is, p = seen_state(j)
    if (by ~= 1 or is == state) and (by ~= 5 or names(j, key)) and passes(f, j, is) then jobs[#jobs + 1] = {j, is, p} end
  end
  Lease.load_own({})
  if examined then return jobs, examined, next_one end
  return jobs, #found, #found == limit and found[#found][2] or nil
end

-- list. Key: base. Argument: instance, map {by, q, s, k, f, cu, li, p, any}. Reply: map {j, ex, cu,
-- n, i}.
function Inspect.list(base, blob)
  local map = Check.map('list', blob)
  if map.by and map.by < 4 and not map.q or map.by == 1 and not map.s or (map.by == 2 or map.by == 3 or map.by == 5) and not map.k then
    refuse('invalid_input', 'list by state needs q and s, by unique or group key q and k, by limit k')
  end
  Shard.open(base, sub(blob, %CALL_INSTANCE%), nil, true, map.any)
  local views, jobs, examined, cursor = {}, {}, 0, nil
  if not S.empty then
    jobs, examined, cursor = Inspect.find(map.by or 4, map.q, map.s, map.k, map.f or {}, map.cu, Inspect.limit(map.li or 100))
  end
  for i = 1, #jobs do views[i] = view(jobs[i][1], jobs[i][2], jobs[i][3], map.p ~= 1) end
  return mp.pack({j = views, ex = examined, cu = cursor, n = S.now, i = M.instance})
end

end
