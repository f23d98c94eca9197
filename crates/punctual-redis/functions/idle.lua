-- Queues without jobs and settings are forgotten after a day.
do

-- Queues that one call examines, and how long one is kept that has no jobs and no settings: as long
-- as its history.
local EXAMINED_MAX = 20
local IDLE = 1440 * MINUTE

-- Whether a queue has had neither jobs nor settings for a day.
local function is_idle(r)
  if r.flags % %ROW_LIMITED% > %ROW_IDLE% or S.now - max(r.minute, r.short) <= IDLE then return false end
  for state = 0, 6 do if r.counts[state] > 0 then return false end end
  if r.flags >= %ROW_SHARED% then -- a share may be blocked; the others are forgotten first
    Share.open(Row.of(r.name))
    return false
  end
  return not call('HGET', S.k.rec, 'queue/' .. r.name)
end

-- Forgets queues that are idle, of the next few by name, from the first one on if `anew`; the field
-- `i` of `BASE:s` is the last one that was looked at.
function Row.forget_idle(anew)
  local last = call('HGET', S.k.s, 'i')
  if not last and not anew then return end
  local names = call('ZRANGEBYLEX', S.k.qs, last and '(' .. last or '-', '+', 'LIMIT', 0, EXAMINED_MAX)
  for _, name in ipairs(names) do
    local r = Row.find(name)
    if r and is_idle(r) then Row.forget(r) end
  end
  if #names == EXAMINED_MAX then call('HSET', S.k.s, 'i', names[#names]) elseif last then call('HDEL', S.k.s, 'i') end
end

end
