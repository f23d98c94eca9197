-- What a lease knows of its jobs with shares and groups, so that their ends touch these without a
-- look at their records.
do

-- Shares and groups of n jobs, by place, of those that have one, as a lease keeps them: length
-- of the first 4 | shares | groups, each nothing, or: runs of keys of one length 2 | per run its
-- keys 2 and their length 2 | the keys.
local function pack_keys(keys, n)
  local head, runs, length, count = {}, 0, #(keys[1] or ''), 0
  for i = 1, n do
    local key = keys[i]
    if not key then
      key = ''
      keys[i] = key
    end
    if #key == length then
      count = count + 1
    else
      runs = runs + 1
      head[runs], length, count = pack('>I2I2', count, length), #key, 1
    end
  end
  head[runs + 1] = pack('>I2I2', count, length)
  return pack('>I2', runs + 1) .. concat(head) .. concat(keys, '', 1, n)
end

function Lease.pack_keyed(shares, groups, n)
  local bytes = shares and pack_keys(shares, n) or ''
  return pack('>I4', #bytes) .. bytes .. (groups and pack_keys(groups, n) or '')
end

-- Adds the keys of the places from `first` to `last` to a list, of those that have one; `into` is
-- knows the places that it took, from one to another.
local function cut_keys(bytes, at, first, last, keys, into)
  local runs, place, k = unp('>I2', bytes, at), 1, #keys
  local from = at + 2 + 4 * runs
  for run = 1, runs do
    local count, length = unp('>I2I2', bytes, at + 4 * run - 2)
    local low, high = max(place, first), min(place + count - 1, last)
    if low <= high and length > 0 then
      local start = from + (low - place) * length
      for at_ = start, start + (high - low) * length, length do
        k = k + 1
        keys[k] = sub(bytes, at_, at_ + length - 1)
      end
      if into then into(low, high) end
    end
    place, from = place + count, from + count * length
    if place > last then break end
  end
end

-- The shares of the jobs of runs of places, and their groups with the ids of their jobs.
function Lease.keyed_of(p, runs)
  local shares, groups, members, blob, at = {}, {}, {}, p.blob, p.at + 16 * p.n
  local length = unp('>I4', blob, at)
  local groups_at = at + 4 + length
  local function take(low, high)
    local n = #members
    for i = low, high do members[n + 1 + i - low] = sub(blob, p.at + 16 * i - 16, p.at + 16 * i - 1) end
  end
  for k = 1, #runs, 2 do
    local first, last = runs[k], runs[k] + runs[k + 1] - 1
    if length > 0 then cut_keys(blob, at + 4, first, last, shares) end
    if groups_at <= #blob then cut_keys(blob, groups_at, first, last, groups, take) end
  end
  return shares, groups, members
end

end
