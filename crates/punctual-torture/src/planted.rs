//! Bugs that are planted in every process of a run, to see whether the run finds them.

use std::time::Duration;

use punctual::engine::Waited;
use punctual::time::{Timestamp, pause};

use crate::roles::Failed;
use crate::stamp::wall;

/// The variable that names the bug.
pub(crate) const VARIABLE: &str = "PUNCTUAL_PLANTED";

/// Plants the bug that the environment names, if it names one.
#[cfg(feature = "planted")]
pub(crate) fn plant() -> Result<(), Failed> {
    let Ok(name) = std::env::var(VARIABLE) else {
        return Ok(());
    };
    use punctual::planted::Bug;
    let bug = Bug::ALL
        .into_iter()
        .chain(Bug::BELOW_THE_LAW)
        .find(|bug| format!("{bug:?}") == name);
    // Others are planted where the functions of Redis are loaded.
    punctual::planted::plant(bug);
    Ok(())
}

/// Refuses: this build has no bugs of that kind.
#[cfg(not(feature = "planted"))]
pub(crate) fn plant() -> Result<(), Failed> {
    match std::env::var(VARIABLE) {
        Ok(name) => {
            Err(format!("no bug {name} in this build; build with --features planted").into())
        }
        Err(_) => Ok(()),
    }
}

/// Whether a wait that breaks is the last one in which its process listens: the bug that is planted.
#[cfg(feature = "planted")]
pub(crate) fn deafens() -> bool {
    std::env::var(VARIABLE).is_ok_and(|name| name == "DeafAfterBreak")
}

/// Whether a wait that breaks is the last one in which its process listens: never, in this build.
#[cfg(not(feature = "planted"))]
pub(crate) fn deafens() -> bool {
    false
}

/// A wait in which nobody listens for bells: over at its instant.
pub(crate) async fn sleep_deaf(until: Timestamp) -> punctual::Result<Waited> {
    let left = until.as_micros().saturating_sub(wall());
    pause(Duration::from_micros(left)).await;
    Ok(Waited::TimedOut)
}

/// The interval at which an engine syncs that was told one: that one, unless the bug is planted that it takes its time.
#[cfg(feature = "planted")]
pub(crate) fn interval(told: Duration) -> Duration {
    let is_planted = std::env::var(VARIABLE).is_ok_and(|name| name == "IntervalTooLong");
    if is_planted { told * 20 } else { told }
}

/// The interval at which an engine syncs that was told one.
#[cfg(not(feature = "planted"))]
pub(crate) fn interval(told: Duration) -> Duration {
    told
}
