-- Jobs that are enqueued now at the end of the lines of their shares, those of a share together.
do

local KNOWN_MAX, WIDEST = Share.KNOWN_MAX, Share.WIDEST

-- The line of a share in a lane, to be changed; false if a place in it is that of a group.
local function line_of(r, row, lane)
  local known = row.lanes[lane]
  if known and known.mixed then return false end
  Share.changes(row)
  return Share.line_in(r, row, lane)
end

-- Puts jobs that were enqueued now, in their order, at the end of their shares' lines: ids, records
-- and shares; `kind` of a chunk of such jobs, if it is known.
function Share.line_up(r, ids, raws, shares, kind)
  local found
  r.counts[READY] = r.counts[READY] + #ids
  ids, raws, shares, found = Share.line_up_alone(r, ids, raws, shares, kind == %CHUNK_SENT%)
  if not ids then return end
  local rows, are_sent, members, m, lines, last_lane, same, front = Share.fetch(r, shares, found), kind == %CHUNK_SENT%, {}, 0, nil, nil, nil, nil
  Group.write_lines()
  for i = 1, #ids do
    local share, raw = shares[i], raws[i]
    local lane, size, stamp_due = byte(raw, %REC_PRIORITY%), #raw, sub(raw, 2, %REC_HASH_AT% - 1)
    if lane ~= last_lane then lines, last_lane = {}, lane end
    if stamp_due ~= same then same, front = stamp_due, '\1' .. sub(raw, %REC_DUE%) .. sub(raw, %REC_STAMP%) end
    local line, place = lines[share], front .. sub(raw, %REC_IDX%) .. 'J' .. ids[i]
    if line == nil then
      line = line_of(r, rows[share], lane)
      lines[share] = line
    end
    if not are_sent or size >= WIDEST then size = nil end
    if line then
      local n, sent = line.n, line.sent
      if n == 0 then
        line.sent = size
      elseif sent and (not size or size > sent) then
        line.sent = size
      end
      if n < KNOWN_MAX and #line.known == n then line.known[n + 1], line.known_bytes = place, nil end
      members[m + 1], members[m + 2] = '0', line.prefix .. place
      line.n, m = n + 1, m + 2
    else
      Share.place_in(r, rows[share], lane, place, true, size)
    end
  end
  call_many('ZADD', Share.places_key(r), members)
end

end
