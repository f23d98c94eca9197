-- Where a pending job stands: held, to become due, or in line; counted there.
do

local function held_set(r) return S.base .. ':h:' .. r.name end

-- Puts a pending job where it belongs. Its record is saved before.
function Place.put(j)
  local r = Row.of(j.q)
  if j.opts.sh then Share.waits(r, j.opts.sh, j.id) end
  if j.tag == %TAG_HELD% then
    call('ZADD', held_set(r), 0, Job.seq(j) .. j.id)
    r.counts[HELD], r.rest = r.counts[HELD] + 1, nil
    if j.opts.g then Group.waits(r, j.opts.g, Job.seq(j), j.id, true) end
    changed(j.id, j.q, HELD)
  elseif j.due > S.now then
    Due.add(r, j)
    if j.opts.g then Group.waits(r, j.opts.g, Job.seq(j), j.id, true) end
    changed(j.id, j.q, SCHEDULED)
  else
    Line.up(r, j)
    r.counts[READY] = r.counts[READY] + 1
    changed(j.id, j.q, READY)
  end
end

-- Takes a pending job out of where it stands; to be saved afterwards, if it lives on.
function Place.out(j)
  local r = Row.of(j.q)
  if j.opts.sh then Share.waits_no_more(r, j.opts.sh, j.id) end
  if j.tag == %TAG_HELD% then
    call('ZREM', held_set(r), Job.seq(j) .. j.id)
    r.counts[HELD], r.rest = r.counts[HELD] - 1, nil
    if j.opts.g then Group.waits(r, j.opts.g, Job.seq(j), j.id, false) end
  elseif Due.remove(r, j) then
    if j.opts.g then Group.waits(r, j.opts.g, Job.seq(j), j.id, false) end
  else -- a due job may not have been moved yet: where it lies decides
    Line.down(r, j)
    r.counts[READY] = r.counts[READY] - 1
  end
end

-- Remembers when a pending job expires.
function Place.watch_expiry(j)
  local at = Job.expires(j)
  if at then
    call('ZADD', S.k.xp, fmt('%d', at), j.id)
    schedule('expiry', at)
  end
end

function Place.forget_expiry(j)
  if j.opts.ex then call('ZREM', S.k.xp, j.id) end
end

end
