-- Leases. `BASE:pg`: token 16 to a lease that never changes (worker 16 | started 8 | lease_duration
-- 8 | lo 8 | hi 8 | flags 1 | n 2 | qlen 2, queues NUL between | ids | [runs]); '~' + token to what
-- changes (mp: d which have left, c cancel requested, ls lease_duration, sp extended after a
-- pause); 'n' + worker + nonce to its tokens. `BASE:e`: ends; members lo 8 | hi 8 | token | queues,
-- the earliest and latest due inside, so that a job in hand finds its lease though nothing was
-- written to it.
do

local ALONE, PLAIN, IN_BUNDLES = %LEASE_ALONE%, %LEASE_PLAIN%, %LEASE_BUNDLES%

local function lease_member(p) return p.lo .. p.hi .. p.token .. p.q end

-- The first queue of a lease's bytes.
function Lease.queue_of(blob)
  local q = sub(blob, 54, 53 + unp('>I2', blob, 52))
  local nul = find(q, '\0', 1, true)
  return nul and sub(q, 1, nul - 1) or q
end

-- Fields of `BASE:pg` that a call is to ask for, read at once; by field, false where there is none.
function Lease.fetch(base, fields)
  local found, out = get_many(base .. ':pg', fields), {}
  for i = 1, #fields do out[fields[i]] = found[i] end
  return out
end

-- Writes the leases that were opened and closed in this call so far.
function Lease.flush()
  local opened, ends, gone, closed = S.opened, S.opened_ends, S.gone_fields, S.closed
  S.opened, S.opened_ends, S.gone_fields, S.closed = nil, nil, nil, nil
  if opened then
    call_many('HSET', S.k.pg, opened)
    call_many('ZADD', S.k.e, ends)
  end
  if closed then
    call_many('HDEL', S.k.pg, gone)
    call_many('ZREM', S.k.e, closed)
  end
end

