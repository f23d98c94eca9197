//! Jobs that are gone: emptied, started empty, another database. It is reported, and nothing begins
//! anew.

use std::sync::Arc;

use punctual::engine::{StatsRequest, WaitFor};
use punctual::time::{Stopwatch, millis, minutes, pause, seconds};
use punctual::{Engine, ErrorKind};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{LIMIT, claim, comes_about, connect, enqueue, here};

/// How the data of a server vanish.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Flushed,
    StartedEmpty,
    AnotherDatabase,
}

const LOSSES: [Loss; 3] = [Loss::Flushed, Loss::StartedEmpty, Loss::AnotherDatabase];

impl Loss {
    fn befall(self, server: &mut TestServer) {
        match self {
            Self::Flushed => drop(server.cli(&["FLUSHALL"])),
            Self::StartedEmpty => server.restart(),
            Self::AnotherDatabase => assert_eq!(server.cli(&["SWAPDB", "0", "1"]), "OK"),
        }
    }
}

fn nothing_was_begun(server: &TestServer) {
    let keys = server.cli(&["--raw", "KEYS", "punctual:{*"]);
    assert_eq!(keys, "", "never a silent new queue");
}

/// Two callers that never pause; each learns it by the first call that is answered after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steady_callers_learn_of_it_within_a_second() {
    for loss in LOSSES {
        let mut server = TestServer::start();
        let engine = Arc::new(connect(&server.address()).await);
        enqueue(&engine).await.expect("enqueue");
        let (enqueues, claims) = (engine.clone(), engine.clone());
        let loads = [
            tokio::spawn(async move {
                loop {
                    if let Err(error) = enqueue(&enqueues).await {
                        return error;
                    }
                }
            }),
            tokio::spawn(async move {
                loop {
                    if let Err(error) = claim(&claims, 10).await {
                        return error;
                    }
                }
            }),
        ];
        tokio::task::block_in_place(|| loss.befall(&mut server));
        let lost = Stopwatch::start();
        for load in loads {
            let error = load.await.expect("no panic");
            assert_eq!(error.kind(), ErrorKind::DataMissing, "{loss:?}: {error}");
        }
        assert!(
            lost.elapsed() < seconds(1),
            "{loss:?}: {:?}",
            lost.elapsed()
        );
        nothing_was_begun(&server);
    }
}

#[tokio::test]
async fn another_database_is_reported_until_the_right_one_is_back() {
    let mut server = TestServer::start();
    let engine = connect(&server.address()).await;
    let id = enqueue(&engine).await.expect("enqueue");
    Loss::AnotherDatabase.befall(&mut server);
    let error = enqueue(&engine).await.expect_err("it is another one");
    assert_eq!(error.kind(), ErrorKind::DataMissing, "{error}");
    nothing_was_begun(&server);
    // Its own maintenance reports it, too.
    let reported = refusals(&server);
    comes_about("a round is refused", || refusals(&server) > reported).await;
    Loss::AnotherDatabase.befall(&mut server);
    assert_eq!(claim(&engine, 1).await.expect("claim")[0].jobs[0].id, id);
    let watch = Stopwatch::start();
    while !engine.info().await.expect("info").health.ok {
        assert!(watch.elapsed() < LIMIT, "it is never well again");
        pause(millis(100)).await;
    }
}

/// How often the functions have refused something.
fn refusals(server: &TestServer) -> u64 {
    let errors = server.cli(&["INFO", "errorstats"]);
    let counted = errors.lines().find_map(|line| {
        let count = line.strip_prefix("errorstat_PUNCTUAL:count=")?;
        count.trim_end().parse().ok()
    });
    counted.unwrap_or(0)
}

