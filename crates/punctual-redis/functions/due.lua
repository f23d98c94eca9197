-- What is to become due: `BASE:n:QUEUE`, a sorted set by due; members are seq 12 + id.
do


local function due_set(r) return S.base .. ':n:' .. r.name end

-- A queue's earliest due is at most that: sleepers with a later alarm must know.
function Due.head_at_most(r, due)
  if r.head == 0 or due < r.head then
    r.head, r.rest = due, nil
    duty_at('due', due)
    ring(r)
  end
end

function Due.add(r, j)
  call('ZADD', due_set(r), fmt('%.0f', j.due), Job.seq(j) .. j.id)
  r.c[SCHEDULED], r.rest = r.c[SCHEDULED] + 1, nil
  Due.head_at_most(r, j.due)
end

-- Looks the earliest due up again.
function Due.refresh(r)
  local first = call('ZRANGE', due_set(r), 0, 0, 'WITHSCORES')
  r.head, r.rest = first[2] and tonum(first[2]) or 0, nil
  if r.head > 0 then duty_at('due', r.head) end
end

-- Takes a job out; whether it was here.
function Due.remove(r, j)
  if r.c[SCHEDULED] == 0 or call('ZREM', due_set(r), Job.seq(j) .. j.id) == 0 then return false end
  r.c[SCHEDULED], r.rest = r.c[SCHEDULED] - 1, nil
  if j.due <= r.head then Due.refresh(r) end
  return true
end

-- Moves what is due to its line, by due and then by enqueue, at most so many; how many.
function Due.move(r, limit)
  local now = S.now
  if r.head == 0 or r.head > now then return 0 end
  r = Row.of(r.name)
  local found = call('ZRANGEBYSCORE', due_set(r), '-inf', fmt('%.0f', now), 'LIMIT', 0, limit)
  local ids, n = {}, #found
  for i = 1, n do ids[i] = sub(found[i], 13, 28) end
  local records = get_many(S.k.b, ids)
  local lists = {}
  for i = 1, n do
    local raw = records[i]
    local plain, in_order = byte(raw) == 1, true
    if not plain then
      local j = Job.parse(ids[i], raw)
      in_order = not (j.opts.g or j.ext.l or j.ext.fr or is_suspect(j))
      if not in_order then Line.up(r, j) end
    end
    if in_order then
      local lane, due8 = byte(raw, 30), sub(raw, 12, 19)
      local list = lists[lane]
      if not list then
        list = {ids = {}, kind = 2, size = 0, lo = due8}
        lists[lane] = list
      end
      list.ids[#list.ids + 1] = ids[i]
      list.size, list.hi = list.size + #raw, due8
      if not plain then list.kind = 0 end
    end
    changed(ids[i], r.name, READY)
  end
  for lane, list in pairs(lists) do Line.push(r, lane, list.ids, list.kind, list.size, list.lo, list.hi) end
  if n > 0 then
    call('ZREMRANGEBYRANK', due_set(r), 0, n - 1)
    r.c[SCHEDULED], r.c[READY] = r.c[SCHEDULED] - n, r.c[READY] + n
  end
  Due.refresh(r)
  return n
end

end
