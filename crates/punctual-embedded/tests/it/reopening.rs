//! Tests of directories that are opened again.

use std::sync::Arc;

use punctual::conformance::START;
use punctual::engine::{Claim, Control, LeaseReport, Settle, Settlement, StatsRequest, WorkerId};
use punctual::time::{ManualClock, seconds};
use punctual::{Engine, Limits, Namespace, NewJob, Outcome};
use punctual_embedded::EmbeddedEngine;
use punctual_embedded::testing::{Crash, ForgetfulDisk, MemoryStore};

use crate::harness::options;

/// Found by a random history: the log was removed with the segments before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_before_the_first_commit_leaves_the_log() {
    let options = options(Limits::default(), &ManualClock::new(START));
    let mut disk = ForgetfulDisk::default();
    let mut store = MemoryStore::new(disk.clone());
    for _ in 0..4 {
        let on = (Arc::new(disk.clone()), Arc::new(store.clone()));
        let engine = EmbeddedEngine::open_on(on.0, on.1, options.clone());
        let engine = engine.expect("the log is there");
        let namespace = Namespace::default();
        let stats = engine.stats(&namespace, StatsRequest::default()).await;
        stats.expect("a read commits nothing");
        let queue = "orders".to_owned();
        let paused = engine.control(&namespace, Control::Pause { queue }).await;
        paused.expect("a pause is a commit");
        disk = disk.crash(Crash::Kill);
        store = store.copy(disk.clone());
    }
}

/// Found by `embedded-clock` under seed 908: settles were answered 0.86 s before the claims of
/// their leases.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_set_back_after_opening_takes_no_answer_back() {
    let clock = ManualClock::new(START + seconds(10));
    let disk = ForgetfulDisk::default();
    let store = MemoryStore::new(disk.clone());
    let options = options(Limits::default(), &clock);
    let engine = EmbeddedEngine::open_on(Arc::new(disk), Arc::new(store), options);
    let engine = engine.expect("an empty directory");
    clock.set(START);

    let here = Namespace::default();
    let mut nows = vec![START + seconds(10)];
    let jobs = vec![NewJob::new("orders", "{}")];
    let receipts = engine.enqueue(&here, jobs).await.expect("enqueue");
    nows.push(receipts.now);
    let claim = Claim::new(WorkerId::random(), "orders", 1);
    let claimed = engine.claim(&here, claim).await.expect("claim");
    nows.push(claimed.now);
    let lease = &claimed.leases[0];
    let end = Settlement::new(lease.jobs[0].id, 1, Outcome::Completed);
    let leases = vec![LeaseReport::new(lease.token, vec![end])];
    let settled = engine
        .settle(&here, Settle::new(leases))
        .await
        .expect("settle");
    nows.push(settled.now);
    assert!(nows.is_sorted(), "{nows:?}");
}
