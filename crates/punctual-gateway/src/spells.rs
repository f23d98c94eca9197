//! What is logged of failures that come by the thousand while an engine is away or full: the first, how
//! many more each minute, and that there are none any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual::time::{Clock, SystemClock, minutes};

/// Spells of failures, by their code: codes are few.
#[derive(Debug)]
pub(crate) struct Spells {
    clock: Arc<dyn Clock>,
    open: Arc<Open>,
}

#[derive(Debug, Default)]
struct Open(Mutex<BTreeMap<String, Spell>>);

#[derive(Debug, Default)]
struct Spell {
    /// Beyond the first.
    told: u64,
    untold: u64,
}

impl Default for Spells {
    fn default() -> Self {
        Self::by(Arc::new(SystemClock))
    }
}

impl Spells {
    /// Takes minutes from that clock.
    pub(crate) fn by(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            open: Arc::default(),
        }
    }

    /// Counts a failure; whether it begins a spell, and is to be told itself.
    ///
    /// A spell is over after a minute without one: that others succeed says nothing, as a full engine does
    /// all but to enqueue.
    pub(crate) fn begins(&self, code: &str) -> bool {
        let mut open = self.open.lock();
        if let Some(spell) = open.get_mut(code) {
            spell.untold += 1;
            return false;
        }
        open.insert(code.to_owned(), Spell::default());
        drop(open);
        let follow = follow(self.clock.clone(), self.open.clone(), code.to_owned());
        tokio::spawn(follow);
        true
    }
}

async fn follow(clock: Arc<dyn Clock>, open: Arc<Open>, code: String) {
    loop {
        // By the clock of now, which may have been set back.
        clock.sleep_until(clock.now() + minutes(1)).await;
        match open.turn(&code) {
            Minute::Failed(requests) => {
                tracing::error!(
                    code,
                    requests,
                    "requests failed for the same reason within a minute"
                );
            }
            Minute::Quiet(requests) => {
                let requests = requests + 1;
                tracing::warn!(
                    code,
                    requests,
                    "no request has failed for that reason for a minute"
                );
                return;
            }
        }
    }
}

/// What a minute of a spell was like.
enum Minute {
    Failed(u64),
    /// The spell is over; it had so many failures beyond the first.
    Quiet(u64),
}

impl Open {
    fn turn(&self, code: &str) -> Minute {
        let mut open = self.lock();
        if let Some(spell) = open.get_mut(code)
            && spell.untold > 0
        {
            let requests = std::mem::take(&mut spell.untold);
            spell.told += requests;
            return Minute::Failed(requests);
        }
        Minute::Quiet(open.remove(code).map_or(0, |spell| spell.told))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Spell>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
