//! One process that produces and works, for engines of a single process.

use futures_util::future::join_all;
use punctual::engine::StatsRequest;
use punctual::time::{millis, pause};
use punctual::worker::Shutdown;
use punctual::{Engine, JobState, Namespace};

use super::{Begun, Failed, latecomer, producer, worker};

/// Produces and works until there are enough jobs and nothing is left to do.
pub(super) async fn run(begun: Begun, seed: u64) -> Result<(), Failed> {
    let (producers, workers) = begun.setting.solo;
    let (end, ended) = tokio::sync::watch::channel(false);
    let mut working = Vec::new();
    for number in 0..workers as u64 {
        let worker = worker::worker(&begun, seed + number)?;
        let mut ended = ended.clone();
        let shutdown = Shutdown::from(async move {
            let _ = ended.wait_for(|end| *end).await;
        });
        working.push(tokio::spawn(worker.run_until(shutdown)));
    }
    for other in worker::others(&begun) {
        let mut ended = ended.clone();
        let shutdown = Shutdown::from(async move {
            let _ = ended.wait_for(|end| *end).await;
        });
        working.push(tokio::spawn(other.run_until(shutdown)));
    }
    tokio::spawn(latecomer::run(begun.clone(), seed));
    let producing = (0..producers as u64).map(|number| {
        let produce = producer::run(begun.clone(), seed ^ (number + 1) << 32);
        tokio::spawn(produce)
    });
    for produced in join_all(producing).await {
        produced??;
    }
    while !is_idle(&*begun.engine).await? {
        pause(millis(50)).await;
    }
    end.send_replace(true);
    for worked in join_all(working).await {
        worked??;
    }
    Ok(())
}

/// Whether nothing is held, scheduled, ready or active.
pub(crate) async fn is_idle(engine: &dyn Engine) -> punctual::Result<bool> {
    engine.maintain().await?;
    let stats = engine
        .stats(&Namespace::default(), StatsRequest::default())
        .await?;
    let busy =
        |counts: &punctual::engine::Counts| counts.pending() + counts.of(JobState::Active) > 0;
    Ok(!stats.queues.iter().any(|queue| busy(&queue.counts)))
}
