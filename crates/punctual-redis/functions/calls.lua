-- calls: claims, extends and settles of several callers under one look at the shard. Each is a
-- write of its own, one after the other: what ends leases first, then claims, so that these find
-- what those have left.
do

-- The leases and the queues that the calls are about: fetched fields by name, names of queues.
local function prefetch(base, verbs, blobs)
  local fields, queues, seen = {}, {}, {}
  for k = 1, #blobs do
    local verb, blob = byte(verbs, k), blobs[k]
    if verb == %CALLS_CLAIM% then
      fields[#fields + 1] = Claim.known_as(blob)
    elseif #blob > 25 then
      local token = sub(blob, %LEASES_TOKEN%)
      fields[#fields + 1], fields[#fields + 2] = token, '~' .. token
    end
  end
  local fetched = Lease.fetch(base, fields)
  local function add(q)
    if not seen[q] and #queues < %CLAIM_QUEUES_MAX% then seen[q], queues[#queues + 1] = true, q end
  end
  for k = 1, #blobs do
    local blob = blobs[k]
    if byte(verbs, k) == %CALLS_CLAIM% then
      local at = %CLAIM_QUEUE_AT%
      for _ = 1, min(byte(blob, %CLAIM_COUNT_AT%) or 0, %CLAIM_QUEUES_MAX%) do
        local length = byte(blob, at)
        if not length then break end
        add(sub(blob, at + 1, at + length))
        at = at + 1 + length
      end
    else
      local lease = fetched[sub(blob, %LEASES_TOKEN%)]
      if lease then add(Lease.queue_of(lease)) end
    end
  end
  return fetched, queues
end

-- calls. Key: base. Arguments: a letter per call (C claim, E extend, S settle), then the calls, all
-- of one instance. Reply: as Calls.answer.
function Calls.call(base, args)
  local verbs, blobs = args[1], slice(args, 2, #args)
  if #verbs ~= #blobs or #blobs == 0 or #blobs > %BATCH_ITEMS_MAX% or find(verbs, '[^CES]') then
    refuse('invalid_input', 'calls takes a letter for each call, C, E or S, and 1 to 1,000 calls')
  end
  for k = 1, #blobs do
    if #blobs[k] < 10 then refuse('invalid_input', 'a call is cut short') end
  end
  local jobs = 0
  for k = 1, #blobs do -- a claim says how many jobs it wants; others are read in turn
    if byte(verbs, k) == %CALLS_CLAIM% and #blobs[k] >= 42 then jobs = jobs + unp('>I2', blobs[k], %CLAIM_LIMIT_AT%) end
  end
  Check.count(jobs)
  local fetched, queues = prefetch(base, verbs, blobs)
  Shard.open(base, sub(blobs[1], %CALL_INSTANCE%), queues, nil, nil, Shard.LEASES)
  S.fetched = fetched
  Sweep.run()
  local replies, claims, places, steps = {}, {}, {}, 0
  for k = 1, #blobs do
    local verb, blob, ok = byte(verbs, k), blobs[k], nil
    if verb == %CALLS_CLAIM% then
      ok, replies[k] = attempt(Claim.read, blob)
      if ok then claims[#claims + 1], places[#places + 1] = replies[k], k end
    else
      if steps > 0 then Shard.step() end
      steps = steps + 1
      ok, replies[k] = attempt(verb == %CALLS_EXTEND% and Lease.extend or Settle.run, blob)
    end
  end
  Settle.flush()
  if S.flows then Flow.finish() end -- what came free is there for these claims
  if #claims > 0 then Claim.run(claims, places, replies) end
  Shard.commit()
  return Calls.answer(replies)
end

-- The answers of several calls as one: first a byte each, 0 for a reply and 1 for a refusal, then
-- these.
function Calls.answer(replies)
  local how, out = {}, {}
  for k = 1, #replies do
    local reply = replies[k]
    local refused = type(reply) == 'table'
    how[k], out[k + 1] = refused and '\1' or '\0', refused and reply.err or reply
  end
  out[1] = concat(how)
  return out
end

-- enqueues. Key: base. Arguments: enqueue calls, all of one instance. Reply: as Calls.answer.
function Calls.enqueues(base, args)
  local starts, at, jobs = {}, 1, 0
  while at <= #args do
    if #args[at] < 11 then refuse('invalid_input', 'a call is cut short') end
    jobs = jobs + unp('>I2', args[at], %ENQUEUE_COUNT_AT%)
    starts[#starts + 1], at = at, at + Enqueue.length(args[at])
  end
  if #starts == 0 or #starts > %BATCH_ITEMS_MAX% or at ~= #args + 1 then refuse('invalid_input', 'enqueues takes 1 to 1,000 calls') end
  Check.count(jobs)
  return Calls.answer(Enqueue.calls(base, args, starts))
end

end
