//! Doctor's check of keys that are large to move.

use punctual::engine::StatsRequest;
use punctual_redis::{KeySize, RedisEngine};

use super::Check;
use crate::args::Session;
use crate::connect::Address;
use crate::failure::Result;
use crate::output::count;

/// A queue with fewer waiting jobs has no key that is too large.
const WAITING_MIN: u64 = 500_000;
/// Queues whose keys are measured, those with the most waiting jobs.
const QUEUES: usize = 20;
/// Over 512 MiB a server with default settings refuses a dump, and both stand still meanwhile.
const DUMP_MAX: u64 = 256 << 20;

/// Whether each key of the namespace can move to another server; none for an engine without keys.
pub(super) async fn check(address: &Address, session: &Session) -> Result<Option<Check>> {
    let Address::Redis(address) = address else {
        return Ok(None);
    };
    let stats = session
        .engine
        .stats(&session.namespace, StatsRequest::default());
    let mut queues: Vec<_> = stats
        .await?
        .queues
        .into_iter()
        .map(|queue| (queue.counts.pending(), queue.queue))
        .filter(|(waiting, _)| *waiting >= WAITING_MIN)
        .collect();
    queues.sort_unstable_by(|a, b| b.cmp(a));
    let queues: Vec<String> = queues
        .into_iter()
        .map(|(_, name)| name)
        .take(QUEUES)
        .collect();
    let engine = RedisEngine::connect(address.options()?).await?;
    let sizes = engine.key_sizes(&session.namespace, &queues).await?;
    Ok(Some(judged(&sizes)))
}

/// What the sizes of keys say, the largest first.
fn judged(sizes: &[KeySize]) -> Check {
    let Some(largest) = sizes.first() else {
        return Check::good("keys", "no key is large to move to another server");
    };
    let finding = format!(
        "the largest, {}, has about {} MiB",
        largest.key,
        count(largest.bytes >> 20)
    );
    let large = sizes.iter().filter(|size| size.bytes > DUMP_MAX).count();
    match large {
        0 => Check::good("keys", finding),
        _ => Check::warning(
            "keys",
            format!(
                "{finding}; {} over {} MiB",
                count(large as u64),
                DUMP_MAX >> 20
            ),
            "a cluster that moves this slot stops both servers while such a key travels, and fails over 512 MiB: move it \
             when fewer jobs wait, raise proto-max-bulk-len of the target, or use more shards, as docs/engines/redis.md \
             describes",
        ),
    }
}

#[cfg(test)]
mod tests;
