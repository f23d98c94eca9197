-- When a failed attempt is due again, in milliseconds: the same arithmetic as `RetryPolicy::span`.
-- And attempts of a lease that failed, together: a few commands for all of them.
do

local SPAN_MAX = %RETRY_SPAN_MAX_MS%
local DEFAULT_RETRY = {%RETRY_EXPONENTIAL%, %RETRY_BASE_MS%, %RETRY_FACTOR%, %RETRY_CAP_MS%, 1}

-- A Lehmer generator, state * 48271 + byte for each byte: of 22 bytes the sum of each times a
-- power, which is exact, as each product has 39 bits.
local PRIME, POWERS = 2147483647, {}
POWERS[22] = 1
for i = 21, 0, -1 do POWERS[i] = POWERS[i + 1] * 48271 % PRIME end

-- An even draw from 0 to 2^20 - 1 over the id's bytes and the failures.
local function draw(id, failures)
  local p = POWERS
  local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, q = byte(id, %ID_BYTES%)
  local sum = p[0] + a * p[1] + b * p[2] + c * p[3] + d * p[4] + e * p[5] + f * p[6] + g * p[7] + h * p[8] + i * p[9]
    + j * p[10] + k * p[11] + l * p[12] + m * p[13] + n * p[14] + o * p[15] + q * p[16]
  if failures < 256 then return (sum + failures * p[20]) % PRIME % 1048576 end
  a, b, c, d = byte(pack('>I4', failures), 1, 4)
  return (sum + a * p[17] + b * p[18] + c * p[19] + d * p[20]) % PRIME % 1048576
end

local last_policy, last_nth, last_full, last_jitter = nil, nil, nil, nil -- mostly asked for again

