-- The names under which the library answers, with what Redis must know of each.
do

-- Registers a verb. `f` takes its packed argument; `by_hand`, if there is one, words: anything but
-- one argument of at least so many bytes that is no text.
local function verb(name, f, flags, by_hand, packed_bytes)
  redis.register_function{function_name = PREFIX .. name, flags = flags, callback = function(keys, args)
    if not call then bind() end
    if #keys ~= 1 then
      return redis.error_reply('PUNCTUAL invalid_input ' .. name .. ' takes one key; write FCALL ' .. PREFIX .. name .. " 1 'punctual:{default/0}' and its arguments; see punctual_1_help")
    end
    if by_hand and Text.is_words(args, packed_bytes) then return Text.run(by_hand, keys[1], args) end
    if #args ~= 1 then
      return redis.error_reply('PUNCTUAL invalid_input ' .. name .. ' takes one packed argument, as in docs/wire-protocol.md; for functions by hand see punctual_1_help')
    end
    return Shard.whole(f, keys[1], args[1])
  end}
end

-- Registers a function of several packed arguments, `least` of them.
local function several(name, f, flags, least)
  redis.register_function{function_name = PREFIX .. name, flags = flags, callback = function(keys, args)
    if not call then bind() end
    if #keys ~= 1 then return redis.error_reply('PUNCTUAL invalid_input ' .. name .. ' takes one key') end
    if #args < least then return redis.error_reply('PUNCTUAL invalid_input ' .. name .. ' takes packed arguments, as in docs/wire-protocol.md; for functions by hand see punctual_1_help') end
    return Shard.whole(f, keys[1], args)
  end}
end

local READS, FREES = {'no-writes'}, {'allow-oom'}

-- version. No key. Reply: the number of this library, larger with each change of it.
redis.register_function{function_name = PREFIX .. 'version', flags = {'no-writes', 'allow-stale', 'allow-oom'},
  callback = function() return VERSION end}

several('enqueue', Enqueue.call, {}, 1)
verb('claim', Claim.call, FREES, 'claim', 49)
verb('extend', Lease.extend_call, FREES, 'extend', 10)
verb('settle', Settle.call, FREES, 'settle', 10)
several('enqueues', Calls.enqueues, {}, 1)
several('calls', Calls.call, FREES, 1)
verb('get', Inspect.get, READS, 'get', 9)
verb('list', Inspect.list, READS)
verb('edit', Edit.call, FREES)
verb('stats', Stats.call, READS, 'stats', 9)
verb('control', Control.call, FREES)
verb('guarded', Control.call, {}) -- the same, for what a full server refuses: guarded jobs
verb('maintain', Sweep.maintain, FREES)
verb('outbox', Outbox.call, FREES)
verb('deliver', Outbox.deliver, FREES)
verb('info', Stats.info, READS)
verb('listen', Wait.listen, READS)
verb('watch', Wait.watch, FREES)
verb('changes', Wait.changes, FREES)

-- By hand only.
verb('push', nil, {}, 'push', 1e9)
verb('cancel', nil, FREES, 'cancel', 1e9)
verb('explain', nil, FREES, 'explain', 1e9)

-- met. In tests only. No key. Reply: bundles stored, counted as runs of a lease, noted as
-- completed, since the library was loaded.
--TEST redis.register_function{function_name = PREFIX .. 'met', flags = {'no-writes'}, callback = function() return Bundle.met() end}

-- help. Its keys, if any, are not looked at.
redis.register_function{function_name = PREFIX .. 'help', flags = {'no-writes', 'allow-stale', 'allow-oom'},
  callback = function(_, args)
    if not call then bind() end
    return Text.help(args)
  end}

end
