-- Leases. `BASE:pg`: token 16 to a lease that never changes (worker 16 | started 8 | lease_duration
-- 8 | lo 8 | hi 8 | flags 1 | n 2 | qlen 2, queues NUL between | ids | [runs, or shares and groups
-- as in lease_keyed.lua]), lo and hi the earliest and latest due inside; '~' + token to what
-- changes (mp: d which have left, c cancel requested, ls lease_duration, sp extended after pauses);
-- 'n' + worker + nonce to its tokens; 'j' + id to the token of a lease of one job. `BASE:eo:QUEUE`:
-- tokens of leases of one job of a queue, by deadline; `BASE:ew:QUEUE`: of leases of several jobs,
-- some of that queue, token | lo 8 | hi 8, so that a job in hand finds its lease though nothing was
-- written to it; `BASE:e`: these queues, by a lower bound of the first deadline.
do

local ALONE, PLAIN, IN_BUNDLES = %LEASE_ALONE%, %LEASE_PLAIN%, %LEASE_BUNDLES%

-- Where leases of n jobs of a queue stand by deadline, and a lease there.
local function ends_of(q, n) return S.base .. (n == 1 and ':eo:' or ':ew:') .. q end
local function member_of(token, n, lo, hi) return n == 1 and token or token .. lo .. hi end

