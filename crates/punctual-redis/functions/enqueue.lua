-- enqueue: duplicate check, unique key, bound, store.
do

local DUE_MAX = %INSTANT_MAX_US% -- the end of the year 9999

-- An instant plus a span of 8 bytes, exactly, as 8 bytes.
local function plus(now, span8)
  local high, low = unp('>I4I4', span8)
  low = low + now % 4294967296
  high = high + floor(now / 4294967296) + floor(low / 4294967296)
  return pack('>I4I4', high, low % 4294967296)
end

-- The due that engine time gives: 8 bytes, whether the instant asked for has passed, and the
-- number.
local function due_of(kind, given8, now8, index)
  if kind == %DUE_NOW% then return now8, false, S.now end
  local given = unp('>I8', given8)
  if kind > %DUE_AT% then refuse('invalid_input', 'due kind is out of range; use 0 to 2 index=' .. index) end
  if kind == %DUE_AFTER% then
    local soon = S.now + given
    if soon < 9007199254740992 then return u8(soon), false, soon end -- that far sums are exact
    local due8 = given < DUE_MAX and plus(S.now, given8)
    local due = due8 and unp('>I8', due8)
    if not due or due > DUE_MAX then refuse('invalid_delay', 'delay reaches beyond the year 9999 index=' .. index) end
    return due8, false, due
  end
  if given > DUE_MAX then refuse('invalid_delay', 'due is beyond the year 9999 index=' .. index) end
  if given < S.now then return now8, true, S.now end
  return given8, false, given
end

function Enqueue.pending(r) return r.counts[HELD] + r.counts[SCHEDULED] + r.counts[READY] end

