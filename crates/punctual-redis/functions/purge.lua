-- purge: cancels what waits in a queue. Plain jobs go together, taken off the front of where they
-- stand: a call of many costs a few commands; others go one by one.
do

-- Jobs that one call cancels, and those of them that go one by one.
local PURGED_MAX, EACH_MAX = 250, 50

-- Cancels plain jobs that stand nowhere any more: ids and their records.
local function cancel_plain(r, ids, records)
  local n, now8, ext = #ids, u8(S.now), mp.pack({cd = 3, fi = S.now})
  local kv, order, bytes = {}, {}, 0
  local middle = pack('>I4', #ext) .. ext
  local finished = fmt('%d', S.now)
  for i = 1, n do
    local id, raw = ids[i], records[i]
    Bundle.leave(id)
    kv[2 * i - 1], kv[2 * i] = id, '\%TAG_CANCELLED%' .. sub(raw, %REC_HEAD%) .. middle .. sub(raw, %REC_BODY%)
    order[2 * i - 1], order[2 * i] = finished, sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. id
    bytes = bytes + Job.payload_bytes(raw, 32, byte(raw, %REC_FLAGS%)) + 256
    changed(id, r.name, CANCELLED)
  end
  Records.set_many(kv)
  call_many('ZADD', S.base .. ':k:5:' .. r.name, order)
  Settled.keeps(r.name, CANCELLED, S.now)
  if M.watch >= S.now then
    S.settled = S.settled or {}
    for i = 1, n do S.settled[#S.settled + 1] = ids[i] end
  end
  local all = concat(ids)
  Ends.completed(r, all, n, Ends.kinds(all, n, records), CANCELLED)
  note(r, 6, n)
  r.counts[CANCELLED], r.kept_bytes[CANCELLED], r.rest = r.counts[CANCELLED] + n, r.kept_bytes[CANCELLED] + bytes, nil
  Settled.bound_kept(bytes)
  Settled.forget_oldest(r, CANCELLED)
end

-- Options of which other keys know: expiry, unique key, group, share, limits, names to wait for,
-- history, crash limit, schedule, flow.
local ENTANGLED = {'ex', 'u', 'g', 'sh', 'li', 'w', 'hi', 'mc', 'sc', 'fl'}

local function is_entangled(bytes)
  local opts = mp.unpack(bytes)
  for _, name in ipairs(ENTANGLED) do
    if opts[name] ~= nil then return true end
  end
  return false
end

-- The record of a job that waits as it was sent, as a plain one (tag 1); it may have a retention.
-- nil for any other. `seen` caches by the bytes of options, which jobs of a queue mostly share.
local function as_plain(raw, seen)
  local flags = byte(raw, %REC_FLAGS%)
  if byte(raw) == %TAG_PLAIN% and flags % 4 < %SPEC_EXAMINED% then return raw end
  if byte(raw) ~= %TAG_WAITING% or sub(raw, %REC_BODY%, %REC_EXT%) ~= '%REC_NO_EXT%' then return nil end -- its ext is not empty
  local queue = %REC_EXT% + 1
  if %flags has SPEC_OPTS% then
    local at = queue + 1 + byte(raw, queue)
    at = at + 1 + byte(raw, at)
    local opts = sub(raw, at + 4, at + 3 + unp('>I4', raw, at))
    if seen[opts] == nil then seen[opts] = is_entangled(opts) end
    if seen[opts] then return nil end
  end
  return '\%TAG_PLAIN%' .. sub(raw, %REC_HEAD%) .. sub(raw, queue)
end

-- Takes plain jobs apart from others and from those that are gone.
local function apart(ids, records)
  local plain, raws, others, gone, seen = {}, {}, {}, 0, {}
  for i = 1, #ids do
    local raw = records[i]
    local simple = raw and as_plain(raw, seen)
    if not raw or byte(raw) > %TAG_WAITING% then
      gone = gone + 1
    elseif simple then
      plain[#plain + 1], raws[#raws + 1] = ids[i], simple
    else
      others[#others + 1] = ids[i]
    end
  end
  return plain, raws, others, gone
end

-- Whether a job is a run that its schedule enqueued since a purge began, as the run before was
-- purged: it is not of this purge.
local function is_later_run(j, began) return j.opts.sc and not below(j.enq8 .. j.sub2, began) end

-- Cancels scheduled jobs of the hot window, the earliest first; cold ones come there when it is
-- empty. How many were looked at, how many cancelled, and how many of the first ones stay.
local function scheduled(r, want, each, began, stay)
  if r.counts[SCHEDULED] == 0 then return 0, 0, stay end
  local key = S.base .. ':n:' .. r.name
  local members = call('ZRANGE', key, stay, stay + want - 1)
  while #members == 0 and r.cold > 0 and S.spread < 500 do
    Due.spread(r)
    members = call('ZRANGE', key, stay, stay + want - 1)
  end
  local ids, of = {}, {}
  for i, member in ipairs(members) do
    ids[i] = sub(member, %DUE_ENTRY_ID%)
    of[ids[i]] = member
  end
  local plain, raws, others, gone = apart(ids, Job.raws(ids))
  local out = {}
  for i, id in ipairs(plain) do out[i] = of[id] end
  local examined, matched = #plain + gone, #plain
  for i = 1, min(#others, each) do
    local j = Job.load(others[i])
    examined = examined + 1
    if is_later_run(j, began) then
      stay = stay + 1
    else
      matched = matched + 1
      Settled.cancel_waiting(j, 3)
    end
  end
  if gone > 0 then
    S.lost = true
    for _, id in ipairs(ids) do if not Job.raw(id) then out[#out + 1] = of[id] end end
  end
  local removed = call_many('ZREM', key, out)
  r.counts[SCHEDULED], r.rest = max(0, r.counts[SCHEDULED] - removed), nil
  if #plain > 0 then cancel_plain(r, plain, raws) end
  Due.refresh(r)
  return examined, matched, stay
end

-- Cancels jobs of the lists of a queue, lane by lane.
local function listed(r, want, each)
  for lane = 0, 9 do
    if (r.in_lists[lane] or 0) > 0 then
      local ids, records, stamps, n = Line.pop(r, lane, want)
      local plain, raws, others, gone = apart(ids, records)
      local at = 0
      for i = 1, #others do
        if i > each then -- stays where it was
          at = at + 1
        else
          local j = Job.load(others[i])
          r.counts[READY], j.ext.cd = r.counts[READY] - 1, 3
          Settled.as(j, CANCELLED)
        end
      end
      if at > 0 then
        local back, of, place = {}, {}, {}
        for i = 1, n do place[ids[i]] = i end
        for i = each + 1, #others do back[#back + 1], of[#of + 1] = others[i], stamps[place[others[i]]] end
        Line.unpop(r, lane, back, of, 1)
      end
      if gone > 0 then S.lost = true end
      r.counts[READY] = max(0, r.counts[READY] - #plain - gone)
      if #plain > 0 then cancel_plain(r, plain, raws) end
      if n > 0 then return n - at, n - at - gone end
    end
  end
  return 0, 0
end

-- Cancels pending jobs of a queue: held ones first, so that no follower starts, then scheduled
-- ones, then ready ones. The cursor says in which state it goes on, when the purge began (10), and
-- behind which one of those that are looked at where they stand: of scheduled ones, behind how many
-- (4). Answers examined, matched, cursor.
function Edit.purge(q, limit, cursor)
  local first, after, began = 1, nil, u8(S.now) .. S.sub
  if cursor then
    first, after = byte(cursor), #cursor > 11 and sub(cursor, %PURGE_PLACE_AT%) or nil
    if #cursor < 11 or first < 1 or first > 3 or first == 2 and #cursor ~= 15 then
      refuse('invalid_input', 'cursor is not of this request; start again without one')
    end
    began = sub(cursor, %PURGE_BEGAN%)
  end
  if not Row.find(q) then return 0, 0 end
  local r, examined, matched = Row.of(q), 0, 0
  local most, each = min(limit, PURGED_MAX), min(limit, EACH_MAX)
  for nth = first, 3 do
    if nth == 2 then
      local examined, gone, stay = scheduled(r, most, each, began, after and unp('>I4', after) or 0)
      if examined > 0 then return examined, gone, char(nth) .. began .. pack('>I4', stay) end
    elseif nth == 3 and not after then
      local examined, gone = listed(r, most, each)
      if examined > 0 then return examined, gone, char(nth) .. began end
    end
    -- Jobs that this call has moved are written before they are read.
    if nth == 3 and (S.changed_shares or S.changed_groups) then Share.flush() end
    if nth ~= 2 then -- one by one: held ones; of ready ones those out of order, and of groups
      local found = Inspect.by_state(r, nth == 1 and HELD or READY, after, each, true)
      for _, one in ipairs(found) do
        local j = one[1] and Job.load(one[1])
        if j and j.tag <= %TAG_HELD% then
          matched = matched + 1
          Settled.cancel_waiting(j, 3)
        elseif j == nil then
          S.lost = true
        end
      end
      examined = #found
      if examined > 0 then return examined, matched, char(nth) .. began .. found[examined][2] end
    end
    after = nil
  end
  return 0, 0
end

end
