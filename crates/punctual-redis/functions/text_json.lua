-- What is answered by hand: one line of JSON with the field names that the command `punctual`
-- writes, in its order.
do

local STATES = {[0] = 'held', 'scheduled', 'ready', 'active', 'completed', 'cancelled', 'dead'}
local CANCELLED_FOR = {[0] = 'requested', 'expired', 'replaced', 'purged', 'skipped', 'missed', 'upstream'}
local DEAD_FOR = {[0] = 'exhausted', 'permanent', 'poison', 'overflow'}
local STOPPED = {[0] = 'before_start', 'token', 'aborted', 'killed'}
local OUTCOMES = {'retry', 'snooze', 'cancelled', 'dead', 'released', 'crashed', 'hold'}
local POLICIES = {[0] = 'keep', 'replace', 'after', 'refresh'}

local ESCAPES = {['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t'}

-- Whether bytes are printable ASCII only: most are, and need no other look. Anchored patterns run
-- on in one go, four times as fast as a search.
local function is_plain(s)
  local _, last = find(s, '^[ -~]*')
  return last == #s
end

-- A JSON string of UTF-8; what reverses or breaks a line of text is escaped.
local function quote(s)
  local plain = is_plain(s)
  if plain and not find(s, '"', 1, true) and not find(s, '\\', 1, true) then return '"' .. s .. '"' end
  local text = s:gsub('[%c"\\\127]', function(c) return ESCAPES[c] or fmt('\\u%04x', byte(c)) end)
  if not plain and Text.is_hostile(text) then
    text = text:gsub('\194([\128-\159])', function(c) return fmt('\\u%04x', byte(c)) end)
      :gsub('\226([\128\129])([\166-\174])', function(a, b) return fmt('\\u%04x', 0x2000 + (byte(a) - 128) * 64 + byte(b) - 128) end)
  end
  return '"' .. text .. '"'
end

local function number(n) return fmt('%.0f', n) end

-- An object of {name, JSON} pairs; those without a value are left out.
local function object(pairs_)
  local out = {}
  for i = 1, #pairs_ do
    local one = pairs_[i]
    if one[2] then out[#out + 1] = quote(one[1]) .. ':' .. one[2] end
  end
  return '{' .. concat(out, ',') .. '}'
end

local function array(items) return '[' .. concat(items, ',') .. ']' end

local function strings(list)
  local out = {}
  for i = 1, #list do out[i] = quote(list[i]) end
  return array(out)
end

local pairs_of_digits = {} -- by 12 bits, filled at first need

local function base64(s)
  local out, n, digits, twos = {}, 0, Text.base64_digits, pairs_of_digits
  if not twos[0] then
    for i = 0, 4095 do
      local high, low = floor(i / 64) + 1, i % 64 + 1
      twos[i] = sub(digits, high, high) .. sub(digits, low, low)
    end
  end
  for i = 1, #s, 3 do
    local a, b, c = byte(s, i, i + 2)
    b, c = b or 0, c or 0
    out[n + 1], out[n + 2] = twos[a * 16 + floor(b / 16)], twos[b % 16 * 256 + c]
    n = n + 2
  end
  local short = (3 - #s % 3) % 3
  return sub(concat(out), 1, -1 - short) .. rep('=', short)
end

local function id_text(id)
  local hex = id:gsub('.', function(c) return fmt('%02x', byte(c)) end)
  return fmt('"%s-%s-%s-%s-%s"', sub(hex, 1, 8), sub(hex, 9, 12), sub(hex, 13, 16), sub(hex, 17, 20), sub(hex, 21))
end

local function token_text(token)
  return '"' .. token:gsub('.', function(c) return fmt('%02x', byte(c)) end) .. '"'
end

-- An instant as RFC 3339, to the microsecond.
local function instant(us)
  local seconds = floor(us / 1e6)
  local days = floor(seconds / 86400)
  local rest, z = seconds % 86400, days + 719468
  local era = floor(z / 146097)
  local doe = z - era * 146097
  local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))
  local mp_ = floor((5 * doy + 2) / 153)
  local month = mp_ < 10 and mp_ + 3 or mp_ - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  local part = us % 1e6
  local fraction = part > 0 and fmt('.%06.0f', part):gsub('0+$', '') or ''
  return fmt('"%04.0f-%02.0f-%02.0fT%02.0f:%02.0f:%02.0f%sZ"', year, month, doy - floor((153 * mp_ + 2) / 5) + 1,
    floor(rest / 3600), floor(rest / 60) % 60, rest % 60, fraction)
end

local function is_number(token)
  local whole, rest = token:match('^%-?(%d+)(.*)$')
  if not whole or #whole > 1 and byte(whole) == 48 then return false end
  rest = rest:gsub('^%.%d+', '')
  return rest == '' or find(rest, '^[eE][+-]?%d+$') ~= nil
end

-- Whether UTF-8 is JSON that can stand in a line as it is. The decoder knows more numbers than
-- JSON.
local function is_json(s, plain)
  if not find(s, '^[%[{"%-%dtfn]') or find(s, ' $') or not plain and Text.is_hostile(s) or not pcall(cjson.decode, s) then return false end
  local bare = s:gsub('\\.', ''):gsub('"[^"]*"', '')
  for token in bare:gmatch('[%w.+-]+') do
    if token ~= 'true' and token ~= 'false' and token ~= 'null' and not is_number(token) then return false end
  end
  return true
end

-- Bytes under a name: `NAME` if they are JSON, `NAME_text` if they are UTF-8, else `NAME_base64`.
local function bytes_field(fields, name, s)
  if not s then return end
  local plain = is_plain(s)
  if not plain and (not Text.is_utf8(s) or find(s, '%z')) then
    fields[#fields + 1] = {name .. '_base64', '"' .. base64(s) .. '"'}
  elseif is_json(s, plain) then
    fields[#fields + 1] = {name, s}
  else
    fields[#fields + 1] = {name .. '_text', quote(s)}
  end
end

local function time_of(value)
  if value == nil or value == '' then return nil end
  return instant(type(value) == 'string' and unp('>I8', value) or value)
end

local function count(n) return n and n > 0 and number(n) or nil end

-- An object; pairs where a name repeats.
local function headers(flat)
  local pairs_, fields, seen, repeats = {}, {}, {}, false
  for i = 1, #flat, 2 do
    fields[#fields + 1], pairs_[#pairs_ + 1] = {flat[i], quote(flat[i + 1])}, array({quote(flat[i]), quote(flat[i + 1])})
    repeats = repeats or seen[flat[i]]
    seen[flat[i]] = true
  end
  return repeats and array(pairs_) or object(fields)
end

local function unique(o)
  local hold = o.uh == nil and '"settled"' or o.uh == 0 and '"started"' or number((o.uh - 1) / 1000)
  return object({{'key', quote(o.u)}, {'policy', quote(POLICIES[o.up or 0])}, {'hold', hold}, {'max_wait', o.um and number(o.um / 1000)}})
end

local SOURCES = {[0] = 'step', 'signal', 'timed_out'}

local function memos(list)
  local out = {}
  for i, memo in ipairs(list) do
    local fields = {{'name', quote(memo[2])}, {'source', quote(SOURCES[memo[1]])}, {'at', instant(memo[4])}}
    if memo[3] ~= '' then bytes_field(fields, 'value', memo[3]) end
    out[i] = object(fields)
  end
  return array(out)
end

local function log_lines(list)
  local out = {}
  for i, line in ipairs(list) do
    out[i] = object({{'at', instant(line[1])}, {'attempt', number(line[2])},
      {'text', quote(Text.is_utf8(line[3]) and line[3] or base64(line[3]))}})
  end
  return array(out)
end

local function past_attempts(list)
  local out = {}
  for i, one in ipairs(list) do
    local error_text = one[6]
    out[i] = object({{'attempt', number(one[1])}, {'started_at', instant(one[2])}, {'ended_at', instant(one[3])},
      {'outcome', quote(OUTCOMES[one[4]] or 'unknown')}, {'worker', one[5] ~= '' and id_text(one[5])},
      {'error', error_text and quote(Text.is_utf8(error_text) and error_text or base64(error_text))}})
  end
  return array(out)
end

-- A job of a record, in a state; `lease` has worker, started and deadline of an active one.
local function job(id, raw, state, lease)
  local j = Job.parse(id, raw)
  local o, e, content_type = j.opts, j.ext, Job.content_type(j)
  local fields = {{'id', id_text(id)}, {'queue', quote(j.q)}, {'kind', quote(j.kind)}}
  bytes_field(fields, 'payload', sub(j.tail, j.cut + 1))
  local ex = e.ex
  if ex == nil then ex = o.ex end
  for _, one in ipairs({
    {'content_type', content_type and quote(content_type)},
    {'headers', o.hd and headers(o.hd)},
    {'expires_at', time_of(ex)},
    {'priority', number(j.prio)},
    {'unique', o.u and unique(o)},
    {'group', o.g and object({{'key', quote(o.g)}, {'on_retry', o.gp and '"pass"' or '"hold"'}})},
    {'share', o.sh and quote(o.sh)},
    {'limits', o.li and strings(o.li)},
    {'cost', o.co and number(o.co)},
    {'max_attempts', number(o.ma or %MAX_ATTEMPTS_DEFAULT%)},
    {'max_crashes', o.mc and number(o.mc)},
    {'timeout_ms', o.to and number(o.to / 1000)},
    {'retention_ms', o.rn and number(o.rn / 1000)},
    {'remember_ms', o.rm and number(o.rm / 1000)},
    {'wait_for', state == HELD and strings(e.w or {})},
    {'schedule', o.sc and object({{'name', quote(o.sc)}, {'at', instant(Schedule.instant(id, o))}})},
    {'flow', o.fl and o.fl[1] and object({{'name', quote(o.fl[1])}, {'step', quote(o.fl[2])}})},
    {'state', quote(STATES[state])},
    {'due', instant(j.due)},
    {'attempt', number((e.a or 0) + (lease and 1 or 0))},
    {'failures', count(e.f)},
    {'crashes', count(e.c)},
    {'enqueued_at', time_of(e.en or j.enq8)},
    {'started_at', lease and instant(lease.started) or time_of(e.s)},
    {'finished_at', time_of(e.fi)},
    {'last_error', e.er and quote(Text.is_utf8(e.er) and e.er or base64(e.er))},
  }) do fields[#fields + 1] = one end
  bytes_field(fields, 'result', e.re)
  bytes_field(fields, 'progress', e.po)
  for _, one in ipairs({
    {'cancel_requested', e.cr and 'true'},
    {'cancelled', state == CANCELLED and quote(CANCELLED_FOR[e.cd] or 'requested')},
    {'dead', state == DEAD and quote(DEAD_FOR[e.dr] or 'permanent')},
    {'stopped', e.sp and state == CANCELLED and quote(STOPPED[e.sp])},
    {'worker', lease and id_text(lease.worker)},
    {'lease_until', lease and instant(lease.deadline)},
    {'lease_ended', lease and lease.deadline <= S.now and 'true'},
    {'attempts', e.at and past_attempts(e.at)},
    {'log', e.lg and log_lines(e.lg)},
    {'memos', e.me and memos(e.me)},
  }) do fields[#fields + 1] = one end
  return object(fields), j
end

-- A tombstone: what is left of a job that completed and is not retained.
local function tombstone(id, raw)
  local fields = {{'id', id_text(id)}, {'state', quote(STATES[byte(raw, %TOMB_STATE%) % %TOMB_LATE%])}, {'due', instant(at8(raw, 2))},
    {'attempt', number(unp('>I4', raw, %TOMB_ATTEMPT%))}, {'finished_at', instant(at8(raw, %TOMB_FINISHED%))}}
  local from = byte(raw, %TOMB_STATE%) >= %TOMB_REMEMBERED% and %TOMB_UNTIL_RESULT% or %TOMB_RESULT%
  if #raw >= from then bytes_field(fields, 'result', sub(raw, from)) end
  return object(fields)
end

-- A view as the packed reads answer it: JSON, state, and the job unless it is a tombstone.
function Text.view(view)
  local id, state, lease = sub(view, %ID_BYTES%), byte(view, %VIEW_STATE_AT%), nil
  if state == 7 then return tombstone(id, sub(view, %VIEW_RECORD_AT%)), byte(view, %VIEW_TOMB_STATE_AT%) % %TOMB_LATE% end
  local raw = sub(view, %VIEW_RECORD_AT%)
  if state == ACTIVE then
    lease = {worker = sub(view, %VIEW_WORKER%), started = at8(view, 34), deadline = at8(view, 42)}
    raw = sub(view, %VIEW_ACTIVE_RECORD_AT%)
  end
  local text, j = job(id, raw, state, lease)
  return text, state, j, lease
end

Text.quote, Text.number, Text.object, Text.array, Text.strings = quote, number, object, array, strings
Text.id, Text.token, Text.instant, Text.job, Text.bytes_field = id_text, token_text, instant, job, bytes_field
Text.STATES, Text.CANCELLED_FOR, Text.DEAD_FOR, Text.STOPPED = STATES, CANCELLED_FOR, DEAD_FOR, STOPPED

end