/// Who starts after a loss has nothing to compare, unless it knows that there are data.
#[tokio::test]
async fn where_data_are_required_nothing_begins_anew() {
    let server = TestServer::start();
    let address = format!("{}?data=required", server.address());
    let engine = connect(&address).await;
    let error = enqueue(&engine).await.expect_err("there is nothing yet");
    assert_eq!(error.kind(), ErrorKind::DataMissing, "{error}");
    assert!(error.to_string().contains("data=required"), "{error}");
    nothing_was_begun(&server);
    let reported = engine.info().await.expect("info").health;
    assert!(reported.ok && format!("{reported:?}").contains("data=required"));
    let first = connect(&server.address()).await;
    let id = enqueue(&first).await.expect("enqueue");
    assert_eq!(claim(&engine, 1).await.expect("claim")[0].jobs[0].id, id);
    assert!(engine.info().await.expect("info").health.is_well());
    drop(engine);
    server.cli(&["FLUSHALL"]);
    let engine = connect(&address).await;
    for _ in 0..2 {
        let error = claim(&engine, 1).await.expect_err("it was flushed");
        assert_eq!(error.kind(), ErrorKind::DataMissing, "{error}");
        nothing_was_begun(&server);
    }
}

/// A shard of many that is gone is not begun anew either.
#[tokio::test]
async fn where_data_are_required_no_shard_begins_anew() {
    let server = TestServer::start();
    let first = connect(&format!("{}?shards=16", server.address())).await;
    first
        .stats(&here(), StatsRequest::default())
        .await
        .expect("stats begin all of it");
    let required = format!("{}?data=required", server.address());
    let engine = connect(&required).await;
    for _ in 0..40 {
        enqueue(&engine).await.expect("enqueue");
    }
    assert_eq!(crate::client::drain(&engine).await.len(), 40);
    let keys = server.cli(&["--raw", "KEYS", "punctual:{default/7}*"]);
    for key in keys.lines() {
        server.cli(&["DEL", key]);
    }
    assert_eq!(server.cli(&["EXISTS", "punctual:{default/7}:s"]), "0");
    let engine = connect(&required).await;
    let mut reported = 0;
    while reported == 0 {
        if let Err(error) = enqueue(&engine).await {
            assert_eq!(error.kind(), ErrorKind::DataMissing, "{error}");
            reported += 1;
        }
    }
    assert_eq!(server.cli(&["EXISTS", "punctual:{default/7}:s"]), "0");
    assert!(!engine.info().await.expect("info").health.is_well());
    first
        .stats(&here(), StatsRequest::default())
        .await
        .expect_err("it is reported too");
    let anew = connect(&server.address()).await;
    anew.stats(&here(), StatsRequest::default())
        .await
        .expect("it begins it");
    assert!(
        engine.info().await.expect("info").health.is_well(),
        "it polls again"
    );
    // It is cut as the others are.
    let reported = connect(&format!("{}?shards=16", server.address())).await;
    for _ in 0..40 {
        enqueue(&reported).await.expect("enqueue");
    }
}

async fn waits(engine: &RedisEngine, what: WaitFor) -> punctual::Error {
    let until = punctual::time::Clock::now(&punctual::time::SystemClock) + minutes(1);
    let waited = engine.wait(&here(), what, until).await;
    waited.expect_err("the jobs are gone")
}

/// No caller calls: a waiter learns of it from the rounds of the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_learn_of_it_within_five_seconds() {
    for loss in LOSSES {
        let mut server = TestServer::start();
        let engine = Arc::new(connect(&server.address()).await);
        let id = enqueue(&engine).await.expect("enqueue");
        let what = [
            WaitFor::Settled(vec![id]),
            WaitFor::Changes(None),
            WaitFor::Work(vec!["another".into()]),
        ];
        assert!(!claim(&engine, 1).await.expect("claim").is_empty());
        let begins = what.map(|what| {
            let engine = engine.clone();
            tokio::spawn(async move { waits(&engine, what).await })
        });
        let listens =
            |server: &TestServer| server.cli(&["CLIENT", "LIST"]).contains("cmd=bzpopmin");
        while !listens(&server) {
            tokio::task::yield_now().await;
        }
        tokio::task::block_in_place(|| loss.befall(&mut server));
        let lost = Stopwatch::start();
        for waiting in begins {
            let error = waiting.await.expect("no panic");
            assert_eq!(error.kind(), ErrorKind::DataMissing, "{loss:?}: {error}");
        }
        assert!(
            lost.elapsed() < seconds(5),
            "{loss:?}: {:?}",
            lost.elapsed()
        );
        nothing_was_begun(&server);
    }
}
