-- get, explain, stats and cancel in words.
do

-- One target asked of the packed get, whatever waits to be swept: its map.
local function ask(base, target, explained)
  return mp.unpack(Inspect.get(base, BELOW .. mp.pack({t = {target}, x = explained and 1 or nil, any = 1})))
end

-- get ID or QUEUE UNIQUE_KEY: {now, job}; null if there is none (any more).
function Text.get(base, args)
  local answer = ask(base, Text.read_target('get', args))
  local view = answer.j[1]
  return Text.object({{'now', Text.instant(answer.n)}, {'job', view ~= '' and (Text.view(view)) or 'null'}})
end

local function span(us)
  if us < 60e6 then return fmt('%.1f s', us / 1e6) end
  if us < 7200e6 then return fmt('%.0f min', us / 60e6) end
  return us < 172800e6 and fmt('%.1f h', us / 3600e6) or fmt('%.1f days', us / 86400e6)
end

local function list_of(reason)
  local out = {}
  for i = 2, #reason do out[i - 1] = reason[i] end
  return out
end

local function due_of(reason) return type(reason[2]) == 'string' and at8(reason[2]) or reason[2] end

-- By code: the reason's name, its sentence, and a field that says more.
local REASONS = {
  [0] = function(r) return 'not_due', 'it is due in ' .. span(due_of(r) - S.now), {'due', Text.instant(due_of(r))} end,
  function(r)
    return 'waits_for_retry', fmt('it waits for its next attempt, in %s, after %.0f failures', span(due_of(r) - S.now), r[3]), {'due', Text.instant(due_of(r))}
  end,
  function(r) return 'waits_for_names', 'it is held until these names are cleared', {'names', Text.strings(list_of(r))} end,
  function(r) return 'waits_for_holder', 'it follows the active holder of its unique key', {'holder', Text.id(r[2])} end,
  function() return 'queue_paused', 'its queue is paused; resume it' end,
  function(r) return 'group_active', 'a job of its group is active', {'by', Text.id(r[2])} end,
  function(r)
    return 'group_held', 'its group is held back by a job that is tried again in ' .. span(r[3] - S.now), {'by', Text.id(r[2])}
  end,
  function(r) return 'suspect', 'it is suspect after crashes and waits for a worker that runs nothing else: claim ALONE', {'crashes', Text.number(r[2])} end,
  function() return 'no_worker', 'no worker claimed from its queue in the last minute; start one' end,
  function(_, j) return 'no_worker_for_kind', 'workers claim from its queue, but none takes its kind; deploy one that does', {'kind', Text.quote(j.kind)} end,
  function(r)
    return 'in_line', r[2] == 0 and 'it is the next in its line' or 'it waits its turn; more workers shorten that', {'ahead', Text.number(r[2])}
  end,
  function(_, _, lease) return 'active', 'it runs; its lease ends in ' .. span(max(0, lease.deadline - S.now)), {'until', Text.instant(lease.deadline)} end,
  function() return 'completed', 'it is done' end,
  function(_, j) return 'cancelled', 'it was cancelled', {'why', Text.quote(Text.CANCELLED_FOR[j.ext.cd] or 'requested')} end,
  function(_, j) return 'dead', 'it is dead and waits for a person', {'why', Text.quote(Text.DEAD_FOR[j.ext.dr] or 'permanent')} end,
  function(r)
    return 'never_released', 'nothing will release it: the job that it waits for has ended without clearing its name; run it now, or cancel it', {'by', Text.id(r[2])}
  end,
  function(r)
    return 'concurrency_reached', fmt('%.0f jobs of its queue are active, and its limit is %.0f; it goes on when one ends', r[3], r[2]), {'active', Text.number(r[3])}
  end,
  function(r)
    return 'rate_reached', 'its queue has used up its rate; the next job may start in ' .. span(at8(r[3]) - S.now), {'until', Text.instant(at8(r[3]))}
  end,
  function(r)
    return 'waits_for_jobs', fmt('it waits for %.0f other jobs to settle', r[2]), {'waits', Text.number(r[2])}
  end,
  function(r) return 'flow_open', 'its flow was not sent to its end: seal it', {'flow', Text.quote(r[2])} end,
  function(r)
    return 'waits_for_flow', fmt('it runs when its flow has settled, of which %.0f steps have not', r[3]), {'open', Text.number(r[3])}
  end,
  function(r) return 'share_blocked', 'its share is blocked, and opens in ' .. span(at8(r[3]) - S.now), {'share', Text.quote(r[2])} end,
  function(r)
    return 'share_concurrency_reached', fmt('%.0f jobs of its share are active, and the limit of each share is %.0f; it goes on when one ends', r[4], r[3]), {'share', Text.quote(r[2])}
  end,
  function(r)
    return 'share_rate_reached', 'its share has used up its rate; its next job may start in ' .. span(at8(r[4]) - S.now), {'share', Text.quote(r[2])}
  end,
  function(r)
    return 'share_turn', fmt('%.0f other shares have a turn before the next one of its share', r[3]), {'share', Text.quote(r[2])}
  end,
  function(r) return 'limit_blocked', 'limit ' .. r[2] .. ' is blocked, and opens in ' .. span(at8(r[3]) - S.now), {'limit', Text.quote(r[2])} end,
  function(r)
    local new = r[5] == 1 and '; new jobs are refused meanwhile' or r[5] == 2 and '; each new job asks the oldest of them to stop' or ''
    return 'limit_concurrency_reached', fmt('%.0f jobs with limit %s are active, of at most %.0f; it goes on when one ends', r[4], r[2], r[3]) .. new, {'limit', Text.quote(r[2])}
  end,
  function(r)
    return 'limit_rate_reached', 'limit ' .. r[2] .. ' has used up its rate; the job may start in ' .. span(at8(r[4]) - S.now), {'limit', Text.quote(r[2])}
  end,
  function(r) return 'share_paused', 'its share is paused until it is resumed', {'share', Text.quote(r[2])} end,
}

