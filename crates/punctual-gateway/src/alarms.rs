//! Of all claims that wait for the same due, a few wake up for it; who takes a job is followed by the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use punctual::engine::{Claim, Claimed, WaitFor};
use punctual::time::Timestamp;
use punctual::{Engine, Namespace, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// What waiting claims of one gateway know together.
#[derive(Debug, Default)]
pub(crate) struct Alarms(Mutex<HashMap<Key, Weak<Alarm>>>);

/// Claims that are answered the same `wake_at`.
type Key = (Namespace, Vec<String>, bool);

#[derive(Debug)]
struct Alarm {
    awake: Arc<Semaphore>,
    /// The latest answer to any of them: when it was given, and its `wake_at`.
    told: watch::Sender<(Timestamp, Option<Timestamp>)>,
}

/// How many wake up for a due. More than one, so that jobs that are due together do not wait for each other.
const AWAKE: usize = 4;

/// One claim that waits.
pub(crate) struct Waiter {
    alarm: Arc<Alarm>,
    /// It is one of those who wake up.
    place: Option<OwnedSemaphorePermit>,
}

impl Alarms {
    /// One more that waits.
    pub(crate) fn join(&self, namespace: &Namespace, claim: &Claim) -> Waiter {
        let key = (namespace.clone(), claim.queues.clone(), claim.alone);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(&key).and_then(Weak::upgrade);
        let alarm = known.unwrap_or_else(|| {
            all.retain(|_, alarm| alarm.strong_count() > 0);
            let alarm = Arc::new(Alarm {
                awake: Arc::new(Semaphore::new(AWAKE)),
                told: watch::Sender::new((Timestamp::ZERO, None)),
            });
            all.insert(key, Arc::downgrade(&alarm));
            alarm
        });
        Waiter { alarm, place: None }
    }
}

impl Waiter {
    /// Tells the others what one was answered.
    pub(crate) fn learn(&self, claimed: &Claimed) {
        self.alarm.told.send_if_modified(|told| {
            let is_later = claimed.now >= told.0;
            let is_news = is_later && claimed.wake_at != told.1;
            if is_later {
                *told = (claimed.now, claimed.wake_at);
            }
            is_news
        });
    }

    /// Ends when this one is to claim: by a bell, by a due if it is one of those who wake up for it, and at
    /// `end` in any case.
    pub(crate) async fn wait(
        &mut self,
        engine: &dyn Engine,
        namespace: &Namespace,
        queues: &[String],
        end: Timestamp,
    ) -> Result<()> {
        let awake = self.alarm.awake.clone();
        if self.place.is_none() {
            self.place = awake.clone().try_acquire_owned().ok();
        }
        loop {
            let mut told = self.alarm.told.subscribe();
            let wakes_up = self.place.is_some();
            let due = told.borrow_and_update().1.filter(|_| wakes_up);
            let until = due.map_or(end, |due| due.min(end));
            let work = WaitFor::Work(queues.to_vec());
            tokio::select! {
                biased;
                waited = engine.wait(namespace, work, until) => return waited.map(|_| ()),
                // Somebody was rung for, and learned of an earlier one.
                _ = told.wait_for(|(_, due)| due.is_some_and(|due| due < until)), if wakes_up => {}
                // Somebody has gone: what is due by now is for this one.
                place = awake.clone().acquire_owned(), if !wakes_up => self.place = place.ok(),
            }
        }
    }
}
