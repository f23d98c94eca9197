-- What is to become due. Hot: `BASE:n:QUEUE`, a sorted set by due; members are seq 12 | id |
-- lane 1 | size 2: the priority (and 10 if the record has an ext, 20 if that is as it was sent)
-- and bytes, so that a job moves to its line unseen; else 255 and 0. Cold, from the end of the
-- row's hot window on: lists of ids, one for 2^32 us (72 minutes), `BASE:t:NUMBER:QUEUE`, whose
-- numbers are in `BASE:tb:QUEUE`. A list is spread into the hot window before its time comes, or
-- when the hot window is empty: so the hot window knows the earliest due. An entry of a list is
-- a hint: the record says whether it counts.
do

local WIDTH, LEAD = 4294967296, 300e6
local SLICE = 250 -- ids of a cold bucket spread at a time
-- A list of at most so many is listed by due, and what leaves it is taken out of it. What leaves a
-- longer one stays as a stale entry, counted: it is listed by place, and places hold.
local SORTED = 1000
local LREM_MAX = SORTED
--SMALL LREM_MAX = 2
local PUSHED = 6000 -- items that one call pushes
local COUNTED = 4096 -- a list of at most so many is counted by due

local function due_set(r) return S.base .. ':n:' .. r.name end
local function cold_bucket(r, number) return S.base .. ':t:' .. fmt('%d', number) .. ':' .. r.name end
local function cold_numbers(r) return S.base .. ':tb:' .. r.name end

-- `BASE:ts:QUEUE`: id and number of a cold bucket to how many of its entries there are stale; the
-- earlier ones are.
local function stale_set(r) return S.base .. ':ts:' .. r.name end

-- How many of these ids are stale in a list of that number; nil if nothing is in any.
local function stale_counts(r, number, ids)
  local key, fields, out = stale_set(r), {}, {}
  if #ids == 0 or call('EXISTS', key) == 0 then return nil end
  for i = 1, #ids do fields[i] = ids[i] .. fmt('%d', number) end
  local counts = get_many(key, fields)
  for i = 1, #ids do if counts[i] then out[ids[i]] = tonum(counts[i]) end end
  return out
end

-- Whether an entry is stale; it is then no longer counted.
local function is_stale(r, number, left, id)
  if not left or not left[id] or left[id] == 0 then return false end
  left[id] = left[id] - 1
  local field = id .. fmt('%d', number)
  if left[id] == 0 then call('HDEL', stale_set(r), field) else call('HSET', stale_set(r), field, left[id]) end
  return true
end

-- The keys of a queue's cold buckets.
function Due.cold_keys(r)
  local keys = {}
  for i, number in ipairs(call('ZRANGE', cold_numbers(r), 0, -1)) do keys[i] = cold_bucket(r, tonum(number)) end
  return keys
end

local EXAMINE, WITH_EXT, AS_SENT = '\255\0\0', 10, 20

-- How a job moves that is not examined then: by its priority, and ten more if its record has
-- an ext, or twenty.
local function unseen(lane, size) return size < 65536 and char(lane) .. pack('>I2', size) or EXAMINE end

-- How a job moves. One whose key is free with its start is looked at when it starts.
local function manner_of(j)
  if j.tag == %TAG_PLAIN% then return unseen(j.prio, j.size) end
  local o, e = j.opts, j.ext
  if o.g or o.sh or o.li or o.sc or o.uh == 0 or e.l or e.fr or is_suspect(j) then return EXAMINE end
  local is_sent = next(e) == nil and Line.kind_of(o, o.fl) == %CHUNK_SENT%
  return unseen((is_sent and AS_SENT or WITH_EXT) + j.prio, j.size)
end

-- The same of a job that was sent with these opts, to be added: true if a claim reads its record
-- first; nothing if its record says how it moves.
function Due.manner(o, flow)
  local kind = Line.kind_of(o, flow)
  if kind == 0 then return true end
  return kind == %CHUNK_SENT% and AS_SENT or nil
end

local function member_of(j) return Job.seq(j) .. j.id .. manner_of(j) end

-- A queue's earliest due is at most that: workers that sleep longer must know.
function Due.head_at_most(r, due)
  if r.head == 0 or due < r.head then
    r.head, r.rest = due, nil
    schedule('due', due)
    notify(r)
  end
