-- Shares: those that are blocked or paused, for exports.
do

-- The blocked and paused ones of about as many shares of a queue as are asked for, behind a cursor:
-- the share, and when time opens it; a paused one has no instant.
function Share.list_blocked(q, cursor, limit)
  local r = Row.find(q)
  if not r or r.flags < %ROW_SHARED% or Share.of(r).blocked == 0 then return {l = {}} end
  local answer = call('HSCAN', Share.rows_key(r), cursor, 'COUNT', limit)
  local shares, found, out = {}, {}, {}
  for i = 1, #answer[2], 2 do
    local share = answer[2][i]
    shares[#shares + 1], found[share] = share, answer[2][i + 1]
  end
  table.sort(shares, below)
  local rows = Share.fetch(r, shares, found)
  for i = 1, #shares do
    local till = rows[shares[i]].blocked
    if till > S.now then out[#out + 1] = {shares[i], till ~= Share.UNTIL_RESUMED and u8(till) or nil} end
  end
  return {l = out, cu = answer[1] ~= '0' and answer[1] or nil}
end

end
