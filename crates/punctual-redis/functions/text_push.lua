-- push: one job in words. Chunks it as any client does, content hash included, for Enqueue.call.
do

local PAYLOAD_MAX, HEADERS_MAX, WAIT_FOR_MAX = %PAYLOAD_BYTES_MAX%, %HEADER_BYTES_MAX%, %WAIT_FOR_MAX%
local TIMEOUT_MAX = %TIMEOUT_MAX_MS% -- 365 days, ms

local OPTIONS = {
  {'KIND', 'name', 'NAME'},
  {'DELAY', 'ms', 'MS'},
  {'AT', 'ms', 'MS_SINCE_1970'},
  {'PRIORITY', {0, %PRIORITY_MAX%}, '0..%PRIORITY_MAX%'},
  {'UNIQUE', 'key', 'KEY'},
  {'POLICY', {'keep', 'replace', 'after', 'refresh'}, 'keep|replace|after|refresh'},
  {'MAX_WAIT', {1, TIMEOUT_MAX}, 'MS'},
  {'HOLD', 'bytes', 'settled|started|MS'},
  {'ID', 'id', 'UUID'},
  {'GROUP', 'key', 'KEY'},
  {'ON_RETRY', {'hold', 'pass'}, 'hold|pass'},
  {'SHARE', 'key', 'KEY'},
  {'LIMIT', 'name', 'NAME', many = true},
  {'COST', {1, %COST_MAX%}, '1..%COST_MAX%'},
  {'MAX_ATTEMPTS', {1, 4294967295}, 'N'},
  {'MAX_CRASHES', {1, 4294967295}, 'N'},
  {'TIMEOUT', {1, TIMEOUT_MAX}, 'MS'},
  {'EXPIRES_AT', 'ms', 'MS_SINCE_1970'},
  {'RETENTION', 'ms', 'MS'},
  {'REMEMBER', {1, %REMEMBER_MAX_MS%}, 'MS'},
  {'CONTENT_TYPE', 'bytes', 'TYPE'},
  {'HEADER', 'bytes', 'NAME=VALUE', many = true},
  {'WAIT_FOR', 'key', 'NAME', many = true},
  {'BASE64', false, ''},
}
Text.push_options = OPTIONS

-- FNV-1a over little-endian words, 64 bits as two halves, each product rotated by 29: words as
-- low, high.
local function hash_words(high, low, words, n)
  local xor = bit.bxor
  for i = 1, n, 2 do
    high, low = xor(high, words[i + 1]) % 4294967296, xor(low, words[i]) % 4294967296
    local product = low * 435
    high = (high * 435 + floor(product / 4294967296) + low * 256) % 4294967296
    low = product % 4294967296
    high, low = (high % 8) * 536870912 + floor(low / 8), (low % 8) * 536870912 + floor(high / 8)
  end
  return high, low
end

