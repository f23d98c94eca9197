-- Flows: rows of flows, links, edges and tasks, each read once a call and written with the commit.
-- `BASE:fl`: name to flow, version 1 | bits 1 (1 cancelled, 2 no step waits for another job, 4
-- again) | on_failure 1 | created, sealed, settled, until 8 each (0: none) | steps, open, completed,
-- skipped, cancelled, dead, planned 4 each | changes 6 | callbacks, role 1 | fired 1 | id 16 each;
-- with the bit of 4 behind their number 1, and then what retries keep.
-- `BASE:fk`: id of a job that waits or is a step to its link, version 1 | flags 1 | role 1 |
-- ended 1 (255: not) | number, unmet, broken, outside 4 each | sent 8 | due of the receipt 8 |
-- flow and step, each behind its length 1 | if flags say so, jobs outside of its flow that it waits
-- for: how many 1 | id 16 | how it must end and what has become of that 1, as in `BASE:fe:ID` |
-- result.
-- `BASE:fs:FLOW`: ids of steps in order. `BASE:fe:ID`: jobs that wait for that one to how it must
-- end + 3 * what has become of it. `BASE:fq:FLOW`: tasks, kind 1 | id 16; `BASE:fy`: flow NUL task
-- to how far it has come. `BASE:fn`: names; `BASE:ft`: flows by when something is to be done.
do

local FLOW, FLOW_BYTES = '>BBBI8I8I8I8I4I4I4I4I4I4I4I6', 69
local LINK, LINK_BYTES = '>BBBBI4I4I4I4c8c8', 36
local ROW_VERSION, CANCELLED, FLAT, AGAIN = 1, 1, 2, 4
local ON_FAILED, HAS_RESULT, WATCHED, SKIPPED, HAS_PARENTS, LOST, STILL = 1, 2, 4, 8, 16, 32, 255
local function bit(flags, one) return floor(flags / one) % 2 > 0 end

local function edges_key(id) return S.base .. ':fe:' .. id end
local function steps_key(name) return S.base .. ':fs:' .. name end
local function tasks_key(name) return S.base .. ':fq:' .. name end

-- What this call knows of flows, and is to write.
local function known()
  local all = S.flows
  if not all then
    all = {rows = {}, links = {}, changed_rows = {}, changed_links = {}, raw_links = {}, steps = {}, edges = {}, tasks = {}, queue = {}, ends = {}, first = 1, new_tasks = {}}
    S.flows = all
  end
  return all
end
Flow.known = known

