//! Shards that must be there, and are not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual::Namespace;
use punctual::engine::NamespaceProblem;

use crate::shards::Shard;

/// Those that calls were refused for, as data are required and there were none.
#[derive(Debug, Default)]
pub(crate) struct Unbegun(Mutex<BTreeMap<(Namespace, u16), Arc<Shard>>>);

/// As many are remembered; whoever asks for more is told all the same.
const REMEMBERED_MAX: usize = 16;

/// What a call to such a shard is answered.
pub(crate) const MESSAGE: &str = "redis has nothing of this namespace or of a shard of it, and the address says \
     data=required: it was flushed, started empty, or is another server or database; bring the data back, or begin anew \
     by punctual queues list at the same address without data=required";

pub(crate) fn problem(shard: &Shard) -> NamespaceProblem {
    NamespaceProblem {
        namespace: shard.namespace.clone(),
        text: MESSAGE.into(),
    }
}

impl Unbegun {
    /// Notes that a look found nothing in a shard, or that there is something by now.
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