-- The span before jitter of so many failures, and whether there is any.
local function full_span(policy, nth)
  local kind, full, jitter = policy[1], 0, 0
  local first = min(policy[2], SPAN_MAX)
  if kind == %RETRY_EXPONENTIAL% then
    local factor, cap = policy[3], min(policy[4], SPAN_MAX)
    full, jitter = first, policy[5]
    for _ = 2, nth do
      if full >= cap or factor <= 1 then break end
      full = full * factor
    end
    full = floor(min(full, cap))
  elseif kind == %RETRY_FIXED% then
    full, jitter = first, policy[3]
  elseif kind == %RETRY_LINEAR% then
    full, jitter = min(first * nth, min(policy[3], SPAN_MAX)), policy[4]
  else
    full = min(policy[min(nth, #policy - 1) + 1], SPAN_MAX)
  end
  return full, jitter
end

function Retry.span(policy, id, failures)
  policy = policy or DEFAULT_RETRY
  local nth = max(1, failures)
  if policy ~= last_policy or nth ~= last_nth then
    last_policy, last_nth, last_full, last_jitter = policy, nth, full_span(policy, nth)
  end
  if last_jitter == 1 then return floor(last_full * draw(id, nth) / 1048576) end
  return last_full
end

local DUE = '\162rd\168' -- in an ext, before the due of the receipt

local function with_length(ext)
  local bytes = mp.pack(ext)
  return pack('>I4', #bytes) .. bytes
end

-- The exts of jobs that differ in nothing but the due of their receipts: what is before that and
-- behind it. Nothing if that is not known.
local function around_due(ext)
  ext.rd = BELOW
  local bytes = with_length(ext)
  local at = find(bytes, DUE .. BELOW, 1, true)
  if find(bytes, DUE, 1, true) == at and not find(bytes, DUE, at + 1, true) then return sub(bytes, 1, at + 3), sub(bytes, at + 12) end
end

-- What jobs of a queue are that wait for their next attempt.
local function new_list(r) return {r = r, n = 0, ids = {}, kv = {}, dues = {}, records = {}, examined = {}, shares = {}, limits = {}, limited = {}} end

-- Goes on with first failures of one error whose records are as that of the job before from their
-- flags to their payload, bytes `same`; `front` and `behind` are their new exts around the due of
-- the receipt. Answers the place of the first one that is not so.
local function wait_alike(list, items, raws, places, i, same, tag, policy, at, front, behind, left, out)
  local count, now, error_, till, n, m = #items, S.now, items[i - 1].error, %REC_PRIORITY% + #same, list.n, #left
  local ids, dues, records, kv, leaves, feeds = list.ids, list.dues, list.records, list.kv, next_of(S.bundle_of) ~= nil, M.feed >= S.now
  while i <= count do
    local s, raw, place = items[i], raws[i], places[i]
    if not place or not raw or byte(raw) ~= tag or s.attempt ~= 1 or s.span8 or s.error ~= error_ or sub(raw, %REC_FLAGS%, till) ~= same then break end
    local id = s.id
    local due = floor(now + Retry.span(policy, id, 1) * 1000)
    if due <= now or due >= 9007199254740992 then break end -- that far sums are exact
    local due8 = u8(due)
    local record = '\%TAG_WAITING%' .. sub(raw, %REC_STAMP%) .. due8 .. sub(raw, %REC_TAIL%) .. front .. sub(raw, %REC_DUE%) .. behind .. sub(raw, at)
    n = n + 1
    ids[n], dues[n], records[n], kv[2 * n - 1], kv[2 * n] = id, due, record, id, record
    left[m + 1], out[i] = place, '\0\1' .. due8 .. '\0\0'
    m, i = m + 1, i + 1
    if leaves then Bundle.leave(id) end
    if feeds then changed(id, list.r.name, SCHEDULED) end
  end
  list.n = n
  return i
end

-- Lets jobs of a lease that failed wait for their next attempt: those of these items that nothing
-- keeps from it. Their verdicts go into `out`; answers the places of these in the lease, and the
-- queue of one.
function Retry.together(p, items, raws, places, out)
  local lists, by_queue, left, token12, list = {}, {}, {}, sub(p.token, %TOKEN_SEAL%), nil
  local last_error, before, behind = nil, nil, nil -- of the first failures of jobs, which mostly say the same
  local same, same_tag, same_opts, same_queue, same_at = nil, 0, nil, nil, 0 -- such a job's record, from its flags to its payload
  local last_span, last_due8, last_due, same_due8, verdict = nil, nil, nil, nil, nil
  local feeds, leaves, now = M.feed >= S.now, next(S.bundle_of) ~= nil, S.now
  local i = 1
  while i <= #items do
    local s = items[i]
    local raw, place = raws[i], places[i]
    if place and raw and byte(raw) < %TAG_HELD% then
      local e, o, ex, group, q, at, share, span, _ = Job.NOTHING, same_opts, nil, nil, same_queue, same_at, nil, nil, nil
      local failures, bare = 1, true
      local is_same = same and byte(raw) == same_tag and s.attempt == 1 and not s.span8 and sub(raw, %REC_FLAGS%, %REC_PRIORITY% + #same) == same
      if is_same then
        span = Retry.span(o.rt, s.id, 1) * 1000
      else
        e, o, _, ex, group, q, _, at, _, share = Job.parts(raw)
        failures, bare = (e.f or 0) + 1, next(e) == nil
        span = not group and not e.cr and (e.c or 0) == 0 and o.mc == nil and (e.a or 0) + 1 == s.attempt and failures < (o.ma or %MAX_ATTEMPTS_DEFAULT%)
          and not (ex and e.ex == nil and at8(ex) <= S.now) and not e.ex and (s.span8 and 0 or Retry.span(o.rt, s.id, failures) * 1000)
      end
      local due8, due = last_due8, last_due
      if not span or s.span8 or span ~= last_span then
        due8 = span and (s.span8 and Enqueue.plus(S.now, s.span8) or u8(S.now + span))
        due = due8 and unp('>I8', due8)
        last_span, last_due8, last_due = not s.span8 and span or nil, due8, due
      end
      if due and due > now then
        if not list or list.r.name ~= q then
          list = by_queue[q] or new_list(Row.of(q))
          if list.n == 0 then lists[#lists + 1], by_queue[q] = list, list end
          Shard.may_count(list.r)
        end
        local first8 = e.rd or sub(raw, %REC_DUE%)
        local record
        if bare and before and s.error == last_error then
          record = '\%TAG_WAITING%' .. sub(raw, %REC_STAMP%) .. due8 .. sub(raw, %REC_TAIL%) .. before .. first8 .. behind .. sub(raw, at)
        else
          local now_is = {}
          for name, value in pairs(e) do now_is[name] = value end
          now_is.a, now_is.s, now_is.sa, now_is.sk, now_is.f, now_is.fr = s.attempt, p.started, s.attempt, token12, failures, nil
          now_is.er, now_is.at = s.error or e.er, e.at and slice(e.at, 1, #e.at)
          Job.add_attempt({ext = now_is}, p, S.now, 1, s.error)
          if bare then
            last_error, before, behind = s.error, around_due(now_is)
          end
          if bare and before and not is_same and not ex and not share and not o.li and not o.sc and o.uh ~= 0 and not s.span8 then
            same, same_tag, same_opts, same_queue, same_at = sub(raw, %REC_FLAGS%, #raw - Job.payload_bytes(raw, at, byte(raw, %REC_FLAGS%))), byte(raw), o, q, at
          end
          now_is.rd = first8
          record = '\%TAG_WAITING%' .. sub(raw, %REC_STAMP%) .. due8 .. sub(raw, %REC_TAIL%) .. with_length(now_is) .. sub(raw, at)
        end
        local n, k, kv, id = list.n + 1, 2 * list.n, list.kv, s.id
        list.n, list.ids[n], list.dues[n], list.records[n] = n, id, due, record
        if not is_same and (o.uh == 0 or e.l == 1 or share ~= nil or o.li ~= nil or o.sc ~= nil) then list.examined[n] = true end
        kv[k + 1], kv[k + 2] = id, record
        if leaves then Bundle.leave(id) end
        if share then
          list.shares[#list.shares + 1] = share
          Share.waits(list.r, share, s.id)
        end
        if o.li then list.limits[#list.limits + 1], list.limited[#list.limits + 1] = o.li, s.id end
        if due8 ~= same_due8 then same_due8, verdict = due8, '\0\1' .. due8 .. '\0\0' end
        left[#left + 1], out[i] = place, verdict
        if feeds then changed(id, q, SCHEDULED) end
        if is_same and before and s.error == last_error then
          i = wait_alike(list, items, raws, places, i + 1, same, same_tag, same_opts.rt, same_at, before, behind, left, out) - 1
        end
      end
    end
    i = i + 1
  end
  for _, one in ipairs(lists) do
    local r = one.r
    Records.set_many(one.kv)
    r.counts[ACTIVE] = r.counts[ACTIVE] - one.n
    if one.shares[1] then Share.freed_many(r, one.shares) end
    if one.limits[1] then Named.freed_many(r, one.limits, one.limited) end
    note(r, 4, one.n)
    Due.add_many(r, one.dues, one.ids, one.records, nil, one.examined)
  end
  return left, lists[1] and lists[1].r.name
end

end
