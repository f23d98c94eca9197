-- claim, extend and settle in words: a worker that has nothing but a Redis client.
do

local RESULT_MAX = %RESULT_BYTES_MAX%
-- JSON costs the server some 50 us a job and more for long payloads: leases by hand are small.
local LEASE_MAX, BYTES_DEFAULT, BYTES_MAX = 100, 65536, 262144
local LEASE_MS = {%LEASE_MIN_MS%, %LEASE_MAX_MS%} -- 1 ms to 1 day

local CLAIM = {
  {'QUEUE', 'name', 'NAME', many = true},
  {'LIMIT', {1, LEASE_MAX}, '1..100'},
  {'LEASE_MS', LEASE_MS, 'MS'},
  {'WORKER', 'key', 'NAME'},
  {'KIND', 'name', 'NAME', many = true},
  {'NONCE', 'key', 'TEXT'},
  {'MAX_BYTES', {1, BYTES_MAX}, 'BYTES'},
  {'ALONE', false, ''},
  {'WOKEN', false, ''},
}
local EXTEND = {
  {'LEASE_MS', LEASE_MS, 'MS'},
  {'JOB', 'id', 'ID', many = true},
  {'PROGRESS', 'bytes', 'ID=TEXT', many = true},
}
local SETTLE = {
  {'AFTER', 'ms', 'MS'},
  {'RESULT', 'bytes', 'BYTES'},
  {'ERROR', 'bytes', 'TEXT'},
  {'STOPPED', {'before_start', 'token', 'aborted', 'killed'}, 'before_start|token|aborted|killed'},
  {'ATTEMPT', {0, 4294967295}, 'N'},
}
Text.claim_options, Text.extend_options, Text.settle_options = CLAIM, EXTEND, SETTLE

local OUTCOMES = {completed = 0, retry = 1, snooze = 2, cancelled = 3, dead = 4, released = 5}

local function digest(text, bytes)
  return (sub(redis.sha1hex(text), 1, 2 * bytes):gsub('%x%x', function(pair) return char(tonum(pair, 16)) end))
end

-- The jobs of a packed lease, as JSON.
local function lease_json(reply, worker)
  local token, deadline, started, n = unp('>c16I8I8I2', reply, 19)
  local jobs, at = {}, 53 + 20 * n
  for i = 1, n do
    local id, length = sub(reply, 37 + 16 * i, 52 + 16 * i), unp('>I4', reply, 49 + 16 * n + 4 * i)
    jobs[i] = (Text.job(id, sub(reply, at, at + length - 1), ACTIVE, {worker = worker, started = started, deadline = deadline}))
    at = at + length
  end
  return Text.token(token), Text.instant(deadline), Text.array(jobs), deadline
end

