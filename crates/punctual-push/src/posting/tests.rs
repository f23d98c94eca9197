//! Unit tests of `posting`.

use punctual::engine::{Health, Target};
use punctual::time::{days, within};
use punctual::{JobId, MemoryEngine, NewJob};
use tokio::task::yield_now;

use super::*;
use crate::guard::Guard;
use crate::maintenance::MaintenanceHealth;

/// Posting that comes back to no queue whose worker has ended, and that finds none unless it is
/// notified for.
fn posting(engine: &Arc<dyn Engine>, push_wakeup: &PushWakeup) -> Posting {
    let pusher = Pusher::new(Guard::new());
    let posting = Posting::new(engine.clone(), Namespace::default(), pusher);
    Posting {
        restart: Backoff::new(days(1), days(1)),
        ..posting.push_wakeup(push_wakeup.clone()).poll_every(days(1))
    }
}

/// A worker that ends although it was not stopped.
fn ends_at_once(posting: &Posting, pool: &mut WorkerPool, queue: &str) {
    pool.workers.push(PoolWorker {
        id: pool.running.spawn(async {}).id(),
        queues: [queue.to_owned()].into(),
        health: posting.worker(&[]).health(),
        started: Stopwatch::start(),
        backoff: posting.restart.clone(),
        _stop: watch::Sender::new(()),
    });
}

fn is_well(maintenance: &MaintenanceHealth) -> bool {
    let mut health = Health::new(Vec::new(), Vec::new());
    maintenance.add_to(&mut health);
    health.ok
}

async fn until(what: &str, fact: impl AsyncFn() -> bool) {
    let waiting = async {
        while !fact().await {
            yield_now().await;
        }
    };
    let is_so = within(seconds(20), waiting).await;
    is_so.unwrap_or_else(|| panic!("not in time: {what}"));
}

#[tokio::test]
async fn a_queue_whose_worker_keeps_ending_delays_no_other() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let (home, push_wakeup) = (Namespace::default(), PushWakeup::default());
    let posting = Arc::new(posting(&engine, &push_wakeup));
    let mut pool = WorkerPool::default();
    ends_at_once(&posting, &mut pool, "http:bad");
    let pool = Arc::new(Mutex::new(pool));
    let mut maintenance = Maintenance::new();
    let health = maintenance.health();
    maintenance.start("posting", &home, move |heartbeat| {
        let (posting, pool) = (posting.clone(), pool.clone());
        async move { posting.run(&heartbeat, &mut *pool.lock().await).await }
    });
    until("its worker has ended", async || !is_well(&health)).await;
    for name in ["http:first", "http:second"] {
        let job = NewJob::new(name, "{}");
        let id: JobId = job.id;
        let put = engine.enqueue(&home, vec![job]).await;
        put.expect("it is taken");
        push_wakeup.notify(&home, name);
        until(name, async || {
            let got = engine.get(&home, vec![Target::Id(id)], false).await;
            let job = got.expect("get").remove(0).expect("it is kept");
            job.job().is_none_or(|job| job.attempt > 0)
        })
        .await;
        assert!(!is_well(&health), "one of its workers is still not there");
    }
}

#[tokio::test]
async fn however_many_workers_end_few_groups_wait_and_no_queue_is_forgotten() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let posting = posting(&engine, &PushWakeup::default());
    let mut pool = WorkerPool::default();
    let all: BTreeSet<String> = (0..100).map(|nth| format!("http:{nth}")).collect();
    for queue in &all {
        ends_at_once(&posting, &mut pool, queue);
    }
    while !pool.workers.is_empty() {
        let lost = within(seconds(20), pool.loses()).await;
        lost.expect("each has ended");
    }
    assert_eq!(pool.lost.len(), SPARE_WORKERS);
    assert_eq!(pool.queues(), all);
    assert!(pool.take_due().is_empty() && pool.restart_in().is_some());
}