local function read_row(name, raw)
  local row = {name = name, callbacks = {}}
  local version, bits
  version, bits, row.on_failure, row.created, row.sealed, row.settled, row.till, row.steps, row.open, row.completed, row.skipped, row.cancelled_steps,
    row.dead, row.planned, row.changes = unp(FLOW, raw)
  if version > ROW_VERSION then refuse_later('a flow') end
  row.cancelled, row.is_flat = bit(bits, CANCELLED), bit(bits, FLAT)
  local first, till = FLOW_BYTES + 1, #raw
  if bit(bits, AGAIN) then
    first, till = first + 1, first + 18 * byte(raw, first)
    row.again = mp.unpack(sub(raw, till + 1))
  end
  for at = first, till, 18 do
    row.callbacks[#row.callbacks + 1] = {role = byte(raw, at), fired = byte(raw, at + 1) == 1, id = sub(raw, at + 2, at + 17)}
  end
  return row
end

local function write_row(row)
  local again = row.again and next_of(row.again) ~= nil and row.again
  local bits = (row.cancelled and CANCELLED or 0) + (row.is_flat and FLAT or 0) + (again and AGAIN or 0)
  local out = {pack(FLOW, ROW_VERSION, bits, row.on_failure, row.created, row.sealed, row.settled, row.till, row.steps, row.open, row.completed,
    row.skipped, row.cancelled_steps, row.dead, row.planned, row.changes)}
  if again then out[2] = char(#row.callbacks) end
  for _, one in ipairs(row.callbacks) do out[#out + 1] = char(one.role, one.fired and 1 or 0) .. one.id end
  if again then out[#out + 1] = mp.pack(again) end
  return concat(out)
end

-- A flow by its name; false if there is none.
function Flow.row(name)
  local rows = known().rows
  local row = rows[name]
  if row == nil then
    local raw = name ~= '' and call('HGET', S.k.fl, name)
    row = raw and read_row(name, raw)
    rows[name] = row
  end
  return row
end

function Flow.new_row(name)
  local row = {name = name, on_failure = 0, created = S.now, sealed = 0, settled = 0, till = 0, steps = 0, open = 0, completed = 0, skipped = 0,
    cancelled_steps = 0, dead = 0, planned = 0, changes = 0, callbacks = {}, is_flat = true, is_new = true}
  known().rows[name] = row
  return row
end

-- What the retries of a flow keep: `lo` steps that were to run again and could not, and are counted
-- as cancelled; `cl` while it was done, one was to run again and could not, which counts once the
-- flow goes on; `rd` steps before this number are not read by the retry that goes on; and what that
-- one could not run again, without the steps that it reads itself.
function Flow.again(row)
  row.again = row.again or {}
  return row.again
end

-- Steps that could not run again, to which so many come.
function Flow.add_lost(row, n)
  local again = Flow.again(row)
  local lost = max(0, (again.lo or 0) + n)
  again.lo = lost > 0 and lost or nil
end

-- How many steps failed or were cancelled, without those that a retry could not run.
function Flow.failures(row) return row.dead + row.cancelled_steps - (row.again and row.again.lo or 0) end

-- A row is to be written.
function Flow.changed(row) known().changed_rows[row.name] = row end

-- Whether its steps may run; whether it is yet to be sealed, so that nothing of it goes on.
function Flow.runs(row) return row.sealed > 0 and not row.cancelled end
function Flow.is_open(row) return row and row.sealed == 0 and not row.cancelled end

local function read_link(id, raw)
  local link = {id = id}
  local version, flags, ended
  version, flags, link.role, ended, link.number, link.unmet, link.broken, link.outside, link.sent, link.due8 = unp(LINK, raw)
  if version ~= ROW_VERSION then refuse_later('a link') end
  local fl = byte(raw, LINK_BYTES + 1)
  local sl = byte(raw, LINK_BYTES + 2 + fl)
  local at = LINK_BYTES + 3 + fl
  link.flow, link.step = sub(raw, LINK_BYTES + 2, at - 2), sub(raw, at, at + sl - 1)
  link.on_failed, link.watched = bit(flags, ON_FAILED), bit(flags, WATCHED)
  at = at + sl
  if bit(flags, HAS_PARENTS) then
    local till = at + 17 * byte(raw, at)
    link.parents = sub(raw, at + 1, till)
    at = till + 1
  end
  if bit(flags, HAS_RESULT) then link.result = sub(raw, at) end
  if ended ~= STILL then link.ended, link.skipped, link.lost = ended, bit(flags, SKIPPED), bit(flags, LOST) end
  return link
end

local function write_link(link)
  local flags = (link.on_failed and ON_FAILED or 0) + (link.result and HAS_RESULT or 0) + (link.watched and WATCHED or 0) + (link.skipped and SKIPPED or 0)
    + (link.parents and HAS_PARENTS or 0) + (link.lost and LOST or 0)
  local parents = link.parents and char(#link.parents / 17) .. link.parents or ''
  return pack(LINK, ROW_VERSION, flags, link.role, link.ended or STILL, link.number, link.unmet, link.broken, link.outside, link.sent, link.due8)
    .. char(#link.flow) .. link.flow .. char(#link.step) .. link.step .. parents .. (link.result or '')
end

-- The link of a job; false if it has none. In `links` they are tables, or bytes that no caller has
-- looked into.
function Flow.link(id)
  local links = known().links
  local link = links[id]
  if link == nil then link = call('HGET', S.k.fk, id) end
  if type(link) == 'string' then link = read_link(id, link) end
  links[id] = link
  return link
end

-- Keeps what has become of the edge from a job outside of the flow, if the link names that job.
function Flow.note_parent(link, from, is)
  local parents = link.parents
  for at = 1, #(parents or ''), 17 do
    if sub(parents, at, at + 15) == from then
      link.parents = sub(parents, 1, at + 15) .. char(byte(parents, at + 16) % 3 + 3 * is) .. sub(parents, at + 17)
    end
  end
end

-- Reads links of many jobs with one command.
function Flow.read_links(ids)
  local links, asked = known().links, {}
  for i = 1, #ids do
    if links[ids[i]] == nil then asked[#asked + 1] = ids[i] end
  end
  local raws = get_many(S.k.fk, asked)
  for i = 1, #asked do links[asked[i]] = raws[i] end
end

-- Keeps the bytes of a link; they are written before links that are tables.
local function put_raw(all, id, raw)
  local list = all.raw_links
  local n = #list
  all.links[id], list[n + 1], list[n + 2] = raw, id, raw
  if all.changed_links[id] ~= nil then all.changed_links[id] = nil end
end

local ended_heads = {} -- what a link begins with that has ended so, by flags and state

-- Lets a step end that no other job waits for, by its bytes as they were read: the name of its
-- flow; nil if its link is to be looked into.
function Flow.end_unwatched(all, id, state, result)
  local raw = all.links[id]
  if type(raw) ~= 'string' then return nil end
  local version, flags, role, ended = byte(raw, %LINK_FRONT%)
  if version ~= ROW_VERSION or flags > ON_FAILED or role > 0 or ended ~= STILL then return nil end
  local length = byte(raw, LINK_BYTES + 1)
  if length == 0 then return nil end
  if result then flags = flags + HAS_RESULT end
  local head = ended_heads[8 * flags + state]
  if not head then
    head = char(ROW_VERSION, flags, role, state)
    ended_heads[8 * flags + state] = head
  end
  put_raw(all, id, result and head .. sub(raw, %LINK_REST_AT%) .. result or head .. sub(raw, %LINK_REST_AT%))
  return sub(raw, LINK_BYTES + 2, LINK_BYTES + 1 + length)
end

-- Whether a step waits for nothing: true or false by its bytes; nil if its link is to be looked
-- into.
function Flow.is_free(id)
  local raw = known().links[id]
  if type(raw) ~= 'string' then return nil end
  local role, ended = byte(raw, %LINK_ROLE_ENDED%)
  return role == 0 and ended == STILL and sub(raw, %LINK_WAITS%) == BELOW or nil
end

local new_name, new_flow -- of the link that was made last: most of a call are of one flow

-- Keeps the link of a new step that waits for nothing; it comes last in its flow.
function Flow.put_new(all, id, name, step, number, sent, due8)
  if name ~= new_name then new_name, new_flow = name, char(#name) .. name end
  put_raw(all, id, '\1\0\0\255' .. pack('>I4', number) .. '\0\0\0\0\0\0\0\0\0\0\0\0' .. sent .. due8 .. new_flow .. char(#step) .. step)
  local list = all.steps[name]
  if list then list[#list + 1] = id else all.steps[name] = {id} end
end

function Flow.put_link(link)
  local all = known()
  all.links[link.id], all.changed_links[link.id] = link, link
end

function Flow.drop_link(id)
  local all = known()
  all.links[id], all.changed_links[id] = false, false
end

-- A step comes last in its flow.
function Flow.append_step(name, id)
  local steps = known().steps
  local list = steps[name]
  if not list then
    list = {}
    steps[name] = list
  end
  list[#list + 1] = id
end

-- The ids of steps from a number on.
function Flow.steps_from(name, number, limit)
  Flow.flush_steps()
  local ids = call('GETRANGE', steps_key(name), 16 * number, 16 * (number + limit) - 1)
  return cut_ids(ids, 1, floor(#ids / 16))
end

function Flow.flush_steps()
  local steps = known().steps
  known().steps = {}
  for name, list in pairs(steps) do call('APPEND', steps_key(name), concat(list)) end
end

-- What has become of an edge: it waits, is met, or is broken.
Flow.WAITING, Flow.MET, Flow.BROKEN = 0, 1, 2

-- One job waits for another.
function Flow.put_edge(from, to, on, is)
  local edges = known().edges
  local list = edges[from]
  if not list then
    list = {}
    edges[from] = list
  end
  list[#list + 1], list[#list + 2] = to, char(on + 3 * is)
end

function Flow.flush_edges()
  local edges = known().edges
  if next_of(edges) == nil then return end
  known().edges = {}
  for from, list in pairs(edges) do call_many('HSET', edges_key(from), list) end
end

-- How one job waits for another, and what has become of that; nil if it does not.
function Flow.edge(from, to)
  Flow.flush_edges()
  local raw = call('HGET', edges_key(from), to)
  if raw then return byte(raw) % 3, floor(byte(raw) / 3) end
end

-- About as many of those that wait for a job, from a cursor on: each with how and what has become
-- of it; and the next cursor, nil at the end.
function Flow.edges_of(from, cursor, limit)
  Flow.flush_edges()
  local answer, out = call('HSCAN', edges_key(from), cursor or '0', 'COUNT', max(1, limit)), {}
  local found = answer[2]
  for i = 1, #found, 2 do
    local how = byte(found[i + 1])
    out[#out + 1] = {found[i], how % 3, floor(how / 3)}
  end
  return out, answer[1] ~= '0' and answer[1] or nil
end

function Flow.drop_edge(from, to) call('HDEL', edges_key(from), to) end

-- Forgets those that wait for a job, about as many; how many, and whether none is left.
function Flow.drop_edges(from, limit)
  Flow.flush_edges()
  local key = edges_key(from)
  local n = call('HLEN', key)
  if n <= limit then
    if n > 0 then call('DEL', key) end
    return n, true
  end
  local found, gone = call('HSCAN', key, '0', 'COUNT', limit)[2], {}
  for i = 1, #found, 2 do gone[#gone + 1] = found[i] end
  call_many('HDEL', key, gone)
  return #gone, #gone >= n
end

-- Whether tasks of a flow are left.
function Flow.has_tasks(name)
  local tasks = known().tasks
  if tasks[name] == nil then tasks[name] = call('EXISTS', tasks_key(name)) == 1 end
  return tasks[name]
end

-- Something is to be done for a flow at that instant, or nothing (0).
function Flow.check_at(name, at)
  if at > 0 then
    call('ZADD', S.k.ft, fmt('%d', at), name)
    schedule('kept', at)
  else
    call('ZREM', S.k.ft, name)
  end
end

-- Flows with tasks stand there by their last turn, in milliseconds: always past, also after engine
-- time was set back.
function Flow.turn() return floor(S.now / 1000) end

-- A task of a flow: its `todo` says how far it has come.
function Flow.add_task(name, kind, id, todo)
  local all, had = known(), Flow.has_tasks(name)
  local member = char(kind) .. id
  call('ZADD', tasks_key(name), 0, member)
  call('HSET', S.k.fy, name .. '\0' .. member, mp.pack(todo))
  all.tasks[name] = true
  -- What waited for the seal is done with it, or with the cancel.
  if not had or kind == Flow.START or kind == Flow.CANCEL then all.new_tasks[#all.new_tasks + 1] = name end
  if not Flow.is_open(Flow.row(name)) then
    call('ZADD', S.k.ft, 'LT', fmt('%d', Flow.turn()), name)
    schedule('kept', S.now)
  end
end

function Flow.drop_task(name, kind, id)
  if not Flow.has_tasks(name) then return end
  local member = char(kind) .. id
  call('ZREM', tasks_key(name), member)
  call('HDEL', S.k.fy, name .. '\0' .. member)
  known().tasks[name] = nil
end

-- The first task of a flow: its kind, id, and how far it has come; nil if there is none.
function Flow.first_task(name)
  if not Flow.has_tasks(name) then return nil end
  local member = call('ZRANGE', tasks_key(name), 0, 0)[1]
  if not member then return nil end
  local raw = call('HGET', S.k.fy, name .. '\0' .. member)
  return byte(member), sub(member, 2), raw and mp.unpack(raw) or {}
end

-- A task has come that far.
function Flow.keep_task(name, kind, id, todo) call('HSET', S.k.fy, name .. '\0' .. char(kind) .. id, mp.pack(todo)) end

-- Whether a flow has a task of that kind.
function Flow.has_task(name, kind)
  return Flow.has_tasks(name) and #call('ZRANGEBYLEX', tasks_key(name), '[' .. char(kind), '(' .. char(kind + 1), 'LIMIT', 0, 1) > 0
end

-- A flow is gone.
function Flow.forget_row(name)
  local all = known()
  all.rows[name], all.changed_rows[name] = false, nil
  call('HDEL', S.k.fl, name)
  call('ZREM', S.k.fn, name)
  call('DEL', steps_key(name))
end

-- Writes what has changed.
function Flow.flush()
  local all = known()
  Flow.flush_steps()
  Flow.flush_edges()
  local kv, gone = all.raw_links, {}
  for id, link in pairs(all.changed_links) do
    if link then kv[#kv + 1], kv[#kv + 2] = id, write_link(link) else gone[#gone + 1] = id end
  end
  call_many('HSET', S.k.fk, kv)
  call_many('HDEL', S.k.fk, gone)
  kv = {}
  for name, row in pairs(all.changed_rows) do
    kv[#kv + 1], kv[#kv + 2] = name, write_row(row)
    if row.is_new then
      call('ZADD', S.k.fn, 0, name)
      row.is_new = nil
    end
  end
  call_many('HSET', S.k.fl, kv)
  all.raw_links, all.changed_links, all.changed_rows = {}, {}, {}
end

end
