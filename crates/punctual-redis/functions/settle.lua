-- settle: how the attempts of leased jobs ended.
do

local OUTCOMES = {[0] = 'completed', 'retry', 'snooze', 'cancelled', 'dead', 'released', 'hold'}
-- What a settlement has, by the byte that says it: 1 span, 2 result, 4 error, 8 stopped, 16
-- effects, 32 lines to log, 64 names, 128 a guard.
local HAS = {}
for has = 0, 255 do
  local function bit(n) return has % (2 * n) >= n end
  HAS[has] = {span = bit(%HAS_SPAN%), result = bit(%HAS_RESULT%), error = bit(%HAS_ERROR%), stopped = bit(%HAS_STOPPED%), effects = bit(%HAS_EFFECTS%), log = bit(%HAS_LOG%), names = bit(%HAS_NAMES%), guard = bit(%HAS_GUARD%)}
end
local NUMBERS = {retry = 1, snooze = 2, cancelled = 3, dead = 4, released = 5, hold = 7}

-- A linked job of an effect: length 4 | link | job. Answers the link and the job.
local function read_linked(bytes, index)
  local job = 5 + unp('>I4', bytes)
  return Flow.read_sent(sub(bytes, 5, job - 1), 1, index), sub(bytes, job)
end

-- Refuses an effect that could not be caused.
local function check_effect(kind, bytes, index)
  if kind == %EFFECT_JOB% then return Check.job(bytes, index) end
  if kind == %EFFECT_LINKED% then
    local _, job = read_linked(bytes, index)
    return Check.job(job, index)
  end
  if kind == %EFFECT_CLEAR% or kind == %EFFECT_CLEAR_ANYWHERE% then return Check.clear(bytes, index) end
  if kind == %EFFECT_CANCEL% then return Check.cancel(bytes, index) end
  if kind == %EFFECT_SIGNAL% then return Check.signal(sub(bytes, 2), index) end
  if kind ~= %EFFECT_POST% then refuse('invalid_input', 'no such effect; use 0 to 6 index=' .. index) end
  local length = byte(bytes) or 0
  Check.shard(sub(bytes, 2, 1 + length))
  Check.job(sub(bytes, 2 + length), index)
end

-- Reads what the ends of n jobs touch: expire 1 | with keys 1 | unless that is 0, per job len 2 and
-- its key, none if it has none. Answers whether some may expire, the keys by place, and where it
-- ends.
local function read_holds(blob, at, n)
  local expire, with_keys = unp('>BB', blob, at)
  local keys
  at = at + 2
  if with_keys > 0 then
    keys = {}
    for i = 1, n do
      local length = unp('>I2', blob, at)
      if length > 0 then keys[i] = sub(blob, at + 2, at + 1 + length) end
      at = at + 2 + length
    end
  end
  return expire > 0, keys, at
end

