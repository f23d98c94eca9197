//! How long something took, and waiting for others.

use std::time::{Duration, Instant};

/// Runs `work` and returns how long it took, by the monotonic clock.
// A measurement is about real time; nothing that is measured takes its time from here.
#[allow(clippy::disallowed_methods)]
pub fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// Lets other processes go on for that long.
#[allow(clippy::disallowed_methods)]
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}
