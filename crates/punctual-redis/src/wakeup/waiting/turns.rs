//! Whose turn it is to poll, in case that a wakeup was lost with the process that received it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual::Namespace;
use punctual::sync::Lock;
use punctual::time::{Stopwatch, millis, seconds};

/// The waiters of this process: of all that wait for the same queues, one polls for the rest.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns(Arc<Mutex<BTreeMap<Queues, Waiters>>>);

type Queues = (Namespace, Vec<String>);

#[derive(Debug, Default)]
struct Waiters {
    many: usize,
    polled: Option<Stopwatch>,
}

/// A place among the waiters for the same queues; dropping it gives it up.
#[derive(Debug)]
pub(super) struct Turn {
    all: Turns,
    of: Queues,
}

impl Turns {
    pub(super) fn join(&self, namespace: &Namespace, queues: &[String]) -> Turn {
        let of = (namespace.clone(), queues.to_vec());
        self.waiters().entry(of.clone()).or_default().many += 1;
        Turn {
            all: self.clone(),
            of,
        }
    }

    /// How many do not wait for the same.
    pub(super) fn sets(&self) -> usize {
        self.waiters().len()
    }

    fn waiters(&self) -> MutexGuard<'_, BTreeMap<Queues, Waiters>> {
        self.0.locked()
    }
}

impl Turn {
    /// Takes the turn; if another waiter has within that span, returns how much of it is left.
    pub(super) fn take(&self, span: Duration) -> Option<Duration> {
        let mut all = self.all.waiters();
        let waiters = all.get_mut(&self.of)?;
        let since = waiters.polled.as_ref().map(Stopwatch::elapsed);
        if let Some(since) = since.filter(|since| *since < span) {
            return Some(span - since);
        }
        waiters.polled = Some(Stopwatch::start());
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut all = self.all.waiters();
        if let Some(waiters) = all.get_mut(&self.of) {
            waiters.many -= 1;
            if waiters.many == 0 {
                all.remove(&self.of);
            }
        }
    }
}

/// How often one of so many polls: together they poll no less often than one alone, and however
/// many they are, no more often than some.
pub(super) fn poll_interval(waiters: u32) -> Duration {
    (POLL_SHARE * waiters).max(POLL_ALONE)
}

/// How often a single waiter polls.
const POLL_ALONE: Duration = seconds(1);
/// How often one of many waiters polls.
const POLL_SHARE: Duration = millis(45);
