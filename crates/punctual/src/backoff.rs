//! Growing pauses between tries of the same thing.

use std::time::Duration;

use crate::time::millis;

/// Pauses that double up to a cap, each drawn from half to the whole, so that many clients of an
/// engine that comes back do not come back at the same instant.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    cap: Duration,
    next: Duration,
}

impl Backoff {
    /// For loops that go on until they succeed: 50 ms to 5 s.
    pub const fn engine() -> Self {
        Self::new(millis(50), millis(5_000))
    }

    /// Pauses from `first`, doubled up to `cap`.
    pub const fn new(first: Duration, cap: Duration) -> Self {
        Self {
            first,
            cap,
            next: first,
        }
    }

    /// The pause before the next try.
    pub fn pause(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.cap);
        whole.mul_f64(0.5 + draw() / 2.0)
    }

    /// After a success the next failure starts small again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// An even draw from 0 to 1.
pub(crate) fn draw() -> f64 {
    let bits = uuid::Uuid::new_v4().as_u128() as u32;
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
