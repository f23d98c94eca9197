-- When a failed attempt is due again, in milliseconds: the same arithmetic as `RetryPolicy::span`.
do

local SPAN_MAX = %RETRY_SPAN_MAX_MS% -- 90 days
local DEFAULT_RETRY = {1, %RETRY_BASE_MS%, %RETRY_FACTOR%, %RETRY_CAP_MS%, 1}

-- An even draw from 0 to 2^20 - 1: a Lehmer generator over the id's bytes and the failures.
local function draw(id, failures)
  local state, bytes = 1, id .. pack('>I4', failures) .. '\0\0'
  for i = 1, #bytes do state = (state * 48271 + byte(bytes, i)) % 2147483647 end
  return state % 1048576
end

function Retry.span(policy, id, failures)
  policy = policy or DEFAULT_RETRY
  local kind, nth, full, jitter = policy[1], max(1, failures), 0, 0
  local first = min(policy[2], SPAN_MAX)
  if kind == 1 then
    local factor, cap = policy[3], min(policy[4], SPAN_MAX)
    full, jitter = first, policy[5]
    for _ = 2, nth do
      if full >= cap or factor <= 1 then break end
      full = full * factor
    end
    full = floor(min(full, cap))
  elseif kind == 2 then
    full, jitter = first, policy[3]
  elseif kind == 3 then
    full, jitter = min(first * nth, min(policy[3], SPAN_MAX)), policy[4]
  else
    full = min(policy[min(nth, #policy - 1) + 1], SPAN_MAX)
  end
  if jitter == 1 then full = floor(full * draw(id, nth) / 1048576) end
  return full
end

end
