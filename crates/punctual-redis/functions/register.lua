-- The names under which the library answers, with what Redis must know of each.
do

local function verb(name, f, flags)
  redis.register_function{function_name = PREFIX .. name, flags = flags, callback = function(keys, args)
    if #keys ~= 1 or #args < 1 then
      return redis.error_reply('PUNCTUAL invalid_input this function takes one key, punctual:{NAMESPACE/SHARD}, and its arguments; see punctual_1_help')
    end
    return f(keys[1], args[1], args)
  end}
end

local READS, FREES = {'no-writes'}, {'allow-oom'}

-- version. No key. Reply: the number of this library, larger with each change of it.
redis.register_function{function_name = PREFIX .. 'version', flags = {'no-writes', 'allow-stale', 'allow-oom'},
  callback = function() return VERSION end}

verb('enqueue', Enqueue.call, {})
verb('claim', Claim.call, FREES)
verb('extend', Settle.extend, FREES)
verb('settle', Settle.call, FREES)
verb('get', Inspect.get, READS)
verb('list', Inspect.list, READS)
verb('edit', Edit.call, FREES)
verb('stats', Stats.call, READS)
verb('control', Control.call, FREES)
verb('maintain', Sweep.maintain, FREES)
verb('info', Stats.info, READS)
verb('listen', Wait.listen, READS)
verb('watch', Wait.watch, FREES)
verb('changes', Wait.changes, FREES)

end
