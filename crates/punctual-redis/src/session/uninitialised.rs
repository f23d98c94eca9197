//! Shards that were never initialised although the address says `data=required`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use punctual::Namespace;
use punctual::engine::NamespaceProblem;
use punctual::sync::Lock;

use crate::session::shards::Shard;

/// Shards whose calls failed because data are required and there are none.
#[derive(Debug, Default)]
pub(crate) struct Uninitialised(Mutex<BTreeMap<(Namespace, u16), Arc<Shard>>>);

/// At most this many are remembered; calls to others still return the error.
const REMEMBERED_MAX: usize = 16;

/// The error of a call to such a shard.
pub(crate) const MESSAGE: &str = "redis has nothing of this namespace or of a shard of it, and the address says \
     data=required: it was flushed, started empty, or is another server or database; bring the data back, or begin anew \
     by punctual queues list at the same address without data=required";

pub(crate) fn problem(shard: &Shard) -> NamespaceProblem {
    NamespaceProblem::new(shard.namespace.clone(), MESSAGE)
}

impl Uninitialised {
    /// Notes that a read found nothing in a shard, or that data are there by now.
    pub(crate) fn note(&self, shard: &Arc<Shard>, is_missing: bool) {
        let key = (shard.namespace.clone(), shard.index);
        let mut known = self.lock();
        if !is_missing {
            known.remove(&key);
        } else if known.len() < REMEMBERED_MAX {
            known.insert(key, shard.clone());
        }
    }

    pub(crate) fn known(&self) -> Vec<Arc<Shard>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Namespace, u16), Arc<Shard>>> {
        self.0.locked()
    }
}
