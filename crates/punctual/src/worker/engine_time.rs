//! Engine time by the local clock, from above: lateness is never reported smaller than it was.

use std::time::Duration;

use crate::time::Timestamp;

/// The latest engine time that claims allow at a local instant.
///
/// An engine stamps a claim at some instant between its sending and the arrival of the answer.
/// Engine time counted from the sending is too late by the way there, and never too early. Of
/// several claims the one with the shortest way there bounds it best.
#[derive(Debug, Clone, Copy)]
pub(super) struct EngineTime {
    stamp: Timestamp,
    /// When the claim with that stamp was sent.
    sent: Duration,
}

/// Clocks that NTP slews run apart by one part in so many at most.
const DRIFT: u32 = 2_000;

impl EngineTime {
    /// Nothing is known before the first claim.
    pub(super) const UNKNOWN: Self = Self {
        stamp: Timestamp::ZERO,
        sent: Duration::ZERO,
    };

    /// Takes in the stamp of a claim. What is known already stays while it is a better bound,
    /// unless it is before the stamp: then the engine's clock was set forward.
    pub(super) fn learn(&mut self, stamp: Timestamp, sent: Duration, received: Duration) {
        let known = self.at(received);
        let latest = stamp + received.saturating_sub(sent);
        if known < stamp || known > latest {
            *self = Self { stamp, sent };
        }
    }

    /// Engine time at a local instant, at the latest.
    pub(super) fn at(&self, local: Duration) -> Timestamp {
        let since = local.saturating_sub(self.sent);
        self.stamp + since + since / DRIFT
    }
}

#[cfg(test)]
mod tests;
