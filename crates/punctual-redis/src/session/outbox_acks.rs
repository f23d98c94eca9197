//! Acknowledged outbox entries: what targets may forget of the effects that they took.

use std::collections::BTreeMap;
use std::sync::Mutex;

use punctual::sync::Lock;

/// A source and a target, as `NAMESPACE/SHARD`.
type Pair = (String, String);
/// At the first instant of the source's clock it had removed every entry that was posted for the
/// target before the second.
type Ack = (u64, u64);

/// What is known of outboxes, so that targets may forget what they have taken from them.
#[derive(Debug, Default)]
pub(crate) struct OutboxAcks(Mutex<BTreeMap<Pair, Ack>>);

/// How old an acknowledgement must be before a target receives it: the target refuses what was read
/// earlier from then on, and must not refuse what is under way now.
const LAG_US: u64 = 1_000_000;

impl OutboxAcks {
    /// Stores an acknowledgement, unless an older one is still to be sent.
    pub(crate) fn learn(&self, pair: Pair, ack: Ack) {
        let mut known = self.0.locked();
        known.entry(pair).or_insert(ack);
    }

    /// The acknowledgement for a target that receives entries read at that instant, if one is old
    /// enough.
    pub(crate) fn take_old(&self, pair: &Pair, read_at: u64) -> Option<Ack> {
        let mut known = self.0.locked();
        let (at, _) = known.get(pair)?;
        match at.saturating_add(LAG_US) <= read_at {
            true => known.remove(pair),
            false => None,
        }
    }
}
