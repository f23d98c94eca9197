//! A process that runs jobs.

use std::sync::Arc;

use fastrand::Rng;
use punctual::time::{millis, seconds};
use punctual::{Context, JobRecord, Worker, shutdown_signal};

use super::handler::{self, Stage};
use super::{Begun, Failed, flows, latecomer};
use crate::setting::{LEASE_DURATION, QUEUES};

/// Runs jobs until SIGTERM, and beside it a latecomer.
pub(super) async fn run(begun: Begun, seed: u64) -> Result<(), Failed> {
    let worker = worker(&begun, seed)?;
    let steps = begun.setting.flows.then(|| flows::worker(&begun));
    tokio::spawn(latecomer::run(begun, seed));
    let stepping =
        steps.map(|steps| tokio::spawn(async move { steps.run_until(shutdown_signal()).await }));
    worker.run_until(shutdown_signal()).await?;
    if let Some(stepping) = stepping {
        stepping.await??;
    }
    Ok(())
}

/// A worker with the handlers of a round.
pub(super) fn worker(begun: &Begun, seed: u64) -> Result<Worker, Failed> {
    let mut random = Rng::with_seed(seed);
    let stage = Stage {
        history: begun.history.clone(),
        sink: Arc::from(begun.setting.sink.open()?),
    };
    let run = move |job: JobRecord, context: Context| handler::run(stage.clone(), job, context);
    Ok(Worker::new(begun.engine.clone())
        .queues(QUEUES.map(|queue| (queue, random.u32(1..4))))
        .handle_any(run)
        .concurrency(begun.setting.slots)
        .lease_duration(LEASE_DURATION)
        .drain_limit(seconds(1))
        .abort_grace(millis(500))
        .suspect_wait(seconds(2)))
}
