//! Calls for many jobs read the store in passes, not once a job.

use std::sync::Arc;

use punctual::conformance::START;
use punctual::engine::{Control, Controlled};
use punctual::time::{ManualClock, hours};
use punctual::{Engine, Limits, Namespace, NewJob};
use punctual_embedded::EmbeddedEngine;
use punctual_embedded::testing::{ForgetfulDisk, MemoryStore};

use crate::harness::options;

/// Reads that a call of 1,000 jobs may take: each pass over a table is one.
const READS_MAX: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_of_scheduled_jobs_reads_the_store_in_passes() {
    let disk = ForgetfulDisk::default();
    let store = MemoryStore::new(disk.clone());
    let options = options(Limits::default(), &ManualClock::new(START));
    let open = || {
        let on = (Arc::new(disk.clone()), Arc::new(store.clone()));
        EmbeddedEngine::open_on(on.0, on.1, options.clone()).expect("the log is there")
    };
    let here = Namespace::default();
    let engine = open();
    for _ in 0..2 {
        let jobs = (0..1_000).map(|_| NewJob::new("orders", "{}").delay(hours(1)));
        engine
            .enqueue(&here, jobs.collect())
            .await
            .expect("enqueue");
    }
    // After an orderly close every row is in the store, and none in memory.
    engine.close().await.expect("it closes in good order");
    let engine = open();

    let before = store.reads();
    let purge = Control::Purge {
        queue: "orders".to_owned(),
        cursor: None,
        limit: 1_000,
    };
    let purged = engine.control(&here, purge).await.expect("purge");
    let reads = store.reads() - before;
    assert!(matches!(purged, Controlled::Purged { matched: 1_000, .. }));
    assert!(reads <= READS_MAX, "{reads} reads of the store");
}
