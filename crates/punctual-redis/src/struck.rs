use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A source and a target, as `NAMESPACE/SHARD`.
type Pair = (String, String);
/// By the first instant of the source's clock everything was struck off there that had been posted
/// for the target before the second.
type Struck = (u64, u64);

/// What is known of outboxes, so that targets may forget what they have taken from them.
#[derive(Debug, Default)]
pub(crate) struct StruckOff(Mutex<BTreeMap<Pair, Struck>>);

/// How old a word must be before a target hears it: what was read before is refused there from then
/// on, and what is under way now shall not be.
const LAG_US: u64 = 1_000_000;

impl StruckOff {
    /// Notes a word, unless an older one is still to be told.
    pub(crate) fn learn(&self, pair: Pair, struck: Struck) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(pair).or_insert(struck);
    }

    /// The word for a target that hears of a reading at that instant, if there is one old enough.
    pub(crate) fn take_old(&self, pair: &Pair, read_at: u64) -> Option<Struck> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, _) = known.get(pair)?;
        match at.saturating_add(LAG_US) <= read_at {
            true => known.remove(pair),
            false => None,
        }
    }
}
