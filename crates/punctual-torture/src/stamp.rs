//! The clock of the checker: the machine's monotonic one, the same in every process, so that lines
//! of many files have an order. The clocks of `punctual::time` are what is on trial.

use punctual::time::{Clock, SystemClock};
use rustix::time::{ClockId, clock_gettime};

/// Microseconds of the monotonic clock.
pub(crate) fn stamp() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// Microseconds of the wall clock.
pub(crate) fn wall() -> u64 {
    SystemClock.now().as_micros()
}