local function reasons_json(reasons, j, lease)
  local out = {}
  for i, reason in ipairs(reasons) do
    local name, sentence, more = REASONS[reason[1]](reason, j, lease)
    out[i] = Text.object({{'reason', Text.quote(name)}, {'text', Text.quote(sentence)}, more or {'', nil}})
  end
  return Text.array(out)
end

-- explain ID or QUEUE UNIQUE_KEY: {now, state, reasons, job}. Sweeps first, so that it reports what
-- is so now.
function Text.explain(base, args)
  local target = Text.read_target('explain', args)
  if call('HGET', base .. ':s', 'm') then Sweep.maintain(base, BELOW) end
  local answer = ask(base, target, true)
  local view = answer.j[1]
  if view == '' then
    return Text.object({{'now', Text.instant(answer.n)}, {'state', 'null'},
      {'hint', Text.quote('no such job: it was never here, or it settled longer ago than it was to be kept')}, {'job', 'null'}})
  end
  local text, state, j, lease = Text.view(view)
  local reasons = j and reasons_json(answer.x[1], j, lease) or reasons_json({{state + 8}}, {ext = {}})
  return Text.object({{'now', Text.instant(answer.n)}, {'state', Text.quote(Text.STATES[state])}, {'reasons', reasons}, {'job', text}})
end

-- Jobs of a queue that have fallen due and no sweep has moved.
local function unmoved_of(q, now)
  local n = call('ZCOUNT', S.base .. ':n:' .. q, '-inf', fmt('%.0f', now))
  Due.cold_counts(Row.find(q), 10000, function(due, k) if due <= now then n = n + k end end)
  return n
end

-- stats QUEUE...: {now, queues, workers}. A read, as of the last sweep; what fell due since is
-- counted as ready.
function Text.stats(base, args)
  for _, q in ipairs(args) do Text.check_name('queue', q) end
  if #args > %BATCH_ITEMS_MAX% then refuse('batch_too_large', 'stats names too many queues; use at most 1,000') end
  local answer = mp.unpack(Stats.call(base, BELOW .. mp.pack({q = args, any = 1})))
  local queues, workers = {}, {}
  for i, one in ipairs(answer.q) do
    local fields, counts = {{'queue', Text.quote(one[1])}}, one[2]
    local unmoved = unmoved_of(one[1], answer.n)
    counts[2], counts[3] = counts[2] - unmoved, counts[3] + unmoved
    for state = 0, 6 do fields[#fields + 1] = {Text.STATES[state], Text.number(counts[state + 1])} end
    fields[#fields + 1] = {'paused', one[3] == 1 and 'true' or 'false'}
    fields[#fields + 1] = {'oldest_due_ms', one[4] >= 0 and Text.number(floor(one[4] / 1000)) or nil}
    queues[i] = Text.object(fields)
  end
  for i, one in ipairs(answer.w) do
    local ok, record = pcall(mp.unpack, one[4])
    record = ok and type(record) == 'table' and record or {}
    workers[i] = Text.object({{'id', Text.id(one[1])}, {'host', record.h and Text.quote(record.h)}, {'queues', Text.strings(record.q or {})},
      {'seen_at', Text.instant(one[2])}, {'leased', Text.number(one[3])}})
  end
  return Text.object({{'now', Text.instant(answer.n)}, {'queues', Text.array(queues)}, {'workers', Text.array(workers)}})
end

local VERDICTS = {[0] = 'done', 'cancel_requested', 'not_found', 'job_active', 'wrong_state', 'unique_held', 'already_cancelled'}
local HINTS = {
  [1] = 'it runs: its worker is given at its next extend, and it ends as cancelled then or when its lease ends',
  [2] = 'no such job: it was never here, or it settled longer ago than it was to be kept',
  [4] = 'it has settled already; nothing was changed',
}

-- cancel ID or QUEUE UNIQUE_KEY: {now, id, verdict, state}.
function Text.cancel(base, args)
  local target = Text.read_target('cancel', args)
  local answer = mp.unpack(Edit.call(base, BELOW .. mp.pack({t = {target}, a = 0})))
  local id, verdict, state = answer.v[1][1], answer.v[1][2], answer.v[1][3]
  return Text.object({
    {'now', Text.instant(answer.n)},
    {'id', id ~= '' and Text.id(id) or 'null'},
    {'verdict', Text.quote(VERDICTS[verdict])},
    {'state', (verdict == 0 or verdict == 4) and state and Text.quote(Text.STATES[state])},
    {'hint', HINTS[verdict] and Text.quote(HINTS[verdict])},
  })
end

end
