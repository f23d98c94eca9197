-- settle: jobs of a lease that ended alike, together, where they have to be looked at: those that
-- completed, and those that are to be retried.
do

-- The bytes of the verdict of a job that completed without effects.
local DONE = '\0' .. '\4' .. '\0\0\0\0\0\0\0\0' .. '\0\0'

-- Places as a list, of runs.
local function listed(runs)
  local places, n = {}, 0
  for k = 1, #runs, 2 do
    for place = runs[k], runs[k] + runs[k + 1] - 1 do
      n = n + 1
      places[n] = place
    end
  end
  return places
end

-- The places in a lease of n jobs, by their order: of each the first time that it is named.
local function places_of(p, ids, n)
  local places, hint, seen = {}, 1, {}
  for i = 1, n do
    local place = Lease.place(p, ids[i], hint)
    if place and not seen[place] then places[i], seen[place], hint = place, true, place + 1 end
  end
  return places
end

-- Settles those of these jobs of a lease as completed that can be settled together: by place what
-- each is in then, the queue of one, and how many. `results` by place, if there are any.
local function complete_together(p, ids, all, attempt, results)
  local runs = Lease.runs_of(p, all, #ids) -- mostly they are named in the order of the lease
  local places = not runs and places_of(p, ids, #ids)
  local said, n = {a = attempt, s = p.started, sa = attempt, sk = sub(p.token, %TOKEN_SEAL%)}, 0
  local lists, taken = Settled.gather(ids, Job.raws(ids), runs and true or places, COMPLETED, attempt, results)
  for _, list in ipairs(lists) do
    list.r.counts[ACTIVE] = list.r.counts[ACTIVE] - list.n
    if list.shares[1] then Share.freed_many(list.r, list.shares) end
    if list.limits[1] then Named.freed_many(list.r, list.limits, list.limited) end
    Settled.many(list, said)
    n = n + list.n
  end
  if n == #ids and runs then
    Lease.leave_runs(p, runs)
  elseif n > 0 then
    local left = {}
    places = places or listed(runs)
    for i = 1, #ids do if taken[i] then left[#left + 1] = places[i] end end
    Lease.leave(p, left)
  end
  return taken, lists[1] and lists[1].r.name, n
end

-- Settles those of these items together that completed, those of the attempt of the first; puts
-- their verdicts in `out`, and answers the queue of one.
function Settle.complete_some(p, items, out)
  local ids, at, results, attempt = {}, {}, nil, nil
  for i, s in ipairs(items) do
    if s.outcome == 'completed' and s.attempt == (attempt or s.attempt) and not s.effects and not s.error and not s.log then
      local k = #ids + 1
      ids[k], at[k], attempt = s.id, i, s.attempt
      if s.result then
        results = results or {}
        results[k] = s.result
      end
    end
  end
  if #ids < 2 then return nil end
  local taken, q = complete_together(p, ids, concat(ids), attempt, results)
  for k in pairs(taken) do out[at[k]] = DONE end
  return q
end

-- Lets those items of a lease wait together that are to be retried, as far as that is all that is
-- said of them.
function Settle.retry_some(p, items, out)
  local failed, at, ids, n = {}, {}, {}, 0
  for i, s in ipairs(items) do
    if s.outcome == 'retry' and not s.effects and not s.result and not s.log and not s.stopped then
      n = n + 1
      failed[n], at[n], ids[n] = s, i, s.id
    end
  end
  if n < 2 then return nil end
  local verdicts = {}
  local runs = Lease.runs_of(p, concat(ids), n)
  local left, q = Retry.together(p, failed, Job.raws(ids), runs and listed(runs) or places_of(p, ids, n), verdicts)
  for k, verdict in pairs(verdicts) do out[at[k]] = verdict end
  if #left > 0 then Lease.leave(p, left) end
  return q
end

-- Settles jobs of a lease that all completed, with nothing else to say, together where they can be;
-- puts the verdicts of those in `out`, and answers the queue of one, and whether that were all.
function Settle.complete_alike(p, report, out)
  local ids = cut_ids(report.ids, 1, report.n)
  local taken, q, n = complete_together(p, ids, report.ids, report.attempt)
  if n == report.n then return q, true end
  for i in pairs(taken) do out[i] = DONE end
  return q, false
end

Settle.DONE = DONE

end
