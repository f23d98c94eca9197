-- Leases. `BASE:pg`: token 16 to a page that never changes (worker 16 | started 8 | lease_duration 8 | lo 8 |
-- hi 8 | flags 1 | n 2 | qlen 2, queues NUL between | ids | [runs]); '~' + token to what changes (mp: d which
-- have left, c cancel requested, ls lease_duration, sp spared); 'n' + worker + nonce to its tokens.
-- `BASE:e`: ends; members lo 8 | hi 8 | token | queues, the earliest and latest due inside, so that a job
-- in hand finds its page though nothing was written to it.
do

local ALONE, PLAIN, IN_SHEAVES = 1, 2, 4

local function page_member(p) return p.lo .. p.hi .. p.token .. p.q end

-- The first queue of a page's bytes.
function Page.queue_of(blob)
  local q = sub(blob, 54, 53 + unp('>I2', blob, 52))
  local nul = find(q, '\0', 1, true)
  return nul and sub(q, 1, nul - 1) or q
end

-- Fields of `BASE:pg` that a call is to ask for, read at once; by field, false where there is none.
function Page.fetch(base, fields)
  local found, out = get_many(base .. ':pg', fields), {}
  for i = 1, #fields do out[fields[i]] = found[i] end
  return out
end

-- Writes the pages that were opened and closed in this call so far.
function Page.flush()
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

