-- The effect that clears a name: held jobs that wait for nothing else take their places. Most of a
-- call go together: into the list of their lane, where they come before or behind all that is
-- there, else into its overflow set.
do

-- Clears a name that a held job waits for; one that waits for nothing more takes its place. Answers
-- whether the job is known here, by its tombstone too.
function Settle.clear(id, name)
  local raw = Job.raw(id)
  local j = raw and byte(raw) < %TAG_TOMBSTONE% and Job.parse(id, raw)
  if raw and not j then
    raw = Settled.tombstone(id, raw)
    return raw and Settled.tombstone_counts(raw)
  end
  if not j or j.tag ~= %TAG_HELD% or Settled.expire_if_late(j) then return raw and true end
  if Settle.holds(j) then
    Edit.signal(j, HELD, name, '', false)
    return true
  end
  local left, found = {}, false
  for _, waits in ipairs(j.ext.w or {}) do
    if waits == name then found = true else left[#left + 1] = waits end
  end
  if not found then return true end
  local runs = #left == 0 and not j.ext.fo and not (j.opts.fl and Flow.holds(j))
  if runs then Place.out(j) end
  j.ext.w = #left > 0 and left or nil
  if runs then j.tag = %TAG_WAITING% end
  Job.save(j)
  if runs then Place.put(j) end
  return true
end

-- The verdict of a clear.
local CLEARED = '\%VERDICT_CLEARED%\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

-- Whether effects clear names and do nothing else.
local function only_clears(effects)
  for _, effect in ipairs(effects) do
    if effect[1] ~= %EFFECT_CLEAR% and effect[1] ~= %EFFECT_CLEAR_ANYWHERE% then return false end
  end
  return true
end

local CHUNK = 100 -- jobs of a chunk, as in a lane's list
local NEAR = 32 -- chunks of a list's end among which jobs are put

local last_bytes, last_parts = nil, nil -- of the held job that was taken apart last, from its flags to its payload: most are alike

-- What a held job that waits for one name alone says, of no group, share, limit and flow; nothing
-- of another one.
local function parts_of(raw)
  if last_bytes and sub(raw, %REC_FLAGS%, %REC_PRIORITY% + #last_bytes) == last_bytes then return last_parts end
  local e, o, _, ex, group, q, _, from, flow, share = Job.parts(raw)
  local w = e.w or {}
  if #w ~= 1 or next(e, (next(e))) ~= nil or group or share or o.li or flow or o.mc ~= nil or o.sc or ex and at8(ex) <= S.now then return nil end
  local kind = o.uh == 0 and 0 or (o.rn or o.rm) and %CHUNK_EXT_MOVED% or %CHUNK_SENT_MOVED%
  local parts = {name = w[1], q = q, from = from, kind = kind, examined = o.uh == 0}
  if not ex then
    last_parts, last_bytes = parts, sub(raw, %REC_FLAGS%, #raw - Job.payload_bytes(raw, from, byte(raw, %REC_FLAGS%)))
  end
  return parts
end

-- What is gathered of a queue that goes to the same place: the jobs that are due later, or those of
-- a priority.
local function list_for(all, q, later, lane)
  local list = all.last
  if list and list.r.name == q and list.later == later and (later or list.lane == lane) then return list end
  local place = q .. (later and '\0' or '\0' .. lane)
  list = all.by_place[place]
  if not list then
    list = {r = Row.of(q), lane = lane, later = later, n = 0, ids = {}, raws = {}, examined = {}, kv = {}, kind = nil, runs = {}, stamp = '', idx = 0, due = 0}
    all.lists[#all.lists + 1], all.by_place[place] = list, list
  end
  all.last = list
  return list
end

-- Adds a job to what is gathered, as its record was and by what that says.
local function gather(all, id, raw, parts)
  local due, lane = at8(raw, %REC_DUE_AT%), byte(raw, %REC_PRIORITY%)
  local list = list_for(all, parts.q, due > S.now, lane)
  local n = list.n + 1
  local now_is = '\%TAG_WAITING%' .. sub(raw, %REC_HEAD%) .. '%REC_NO_EXT%' .. sub(raw, parts.from)
  local stamp, idx, kind = sub(raw, %REC_STAMP%), unp('>I2', raw, %REC_IDX_AT%), parts.kind
  if n == 1 or stamp ~= list.stamp or due ~= list.due or idx <= list.idx then list.runs[#list.runs + 1] = n end
  list.n, list.ids[n], list.raws[n] = n, id, now_is
  if list.later then list.examined[id] = parts.examined end
  list.kv[2 * n - 1], list.kv[2 * n], list.stamp, list.idx, list.due = id, now_is, stamp, idx, due
  if kind ~= list.kind then list.kind = list.kind and Line.both(list.kind, kind) or kind end
  all.ids[id] = true
  if all.feeds then changed(id, parts.q, list.later and SCHEDULED or READY) end
end

-- Gathers the held jobs whose only name these effects clear, to be released together: those that
-- are named once, and that keep nothing else of them. By place whether it is done, also of jobs
-- that were gathered before. They are released by `Settle.release`.
function Settle.clear_together(effects)
  local done = {}
  if not only_clears(effects) then return done end
  local all, ids, seen = S.cleared or {ids = {}, lists = {}, by_place = {}, last = nil, feeds = M.feed >= S.now}, {}, {}
  for i, effect in ipairs(effects) do
    local id = sub(effect[2], %ID_BYTES%)
    ids[i], seen[id] = id, (seen[id] or 0) + 1
  end
  local raws = Job.raws(ids)
  for i = 1, #ids do
    local id, raw = ids[i], raws[i]
    if all.ids[id] then
      done[i] = true
    elseif raw and byte(raw) == %TAG_HELD% and seen[id] == 1 then
      local parts = parts_of(raw)
      if parts and sub(effects[i][2], %CLEAR_NAME_AT%) == parts.name then
        gather(all, id, raw, parts)
        done[i] = true
      end
    end
  end
  if #all.lists > 0 then S.cleared = all end
  return done
end

-- The place in line of a job, by its record.
local function place_of(raw) return sub(raw, %REC_DUE%) .. sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) end

-- Puts the jobs of a list in order, by due and then by enqueue, if they are in runs of those of one
-- call. Answers the runs; nothing if they are not in order then.
local function put_in_order(list)
  local runs, n, raws, in_order = {}, list.n, list.raws, true
  for k = 1, #list.runs do
    local first, last = list.runs[k], (list.runs[k + 1] or n + 1) - 1
    runs[k] = {first = first, last = last, from = place_of(raws[first]), till = place_of(raws[last])}
    if k > 1 and not below(runs[k - 1].till, runs[k].from) then in_order = false end
  end
  if in_order then return runs end
  if #runs * 4 > n then return nil end
  table.sort(runs, function(a, b) return below(a.from, b.from) end)
  local ids, sorted, at = {}, {}, 0
  for k = 1, #runs do
    local run = runs[k]
    if k > 1 and not below(runs[k - 1].till, run.from) then return nil end
    local from = at + 1
    for i = run.first, run.last do
      at = at + 1
      ids[at], sorted[at] = list.ids[i], raws[i]
    end
    run.first, run.last = from, at
  end
  list.ids, list.raws = ids, sorted
  return runs
end

-- Whether these runs, in order by due, are so by enqueue too, as the held ones stand.
local function came_so(runs)
  for k = 2, #runs do
    if not below(sub(runs[k - 1].till, %PLACE_ENQUEUE_AT%), sub(runs[k].from, %PLACE_ENQUEUE_AT%)) then return false end
  end
  return true
end

-- Takes the jobs of a list out of the held ones: by position, if they came in this order and none
-- that stays is between them.
local function leave_held(list, runs)
  local key, n, ids, raws, held = S.base .. ':h:' .. list.r.name, list.n, list.ids, list.raws, {}
  local function entry(i) return sub(raws[i], %REC_STAMP%) .. sub(raws[i], %REC_IDX%) .. ids[i] end
  if n > 8 and runs and came_so(runs) then
    local first = entry(1)
    if call('ZLEXCOUNT', key, '[' .. first, '[' .. entry(n)) == n then
      local first_at = call('ZLEXCOUNT', key, '-', '(' .. first)
      call('ZREMRANGEBYRANK', key, first_at, first_at + n - 1)
      return
    end
  end
  for i = 1, n do held[i] = entry(i) end
  call_many('ZREM', key, held)
end

-- The kind of a chunk, and its first and last due.
local function dues_of(chunk)
  local kind = byte(chunk, %CHUNK_KIND%)
  if kind == %CHUNK_MOVED% or kind == %CHUNK_EXT_MOVED% or kind == %CHUNK_SENT_MOVED% then
    return kind, sub(chunk, %CHUNK_FIRST_DUE%), sub(chunk, %CHUNK_LAST_DUE%)
  end
  return kind, sub(chunk, %CHUNK_TIME%), sub(chunk, %CHUNK_TIME%)
end

-- The place of a job that stands in a chunk; nothing if it does no more.
local function place_in(chunk, id)
  local raw = Records.get(id)
  return raw and Line.is_live(raw, sub(chunk, %CHUNK_STAMP%)) and place_of(raw)
end

-- Whether all jobs of a chunk come before a place.
local function ends_before(chunk, from)
  local kind, _, hi = dues_of(chunk)
  if below(hi .. sub(chunk, %CHUNK_STAMP%) .. '\255\255', from) then return true end
  local last = kind ~= %CHUNK_BUNDLE% and sub(from, %INSTANT_BYTES%) == hi and place_in(chunk, sub(chunk, -16))
  return last and below(last, from)
end

-- Whether all jobs of a chunk come behind a place.
local function begins_behind(chunk, till)
  local kind, lo = dues_of(chunk)
  if kind == 0 then return false end -- each of its jobs has a due of its own
  if below(till, lo) then return true end
  local at = Line.ids_from(chunk)
  local first = kind ~= %CHUNK_BUNDLE% and sub(till, %INSTANT_BYTES%) == lo and place_in(chunk, sub(chunk, at, at + 15))
  return first and below(till, first)
end

-- Adds the chunks of a run of a list, the last one first.
local function add_chunks(chunks, list, run, size)
  local head = u8(S.now) .. S.sub .. char(list.kind)
  local dues = sub(run.from, %INSTANT_BYTES%) .. sub(run.till, %INSTANT_BYTES%)
  for last = run.last, run.first, -CHUNK do
    local first = max(run.first, last - CHUNK + 1)
    chunks[#chunks + 1] = head .. pack('>I3', size * (last - first + 1)) .. dues .. concat(list.ids, '', first, last)
  end
end

-- Puts those runs of a list in line that come before or behind all jobs of each of the last chunks
-- there, or before all of the line: how many of the last runs. The others stay.
local function line_up(list, runs)
  local r, lane, raws, size, now_in = list.r, list.lane, list.raws, 0, 0
  for i = 1, list.n do size = max(size, #raws[i]) end
  if list.kind == 0 or size * CHUNK > 16777215 or r.head > 0 and r.head <= S.now then return 0 end
  local key, out, front = Line.list_of(r, lane), {}, {}
  local there = ((r.in_lists[lane] or 0) > 0 or (r.stale[lane] or 0) > 0) and call('LRANGE', key, -NEAR, -1) or {}
  local i, k = #there, #runs
  while k > 0 do
    local run, chunk = runs[k], there[i]
    if chunk and begins_behind(chunk, run.till) then
      i, out[#out + 1] = i - 1, chunk
    elseif chunk and ends_before(chunk, run.from) or not chunk and #there < NEAR then
      add_chunks(out, list, run, size)
      k = k - 1
    else
      break
    end
  end
  if k > 0 and i == 0 and begins_behind(call('LINDEX', key, 0), runs[k].till) then
    for nth = k, 1, -1 do add_chunks(front, list, runs[nth], size) end
    k = 0
  end
  if k == #runs then return 0 end
  if i < #there then call('LTRIM', key, 0, i - #there - 1) end
  for a = 1, floor(#out / 2) do out[a], out[#out + 1 - a] = out[#out + 1 - a], out[a] end
  call_many('RPUSH', key, out)
  call_many('LPUSH', key, front)
  r.in_lists[lane] = (r.in_lists[lane] or 0) + list.n - (k > 0 and runs[k].last or 0)
  notify(r)
  return #runs - k
end

-- Releases the held jobs that were gathered.
function Settle.release()
  local all = S.cleared
  S.cleared = nil
  for _, list in ipairs(all.lists) do
    local r, n = list.r, list.n
    local runs = put_in_order(list)
    leave_held(list, runs)
    Records.set_many(list.kv)
    r.counts[HELD], r.rest = r.counts[HELD] - n, nil
    if list.later then
      local dues, examined = {}, {}
      for i = 1, n do dues[i], examined[i] = at8(list.raws[i], %REC_DUE_AT%), list.examined[list.ids[i]] end
      Due.add_many(r, dues, list.ids, list.raws, nil, examined)
    else
      local left = runs and #runs - line_up(list, runs) or nil
      local till = left and (left > 0 and runs[left].last or 0) or n
      if till > 0 then Line.up_many(r, list.lane, slice(list.ids, 1, till), list.raws) end
      r.counts[READY] = r.counts[READY] + n
    end
  end
end

Settle.CLEARED = CLEARED

end
