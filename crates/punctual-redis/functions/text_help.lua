-- help: every function for hand use and its options, in lines that redis-cli prints as they are.
do

local TARGET = 'ID | QUEUE UNIQUE_KEY'

-- In the order of a job's life: name, arguments, what it does, options, lines that say more.
local PAGES = {
  {'push', 'QUEUE PAYLOAD', 'enqueues a job; due at once unless DELAY or AT says when', Text.push_options, {
    'The same ID again is a duplicate, so a push with an ID may be sent again after a lost reply.',
    'UNIQUE: at most one unsettled job of the queue holds the key; POLICY says what a second push does.',
    'GROUP: its jobs run one after the other. SHARE: its jobs take turns with those of other shares. WAIT_FOR: held until an effect clears the name, or it is run now.',
    'TIMEOUT: the worker stops an attempt that runs longer. The server does not: a lease lasts as long as it is extended.',
    'durability in the answer: what has survived at least. memory: the server writes no append-only file; os: it does.',
    'BASE64: PAYLOAD is base64. HEADER and WAIT_FOR may stand more than once.',
    "FCALL %spush 1 'punctual:{default/0}' mail '{\"to\":\"ann\"}' DELAY 5000 UNIQUE ann:welcome",
  }},
  {'claim', 'QUEUE', 'takes due jobs under a lease (10 s); answers its token and the jobs', Text.claim_options, {
    'LIMIT is 1 unless given; a lease ends before MAX_BYTES of payload (65536), but has one job at least. QUEUE and KIND may stand more than once; KIND says which kinds this worker knows.',
    'Nothing due: come again at wake_at, or when BZPOPMIN punctual:{default/0}:d:QUEUE 0 answers; then claim with WOKEN.',
    'NONCE: the same WORKER and NONCE again answer the same lease, after a lost reply.',
    'A suspect is a job that crashed twice: it runs alone, and dies (poison) if it crashes again. "suspects_wait": one waits in these queues.',
    'With a WORKER name that no other process has, a worker that holds no lease gets a suspect first, as its only job ("alone": true), and nothing else until that lease ends.',
    'ALONE: this worker runs nothing else now; answers one suspect if there is one. For workers that always hold a lease, that have no WORKER name, or that claim from several shards: settle all, then claim ALONE.',
    "FCALL %sclaim 1 'punctual:{default/0}' mail LIMIT 10 LEASE_MS 30000 WORKER my-host",
  }},
  {'extend', 'TOKEN', 'extends the lease; returns which jobs are lost and which are asked to stop', Text.extend_options, {
    'Call it at a third of the lease. lease_lost: the jobs go to others; stop, settle nothing, claim anew.',
    'JOB: is that job still of this lease? PROGRESS: a note that get shows. Both may stand more than once.',
    "FCALL %sextend 1 'punctual:{default/0}' TOKEN LEASE_MS 30000",
  }},
  {'settle', 'TOKEN ID OUTCOME', 'settles an attempt; ID OUTCOME and options again for each more job', Text.settle_options, {
    'OUTCOME: completed, retry, snooze, cancelled, dead, released. AFTER: for snooze, and for retry instead of its policy.',
    'Jobs that are not named stay in the lease. The same settle again is answered repeated.',
    "FCALL %ssettle 1 'punctual:{default/0}' TOKEN ID completed RESULT ok",
  }},
  {'cancel', TARGET, 'cancels a waiting job; an active one is asked to stop', {}, {
    "FCALL %scancel 1 'punctual:{default/0}' mail ann:welcome",
  }},
  {'get', TARGET, 'one job as it is; null if there is none; FCALL_RO works too', {}, {
    "FCALL_RO %sget 1 'punctual:{default/0}' ID",
  }},
  {'explain', TARGET, 'why a job has not run yet, or what became of it', {}, {
    "FCALL %sexplain 1 'punctual:{default/0}' ID",
  }},
  {'stats', '[QUEUE ...]', 'counts by state, and workers of the last minute; FCALL_RO works too', {}, {
    "FCALL_RO %sstats 1 'punctual:{default/0}'",
  }},
  {'help', '[FUNCTION]', 'this page, or one function with its options', {}, {
    'FCALL %shelp 0 push',
  }},
}

local function usage(page)
  return PREFIX .. page[1] .. ' 1 KEY ' .. page[2] .. (#page[4] > 0 and ' [OPTION VALUE] ...' or '')
end

local function overview()
  local lines = {
    'Punctual by hand: FCALL FUNCTION 1 KEY ARGUMENTS; words go in, one line of JSON comes out.',
    "KEY is the namespace and shard: 'punctual:{default/0}' unless you made others; a job lives in one shard.",
    'With more than one shard: what you push goes to the shard whose key you write; claim, get and the rest see only that one.',
    'Names are those of docs/wire-protocol.md; spans and instants are whole milliseconds, instants since 1970.',
  }
  for _, page in ipairs(PAGES) do lines[#lines + 1] = usage(page):gsub(' 1 KEY', page[1] == 'help' and ' 0' or ' 1 KEY') .. ' -- ' .. page[3] end
  lines[#lines + 1] = 'More of one: FCALL ' .. PREFIX .. 'help 0 push'
  return lines
end

local function details(page)
  local lines = {usage(page):gsub(' 1 KEY', page[1] == 'help' and ' 0' or ' 1 KEY') .. ' -- ' .. page[3]}
  for _, option in ipairs(page[4]) do
    lines[#lines + 1] = '  ' .. option[1] .. (option[3] ~= '' and ' ' .. option[3] or '')
  end
  for _, line in ipairs(page[5]) do lines[#lines + 1] = line:gsub('%%s', PREFIX) .. '' end
  return lines
end

-- help. Keys: none, or a base. Arguments: none, or a function. Reply: lines.
function Text.help(args)
  local lines
  if #args == 0 then
    lines = overview()
  elseif #args == 1 then
    local wanted = args[1]:lower():gsub('^' .. PREFIX, '')
    for _, page in ipairs(PAGES) do if page[1] == wanted then lines = details(page) end end
  end
  if not lines then
    return redis.error_reply('PUNCTUAL invalid_input help takes one of push, claim, extend, settle, cancel, get, explain, stats, or nothing (argument: '
      .. Text.shown(args[1]) .. ')')
  end
  for i, line in ipairs(lines) do lines[i] = {ok = line} end
  return lines
end

end
