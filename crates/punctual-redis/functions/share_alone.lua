-- Shares of one job, with nothing else to remember: most of a queue with many customers. Their
-- rows are known by their bytes: jobs come, start and end without a look at more of them.
do

-- A row of one job that waits: to its round, of one that is as it was sent, too; from the number of
-- its places to its only one. One of jobs that run: to their number.
local FIRST, ONLY, RUNNING = '\1\1\0\0\0\0' .. BELOW .. '\0\0\0\0', '\0\0\0\1\1\0\38', '\1\0'
local FIRST_SENT = '\1\17\0\0\0\0' .. BELOW .. '\0\0\0\0'
local RUNS = RUNNING .. '\0\0\0\1' .. BELOW
-- Bytes of a row of one job that waits, of one that is as it was sent, and of jobs that run.
local ROW_BYTES, SENT_BYTES, RUNS_BYTES = 72, 75, 14
local WIDEST = Share.WIDEST
-- Jobs of a share that end together, at most.
local TOGETHER = 15

-- Puts jobs that were enqueued now in line, each the only one of its share, as far as they are:
-- ids, records and shares; `are_sent` if all are as they were sent, and their ends touch no more
-- than keys, expiries and shares. Answers those that are not; nothing if all were.
function Share.line_up_alone(r, ids, raws, shares, are_sent)
  local rows, at_of, twice, fresh, n = Share.known_rows(r), {}, {}, {}, 0
  for i = 1, #ids do
    local share = shares[i]
    if at_of[share] or rows[share] then
      twice[share] = true
    else
      n = n + 1
      fresh[n], at_of[share] = share, n
    end
  end
  if n == 0 then return ids, raws, shares end
  local key, sh, weights = Share.rows_key(r), Share.of(r), Share.settings(r).weights
  local found = get_many(key, fresh)
  local kv, places, turns, heads, stood, left, k, at, size, size3 = {}, {}, {}, {}, {}, nil, 0, 0, nil, nil
  local head, same, place, row_front, place_front, last_weight, last_lane -- of the job before
  for i = 1, #ids do
    local share, raw = shares[i], raws[i]
    if not twice[share] and found[at_of[share]] == false then
      local lane, weight, front = byte(raw, %REC_PRIORITY%), weights[share] or 1, sub(raw, 2, %REC_HASH_AT% - 1)
      if lane ~= last_lane or weight ~= last_weight or front ~= same then
        head = heads[lane]
        if not head or head.weight ~= weight then
          local pass8 = u8(Share.behind(Share.lane_of_state(sh, lane).turn, weight))
          head = {weight = weight, turn = '\0\0\0\0' .. pass8, row = FIRST .. char(lane) .. pass8 .. ONLY, sent = FIRST_SENT .. char(lane) .. pass8 .. ONLY, into = turns[lane] or {}, n = 0}
          head.n = #head.into
          heads[lane], turns[lane], stood[lane] = head, head.into, stood[lane] or 0
        end
        last_lane, last_weight, same = lane, weight, front
        place = '\1' .. sub(raw, %REC_DUE%) .. sub(raw, %REC_STAMP%)
        place_front, row_front = '\0' .. char(lane) .. place, head.sent .. place
      end
      local rest, into, m = sub(raw, %REC_IDX%) .. 'J' .. ids[i], head.into, head.n
      if #raw ~= size then size, size3 = #raw, pack('>I3', min(#raw, WIDEST)) end
      k = k + 1
      kv[at + 1], kv[at + 2] = share, are_sent and size < WIDEST and row_front .. rest .. size3 or head.row .. place .. rest
      places[at + 1], places[at + 2] = '0', share .. place_front .. rest
      into[m + 1], into[m + 2] = '0', head.turn .. share
      at, head.n, stood[lane] = at + 2, m + 2, stood[lane] + 1
    else
      left = left or {{}, {}, {}}
      local nth = #left[1] + 1
      left[1][nth], left[2][nth], left[3][nth] = ids[i], raw, share
    end
  end
  if k > 0 then
    for lane, members in pairs(turns) do
      call_many('ZADD', Share.turns_key(r, lane), members)
      sh.lanes[lane].places = sh.lanes[lane].places + stood[lane]
    end
    call_many('ZADD', Share.places_key(r), places)
    call_many('HSET', key, kv)
    sh.shares, sh.changed = sh.shares + k, true
    set_flag(r, %ROW_SHARED%, true)
    set_flag(r, %ROW_LIMITED%, true)
    notify(r)
  end
  if not left then return nil end
  local by_share = {}
  for i = 1, n do by_share[fresh[i]] = found[i] end
  return left[1], left[2], left[3], by_share
end

-- Reads the rows of those shares that are not known: by share, false where there is none.
local function read_unknown(r, shares)
  local rows, wanted, n, out = Share.known_rows(r), shares, #shares, {}
  if next_of(rows) then
    wanted, n = {}, 0
    for i = 1, #shares do
      if not rows[shares[i]] then
        n = n + 1
        wanted[n] = shares[i]
      end
    end
  end
  local raws = get_many(Share.rows_key(r), wanted)
  for i = 1, n do out[wanted[i]] = raws[i] end
  return out
end

