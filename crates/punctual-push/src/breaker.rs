//! A circuit breaker: plain state, no clock, no lock.

use std::time::Duration;

use punctual::time::{Timestamp, minutes, seconds};

/// Whether a host is worth asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Breaker {
    state: State,
    /// Failures in a row.
    failures: u32,
    /// How often it opened in a row.
    openings: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Open {
        until: Timestamp,
    },
    /// One is under way to see.
    Probing,
}

/// What may be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Go,
    /// Go, and alone: the answer decides.
    Probe,
    /// Not before that span.
    Wait(Duration),
}

/// Failures in a row that open it.
pub(crate) const FAILURES_MAX: u32 = 5;
/// How long it is open at first; each probe that fails doubles that.
pub(crate) const OPEN_FIRST: Duration = seconds(30);
/// How long it is open at most.
pub(crate) const OPEN_MAX: Duration = minutes(10);
/// How long one waits for the answer of a probe.
const PROBE_WAIT: Duration = seconds(2);

impl Breaker {
    pub(crate) fn admit(&mut self, now: Timestamp) -> Admission {
        match self.state {
            State::Closed => Admission::Go,
            State::Probing => Admission::Wait(PROBE_WAIT),
            State::Open { until } if now < until => Admission::Wait(until - now),
            State::Open { .. } => {
                self.state = State::Probing;
                Admission::Probe
            }
        }
    }

    /// The host answered.
    pub(crate) fn well(&mut self) {
        *self = Self::default();
    }

    /// The host did not answer, or said that it is ill. Whether it opened by that.
    pub(crate) fn ill(&mut self, now: Timestamp) -> bool {
        self.failures = self.failures.saturating_add(1);
        let opens = match self.state {
            State::Closed => self.failures >= FAILURES_MAX,
            State::Probing => true,
            // From one that went before it opened.
            State::Open { .. } => false,
        };
        if opens {
            let span = OPEN_FIRST * 2_u32.saturating_pow(self.openings.min(10));
            self.openings += 1;
            self.state = State::Open {
                until: now + span.min(OPEN_MAX),
            };
        }
        opens
    }

    /// A probe ended without an answer of its own, cancelled for instance: the next one probes.
    pub(crate) fn unknown(&mut self, now: Timestamp) {
        if self.state == State::Probing {
            self.state = State::Open { until: now };
        }
    }

    /// Whether nothing would be lost if it was forgotten.
    pub(crate) fn is_fresh(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests;
