use std::sync::Arc;

use punctual::conformance::START;
use punctual::engine::{Control, StatsRequest};
use punctual::time::ManualClock;
use punctual::{Engine, Limits, Namespace};
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
        let looked = engine.stats(&namespace, StatsRequest::default()).await;
        looked.expect("a look commits nothing");
        let queue = "orders".to_owned();
        let paused = engine.control(&namespace, Control::Pause { queue }).await;
        paused.expect("a pause is a commit");
        disk = disk.crash(Crash::Kill);
        store = store.copy(disk.clone());
    }
}
