//! Goal: an engine that stopped itself says so to every call, and ends workers and waits.
//! Method: a disk whose syncs fail.

use std::sync::Arc;

use punctual::conformance::START;
use punctual::engine::{
    Action, Claim, Control, Edit, Engine, List, ListBy, Select, Settle, StatsRequest, WaitFor,
    WorkerId,
};
use punctual::time::{ManualClock, Timestamp, seconds, within};
use punctual::{ErrorKind, JobId, Limits, Namespace, Result, Worker};
use punctual_embedded::EmbeddedEngine;
use punctual_embedded::testing::{ForgetfulDisk, MemoryStore};

use crate::client::{QUEUE, enqueue, job};
use crate::harness::options;

fn open() -> (Arc<EmbeddedEngine>, ForgetfulDisk) {
    let options = options(Limits::default(), &ManualClock::new(START));
    let disk = ForgetfulDisk::default();
    let store = Arc::new(MemoryStore::new(disk.clone()));
    let engine = EmbeddedEngine::open_on(Arc::new(disk.clone()), store, options);
    (Arc::new(engine.expect("an empty disk")), disk)
}

fn kind<T>(answer: Result<T>) -> Option<ErrorKind> {
    answer.err().map(|error| error.kind())
}

#[tokio::test]
async fn every_call_answers_that_the_engine_stopped() {
    let (engine, disk) = open();
    let namespace = Namespace::default();
    disk.fail_syncs(true);
    enqueue(&*engine, 100).await.expect_err("a sync failed");
    let error = within(seconds(10), engine.stopped()).await;
    let error = error.expect("it stopped");
    assert_eq!(error.kind().code(), "engine_stopped", "{error}");
    assert!(!error.is_retryable(), "it never answers again");
    disk.fail_syncs(false);
    let purge = Control::Purge {
        queue: QUEUE.into(),
        cursor: None,
        limit: 1,
    };
    let list = List::new(ListBy::All).limit(1).payloads(true);
    let edit = Edit::new(Select::Targets(vec![JobId::new().into()]), Action::Cancel);
    let work = WaitFor::Work(vec![QUEUE.into()]);
    let claim = Claim::new(WorkerId::random(), QUEUE, 1);
    let settle = Settle::new(Vec::new());
    let ids = vec![JobId::new().into()];
    let answers = [
        kind(engine.enqueue(&namespace, vec![job(1)]).await),
        kind(engine.claim(&namespace, claim).await),
        kind(engine.extend(&namespace, Vec::new()).await),
        kind(engine.settle(&namespace, settle).await),
        kind(engine.wait(&namespace, work, Timestamp::MAX).await),
        kind(engine.get(&namespace, ids, true).await),
        kind(engine.list(&namespace, list).await),
        kind(engine.edit(&namespace, edit).await),
        kind(engine.stats(&namespace, StatsRequest::default()).await),
        kind(engine.control(&namespace, purge).await),
        kind(engine.maintain().await),
        kind(engine.info().await),
        kind(engine.close().await),
    ];
    assert_eq!(answers, [Some(ErrorKind::EngineStopped); 13]);
}

#[tokio::test]
async fn a_wait_and_a_worker_end_when_the_engine_stops() {
    let (engine, disk) = open();
    let id = enqueue(&*engine, 100).await.expect("the disk is well");
    let waiting = {
        let (engine, settled) = (engine.clone(), WaitFor::Settled(vec![id]));
        tokio::spawn(async move {
            let namespace = Namespace::default();
            engine.wait(&namespace, settled, Timestamp::MAX).await
        })
    };
    let worker = Worker::new(engine.clone()).queues([QUEUE]);
    let run = worker
        .handle_any(|_: punctual::JobRecord, _: punctual::Context| async {
            std::future::pending::<punctual::Result<punctual::Outcome>>().await
        })
        .run_until(std::future::pending());
    let run = tokio::spawn(run);
    disk.fail_syncs(true);
    enqueue(&*engine, 100).await.expect_err("a sync failed");
    let waited = within(seconds(20), waiting).await.expect("in time");
    assert_eq!(
        kind(waited.expect("no panic")),
        Some(ErrorKind::EngineStopped)
    );
    let ended = within(seconds(20), run).await.expect("in time");
    assert_eq!(
        kind(ended.expect("no panic")),
        Some(ErrorKind::EngineStopped)
    );
}

#[tokio::test]
async fn an_engine_that_is_closed_has_not_stopped_itself() {
    let (engine, _disk) = open();
    let stopped = tokio::spawn(engine.stopped());
    engine.close().await.expect("close");
    let error = enqueue(&*engine, 1).await.expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable);
    assert!(!stopped.is_finished());
}
