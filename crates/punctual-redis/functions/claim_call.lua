-- claim_call: reads the bytes of a claim.
do

-- Bytes that a worker may say of itself, and bytes of payload that one claim returns at most.
local RECORD_MAX, BYTES_MAX = %WORKER_BYTES_MAX%, 4194304

-- Reads a call before anything is changed.
function Claim.read(blob)
  if #blob < %CLAIM_QUEUE_AT% then refuse('invalid_input', 'the call is cut short') end
  local lease_duration, limit, max_bytes, flags, count = unp('>I8I2I4BB', blob, %CLAIM_HEAD_AT%)
  local queues, at, seen = {}, %CLAIM_QUEUE_AT%, {}
  for _ = 1, count do
    local length = byte(blob, at)
    if not length then refuse('invalid_input', 'the call is cut short') end
    local q = Check.name('queue', sub(blob, at + 1, at + length))
    if not seen[q] then seen[q], queues[#queues + 1] = true, q end
    at = at + 1 + length
  end
  if count == 0 or count > %CLAIM_QUEUES_MAX% or limit == 0 or limit > %BATCH_ITEMS_MAX% then
    refuse('invalid_input', 'claim takes 1 to 64 queues and a limit of 1 to 1,000')
  end
  if at > #blob + 1 or #blob - at >= RECORD_MAX then refuse('invalid_input', 'the call is cut short, or its worker record is over 64 KiB') end
  Check.lease_duration(lease_duration)
  local is_small = limit < Claim.unseen_min and #queues == 1 and %flags has CLAIM_READS% and flags % %CLAIM_WOKEN% == 0
  return {nonce = sub(blob, %CLAIM_NONCE%), worker = sub(blob, %CLAIM_WORKER%), lease_duration = lease_duration, limit = limit, max_bytes = min(max_bytes, BYTES_MAX),
    flags = flags, woken = %flags has CLAIM_WOKEN%, stays = %flags has CLAIM_RETURNS%,
    may_be_alone = %flags has CLAIM_SUSPECTS%, queues = queues, record = sub(blob, at), asks = is_small and flags % %CLAIM_READS_EXT% < %CLAIM_SUSPECTS% and queues[1] or nil}
end

end
