-- One job in hand. A record's bytes: tag 1 | enqueued 2-9 | sub 10-11 | due 12-19 | hash 20-27 |
-- idx 28-29 | priority 30 | sflags 31 | [elen, ext] | qlen, queue | klen, kind | [olen, opts] |
-- payload.

local HELD, SCHEDULED, READY, ACTIVE, COMPLETED, CANCELLED, DEAD = 0, 1, 2, 3, 4, 5, 6

-- The queue of a record without an ext.
local function queue_of_spec(raw)
  return sub(raw, %REC_QUEUE%, %REC_BODY% + byte(raw, %REC_BODY%))
end

local function refuse_tag()
  refuse('data_damaged', 'a record has a tag that this library does not know; use a newer one')
end

-- Refuses what is there under an id if this library does not know.
function Job.check(raw)
  if raw and byte(raw) > %TAG_BUNDLE_REF% then refuse_tag() end
end

-- Takes a record apart.
function Job.parse(id, raw)
  local tag = byte(raw)
  if tag > %TAG_DEAD% then refuse_tag() end
  local j = {id = id, tag = tag, enq8 = sub(raw, %REC_ENQUEUED%), sub2 = sub(raw, %REC_SUB%), due8 = sub(raw, %REC_DUE%),
    hash = sub(raw, %REC_HASH%), idx2 = sub(raw, %REC_IDX%), prio = byte(raw, %REC_PRIORITY%), sflags = byte(raw, %REC_FLAGS%)}
  local at = %REC_BODY%
  if tag > %TAG_PLAIN% then
    local length = unp('>I4', raw, %REC_BODY%)
    j.ext = length > 0 and mp.unpack(sub(raw, %REC_EXT%, 35 + length)) or {}
    at = %REC_EXT% + length
  else
    j.ext = {}
  end
  j.tail = sub(raw, at)
  local ql = byte(raw, at)
  j.q = sub(raw, at + 1, at + ql)
  local kl = byte(raw, at + ql + 1)
  j.kind = kl > 0 and sub(raw, at + ql + 2, at + ql + 1 + kl) or j.q
  at = at + ql + 2 + kl
  if %j.sflags has SPEC_OPTS% then
    local length = unp('>I4', raw, at)
    j.opts = mp.unpack(sub(raw, at + 4, at + 3 + length))
    at = at + 4 + length
  else
    j.opts = {}
  end
  j.payload = #raw - at + 1
  j.due = unp('>I8', j.due8)
  j.size, j.cut = #raw, #j.tail - j.payload
  return j
end

Job.CONTENT_TYPES = {%CONTENT_TYPES%}

-- The content type that a job was sent with; nil for the default.
function Job.content_type(j)
  return j.opts.ct or Job.CONTENT_TYPES[floor(j.sflags / %SPEC_CONTENT_TYPE%)]
end

-- The number of a content type, as flags have it; nil if it has none.
function Job.content_type_flags(name)
  for i = 1, #Job.CONTENT_TYPES do
    if Job.CONTENT_TYPES[i] == name then return i * %SPEC_CONTENT_TYPE% end
  end
end

-- Bytes of the payload of a record whose queue's length stands at a place.
function Job.payload_bytes(raw, at, sflags)
  at = at + 1 + byte(raw, at)
  at = at + 1 + byte(raw, at)
  if %sflags has SPEC_OPTS% then at = at + 4 + unp('>I4', raw, at) end
  return #raw - at + 1
end

-- Gives a job another payload. Its hash stays: a resend is compared with what was sent first.
function Job.set_payload(j, payload)
  j.tail, j.payload = sub(j.tail, 1, j.cut) .. payload, #payload
end

local function due_from(j, now)
  j.due = now
  j.due8 = u8(now)
end

