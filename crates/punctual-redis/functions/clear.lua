-- The effect that clears a name: held jobs that wait for nothing else take their places.
do

-- Clears a name that a held job waits for; one that waits for nothing more takes its place. Answers
-- whether the job is known here, by its tombstone too.
function Settle.clear(id, name)
  local raw = Job.raw(id)
  local j = raw and byte(raw) < %TAG_TOMBSTONE% and Job.parse(id, raw)
  if raw and not j then
    raw = Settled.tombstone(id, raw)
    return raw and Settled.tombstone_counts(raw)
  end
  if not j or j.tag ~= %TAG_HELD% or Settled.expire_if_late(j) then return raw and true end
  if Settle.holds(j) then
    Edit.signal(j, HELD, name, '', false)
    return true
  end
  local left, found = {}, false
  for _, waits in ipairs(j.ext.w or {}) do
    if waits == name then found = true else left[#left + 1] = waits end
  end
  if not found then return true end
  local runs = #left == 0 and not j.ext.fo and not (j.opts.fl and Flow.holds(j))
  if runs then Place.out(j) end
  j.ext.w = #left > 0 and left or nil
  if runs then j.tag = %TAG_WAITING% end
  Job.save(j)
  if runs then Place.put(j) end
  return true
end

-- The verdict of a clear.
local CLEARED = '\%VERDICT_CLEARED%\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

-- Whether effects clear names and do nothing else.
local function only_clears(effects)
  for _, effect in ipairs(effects) do
    if effect[1] ~= %EFFECT_CLEAR% and effect[1] ~= %EFFECT_CLEAR_ANYWHERE% then return false end
  end
  return true
end

-- Clears the name of held jobs that wait for nothing else, together: those of these effects that
-- are given for one job each, of no group and no share, that follows none and does not expire now.
-- By place whether it did.
function Settle.clear_together(effects)
  local ids, at, seen, done, lists, by_place = {}, {}, {}, {}, {}, {}
  if not only_clears(effects) then return done end
  for i, effect in ipairs(effects) do
    if effect[1] == %EFFECT_CLEAR% or effect[1] == %EFFECT_CLEAR_ANYWHERE% then
      local id = sub(effect[2], %ID_BYTES%)
      seen[id] = (seen[id] or 0) + 1
      ids[#ids + 1], at[#at + 1] = id, i
    end
  end
  if #ids < 2 then return done end
  local raws, list = Job.raws(ids), nil
  for k = 1, #ids do
    local id, raw = ids[k], raws[k]
    if raw and byte(raw) == %TAG_HELD% and seen[id] == 1 then
      local e, o, _, ex, group, q, _, from, flow, share = Job.parts(raw)
      local w = e.w or {}
      if #w == 1 and w[1] == sub(effects[at[k]][2], %CLEAR_NAME_AT%) and next(e, (next(e))) == nil and not group and not share and not o.li and not flow and o.mc == nil and not (ex and at8(ex) <= S.now) then
        local due, lane = at8(raw, %REC_DUE_AT%), byte(raw, %REC_PRIORITY%)
        local later = due > S.now
        if not list or list.r.name ~= q or list.later ~= later or not later and list.lane ~= lane then
          local place = q .. (later and '\0' or '\0' .. lane)
          list = by_place[place]
          if not list then
            list = {r = Row.of(q), lane = lane, later = later, n = 0, ids = {}, raws = {}, dues = {}, examined = {}, held = {}, kv = {}}
            lists[#lists + 1], by_place[place] = list, list
          end
        end
        local n = list.n + 1
        local now_is = '\%TAG_WAITING%' .. sub(raw, %REC_HEAD%) .. '%REC_NO_EXT%' .. sub(raw, from)
        list.n, list.ids[n], list.raws[n], list.dues[n], list.examined[n] = n, id, now_is, due, o.uh == 0
        list.held[n], list.kv[2 * n - 1], list.kv[2 * n] = sub(raw, %REC_STAMP%) .. sub(raw, %REC_IDX%) .. id, id, now_is
        done[at[k]] = true
        changed(id, q, later and SCHEDULED or READY)
      end
    end
  end
  for _, list in ipairs(lists) do
    local r, n = list.r, list.n
    call_many('ZREM', S.base .. ':h:' .. r.name, list.held)
    Records.set_many(list.kv)
    r.counts[HELD], r.rest = r.counts[HELD] - n, nil
    if list.later then
      Due.add_many(r, list.dues, list.ids, list.raws, nil, list.examined)
    else
      Line.up_many(r, list.lane, list.ids, list.raws)
      r.counts[READY] = r.counts[READY] + n
    end
  end
  return done
end

Settle.CLEARED = CLEARED

end
