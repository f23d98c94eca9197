//! A process that runs jobs.

use std::sync::Arc;

use fastrand::Rng;
use punctual::{Context, JobRecord, Worker, shutdown_signal};

use super::handler::{self, Stage};
use super::{Begun, Failed, latecomer};
use crate::setting::QUEUES;

/// Runs jobs until SIGTERM, and beside it a latecomer.
pub(super) async fn run(begun: Begun, seed: u64) -> Result<(), Failed> {
    let worker = worker(&begun, seed)?;
    let others = others(&begun).into_iter();
    let others: Vec<_> = others
        .map(|other| tokio::spawn(other.run_until(shutdown_signal())))
        .collect();
    tokio::spawn(latecomer::run(begun, seed));
    worker.run_until(shutdown_signal()).await?;
    for other in others {
        other.await??;
    }
    Ok(())
}

/// Workers for what is sent besides.
pub(super) fn others(begun: &Begun) -> Vec<Worker> {
    let steps = begun.setting.flows.then(|| super::flows::worker(begun));
    let limited = begun.setting.limits.then(|| super::limits::worker(begun));
    let messages = begun.setting.relayed.is_some();
    let messages = messages.then(|| super::relayed::worker(begun));
    let scheduled = (begun.setting.schedules).then(|| super::schedules::worker(begun));
    let others = steps.into_iter().chain(limited);
    others.chain(messages).chain(scheduled).collect()
}

/// A worker with the handlers of a round.
pub(super) fn worker(begun: &Begun, seed: u64) -> Result<Worker, Failed> {
    let mut random = Rng::with_seed(seed);
    let stage = Stage {
        history: begun.history.clone(),
        sink: Arc::from(begun.setting.sink.open()?),
    };
    let run = move |job: JobRecord, context: Context| handler::run(stage.clone(), job, context);
    let worker = Worker::new(begun.engine.clone())
        .queues(QUEUES.map(|queue| (queue, random.u32(1..4))))
        .handle_any(run)
        .concurrency(begun.setting.slots);
    Ok(super::hasty(worker))
}
