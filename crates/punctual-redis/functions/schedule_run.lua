-- Runs of schedules: what happens when one moves, when one ends, and on request.
do

local id_of, advance = Schedule.id_of, Schedule.advance

-- Whether a job of that id is there, or a tombstone that counts.
function Schedule.is_known(id)
  local raw = Job.raw(id)
  if not raw or byte(raw) < %TAG_TOMBSTONE% then return raw and true or false end
  local full = Settled.tombstone(id, raw)
  if full and Settled.tombstone_counts(full) then return true end
  Records.delete(id) -- nothing may be stored in its place
  Settled.reuse(id, full)
  return false
end

-- Puts a run among what is to become due, even if it is: the move decides about it.
function Schedule.wait_for_due(r, j)
  if j.opts.sh then Share.waits(r, j.opts.sh, j.id) end
  Due.add(r, j)
  if j.opts.g then Group.waits(r, j.opts.g, Job.seq(j), j.id, true) end
  changed(j.id, j.q, SCHEDULED)
end

-- The instant that a run stands for: its id has it, or its opts where that is another's.
function Schedule.instant(id, o) return o.oc and at8(o.oc) or byte(id, %RUN_LOW_AT%) % 64 * 2 ^ 48 + unp('>I4', id, 11) * 65536 + unp('>I2', id, 15) end

-- The schedule of which a job is the next run, which has not moved yet.
local function pending_of(j)
  if j.ext.a then return nil end
  local one = Schedule.load(j.opts.sc)
  local at = one and one.row.pending
  return at and id_of(one.s, at) == j.id and one or nil
end

local function cancel(j, reason)
  j.ext.cd = reason
  Settled.as(j, CANCELLED)
end

-- Whether the key of a run is the one that its schedule's overlap policy gave it.
local function is_run_key(j) return j.opts.u == 'schedule/' .. j.opts.sc end

-- Whether a run may start, in view of who holds its unique key: 'starts', 'follows' an id, or
-- 'skipped' because of an id. A run that waits for a retry is on its way like an active one.
local function turn(j)
  local o = j.opts
  local holder = o.u and Unique.holder(j.q, o.u)
  if not holder or holder.id == j.id then return 'starts', holder end
  local other = Job.load(holder.id)
  if not other or other.tag > %TAG_HELD% or other.q ~= j.q or other.opts.u ~= o.u then return 'skipped', holder.id end -- a period that outlives its job
  local policy = o.up or 0
  if policy == 0 then return 'skipped', holder.id end
  local p = other.tag < %TAG_HELD% and other.due <= S.now and Lease.of(other) or nil
  if policy > 1 then
    if holder.follower or not p and not other.ext.a then return 'skipped', holder.follower or holder.id end
    return 'follows', holder.id
  end
  if not p then
    Schedule.line_up_gathered()
    Unique.replace(other, holder)
    return 'starts'
  end
  if not is_run_key(j) then return 'skipped', holder.id end -- the user's own key: an active holder stays
  local follower = holder.follower and Job.load(holder.follower)
  if follower then Settled.cancel_waiting(follower, 2) end
  Edit.ask_cancel(other, p)
  return 'follows', holder.id
end

-- Lines a run up, lets it follow the run before, or skips it; whether it is to run.
local function start(j, how, other)
  if not how then how, other = turn(j) end
  local r = Row.of(j.q)
  if how == 'starts' then
    if not other then Unique.take(j) end
    if not Schedule.gather_start(j) then Line.up(r, j) end
    r.counts[READY] = r.counts[READY] + 1
    changed(j.id, j.q, READY)
  elseif how == 'follows' then
    j.tag, j.ext.fo = %TAG_HELD%, other
    Job.save(j)
    Unique.follow(j.q, j.opts.u, j.id)
    Place.put(j)
    notify(r) -- a sleeping worker does not know when what it follows ends by itself
  else
    cancel(j, Schedule.SKIPPED)
    return false
  end
  return true
end

-- A run whose due has come, taken out of the index: it starts, waits, or is passed over; and the
-- next one of its schedule is enqueued.
local function move(j)
  local one = pending_of(j)
  if not one then return start(j) end
  local row = one.row
  local at = row.pending
  row.pending = nil -- its end must not find it pending
  if Schedule.is_missed(one.s, row, j.due, 0) then
    row.missed = row.missed + 1
    cancel(j, Schedule.MISSED)
  elseif one.s.paused then
    row.skipped = row.skipped + 1
    cancel(j, Schedule.SKIPPED)
  elseif start(j) then
    row.fired, row.last = row.fired + 1, at
  else
    row.skipped = row.skipped + 1
  end
  advance(one)
