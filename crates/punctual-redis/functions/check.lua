-- Checks of what is sent, before anything is changed: a call is refused, or each of its fields
-- works.
do

local NAME_MAX, KEY_MAX = %NAME_BYTES_MAX%, %KEY_BYTES_MAX%
local INSTANT_MAX = %INSTANT_MAX_US% -- the end of the year 9999
local COUNT_MAX = 4294967295
-- Jobs of one call, or of several calls at once: no list of theirs is too long for one command.
local JOBS_MAX = %CALL_JOBS_MAX%

-- Words of a caller in an error: printable, in quotes, at most so many characters.
function Check.shown(word, most)
  most = most or 64
  local text = sub(word, 1, most):gsub('["\\]', '\\%0'):gsub('[^ -~]', function(c) return fmt('\\x%02x', byte(c)) end)
  return '"' .. text .. (#word > most and '"...' or '"')
end
local shown = Check.shown

-- Whether bytes are well-formed UTF-8.
local function is_utf8(s)
  local size, _, last = #s, find(s, '^[%z\1-\127]*')
  local at = last + 1
  while at <= size do
    local a, b, c, d = byte(s, at, at + 3)
    local n = a >= 0xc2 and a < 0xe0 and 1 or a >= 0xe0 and a < 0xf0 and 2 or a >= 0xf0 and a < 0xf5 and 3
    if not n or not b or b < 0x80 or b > 0xbf then return false end
    if n > 1 and (not c or c < 0x80 or c > 0xbf) or n > 2 and (not d or d < 0x80 or d > 0xbf) then return false end
    if a == 0xe0 and b < 0xa0 or a == 0xed and b > 0x9f or a == 0xf0 and b < 0x90 or a == 0xf4 and b > 0x8f then return false end
    _, last = find(s, '^[%z\1-\127]*', at + n + 1)
    at = (last or at + n) + 1
  end
  return true
end

-- Control characters and marks that reverse or break a line of text.
local function is_hostile(s)
  return find(s, '[%c\127]') or find(s, '\194[\128-\159]') or find(s, '\226\128[\168-\174]') or find(s, '\226\129[\166-\169]')
end
Check.is_utf8, Check.is_hostile = is_utf8, is_hostile

local good_names, good_count = {}, 0 -- names that were checked before

function Check.name(what, name)
  if good_names[name] then return name end
  local wrong = type(name) ~= 'string' and 'is no text' or name == '' and 'is empty' or #name > NAME_MAX and 'is too long'
    or find(name, '[^%w._:/-]') and 'has a character that is not allowed'
    or find('/' .. name .. '/', '/%.%.?/') and 'has a path step'
  if wrong then
    refuse('invalid_name', what .. ' name ' .. wrong .. '; %TEXT_NAME_RULE% (name: ' .. shown(tostring(name)) .. ')')
  end
  if good_count > 1000 then good_names, good_count = {}, 0 end
  good_names[name], good_count = true, good_count + 1
  return name
end

function Check.key(what, key)
  if type(key) == 'string' and key ~= '' and #key <= KEY_MAX and not find(key, '[^ -~]') then return key end -- most are of ASCII
  local wrong = type(key) ~= 'string' and 'is no text' or key == '' and 'is empty' or #key > KEY_MAX and 'is too long'
    or (is_hostile(key) or not is_utf8(key)) and 'has a control character or is no UTF-8'
  if wrong then refuse('invalid_name', what .. ' ' .. wrong .. '; %TEXT_KEY_RULE% (key: ' .. shown(tostring(key)) .. ')') end
  return key
end

-- Refuses more jobs than one call may carry.
function Check.count(n)
  if n > JOBS_MAX then refuse('batch_too_large', fmt('call carries %.0f jobs; use at most 10,000, or 1,000 to keep it short', n)) end
end

function Check.lease_duration(lease_duration)
  if lease_duration < %LEASE_MIN_MS%e3 or lease_duration > %LEASE_MAX_MS%e3 then refuse('invalid_input', '%TEXT_LEASE_DURATION%') end
end

local function is_number(v, low, high) return type(v) == 'number' and v >= low and v <= high end
local function is_whole(v, low, high) return is_number(v, low, high) and floor(v) == v end
local function is_text(v, most) return type(v) == 'string' and #v <= most and is_utf8(v) end
local function is_bytes8(v) return type(v) == 'string' and #v == 8 end
local function is_instant8(v) return is_bytes8(v) and at8(v) <= INSTANT_MAX end
local function is_instant(v) return is_number(v, 0, INSTANT_MAX) or is_instant8(v) end
local function is_flag(v) return v == 0 or v == 1 end
local function is_string(v) return type(v) == 'string' end

-- Whether a table is a list of at most so many items that all pass.
local function is_list(v, most, passes)
  if type(v) ~= 'table' or #v > most then return false end
  local n = 0
  for i in pairs(v) do
    if type(i) ~= 'number' then return false end
    n = n + 1
  end
  if n ~= #v then return false end
  for i = 1, n do if not passes(v[i]) then return false end end
  return true
end

local function is_key(v) return pcall(Check.key, 'key', v) end
local function is_name(v) return pcall(Check.name, '', v) end

local function is_header(v) return is_string(v) and not is_hostile(v) and is_utf8(v) end
local function are_headers(v)
  if not is_list(v, 2000, is_header) or #v % 2 == 1 then return false end
  for i = 1, #v, 2 do if #v[i] > NAME_MAX or not find(v[i], '^[%w._-]+$') then return false end end
  return true
end

local function is_span(v) return is_number(v, 0, INSTANT_MAX) end

-- The parameters of each kind of retry policy.
local RETRY = {
  {is_span, function(v) return is_number(v, 1, 100) end, is_span, is_flag},
  {is_span, is_flag},
  {is_span, is_span, is_flag},
}

local function is_retry(v)
  if type(v) ~= 'table' then return false end
  if v[1] == 4 then return #v > 1 and is_list(v, 65, is_span) end
  local wanted = RETRY[v[1]]
  if not wanted or #v ~= #wanted + 1 then return false end
  for i, passes in ipairs(wanted) do if not passes(v[i + 1]) then return false end end
  return true
end

local function is_past_attempt(v)
  return type(v) == 'table' and is_whole(v[1], 0, 1e9) and is_number(v[2], 0, INSTANT_MAX) and is_number(v[3], 0, INSTANT_MAX)
    and is_whole(v[4], 1, 7) and is_string(v[5]) and (#v[5] == 0 or #v[5] == 16) and (v[6] == nil or is_text(v[6], %ATTEMPT_ERROR_BYTES%))
end

local function is_count(v) return is_whole(v, 0, 1e9) end
local function are_keys(v) return is_list(v, 1000, is_key) end
local function up_to(most) return function(v) return is_whole(v, 0, most) end end

local LOG_LINES_MAX, LOG_BYTES_MAX = %LOG_LINES_KEPT%, %LOG_BYTES_KEPT%

local function is_log_line(v)
  return type(v) == 'table' and #v == 3 and is_number(v[1], 0, INSTANT_MAX) and is_whole(v[2], 0, 1e9) and is_text(v[3], LOG_BYTES_MAX)
end

-- What an import brings of a job's past; `st`, `du` and `en` are always there.
-- Source, name, value, instant.
function Check.is_memo(v)
  return type(v) == 'table' and is_whole(v[1], 0, 2) and is_key(v[2]) and is_string(v[3]) and #v[3] <= %MEMO_BYTES_MAX% and is_number(v[4], 0, INSTANT_MAX)
end

local PAST = {st = up_to(6), du = is_instant8, en = is_instant8, a = is_count, f = is_count, c = is_count, s = is_instant,
  fi = is_instant, er = function(v) return is_text(v, 4194304) end, re = is_string, po = is_string, cr = is_flag, cd = up_to(6),
  dr = up_to(3), sp = up_to(3), w = are_keys, at = function(v) return is_list(v, %ATTEMPTS_KEPT%, is_past_attempt) end,
  lg = function(v) return is_list(v, LOG_LINES_MAX, is_log_line) end, me = function(v) return is_list(v, 2 * %MEMOS_MAX%, Check.is_memo) end, ex = function(v) return v == '' or is_instant8(v) end}

-- The first field of a map, by name, that does not pass; keys of later versions are kept as they
-- are.
local function wrong_in(map, fields)
  for name, passes in pairs(fields) do
    if map[name] ~= nil and not passes(map[name]) then return name end
  end
end

local function is_past(v)
  return type(v) == 'table' and v.st and v.du and v.en and not wrong_in(v, PAST)
end

-- Names of limits: the records of their settings have names that are six bytes longer.
local function is_limit_name(v) return is_name(v) and #v <= NAME_MAX - 6 end

-- The limits of a job, each once.
function Check.are_limits(v)
  if not is_list(v, %NAMED_LIMITS_MAX%, is_limit_name) or #v == 0 then return false end
  return v[1] ~= v[2] and v[1] ~= v[3] and (v[2] == nil or v[2] ~= v[3])
end

local FIRST = {ct = function(v) return is_header(v) and #v > 0 and #v <= 128 end, hd = are_headers,
  ma = function(v) return is_whole(v, 1, COUNT_MAX) end, rt = is_retry, to = function(v) return is_number(v, 1, %TIMEOUT_MAX_MS%e3) end}
local SECOND = {ex = is_instant8, u = is_key, up = up_to(3), um = function(v) return is_number(v, 1, %MAX_WAIT_MAX_MS%e3) end, uh = function(v) return is_number(v, 0, INSTANT_MAX + 1) end,
  g = is_key, sh = is_key, li = function(v) return Check.are_limits(v) end, co = function(v) return is_whole(v, 1, %COST_MAX%) end, gp = function(v) return v == 1 end, sc = is_name, oc = is_instant8, fl = function(v) return is_list(v, 2, is_name) and #v ~= 1 end, rn = is_span, rm = function(v) return is_number(v, 1, %REMEMBER_MAX_MS%e3) end, w = are_keys, hi = is_past}

-- One MessagePack map and nothing behind it; nil if the bytes are none.
local function read_map(bytes)
  local ok, map, more = pcall(mp.unpack, bytes)
  if ok and type(map) == 'table' and more == nil then return map end
end

-- The lines to log of a packed list.
function Check.lines(bytes)
  local lines, total = read_map(bytes), 0
  if not lines or not is_list(lines, LOG_LINES_MAX, function(v) return is_text(v, LOG_BYTES_MAX) end) then
    refuse('invalid_input', 'lines to log are no list of at most 100 texts; send the last ones')
  end
  for i = 1, #lines do total = total + #lines[i] end
  if total > LOG_BYTES_MAX then refuse('payload_too_large', 'lines to log are over 16 KiB; send the last ones') end
  return lines
end

-- The names of a packed list that a hold waits for.
function Check.names(bytes)
  local names = read_map(bytes)
  if not names or #names == 0 or #names > %WAIT_FOR_MAX% or not are_keys(names) then refuse('invalid_input', 'a hold waits for 1 to 64 names') end
  return names
end

-- Opts that were checked before: those without a key of the second group; and the maps of those
-- that are decoded, which never change, by head and bytes.
local good_opts, good_maps, good_opts_count = {}, nil, 501

local function refuse_opts(name, index) refuse('invalid_input', 'opts have a `' .. name .. '` that is out of range index=' .. index) end

-- Checks opts as a map, all of it; the map.
local function check_map(bytes, is_examined, index)
  local opts, second = read_map(bytes), false
  if not opts then refuse('invalid_input', 'opts are no MessagePack map index=' .. index) end
  for name, value in pairs(opts) do
    local passes = FIRST[name]
    if not passes then
      passes = SECOND[name]
      second = second or passes ~= nil
    end
    if passes and not passes(value) then refuse_opts(name, index) end
  end
  if opts.co ~= nil and opts.li == nil then refuse_opts('co', index) end
  if second and not is_examined then refuse('invalid_input', 'opts have a key of the second group; set 2 in sflags index=' .. index) end
  if good_opts_count > 500 then
    good_opts, good_maps, good_opts_count = {}, {}, 0
    for head = 128, 143 do good_maps[head] = {} end
  end
  if opts.hi == nil and #bytes <= 256 then
    local head = byte(bytes)
    good_opts_count = good_opts_count + 1
    if not is_examined then good_opts[bytes] = true elseif head < 144 then good_maps[head][sub(bytes, 2)] = opts end
  end
  return opts
end

local last_opts, last_map = '', nil -- the last without a key and an expiry: of a call mostly all are the same

local function check_key(name, key, index)
  if (#key == 0 or #key > KEY_MAX or find(key, '[^ -~]')) and not is_key(key) then refuse_opts(name, index) end
end

-- Checks the value of a key, group, share or expiry, or the name of a step.
function Check.own(name, value, index)
  if name == 'fl' then
    if find(value, '[^%w_:-]') then Check.name('step', value) end
  elseif name ~= 'ex' then
    check_key(name, value, index)
  elseif not is_instant8(value) then
    refuse_opts(name, index)
  end
end

local last_flow = '' -- mostly all of a call are of one

-- Checks the names of a flow and a step.
local function check_flow(bytes)
  local flow, step = Job.names(bytes)
  if #bytes == 1 then return end
  if flow ~= last_flow then last_flow = Check.name('flow', flow) end
  if #step > NAME_MAX or find(step, '[^%w_:-]') or step == '' then Check.name('step', step) end
end

-- Checks opts that are looked into: the map, the unique key, the instant of expiry, the group, the
-- place in a flow and the share, which may stand only here.
local function check_examined(bytes, from, last, index)
  if last_map and sub(bytes, from, last) == last_opts then return last_map end
  last_map = nil
  local head, rest, key, ex, group, flow, share = Job.split_opts(bytes, from, last)
  local map = head and (good_maps and good_maps[head][rest] or check_map(char(head) .. rest, true, index))
  if map and map.u == nil and map.ex == nil and map.g == nil and map.fl == nil and map.sh == nil then
    if key then check_key('u', key, index) end
    if ex and not is_instant8(ex) then refuse_opts('ex', index) end
    if group then check_key('g', group, index) end
    if flow then check_flow(flow) end
    if share then check_key('sh', share, index) end
    if not key and not ex and not group and not flow and not share then last_opts, last_map = sub(bytes, from, last), map end
    return map, key, ex, group, flow, share
  end
  map = check_map(sub(bytes, from, last), true, index)
  return map, map.u, map.ex, map.g, map.fl, map.sh
end

local function cut_short(index) refuse('invalid_input', 'a job is cut short index=' .. index) end

-- Checks a spec from its priority on, in bytes that end at `last`; where its payload begins, and if
-- its opts are looked into what check_examined says of them.
function Check.front(bytes, at, last, index)
  local prio, sflags, ql = byte(bytes, at, at + 2)
  local kl = ql and byte(bytes, at + 3 + ql)
  local from = kl and at + 4 + ql + kl
  if not from or from > last + 1 then cut_short(index) end
  if prio > %PRIORITY_MAX% then refuse('invalid_input', '%TEXT_PRIORITY% index=' .. index) end
  if sflags > %SPEC_FLAGS_MAX% then refuse('invalid_input', 'sflags are out of range; use 0 to %SPEC_FLAGS_MAX% index=' .. index) end
  Check.name('queue', sub(bytes, at + 3, at + 2 + ql))
  if kl > 0 then Check.name('kind', sub(bytes, at + 4 + ql, from - 1)) end
  if %sflags has SPEC_OPTS% then return Check.opts(bytes, from, last, %sflags has SPEC_EXAMINED%, index) end
  return from
end

-- Checks the opts that begin there; where the payload begins, and the same.
function Check.opts(bytes, from, last, is_examined, index)
  if from + 3 > last then cut_short(index) end
  local first = from + 4
  local till = first + unp('>I4', bytes, from) - 1
  if till > last then cut_short(index) end
  if is_examined then return till + 1, check_examined(bytes, first, till, index) end
  local opts = sub(bytes, first, till)
  if not good_opts[opts] then check_map(opts, false, index) end
  return till + 1
end

-- Checks `id | due kind | due | spec`.
function Check.job(bytes, index)
  if #bytes < 39 then cut_short(index) end
  Enqueue.due_of(byte(bytes, %EFFECT_DUE_KIND_AT%), sub(bytes, %EFFECT_DUE%), u8(S.now), index)
  local _, o = Check.front(bytes, 36, #bytes, index)
  if o and o.li then Named.may_name() end
end

-- Checks `id | name to clear`.
function Check.clear(bytes, index)
  if #bytes < 17 then refuse('invalid_input', 'an effect is cut short index=' .. index) end
  Check.key('name to clear', sub(bytes, %CLEAR_NAME_AT%))
end

-- A signal as an effect: `id 16 | length 4, name | payload`.
function Check.signal(bytes, index)
  local length = #bytes >= 20 and unp('>I4', bytes, 17)
  if not length or #bytes < 20 + length then refuse('invalid_input', 'an effect is cut short index=' .. index) end
  Check.key('name of the signal', sub(bytes, 21, 20 + length))
  if #bytes - 20 - length > %MEMO_BYTES_MAX% then refuse('payload_too_large', 'payload of the signal is over the limit; send a reference index=' .. index) end
end

-- Checks NAMESPACE/SHARD.
function Check.shard(text)
  local namespace, number = tostring(text):match('^(.+)/(%d%d?%d?%d?)$')
  if not namespace or tonum(number) > 1023 then refuse('invalid_input', 'shard is out of range; write NAMESPACE/NUMBER (shard: ' .. shown(tostring(text)) .. ')') end
  Check.name('namespace', namespace)
end

local function is_id(v) return is_string(v) and #v == 16 end
-- An id that is none names no job.
local last_queue -- of the target before: most are of one
local function is_target(v)
  if type(v) ~= 'table' then return false end
  local q, key, n = v[1], v[2], #v
  if n == 1 then return is_string(q) end
  if n ~= 2 or q ~= last_queue and not is_name(q) then return false end
  last_queue = q
  return type(key) == 'string' and #key > 0 and #key <= KEY_MAX and not find(key, '[^ -~]') or is_key(key)
end
local function many(passes)
  return function(v)
    if type(v) == 'table' then Check.count(#v) end
    return is_list(v, JOBS_MAX, passes)
  end
end
local function is_limit(v) return is_number(v, 0, 2 ^ 64) end -- the verb says what its limit may be
local FILTER = {q = is_name, s = up_to(6), k = is_name, te = is_string, df = is_bytes8, db = is_bytes8, er = is_string, ol = is_span}
local function is_filter(v) return type(v) == 'table' and not wrong_in(v, FILTER) end

do
local RATE_STARTS, RATE_US = 1e6, {1000, 365 * 86400e6}
-- Kind, starts, microseconds, burst: as the engine checks them.
local function is_rate(v)
  if type(v) ~= 'table' or #v ~= 4 or not is_whole(v[1], %RATE_SMOOTH%, %RATE_WINDOW%) or not is_whole(v[2], 1, RATE_STARTS) then return false end
  return is_whole(v[3], RATE_US[1], RATE_US[2]) and is_whole(v[4], 0, v[2]) and (v[1] == %RATE_WINDOW% or v[2] <= v[3])
end
-- Shares and their weights by turns, in the order of the shares.
local function are_weights(v)
  if not is_list(v, 2 * %WEIGHTS_MAX%, function() return true end) or #v % 2 == 1 then return false end
  for i = 1, #v, 2 do
    if not is_key(v[i]) or not is_whole(v[i + 1], 1, 1000) or i > 1 and not below(v[i - 2], v[i]) then return false end
  end
  return true
end
-- Whether bytes are settings of a queue.
function Check.is_queue_settings(v)
  local map = read_map(sub(v, 2))
  if map and not ((map.lc == nil or is_whole(map.lc, 1, 1e6)) and (map.lr == nil or is_rate(map.lr))) then return false end
  if map and not ((map.sc == nil or is_whole(map.sc, 1, 1e6)) and (map.sr == nil or is_rate(map.sr)) and (map.sw == nil or are_weights(map.sw))
    and (map.sm == nil or is_whole(map.sm, 1, %SHARE_PENDING_MAX%))) then return false end
  return map and (map.mp == nil or is_number(map.mp, 0, 2 ^ 53)) and (map.of == nil or is_flag(map.of))
end

-- Whether bytes are settings of a named limit.
function Check.is_limit_settings(v)
  local map = read_map(sub(v, 2))
  return map and (map.lc ~= nil or map.lr ~= nil) and (map.lc == nil or is_whole(map.lc, 1, 1e6)) and (map.lr == nil or is_rate(map.lr))
    and (map.wf == nil or is_whole(map.wf, 1, 2) and map.lc ~= nil and (map.wf == 1 or map.lc <= %CANCELLING_MAX%))
end
end

local LIMITS_OF = {sweep = is_limit, tombstone_bytes = is_span, retained = is_span, retained_bytes = is_span, feed = is_span,
  namespace_retained_bytes = is_span, schedules = is_span, early_clears = is_span, settled_window = is_span, cancelled_retention = is_span, dead_retention = is_span}

local function is_instants(v) return is_string(v) and #v <= 8000 and #v % 8 == 0 end
local function is_tz(v) return is_text(v, 32) end
local function is_effect(v) return type(v) == 'table' and #v == 2 and is_whole(v[1], 0, 5) and is_string(v[2]) end
local function is_ended(v)
  return type(v) == 'table' and #v == 8 and is_string(v[1]) and #v[1] == 16 and is_name(v[2]) and is_whole(v[3], 0, 3) and is_whole(v[4], 4, 6)
    and is_flag(v[5]) and is_string(v[6]) and is_bytes8(v[7]) and is_flag(v[8])
end
local function is_edges(v) return is_string(v) and #v % 17 == 0 and #v <= 17 * %FLOW_EDGES_MAX% end

-- The fields of each verb's map.
local MAPS = {
  get = {t = many(is_target), x = is_flag, any = is_flag},
  list = {by = function(v) return is_whole(v, 1, 5) end, q = is_name, s = up_to(6), k = is_key, f = is_filter, cu = is_string,
    li = is_limit, p = is_flag, any = is_flag},
  edit = {t = many(is_target), f = is_filter, cu = is_string, li = is_limit, a = up_to(255), dk = up_to(2), d = is_flag},
  stats = {q = many(is_name), af = is_string, li = is_limit, h = is_flag, du = is_flag, en = is_flag, sh = up_to(%TOP_SHARES_MAX%), any = is_flag},
  control = {c = up_to(255), q = is_name, cu = is_string, li = is_limit, ex = function(v) return is_whole(v, 0, 2 ^ 53) end, st = up_to(2),
    dy = is_flag, fo = is_flag, sk = is_key, ac = up_to(4), su = function(v) return is_string(v) and #v >= 16 and #v <= 16 + %RESULT_BYTES_MAX% end, at = is_instants, af = is_string, ot = is_span,
    se = is_bytes8, co = is_flag, ne = is_instants, tz = is_tz, fa = up_to(9), es = many(is_ended), pl = is_span, ca = is_flag, cb = up_to(15), sp = is_span, pf = up_to(2), to = is_id, id = is_id, sn = is_name, nu = is_span,
    ed = is_edges, f = is_filter, t = many(is_id), ef = many(is_effect), no = is_id, ve = function(v) return is_whole(v, 1, 2 ^ 53) end},
  maintain = {sh = function(v) return is_whole(v, 1, 1024) end, ss = is_flag, tz = is_tz},
  info = {any = is_flag},
  listen = {q = many(is_name), any = is_flag},
  watch = {t = many(is_id), p = is_bytes8, un = is_span},
  changes = {p = is_bytes8, af = function(v) return is_number(v, 0, 2 ^ 53) end},
  outbox = {st = many(is_id), t = many(is_id), li = function(v) return is_number(v, 0, JOBS_MAX) end},
  deliver = {t = is_span, k = function(v) return is_list(v, 2, is_span) and #v == 2 end, e = many(function(v) return type(v) == 'table' end)},
}

local function is_name_of_worker(v) return is_text(v, %WORKER_BYTES_MAX%) end
local WORKER = {h = is_name_of_worker, v = is_name_of_worker, q = function(v) return is_list(v, 1000, is_name_of_worker) end,
  k = function(v) return is_list(v, 1000, is_name_of_worker) end,
  s = function(v) return is_whole(v, 0, COUNT_MAX) end, b = function(v) return is_whole(v, 0, COUNT_MAX) end}

-- What a worker said of itself; nil if it cannot be read.
function Check.worker(bytes)
  local map = read_map(bytes)
  if map and not wrong_in(map, WORKER) then return map end
end

-- Reads the map behind a call's instance.
function Check.map(verb, blob)
  if #blob < 8 then refuse('invalid_input', 'the call is cut short') end
  local map = read_map(sub(blob, %CALL_REST%))
  if not map then refuse('invalid_input', 'the call is no MessagePack map; for calls by hand see punctual_1_help') end
  local wrong = wrong_in(map, MAPS[verb])
  if wrong then refuse('invalid_input', verb .. ' has a `' .. wrong .. '` that is out of range; see docs/wire-protocol.md') end
  return map
end

-- Schedules.
do
local function is_span_and_phase(v) return type(v) == 'table' and is_whole(v[1], 1000, INSTANT_MAX) and (v[2] == nil or is_whole(v[2], 0, v[1])) end
local function is_pattern(v) return type(v) == 'table' and is_whole(v[1], 0, 2) and is_text(v[2], 256) end
local function are_patterns(v) return is_list(v, 64, is_pattern) end
local SPEC = {pt = are_patterns, ex = are_patterns, ev = function(v) return is_list(v, 64, is_span_and_phase) end, at = is_instants, zo = is_header,
  be = is_span, ga = up_to(2), fo = up_to(2), ji = is_span, st = is_span, en = is_span, mr = function(v) return is_whole(v, 0, 2 ^ 53) end}
local SCHEDULE = {ov = up_to(4), mi = up_to(2), mv = is_span, ow = up_to(3), pa = is_flag, pf = is_flag, no = function(v) return is_text(v, 256) end}

-- Whether bytes are a schedule of that name.
function Check.is_schedule(name, v)
  local map = read_map(sub(v, 2))
  if not map or wrong_in(map, SCHEDULE) or not is_id(map.id) or not is_string(map.sp) or not is_string(map.jb) or #map.jb < 14 then return false end
  local spec = read_map(map.sp)
  if not spec or wrong_in(spec, SPEC) then return false end
  local _, opts = Check.front(map.jb, 11, #map.jb, 0)
  return opts ~= nil and opts.sc == name
end

local function is_refill(v)
  return type(v) == 'table' and is_name(v.na) and is_whole(v.ve, 0, 2 ^ 53) and is_bytes8(v.se) and is_instants(v.ne) and is_bytes8(v.sn)
    and (v.co == nil or is_flag(v.co)) and (v.an == nil or is_flag(v.an)) and (v.tz == nil or is_tz(v.tz))
end

-- Refuses a control of schedules that lacks what it needs.
function Check.schedules(map)
  if map.c == %CONTROL_SCHEDULES% and map.af ~= nil and map.af ~= '' then Check.name('schedule', map.af) end
  if map.c == %CONTROL_SCHEDULE% then
    Check.name('schedule', map.na)
    if map.ac == nil or map.ac == %SCHEDULE_BACKFILL% and map.at == nil or map.ac == %SCHEDULE_RESTORE% and map.su == nil then refuse('invalid_input', 'a schedule is asked with `ac`, `at` for a backfill, and `su` to restore its last success; see docs/wire-protocol.md') end
  end
  if map.c == %CONTROL_REFILL% and not is_list(map.rf, 64, is_refill) then refuse('invalid_input', 'lists of schedules are not as they should be; see docs/wire-protocol.md') end
end

end

-- Refuses a control of flows that lacks what it needs.
function Check.flows(map)
  if map.c == %CONTROL_FLOWS% and map.af ~= nil and map.af ~= '' then Check.name('flow', map.af) end
  if map.c == %CONTROL_DEPENDANTS% and not map.t then refuse('invalid_input', 'who waits for jobs is asked with `t`, their ids') end
  if map.c ~= %CONTROL_FLOW% then return end
  Check.name('flow', map.na)
  local act = map.fa
  if act == nil or act == %FLOW_SEAL% and not (map.sp and map.pf) or act == %FLOW_WAIT_MORE% and not (map.to and map.ed) or act == %FLOW_STEPS_OF% and not map.t or act == %FLOW_RESTORE% and map.sp and not (map.pl and map.pf) then
    refuse('invalid_input', 'a flow is asked with `fa` and what that needs; see docs/wire-protocol.md')
  end
  for at = 17, #(map.ed or ''), 17 do
    if byte(map.ed, at) > 2 then refuse('invalid_input', 'a link is out of range') end
  end
end

-- Refuses a control that lacks what it needs; nothing of `v` is looked at but what the functions
-- read of it.
function Check.control(map)
  local c, v = map.c, map.v
  if c == nil then refuse('invalid_input', 'no such control') end
  if c <= %CONTROL_PURGE% or c == %CONTROL_DELETE% or c == %CONTROL_BLOCK_SHARE% or c == %CONTROL_BLOCKED_SHARES% then Check.name('queue', map.q) end
  -- Where a scan goes on.
  if (c == %CONTROL_NAMES% or c == %CONTROL_BLOCKED_SHARES%) and map.cu and (#map.cu > 20 or not find(map.cu, '^%d+$')) then Inspect.bad_cursor() end
  if c == %CONTROL_BLOCK_SHARE% and not (map.sk and (map.sp == nil or is_whole(map.sp, 0, %BLOCK_MAX_US%))) then refuse('invalid_input', 'a share is blocked with `sk` and `sp`, a span of at most 365 days; without `sp` it is paused') end
  if c == %CONTROL_DELETE% and (map.st == nil or map.cu and not find(map.cu, '^%d+$')) then
    refuse('invalid_input', 'a queue is deleted in steps: `st` of 0 to 2, and the `cu` of the last reply; see docs/wire-protocol.md')
  end
  if c == %CONTROL_BLOCK_LIMIT% or c == %CONTROL_LIMIT% then
    if Check.name('limit', map.na) and not is_limit_name(map.na) then refuse('invalid_name', 'limit name is too long; use at most 122 characters') end
    if c == %CONTROL_BLOCK_LIMIT% and not is_whole(map.sp, 0, %BLOCK_MAX_US%) then refuse('invalid_input', 'a limit is blocked with `sp`, a span of at most 365 days') end
  end
  if c == %CONTROL_LIMITS% and map.af ~= nil and map.af ~= '' then Check.name('limit', map.af) end
  if c == %CONTROL_READ% or c == %CONTROL_WRITE% then Check.name('record', map.na) end
  if c == %CONTROL_NAMES% and map.na ~= nil and map.na ~= '' then Check.name('record', map.na) end
  if c == %CONTROL_WRITE% and v ~= nil then
    local kind = is_string(v) and byte(v)
    local of_queue, schedule = sub(map.na, %RECORD_QUEUE%) == 'queue/', sub(map.na, %RECORD_SCHEDULE%) == 'schedule/' and sub(map.na, %RECORD_SCHEDULE_NAME_AT%)
    local of_limit = sub(map.na, %RECORD_LIMIT%) == 'limit/'
    local wanted = of_queue and %VALUE_SETTINGS% or schedule and %VALUE_SCHEDULE% or of_limit and %VALUE_LIMIT% or %VALUE_OPAQUE%
    if kind ~= wanted or of_queue and not Check.is_queue_settings(v) or of_limit and not Check.is_limit_settings(v) or schedule and not Check.is_schedule(schedule, v) then refuse('invalid_input', 'record is not of its kind; see docs/wire-protocol.md') end
  end
  if c == %CONTROL_WRITE% and sub(map.na, %RECORD_QUEUE%) == 'queue/' then Check.name('queue', sub(map.na, %RECORD_QUEUE_NAME_AT%)) end
  if c == %CONTROL_WRITE% and sub(map.na, %RECORD_LIMIT%) == 'limit/' then Check.name('limit', sub(map.na, %RECORD_LIMIT_NAME_AT%)) end
  if c == %CONTROL_WRITE% and sub(map.na, %RECORD_SCHEDULE%) == 'schedule/' then Check.name('schedule', sub(map.na, %RECORD_SCHEDULE_NAME_AT%)) end
  if c >= %CONTROL_FLOWS% then Check.flows(map) elseif c >= %CONTROL_SCHEDULES% then Check.schedules(map) end
  if c == %CONTROL_BOUNDS% and v ~= nil and (type(v) ~= 'table' or wrong_in(v, LIMITS_OF)) then refuse('invalid_input', 'limits are out of range') end
end

end
