-- extend: leases last longer; progress, lines to log, and which jobs are lost or to be cancelled.
do

-- Reads an extend before anything is changed.
local function read_extends(blob)
  local count, at, leases = unp('>I2', blob, %LEASES_COUNT_AT%), %LEASES_AT%, {}
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
      local is_memo = length >= 1073741824
      if is_memo then length = length - 1073741824 end
      local note_ = sub(blob, at + 20, at + 19 + length)
      p.notes[i], at = {id, is_log and Check.lines(note_) or note_, is_log, is_memo and Check.memo(note_)}, at + 20 + length
    end
    jobs, at = unp('>I2', blob, at)
    Check.count(notes + jobs)
    p.jobs, p.at, at = jobs, at, at + 16 * jobs
    if at > #blob + 1 then error('it ends within a lease') end
    leases[k] = p
  end
  return leases
end

-- A lease is extended by less than it has left: unlike others it may end later than its own time
-- from now. Field `!` of `BASE:pg` is the shortest of these.
local function note_shorter(lease_duration)
  local known = call('HGET', S.k.pg, '!')
  if not known or tonum(known) > lease_duration then call('HSET', S.k.pg, '!', fmt('%d', lease_duration)) end
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
  if deadline > S.now + lease_duration then note_shorter(lease_duration) end
  Lease.end_at(p, deadline)
  for _, note_ in ipairs(extend.notes) do
    local j = Lease.place(p, note_[1]) and Job.load(note_[1])
    if j then
      if note_[4] then Job.keep(j, note_[4]) elseif note_[3] then Job.log(j, (j.ext.a or 0) + 1, note_[2]) else j.ext.po = note_[2] end
      Job.save(j)
      Lease.spoil(p)
    end
  end
  local is_lost = {}
  for i = 1, extend.jobs do
    local id = sub(blob, extend.at + 16 * i - 16, extend.at + 16 * i - 1)
    if not Lease.place(p, id, i) then lost[#lost + 1], is_lost[id] = id, true end
  end
  for _, note_ in ipairs(extend.notes) do
    local id = note_[1]
    if note_[4] and not is_lost[id] and not Lease.place(p, id) then lost[#lost + 1], is_lost[id] = id, true end
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
  Lease.check_memos(leases)
  for k, extend in ipairs(leases) do out[k] = extend_one(extend, blob) end
  return u8(S.now) .. concat(out)
end

-- extend. Key: base. Argument: instance 8 | leases 2 | per lease token 16, lease_duration 8, notes,
-- jobs. Reply: now 8, per lease 0, or 1 | deadline 8 | lost | cancel.
function Lease.extend_call(base, blob)
  if #blob < 10 then refuse('invalid_input', 'the call is cut short') end
  Shard.open(base, sub(blob, %CALL_INSTANCE%), nil, nil, nil, Shard.LEASES)
  Sweep.run()
  local reply = Lease.extend(blob)
  Shard.commit()
  return reply
end

end