end

-- The same of the runs of a queue that one sweep moves, with a few commands for all. `in_order`:
-- no job due before them was moved with them, so that they may stand in the lists of their lanes.
function Schedule.move(r, runs, in_order)
  Schedule.begin_gathering(r, runs, in_order)
  local ok, answer = pcall(function() for i = 1, #runs do move(runs[i]) end end)
  Schedule.end_gathering()
  if not ok then error(answer) end
end

-- Puts a pending job that is a run where it belongs, after an edit.
function Schedule.put(j)
  local one = j.tag < %TAG_HELD% and pending_of(j)
  if not one then return Place.put(j) end
  Schedule.wait_for_due(Row.of(j.q), j)
  if j.due > S.now and j.is_delayed then -- it goes its own way, and its schedule goes on
    local row = one.row
    row.fired, row.last, row.pending = row.fired + 1, row.pending, nil
    advance(one)
  end
end

-- Pauses a schedule of which a run is dead, if that is wished; the note says why.
local function pause(one, id)
  if one.s.paused or one.s.map.pf ~= 1 then return end
  local map = {}
  for name, value in pairs(one.s.map) do map[name] = value end
  map.pa, map.no = 1, 'run ' .. sub(Text.id(id), 2, -2) .. ' is dead'
  M.version, M.rest = M.version + 1, nil
  one.version = M.version
  one.raw = u8(M.version) .. '\%VALUE_SCHEDULE%' .. mp.pack(map)
  call('HSET', S.k.rec, 'schedule/' .. one.name, one.raw)
  one.s = Schedule.schedule_of(one.name, one.raw)
  if one.s.within then redis.pcall('ZREM', S.k.sx, one.name) end
end

-- A run has ended: if it was the next one, its instant is skipped and the schedule goes on.
function Schedule.settled(j, state)
  local one = pending_of(j)
  if one then
    local row = one.row
    row.pending, row.skipped = nil, row.skipped + 1
    advance(one)
  end
  if state ~= COMPLETED and (state ~= DEAD or j.ext.dr == 3) then return end
  one = Schedule.load(j.opts.sc)
  if one and state == COMPLETED then return Schedule.keep_successes({{j.id, j.opts, j.ext.re}}) end
  if one then pause(one, j.id) end
end

-- The schedule of which the next run waits in a queue, of its first jobs; to say why it cannot be
-- deleted.
function Schedule.of_queue(r)
  local ids = {}
  for i, member in ipairs(call('ZRANGE', S.base .. ':n:' .. r.name, 0, 99)) do ids[i] = sub(member, %DUE_ENTRY_ID%) end
  if r.cold > 0 then
    for _, found in ipairs(Due.cold_page(r, nil, 100)) do ids[#ids + 1] = found[1] end
  end
  for _, id in ipairs(ids) do
    local j = Job.load(id)
    if j and j.opts.sc and pending_of(j) then return j.opts.sc end
  end
end

-- How a schedule stands, as `control` answers it.
local SHOWN = 16
local function status(one)
  local s, row = one.s, one.row
  local left = s.most and max(0, s.most - row.fired) or SHOWN
  local instants, last = {}, nil
  if row.pending then instants[1], last = u8(row.pending), row.pending end
  if s.sums then
    local at = row.ahead[1] or not row.complete and Schedule.next_sum(s, row.searched) or nil
    while at and #instants < SHOWN do
      instants[#instants + 1] = u8(at)
      at = Schedule.next_sum(s, at + 1)
    end
  else
    for from = 8 * row.used + 1, #row.list - 7, 8 do
      if #instants < SHOWN then instants[#instants + 1] = sub(row.list, from, from + 7) end
    end
    if 8 * row.used < #row.list then last = at8(row.list, #row.list - 7) end
  end
  local ended = Schedule.has_ended(row)
  local from, success = Schedule.success_of(one.name)
  local by = Schedule.expected_by(one, from)
  for i = #instants, min(left, SHOWN) + 1, -1 do instants[i] = nil end
  return {
    na = one.name, ve = one.version, v = sub(one.raw, %VALUE_KIND_AT%), pe = row.pending and id_of(s, row.pending) or nil, ne = concat(instants),
    lu = not s.sums and not row.complete and last and u8(last) or nil, dr = not row.pending and not ended and 1 or nil, en = ended and 1 or nil,
    fi = row.fired, sk = row.skipped, mi = row.missed, la = row.last and u8(row.last) or nil, li = row.last and id_of(s, row.last) or nil, tz = row.tz,
    su = #success >= 16 and success or nil, ov = by and by < S.now and u8(by) or nil,
  }
end

local function missing(name)
  refuse('not_found', 'there is no such schedule; `schedules list` shows all (schedule: ' .. Check.shown(name, %NAME_BYTES_MAX%) .. ')')
end

-- A run beside those that are to come; its instant is that of the call. Verdict and ids.
local function run_now(one)
  local s, at = one.s, S.now
  local id = id_of(s, at)
  while Schedule.is_known(id) do
    at = at + 1
    id = id_of(s, at)
  end
  local j = Job.parse(id, '\%TAG_PLAIN%' .. u8(S.now) .. S.sub .. u8(S.now) .. s.job)
  local how, other = turn(j)
  if how == 'skipped' then return {id, 2, u8(S.now), other} end
  note(Row.of(j.q), 1, 1)
  Job.save(j)
  start(j, how, other)
  return {id, 0, u8(S.now)}
end

-- The job of a schedule without the unique key that its overlap policy gave it.
local function without_key(one)
  local job = one.s.job
  local j = Job.parse(BELOW .. BELOW, '\%TAG_PLAIN%' .. BELOW .. '\0\0' .. BELOW .. job)
  if not is_run_key(j) or floor((one.s.map.ow or 0) % 2) == 1 then return job end
  j.opts.u, j.opts.up, j.opts.uh = nil, nil, nil
  local front = sub(job, %SPEC_FRONT%) .. char(#j.q) .. j.q
  local kind = j.kind ~= j.q and j.kind or ''
  local opts = mp.pack(j.opts)
  return front .. char(#kind) .. kind .. pack('>I4', #opts) .. opts .. sub(job, #job - j.payload + 1)
end

-- The run of a past instant, which no other run stands in the way of: one that never started has
-- its turn now.
local function backfill(one, at, job)
  local id = id_of(one.s, at)
  local j = Job.load(id)
  if j and j.tag == %TAG_CANCELLED% and (j.ext.cd == Schedule.SKIPPED or j.ext.cd == Schedule.MISSED) then
    Settled.unkeep(j)
    Job.drop(id)
  end
  local verdict, due8, _, other = Enqueue.one(id, u8(S.now), false, job, false)
  if verdict == 4 then verdict = 1 end
  return {id, verdict, due8, other}
end

local ACTS = {
  [%SCHEDULE_READ%] = function(one) return one and {s = status(one)} or {} end,
  [%SCHEDULE_RUN%] = function(one) return {r = {run_now(one)}} end,
  [%SCHEDULE_SKIP%] = function(one)
    local at = one.row.pending
    local j = at and Job.load(id_of(one.s, at))
    if not j then refuse('conflict', 'schedule has no run to come (schedule: ' .. Check.shown(one.name, %NAME_BYTES_MAX%) .. ')') end
    Settled.cancel_waiting(j, Schedule.SKIPPED)
    return {s = status(one)}
  end,
  [%SCHEDULE_BACKFILL%] = function(one, map)
    local out, job = {}, without_key(one)
    for i = 1, #map.at - 7, 8 do out[#out + 1] = backfill(one, at8(map.at, i), job) end
    return {r = out}
  end,
  [%SCHEDULE_RESTORE%] = function(one, map)
    Schedule.restore(one.name, map.su)
    return {s = status(one)}
  end,
}

-- What is asked of a schedule.
function Schedule.act(map)
  local one = Schedule.load(map.na)
  if not one and map.ac > %SCHEDULE_READ% then missing(map.na) end
  return ACTS[map.ac](one, map)
end

-- Schedules by name behind one, as many as their bytes allow.
local LISTED_BYTES = 1048576
function Schedule.list(map)
  local limit = min(Inspect.limit(map.li or 100, true), 1000)
  local names, out, bytes = call('ZRANGEBYLEX', S.k.sn, map.af and map.af ~= '' and '(' .. map.af or '-', '+', 'LIMIT', 0, limit), {}, 0
  local last = nil
  for _, name in ipairs(names) do
    if bytes > LISTED_BYTES then break end
    local one = Schedule.load(name)
    last = name
    if one then
      out[#out + 1] = status(one)
      bytes = bytes + #one.raw + 256
    else -- another client deleted its record, or put rubbish there
      S.lost, out[#out + 1] = true, {na = name}
    end
  end
  return {l = out, mo = last and (last ~= names[#names] or #names == limit) and last or nil}
end

-- How many there are.
function Schedule.count() return {c = call('ZCOUNT', S.k.sn, '-inf', '+inf')} end

end
