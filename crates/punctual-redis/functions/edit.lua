-- edit: cancel, reschedule, run now, reprioritise, redrive, delete, update of a payload; purge.
do

local DONE, CANCEL_REQUESTED, NOT_FOUND, JOB_ACTIVE, WRONG_STATE, UNIQUE_HELD, ALREADY = 0, 1, 2, 3, 4, 5, 6

-- Changes a pending job and puts it where it then belongs.
local function move(j, change)
  Place.out(j)
  change(j)
  Job.save(j)
  if j.opts.sc then Schedule.put(j) else Place.put(j) end
  return j.tag == %TAG_HELD% and HELD or j.due > S.now and SCHEDULED or READY
end

local function edit_tombstone(id, raw, action, dry)
  local state = byte(raw, %TOMB_STATE%) % 8
  if action == %EDIT_CANCEL% and state == CANCELLED then return ALREADY end
  if action ~= %EDIT_DELETE% then return WRONG_STATE, state end
  if not dry then
    Records.delete(id)
    Settled.reuse(id, raw)
  end
  return DONE, state
end

-- Lets a settled job run again, or wait for other jobs again.
function Edit.run_again(j, waits)
  local e = j.ext
  local never_ran = waits and not e.a -- it waits for all that it was sent with
  Settled.unkeep(j)
  if not e.rd then e.rd = j.due8 end
  j.tag = waits and %TAG_HELD% or %TAG_WAITING%
  if not never_ran or j.due < S.now then j.due8, j.due = u8(S.now), S.now end
  if Job.has_expired(j) then e.ex = '' end
  e.f, e.c, e.fi, e.er, e.re, e.dr, e.cr, e.cd, e.sp, e.fo = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
  if not never_ran then e.w = nil end
  Job.save(j)
  Unique.take(j)
  Place.watch_expiry(j)
  Place.put(j)
end

local function redrive(j, dry)
  local o, holder = j.opts, Unique.other(j)
  if holder then return UNIQUE_HELD, holder end
  local waits = o.fl and Flow.may_run_again(j)
  if o.fl and waits == nil then return WRONG_STATE, j.tag end
  if not dry then
    if o.fl then Flow.runs_again(j, false) end
    Edit.run_again(j, waits)
  end
  return DONE, waits and HELD or READY
end

local function set_due(j, due8)
  if not j.ext.rd then j.ext.rd = j.due8 end
  j.due8, j.due, j.ext.fr = due8, unp('>I8', due8), nil
  if j.tag == %TAG_PLAIN% then j.tag = %TAG_WAITING% end
end

-- Asks the worker of an active job to stop, once.
function Edit.ask_cancel(j, p)
  if j.ext.cr then return end
  j.ext.cr = 1
  if j.tag == %TAG_PLAIN% then j.tag = %TAG_WAITING% end
  Job.save(j)
  Lease.ask_cancel(p, j.id)
  changed(j.id, j.q, ACTIVE)
end

Edit.move, Edit.NOT_FOUND = move, NOT_FOUND

