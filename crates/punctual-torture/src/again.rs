//! Asking again, where that may help.

use std::time::Duration;

use punctual::Result;
use punctual::time::{Stopwatch, millis, pause};

/// What is answered in the end: an engine that is away for a while is asked again, for so long;
/// then its last error is the answer.
pub(crate) async fn again<T, F>(time_limit: Duration, ask: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let watch = Stopwatch::start();
    loop {
        match ask().await {
            Err(error) if error.is_retryable() && watch.elapsed() < time_limit => {
                pause(AFTER).await;
            }
            answer => return answer,
        }
    }
}

/// Waits until a fact holds.
pub(crate) async fn holds<F: Future<Output = bool>>(fact: impl Fn() -> F) {
    while !fact().await {
        pause(millis(50)).await;
    }
}

const AFTER: Duration = millis(200);

#[cfg(test)]
mod tests;