end

-- When the sweep is to look at a queue: its earliest due, or the time to spread its next cold
-- bucket.
function Due.next_sweep(r)
  local at = r.head
  if r.cold > 0 and (at == 0 or r.hot_until - LEAD < at) then at = r.hot_until - LEAD end
  return at
end

-- From where on jobs are cold. It stands still while there are any, and never falls: of jobs in
-- line none is due behind it unless a list whose time has come is being spread.
local function hot_until_of(r)
  if r.cold == 0 then
    local hot_until = (floor((S.now + LEAD) / WIDTH) + 1) * WIDTH
    if hot_until > r.hot_until then
      -- Lists of which all entries are stale are left: counted as one job they are spread away.
      if r.hot_until > 0 and call('EXISTS', cold_numbers(r)) == 1 then r.cold = 1 end
      r.hot_until, r.rest = hot_until, nil
    end
  end
  return r.hot_until
end

-- Adds jobs, none of a group and none that crashed: dues, ids and records as lists of the same
-- length; `seq`, if all were enqueued then; `manners`, as `Due.manner` has them; `members`, if what
-- stands for a job in the hot window is known.
function Due.add_many(r, dues, ids, records, seq, manners, members)
  local hot_until, hot, cold, numbers, added, n = hot_until_of(r), {}, {}, {}, 0, 0
  local earliest = hot_until
  local size, lane, how, member = nil, nil, nil, nil
  for i = #ids, 1, -1 do -- a small sorted set compares what comes with its members from the least on
    local due = dues[i]
    if due < hot_until then
      if members then
        member = members[i]
      else
        local record, manner = records[i], manners and manners[i]
        local this = byte(record, %REC_PRIORITY%)
        if byte(record) ~= %TAG_PLAIN% then this = this + (manner == AS_SENT and AS_SENT or WITH_EXT) end
        if #record ~= size or this ~= lane then
          size, lane = #record, this
          how = unseen(lane, size)
        end
        member = (seq or sub(record, %REC_STAMP%)) .. sub(record, %REC_IDX%) .. ids[i] .. (manner == true and EXAMINE or how)
      end
      hot[n + 1], hot[n + 2] = fmt('%d', due), member -- the server writes a number of 16 digits slowly
      n = n + 2
      if due < earliest then earliest = due end
    else
      local number = floor(due / WIDTH)
      local list = cold[number]
      if not list then
        list = {}
        cold[number], numbers[#numbers + 1] = list, number
      end
      list[#list + 1] = ids[i]
      added = added + 1
    end
  end
  call_many('ZADD', due_set(r), hot)
  for i = 1, #numbers do
    local number = numbers[i]
    local list, new = cold[number], {}
    local left = stale_counts(r, number, list)
    -- An entry that was stale stands for its job again.
    for k = 1, left and #list or 0 do if not is_stale(r, number, left, list[k]) then new[#new + 1] = list[k] end end
    if left then list = new end
    -- Of a list pushed in parts the answers say nothing of its length.
    local length = #list > 0 and call_many('RPUSH', cold_bucket(r, number), list) or nil
    if length and (#list > PUSHED or length <= #list) then call('ZADD', cold_numbers(r), number, number) end
  end
  r.counts[SCHEDULED], r.cold, r.rest = r.counts[SCHEDULED] + #ids, r.cold + added, nil
  if n > 0 then Due.head_at_most(r, earliest) end
  if added > 0 then
    if r.head == 0 or r.head >= r.hot_until then
      Due.refresh(r)
      notify(r)
    end
    schedule('due', r.hot_until - LEAD)
  end
end

function Due.add(r, j)
  Due.add_many(r, {j.due}, {j.id}, nil, nil, nil, {member_of(j)})
end

-- Whether a record is of a queue: what was deleted here may have come again in another one under
-- its id.
local function is_of(r, raw)
  local at = byte(raw) == %TAG_PLAIN% and 32 or 36 + unp('>I4', raw, %REC_BODY%)
  return sub(raw, at + 1, at + byte(raw, at)) == r.name
end

-- Spreads a slice of the first cold bucket into the hot window, if its time comes or `now_` is
-- given.
local function spread(r, now_)
  local number = call('ZRANGE', cold_numbers(r), 0, 0)[1]
  if not number then
    r.cold, r.rest = 0, nil
    return
  end
  if not now_ and tonum(number) * WIDTH - LEAD > S.now then
    r.hot_until, r.rest = max(r.hot_until, tonum(number) * WIDTH), nil
    return
  end
  local key = cold_bucket(r, tonum(number))
  local ids = call('LPOP', key, SLICE) or {}
  S.spread = S.spread + #ids
  local records, items, live = Records.get_many(ids), {}, 0
  local left = stale_counts(r, tonum(number), ids)
  for i = 1, #ids do
    local raw = records[i]
    if not is_stale(r, tonum(number), left, ids[i]) then
      local due = raw and byte(raw) <= %TAG_WAITING% and at8(raw, %REC_DUE_AT%)
      if due and floor(due / WIDTH) == tonum(number) and is_of(r, raw) then
        items[2 * live + 1] = fmt('%d', due)
        local how = byte(raw) == %TAG_PLAIN% and unseen(byte(raw, %REC_PRIORITY%), #raw) or manner_of(Job.parse(ids[i], raw))
        items[2 * live + 2] = sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. ids[i] .. how
        live = live + 1
      elseif not raw then -- another client deleted its record
        r.counts[SCHEDULED], S.lost = max(0, r.counts[SCHEDULED] - 1), true
      end
    end
  end
  local new = call_many('ZADD', due_set(r), items)
  r.cold = max(0, r.cold - new)
  if #ids < SLICE then
    call('ZREM', cold_numbers(r), number)
    call('DEL', key)
    r.hot_until = max(r.hot_until, (tonum(number) + 1) * WIDTH)
  else
    r.hot_until = max(r.hot_until, tonum(number) * WIDTH)
  end
  r.rest = nil
end

-- The same for who takes jobs out, and has seen all hot ones.
function Due.spread(r) spread(r, true) end

-- Reads the earliest due again; spreads a cold bucket if the hot window is empty.
function Due.refresh(r)
  local first = call('ZRANGE', due_set(r), 0, 0, 'WITHSCORES')[2]
  while not first and r.cold > 0 and S.spread < 2 * SLICE do
    spread(r, true)
    first = call('ZRANGE', due_set(r), 0, 0, 'WITHSCORES')[2]
  end
  local head = first and tonum(first) or 0
  if r.cold > 0 and (head == 0 or head >= r.hot_until) then head = r.hot_until end
  r.head, r.rest = head, nil
  local at_ = Due.next_sweep(r)
  if at_ > 0 then schedule('due', at_) end
end

-- No cold job is left: what stands in their lists is stale.
local function forget_cold(r)
  local keys = Due.cold_keys(r)
  keys[#keys + 1], keys[#keys + 2] = cold_numbers(r), stale_set(r)
  for i = 1, #keys, 1000 do call('DEL', unpack_list(slice(keys, i, i + 999))) end
end

-- What is gathered of a queue to be taken out together.
function Due.leavers() return {hot = {}, n = 0, cold = {}, ids = {}, first = NEVER, how = EXAMINE, opts = nil, size = 0, lane = 0} end

-- How a job that leaves would move, by its record and its opts; those before it mostly are alike.
local function manner_of_leaver(leavers, raw, e, o, share, flow)
  local lane, size = byte(raw, %REC_PRIORITY%), #raw
  if byte(raw) == %TAG_PLAIN% then return unseen(lane, size) end
  if o.uh == 0 or share or o.li or e.l or e.fr then return EXAMINE end
  if e ~= Job.NOTHING then return unseen(WITH_EXT + lane, size) end
  if flow or o ~= leavers.opts or size ~= leavers.size or lane ~= leavers.lane then
    leavers.how = unseen((Line.kind_of(o, flow) == %CHUNK_SENT% and AS_SENT or WITH_EXT) + lane, size)
    leavers.opts, leavers.size, leavers.lane = not flow and o or nil, size, lane
  end
  return leavers.how
end

-- Adds a job that is scheduled, of no group and no suspect; whether it is known where it stands.
-- While a list is being spread it may stand behind the hot window, in it or in the list.
function Due.add_leaver(r, leavers, id, raw, due, e, o, share, flow)
  if r.cold > 0 and due >= r.hot_until then
    if leavers.spreads == nil then
      leavers.spreads = #call('ZRANGEBYSCORE', due_set(r), fmt('%d', r.hot_until), '+inf', 'LIMIT', 0, 1) > 0
    end
    if leavers.spreads then return false end
    local number = floor(due / WIDTH)
    local list = leavers.cold[number] or {}
    leavers.cold[number], list[#list + 1], leavers.ids[id] = list, id, true
  else
    local n = leavers.n + 1
    leavers.n, leavers.hot[n] = n, sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. id .. manner_of_leaver(leavers, raw, e, o, share, flow)
  end
  if due < leavers.first then leavers.first = due end
  return true
end

-- So many of a list, and it is written anew without them; of fewer each is taken out.
local REWRITE_MIN = 8

-- Takes jobs out of a cold bucket: out of a long one as stale entries.
local function leave_bucket(r, number, ids, are_leaving)
  local key = cold_bucket(r, number)
  if call('LLEN', key) > LREM_MAX then
    local fields, kv = {}, {}
    for i = 1, #ids do fields[i] = ids[i] .. fmt('%d', number) end
    local counts = get_many(stale_set(r), fields)
    for i = 1, #ids do kv[2 * i - 1], kv[2 * i] = fields[i], fmt('%d', (tonum(counts[i] or nil) or 0) + 1) end
    call_many('HSET', stale_set(r), kv)
  elseif #ids < REWRITE_MIN then
    for i = 1, #ids do call('LREM', key, 1, ids[i]) end
  else
    local stay = {}
    for _, id in ipairs(call('LRANGE', key, 0, -1)) do
      if not are_leaving[id] then stay[#stay + 1] = id end
    end
    call('DEL', key)
    call_many('RPUSH', key, stay)
  end
end

-- Takes out what was gathered.
function Due.leave(r, leavers)
  local hot, cold = leavers.hot, 0
  if call_many('ZREM', due_set(r), hot) < #hot then
    for i = 1, #hot do hot[i] = sub(hot[i], %DUE_ENTRY%) .. EXAMINE end -- older functions put some in so
    call_many('ZREM', due_set(r), hot)
  end
  for number, ids in pairs(leavers.cold) do
    leave_bucket(r, number, ids, leavers.ids)
    cold = cold + #ids
  end
  r.cold = max(0, r.cold - cold)
  if cold > 0 and r.cold == 0 then forget_cold(r) end
  r.counts[SCHEDULED], r.rest = max(0, r.counts[SCHEDULED] - #hot - cold), nil
  if leavers.first <= r.head then Due.refresh(r) end
end

-- Takes a job out; whether it was here.
function Due.remove(r, j)
  if r.counts[SCHEDULED] == 0 then return false end
  if call('ZREM', due_set(r), member_of(j)) == 0 then
    if r.cold == 0 or j.due < r.hot_until then
      -- Older functions put those with an ext in as jobs to be looked at.
      if j.tag == %TAG_PLAIN% or call('ZREM', due_set(r), Job.seq(j) .. j.id .. EXAMINE) == 0 then return false end
    else
      -- While a list whose time has come is being spread, who was put in line at once is due behind
      -- the hot window, too.
      if j.due <= S.now and Line.has(r, j) then return false end
      local number = floor(j.due / WIDTH)
      local key = cold_bucket(r, number)
      if call('LLEN', key) <= LREM_MAX then
        call('LREM', key, 1, j.id)
      else
        call('HINCRBY', stale_set(r), j.id .. fmt('%d', number), 1)
      end
      r.cold = max(0, r.cold - 1)
      if r.cold == 0 then forget_cold(r) end
    end
  end
  r.counts[SCHEDULED], r.rest = r.counts[SCHEDULED] - 1, nil
  if j.due <= r.head then Due.refresh(r) end
  return true
end

-- Jobs that one call examines to move them: each costs as much as ten plain ones.
local EXAMINED_MAX = 125

-- How many of the first of these entries one call moves, as it examines some of them, and the
-- records of those, by id.
local function examined_of(found)
  local n, ids, records = #found, {}, {}
  for i = 1, #found do
    if byte(found[i], %DUE_ENTRY_LANE_AT%) == 255 then
      if S.examined + #ids >= EXAMINED_MAX then
        n = i - 1
        break
      end
      ids[#ids + 1] = sub(found[i], %DUE_ENTRY_ID%)
    end
  end
  local raws = Job.raws(ids)
  for i = 1, #ids do records[ids[i]] = raws[i] end
  return n, records
end

-- What is to be pushed to a lane, to which a job of a chunk of that kind is added.
local function list_for(lists, lane, kind)
  local list = lists[lane]
  if not list then
    list = {n = 0, ids = {}, kind = kind, sizes = {}}
    lists[lane] = list
  end
  if kind ~= list.kind then list.kind = Line.both(kind, list.kind) end
  return list
end

-- Moves what is due to its line, by due and then by enqueue, at most so many; how many.
function Due.move(r, limit)
  local now = S.now
  r = Row.of(r.name)
  if r.cold > 0 and now >= r.hot_until - LEAD and S.spread < SLICE then spread(r) end
  if r.head == 0 or r.head > now then
    Due.refresh(r)
    if r.head == 0 or r.head > now then return 0 end
  end
  local till = r.cold > 0 and min(now, r.hot_until - 1) or now
  local found = call('ZRANGEBYSCORE', due_set(r), '-inf', fmt('%d', till), 'LIMIT', 0, limit)
  local lists, n, lost, lo, hi, runs = {}, #found, 0, u8(r.head), nil, nil
  hi = u8(n == limit and tonum(call('ZSCORE', due_set(r), found[n])) or till)
  local records, feeds, last_lane, last_list
  n, records = examined_of(found)
  feeds = M.feed >= S.now
  for i = 1, n do
    local member = found[i]
    local id, lane, in_order = sub(member, %DUE_ENTRY_ID%), byte(member, %DUE_ENTRY_LANE_AT%), false
    if lane < 255 then
      if lane ~= last_lane then
        local kind = lane < WITH_EXT and %CHUNK_MOVED% or lane < AS_SENT and %CHUNK_EXT_MOVED% or %CHUNK_SENT_MOVED%
        last_lane, last_list = lane, list_for(lists, lane % 10, kind)
      end
      local k = last_list.n + 1
      last_list.n, last_list.ids[k], last_list.sizes[k] = k, id, unp('>I2', member, 30)
    else
      S.examined = S.examined + 1
      local raw = records[id]
      local j = raw and byte(raw) < %TAG_TOMBSTONE% and Job.parse(id, raw)
      if j then
        local is_run = j.opts.sc and not j.ext.a -- its schedule decides about it
        lane, in_order = j.prio, not (is_run or j.opts.g or j.opts.sh or j.opts.li or j.ext.l or j.ext.fr or is_suspect(j))
        if is_run then
          runs = runs or {}
          runs[#runs + 1] = j
        elseif not in_order then
          Line.up(r, j)
        end
        if j.opts.g then Group.waits(r, j.opts.g, Job.seq(j), j.id, false) end
      else -- another client deleted its record: one lost job is no reason to stop all others
        lost, S.lost = lost + 1, true
      end
    end
    if in_order then
      local list = list_for(lists, lane, 0)
      local k = list.n + 1
      list.n, list.ids[k], list.sizes[k] = k, id, 0
    end
    if feeds and not (runs and runs[#runs].id == id) then changed(id, r.name, READY) end
  end
  for lane in pairs(lists) do call('LLEN', S.base .. ':r:' .. lane .. ':' .. r.name) end -- a foreign key ends it before the first push
  for lane, list in pairs(lists) do
    Line.push(r, lane, list.ids, list.kind, list.sizes, lo, hi)
  end
  if n > 0 then
    call('ZREMRANGEBYRANK', due_set(r), 0, n - 1)
    r.counts[SCHEDULED], r.counts[READY] = r.counts[SCHEDULED] - n, r.counts[READY] + n - lost - (runs and #runs or 0)
  end
  -- Runs of schedules come last: one may cancel another job, which must have its place.
  if runs then Schedule.move(r, runs, next_of(lists) == nil) end
  Due.refresh(r)
  return n
end

-- The entries of a cold bucket that count, between two places: due and seq 12 + id of each, with
-- the place.
local function entries(r, number, from, to)
  local ids, found, seen = call('LRANGE', cold_bucket(r, number), from, to), {}, {}
  local records = Records.get_many(ids)
  for i = 1, #ids do
    local raw = records[i]
    local due = raw and byte(raw) <= %TAG_WAITING% and not seen[ids[i]] and at8(raw, %REC_DUE_AT%)
    if due and due >= r.hot_until and floor(due / WIDTH) == number and is_of(r, raw) then
      seen[ids[i]] = true
      found[#found + 1] = {due, sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. ids[i], from + i}
    end
  end
  return found, #ids
end

-- No cold job of a queue that has some is due before.
function Due.cold_from(r)
  return tonum(call('ZRANGE', cold_numbers(r), 0, 0)[1] or '0') * WIDTH
end

-- Cold jobs of a queue, at most so many after a cursor: ids with the cursor after each. List by
-- list; one of at most `SORTED` entries by due (cursor: DUE | seq, id; s before it for who takes
-- them out), a longer one as they came (p NUMBER | place), also after a cursor by due, of a job
-- that was hot. One that becomes longer meanwhile begins anew. Who takes them out has a longer one
-- from its end: what is spread meanwhile goes from its front, and shifts the places.
function Due.cold_page(r, cursor, limit, takes)
  local letter = takes and 's' or ''
  local out, kind, number, due, rest = {}, nil, '-inf', nil, nil
  if cursor then
    local bar = find(cursor, '|', 1, true)
    kind, rest = sub(cursor, 1, 1), bar and sub(cursor, bar + 1)
    number = Inspect.digits(bar and sub(cursor, kind == 'p' and 2 or #letter + 1, bar - 1))
    if kind == 'p' then rest = Inspect.digits(rest) end
    if kind ~= 'p' then due, number = number, floor(number / WIDTH) end
  end
  for _, text in ipairs(call('ZRANGEBYSCORE', cold_numbers(r), number, '+inf')) do
    local this = tonum(text)
    local key, goes_on = cold_bucket(r, this), cursor and this == number
    local by_place = goes_on and kind == 'p'
    if by_place or call('LLEN', key) > SORTED then
      local function put(one, place) if #out < limit then out[#out + 1] = {sub(one[2], %DUE_ENTRY_ID_AT%), 'p' .. text .. '|' .. fmt('%d', place)} end end
      if takes then
        local length = call('LLEN', key)
        local place = by_place and min(rest, length) or length
        while place > 0 and #out < limit do
          local from = max(0, place - SLICE)
          local found = entries(r, this, from, place - 1)
          for i = #found, 1, -1 do put(found[i], found[i][3] - 1) end
          place = from
        end
      else
        local place, examined = by_place and min(rest, call('LLEN', key)) or 0, nil
        repeat
          local found
          found, examined = entries(r, this, place, place + SLICE - 1)
          for i = 1, #found do put(found[i], found[i][3]) end
          place = place + SLICE
        until examined < SLICE or #out == limit
      end
    else
      local found = entries(r, this, 0, -1)
      table.sort(found, function(a, b) return a[1] < b[1] or a[1] == b[1] and below(a[2], b[2]) end)
      for i = 1, #found do
        local one = found[i]
        local passed = goes_on and (one[1] < due or one[1] == due and not below(rest, one[2]))
        if not passed and #out < limit then
          out[#out + 1] = {sub(one[2], %DUE_ENTRY_ID_AT%), letter .. fmt('%d|', one[1]) .. one[2], due = one[1], member = one[2]}
        end
      end
    end
    if #out == limit then break end
  end
  return out
end

-- Counts cold jobs by due into a histogram: exactly in lists of at most `COUNTED` entries, while
-- `budget` lasts; others as if due when their list begins. Calls count(due, jobs).
function Due.cold_counts(r, budget, count)
  if r.cold == 0 then return end
  for _, text in ipairs(call('ZRANGE', cold_numbers(r), 0, -1)) do
    local number = tonum(text)
    local n = call('LLEN', cold_bucket(r, number))
    if n <= COUNTED and n <= budget then
      budget = budget - n
      for _, one in ipairs((entries(r, number, 0, -1))) do count(one[1], 1) end
    else
      count(max(number * WIDTH, r.hot_until), min(n, r.cold))
    end
  end
end

end