-- Takes jobs that are known by their places, from one to another, as far as they can start.
local function take_seen(take, r, ids, shares, n)
  local k, goes_on = 0, true
  while k < n and goes_on do
    local till = min(n, k + max(1, Claim.pop_most(take)))
    local records = Job.raws(slice(ids, k + 1, till))
    local from = k
    while k < till and goes_on do
      local raw, starts, kind, _ = records[k + 1 - from], nil, nil, nil
      if raw and byte(raw) == %TAG_WAITING% and not Claim.ends(take) then starts, _, _, kind = Share.may_start(take, raw) end
      if not starts or not Claim.fits(take, raw) then
        goes_on = false
      else
        k = k + 1
        Claim.add(take, r, ids[k], raw, kind, shares[k])
      end
    end
  end
  return k
end

-- Takes the jobs of shares that have the next turns in a lane, as far as each is the only one of
-- its share, and no job without a share is there: unseen, if all are as they were sent. Answers
-- what it has read of shares, and how many turns were had.
function Share.take_alone(take, r, lane, members, shares)
  local sh, raws = Share.of(r), read_unknown(r, shares)
  if Share.settings(r).has_limits or (r.in_overflow[lane] or 0) > 0 or lane < 10 and (r.in_lists[lane] or 0) > 0 then return raws, 0 end
  local ids, dues, behind_them, n, pass8, head, sent_head, size, same, due8, last_size3, last_size = {}, {}, {}, 0, nil, nil, nil, 0, nil, nil, nil, 0
  local is_unseen, behind = Claim.may_be_unseen(take, r), '\0' .. char(lane)
  for i = 1, #members do
    local share = shares[i]
    local raw = raws[share]
    local bytes = raw and #raw
    if bytes ~= ROW_BYTES and bytes ~= SENT_BYTES then break end
    local turn8 = sub(members[i], %TURN_PASS%)
    if turn8 ~= pass8 then
      local rest = char(lane) .. turn8 .. ONLY
      pass8, head, sent_head, same = turn8, FIRST .. rest, FIRST_SENT .. rest, nil
    end
    local front = sub(raw, 1, %ALONE_MARK_AT% + 9) -- up to the stamp, as of most jobs of its call
    if front ~= same then
      if sub(raw, %ALONE_HEAD%) ~= (bytes == SENT_BYTES and sent_head or head) or byte(raw, %ALONE_MARK_AT%) == 255 then break end -- it has more, or the place of a group
      same, due8 = front, sub(raw, %ALONE_PLACE_AT% + 1, %ALONE_PLACE_AT% + 8)
    end
    n = n + 1
    ids[n], dues[n], behind_them[n] = sub(raw, %ALONE_ID_AT%, ROW_BYTES), due8, share .. behind .. sub(raw, %ALONE_PLACE_AT%, ROW_BYTES)
    if bytes == ROW_BYTES then
      is_unseen = false
    else
      local size3 = sub(raw, ROW_BYTES + 1)
      if size3 ~= last_size3 then last_size3, last_size = size3, unp('>I3', size3) end
      size = size + last_size
    end
  end
  if 2 * n < #members then return raws, 0 end -- what comes of few is not worth a look at all of them again
  local k = n
  if is_unseen and take.size + size <= take.bytes then
    Claim.add_unseen(take, r, ids, dues, shares, n)
    take.size = take.size + size
  else
    k = take_seen(take, r, ids, shares, n)
  end
  if k == 0 then return raws, 0 end
  local kv, at, stands = {}, 0, Share.lane_of_state(sh, lane)
  for i = 1, k do
    local share = shares[i]
    kv[at + 1], kv[at + 2], raws[share] = share, RUNS, RUNS
    at = at + 2
  end
  call('ZREMRANGEBYRANK', Share.turns_key(r, lane), 0, k - 1)
  call_many('ZREM', Share.places_key(r), k == n and behind_them or slice(behind_them, 1, k))
  call_many('HSET', Share.rows_key(r), kv)
  sh.active, sh.fresh, sh.changed, stands.turn = sh.active + k, sh.fresh + k, true, max(stands.turn, unp('>I8', members[k], 5))
  stands.places, stands.others = max(0, stands.places - k), 0
  if stands.places == 0 then sh.lanes[lane] = nil end
  return raws, k
end

-- Jobs have left their lease, counted by share: the row of a share goes that had no other. Answers
-- the shares that are left to be looked at, and their rows.
function Share.freed_alone(r, counts, order)
  local raws, rows, sh, gone, left, k, freed = read_unknown(r, order), Share.known_rows(r), Share.of(r), {}, {}, 0, 0
  for i = 1, #order do
    local share = order[i]
    local n, raw = counts[share], raws[share]
    local is_all = n == 1 and raw == RUNS
    if not is_all and n <= TOGETHER then
      local row = rows[share]
      if row then
        is_all = row.active == n and not row.dirty and row.was_there and not row.was_round and row.blocked == 0 and not row.until_ and not row.gate and not row.counted
          and next_of(row.lanes) == nil
        if is_all then rows[share] = nil end
      elseif raw and #raw == RUNS_BYTES then
        is_all = sub(raw, %RUNNING_HEAD%) == RUNNING .. pack('>I4', n)
      end
    end
    if is_all then
      k, freed = k + 1, freed + n
      gone[k] = share
    else
      left[#left + 1] = share
    end
  end
  if k > 0 then
    call_many('HDEL', Share.rows_key(r), gone)
    sh.shares, sh.active, sh.changed = max(0, sh.shares - k), max(0, sh.active - freed), true
  end
  return left, raws
end

end
