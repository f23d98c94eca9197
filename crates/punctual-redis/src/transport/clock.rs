//! Tracks the servers' time from their answers.

use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use punctual::sync::Lock;
use punctual::time::{Clock, Sleep, Stopwatch, Timestamp, pause, seconds};

/// The servers' time as far as it is known here: the last of their answers, and what has passed
/// since. It decides nothing but how long to sleep; what is due is decided by a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerClock(std::sync::Arc<Mutex<Option<Observation>>>);

/// An instant that a server named, and how exactly it is known when that was.
#[derive(Clone, Copy)]
struct Observation {
    instant: Timestamp,
    since: Stopwatch,
    uncertainty: Duration,
}

impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} +- {:?}", self.instant, self.uncertainty)
    }
}

impl Observation {
    fn now(&self) -> Timestamp {
        self.instant + self.since.elapsed()
    }

    /// Two clocks part by a ten-thousandth of what has passed.
    fn uncertainty_now(&self) -> Duration {
        self.uncertainty + self.since.elapsed() / 10_000
    }
}

impl ServerClock {
    /// Takes in what a server said its time was, at some moment of a call that took so long.
    pub(crate) fn observe(&self, now: Timestamp, took: Duration) {
        let uncertainty = took / 2;
        let observed = Observation {
            instant: now + uncertainty,
            since: Stopwatch::start(),
            uncertainty,
        };
        let mut known = self.known();
        let jumped = |known: &Observation| {
            let (ours, theirs) = (known.now(), observed.now());
            ours.since(theirs).max(theirs.since(ours)) > uncertainty + known.uncertainty_now()
        };
        let better = |known: &Observation| uncertainty <= known.uncertainty_now() || jumped(known);
        if known.as_ref().is_none_or(better) {
            *known = Some(observed);
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<Observation>> {
        self.0.locked()
    }
}

impl Clock for ServerClock {
    /// Zero as long as no server has answered.
    fn now(&self) -> Timestamp {
        self.known()
            .as_ref()
            .map_or(Timestamp::ZERO, Observation::now)
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep {
        let clock = self.clone();
        Box::pin(async move {
            // What is known of the servers' time may change while we sleep.
            loop {
                let left = until.since(clock.now());
                if left.is_zero() {
                    return;
                }
                pause(left.min(seconds(1))).await;
            }
        })
    }
}

#[cfg(test)]
mod tests;
