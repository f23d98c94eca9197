//! The workers of a sink that takes every job with a target on RabbitMQ, whatever its queue.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use punctual::engine::StatsRequest;
use punctual::job::CLAIM_QUEUES_MAX;
use punctual::time::{pause, seconds};
use punctual::{Engine, JobState, Namespace, Result, push};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Prepared;

/// What is shown for the queues of such a relay.
pub(super) const QUEUES: &str = "amqp:*";
/// How often it polls for queues that are new.
const POLL: Duration = seconds(2);

/// The queues that have had such jobs, as the engine knows them, and how many jobs are due there.
pub(super) async fn find(
    engine: &Arc<dyn Engine>,
    namespace: &Namespace,
) -> Result<(BTreeSet<String>, u64)> {
    let stats = engine.stats(namespace, StatsRequest::default()).await?;
    let all = stats.queues.into_iter();
    let queues = all.filter(|one| push::is_amqp_queue(&one.queue));
    let (mut names, mut ready) = (BTreeSet::new(), 0);
    for one in queues {
        ready += one.counts.of(JobState::Ready);
        names.insert(one.queue);
    }
    Ok((names, ready))
}

/// Works until the shutdown, and takes in queues that are new.
pub(super) async fn run(
    relay: &Prepared,
    engine: &Arc<dyn Engine>,
    namespace: &Namespace,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    let mut shutdown = std::pin::pin!(shutdown);
    let (mut known, mut workers) = (BTreeSet::new(), JoinSet::new());
    // Dropping a sender ends the workers that it started.
    let mut stop = watch::channel(()).0;
    let ended = loop {
        // Without an answer those that are known will do: it is asked again.
        let (found, _) = find(engine, namespace).await.unwrap_or_default();
        if !found.is_subset(&known) {
            known.extend(found);
            let started = watch::channel(()).0;
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            for some in names.chunks(CLAIM_QUEUES_MAX) {
                let mut stopped = started.subscribe();
                let until = async move { while stopped.changed().await.is_ok() {} };
                if let Some(worker) = relay.worker_of(engine, namespace, some) {
                    workers.spawn(worker.run_until(until));
                }
            }
            // The former ones end what they have begun, beside the new ones.
            stop = started;
        }
        tokio::select! {
            biased;
            () = shutdown.as_mut() => break Ok(()),
            Some(ended) = workers.join_next() => match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => break Err(error),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            () = pause(POLL) => {}
        }
    };
    drop(stop);
    while workers.join_next().await.is_some() {}
    ended
}