-- One job's edit; answers a verdict and a state or id.
function Edit.one(id, action, map, dry)
  local raw = Job.raw(id)
  if not raw then return NOT_FOUND end
  if byte(raw) >= %TAG_TOMBSTONE% then
    raw = Settled.tombstone(id, raw)
    if not raw or not Settled.tombstone_counts(raw) then return NOT_FOUND end
    return edit_tombstone(id, raw, action, dry)
  end
  local j = Job.parse(id, raw)
  if Settled.expire_if_late(j) then return Edit.one(id, action, map, dry) end
  local state, p = j.tag, nil
  if j.tag < %TAG_HELD% then
    p = j.due <= S.now and Lease.of(j) or nil
    state = p and ACTIVE or j.due > S.now and SCHEDULED or READY
  elseif j.tag == %TAG_HELD% then
    state = HELD
  end
  if action == %EDIT_SIGNAL% then return Edit.signal(j, state, map.na, map.p, dry) end
  if state == ACTIVE then
    if action ~= %EDIT_CANCEL% then return JOB_ACTIVE end
    if not dry then Edit.ask_cancel(j, p) end
    return CANCEL_REQUESTED
  end
  local pending = state < ACTIVE
  if action == %EDIT_CANCEL% and state == CANCELLED then return ALREADY end
  if action == %EDIT_CANCEL% and pending then
    if not dry then Settled.cancel_waiting(j, 0) end
    return DONE, CANCELLED
  elseif action == %EDIT_RESCHEDULE% and pending then
    local due8 = map.due8
    if dry then return DONE, j.tag == %TAG_HELD% and HELD or unp('>I8', due8) > S.now and SCHEDULED or READY end
    return DONE, move(j, function()
      set_due(j, due8)
      j.is_delayed = true
    end)
  elseif action == %EDIT_RUN_NOW% and pending and not j.ext.fo and not (j.opts.fl and Flow.holds(j)) then
    if not dry and state ~= READY then
      move(j, function()
        if j.due > S.now then set_due(j, u8(S.now)) end
        Settle.end_wait(j)
        j.tag, j.ext.w, j.ext.fr = %TAG_WAITING%, nil, nil
      end)
    end
    return DONE, READY
  elseif action == %EDIT_REPRIORITISE% and pending then
    if not dry then move(j, function() j.prio = map.v end) end
    return DONE, state
  elseif action == %EDIT_PAYLOAD% and pending then
    if not dry then move(j, function() Job.set_payload(j, map.p) end) end
    return DONE, state
  elseif action == %EDIT_REDRIVE% and state > ACTIVE then
    return redrive(j, dry)
  elseif action == %EDIT_DELETE% and state > ACTIVE then
    if not dry then
      Settled.unkeep(j)
      Job.drop(id)
    end
    return DONE, state
  end
  return WRONG_STATE, state
end

-- The ids of targets that are known at once, each once, and their places.
local function ids_of(targets)
  local fields, of, found, ids, at, seen = {}, {}, {}, {}, {}, {}
  for i, target in ipairs(targets) do
    if #target == 2 then fields[#fields + 1], of[#of + 1] = target[1] .. '\0' .. target[2], i end
  end
  local holders = get_many(S.k.u, fields)
  for k = 1, #fields do found[of[k]] = holders[k] end
  for i, target in ipairs(targets) do
    local id = #target == 1 and target[1] or found[i]
    local holder = id and sub(id, %ID_BYTES%)
    if id and #id == 16 and not seen[holder] then ids[#ids + 1], at[#at + 1] = id, i end
    if id then seen[holder] = true end -- a holder of more bytes has a period, or a follower
  end
  return ids, at
end

-- Cancels those of these targets together that are scheduled, of no group, and not to expire now;
-- ids of them by place.
local function cancel_together(targets)
  local ids, at = ids_of(targets)
  local done, leavers = {}, {}
  if #ids == 0 then return done end
  local by_keys, now, nothing = true, S.now, Job.NOTHING -- each is the holder that its key was asked for
  local function passes(k, r, raw, e, o, key, ex, share, flow)
    local place, id, due = at[k], ids[k], unp('>I8', raw, %REC_DUE_AT%)
    local target = targets[place]
    local wanted = target[2]
    if due <= now or o.mc ~= nil or o.sc or e ~= nothing and (e.ex or e.c) or ex and at8(ex) <= now then return false end
    if wanted and (wanted ~= key or target[1] ~= r.name) then return false end
    local leaving = leavers[r]
    if not leaving then
      leaving = Due.leavers()
      leavers[r] = leaving
    end
    if not Due.add_leaver(r, leaving, id, raw, due, e, o, share, flow) then return false end
    if share then Share.waits_no_more(r, share, id) end
    done[place], by_keys = id, by_keys and wanted ~= nil
    return true
  end
  local lists = Settled.gather(ids, Job.raws(ids), true, CANCELLED, nil, nil, passes)
  for _, list in ipairs(lists) do
    if list.n > 0 then
      list.are_held = by_keys
      Due.leave(list.r, leavers[list.r])
      Settled.many(list, {cd = 0, sp = 0})
    end
  end
  return done
