-- Memos of steps, signals, and attempts that wait: held in the middle of a job, until a signal
-- comes or the limit passes. Memos are `me` in an ext: lists of source, name, value, instant. The
-- limit is the due of the job, and it stands in `BASE:xp` by that, too.
do

local STEP, SIGNAL, TIMED_OUT = 0, 1, 2
local HOLD = 7 -- how an attempt ended that waits
local MEMOS_MAX, MEMO_BYTES_MAX, MEMOS_BYTES_MAX = %MEMOS_MAX%, %MEMO_BYTES_MAX%, %MEMOS_BYTES_MAX%

-- Appends a memo to a list; one of that name and source stays as it is. Whether there was room.
local function append(memos, source, name, value)
  local count, bytes = 1, #name + #value
  for _, memo in ipairs(memos) do
    if (memo[1] == STEP) == (source == STEP) then
      if memo[2] == name then return true end
      count, bytes = count + 1, bytes + #memo[2] + #memo[3]
    end
  end
  if count > MEMOS_MAX or bytes > MEMOS_BYTES_MAX then return false end
  memos[#memos + 1] = {source, name, value, S.now}
  return true
end

-- Whether a wait of a job for that name has ended.
local function has_ended(j, name)
  for _, memo in ipairs(j.ext.me or {}) do if memo[1] ~= STEP and memo[2] == name then return true end end
  return false
end

-- Whether an attempt of it waits.
local function holds(j)
  local past = j.ext.at
  return j.tag == %TAG_HELD% and past and #past > 0 and past[#past][4] == HOLD and j.ext.w and #j.ext.w > 0
end

Settle.holds = holds

-- The memo that a note of an extend brings, as a list of name and value.
function Check.memo(bytes)
  local ok, memo, more = pcall(mp.unpack, bytes)
  if not ok or more ~= nil or type(memo) ~= 'table' or type(memo[2]) ~= 'string' then refuse('invalid_input', 'a memo is no list of a name and a value') end
  Check.key('name of a step', memo[1])
  if #memo[2] > MEMO_BYTES_MAX then refuse('payload_too_large', 'result of a step is over the limit; store it elsewhere and keep a reference') end
  return memo
end

-- Refuses a call whose memos would be over a bound, before anything is changed.
function Lease.check_memos(leases)
  local jobs = {}
  for _, extend in ipairs(leases) do
    for _, note_ in ipairs(extend.notes) do
      local id, memo = note_[1], note_[4]
      if memo and not jobs[id] then
        local j = Job.load(id)
        jobs[id] = slice(j and j.ext.me or {}, 1, #(j and j.ext.me or {}))
      end
      if memo and not append(jobs[id], STEP, memo[1], memo[2]) then
        refuse('payload_too_large', 'steps of the job keep more than 64 results or 64 KiB; keep references, or let a follow-up do the rest')
      end
    end
  end
end

-- Keeps the memo of a step.
function Job.keep(j, memo)
  j.ext.me = j.ext.me or {}
  append(j.ext.me, STEP, memo[1], memo[2])
end

-- The wait of a job is over without a signal.
function Settle.end_wait(j)
  if not holds(j) then return end
  j.ext.me = j.ext.me or {}
  for _, name in ipairs(j.ext.w) do append(j.ext.me, TIMED_OUT, name, '') end
end

-- An attempt ends by waiting for names, at most for a span; one whose signals came before runs on.
function Settle.hold(j, names, limit8)
  local e, r, left, seen, others = j.ext, Row.of(j.q), {}, {}, 0
  for _, name in ipairs(names) do
    if not seen[name] and not has_ended(j, name) then left[#left + 1] = name end
    seen[name] = true
  end
  for _, memo in ipairs(e.me or {}) do if memo[1] ~= STEP then others = others + 1 end end
  if others + #left > MEMOS_MAX then
    e.dr, e.er = 1, 'job waits for more than 64 names; let a follow-up do the rest'
    return Settled.as(j, DEAD)
  end
  if not e.rd then e.rd = j.due8 end
  j.tag, e.fr = #left > 0 and %TAG_HELD% or %TAG_WAITING%, nil
  j.due8 = #left > 0 and Enqueue.plus(S.now, limit8) or u8(S.now)
  j.due = unp('>I8', j.due8)
  e.w = #left > 0 and left or nil
  Job.save(j)
  if j.opts.g then Group.ended(r, j, false) end
  Place.put(j)
  if #left == 0 then return end
  local at = min(Job.expires(j) or j.due, j.due)
  call('ZADD', S.k.xp, fmt('%d', at), j.id)
  schedule('expiry', at)
  notify(r) -- sleeping workers do not know of the limit yet
end

-- Causes the effect of a signal, `id 16 | length 4, name | payload`; whether the job is known here.
function Settle.signal(bytes)
  local ends = 20 + unp('>I4', bytes, 17)
  local signal = {na = sub(bytes, 21, ends), p = sub(bytes, ends + 1)}
  return Edit.one(sub(bytes, %ID_BYTES%), 7, signal, false) ~= Edit.NOT_FOUND
end

-- A job whose entry in `BASE:xp` has come, and that has not expired: ends its wait, if that was for
-- so long, and watches its expiry.
function Settle.waited(j)
  if holds(j) and j.due <= S.now then
    Place.out(j)
    Settle.end_wait(j)
    j.tag, j.ext.w = %TAG_WAITING%, nil
    Job.save(j)
    Place.put(j)
  elseif holds(j) then
    local at = min(Job.expires(j) or j.due, j.due)
    call('ZADD', S.k.xp, fmt('%d', at), j.id)
    schedule('expiry', at)
  end
  if j.tag <= %TAG_HELD% and Job.expires(j) and not Job.has_expired(j) and not holds(j) then Place.watch_expiry(j) end
end

-- Signals a job: the signal is kept with it, and ends its wait for that name. Answers as Edit.one.
function Edit.signal(j, state, name, value, dry)
  if state > ACTIVE then return 4, state end
  if has_ended(j, name) then return 7 end
  local e, left, waits = j.ext, {}, false
  local memos = slice(e.me or {}, 1, #(e.me or {}))
  if not append(memos, SIGNAL, name, value) then return 8 end
  local held, was_hold = j.tag == %TAG_HELD%, holds(j)
  if held then
    for _, one in ipairs(e.w or {}) do
      if one == name then waits = true else left[#left + 1] = one end
    end
  end
  local runs = waits and #left == 0 and not e.fo
  if dry then return 0, runs and (not was_hold and j.due > S.now and SCHEDULED or READY) or state end
  if runs then Place.out(j) end
  e.me = memos
  if held then e.w = #left > 0 and left or nil end
  if runs then
    j.tag = %TAG_WAITING%
    if was_hold then j.due8, j.due = u8(S.now), S.now end
  elseif j.tag == %TAG_PLAIN% then
    j.tag = %TAG_WAITING%
  end
  local p = state == ACTIVE and Lease.of(j)
  Job.save(j)
  if p then Lease.spoil(p) end
  if runs then Place.put(j) end
  return 0, runs and (j.due > S.now and SCHEDULED or READY) or state
end

end
