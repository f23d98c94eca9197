//! Sets engine time of shards back, after a server's clock was ahead.

use std::time::Duration;

use punctual::{Namespace, Result};

use crate::session::calls::Calls;
use crate::transport::node::Kind;
use crate::wire::control;

/// How engine time of a shard stands beside the clock of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardClock {
    /// The number of the shard.
    pub shard: usize,
    /// By how much engine time is ahead: for so long nothing falls due, and no lease ends.
    pub ahead: Duration,
    /// Workers that were seen in the last minute of engine time.
    pub workers: usize,
    /// Whether leases are open.
    pub has_leases: bool,
    /// Whether engine time was set back.
    pub is_set_back: bool,
}

impl Calls {
    pub(crate) async fn set_clock_back(
        &self,
        namespace: &Namespace,
        dry_run: bool,
        force: bool,
    ) -> Result<Vec<ShardClock>> {
        let map = control::set_clock_back(dry_run, force);
        let mut clocks = Vec::new();
        for (index, shard) in self.shards_of(namespace).await?.iter().enumerate() {
            let mut first = None;
            loop {
                let reply = self.change(shard, "control", Kind::Changes, &map).await?;
                let clock = ShardClock {
                    shard: index,
                    ahead: Duration::from_micros(reply.get("ah").number()?),
                    workers: reply.get("wk").number()? as usize,
                    has_leases: reply.get("le").is_set(),
                    is_set_back: reply.get("d").is_set(),
                };
                // Leases end a part at a time; what was met is said of before.
                let met = *first.get_or_insert(clock);
                if !reply.get("mo").is_set() {
                    let is_set_back = clock.is_set_back;
                    clocks.push(ShardClock { is_set_back, ..met });
                    break;
                }
            }
        }
        Ok(clocks)
    }
}