-- The bytes of a job; with an ext unless it stands as it was sent.
function Job.bytes(j, without_payload)
  local tail = without_payload and sub(j.tail, 1, j.cut) or j.tail
  local head = j.enq8 .. j.sub2 .. j.due8 .. j.hash .. j.idx2 .. char(j.prio, j.sflags)
  local bare = next(j.ext) == nil
  if j.tag == %TAG_PLAIN% and bare and not (%j.sflags has SPEC_EXAMINED%) then return '\%TAG_PLAIN%' .. head .. tail end
  if j.tag == %TAG_PLAIN% then j.tag = %TAG_WAITING% end
  local ext = bare and '\128' or mp.pack(j.ext)
  return char(j.tag) .. head .. pack('>I4', #ext) .. ext .. tail
end

local NOTHING = {} -- an ext, or opts, with nothing in it; it never changes
local last_front, last_queue, last_kind = '\0', '', '' -- of the record that was taken apart last: most are of one queue

-- Where a text of at most 255 bytes ends that begins at a place; nil if there is none.
local function end_of_text(bytes, at)
  local head, length = byte(bytes, at, at + 1)
  if not head then return nil end
  if head == 217 then return at + 1 + (length or 0) end
  return head >= 160 and head < 192 and at + head - 160 or nil
end

local flow_front, flow_rest, flow_head, flow_from = nil, '', 0, 0 -- of the opts of a step that were taken apart last

-- Keeps what the opts of the other steps of a flow begin with, up to the name of the flow.
local function keep_flow(bytes, from, start, head, rest)
  local till = end_of_text(bytes, start + 1)
  flow_front, flow_rest, flow_head, flow_from = sub(bytes, from, till), rest, head, start - from
end

-- The place in a flow that opts have which differ from those before only in the name of the step;
-- nothing if it is not known.
local function next_step(bytes, from, last)
  local till = from + #flow_front - 1
  if sub(bytes, from, till) ~= flow_front then return nil end
  local step = byte(bytes, till + 1) or 0
  if step < 160 or step > 191 then return nil end
  local ends = till + step - 159
  if ends > last or sub(bytes, ends + 1, last) ~= flow_rest then return nil end
  return sub(bytes, from + flow_from, ends)
end

-- Opts as most jobs have them, in bytes from a place on: an instant of expiry, a unique key, a
-- group, the place in a flow and a share, if there are any, in this order, and then what many jobs
-- have alike. Answers the head and the rest of a map without the five, and these; nothing if they
-- begin otherwise.
function Job.split_opts(bytes, from, last)
  local step = flow_front and next_step(bytes, from, last)
  if step then return flow_head, flow_rest, nil, nil, nil, step end
  local head, a, b, c, d = byte(bytes, from, from + 4)
  if not c or head < 128 or head > 143 or from + 3 > last then return nil end
  local at, key, ex, group = from + 1, nil, nil, nil
  if a == 162 and b == 101 and c == 120 and d == 168 then -- ex, 8 bytes
    ex, at, head = sub(bytes, from + 5, from + 12), from + 13, head - 1
    a, b, c, d = byte(bytes, at, at + 3)
  end
  if a == 161 and b == 117 then -- u
    local start, n = at + 3, (c or 0) - 160
    if c == 217 then
      start, n = at + 4, d or 0
    elseif n < 0 or n > 31 then
      return nil
    end
    at, head = start + n, head - 1
    key = sub(bytes, start, at - 1)
    a, b, c, d = byte(bytes, at, at + 3)
  end
  if a == 161 and b == 103 then -- g
    local start, n = at + 3, (c or 0) - 160
    if c == 217 then
      start, n = at + 4, d or 0
    elseif n < 0 or n > 31 then
      return nil
    end
    at, head = start + n, head - 1
    group = sub(bytes, start, at - 1)
    a, b, c, d = byte(bytes, at, at + 3)
  end
  local flow, of_flow
  if a == 162 and b == 102 and c == 108 then -- fl, a list of none or two texts
    local start, ends = at + 3, at + 3
    for _ = 1, (d or 0) - 144 do ends = ends and end_of_text(bytes, ends + 1) end
    if not ends or d ~= 144 and d ~= 146 then return nil end
    at, head, flow, of_flow = ends + 1, head - 1, sub(bytes, start, ends), d == 146 and start
    a, b, c = byte(bytes, at, at + 2)
  end
  local share
  if a == 162 and b == 115 and c == 104 then -- sh, a text of at most 256 bytes
    local kind, high, low = byte(bytes, at + 3, at + 5)
    local start, n = at + 4, (kind or 0) - 160
    if kind == 217 then
      start, n = at + 5, high or 0
    elseif kind == 218 then
      start, n = at + 6, (high or 0) * 256 + (low or 0)
    elseif n < 0 or n > 31 then
      return nil
    end
    at, head = start + n, head - 1
    share = sub(bytes, start, at - 1)
  end
  if at > last + 1 or head < 128 then return nil end
  local rest = sub(bytes, at, last)
  if of_flow and not key and not ex and not group and not share then keep_flow(bytes, from, of_flow, head, rest) end
  return head, rest, key, ex, group, flow, share
end

local named_front, named_flow = '\0', '' -- of the names that were read last: most are of one flow

-- The names of flow and step that opts have, a list or its bytes.
function Job.names(flow)
  if type(flow) == 'table' then return flow[1] or '', flow[2] or '' end
  if #flow == 1 then return '', '' end
  local first = #named_front
  if sub(flow, 1, first) ~= named_front then
    first = end_of_text(flow, 2)
    named_front, named_flow = sub(flow, 1, first), sub(flow, byte(flow, 2) == 217 and 4 or 3, first)
  end
  return named_flow, sub(flow, byte(flow, first + 1) == 217 and first + 3 or first + 2)
end

local TAGS = {u = '\161u', g = '\161g', ex = '\162ex', sh = '\162sh', fl = '\162fl'}

-- What jobs look like that differ from one only in the value of its key, group, expiry or share, or
-- in the name of a step of the same flow (`flow`), of which it has one or none: their bytes from a
-- place on up to that value (`front`) and behind it (`rest`), its name and length, and the length
-- of all. `opts` is where the map begins in the bytes, `last` where it ends. Nothing if it is not
-- known by its place.
function Job.shape(bytes, from, opts, last, key, ex, group, share, flow)
  local name = key and 'u' or group and 'g' or ex and 'ex' or share and 'sh' or flow and 'fl'
  local value, start, of_flow = key or group or ex or share or '', last + 1, nil
  if name then
    if (key and 1 or 0) + (group and 1 or 0) + (ex and 1 or 0) + (share and 1 or 0) + (flow and 1 or 0) > 1 then return nil end
    start = opts + 2 + #TAGS[name]
    if flow then
      if type(flow) ~= 'string' then return nil end -- opts in another order
      of_flow, value = Job.names(flow)
      start = start + #flow - #value - 1
      if value == '' or byte(bytes, start - 1) ~= 160 + #value then return nil end
    end
    if #value > 31 or sub(bytes, opts + 1, opts + #TAGS[name]) ~= TAGS[name] or sub(bytes, start, start + #value - 1) ~= value then return nil end
  end
  return {front = sub(bytes, from, start - 1), rest = sub(bytes, start + #value, last), name = name, length = #value, start = start - from,
    all = last + 1 - from, flow = of_flow}
end

-- The value of the same in other bytes from a place on, if these look so.
function Job.value_in(shape, bytes, from)
  local start, rest = from + shape.start, shape.rest
  if sub(bytes, from, start - 1) ~= shape.front then return nil end
  local last = start + shape.length
  if rest ~= '' and sub(bytes, last, from + shape.all - 1) ~= rest then return nil end
  return sub(bytes, start, last - 1)
end

-- Whether other bytes from a place on look so, whatever their value is.
function Job.is_of_shape(shape, bytes, from)
  local start, rest = from + shape.start, shape.rest
  return sub(bytes, from, start - 1) == shape.front and (rest == '' or sub(bytes, start + shape.length, from + shape.all - 1) == rest)
end

-- Keeps a shape, if it is one, with its opts, beside others of a call: the last one, and by the
-- byte before the value, which is mostly its length.
function Job.keep_shape(alike, shape, opts, bytes, from)
  if not shape then return alike end
  alike = alike or {by = {}, at = shape.start - 1}
  shape.opts, alike.last, alike.by[byte(bytes, from + alike.at) or 0] = opts, shape, shape
  return alike
end

-- The same of bytes up to `last` that are not of the last shape: the one of theirs that was kept,
-- and their value; nothing if there is none.
function Job.of_another_shape(alike, bytes, from, last)
  local shape = alike.by[byte(bytes, from + alike.at)]
  if not shape or shape == alike.last or from - 1 + shape.all > last then return nil end
  local value = Job.value_in(shape, bytes, from)
  if value then alike.last = shape end
  return value and shape, value
end

local rests, rest_count = {}, 0 -- those that were read last, by head and bytes
for head = 128, 143 do rests[head] = {} end

local last_opts, last_map = '', nil -- the last that had no value of their own: most of a call are the same

-- Opts of a record from a place on: a map, which never changes; the unique key, the instant of
-- expiry, the group, the place in a flow and the share, which may stand only here.
local function read_opts(raw, from, last)
  if last_map and last + 1 - from == #last_opts and sub(raw, from, last) == last_opts then return last_map end
  local head, rest, key, ex, group, flow, share = Job.split_opts(raw, from, last)
  local map = head and rests[head][rest]
  if head and not map then
    map = mp.unpack(char(head) .. rest)
    if rest_count > 500 then
      for one in pairs(rests) do rests[one] = {} end
      rest_count = 0
    end
    if #rest < 256 then rests[head][rest], rest_count = map, rest_count + 1 end
  end
  if map and map.u == nil and map.ex == nil and map.g == nil and map.fl == nil and map.sh == nil then
    if not key and not ex and not group and not flow and not share then last_opts, last_map = sub(raw, from, last), map end
    return map, key, ex, group, flow, share
  end
  map = mp.unpack(sub(raw, from, last))
  return map, map.u, map.ex, map.g, map.fl, map.sh
end

local exts, ext_count = {}, 0 -- those that were read last: jobs that failed together say the same

-- The ext of a record that has one of so many bytes; it never changes.
local function read_ext(raw, length)
  local bytes = sub(raw, 36, 35 + length)
  local ext = exts[bytes]
  if not ext then
    ext = mp.unpack(bytes)
    if ext_count > 500 then exts, ext_count = {}, 0 end
    if length < 1024 then exts[bytes], ext_count = ext, ext_count + 1 end
  end
  return ext
end

-- The parts of a record that is one of many: ext, opts (of which key, expiry, group, the place in a
-- flow and the share may stand only in what follows), key, expiry, group, queue, kind, where what
-- follows the ext begins, the place in a flow, the share. None is to be changed.
Job.read_opts, Job.read_ext, Job.NOTHING = read_opts, read_ext, NOTHING
function Job.parts(raw)
  local at, ext, opts, key, ex, group, flow, share = 32, NOTHING, NOTHING, nil, nil, nil, nil, nil
  if byte(raw) > %TAG_PLAIN% then
    local length = unp('>I4', raw, 32)
    at = 36 + length
    if length > 1 then ext = read_ext(raw, length) end
  end
  local from = at + #last_front
  if sub(raw, at, from - 1) ~= last_front then
    local ql = byte(raw, at)
    local kl = byte(raw, at + ql + 1)
    from = at + ql + 2 + kl
    last_front, last_queue = sub(raw, at, from - 1), sub(raw, at + 1, at + ql)
    last_kind = kl > 0 and sub(raw, at + ql + 2, from - 1) or last_queue
  end
  if byte(raw, %REC_FLAGS%) % 2 == 1 then
    local length = unp('>I4', raw, from)
    opts, key, ex, group, flow, share = read_opts(raw, from + 4, from + 3 + length)
  end
  return ext, opts, key, ex, group, last_queue, last_kind, at, flow, share
end

-- What there is under an id, a record or a tombstone, be it in a bundle; false if nothing.
function Job.raw(id)
  local raw = Records.get(id)
  return raw and byte(raw) == %TAG_BUNDLE_REF% and Bundle.read(id, raw) or raw and byte(raw) ~= %TAG_BUNDLE_REF% and raw
end

-- The same for any number of ids. `key`: their only hash, if it is known.
function Job.raws(ids, key)
  local raws = Records.get_many(ids, key)
  for i = 1, #ids do
    local raw = raws[i]
    if raw and byte(raw) == %TAG_BUNDLE_REF% then
      Bundle.read_from(ids, raws, i)
      break
    end
  end
  return raws
end

-- Writes what now stands under an id that was read in this call, or is new.
function Job.put(id, bytes)
  Bundle.leave(id)
  Records.set(id, bytes)
end

-- Forgets an id that was read in this call.
function Job.drop(id)
  Bundle.leave(id)
  Records.delete(id)
end

function Job.save(j)
  local bytes = Job.bytes(j)
  j.size = #bytes
  Job.put(j.id, bytes)
end

-- The record of an id that is no tombstone; nil if there is none.
function Job.load(id)
  local raw = Job.raw(id)
  if raw and byte(raw) < %TAG_TOMBSTONE% then return Job.parse(id, raw) end
end

local SNOOZE, RELEASED, CRASHED, HOLD = 2, 5, 6, 7
local ATTEMPTS_KEPT, ATTEMPT_ERROR_BYTES = %ATTEMPTS_KEPT%, %ATTEMPT_ERROR_BYTES%

-- Keeps how an attempt that did not complete its job ended: the first and the last nine; of snoozes
-- in a row, or releases, or holds, the last. Each is attempt, started, ended, outcome, worker,
-- error.
function Job.add_attempt(j, p, ended, outcome, error_text)
  local past = j.ext.at or {}
  local last = past[#past]
  if last and last[4] == outcome and (outcome == SNOOZE or outcome == RELEASED or outcome == HOLD) then
    past[#past] = nil
  elseif #past >= ATTEMPTS_KEPT then
    table.remove(past, 2)
  end
  if error_text and #error_text > ATTEMPT_ERROR_BYTES then
    local length = ATTEMPT_ERROR_BYTES
    while floor(byte(error_text, length + 1) / 64) == 2 do length = length - 1 end
    error_text = sub(error_text, 1, length)
  end
  past[#past + 1] = {j.ext.a, p.started, ended, outcome, p.worker, error_text}
  j.ext.at = past
end

local LOG_LINES_KEPT, LOG_BYTES_KEPT = %LOG_LINES_KEPT%, %LOG_BYTES_KEPT%

-- Appends lines to what a job's attempts logged; the oldest give way. Each is at, attempt, text.
function Job.log(j, attempt, lines)
  local log, bytes, first = j.ext.lg or {}, 0, 1
  for _, text in ipairs(lines) do log[#log + 1] = {S.now, attempt, text} end
  for _, line in ipairs(log) do bytes = bytes + #line[3] end
  while #log - first >= LOG_LINES_KEPT or bytes > LOG_BYTES_KEPT do
    bytes, first = bytes - #log[first][3], first + 1
  end
  j.ext.lg = first > 1 and slice(log, first, #log) or log
end

-- The order within a line: 20 bytes.
function Job.key(j)
  return j.due8 .. j.enq8 .. j.sub2 .. j.idx2
end

-- The order of enqueue: 12 bytes.
function Job.seq(j)
  return j.enq8 .. j.sub2 .. j.idx2
end

function Job.expires(j)
  local ex = j.ext.ex
  if ex == nil then ex = j.opts.ex end
  return ex and ex ~= '' and unp('>I8', ex) or nil
end

function Job.has_expired(j)
  local at = Job.expires(j)
  return at and at <= S.now
end

-- Whether a job runs alone: after two crashes, or after one less than it may have.
local function is_suspect(j)
  local most = tonum(j.opts.mc)
  return (j.ext.c or 0) >= (most and min(2, most - 1) or 2)
end
local function lane_of(j) return is_suspect(j) and j.prio + 10 or j.prio end

-- Notes for watchers that a job's state is new.
local function changed(id, q, state)
  if M.feed >= S.now then
    S.changes = S.changes or {}
    S.changes[#S.changes + 1] = mp.pack({id, q, state, S.now})
  end
end

-- The state now; `active` as Lease.of answers it is asked only for a job that is due.
function Job.state(j)
  if j.tag == %TAG_HELD% then return HELD end
  if j.tag > %TAG_HELD% then return j.tag end
  if j.due > S.now then return SCHEDULED end
  return Lease.of(j) and ACTIVE or READY
end
