//! Schedules: what producers write, and what the checker holds the runs against.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::engine::{List, ListBy};
use punctual::time::{millis, seconds};
use punctual::{Engine, JobId, JobState, Namespace, Result};
use serde::{Deserialize, Serialize};

/// Each run starts, however many others run; producers skip some by hand.
pub(crate) const BEATS: &str = "beats";
/// A calendar; a run that comes while another one is on its way is skipped, and some do.
pub(crate) const TICKS: &str = "ticks";
/// The schedules, and their queues of the same names.
pub(crate) const QUEUES: [&str; 2] = [BEATS, TICKS];

/// Between two instants of a schedule.
pub(crate) fn interval(name: &str) -> Duration {
    match name {
        BEATS => millis(200),
        _ => seconds(1),
    }
}

/// A run of a schedule at the end of a round, as the engine has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SeenRun {
    pub(crate) id: JobId,
    /// The instant that it stands for, in microseconds.
    pub(crate) at: u64,
    pub(crate) state: JobState,
    /// The name of why it was cancelled, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cancelled: Option<String>,
}

/// Every run that an engine has, by schedule.
pub(crate) async fn runs(engine: &dyn Engine) -> Result<BTreeMap<String, Vec<SeenRun>>> {
    let mut found: BTreeMap<String, Vec<SeenRun>> = BTreeMap::new();
    for (queue, state) in QUEUES
        .iter()
        .flat_map(|queue| JobState::ALL.map(|state| (*queue, state)))
    {
        let by = ListBy::State {
            queue: queue.into(),
            state,
        };
        let mut list = List::new(by).limit(1_000);
        loop {
            let listing = engine.list(&Namespace::default(), list.clone()).await?;
            for job in listing.jobs {
                let Some(run) = job.schedule else { continue };
                found.entry(run.name).or_default().push(SeenRun {
                    id: job.id,
                    at: run.at.as_micros(),
                    state: job.state,
                    cancelled: job.cancelled.map(|why| why.name().to_owned()),
                });
            }
            list.cursor = listing.cursor;
            if list.cursor.is_none() {
                break;
            }
        }
    }
    Ok(found)
}