-- Reads the pages of leases (members of `BASE:e` with their ends) before they are loaded: one command for all of them.
function Page.look_ahead(ends)
  local fields, pages, fetched = {}, S.pages or {}, S.fetched or {}
  for i = 1, #ends, 2 do
    local token = sub(ends[i], 17, 32)
    if pages[token] == nil and fetched[token] == nil then fields[#fields + 1], fields[#fields + 2] = token, '~' .. token end
  end
  if #fields == 0 then return end
  Page.flush()
  for field, value in pairs(Page.fetch(S.base, fields)) do fetched[field] = value end
  S.fetched = fetched
end

-- A page by its token; nil if it is no lease (any more).
function Page.load(token)
  local known = S.pages and S.pages[token]
  if known ~= nil then return known or nil end
  S.pages = S.pages or {}
  local pg = S.fetched
  local blob, changes
  if pg and pg[token] ~= nil then
    blob, changes = pg[token], pg['~' .. token]
  else
    Page.flush()
    local found = call('HMGET', S.k.pg, token, '~' .. token)
    blob, changes = found[1], found[2]
  end
  if not blob then
    S.pages[token] = false
    return nil
  end
  local p = {token = token, blob = blob, worker = sub(blob, 1, 16), lo = sub(blob, 33, 40), hi = sub(blob, 41, 48)}
  local flags, n, ql
  p.started, p.lease_duration = unp('>I8I8', blob, 17)
  flags, n, ql = unp('>BI2I2', blob, 49)
  p.alone, p.plain, p.n = flags % 2 == 1, flags >= PLAIN, n
  p.q, p.at = sub(blob, 54, 53 + ql), 54 + ql
  p.runs = flags >= IN_SHEAVES and sub(blob, p.at + 16 * n) or nil
  p.saved = changes and true
  p.map = changes and mp.unpack(changes) or nil
  p.lease_duration = p.map and p.map.ls or p.lease_duration
  p.spoilt = p.map and p.map.lo == 1
  S.pages[token] = p
  return p
end

function Page.save(p)
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
function Page.place(p, id, hint)
  local i, at = hint, p.at
  if not (i and i <= p.n and sub(p.blob, at + 16 * i - 16, at + 16 * i - 1) == id) then
    i = hint and place_from(p, id, hint) or place_from(p, id, 1)
  end
  if i and (p.map and p.map.d and byte(p.map.d, i) == 49 or p.gone and p.gone[i]) then return nil end
  return i
end

-- How many ids from the k-th on, at most so many, stand one after the other from a place on where the k-th is. They are
-- compared some at once: every string that is cut out is hashed.
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

-- Where in a page n ids stand, if they are told in its order and none of them has left: places in a row, as first and
-- count by turns.
function Page.runs_of(p, ids, n)
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
function Page.runs_at(places)
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
function Page.rest(p)
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
function Page.left(p)
  local d = p.map and p.map.d
  return d and p.n - select(2, d:gsub('1', '')) or p.n
end

local function nonce_field(p) return 'n' .. p.worker .. sub(p.token, 9) end

function Page.close(p)
  local gone, closed = S.gone_fields or {}, S.closed or {}
  local n = #gone
  gone[n + 1], gone[n + 2] = p.token, nonce_field(p)
  if p.saved then gone[n + 3] = '~' .. p.token end
  closed[#closed + 1] = page_member(p)
  S.gone_fields, S.closed = gone, closed
  S.pages[p.token] = false
  if p.alone then ring(Row.of(Page.queue_of(p.blob))) end -- its worker may be given other jobs again
  S.ends = nil
end

-- Closes a page of one queue that nothing was written to since it was opened, by its bytes.
function Page.close_plain(token, blob, q)
  local gone, closed, pages = S.gone_fields or {}, S.closed or {}, S.pages or {}
  local n = #gone
  gone[n + 1], gone[n + 2] = token, 'n' .. sub(blob, 1, 16) .. sub(token, 9)
  closed[#closed + 1] = sub(blob, 33, 48) .. token .. q
  pages[token] = false
  S.gone_fields, S.closed, S.pages, S.ends = gone, closed, pages, nil
end

-- A string of '0' and '1' with runs of places set to '1'.
function Page.mark_runs(d, runs)
  local out, from = {}, 1
  for k = 1, #runs, 2 do
    out[k], out[k + 1] = sub(d, from, runs[k] - 1), rep('1', runs[k + 1])
    from = runs[k] + runs[k + 1]
  end
  return concat(out) .. sub(d, from)
end

-- Jobs leave their page, by runs of places; it goes with its last one.
function Page.leave_runs(p, runs)
  if runs[2] == p.n then return Page.close(p) end
  p.map = p.map or {}
  local d = Page.mark_runs(p.map.d or rep('0', p.n), runs)
  if not find(d, '0', 1, true) then return Page.close(p) end
  p.map.d = d
  Page.save(p)
end

-- Jobs leave their page, by place.
function Page.leave(p, places) Page.leave_runs(p, Page.runs_at(places)) end

-- Something was written to a job of the page: its records must be looked at from now on.
function Page.spoil(p)
  if not p.plain or (p.map and p.map.lo) then return end
  p.map = p.map or {}
  p.map.lo, p.spoilt = 1, true
  Page.save(p)
end

-- The cancel of an active job is requested.
function Page.ask_cancel(p, id)
  p.map = p.map or {}
  p.map.c = p.map.c or {}
  p.map.c[#p.map.c + 1] = id
  p.map.lo, p.spoilt = 1, true
  Page.save(p)
end

-- A job leaves its page now, and is written as gone with the others of this call.
function Page.depart(p, place)
  if not p.gone then
    p.gone, p.departed = {}, {}
    S.departing = S.departing or {}
    S.departing[p] = true
  end
  p.gone[place] = true
  p.departed[#p.departed + 1] = place
end

-- Writes what departed; before anything that reads the page anew.
function Page.settle_departed(p)
  local places = p.departed
  p.gone, p.departed = nil, nil
  if places then
    S.departing[p] = nil
    Page.leave(p, places)
  end
end

-- The same of pages whose settle broke off.
function Page.settle_all_departed()
  local pages = S.departing
  S.departing = nil
  for p in pairs(pages) do
    local places = p.departed
    p.gone, p.departed = nil, nil
    if places and S.pages[p.token] then Page.leave(p, places) end
  end
end

-- Opens a page over ids, a string of n of them; plain if every job is, and all of one queue; `runs` if all are in sheaves.
function Page.open(token, worker, lease_duration, ids, n, lo, hi, alone, q, plain, runs)
  local now, member = S.now, lo .. hi .. token .. q
  local flags = (alone and ALONE or 0) + (plain and PLAIN or 0) + (runs and IN_SHEAVES or 0)
  local blob = worker .. pack('>I8I8', now, lease_duration) .. lo .. hi .. pack('>BI2I2', flags, n, #q) .. q .. ids .. (runs or '')
  local opened, ends = S.opened or {}, S.opened_ends or {}
  local k = #opened
  opened[k + 1], opened[k + 2], opened[k + 3], opened[k + 4] = token, blob, 'n' .. worker .. sub(token, 9), token
  k = #ends
  ends[k + 1], ends[k + 2] = fmt('%d', now + lease_duration), member
  S.opened, S.opened_ends = opened, ends
  duty_at('ends', now + lease_duration)
  if M.lease_duration == 0 or lease_duration < M.lease_duration then M.lease_duration, M.rest = lease_duration, nil end
  S.ends = nil
end

-- Every lease: members and ends, by end.
local function all_ends()
  if not S.ends then
    Page.flush()
    S.ends = call('ZRANGE', S.k.e, 0, -1, 'WITHSCORES')
  end
  return S.ends
end

-- The earliest end of a lease with jobs of one of these queues; nil if there is none.
function Page.first_end(rows)
  local wanted, any, start = {}, false, 0
  for _, r in ipairs(rows) do
    if r.c[ACTIVE] > 0 then wanted[r.name], any = true, true end
  end
  local size = 1 -- the first one will do, most often
  if any then Page.flush() end
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

function Page.deadline(p)
  Page.flush()
  return tonum(call('ZSCORE', S.k.e, page_member(p)) or 0)
end

-- The page that holds a waiting job, and its place; nil if it is not active.
function Page.of(j)
  local ends, due, may = all_ends(), j.due, {}
  for i = 1, #ends, 2 do
    local lo, hi = unp('>I8I8', ends[i])
    if lo <= due and hi >= due then may[#may + 1], may[#may + 2] = ends[i], ends[i + 1] end
  end
  Page.look_ahead(may)
  for i = 1, #may, 2 do
    local p = Page.load(sub(may[i], 17, 32))
    local place = p and Page.place(p, j.id)
    if place then
      p.deadline = tonum(may[i + 1])
      return p, place
    end
  end
end

-- The lease of a page ends then.
function Page.end_at(p, deadline)
  Page.flush()
  call('ZADD', S.k.e, fmt('%d', deadline), page_member(p))
  duty_at('ends', deadline)
  S.ends = nil
end

-- Nobody could extend while the engine answered nobody: each such page gets one more lease, once.
function Page.spare(gap)
  local ends, spared, shortest = all_ends(), false, 0
  Page.look_ahead(ends)
  for i = 1, #ends, 2 do
    local p = Page.load(sub(ends[i], 17, 32))
    if p then
      if gap * 2 > p.lease_duration and not (p.map and p.map.sp) then
        p.map = p.map or {}
        p.map.sp = 1
        Page.save(p)
        Page.end_at(p, max(tonum(ends[i + 1]), S.now + p.lease_duration))
        spared = true
      end
      if shortest == 0 or p.lease_duration < shortest then shortest = p.lease_duration end
    end
  end
  M.lease_duration, M.rest = shortest, nil
  if spared then M.jumps = M.jumps + 1 end
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
  Page.return_to_front(j)
end

-- Makes a job that was active, and has left its page, ready at the front of its line.
function Page.return_to_front(j)
  j.tag = 2
  j.ext.fr = 1
  Job.save(j)
  if j.opts.g then Group.ended(Row.of(j.q), j, false) end
  Place.put(j)
end

-- Returns jobs of leases that ran out, a bounded number; how many.
function Page.rescue(limit)
  local rescued = 0
  while rescued < limit do
    Page.flush()
    local first = call('ZRANGE', S.k.e, 0, 0, 'WITHSCORES')
    if not first[1] then
      M.lease_duration, M.rest = 0, nil
      break
    end
    if tonum(first[2]) > S.now then
      duty_at('ends', tonum(first[2]))
      break
    end
    local p = Page.load(sub(first[1], 17, 32))
    if not p then
      call('ZREM', S.k.e, first[1])
    else
      local ids, places = Page.rest(p)
      local n = min(#ids, limit - rescued)
      local left = slice(places, 1, n)
      Page.leave(p, left)
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
      if n == 0 then Page.close(p) end
    end
  end
  Page.flush()
  if rescued >= limit then duty_at('ends', S.now) end
  return rescued
end

end