-- Reads the leases (members of `BASE:e` with their ends) before they are loaded: one command for
-- all of them.
function Lease.prefetch(ends)
  local fields, leases, fetched = {}, S.leases or {}, S.fetched or {}
  for i = 1, #ends, 2 do
    local token = sub(ends[i], 17, 32)
    if leases[token] == nil and fetched[token] == nil then fields[#fields + 1], fields[#fields + 2] = token, '~' .. token end
  end
  if #fields == 0 then return end
  Lease.flush()
  for field, value in pairs(Lease.fetch(S.base, fields)) do fetched[field] = value end
  S.fetched = fetched
end

-- A lease by its token; nil if there is none (any more).
function Lease.load(token)
  local known = S.leases and S.leases[token]
  if known ~= nil then return known or nil end
  S.leases = S.leases or {}
  local pg = S.fetched
  local blob, changes
  if pg and pg[token] ~= nil then
    blob, changes = pg[token], pg['~' .. token]
  else
    Lease.flush()
    local found = call('HMGET', S.k.pg, token, '~' .. token)
    blob, changes = found[1], found[2]
  end
  if not blob then
    S.leases[token] = false
    return nil
  end
  local p = {token = token, blob = blob, worker = sub(blob, 1, 16), lo = sub(blob, 33, 40), hi = sub(blob, 41, 48)}
  local flags, n, ql
  p.started, p.lease_duration = unp('>I8I8', blob, 17)
  flags, n, ql = unp('>BI2I2', blob, 49)
  if flags >= %LEASE_LATER% then refuse_later('a lease') end
  p.alone, p.plain, p.n = %flags has LEASE_ALONE%, flags >= PLAIN, n
  p.q, p.at = sub(blob, 54, 53 + ql), 54 + ql
  p.runs = flags >= IN_BUNDLES and sub(blob, p.at + 16 * n) or nil
  p.saved = changes and true
  p.map = changes and mp.unpack(changes) or nil
  p.lease_duration = p.map and p.map.ls or p.lease_duration
  p.spoilt = p.map and p.map.lo == 1
  S.leases[token] = p
  return p
end

function Lease.save(p)
  p.saved = true
  call('HSET', S.k.pg, '~' .. p.token, mp.pack(p.map))
end

-- The place of an id from some place on. Ids of one moment differ in their last bytes only.
local function place_from(p, id, first)
  local blob, at, tail, last = p.blob, p.at + 12, sub(id, 13), p.at + 16 * p.n
  local from = at + 16 * first - 16
  while true do
    local found = find(blob, tail, from, true)
    if not found or found >= last then return nil end
    if (found - at) % 16 == 0 and sub(blob, found - 12, found + 3) == id then return (found - at) / 16 + 1 end
    from = found + 1
  end
end

-- The place of a job that has not left; `hint` is where to look first.
function Lease.place(p, id, hint)
  local i, at = hint, p.at
  if not (i and i <= p.n and sub(p.blob, at + 16 * i - 16, at + 16 * i - 1) == id) then
    i = hint and place_from(p, id, hint) or place_from(p, id, 1)
  end
  if i and (p.map and p.map.d and byte(p.map.d, i) == 49 or p.gone and p.gone[i]) then return nil end
  return i
end

-- How many ids from the k-th on, at most so many, stand one after the other from a place on where
-- the k-th is. They are compared some at once: every string that is cut out is hashed.
local function length_of_run(p, ids, k, place, most)
  local n, step, grows = 1, 1, true
  while n < most and step > 0 do
    local more = min(step, most - n)
    local here, there = p.at + 16 * (place + n) - 16, 16 * (k + n) - 15
    if sub(p.blob, here, here + 16 * more - 1) == sub(ids, there, there + 16 * more - 1) then
      n = n + more
      if grows then step = min(2 * step, 64) end
    else
      grows, step = false, floor(more / 4)
      if step == 0 and more > 1 then step = 1 end
    end
  end
  return n
end

-- Where in a lease n ids stand, if they are told in its order and none of them has left: places in
-- a row, as first and count by turns.
function Lease.runs_of(p, ids, n)
  if p.gone then return nil end
  local d, runs, k = p.map and p.map.d, {}, 1
  local place = d and find(d, '0', 1, true) or 1
  while k <= n do
    local id = sub(ids, 16 * k - 15, 16 * k)
    if place > p.n or sub(p.blob, p.at + 16 * place - 16, p.at + 16 * place - 1) ~= id then place = place_from(p, id, place) end
    if not place then return nil end
    local length = length_of_run(p, ids, k, place, min(n - k, p.n - place) + 1)
    if d and find(sub(d, place, place + length - 1), '1', 1, true) then return nil end
    runs[#runs + 1], runs[#runs + 2] = place, length
    k, place = k + length, place + length
  end
  return runs
end

-- Places as runs: first and count by turns, in order.
function Lease.runs_at(places)
  table.sort(places)
  local runs, m = {}, 0
  for k = 1, #places do
    if m > 0 and places[k] == runs[m - 1] + runs[m] then
      runs[m] = runs[m] + 1
    else
      runs[m + 1], runs[m + 2] = places[k], 1
      m = m + 2
    end
  end
  return runs
end

-- Ids of the jobs that have not left, with their places.
function Lease.rest(p)
  local ids, places = {}, {}
  local d = p.map and p.map.d
  for i = 1, p.n do
    if not d or byte(d, i) == 48 then
      ids[#ids + 1], places[#places + 1] = sub(p.blob, p.at + 16 * i - 16, p.at + 16 * i - 1), i
    end
  end
  return ids, places
end

-- How many those are; none is cut out for it.
function Lease.left(p)
  local d = p.map and p.map.d
  return d and p.n - select(2, d:gsub('1', '')) or p.n
end

local function nonce_field(p) return 'n' .. p.worker .. sub(p.token, 9) end

function Lease.close(p)
  local gone, closed = S.gone_fields or {}, S.closed or {}
  local n = #gone
  gone[n + 1], gone[n + 2] = p.token, nonce_field(p)
  if p.saved then gone[n + 3] = '~' .. p.token end
  closed[#closed + 1] = lease_member(p)
  S.gone_fields, S.closed = gone, closed
  S.leases[p.token] = false
  if p.alone then notify(Row.of(Lease.queue_of(p.blob))) end -- its worker may be given other jobs again
  S.ends = nil
end

-- Closes a lease of one queue that nothing was written to since it was opened, by its bytes.
function Lease.close_plain(token, blob, q)
  local gone, closed, leases = S.gone_fields or {}, S.closed or {}, S.leases or {}
  local n = #gone
  gone[n + 1], gone[n + 2] = token, 'n' .. sub(blob, 1, 16) .. sub(token, 9)
  closed[#closed + 1] = sub(blob, 33, 48) .. token .. q
  leases[token] = false
  S.gone_fields, S.closed, S.leases, S.ends = gone, closed, leases, nil
end

-- A string of '0' and '1' with runs of places set to '1'.
function Lease.tombstone_runs(d, runs)
  local out, from = {}, 1
  for k = 1, #runs, 2 do
    out[k], out[k + 1] = sub(d, from, runs[k] - 1), rep('1', runs[k + 1])
    from = runs[k] + runs[k + 1]
  end
  return concat(out) .. sub(d, from)
end

-- Jobs leave their lease, by runs of places; it goes with its last one.
function Lease.leave_runs(p, runs)
  if runs[2] == p.n then return Lease.close(p) end
  p.map = p.map or {}
  local d = Lease.tombstone_runs(p.map.d or rep('0', p.n), runs)
  if not find(d, '0', 1, true) then return Lease.close(p) end
  p.map.d = d
  Lease.save(p)
end

-- Jobs leave their lease, by place.
function Lease.leave(p, places) Lease.leave_runs(p, Lease.runs_at(places)) end

-- Something was written to a job of the lease: its records must be looked at from now on.
function Lease.spoil(p)
  if not p.plain or (p.map and p.map.lo) then return end
  p.map = p.map or {}
  p.map.lo, p.spoilt = 1, true
  Lease.save(p)
end

-- The cancel of an active job is requested.
function Lease.ask_cancel(p, id)
  p.map = p.map or {}
  p.map.c = p.map.c or {}
  p.map.c[#p.map.c + 1] = id
  p.map.lo, p.spoilt = 1, true
  Lease.save(p)
end

-- A job leaves its lease now, and is written as gone with the others of this call.
function Lease.depart(p, place)
  if not p.gone then
    p.gone, p.departed = {}, {}
    S.departing = S.departing or {}
    S.departing[p] = true
  end
  p.gone[place] = true
  p.departed[#p.departed + 1] = place
end

-- Writes what departed; before anything that reads the lease anew.
function Lease.settle_departed(p)
  local places = p.departed
  p.gone, p.departed = nil, nil
  if places then
    S.departing[p] = nil
    Lease.leave(p, places)
  end
end

-- The same of leases whose settle broke off.
function Lease.settle_all_departed()
  local leases = S.departing
  S.departing = nil
  for p in pairs(leases) do
    local places = p.departed
    p.gone, p.departed = nil, nil
    if places and S.leases[p.token] then Lease.leave(p, places) end
  end
end

-- Opens a lease over ids, a string of n of them; plain if every job is, and all of one queue;
-- `runs` if all are in bundles.
function Lease.open(token, worker, lease_duration, ids, n, lo, hi, alone, q, plain, runs)
  local now, member = S.now, lo .. hi .. token .. q
  local flags = (alone and ALONE or 0) + (plain and PLAIN or 0) + (runs and IN_BUNDLES or 0)
  local blob = worker .. pack('>I8I8', now, lease_duration) .. lo .. hi .. pack('>BI2I2', flags, n, #q) .. q .. ids .. (runs or '')
  local opened, ends = S.opened or {}, S.opened_ends or {}
  local k = #opened
  opened[k + 1], opened[k + 2], opened[k + 3], opened[k + 4] = token, blob, 'n' .. worker .. sub(token, 9), token
  k = #ends
  ends[k + 1], ends[k + 2] = fmt('%d', now + lease_duration), member
  S.opened, S.opened_ends = opened, ends
  schedule('ends', now + lease_duration)
  if M.lease_duration == 0 or lease_duration < M.lease_duration then M.lease_duration, M.rest = lease_duration, nil end
  S.ends = nil
end

-- Every lease: members and ends, by end.
local function all_ends()
  if not S.ends then
    Lease.flush()
    S.ends = call('ZRANGE', S.k.e, 0, -1, 'WITHSCORES')
  end
  return S.ends
end

-- The earliest end of a lease with jobs of one of these queues; nil if there is none.
function Lease.first_end(rows)
  local wanted, any, start = {}, false, 0
  for _, r in ipairs(rows) do
    if r.c[ACTIVE] > 0 then wanted[r.name], any = true, true end
  end
  local size = 1 -- the first one will do, most often
  if any then Lease.flush() end
  while any do
    local ends = call('ZRANGE', S.k.e, start, start + size - 1, 'WITHSCORES')
    for i = 1, #ends, 2 do
      local queues = sub(ends[i], 33)
      if wanted[queues] then return tonum(ends[i + 1]) end
      if find(queues, '\0', 1, true) then
        for name in queues:gmatch('%Z+') do if wanted[name] then return tonum(ends[i + 1]) end end
      end
    end
    if #ends < 2 * size then return nil end
    start, size = start + size, 100
  end
end

function Lease.deadline(p)
  Lease.flush()
  return tonum(call('ZSCORE', S.k.e, lease_member(p)) or 0)
end

-- The lease that holds a waiting job, and its place; nil if it is not active.
function Lease.of(j)
  local ends, due, may = all_ends(), j.due, {}
  for i = 1, #ends, 2 do
    local lo, hi = unp('>I8I8', ends[i])
    if lo <= due and hi >= due then may[#may + 1], may[#may + 2] = ends[i], ends[i + 1] end
  end
  Lease.prefetch(may)
  for i = 1, #may, 2 do
    local p = Lease.load(sub(may[i], 17, 32))
    local place = p and Lease.place(p, j.id)
    if place then
      p.deadline = tonum(may[i + 1])
      return p, place
    end
  end
end

-- The lease ends then.
function Lease.end_at(p, deadline)
  Lease.flush()
  call('ZADD', S.k.e, fmt('%d', deadline), lease_member(p))
  schedule('ends', deadline)
  S.ends = nil
end

-- While the engine was paused no worker could extend: each such lease lasts as long again, once.
function Lease.extend_after_pause(gap)
  local ends, extended, shortest = all_ends(), false, 0
  Lease.prefetch(ends)
  for i = 1, #ends, 2 do
    local p = Lease.load(sub(ends[i], 17, 32))
    if p then
      if gap * 2 > p.lease_duration and not (p.map and p.map.sp) then
        p.map = p.map or {}
        p.map.sp = 1
        Lease.save(p)
        Lease.end_at(p, max(tonum(ends[i + 1]), S.now + p.lease_duration))
        extended = true
      end
      if shortest == 0 or p.lease_duration < shortest then shortest = p.lease_duration end
    end
  end
  M.lease_duration, M.rest = shortest, nil
  if extended then M.jumps = M.jumps + 1 end
end

-- What becomes of a job whose lease ran out, and when that was.
local function crash(j, p, ended)
  local e, r = j.ext, Row.of(j.q)
  r.c[ACTIVE] = r.c[ACTIVE] - 1
  e.a, e.s = (e.a or 0) + 1, p.started
  e.c = (e.c or 0) + 1
  Job.remember(j, p, ended, CRASHED)
  if e.cr then
    e.cd, e.sp = 0, 3
    return Settled.as(j, CANCELLED)
  end
  if Job.has_expired(j) then
    e.cd = 1
    return Settled.as(j, CANCELLED)
  end
  if p.alone and e.c >= (tonum(j.opts.mc) or 0) then
    e.dr = 2
    return Settled.as(j, DEAD)
  end
  Lease.return_to_front(j)
end

-- Makes a job that was active, and has left its lease, ready at the front of its line.
function Lease.return_to_front(j)
  j.tag = %TAG_WAITING%
  j.ext.fr = 1
  Job.save(j)
  if j.opts.g then Group.ended(Row.of(j.q), j, false) end
  Place.put(j)
end

-- Returns jobs of leases that ran out, a bounded number; how many.
function Lease.rescue(limit)
  local rescued = 0
  while rescued < limit do
    Lease.flush()
    local first = call('ZRANGE', S.k.e, 0, 0, 'WITHSCORES')
    if not first[1] then
      M.lease_duration, M.rest = 0, nil
      break
    end
    if tonum(first[2]) > S.now then
      schedule('ends', tonum(first[2]))
      break
    end
    local p = Lease.load(sub(first[1], 17, 32))
    if not p then
      call('ZREM', S.k.e, first[1])
    else
      local ids, places = Lease.rest(p)
      local n = min(#ids, limit - rescued)
      local left = slice(places, 1, n)
      Lease.leave(p, left)
      for i = n, 1, -1 do
        local j = Job.load(ids[i])
        if j then
          crash(j, p, tonum(first[2]))
        elseif not Job.raw(ids[i]) then -- its record was deleted by somebody else
          S.lost = true
          if not find(p.q, '\0', 1, true) then
            local r = Row.of(p.q)
            r.c[ACTIVE] = max(0, r.c[ACTIVE] - 1)
          end
        end
      end
      rescued = rescued + n
      if n == 0 then Lease.close(p) end
    end
  end
  Lease.flush()
  if rescued >= limit then schedule('ends', S.now) end
  return rescued
end

-- Reads an extend before anything is changed.
local function read_extends(blob)
  local count, at, leases = unp('>I2', blob, 9), 11, {}
  Check.count(count)
  for k = 1, count do
    local p = {notes = {}}
    local notes, jobs
    p.token, p.lease_duration, notes = unp('>c16I8I2', blob, at)
    Check.lease_duration(p.lease_duration)
    at = at + 26
    for i = 1, notes do
      local id, length = unp('>c16I4', blob, at)
      local is_log = length >= 2147483648
      if is_log then length = length - 2147483648 end
      local note_ = sub(blob, at + 20, at + 19 + length)
      p.notes[i], at = {id, is_log and Check.lines(note_) or note_, is_log}, at + 20 + length
    end
    jobs, at = unp('>I2', blob, at)
    Check.count(notes + jobs)
    p.jobs, p.at, at = jobs, at, at + 16 * jobs
    if at > #blob + 1 then error('it ends within a lease') end
    leases[k] = p
  end
  return leases
end

-- Extends one lease; its answer.
local function extend_one(extend, blob)
  local p, lease_duration, lost, asked = Lease.load(extend.token), extend.lease_duration, {}, {}
  if not p then return '\0' end
  local deadline = max(Lease.deadline(p), S.now + lease_duration)
  if p.lease_duration ~= lease_duration or (p.map and p.map.sp) then
    p.map = p.map or {}
    p.map.ls, p.map.sp = lease_duration, nil
    p.lease_duration = lease_duration
    Lease.save(p)
    if M.lease_duration == 0 or lease_duration < M.lease_duration then M.lease_duration, M.rest = lease_duration, nil end
  end
  Lease.end_at(p, deadline)
  p.deadline = deadline
  for _, note_ in ipairs(extend.notes) do
    local j = Lease.place(p, note_[1]) and Job.load(note_[1])
    if j then
      if note_[3] then Job.log(j, (j.ext.a or 0) + 1, note_[2]) else j.ext.po = note_[2] end
      Job.save(j)
      Lease.spoil(p)
    end
  end
  for i = 1, extend.jobs do
    local id = sub(blob, extend.at + 16 * i - 16, extend.at + 16 * i - 1)
    if not Lease.place(p, id, i) then lost[#lost + 1] = id end
  end
  for _, id in ipairs(p.map and p.map.c or {}) do asked[#asked + 1] = Lease.place(p, id) or nil end
  table.sort(asked)
  for i, place in ipairs(asked) do asked[i] = sub(p.blob, p.at + 16 * place - 16, p.at + 16 * place - 1) end
  return '\1' .. u8(p.deadline) .. pack('>I2', #lost) .. concat(lost) .. pack('>I2', #asked) .. concat(asked)
end

-- Extends the leases that a call names; its answer.
function Lease.extend(blob)
  local leases, out = reading(read_extends, blob), {}
  Settle.flush()
  for k, extend in ipairs(leases) do out[k] = extend_one(extend, blob) end
  return u8(S.now) .. concat(out)
end

-- extend. Key: base. Argument: instance 8 | leases 2 | per lease token 16, lease_duration 8, notes,
-- jobs. Reply: now 8, per lease 0, or 1 | deadline 8 | lost | cancel.
function Lease.extend_call(base, blob)
  if #blob < 10 then refuse('invalid_input', 'the call is cut short') end
  Shard.open(base, sub(blob, 1, 8), nil, nil, nil, Shard.LEASES)
  Sweep.run()
  local reply = Lease.extend(blob)
  Shard.commit()
  return reply
end

end
