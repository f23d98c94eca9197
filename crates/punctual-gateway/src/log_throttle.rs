//! The log throttle: of many equal failures it logs the first, a count each minute, and their end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use punctual::sync::Lock;
use punctual::time::{Clock, SystemClock, minutes};

/// LogThrottle of failures, by their code and their cause.
#[derive(Debug)]
pub(crate) struct LogThrottle {
    clock: Arc<dyn Clock>,
    open: Arc<Open>,
}

#[derive(Debug, Default)]
struct Open(Mutex<BTreeMap<Reason, Episode>>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Reason {
    code: String,
    cause: String,
}

/// Episodes at the same time; beyond that, failures share one per code, and codes are few.
const CAUSES_MAX: usize = 64;
const OTHERS: &str = "other causes";
/// Characters of a cause that are compared.
const CAUSE_CHARS_MAX: usize = 256;

#[derive(Debug, Default)]
struct Episode {
    /// Beyond the first.
    logged: u64,
    unlogged: u64,
}

impl Default for LogThrottle {
    fn default() -> Self {
        Self::by(Arc::new(SystemClock))
    }
}

impl LogThrottle {
    /// Measures minutes by that clock.
    pub(crate) fn by(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            open: Arc::default(),
        }
    }

    /// Counts a failure; whether it is the first of its episode and must be logged.
    ///
    /// An episode ends after a minute without a failure. Successful requests do not end it: a full
    /// engine still does everything but enqueue.
    pub(crate) fn is_first(&self, code: &str, cause: &str) -> bool {
        let mut reason = Reason {
            code: code.to_owned(),
            cause: cause.chars().take(CAUSE_CHARS_MAX).collect(),
        };
        let mut open = self.open.lock();
        if open.len() >= CAUSES_MAX && !open.contains_key(&reason) {
            reason.cause = OTHERS.to_owned();
        }
        if let Some(episode) = open.get_mut(&reason) {
            episode.unlogged += 1;
            return false;
        }
        open.insert(reason.clone(), Episode::default());
        drop(open);
        let follow = follow(self.clock.clone(), self.open.clone(), reason);
        tokio::spawn(follow);
        true
    }
}

async fn follow(clock: Arc<dyn Clock>, open: Arc<Open>, reason: Reason) {
    let Reason { code, cause } = &reason;
    loop {
        // By the clock of now, which may have been set back.
        clock.sleep_until(clock.now() + minutes(1)).await;
        match open.turn(&reason) {
            Minute::Failed(requests) => {
                tracing::error!(
                    code,
                    cause,
                    requests,
                    "requests failed for the same reason within a minute"
                );
            }
            Minute::Quiet(requests) => {
                let requests = requests + 1;
                tracing::warn!(
                    code,
                    cause,
                    requests,
                    "no request has failed for that reason for a minute"
                );
                return;
            }
        }
    }
}

/// What happened in a minute of an episode.
enum Minute {
    Failed(u64),
    /// The episode is over; it had that many failures beyond the first.
    Quiet(u64),
}

impl Open {
    fn turn(&self, reason: &Reason) -> Minute {
        let mut open = self.lock();
        if let Some(episode) = open.get_mut(reason)
            && episode.unlogged > 0
        {
            let requests = std::mem::take(&mut episode.unlogged);
            episode.logged += requests;
            return Minute::Failed(requests);
        }
        Minute::Quiet(open.remove(reason).map_or(0, |episode| episode.logged))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Reason, Episode>> {
        self.0.locked()
    }
}

#[cfg(test)]
mod tests;
