use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::time::{Clock, Sleep, Stopwatch, Timestamp, pause, seconds};

/// The servers' time as far as it is known here: the last of their answers, and what has passed
/// since. It decides nothing but how long to sleep; what is due is decided by a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerClock(std::sync::Arc<Mutex<Option<Heard>>>);

/// An instant that a server named, and how exactly it is known when that was.
#[derive(Clone, Copy)]
struct Heard {
    instant: Timestamp,
    since: Stopwatch,
    vague: Duration,
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} +- {:?}", self.instant, self.vague)
    }
}

impl Heard {
    fn now(&self) -> Timestamp {
        self.instant + self.since.elapsed()
    }

    /// Two clocks part by a ten-thousandth of what has passed.
    fn vague_by_now(&self) -> Duration {
        self.vague + self.since.elapsed() / 10_000
    }
}

impl ServerClock {
    /// Takes in what a server said its time was, at some moment of a call that took so long.
    pub(crate) fn hear(&self, now: Timestamp, took: Duration) {
        let vague = took / 2;
        let heard = Heard {
            instant: now + vague,
            since: Stopwatch::start(),
            vague,
        };
        let mut known = self.known();
        let jumped = |known: &Heard| {
            let (ours, theirs) = (known.now(), heard.now());
            ours.since(theirs).max(theirs.since(ours)) > vague + known.vague_by_now()
        };
        let better = |known: &Heard| vague <= known.vague_by_now() || jumped(known);
        if known.as_ref().is_none_or(better) {
            *known = Some(heard);
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<Heard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ServerClock {
    /// Zero as long as no server has answered.
    fn now(&self) -> Timestamp {
        self.known().as_ref().map_or(Timestamp::ZERO, Heard::now)
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