-- One field: its length, then its bytes, filled up with zeros.
local function hash_field(high, low, s)
  high, low = hash_words(high, low, {#s, 0}, 2)
  local padded, block = s .. rep('\0', -#s % 8), '<' .. rep('I4', 64)
  local at = 1
  while at + 255 <= #padded do
    high, low = hash_words(high, low, {unp(block, padded, at)}, 64)
    at = at + 256
  end
  local n = (#padded - at + 1) / 4
  if n > 0 then high, low = hash_words(high, low, {unp('<' .. rep('I4', n), padded, at)}, n) end
  return high, low
end

-- The content hash of docs/wire-protocol.md, 8 bytes.
local function content_hash(fields)
  local high, low = 0xcbf29ce4, 0x84222325
  for i = 1, #fields do high, low = hash_field(high, low, fields[i]) end
  return pack('>I4I4', high, low)
end

-- A fresh id of version 7 with the shard in its ten bits.
local function fresh_id(base, shard)
  local time, drawn = call('TIME'), Text.draw(base, 'id')
  local ms = time[1] * 1000 + floor(time[2] / 1000)
  local high = pack('>I8', ms)
  return sub(high, %NEW_ID_TIME_AT%) .. char(112 + byte(drawn, 1) % 16, byte(drawn, 2), 128 + floor(shard / 16), shard % 16 * 16 + byte(drawn, %NEW_ID_VARIANT_AT%) % 16)
    .. sub(drawn, %NEW_ID_REST%)
end

local function read_headers(found)
  local flat, size = {}, 0
  for _, header in ipairs(found) do
    local name, value = header:match('^([%w._-]+)=(.*)$')
    if not name or #name > 128 or Text.is_hostile(value) or not Text.is_utf8(value) then
      refuse('invalid_input', 'header is not allowed; write NAME=VALUE, the name of a-z A-Z 0-9 . _ -, the value printable (header: ' .. Text.shown(header) .. ')')
    end
    flat[#flat + 1], flat[#flat + 2] = name, value
    size = size + #name + #value
  end
  if size > HEADERS_MAX then refuse('payload_too_large', 'headers are over the limit of 8 KiB; put the rest into the payload') end
  return flat
end

local function hold_of(word)
  if word == nil or word:lower() == 'settled' then return nil end
  if word:lower() == 'started' then return 0 end
  return Text.read_number('HOLD', word, 0, Text.MS_MAX, 'invalid_delay') * 1000 + 1
end

local function once(names)
  local out, seen = {}, {}
  for _, name in ipairs(names) do
    if not seen[name] then seen[name], out[#out + 1] = true, name end
  end
  return out
end

-- opts of a spec, and its flags without that of opts.
local function opts_of(o, headers)
  local number = Job.content_type_flags(o.CONTENT_TYPE)
  local opts = {
    ct = not number and o.CONTENT_TYPE ~= '%CONTENT_TYPE_DEFAULT%' and o.CONTENT_TYPE or nil,
    hd = #headers > 0 and headers or nil,
    ma = o.MAX_ATTEMPTS ~= %MAX_ATTEMPTS_DEFAULT% and o.MAX_ATTEMPTS or nil,
    to = o.TIMEOUT and o.TIMEOUT * 1000,
  }
  local examined = {
    ex = o.EXPIRES_AT and u8(o.EXPIRES_AT),
    u = o.UNIQUE, up = o.UNIQUE and ({keep = 0, replace = 1, after = 2, refresh = 3})[o.POLICY or 'keep'],
    um = o.MAX_WAIT and o.MAX_WAIT * 1000, uh = o.UNIQUE and hold_of(o.HOLD),
    g = o.GROUP, gp = o.GROUP and o.ON_RETRY == 'pass' and 1 or nil, sh = o.SHARE,
    li = o.LIMIT and once(o.LIMIT), co = o.COST ~= 1 and o.COST or nil,
    rn = o.RETENTION and o.RETENTION > 0 and o.RETENTION or nil,
    w = o.WAIT_FOR and once(o.WAIT_FOR),
    mc = o.MAX_CRASHES, rm = o.REMEMBER and o.REMEMBER * 1000,
  }
  local flags = (number or 0) + (next(examined) ~= nil and %SPEC_EXAMINED% or 0)
  for key, value in pairs(examined) do opts[key] = value end
  return opts, flags
end

local function check(o, payload)
  if o.ID and (byte(o.ID) == 2 or byte(o.ID) == 3) and floor(byte(o.ID, %ID_VERSION_AT%) / 16) == 8 then
    refuse('reserved_id', 'id has the form of the runs of schedules, which only the engine enqueues; use another id')
  end
  if o.DELAY and o.AT then refuse('invalid_input', 'DELAY and AT exclude each other; give one') end
  if (o.POLICY or o.HOLD) and not o.UNIQUE then refuse('invalid_input', 'POLICY and HOLD are of a unique key; give UNIQUE too') end
  if (o.POLICY == 'refresh') ~= (o.MAX_WAIT ~= nil) then refuse('invalid_input', 'MAX_WAIT is of POLICY refresh, which needs it; give both') end
  if o.ON_RETRY and not o.GROUP then refuse('invalid_input', 'ON_RETRY is of a group; give GROUP too') end
  if o.LIMIT and #o.LIMIT > %NAMED_LIMITS_MAX% then refuse('invalid_input', 'LIMIT stands too often; use at most %NAMED_LIMITS_MAX% named limits') end
  if o.COST and not o.LIMIT then refuse('invalid_input', 'COST is of named limits; give LIMIT too') end
  if o.WAIT_FOR and #o.WAIT_FOR > WAIT_FOR_MAX then refuse('invalid_input', 'WAIT_FOR stands too often; use at most 64 names') end
  if #payload > PAYLOAD_MAX then
    refuse('payload_too_large', 'payload is over the limit of %PAYLOAD_BYTES_MAX% bytes; store the blob elsewhere and send a reference (bytes: ' .. #payload .. ')')
  end
  local ct = o.CONTENT_TYPE
  if ct and (ct == '' or #ct > 128 or Text.is_hostile(ct) or not Text.is_utf8(ct)) then
    refuse('invalid_input', 'content type is not allowed; use 1 to 128 printable bytes such as text/plain')
  end
end

-- `id | due kind | due | spec` of words.
local function packed_job(id, q, payload, o)
  local headers = read_headers(o.HEADER or {})
  local opts, flags = opts_of(o, headers)
  local fields = {q, o.KIND or q, payload, o.CONTENT_TYPE or '%CONTENT_TYPE_DEFAULT%'}
  for i = 1, #headers, 2 do
    local name = headers[i]:lower()
    if name ~= 'traceparent' and name ~= 'tracestate' and name ~= 'punctual-parent' then
      fields[#fields + 1] = headers[i]
      fields[#fields + 1] = headers[i + 1]
    end
  end
  local has = next(opts) ~= nil
  local kind = o.KIND and o.KIND ~= q and o.KIND or ''
  local due = o.DELAY and '\%DUE_AFTER%' .. u8(o.DELAY) or o.AT and '\%DUE_AT%' .. u8(o.AT) or '\%DUE_NOW%' .. BELOW
  local packed = has and mp.pack(opts) or ''
  return id .. due .. content_hash(fields) .. '\0\0' .. char(o.PRIORITY or %PRIORITY_DEFAULT%, (has and %SPEC_OPTS% or 0) + flags, #q) .. q
    .. char(#kind) .. kind .. (has and pack('>I4', #packed) .. packed or '') .. payload
end

local VERDICTS = {[0] = 'created', 'duplicate', 'merged', 'replaced', 'id_conflict', 'unique_active', 'full', [9] = 'refreshed', [10] = 'limit_full', [11] = 'share_full'}
local OTHERS = {[2] = 'into', [3] = 'replaced', [5] = 'holder', [9] = 'holder'}
local HINTS = {
  [4] = 'nothing was stored: this id names a job with other content; use another id',
  [5] = 'nothing was stored: the holder of the unique key is active; push again once it has settled, or use POLICY after',
  [6] = 'nothing was stored: the queue has reached its max_pending; let workers empty it, or raise that',
  [11] = 'nothing was stored: as many jobs of its share wait as may; let workers go on, or raise the max_pending of the shares of the queue',
  [10] = 'nothing was stored: as many jobs with one of its limits are active as may be, and it refuses more; push again when one has ended',
}

local known, known_at = nil, 0

-- What has survived when a push is answered, as far as a function knows: whether the server
-- writes an append-only file. How often it syncs that file, and whether replicas have it, no
-- function can read. Asked once a second.
local function durability(now)
  if not known or now - known_at > 1e6 or now < known_at then
    local given = redis.pcall('INFO', 'persistence')
    local aof = type(given) == 'string' and given:match('aof_enabled:(%d)')
    known, known_at = aof == '1' and 'os' or aof == '0' and 'memory' or 'unknown', now
  end
  return known
end

-- push QUEUE PAYLOAD options: {now, id, verdict, due, durability, ...}.
function Text.push(base, args, shard)
  if #args < 2 then refuse('invalid_input', 'push takes QUEUE and PAYLOAD, then options; ' .. #args .. ' arguments were given; see punctual_1_help') end
  local q, o = Text.check_name('queue', args[1]), Text.read_options('push', OPTIONS, args, 3)
  local payload = o.BASE64 and Text.unbase64(args[2]) or args[2]
  check(o, payload)
  local id = o.ID or fresh_id(base, shard)
  local one = packed_job(id, q, payload, o)
  local reply = Enqueue.call(base, {BELOW .. '\0\0\1' .. pack('>I4', #one) .. one})
  local now, verdict, due, late, other = at8(reply), 0, nil, false, nil
  if byte(reply, %RECEIPT_IS_FULL_AT%) == 1 then
    verdict, due, late, other = byte(reply, %RECEIPT_VERDICT_AT%), at8(reply, 19), byte(reply, %RECEIPT_LATE_AT%) == 1, sub(reply, %RECEIPT_OTHER%)
  else
    due = max(now + (o.DELAY or 0), o.AT or 0)
  end
  return Text.object({
    {'now', Text.instant(now)},
    {'id', Text.id(id)},
    {'verdict', Text.quote(VERDICTS[verdict])},
    {'due', Text.instant(due)},
    {'late', late and 'true'},
    {'durability', Text.quote(durability(now))},
    {OTHERS[verdict] or '', OTHERS[verdict] and Text.id(other)},
    {'hint', HINTS[verdict] and Text.quote(HINTS[verdict])},
  })
end

end