-- claim QUEUE options: {now, wake_at, wake_in_ms, token, lease_until, jobs}.
function Text.claim(base, args)
  if #args == 0 then refuse('invalid_input', 'claim takes QUEUE, then options; none was given; see punctual_1_help') end
  local first, o = Text.check_name('queue', args[1]), Text.read_options('claim', CLAIM, args, 2)
  if #(o.KIND or {}) > %BATCH_ITEMS_MAX% then refuse('batch_too_large', 'claim names too many kinds; use at most 1,000') end
  local queues = {first}
  for _, q in ipairs(o.QUEUE or {}) do queues[#queues + 1] = q end
  if #queues > %CLAIM_QUEUES_MAX% then refuse('invalid_input', 'claim names too many queues; use at most %CLAIM_QUEUES_MAX%') end
  local name = o.WORKER or 'by hand'
  local worker = Text.is_id(name) and Text.read_id(name) or digest(name, 16)
  local nonce = o.NONCE and digest(o.NONCE, 8) or sub(Text.draw(base, 'nonce'), 1, 8)
  local limit = o.LIMIT or 1
  local out = {}
  for i, q in ipairs(queues) do out[i] = char(#q) .. q end
  local record = mp.pack({h = name, v = 'by hand', q = queues, k = o.KIND or {}, s = limit, b = 0})
  local flags = (o.ALONE and %CLAIM_ALONE% or 0) + (o.WOKEN and %CLAIM_WOKEN% or 0) + (o.WORKER and %CLAIM_SUSPECTS% or 0)
  local reply = Claim.call(base, BELOW .. nonce .. worker .. u8((o.LEASE_MS or 10000) * 1000)
    .. pack('>I2I4BB', limit, o.MAX_BYTES or BYTES_DEFAULT, flags, #queues) .. concat(out) .. record)
  local now, wake, suspects, leases = unp('>I8I8BB', reply)
  local token, till, jobs = 'null', nil, '[]'
  if leases > 0 then token, till, jobs = lease_json(reply, worker) end
  return Text.object({
    {'now', Text.instant(now)},
    {'wake_at', wake > 0 and Text.instant(wake)},
    {'wake_in_ms', wake > 0 and Text.number(max(0, math.ceil((wake - now) / 1000)))},
    {'suspects_wait', %suspects has CLAIMED_SUSPECTS% and 'true'},
    {'token', token},
    {'lease_until', till},
    {'alone', %suspects has CLAIMED_ALONE% and 'true'},
    {'jobs', jobs},
  })
end

local function ids_at(reply, at)
  local n, out = unp('>I2', reply, at), {}
  for i = 1, n do out[i] = Text.id(sub(reply, at + 16 * i - 14, at + 16 * i + 1)) end
  return Text.array(out), at + 2 + 16 * n
end

-- extend TOKEN options: {now, token, verdict, lease_until, lost, cancel_requested}.
function Text.extend(base, args)
  if #args == 0 then refuse('invalid_input', 'extend takes TOKEN, then options; none was given; see punctual_1_help') end
  local token, o = Text.read_token(args[1]), Text.read_options('extend', EXTEND, args, 2)
  local notes, jobs = {}, o.JOB or {}
  for i, note_ in ipairs(o.PROGRESS or {}) do
    local id, text = note_:match('^([%x-]+)=(.*)$')
    if not id or #text > RESULT_MAX then
      refuse('invalid_input', 'PROGRESS takes ID=TEXT of at most 8 KiB (progress: ' .. Text.shown(note_) .. ')')
    end
    notes[i] = Text.read_id(id) .. pack('>I4', #text) .. text
  end
  if #notes > %BATCH_ITEMS_MAX% or #jobs > %BATCH_ITEMS_MAX% then refuse('batch_too_large', 'extend names too many jobs; a lease has at most 1,000') end
  local reply = Lease.extend_call(base, BELOW .. '\0\1' .. token .. u8((o.LEASE_MS or 10000) * 1000) .. pack('>I2', #notes) .. concat(notes)
    .. pack('>I2', #jobs) .. concat(jobs))
  local fields = {{'now', Text.instant(at8(reply))}, {'token', Text.token(token)}}
  if byte(reply, %REPLY_FORM_AT%) == 0 then
    fields[3] = {'verdict', '"lease_lost"'}
    fields[4] = {'hint', Text.quote('the lease has ended and its jobs go to others: stop what runs, settle nothing, claim anew')}
  else
    local lost, at = ids_at(reply, 18)
    local asked = ids_at(reply, at)
    fields[3], fields[4] = {'verdict', '"extended"'}, {'lease_until', Text.instant(at8(reply, 10))}
    fields[5], fields[6] = {'lost', lost}, {'cancel_requested', asked}
  end
  return Text.object(fields)
end

-- The attempt that a token stands for: a lease holds a job once, so the token names it.
local function attempt_of(base, id, token)
  local raw = call('HGET', Records.key_in(base, id), id)
  if not raw or byte(raw) > %TAG_TOMBSTONE% then return 1 end -- of jobs that completed or stand together none has failed
  if byte(raw) == %TAG_TOMBSTONE% then return unp('>I4', raw, %TOMB_ATTEMPT%) end
  local e = Job.parse(id, raw).ext
  return e.sk == sub(token, %TOKEN_SEAL%) and e.sa or (e.a or 0) + 1
end

-- One settlement, packed as form 2 has it.
local function packed_settlement(base, token, id, word, o)
  local outcome = OUTCOMES[word:lower()]
  if not outcome then
    refuse('invalid_input', 'no such outcome; use completed, retry, snooze, cancelled, dead or released (outcome: ' .. Text.shown(word) .. ')')
  end
  if outcome == 2 and not o.AFTER then refuse('invalid_input', 'snooze has no span; write snooze AFTER MS') end
  if o.AFTER and outcome ~= 1 and outcome ~= 2 then refuse('invalid_input', 'AFTER is of retry and snooze only; leave it out') end
  if o.RESULT and outcome ~= 0 then refuse('invalid_input', 'RESULT is of completed only; use ERROR to say what went wrong') end
  for _, option in ipairs({'RESULT', 'ERROR'}) do
    if o[option] and #o[option] > RESULT_MAX then
      refuse('payload_too_large', option .. ' is over the limit of 8 KiB; store it elsewhere and keep a reference')
    end
  end
  if o.ERROR and not Text.is_utf8(o.ERROR) then refuse('invalid_input', 'ERROR is no UTF-8; send text') end
  local has, said = 0, ''
  if o.AFTER then has, said = 1, u8(o.AFTER) end
  if o.RESULT then has, said = has + 2, said .. pack('>I4', #o.RESULT) .. o.RESULT end
  if o.ERROR then has, said = has + 4, said .. pack('>I4', #o.ERROR) .. o.ERROR end
  if o.STOPPED then has, said = has + 8, said .. char(({before_start = 0, token = 1, aborted = 2, killed = 3})[o.STOPPED]) end
  return id .. pack('>I4BB', o.ATTEMPT or attempt_of(base, id, token), outcome, has) .. said
end

local function verdict_json(id, reply, at)
  local verdict = byte(reply, at)
  if verdict == 0 then
    local state, due = byte(reply, at + 1), at8(reply, at + 2)
    return Text.object({{'id', Text.id(id)}, {'verdict', '"settled"'}, {'state', Text.quote(Text.STATES[state])},
      {'due', due > 0 and Text.instant(due)}}), at + 12
  end
  return Text.object({{'id', Text.id(id)}, {'verdict', verdict == 1 and '"repeated"' or '"lease_lost"'}}), at + 1
end

-- settle TOKEN, then ID OUTCOME options for each job: {now, token, jobs}.
function Text.settle(base, args)
  if #args < 3 then
    refuse('invalid_input', 'settle takes TOKEN, then ID OUTCOME and its options for each job; ' .. #args .. ' arguments were given; see punctual_1_help')
  end
  local token, at, ids, items, seen = Text.read_token(args[1]), 2, {}, {}, {}
  while args[at] do
    local id, outcome, o = Text.read_id(args[at]), args[at + 1], nil
    if not outcome then refuse('invalid_input', 'the last job has no outcome; write ID OUTCOME (id: ' .. args[at] .. ')') end
    if seen[id] then refuse('invalid_input', 'a job stands twice; settle it once (id: ' .. args[at] .. ')') end
    o, at = Text.read_options('settle', SETTLE, args, at + 2, Text.is_id)
    seen[id], ids[#ids + 1] = true, id
    items[#items + 1] = packed_settlement(base, token, id, outcome, o)
  end
  if #items > %BATCH_ITEMS_MAX% then refuse('batch_too_large', 'settle carries too many jobs; a lease has at most 1,000') end
  local reply = Settle.call(base, BELOW .. '\0\1' .. token .. '\0\0\0\0\2' .. pack('>I2', #items) .. concat(items))
  local jobs, from = {}, 10
  for i, id in ipairs(ids) do
    if byte(reply, %REPLY_FORM_AT%) == 0 then
      jobs[i] = Text.object({{'id', Text.id(id)}, {'verdict', '"settled"'}, {'state', '"completed"'}})
    else
      jobs[i], from = verdict_json(id, reply, from)
    end
  end
  return Text.object({{'now', Text.instant(at8(reply))}, {'token', Text.token(token)}, {'jobs', Text.array(jobs)}})
end

end
