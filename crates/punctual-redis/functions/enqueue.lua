-- enqueue: duplicate check, unique key, bound, store.
do

local DUE_MAX = 253402300799999999 -- the end of the year 9999

-- An instant plus a span of 8 bytes, exactly, as 8 bytes.
local function plus(now, span8)
  local high, low = unp('>I4I4', span8)
  low = low + now % 4294967296
  high = high + floor(now / 4294967296) + floor(low / 4294967296)
  return pack('>I4I4', high, low % 4294967296)
end

-- The due that engine time gives: 8 bytes, and whether the instant asked for has passed.
local function due_of(kind, told8, now8, index)
  if kind == 0 then return now8, false end
  if kind == 1 then
    local due8 = plus(S.now, told8)
    if unp('>I8', told8) > DUE_MAX or unp('>I8', due8) > DUE_MAX then
      refuse('invalid_delay', 'delay reaches beyond the year 9999 index=' .. index)
    end
    return due8, false
  end
  if told8 < now8 then return now8, true end
  return told8, false
end

function Enqueue.pending(r) return r.c[HELD] + r.c[SCHEDULED] + r.c[READY] end

-- The first jobs of a lane in order, at most k.
local function first_of(r, lane, k)
  local found = {}
  if lane < 10 then
    local ids, records, stamps, n = Line.pop(r, lane, k)
    if n > 0 then Line.unpop(r, lane, ids, stamps, 1) end
    for i = 1, n do
      local raw = records[i]
      found[i] = {'\1' .. sub(raw, 12, 19) .. sub(raw, 2, 11) .. sub(raw, 28, 29), ids[i]}
    end
  end
  if (r.X[lane] or 0) > 0 then
    for _, member in ipairs(call('ZRANGE', S.base .. ':x:' .. lane .. ':' .. r.name, 0, k - 1)) do
      local rest = sub(member, 23)
      found[#found + 1] = {sub(member, 1, 21), sub(member, 22, 22) == 'J' and rest or Group.candidate(r, rest, lane)}
    end
  end
  table.sort(found, function(a, b) return a[1] < b[1] end)
  return found
end

-- The next one in line of the last priority that has any, else the next one to be due, else one of a
-- group that is kept from its claim; none of `except`.
local function oldest_pending(r, except)
  local k = #except + 1
  local function passes(id)
    for _, other in ipairs(except) do if other == id then return false end end
    return true
  end
  for prio = 9, 0, -1 do
    for lane = prio, prio + 10, 10 do
      for _, one in ipairs(first_of(r, lane, k)) do if passes(one[2]) then return one[2] end end
    end
  end
  for _, member in ipairs(call('ZRANGE', S.base .. ':n:' .. r.name, 0, k - 1)) do
    if passes(sub(member, 13, 28)) then return sub(member, 13, 28) end
  end
  for _, member in ipairs(call('ZRANGEBYLEX', S.base .. ':l:' .. r.name, '-', '+', 'LIMIT', 0, k)) do
    if passes(sub(member, -16)) then return sub(member, -16) end
  end
end

-- Whether the queue may take one more pending job, after dead-lettering if it is told to.
local function make_room(r, goes)
  if not flag(r, 8) or Enqueue.pending(r) - #goes < r.max then return true end
  if not flag(r, 4) or r.max == 0 then return false end
  local id = oldest_pending(r, goes)
  local j = id and Job.load(id)
  if not j then return false end
  Place.out(j)
  j.ext.dr = 3
  Settled.as(j, DEAD)
  return true
end

-- What an import knows of a job's past.
local function import(j, past)
  local e, held = j.ext, past.st == HELD and past.w and #past.w > 0
  j.tag = held and 3 or past.st > ACTIVE and past.st or 2
  local due8 = past.du
  if past.st == ACTIVE and due8 > u8(S.now) then due8 = u8(S.now) end -- it ran already
  if due8 ~= j.due8 then e.rd = j.due8 end
  j.due8, j.due = due8, unp('>I8', due8)
  for _, key in ipairs({'a', 'f', 'c', 's', 'fi', 'er', 're', 'po', 'cd', 'dr', 'sp', 'en'}) do e[key] = past[key] end
  if type(e.s) == 'string' then e.s = at8(e.s) end
  if type(e.fi) == 'string' then e.fi = at8(e.fi) end
  e.fi = j.tag > 3 and min(e.fi or S.now, S.now) or nil
  if past.ex and past.ex ~= (j.opts.ex or '') then e.ex = past.ex end
  e.w = held and past.w or nil
  if past.st == ACTIVE then e.fr = 1 end
end

-- Stores a job that nothing refuses.
local function store(j, late, follows)
  local r, o, past = Row.of(j.q), j.opts, j.opts.hi
  if late then j.ext.la = 1 end
  if follows or (o.w and #o.w > 0) then
    j.tag, j.ext.fo, j.ext.w = 3, follows, o.w
  end
  note(r, 1, 1)
  if past then
    import(j, past)
    if follows then j.tag, j.ext.fo = 3, follows end
    if j.tag > 3 then return Settled.keep(j, j.ext.fi) end
  end
  Job.save(j)
  if o.g then Group.member(r, j, true) end
  if follows then Unique.follow(j.q, o.u, j.id) else Unique.take(j) end
  Place.watch_expiry(j)
  if j.tag == 3 or past or o.g or j.due > S.now then
    Place.put(j)
  elseif r.head > 0 and r.head <= S.now then -- a pile is being moved: behind it
    Due.add(r, j)
  else
    Line.push(r, j.prio, {j.id}, 0)
    r.c[READY] = r.c[READY] + 1
    changed(j.id, j.q, READY)
  end
  Settled.expire_if_late(j)
end

-- One job's enqueue; effects are not bounded by max_pending. Answers verdict, due, late, other id.
function Enqueue.one(id, due8, late, spec, bounded)
  local raw = call('HGET', S.k.b, id)
  if raw and byte(raw) >= 7 then
    raw = Settled.mark(id, raw)
    if not raw or not Settled.mark_counts(raw) then
      Settled.reuse(id)
      raw = nil
    end
  end
  if raw then
    local first_due, first_late, hash
    if byte(raw) == 7 then
      first_due, hash, first_late = sub(raw, 2, 9), sub(raw, 10, 17), byte(raw, 18) >= 8
    else
      local known = Job.parse(id, raw)
      first_due, hash, first_late = known.ext.rd or known.due8, known.hash, known.ext.la == 1
    end
    if hash ~= sub(spec, 1, 8) then return 4, due8, late end
    return 1, first_due, first_late
  end
  local j = Job.parse(id, '\1' .. u8(S.now) .. S.sub .. due8 .. spec)
  local r = Row.of(j.q)
  local past = j.opts.hi
  local verdict, other, holder = 'free', nil, nil
  if j.opts.u and not (past and past.st > ACTIVE) then verdict, other, holder = Unique.verdict(j.q, j.opts) end
  if tonum(verdict) then return verdict, due8, late, other end
  local goes = {}
  if verdict == 'replaces' then
    goes[1] = other.id
    goes[2] = holder.follower
  end
  if bounded and not (past and past.st > ACTIVE) and not make_room(r, goes) then return 6, due8, late end
  local answer = 0
  if verdict == 'replaces' then
    Unique.replace(other, holder)
    answer = 3
  end
  store(j, late, verdict == 'follows' and other or nil)
  return answer, due8, late, answer == 3 and other.id or nil
end


-- Puts the jobs of one lane and due in line: at the places `at` of the batch, or all of it.
local function line_up(batch, part)
  local r, ids, at = part.row, batch.ids, part.at
  local k = part.n or #at
  note(r, 1, k)
  if part.later then
    local dues, these, records = {}, at and {} or ids, {}
    for i = 1, k do
      local place = at and at[i] or i
      if at then these[i] = ids[place] end
      dues[i], records[i] = part.due or unp('>I8', batch.dues[place]), batch.kv[2 * place]
    end
    Due.add_plain(r, dues, these, records)
  else
    local list, sizes, kv = at and {} or ids, {}, batch.kv
    for i = 1, k do
      local place = at and at[i] or i
      if at then list[i] = ids[place] end
      sizes[i] = #kv[2 * place]
    end
    Line.push(r, part.prio, list, 1, sizes)
    r.c[READY] = r.c[READY] + k
  end
  if M.feed >= S.now then
    for i = 1, k do changed(ids[at and at[i] or i], r.name, part.later and SCHEDULED or READY) end
  end
end

-- Reads a call whose jobs are all plain, of one due, priority and queue, as its head says.
local function read_uniform(blob, batch, at)
  local due8, late = due_of(byte(blob, at), sub(blob, at + 1, at + 8), u8(S.now), 0)
  local prio, ql = byte(blob, at + 9, at + 10)
  local ids, kv, size = batch.ids, {}, #blob
  local prefix, due = '\1' .. u8(S.now) .. S.sub .. due8, unp('>I8', due8)
  at = at + 11 + ql
  for i = 1, batch.n do
    local length, id = unp('>I4c16', blob, at)
    local last = at + 3 + length
    if length < 31 or last > size then refuse('invalid_input', 'a job is cut short index=' .. i - 1) end
    ids[i], kv[2 * i - 1], kv[2 * i] = id, id, prefix .. sub(blob, at + 20, last)
    at = last + 1
  end
  batch.parts[1] = {prio = prio, q = sub(blob, 23, 22 + ql), due = due, later = due > S.now, n = batch.n}
  batch.kv, batch.due8, batch.late = kv, due8, late
  if late then batch.plain = false end
  return batch
end

-- Reads the call's jobs once: ids and records as they would be stored, in parts of one lane and due.
-- `plain` unless a job needs a look of its own.
local function read_jobs(blob)
  local flags, n = unp('>BI2', blob, 9)
  local batch = {ids = {}, parts = {}, n = n, plain = flags % 2 == 0, kv = nil, dues = nil, lates = nil}
  if flags >= 2 then return read_uniform(blob, batch, 12) end
  local ids, kv, dues, lates = batch.ids, {}, {}, {}
  batch.kv, batch.dues, batch.lates = kv, dues, lates
  local now8, at, size = u8(S.now), 12, #blob
  local seq = '\1' .. now8 .. S.sub
  local last_due, last_later, last_lane, due8, late, prefix, part, parts = nil, nil, nil, nil, nil, nil, nil, {}
  for i = 1, n do
    local length, id, told = unp('>I4c16c9', blob, at)
    if length < 40 or at + 3 + length > size then refuse('invalid_input', 'a job is cut short index=' .. i - 1) end
    if told ~= last_due then
      due8, late = due_of(byte(told), sub(told, 2), now8, i - 1)
      last_due, prefix = told, seq .. due8
      local later = due8 ~= now8
      if later ~= last_later then last_lane, last_later = nil, later end
      if late then batch.plain = false end
    end
    local lane = sub(blob, at + 39, at + 41 + byte(blob, at + 41))
    if lane ~= last_lane then
      last_lane = lane
      if byte(lane, 2) > 1 then batch.plain = false end
      local key = last_later and sub(lane, 4) or sub(lane, 1, 1) .. sub(lane, 3)
      part = parts[key]
      if not part then
        part = {prio = byte(lane, 1), q = sub(lane, 4), later = last_later, at = {}}
        parts[key] = part
        batch.parts[#batch.parts + 1] = part
      end
    end
    part.at[#part.at + 1] = i
    ids[i], kv[2 * i - 1], kv[2 * i] = id, id, prefix .. sub(blob, at + 29, at + 3 + length)
    dues[i], lates[i] = due8, late
    at = at + 4 + length
  end
  return batch
end

local function is_plain(batch)
  if not batch.plain then return false end
  local more = {}
  for _, part in ipairs(batch.parts) do
    local r = Row.of(part.q)
    part.row = r
    more[r] = (more[r] or 0) + (part.n or #part.at)
    if r.head > 0 and r.head <= S.now then return false end
    if flag(r, 8) and Enqueue.pending(r) + more[r] > r.max then return false end
  end
  local known = get_many(S.k.b, batch.ids)
  for i = 1, batch.n do if known[i] then return false end end
  return true
end

-- The queue of the first job, to read its row with the shard.
local function first_queue(blob)
  local at = byte(blob, 9) >= 2 and 22 or 53
  local length = byte(blob, at)
  return length and sub(blob, at + 1, at + length) or nil
end

-- enqueue. Key: base. Argument: instance 8 | flags 1 | count 2 | jobs. Reply: now 8 | instance 8 | form 1 | receipts.
function Enqueue.call(base, blob)
  if #blob < 11 then refuse('invalid_input', 'the call is cut short') end
  if not call then bind() end
  local q = first_queue(blob)
  Shard.open(base, sub(blob, 1, 8), q and {q})
  local batch = read_jobs(blob)
  Sweep.run()
  if is_plain(batch) then
    call_many('HSET', S.k.b, batch.kv)
    for _, part in ipairs(batch.parts) do line_up(batch, part) end
    Shard.commit()
    return u8(S.now) .. M.instance .. '\0'
  end
  local out, form = {}, 0
  for i = 1, batch.n do
    local due8, late, other = batch.due8 or batch.dues[i], batch.late or batch.lates and batch.lates[i], nil
    local verdict
    verdict, due8, late, other = Enqueue.one(batch.ids[i], due8, late, sub(batch.kv[2 * i], 20), true)
    if verdict > 0 or late then form = 1 end
    out[i] = char(verdict) .. due8 .. (late and '\1' or '\0') .. (other or '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0')
  end
  Shard.commit()
  return u8(S.now) .. M.instance .. char(form) .. (form == 1 and concat(out) or '')
end

Enqueue.plus, Enqueue.due_of = plus, due_of

-- Refuses an effect whose delay reaches too far, before anything is changed.
function Enqueue.check_due(bytes, index)
  if #bytes < 29 then refuse('invalid_input', 'an effect is cut short index=' .. index) end
  due_of(byte(bytes, 17), sub(bytes, 18, 25), u8(S.now), index)
end

-- One job of a text or an effect: id | due kind | due | spec. Answers as Enqueue.one.
function Enqueue.effect(bytes)
  local due8, late = due_of(byte(bytes, 17), sub(bytes, 18, 25), u8(S.now), 0)
  return Enqueue.one(sub(bytes, 1, 16), due8, late, sub(bytes, 26), false)
end

end