end

-- Jobs that one call changes, or would, of those that it finds itself: each costs some ten
-- commands.
local CHANGES_MAX = 50

-- edit. Key: base. Argument: instance, map {t or f, cu, li, a, v, dk, p, d}. Reply: map {v, ex, ma,
-- cu, n, i}.
function Edit.call(base, blob)
  local map = Check.map('edit', blob)
  local action, dry = map.a or 0, map.d == 1
  if not map.t and not map.f then refuse('invalid_input', 'edit names no targets and no filter') end
  if action == %EDIT_RESCHEDULE% and map.v ~= nil and (type(map.v) ~= 'string' or #map.v ~= 8) then refuse('invalid_input', 'due is not of 8 bytes') end
  Shard.open(base, sub(blob, %CALL_INSTANCE%))
  local limit = min(Inspect.limit(map.li or CHANGES_MAX), CHANGES_MAX)
  if action == %EDIT_RESCHEDULE% then map.due8 = Enqueue.due_of(map.dk or 0, map.v or BELOW, u8(S.now), 0) end
  if action == %EDIT_REPRIORITISE% and not (type(map.v) == 'number' and map.v >= 0 and map.v <= %PRIORITY_MAX% and floor(map.v) == map.v) then
    refuse('invalid_input', '%TEXT_PRIORITY%')
  end
  if action == %EDIT_PAYLOAD% and (type(map.p) ~= 'string' or not map.t) then
    refuse('invalid_input', 'a payload update needs a payload and names its jobs')
  end
  if action == %EDIT_SIGNAL% then
    Check.key('name of the signal', map.na)
    if type(map.p) ~= 'string' or not map.t then refuse('invalid_input', 'a signal needs a payload and names its jobs') end
    if #map.p > %MEMO_BYTES_MAX% then refuse('payload_too_large', 'payload of the signal is over the limit; send a reference') end
  end
  Sweep.run()
  local out, examined, matched, cursor = {}, 0, 0, nil
  local function edit(id, i)
    local verdict, detail = NOT_FOUND, nil
    if id then verdict, detail = Edit.one(id, action, map, dry) end
    out[i] = {id or '', verdict, detail}
    return verdict ~= NOT_FOUND
  end
  local ok, refused = attempt(function()
    if map.t then
      local done = action == %EDIT_CANCEL% and not dry and cancel_together(map.t) or {}
      for i, target in ipairs(map.t) do
        if done[i] then
          out[i], matched = {done[i], DONE, CANCELLED}, matched + 1
        elseif edit(Inspect.resolve(target, true), i) then
          matched = matched + 1
        end
      end
      examined = #map.t
      return
    end
    local f, began, cu = map.f or {}, nil, map.cu
    if cu then
      if #cu < 8 then Inspect.bad_cursor() end
      began, cu = sub(cu, %INSTANT_BYTES%), sub(cu, %BEHIND_INSTANT%)
    end
    local moves = action == %EDIT_RESCHEDULE% or action == %EDIT_REPRIORITISE% -- would meet a job again, further on
    local by = f.q and f.s and not moves and 1 or 4
    local jobs
    jobs, examined, cursor = Inspect.find(by, f.q, f.s, nil, f, cu, limit, true)
    for _, found in ipairs(jobs) do
      local j = found[1]
      -- A schedule goes on when its next run is edited: the run after that is not of this edit.
      if not (began and j.opts.sc and not below(j.enq8, began)) then
        matched = matched + 1
        edit(j.id, matched)
      end
    end
    cursor = cursor and (began or u8(S.now)) .. cursor
  end)
  Shard.commit() -- what the sweep has moved too
  if not ok then error(refused) end
  return mp.pack({v = out, ex = examined, ma = matched, cu = cursor, n = S.now, i = M.instance})
end

end