-- Reads the call before anything is changed.
local function read_leases(blob)
  local count, at, leases, jobs, more, last_error = unp('>I2', blob, %LEASES_COUNT_AT%), %LEASES_AT%, {}, 0, 0, nil
  Check.count(count)
  for k = 1, count do
    local p = {token = sub(blob, at, at + 15), late = at + 16}
    p.run = p.late + 2 + 6 * unp('>I2', blob, p.late)
    at = p.run + 2 + 6 * unp('>I2', blob, p.run)
    p.has_times = at > p.late + 4
    local form = unp('>B', blob, at)
    at = at + 1
    if form > %FORM_HOLDS% then refuse('invalid_input', 'no such form of a settlement; use 1 to 6') end
    if form == %FORM_COMPLETED% or form >= %FORM_CORES% then
      p.attempt, p.n = unp('>I4I2', blob, at)
      local bytes = 16 * p.n
      p.ids = sub(blob, at + 6, at + 5 + bytes)
      at = at + 6 + bytes
      if form == %FORM_CORES% or form >= %FORM_CORES_KINDS% then
        p.cores = sub(blob, at, at + bytes - 1)
        at = at + bytes
      end
      if form >= %FORM_KINDS% then
        p.kinds, at = Ends.read_kinds(blob, at, p.n)
        if not at then error('kinds are of other jobs') end
      end
      if form == %FORM_HOLDS% then p.expire, p.keys, at = read_holds(blob, at, p.n) end
    elseif form ~= %FORM_EACH% then
      refuse('invalid_input', 'no such form of a settlement; use 1 to 6')
    else
      p.n = unp('>I2', blob, at)
      at = at + 2
      p.items = {}
      for i = 1, p.n do
        local id, attempt_, outcome, has = unp('>c16I4BB', blob, at)
        local s = {id = id, attempt = attempt_, outcome = OUTCOMES[outcome], span8 = nil, result = nil, error = nil} -- room for all
        if not s.outcome then refuse('invalid_input', 'no such outcome index=' .. jobs + i - 1) end
        local is = HAS[has]
        if not is then refuse('invalid_input', 'a settlement says more than it may index=' .. jobs + i - 1) end
        at = at + 22
        if is.span then
          s.span8 = sub(blob, at, at + 7)
          if s.outcome ~= 'completed' and unp('>I8', s.span8) + S.now > %INSTANT_MAX_US% then
            refuse('invalid_delay', 'span reaches beyond the year 9999 index=' .. jobs + i - 1)
          end
          at = at + 8
        end
        if is.result then
          local length = unp('>I4', blob, at)
          s.result, at = sub(blob, at + 4, at + 3 + length), at + 4 + length
        end
        if is.error then
          local length = unp('>I4', blob, at)
          s.error, at = sub(blob, at + 4, at + 3 + length), at + 4 + length
          if s.error ~= last_error and not Check.is_utf8(s.error) then refuse('invalid_input', 'error is no UTF-8; send text index=' .. jobs + i - 1) end
          last_error = s.error
        end
        if is.stopped then
          s.stopped, at = unp('>B', blob, at)
          if s.stopped > 3 then refuse('invalid_input', 'stopped is out of range; use 0 to 3 index=' .. jobs + i - 1) end
        end
        if is.effects then
          local n = unp('>I2', blob, at)
          s.effects, at, more = {}, at + 2, more + n
          Check.count(jobs + p.n + more)
          for e = 1, n do
            local kind, length = unp('>BI4', blob, at)
            s.effects[e], at = {kind, sub(blob, at + 5, at + 4 + length)}, at + 5 + length
            check_effect(kind, s.effects[e][2], jobs + i - 1)
          end
        end
        if is.log then
          local length = unp('>I4', blob, at)
          s.log, at = Check.lines(sub(blob, at + 4, at + 3 + length)), at + 4 + length
        end
        if is.names then
          local length = unp('>I4', blob, at)
          s.names, at = Check.names(sub(blob, at + 4, at + 3 + length)), at + 4 + length
        end
        if is.guard then
          local length = unp('>B', blob, at)
          s.guard = {Check.name('record', sub(blob, at + 1, at + length)), unp('>I8', blob, at + 1 + length)}
          at = at + 9 + length
          s.effects = s.effects or {} -- it is not settled together with others
        end
        if s.outcome == 'hold' and not (s.names and s.span8) then refuse('invalid_input', 'a hold has no names or no limit index=' .. jobs + i - 1) end
        p.items[i] = s
      end
    end
    if at > #blob + 1 then error('it ends within a lease') end
    jobs = jobs + p.n
    Check.count(jobs + more)
    leases[k] = p
  end
  return leases
end

-- Whether a settlement is one that was taken before.
local function is_repeated(id, raw, token, attempt)
  raw = raw and byte(raw) == %TAG_TOMBSTONE_REF% and Settled.tombstone(id, raw) or raw
  if not raw then return false end
  if byte(raw) >= %TAG_TOMBSTONE% then
    return Settled.tombstone_counts(raw) and unp('>I4', raw, %TOMB_ATTEMPT%) == attempt and sub(raw, %TOMB_TOKEN%) == sub(token, %TOKEN_SEAL%)
  end
  local e = Job.parse('', raw).ext
  return e.sa == attempt and e.sk == sub(token, %TOKEN_SEAL%)
end

-- Leaves tombstones of the plain jobs of a lease that completed: n ids as a list and a string;
-- `cores`, due and hash of each, if the caller sent them; `results` if there are any. Answers the
-- records, if it had to read them.
local function tombstone_plain(p, ids, n, all, cores, results)
  local records
  if not cores or p.runs then
    records = Job.raws(ids)
    local read = {}
    for i = 1, n do read[i] = records[i] and sub(records[i], %REC_CORE%) or rep('\0', 16) end -- deleted meanwhile
    cores = concat(read)
    for i = 1, n do Bundle.leave(ids[i]) end
  end
  if n >= 8 and not results and Settled.has_block() then
    Settled.tombstone_many(ids, n, all, cores, 1, p.token)
  else
    local kv, bytes = {}, 0
    local finish = char(COMPLETED) .. u8(S.now) .. '\0\0\0\1' .. sub(p.token, %TOKEN_SEAL%)
    for i = 1, n do
      kv[2 * i - 1] = ids[i]
      local result = results and results[i] or ''
      kv[2 * i], bytes = '\%TAG_TOMBSTONE%' .. sub(cores, 16 * i - 15, 16 * i) .. finish .. result, bytes + #result
    end
    Records.set_many(kv)
    Settled.tombstones(S.now, all, n, nil, bytes)
  end
  return records
