-- Unique keys: at most one unsettled job of a queue holds one. `BASE:u`: queue NUL key to
-- holder 16 [| until 8 [| follower 16]]; `BASE:up`: the ends of periods.
do


local REFRESHED = 9 -- a verdict

local function key_field(q, key) return q .. '\0' .. key end

local function put_holder(field, row)
  local more = row.follower and u8(row['until'] or 0) .. row.follower or row['until'] and u8(row['until']) or ''
  call('HSET', S.k.u, field, row.id .. more)
end

local function raw_holder(field)
  local raw = call('HGET', S.k.u, field)
  if not raw then return nil end
  local till = #raw > 16 and at8(raw, 17) or 0
  return {id = sub(raw, %ID_BYTES%), ['until'] = till > 0 and till or nil, follower = #raw > 24 and sub(raw, %UNIQUE_FOLLOWER%) or nil}
end

-- Lets a stored job hold its key.
function Unique.take(j)
  local o = j.opts
  if not o.u then return end
  local till = nil
  local field = key_field(j.q, o.u)
  if o.uh and o.uh > 0 then
    till = unp('>I8', j.ext.en or j.enq8) + o.uh - 1
    call('ZADD', S.k.up, fmt('%d', till), field)
    schedule('period', till)
  end
  put_holder(field, {id = j.id, ['until'] = till})
end

local function release_follower(id)
  local j = Job.load(id)
  if not j or not j.ext.fo then return end
  Place.out(j)
  j.ext.fo = nil
  if #(j.ext.w or {}) == 0 and not (j.opts.fl and Flow.holds(j)) then
    j.tag, j.ext.w = %TAG_WAITING%, nil
  end
  Job.save(j)
  Place.put(j)
end

-- Ends a holding, and its period if it has one: the key is the follower's, or free.
function Unique.end_period(field, row)
  if row['until'] then call('ZREM', S.k.up, field) end
  if row.follower then
    local j = Job.load(row.follower)
    if j then
      Unique.take(j)
      return release_follower(row.follower)
    end
  end
  call('HDEL', S.k.u, field)
end

-- Whether a job that is there holds a key: it has not settled, and its id is no other job's.
local function is_held_by(j, q, key) return j and j.tag <= %TAG_HELD% and j.q == q and j.opts.u == key end

-- Who holds a key now; one whose period or job has expired does not, nor one whose record is gone.
function Unique.holder(q, key)
  local field = key_field(q, key)
  local row = raw_holder(field)
  if not row then return nil end
  if row['until'] and row['until'] <= S.now then
    Unique.end_period(field, row)
    return Unique.holder(q, key)
  end
  local j = Job.load(row.id)
  if j and Settled.expire_if_late(j) then return raw_holder(field) end
  if not row['until'] and not is_held_by(j, q, key) then
    S.lost = true
    Unique.end_period(field, row)
    return Unique.holder(q, key)
  end
  return row
end

-- The id of another job that holds the unique key of this one; nil if none does.
function Unique.other(j)
  local holder = j.opts.u and Unique.holder(j.q, j.opts.u)
  if holder and holder.id ~= j.id then return holder.id end
end

-- What a read can say of it: the holder, though its job may have expired unswept.
function Unique.seen(q, key)
  local row = raw_holder(key_field(q, key))
  if row and not (row['until'] and row['until'] <= S.now) then return row end
end

-- Whether a job of that id is among the last that refreshed this one.
local function was_refreshed_by(j, id)
  local ids = j.ext.rf or ''
  for at = 1, #ids, 16 do if sub(ids, at, at + 15) == id then return true end end
  return false
end

-- The same for a job that refreshes: the last of holder and follower that waits serves for it.
local function refresh_verdict(j, active, holder, id)
  local follower = holder.follower and Job.load(holder.follower)
  if was_refreshed_by(j, id) then return REFRESHED, j.id end
  if follower and was_refreshed_by(follower, id) then return REFRESHED, follower.id end
  if active and not follower then return 'follows', j.id end
  return 'refreshes', follower or j
end

-- What an enqueue may do about its key: 'free', 'replaces' job, 'follows' id, 'refreshes' job, or a
-- verdict and an id.
function Unique.verdict(q, opts, id)
  local holder = Unique.holder(q, opts.u)
  if not holder then return 'free' end
  local j = Job.load(holder.id)
  if j and not (j.q == q and j.opts.u == opts.u) then j = nil end -- its id may since be another job's
  local policy = opts.up or 0
  local active = policy > 0 and j and j.tag < %TAG_HELD% and j.due <= S.now and Lease.of(j) ~= nil
  if policy == 3 and j and j.tag <= %TAG_HELD% then return refresh_verdict(j, active, holder, id) end
  if policy == 1 and active then return 5, holder.id end
  if policy == 1 and j and j.tag <= %TAG_HELD% then return 'replaces', j, holder end
  if policy == 2 and active and not holder.follower then return 'follows', holder.id end
  return 2, policy > 1 and holder.follower or holder.id
end

-- The opts of a job, as bytes, with the content type and headers of another; its flags then have
-- the number of that content type.
local function opts_of(j, new)
  local kept = j.sflags % %SPEC_CONTENT_TYPE%
  j.sflags = new.sflags - new.sflags % %SPEC_CONTENT_TYPE% + kept
  local front = 2 + byte(j.tail)
  front = front + byte(j.tail, front)
  if mp.pack({j.opts.ct, j.opts.hd}) == mp.pack({new.opts.ct, new.opts.hd}) then return sub(j.tail, front + 1, j.cut) end
  local opts = {}
  for name, value in pairs(j.opts) do opts[name] = value end
  opts.ct, opts.hd = new.opts.ct, new.opts.hd
  local bytes = mp.pack(opts)
  return pack('>I4', #bytes) .. bytes
end

-- Gives a waiting job the content of another, and its due unless it was claimed before. Its hash
-- stays: a resend is compared with what was sent first.
function Unique.refresh(j, new)
  local q = new.q
  local kind, opts, ids = new.kind == q and '' or new.kind, opts_of(j, new), j.ext.rf or ''
  local last = unp('>I8', j.ext.en or j.enq8) + (new.opts.um or 0)
  Edit.move(j, function()
    local front = char(#q) .. q .. char(#kind) .. kind .. opts
    j.tail, j.cut, j.payload, j.kind = front .. sub(new.tail, new.cut + 1), #front, new.payload, new.kind
    j.ext.rf = sub(ids .. new.id, -16 * 16)
    if (j.ext.a or 0) > 0 or j.opts.sc then return end
    j.ext.rd = j.ext.rd or j.due8
    j.due8 = last < new.due and u8(max(last, S.now)) or new.due8
    j.due = unp('>I8', j.due8)
    if j.tag == %TAG_PLAIN% then j.tag = %TAG_WAITING% end
  end)
end

function Unique.follow(q, key, follower)
  local field = key_field(q, key)
  local row = raw_holder(field)
  if row then
    row.follower = follower
    put_holder(field, row)
  end
end

-- The job has settled (or started, if it holds its key until then): its key is free, its follower
-- starts.
function Unique.free(j)
  if not j.opts.u then return end
  local field = key_field(j.q, j.opts.u)
  local row = raw_holder(field)
  if not row then return end
  if row.follower == j.id then
    row.follower = nil
    return put_holder(field, row)
  end
  if row.id ~= j.id then return end
  if row.follower then return Unique.end_period(field, row) end
  if row['until'] and row['until'] > S.now then return end
  Unique.end_period(field, row)
end

-- Frees the keys of jobs of a queue that have settled together: `fields` of `holders`. At once
-- those that no job waits for.
function Unique.free_many(list)
  local fields, ids, gone = list.fields, list.holders, {}
  local found = get_many(S.k.u, fields)
  for k = 1, #fields do
    if found[k] == ids[k] then
      gone[#gone + 1] = fields[k]
    elseif found[k] then
      Unique.free({id = ids[k], q = list.r.name, opts = {u = sub(fields[k], #list.r.name + 2)}})
    end
  end
  call_many('HDEL', S.k.u, gone)
end

-- Cancels a waiting holder, and its follower first, because another job takes the key.
function Unique.replace(j, holder)
  if holder.follower then
    local follower = Job.load(holder.follower)
    if follower then Settled.cancel_waiting(follower, 2) end
  end
  Settled.cancel_waiting(j, 2)
end

end
