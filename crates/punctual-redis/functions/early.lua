-- Clears that come before their jobs: `BASE:ec` has id 16 | name, by the instant at which each is
-- forgotten. The enqueue of the job uses those that it waits for.
do

local function key() return S.base .. ':ec' end

-- Whether any clear is kept; asked once a call.
local function has_any()
  if S.early == nil then S.early = call('EXISTS', key()) == 1 end
  return S.early
end

-- Forgets clears whose time is over, a bounded number.
function Settle.end_early_clears(limit)
  local gone = call('ZRANGEBYSCORE', key(), '-inf', fmt('%d', S.now), 'LIMIT', 0, limit)
  call_many('ZREM', key(), gone)
end

-- Keeps the clear of a name of a job that is not known. Of too many the oldest goes: a settle does
-- not fail because of clears that no job waited for.
function Settle.keep_clear(id, name)
  local till = S.now + %EARLY_CLEAR_US%
  local is_new = call('ZADD', key(), fmt('%d', till), id .. name) == 1
  if is_new and call('ZCOUNT', key(), '-inf', '+inf') > S.limits.early_clears then
    call('ZREM', key(), call('ZRANGE', key(), 0, 0)[1])
  end
  S.early = true
  schedule('kept', till)
end

-- Whether a name that a new job waits for was cleared before it came.
function Enqueue.was_cleared(id, names)
  if not has_any() then return false end
  for _, name in ipairs(names) do
    local till = call('ZSCORE', key(), id .. name)
    if till and tonum(till) > S.now then return true end
  end
  return false
end

-- The names that a new job has still to wait for; those that were cleared before it came are used
-- up. Nil for none.
function Enqueue.names_left(id, names)
  if not names or #names == 0 or not has_any() then return names end
  local left, used = {}, {}
  for _, name in ipairs(names) do
    local till = call('ZSCORE', key(), id .. name)
    if till and tonum(till) > S.now then used[#used + 1] = id .. name else left[#left + 1] = name end
  end
  call_many('ZREM', key(), used)
  return #left > 0 and left or nil
end

end
