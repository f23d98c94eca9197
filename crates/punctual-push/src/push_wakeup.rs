//! Wakeups for the workers that post jobs: a queue has a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use punctual::Namespace;
use punctual::job::check_name;
use punctual::sync::Lock;
use tokio::sync::watch;

/// Notifies [`Posting`](crate::Posting) that a queue of pushed jobs has one: it may not know the
/// queue yet.
///
/// A hint: after a missed one it finds the queue within seconds. Cheap to clone; clones are one
/// wakeup.
#[derive(Debug, Clone, Default)]
pub struct PushWakeup(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    notified: Mutex<Notified>,
    changed: watch::Sender<()>,
}

type Notified = BTreeMap<Namespace, BTreeSet<String>>;

/// Queues that are remembered; beyond that all are notified again.
const QUEUES_MAX: usize = 10_000;

impl PushWakeup {
    /// Says that a job was put into that queue; costs next to nothing if it was said before. What
    /// is no name of a queue is passed over: no engine has taken that job, and no worker could
    /// claim there.
    pub fn notify(&self, namespace: &Namespace, queue: &str) {
        if check_name("queue", queue).is_err() {
            return;
        }
        let mut notified = self.lock();
        if let Some(queues) = notified.get(namespace)
            && queues.contains(queue)
        {
            return;
        }
        if notified.values().map(BTreeSet::len).sum::<usize>() >= QUEUES_MAX {
            notified.clear();
        }
        let queues = notified.entry(namespace.clone()).or_default();
        queues.insert(queue.to_owned());
        drop(notified);
        self.0.changed.send_replace(());
    }

    /// The queues of a namespace that it was notified for.
    pub(crate) fn queues(&self, namespace: &Namespace) -> BTreeSet<String> {
        self.lock().get(namespace).cloned().unwrap_or_default()
    }

    /// Receives every wakeup from now on.
    pub(crate) fn listen(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Notified> {
        self.0.notified.locked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One name that no worker can claim from would end the worker of all queues beside it.
    #[test]
    fn a_bad_name_is_not_notified() {
        let (home, wakeup) = (Namespace::default(), PushWakeup::default());
        let long = format!("http:{}", "a".repeat(124));
        for queue in ["http:orders", "http:a b", "http:\0", &long, ""] {
            wakeup.notify(&home, queue);
        }
        assert_eq!(wakeup.queues(&home), ["http:orders".to_owned()].into());
    }
}