-- The queues of a lease as a list, by their names with NUL between.
local function names_of(queues)
  if not find(queues, '\0', 1, true) then return {queues} end
  local names = {}
  for q in queues:gmatch('%Z+') do names[#names + 1] = q end
  return names
end

-- The first queue of a lease's bytes.
function Lease.queue_of(blob)
  local q = sub(blob, %LEASE_NAME_AT%, %LEASE_HEAD_BYTES% + unp('>I2', blob, %LEASE_QUEUES_AT%))
  local nul = find(q, '\0', 1, true)
  return nul and sub(q, 1, nul - 1) or q
end

-- Fields of `BASE:pg` that a call is to ask for, read at once; by field, false where there is none.
function Lease.fetch(base, fields)
  local found, out = get_many(base .. ':pg', fields), {}
  for i = 1, #fields do out[fields[i]] = found[i] end
  return out
end

-- Notes arguments of a command that is to be given for a key.
local function note_for(all, key, one, two)
  local items = all[key]
  if items then
    local n = #items
    items[n + 1], items[n + 2] = one, two
  else
    all[key] = {one, two}
  end
end

-- Writes the leases that were opened and closed in this call so far.
function Lease.flush()
  local opened, ends, gone, closed = S.opened, S.opened_ends, S.gone_fields, S.closed
  S.opened, S.opened_ends, S.gone_fields, S.closed = nil, nil, nil, nil
  if opened then
    call_many('HSET', S.k.pg, opened)
    for key, items in pairs(ends) do call_many('ZADD', key, items) end
  end
  if closed then
    call_many('HDEL', S.k.pg, gone)
    for key, items in pairs(closed) do call_many('ZREM', key, items) end
  end
end

-- Reads leases before they are loaded: one command for all of them.
function Lease.prefetch(tokens)
  local fields, leases, fetched = {}, S.leases or {}, S.fetched or {}
  for i = 1, #tokens do
    local token = tokens[i]
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
  local p = {token = token, blob = blob, worker = sub(blob, %LEASE_WORKER%), lo = sub(blob, %LEASE_FIRST_DUE%), hi = sub(blob, %LEASE_LAST_DUE%)}
  local flags, n, ql
  p.started, p.lease_duration = unp('>I8I8', blob, %LEASE_STARTED_AT%)
  flags, n, ql = unp('>BI2I2', blob, %LEASE_FLAGS_AT%)
  if flags >= %LEASE_LATER% then refuse_later('a lease') end
  p.alone, p.plain, p.sent, p.steps, p.keyed, p.n = %flags has LEASE_ALONE%, %flags has LEASE_PLAIN%, %flags has LEASE_SENT%, %flags has LEASE_STEPS%, %flags has LEASE_KEYED%, n
  p.q, p.at = sub(blob, %LEASE_NAME_AT%, %LEASE_HEAD_BYTES% + ql), %LEASE_NAME_AT% + ql
  p.runs = %flags has LEASE_BUNDLES% and sub(blob, p.at + 16 * n) or nil
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
  local blob, at, tail, last = p.blob, p.at + 12, sub(id, %ID_TAIL_AT%), p.at + 16 * p.n
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

-- Where in a lease n ids stand, if they are named in its order and none of them has left: places in
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

-- Notes that a lease is to be written as gone: its fields, and where it stands in its queues.
local function forget(token, worker, queues, n, id, lo, hi, saved)
  local gone, closed, leases = S.gone_fields or {}, S.closed or {}, S.leases or {}
  local k, names, member = #gone, names_of(queues), member_of(token, n, lo, hi)
  gone[k + 1], gone[k + 2] = token, 'n' .. worker .. sub(token, %TOKEN_NONCE_AT%)
  if n == 1 then gone[k + 3] = 'j' .. id end
  if saved then gone[#gone + 1] = '~' .. token end
  for i = 1, #names do note_for(closed, ends_of(names[i], n), member) end
  leases[token] = false
  S.gone_fields, S.closed, S.leases, S.wide = gone, closed, leases, nil
end

function Lease.close(p)
  forget(p.token, p.worker, p.q, p.n, sub(p.blob, p.at, p.at + 15), p.lo, p.hi, p.saved)
  if p.alone then notify(Row.of(Lease.queue_of(p.blob))) end -- its worker may be given other jobs again
end

-- Closes a lease of one queue that nothing was written to since it was opened, by its bytes.
function Lease.close_plain(token, blob, q)
  local n, at = unp('>I2', blob, %LEASE_COUNT_AT%), %LEASE_NAME_AT% + #q
  Workers.holds(sub(blob, %LEASE_WORKER%), -n)
  forget(token, sub(blob, %LEASE_WORKER%), q, n, n == 1 and sub(blob, at, at + 15), sub(blob, %LEASE_FIRST_DUE%), sub(blob, %LEASE_LAST_DUE%))
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
  local n = 0
  for k = 2, #runs, 2 do n = n + runs[k] end
  Workers.holds(p.worker, -n)
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
  if not (p.plain or p.sent) or (p.map and p.map.lo) then return end
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
-- `runs` if all are in bundles; `sent`: the flags LEASE_SENT, LEASE_STEPS and LEASE_KEYED that it
-- has, and `keyed` as Lease.keyed_of reads it.
function Lease.open(token, worker, lease_duration, ids, n, lo, hi, alone, q, plain, runs, sent, keyed)
  local now = S.now
  local flags = (alone and ALONE or 0) + (plain and PLAIN or 0) + (runs and IN_BUNDLES or 0) + (sent or 0)
  local blob = worker .. pack('>I8I8', now, lease_duration) .. lo .. hi .. pack('>BI2I2', flags, n, #q) .. q .. ids .. (runs or keyed or '')
  local opened, ends, deadline = S.opened or {}, S.opened_ends or {}, now + lease_duration
  local k, score = #opened, fmt('%d', deadline)
  opened[k + 1], opened[k + 2], opened[k + 3], opened[k + 4] = token, blob, 'n' .. worker .. sub(token, %TOKEN_NONCE_AT%), token
  Workers.holds(worker, n)
  if n == 1 then opened[k + 5], opened[k + 6] = 'j' .. sub(ids, %ID_BYTES%), token end
  local names, member = names_of(q), member_of(token, n, lo, hi)
  for i = 1, #names do
    local r = Row.of(names[i])
    note_for(ends, ends_of(names[i], n), score, member)
    if r.first_end == 0 or deadline < r.first_end then Lease.schedule(r, deadline) end
  end
  S.opened, S.opened_ends, S.wide = opened, ends, nil
  schedule('ends', deadline)
  if M.lease_duration == 0 or lease_duration < M.lease_duration then M.lease_duration, M.rest = lease_duration, nil end
end

-- No lease of a queue ends before that; 0: there is none.
function Lease.schedule(r, deadline)
  if deadline > 0 then call('ZADD', S.k.e, fmt('%d', deadline), r.name) else call('ZREM', S.k.e, r.name) end
  r.first_end, r.rest = deadline, nil
end

-- The first lease of a queue by deadline: its token and deadline, its key and member; nil if there
-- is none.
local function first_of(q)
  Lease.flush()
  local key, wide_key = ends_of(q, 1), ends_of(q, 2)
  local one, wide = call('ZRANGE', key, 0, 0, 'WITHSCORES'), call('ZRANGE', wide_key, 0, 0, 'WITHSCORES')
  local ends, wide_ends = one[2] and tonum(one[2]), wide[2] and tonum(wide[2])
  if wide_ends and (not ends or wide_ends < ends) then return sub(wide[1], %TOKEN_BYTES%), wide_ends, wide_key, wide[1] end
  return one[1], ends, key, one[1]
end

-- The earliest end of a lease with jobs of one of these queues; nil if there is none.
function Lease.first_end(rows)
  local first
  for _, r in ipairs(rows) do
    if r.counts[ACTIVE] > 0 then
      local _, ends = first_of(r.name)
      if ends and (not first or ends < first) then first = ends end
    end
  end
  return first
end

function Lease.deadline(p)
  Lease.flush()
  return tonum(call('ZSCORE', ends_of(Lease.queue_of(p.blob), p.n), member_of(p.token, p.n, p.lo, p.hi)) or 0)
end

-- Tokens of all leases with jobs of a queue.
function Lease.tokens_of(q)
  Lease.flush()
  local tokens = call('ZRANGE', ends_of(q, 1), 0, -1)
  for _, member in ipairs(call('ZRANGE', ends_of(q, 2), 0, -1)) do tokens[#tokens + 1] = sub(member, %TOKEN_BYTES%) end
  return tokens
end

-- Tokens of the leases of several jobs of a queue that may hold a job of a due. They are asked for
-- once in a call.
local function wide_of(q, due8)
  local wide, tokens = S.wide, {}
  if not wide or wide.q ~= q then
    wide = {q = q, members = call('ZRANGE', ends_of(q, 2), 0, -1)}
    S.wide = wide
  end
  for _, member in ipairs(wide.members) do
    if not below(due8, sub(member, %WIDE_FIRST_DUE%)) and not below(sub(member, %WIDE_LAST_DUE_AT%), due8) then tokens[#tokens + 1] = sub(member, %TOKEN_BYTES%) end
  end
  Lease.prefetch(tokens)
  return tokens
end

-- Asks with one command which of these jobs have a lease of their own. Until it returns none,
-- nothing may open or close one.
function Lease.load_own(jobs)
  local fields, own = {}, nil
  for i = 1, #jobs do
    local j = jobs[i]
    local r = j.tag < %TAG_HELD% and j.due <= S.now and Row.find(j.q)
    if r and r.counts[ACTIVE] > 0 then fields[#fields + 1] = 'j' .. j.id end
  end
  if #fields > 0 then
    Lease.flush()
    own = {}
    local tokens = get_many(S.k.pg, fields)
    for i = 1, #fields do own[sub(fields[i], 2)] = tokens[i] end
  end
  S.own_leases = own
end

-- The lease that holds a waiting job, and its place; nil if it is not active.
function Lease.of(j)
  local r = Row.find(j.q)
  if not r or r.counts[ACTIVE] == 0 then return nil end
  Lease.flush()
  local own = S.own_leases
  local token = own and own[j.id]
  if token == nil then token = call('HGET', S.k.pg, 'j' .. j.id) end
  local tokens = token and {token} or wide_of(j.q, j.due8)
  for i = 1, #tokens do
    local p = Lease.load(tokens[i])
    local place = p and Lease.place(p, j.id)
    if place then
      if not (own and p.deadline) then p.deadline = Lease.deadline(p) end
      return p, place
    end
  end
end

-- The lease ends then.
function Lease.end_at(p, deadline)
  Lease.flush()
  local member = member_of(p.token, p.n, p.lo, p.hi)
  for _, q in ipairs(names_of(p.q)) do call('ZADD', ends_of(q, p.n), fmt('%d', deadline), member) end
  p.deadline = deadline
  schedule('ends', deadline)
end

-- While the engine was paused no worker could extend: each such lease lasts as long again, once.
-- None of them ends later than so long after now: it was given less than twice the pause, before
-- the pause began. Where some were extended by less than they had left, all leases are looked at.
function Lease.extend_after_pause(gap)
  Lease.flush()
  local any_end = call('HGET', S.k.pg, '!')
  local extended, shortest, till, seen, longer = false, 2 * gap, any_end and '+inf' or fmt('%d', S.now + gap), {}, nil
  for _, q in ipairs(call('ZRANGEBYSCORE', S.k.e, '-inf', till)) do
    local tokens, deadlines = {}, {}
    for n = 1, 2 do
      local found = call('ZRANGEBYSCORE', ends_of(q, n), '-inf', till, 'WITHSCORES')
      for i = 1, #found, 2 do tokens[#tokens + 1], deadlines[#tokens + 1] = sub(found[i], %TOKEN_BYTES%), tonum(found[i + 1]) end
    end
    Lease.prefetch(tokens)
    for i = 1, #tokens do
      local p = not seen[tokens[i]] and Lease.load(tokens[i])
      seen[tokens[i]] = true
      if p then
        local lease_duration = p.lease_duration
        if gap * 2 > lease_duration and not (p.map and p.map.sp) then
          p.map = p.map or {}
          p.map.sp = 1
          Lease.save(p)
          Lease.end_at(p, max(deadlines[i], S.now + lease_duration))
          extended = true
        end
        shortest = min(shortest, lease_duration)
        if deadlines[i] > S.now + lease_duration then longer = min(longer or lease_duration, lease_duration) end
      end
    end
  end
  if any_end and not longer then call('HDEL', S.k.pg, '!') elseif any_end then call('HSET', S.k.pg, '!', fmt('%d', longer)) end
  M.lease_duration, M.rest = call('EXISTS', S.k.e) == 1 and shortest or 0, nil
  if extended then M.jumps = M.jumps + 1 end
end

-- What becomes of a job whose lease ran out, and when that was.
local function crash(j, p, ended)
  local e, r = j.ext, Row.of(j.q)
  r.counts[ACTIVE] = r.counts[ACTIVE] - 1
  if j.opts.sh then Share.freed(r, j.opts.sh) end
  if j.opts.li then Named.freed(r, j.opts.li, j.id) end
  e.a, e.s = (e.a or 0) + 1, p.started
  e.c = (e.c or 0) + 1
  Job.add_attempt(j, p, ended, CRASHED)
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

-- Leases and queues that one call examines, to return their jobs.
local TURNS = 250

-- Returns jobs of leases that ran out, a bounded number; how many.
function Lease.rescue(limit)
  local rescued, turns = 0, 0
  while rescued < limit and turns < TURNS do
    Lease.flush()
    local queue = call('ZRANGE', S.k.e, 0, 0, 'WITHSCORES')
    if not queue[1] then
      M.lease_duration, M.rest = 0, nil
      call('HDEL', S.k.pg, '!')
      break
    end
    local token, ends, key, member = first_of(queue[1])
    if token and ends > S.now and ends == tonum(queue[2]) then break end
    local r, p = Row.of(queue[1]), token and ends <= S.now and Lease.load(token)
    turns = turns + 1
    if not token or ends > S.now then
      Lease.schedule(r, ends or 0)
    elseif not p then -- another client deleted its record
      call('ZREM', key, member)
    else
      local ids, places = Lease.rest(p)
      local n = min(#ids, limit - rescued)
      local left = slice(places, 1, n)
      Lease.leave(p, left)
      for i = n, 1, -1 do
        local j = Job.load(ids[i])
        if j then
          crash(j, p, ends)
        elseif not Job.raw(ids[i]) then -- another client deleted its record
          S.lost = true
          if not find(p.q, '\0', 1, true) then
            local r = Row.of(p.q)
            r.counts[ACTIVE] = max(0, r.counts[ACTIVE] - 1)
          end
        end
      end
      rescued = rescued + n
      if n == 0 then Lease.close(p) end
    end
  end
  Lease.flush()
  if rescued >= limit or turns >= TURNS then schedule('ends', S.now) end
  return rescued
end

end
