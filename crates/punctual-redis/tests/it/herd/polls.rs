//! How often waiters poll for lost wakeups.

use std::sync::Arc;
use std::time::Duration;

use punctual::engine::{Claim, WaitFor, Waited, WorkerId};
use punctual::time::{Clock, Stopwatch, minutes, pause, seconds};
use punctual::{Engine, ErrorKind, Result};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;
use tokio::task::JoinSet;

use crate::client::{connect, enqueue, here};

/// How long calls are counted.
const SPAN: Duration = seconds(6);

/// Where each draws when it polls first: long enough that chance alone never brings twice as many
/// as there are.
const SPAN_OF_DRAWS: Duration = seconds(20);

/// Polls over the span, a second: calls of functions that change nothing.
async fn rate(server: &TestServer, span: Duration) -> f64 {
    let polls = || -> u64 {
        let stats = server.cli(&["INFO", "commandstats"]);
        let reported = stats.split_once("cmdstat_fcall_ro:calls=");
        let calls = reported.and_then(|(_, rest)| rest.split(',').next());
        calls
            .expect("a worker has polled")
            .parse()
            .expect("a number")
    };
    let (before, watch) = (polls(), Stopwatch::start());
    pause(span).await;
    (polls() - before) as f64 / watch.elapsed().as_secs_f64()
}

/// Waits for work, for minutes.
fn waits(of: &mut JoinSet<Result<Waited>>, engine: &Arc<RedisEngine>, queue: String) {
    let engine = engine.clone();
    of.spawn(async move {
        let until = Clock::now(&punctual::time::SystemClock) + minutes(10);
        engine
            .wait(&here(), WaitFor::Work(vec![queue]), until)
            .await
    });
}

/// As many claims over HTTP wait in a gateway, which is one worker: they listen together, and one
/// polls for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_one_process_poll_for_lost_wakeups_as_one() {
    for many in [200, 1_000] {
        let server = TestServer::start();
        let engine = Arc::new(connect(&server.address()).await);
        enqueue(&engine).await.expect("enqueue");
        let mut waiting = JoinSet::new();
        for _ in 0..many {
            waits(&mut waiting, &engine, "others".into());
        }
        let rate = rate(&server, SPAN).await;
        println!("{many} wait: {rate:.1} polls a second");
        assert!(rate < 4.0, "{many} wait: {rate} polls a second");
        // And all of them learn of what one of them finds.
        server.cli(&["FLUSHALL"]);
        let lost = Stopwatch::start();
        while let Some(reported) = waiting.join_next().await {
            let error = reported.expect("no panic").expect_err("the jobs are gone");
            assert_eq!(error.kind(), ErrorKind::DataMissing, "{error}");
        }
        assert!(lost.elapsed() < seconds(5), "{:?}", lost.elapsed());
    }
}

/// However many workers there are, all of them together look that often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_workers_poll_no_more_often_than_some() {
    let server = TestServer::start();
    let first = Arc::new(connect(&server.address()).await);
    for _ in 0..1_000 {
        let claim = Claim::new(WorkerId::random(), "others", 1);
        first.claim(&here(), claim).await.expect("claim");
    }
    // Some of the thousand, each in a process of its own.
    let mut waiting = JoinSet::new();
    for _ in 0..50 {
        let engine = Arc::new(connect(&server.address()).await);
        waits(&mut waiting, &engine, "others".into());
    }
    pause(seconds(3)).await;
    let rate = rate(&server, SPAN_OF_DRAWS).await;
    println!("50 of 1,000 workers: {rate:.1} polls a second");
    assert!(rate < 2.0, "{rate}");
}