end

-- Counts and reports what plain jobs of a lease completed: ids as a list and a string, and their
-- kinds.
local function completed_plain(p, ids, n, all, kinds)
  local r = Row.of(p.q)
  r.counts[ACTIVE] = r.counts[ACTIVE] - n
  note(r, 3, n)
  Ends.completed(r, all, n, kinds)
  if M.watch >= S.now then
    S.settled = S.settled or {}
    for i = 1, n do S.settled[#S.settled + 1] = ids[i] end
  end
  if M.feed >= S.now then
    for i = 1, n do changed(ids[i], p.q, COMPLETED) end
  end
end

-- Frees what jobs of a lease held that completed: the keys that the call names, as far as these
-- jobs hold them, and their places among those that expire.
local function let_go(p, report, ids)
  local keys, n = report.keys, 0
  if keys then
    local list = {r = Row.of(p.q), fields = {}, holders = {}}
    for i = 1, report.n do
      if keys[i] then
        n = n + 1
        list.fields[n], list.holders[n] = p.q .. '\0' .. keys[i], ids[i]
      end
    end
    Unique.free_many(list)
  end
  if report.expire then call_many('ZREM', S.k.xp, ids) end
end

-- A whole lease of jobs that are plain, or as they were sent, or a part of it, completed without
-- anything to say.
local function settle_plain(p, report)
  local n, sent = report.n, report.ids
  Shard.may_count(Row.of(p.q))
  local ids, runs = {}, Lease.runs_of(p, sent, n)
  if not runs or not p.runs or M.watch >= S.now or M.feed >= S.now then
    ids = cut_ids(sent, 1, n)
  end
  if not runs then
    local places, hint, seen = {}, 1, {}
    for i = 1, n do
      local place = Lease.place(p, ids[i], hint)
      if not place or seen[place] then return false end
      places[i], seen[place], hint = place, true, place + 1
    end
    runs = Lease.runs_at(places)
  end
  local kinds = report.kinds or (p.runs or report.cores) and Ends.kinds(sent, n)
  if p.sent then
    Shard.may_all()
    let_go(p, report, ids)
  end
  if p.runs then
    Bundle.complete(p, runs)
  else
    local records = tombstone_plain(p, ids, n, sent, report.cores)
    kinds = kinds or Ends.kinds(sent, n, records)
  end
  completed_plain(p, ids, n, sent, kinds)
  if p.keyed then
    local shares, groups, members = Lease.keyed_of(p, runs)
    if shares[1] then Share.freed_many(Row.of(p.q), shares) end
    if groups[1] then Group.settled_many(Row.of(p.q), groups, members) end
  end
  if p.steps then Flow.settled_many(ids, {}, COMPLETED) end
  Lease.leave_runs(p, runs)
  return true
end

-- Brings one effect about, here or by the outbox; answers its verdict and an id. `bounded`: a full
-- queue may refuse its job.
local function bring_about(token, effect, bounded)
  local kind, bytes = effect[1], effect[2]
  if kind == %EFFECT_JOB% or kind == %EFFECT_LINKED% then
    local sent
    if kind > 0 then sent, bytes = read_linked(bytes, 0) end
    local verdict, _, _, other = Enqueue.effect(bytes, sent, bounded)
    return char(verdict) .. (other or '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0')
  elseif kind == %EFFECT_POST% then
    local length = byte(bytes)
    return '\%VERDICT_POSTED%' .. Outbox.post(token, sub(bytes, 2, 1 + length), bounded and Outbox.BOUNDED or 0, sub(bytes, 2 + length))
  elseif kind == %EFFECT_CANCEL% then
    if not Settle.cancel(sub(bytes, 2)) and byte(bytes) == 1 then return '\%VERDICT_POSTED%' .. Outbox.post(token, '*', Outbox.CANCEL, sub(bytes, 2)) end
    return Settle.CLEARED
  elseif kind == %EFFECT_SIGNAL% then
    if not Settle.signal(sub(bytes, 2)) and byte(bytes) == 1 then return '\%VERDICT_POSTED%' .. Outbox.post(token, '*', Outbox.SIGNAL, sub(bytes, 2)) end
    return Settle.CLEARED
  end
  local id, name = sub(bytes, %ID_BYTES%), sub(bytes, %CLEAR_NAME_AT%)
  if Settle.clear(id, name) then return Settle.CLEARED end
  if kind == %EFFECT_CLEAR_ANYWHERE% then return '\%VERDICT_POSTED%' .. Outbox.post(token, '*', 1, bytes) end
  Settle.keep_clear(id, name)
  return Settle.CLEARED
end

Settle.check_effect, Settle.bring_about = check_effect, bring_about

local function end_attempt(j, p, s)
  local e, r = j.ext, Row.of(j.q)
  r.counts[ACTIVE] = r.counts[ACTIVE] - 1
  if j.opts.sh then Share.freed(r, j.opts.sh) end
  if j.opts.li then Named.freed(r, j.opts.li, j.id) end
  e.a, e.s = s.attempt, p.started
  e.sa, e.sk = s.attempt, sub(p.token, %TOKEN_SEAL%)
  if s.error then e.er = s.error end
  if s.log then Job.log(j, s.attempt, s.log) end
  local outcome = s.outcome
  if outcome ~= 'completed' then Job.add_attempt(j, p, S.now, NUMBERS[outcome], s.error) end
  local failed = outcome == 'retry' or outcome == 'dead'
  if failed then
    e.f = (e.f or 0) + 1
    note(r, 4, 1)
  end
  if outcome == 'completed' then
    e.re = s.result
    return Settled.as(j, COMPLETED)
  elseif outcome == 'cancelled' then
    e.cd = 0
    e.sp = s.stopped or (e.cr and 1) or nil
    return Settled.as(j, CANCELLED)
  elseif outcome == 'dead' then
    e.dr = 1
    return Settled.as(j, DEAD)
  end
  if e.cr then
    e.cd, e.sp = 0, s.stopped or 1
    return Settled.as(j, CANCELLED)
  end
  if failed and e.f >= (j.opts.ma or %MAX_ATTEMPTS_DEFAULT%) then
    e.dr = 0
    return Settled.as(j, DEAD)
  end
  if Job.has_expired(j) then
    e.cd = 1
    return Settled.as(j, CANCELLED)
  end
  if outcome == 'hold' then return Settle.hold(j, s.names, s.span8) end
  if outcome == 'released' then return Lease.return_to_front(j) end
  if not e.rd then e.rd = j.due8 end
  if s.span8 then
    j.due8 = Enqueue.plus(S.now, s.span8)
  else
    j.due8 = u8(S.now + Retry.span(j.opts.rt, j.id, e.f) * 1000)
  end
  j.due = unp('>I8', j.due8)
  j.tag, e.fr = %TAG_WAITING%, nil
  Job.save(j)
  if j.opts.g then Group.ended(r, j, not j.opts.gp) end
  Place.put(j)
end

-- The bytes of one verdict that was taken: the state after its effects, and their verdicts.
local function verdict_of(j, effects)
  local now_is, state, due8 = j, j.tag, BELOW
  if #effects > 0 then -- they may have ended it, as a replaced job or one too many
    local raw = Job.raw(j.id)
    local tombstone = raw and byte(raw) >= %TAG_TOMBSTONE% and Settled.tombstone(j.id, raw)
    if tombstone then state = byte(tombstone, %TOMB_STATE%) % %TOMB_LATE%
    elseif raw and byte(raw) < %TAG_TOMBSTONE% then now_is = Job.parse(j.id, raw) end
    if now_is.tag > %TAG_HELD% then state = now_is.tag end
  end
  if now_is.tag <= %TAG_HELD% and state <= ACTIVE then
    state = now_is.tag == %TAG_HELD% and HELD or now_is.due > S.now and SCHEDULED or READY
    due8 = now_is.due8
  end
  local out = {'\0' .. char(state) .. due8 .. pack('>I2', #effects)}
  for i = 1, #effects do out[i + 1] = effects[i] end
  return concat(out)
end

-- Settles one job of a lease with all that can be said of it.
local function settle_one(p, s, raw)
  local place = p and Lease.place(p, s.id)
  local j = place and raw and byte(raw) < %TAG_HELD% and Job.parse(s.id, raw)
  if not j or (j.ext.a or 0) + 1 ~= s.attempt then
    return is_repeated(s.id, raw, p and p.token or s.token, s.attempt) and '\1' or '\2'
  end
  local version = s.guard and Settle.guard_conflict(s.guard)
  if version then return '\3' .. u8(version) end
  for _, effect in ipairs(s.effects or {}) do -- a queue whose keys are not ours is refused before anything is changed
    if effect[1] == %EFFECT_JOB% then Row.of(sub(effect[2], %EFFECT_NAME_AT%, %EFFECT_QUEUE_AT% + (byte(effect[2], %EFFECT_QUEUE_AT%) or 0))) end
  end
  Lease.depart(p, place)
  end_attempt(j, p, s)
  local effects, cleared = {}, {}
  if s.effects and #s.effects > 1 then cleared = Settle.clear_together(s.effects) end
  for i, effect in ipairs(s.effects or {}) do
    if S.cleared and not cleared[i] then Settle.release() end
    effects[i] = cleared[i] and Settle.CLEARED or bring_about(p.token, effect)
  end
  return verdict_of(j, effects)
end

-- The items of a report, of which forms 1 and 3 to 6 have only the ids.
local function items_of(report)
  if report.items then return report.items end
  local items = {}
  for i = 1, report.n do
    items[i] = {id = sub(report.ids, 16 * i - 15, 16 * i), attempt = report.attempt, outcome = 'completed'}
  end
  return items
end

-- Settles those items of a plain lease together that completed; puts their verdicts in `out`, and
-- answers the queue.
local function complete_plain(p, items, out)
  local ids, places, results, hint, seen = {}, {}, {}, 1, {}
  for i, s in ipairs(items) do
    if s.outcome == 'completed' and s.attempt == 1 and not s.effects and not s.error and not s.log then
      local place = Lease.place(p, s.id, hint)
      if place and not seen[place] then
        seen[place] = true
        local k = #ids + 1
        ids[k], places[k], results[k], hint = s.id, place, s.result or false, place + 1
        out[i] = Settle.DONE
      end
    end
  end
  if #ids == 0 then return nil end
  local all = concat(ids)
  local records = tombstone_plain(p, ids, #ids, all, nil, results)
  completed_plain(p, ids, #ids, all, Ends.kinds(all, #ids, records))
  Lease.leave(p, places)
  return p.q
end

-- Settles those items of a lease together that can be; puts their verdicts in `out`, and answers
-- the queue of one.
local function complete_some(p, items, out)
  local times, q = {}, nil
  for _, s in ipairs(items) do
    if times[s.id] then return false end -- the first in order counts: one after the other
    times[s.id] = true
  end
  if p and p.plain and not p.spoilt then q = complete_plain(p, items, out) elseif p then q = Settle.complete_some(p, items, out) end
  if p and S.leases[p.token] then q = Settle.retry_some(p, items, out) or q end
  return true, q
end

-- Settles a lease item by item; those that completed together.
local function settle_items(p, report)
  Shard.may_all()
  local out, q, once, all = {}, nil, false, false
  if p and report.ids and (p.spoilt or not p.plain) then
    q, all = Settle.complete_alike(p, report, out)
    if all then return '\0', q end
  end
  local items = items_of(report)
  if next(out) == nil then once, q = complete_some(p, items, out) end
  local asked, records = {}, nil
  for i, s in ipairs(items) do if not out[i] then asked[#asked + 1] = s.id end end
  if once then records = Job.raws(asked) end
  local nth = 0
  for i, s in ipairs(items) do
    if not out[i] then
      s.token, nth = report.token, nth + 1
      local raw
      if records then raw = records[nth] else raw = Job.raw(s.id) end
      local live = p and S.leases[p.token] and p
      out[i] = settle_one(live, s, raw)
      if byte(out[i]) == 0 and not q then q = raw and Job.parse('', raw).q end
    end
  end
  if S.cleared then Settle.release() end
  if p and S.leases[p.token] then Lease.settle_departed(p) end
  return '\1' .. concat(out), q
end

-- A call of a whole plain lease of few jobs that completed, with nothing else to say, most calls of
-- those who run job by job: tombstones are gathered for all of them. Its answer; nothing if it is
-- no such call.
local function settle_small(blob)
  local size = #blob
  if size < 69 then return nil end
  local leases, token, late, run, form, attempt, n = unp('>I2c16I2I2BI4I2', blob, %LEASES_COUNT_AT%)
  if leases ~= 1 or form ~= %FORM_CORES_KINDS% or late > 0 or run > 0 or attempt ~= 1 or n >= 8 then return nil end
  local kinds, at = Ends.read_kinds(blob, 38 + 32 * n, n)
  if at ~= size + 1 then return nil end
  local lease = S.fetched[token]
  if not lease or S.fetched['~' .. token] or S.leases and S.leases[token] ~= nil then return nil end
  local flags, of, ql = unp('>BI2I2', lease, %LEASE_FLAGS_AT%)
  if flags ~= %LEASE_PLAIN% or of ~= n or sub(lease, %LEASE_NAME_AT% + ql) ~= sub(blob, 38, 37 + 16 * n) then return nil end
  if M.watch >= S.now or M.feed >= S.now then return nil end
  local q = sub(lease, %LEASE_NAME_AT%, %LEASE_HEAD_BYTES% + ql)
  Shard.may_count(Row.of(q))
  local kv, k = S.small, S.small_n
  if not kv then
    kv, k = {}, 0
    S.small, S.small_finish = kv, char(COMPLETED) .. u8(S.now) .. '\0\0\0\1'
  end
  local finish, ids = S.small_finish .. sub(token, %TOKEN_SEAL%), S.tombstones or {}
  local m = #ids
  for i = 1, n do
    local id = sub(blob, 22 + 16 * i, 37 + 16 * i)
    local core = 22 + 16 * (n + i)
    kv[k + 1], kv[k + 2], ids[m + i] = id, '\%TAG_TOMBSTONE%' .. sub(blob, core, core + 15) .. finish, id
    k = k + 2
  end
  S.small_n, S.tombstones = k, ids
  Lease.close_plain(token, lease, q)
  local r = Row.of(q)
  r.counts[ACTIVE] = r.counts[ACTIVE] - n
  note(r, 3, n)
  Ends.completed(r, sub(blob, 38, 37 + 16 * n), n, kinds)
  return u8(S.now) .. '\0'
end

-- Writes the tombstones that small calls have gathered; before anything reads a record.
function Settle.flush()
  local kv = S.small
  S.small, S.small_n = nil, nil
  if kv then Records.set_many(kv) end
end

-- Settles what a call settles, the shard being open; its answer.
function Settle.run(blob)
  local answer = settle_small(blob)
  if answer then return answer end
  Settle.flush()
  local reports, more = reading(read_leases, blob), {}
  for k = 2, #reports do
    local token = reports[k].token
    if S.fetched[token] == nil then more[#more + 1], more[#more + 2] = token, '~' .. token end
  end
  if #more > 0 then
    for field, value in pairs(Lease.fetch(S.base, more)) do S.fetched[field] = value end
  end
  local out = {}
  for k, report in ipairs(reports) do
    local p, q = Lease.load(report.token), nil
    local is_known = p and (p.plain or p.sent and report.expire ~= nil)
    if is_known and report.ids and report.attempt == 1 and not p.spoilt and report.n > 0 and settle_plain(p, report) then
      out[k], q = '\0', p.q
    else
      out[k], q = settle_items(p, report)
    end
    if q and report.has_times then Stats.measured(q, blob, report.late, report.run) end
  end
  return u8(S.now) .. concat(out)
end

-- settle. Key: base. Argument: instance 8 | leases 2 | per lease token, histograms, form,
-- settlements. Reply: now 8, per lease 0 (all completed) or 1 and a verdict each.
function Settle.call(base, blob)
  local one, lease = Lone.settle(base, blob)
  if one then return one end
  if #blob < 10 then refuse('invalid_input', 'the call is cut short') end
  local token = sub(blob, %LEASES_TOKEN%)
  local fetched
  if lease == nil then
    fetched = Lease.fetch(base, {token, '~' .. token})
  else -- it may be long
    fetched = {[token] = lease, ['~' .. token] = call('HGET', base .. ':pg', '~' .. token)}
  end
  Shard.open(base, sub(blob, %CALL_INSTANCE%), fetched[token] and {Lease.queue_of(fetched[token])}, nil, nil, Shard.SETTLES)
  S.fetched = fetched
  Sweep.run()
  local reply = Settle.run(blob)
  Shard.commit()
  return reply
end

end