-- The first jobs of a lane in order, at most k.
local function first_of(r, lane, k)
  local found = {}
  if S.changed_groups then Group.flush() end
  for _, member in ipairs(r.flags >= %ROW_SHARED% and Share.heads(r, lane, k) or {}) do
    local group = Group.of_place(member)
    found[#found + 1] = {sub(member, %PLACE_BYTES%), group and Group.candidate(r, group, lane) or sub(member, %PLACE_ID_AT%)}
  end
  if lane < 10 then
    local ids, records, stamps, n = Line.pop(r, lane, k)
    if n > 0 then Line.unpop(r, lane, ids, stamps, 1) end
    for i = 1, n do
      local raw = records[i]
      found[i] = {'\1' .. sub(raw, %REC_DUE%) .. sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%), ids[i]}
    end
  end
  if (r.in_overflow[lane] or 0) > 0 then
    for _, member in ipairs(call('ZRANGE', S.base .. ':x:' .. lane .. ':' .. r.name, 0, k - 1)) do
      local group = Group.of_place(member)
      found[#found + 1] = {sub(member, %PLACE_BYTES%), group and Group.candidate(r, group, lane) or sub(member, %PLACE_ID_AT%)}
    end
  end
  table.sort(found, function(a, b) return below(a[1], b[1]) end)
  return found
end

-- The next one in line of the last priority that has any, else the next one to be due, else one of
-- a group that is kept from its claim; none of `except`.
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
    if passes(sub(member, %DUE_ENTRY_ID%)) then return sub(member, %DUE_ENTRY_ID%) end
  end
  Group.write_lines()
  for _, member in ipairs(call('ZRANGEBYLEX', S.base .. ':l:' .. r.name, '-', '+', 'LIMIT', 0, k)) do
    if passes(sub(member, -16)) then return sub(member, -16) end
  end
  for _, id in ipairs(r.flags >= %ROW_SHARED% and Share.some(r, k) or {}) do if passes(id) then return id end end
  for _, one in ipairs(Named.listed(r, nil, k)) do if one[1] and passes(one[1]) then return one[1] end end
end

-- Whether the queue may take one more pending job, after dead-lettering if it shall.
local function make_room(r, goes)
  if not flag(r, %ROW_BOUNDED%) or Enqueue.pending(r) - #goes < r.max then return true end
  if not flag(r, %ROW_DEAD_LETTERS%) or r.max == 0 then return false end
  local id = oldest_pending(r, goes)
  local j = id and Job.load(id)
  if not j then return false end
  Place.out(j)
  j.ext.dr = 3
  Settled.as(j, DEAD)
  return true
end

-- Whether the last attempt of an imported job waits for signals.
local function is_in_hold(past)
  local last = past.at and past.at[#past.at]
  return last and last[4] == 7
end

-- What an import knows of a job's past, and the `names` that it waits for; whether it `waits` for
-- others, or for its flow.
local function import(j, past, waits, names)
  local e, held = j.ext, past.st == HELD and names and #names > 0
  j.tag = (held or waits and past.st <= ACTIVE) and 3 or past.st > ACTIVE and past.st or 2
  local due8 = past.du
  if past.st == ACTIVE and below(u8(S.now), due8) then due8 = u8(S.now) end -- it ran already
  if due8 ~= j.due8 then e.rd = j.due8 end
  j.due8, j.due = due8, unp('>I8', due8)
  for _, key in ipairs({'a', 'f', 'c', 's', 'fi', 'er', 're', 'po', 'cd', 'dr', 'sp', 'en', 'at', 'lg', 'me'}) do e[key] = past[key] end
  if type(e.s) == 'string' then e.s = at8(e.s) end
  if type(e.fi) == 'string' then e.fi = at8(e.fi) end
  e.fi = j.tag > %TAG_HELD% and min(e.fi or S.now, S.now) or nil
  if past.ex and past.ex ~= (j.opts.ex or '') then e.ex = past.ex end
  e.w = held and names or nil
  if past.st == ACTIVE and not waits then e.fr = 1 end
end

-- Stores a job that nothing refuses.
local function store(j, late, follows, sent)
  local r, o, past = Row.of(j.q), j.opts, j.opts.hi
  if late then j.ext.la = 1 end
  local waits = sent and Flow.add(j.id, o.fl[1] or '', o.fl[2] or '', j.due8, sent)
  local names = o.w
  if past then names = past.w end
  if not past or past.st == HELD and not is_in_hold(past) then names = Enqueue.names_left(j.id, names) end
  if waits or follows or names and #names > 0 then
    j.tag, j.ext.fo, j.ext.w = %TAG_HELD%, follows, names
  end
  note(r, 1, 1)
  if past then
    import(j, past, waits, names)
    if follows then j.tag, j.ext.fo = %TAG_HELD%, follows end
    if j.tag > %TAG_HELD% then
      if sent then Flow.settled(j, j.tag) end
      return Settled.keep(j, j.ext.fi)
    end
  end
  Job.save(j)
  if follows then
    Unique.follow(j.q, o.u, j.id)
    notify(r) -- a sleeping worker does not know when what it follows ends by itself
  else
    Unique.take(j)
  end
  Place.watch_expiry(j)
  if j.tag == %TAG_HELD% or past or o.g or o.sh or o.li or j.due > S.now or is_suspect(j) then
    Place.put(j)
  elseif r.head > 0 and r.head <= S.now then -- a pile is being moved: behind it
    Due.add(r, j)
  else
    local kind = j.tag == %TAG_PLAIN% and 1 or o.uh == 0 and 0 or %CHUNK_EXT%
    Line.push(r, j.prio, {j.id}, kind, {j.size})
    r.counts[READY] = r.counts[READY] + 1
    changed(j.id, j.q, READY)
  end
  if Settled.expire_if_late(j) then return end
  if past then Settle.waited(j) end -- it may wait for a signal, or have waited long enough
end

-- One job's enqueue; effects are not bounded by max_pending. `sent`: its link, if it waits for
-- others or is a step. Answers verdict, due, late, other id.
function Enqueue.one(id, due8, late, spec, bounded, sent)
  if sent then
    local known, first_due = Flow.known_as(id, sent)
    if known == 1 then return known, first_due end
    if known then return known, due8, late end
  end
  local raw = Job.raw(id)
  if raw and byte(raw) >= %TAG_TOMBSTONE% then
    raw = Settled.tombstone(id, raw)
    if not raw or not Settled.tombstone_counts(raw) then
      Records.delete(id) -- nothing may be stored in its place
      Settled.reuse(id, raw)
      raw = nil
    end
  end
  if raw then
    local first_due, first_late, hash
    if byte(raw) == %TAG_TOMBSTONE% then
      first_due, hash, first_late = sub(raw, %TOMB_DUE%), sub(raw, %TOMB_HASH%), byte(raw, %TOMB_STATE%) % %TOMB_REMEMBERED% >= %TOMB_LATE%
    else
      local known = Job.parse(id, raw)
      first_due, hash, first_late = known.ext.rd or known.due8, known.hash, known.ext.la == 1
    end
    if hash ~= sub(spec, %SPEC_HASH%) then return 4, due8, late end
    return 1, first_due, first_late
  end
  local j = Job.parse(id, '\%TAG_PLAIN%' .. u8(S.now) .. S.sub .. due8 .. spec)
  sent = j.opts.fl and sent
  if sent then
    local refusal, of = Flow.refusal(j.opts.fl[1] or '', sent)
    if refusal then return refusal, due8, late, of end
  end
  local r = Row.of(j.q)
  local past = j.opts.hi
  local verdict, other, holder = 'free', nil, nil
  if j.opts.u and not (past and past.st > ACTIVE) then verdict, other, holder = Unique.verdict(j.q, j.opts, id) end
  if verdict == 9 then
    local known = Job.load(other)
    return verdict, known and known.due8 or due8, late, other
  end
  if tonum(verdict) then return verdict, due8, late, other end
  if verdict == 'refreshes' then
    Unique.refresh(other, j)
    return 9, other.due8, late, other.id
  end
  local goes = {}
  if verdict == 'replaces' then
    goes[1] = other.id
    goes[2] = holder.follower
  end
  local limits_decide = bounded and verdict ~= 'follows' and Named.decides_on(j)
  local nth = limits_decide and Named.refuses(j.opts.li)
  if nth then return 10, due8, late, char(nth - 1) .. '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' end
  if bounded and not (past and past.st > ACTIVE) then
    local most = Share.full(r, j.opts.sh, goes)
    if most then return 11, due8, late, u8(most) .. BELOW end
    if not make_room(r, goes) then return 6, due8, late end
  end
  local answer = 0
  if verdict == 'replaces' then
    Unique.replace(other, holder)
    answer = 3
  end
  if limits_decide then Named.cancel_for(j.opts.li) end
  store(j, late, verdict == 'follows' and other or nil, sent)
  return answer, due8, late, answer == 3 and other.id or nil
end

Enqueue.plus, Enqueue.due_of = plus, due_of

-- One job of a text or an effect: id | due kind | due | spec. Answers as Enqueue.one.
function Enqueue.effect(bytes, sent, bounded)
  local due8, late = due_of(byte(bytes, %EFFECT_DUE_KIND_AT%), sub(bytes, %EFFECT_DUE%), u8(S.now), 0)
  return Enqueue.one(sub(bytes, %ID_BYTES%), due8, late, sub(bytes, %EFFECT_SPEC_AT%), bounded or false, sent)
end

end
