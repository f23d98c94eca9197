//! Engine time that was ahead is set back: dues and leases go on, and nothing is lost.

use std::time::Duration;

use punctual::conformance::START;
use punctual::time::{ManualClock, hours, minutes, seconds};
use punctual::{Engine, JobState};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{claim, enqueue, here, job, options, state};

async fn engine(server: &TestServer, clock: &ManualClock) -> RedisEngine {
    let engine = RedisEngine::connect_with_clock(options(&server.address()), clock.clone()).await;
    engine.expect("the server is there")
}

/// Moves the clock of the server, back too.
async fn at(engine: &RedisEngine, clock: &ManualClock, span: Duration) {
    engine.set_time(START + span).await.expect("a clock");
    clock.set(START + span);
}

#[tokio::test]
async fn engine_time_that_was_ahead_is_set_back() {
    let server = TestServer::start();
    let clock = ManualClock::new(START);
    let engine = engine(&server, &clock).await;
    let soon = job().delay(minutes(30));
    let id = soon.id;
    enqueue(&engine).await.expect("enqueue");
    let lease = claim(&engine, 1).await.expect("claim").remove(0);
    // One call an hour ahead, and then the clock is right again.
    at(&engine, &clock, hours(24)).await;
    engine.maintain().await.expect("maintain");
    at(&engine, &clock, seconds(1)).await;
    engine.enqueue(&here(), vec![soon]).await.expect("enqueue");
    at(&engine, &clock, minutes(40)).await;
    engine.maintain().await.expect("maintain");
    let stands = engine.info().await.expect("info").now;
    assert!(stands >= START + hours(24), "it stands still: {stands}");

    let clocks = engine.clocks(&here()).await.expect("clocks");
    assert!(clocks[0].ahead > hours(23), "{clocks:?}");
    assert!(!clocks[0].is_set_back && clocks[0].has_leases);
    let refused = engine.set_clock_back(&here(), false).await.expect("clocks");
    assert!(!refused[0].is_set_back, "a lease is open");
    let done = engine.set_clock_back(&here(), true).await.expect("clocks");
    assert!(done[0].is_set_back, "{done:?}");
    let now = engine.info().await.expect("info").now;
    assert!(now < START + minutes(41), "{now}");
    let again = engine.set_clock_back(&here(), true).await.expect("clocks");
    assert!(!again[0].is_set_back, "it is not ahead any more");

    assert!(
        !lease.complete(&engine).await.expect("settle"),
        "an old token"
    );
    // The job of the lease that ended is there again, and leases of now end in time.
    let taken = claim(&engine, 10).await.expect("claim").remove(0);
    assert_eq!(taken.jobs.len(), 1, "{taken:?}");
    at(&engine, &clock, minutes(42)).await;
    engine.maintain().await.expect("maintain");
    at(&engine, &clock, minutes(44)).await;
    engine.maintain().await.expect("maintain");
    assert_eq!(
        state(&engine, taken.jobs[0].id).await,
        Some(JobState::Ready)
    );
    // What was sent with a delay meanwhile comes by the wrong clock.
    assert_eq!(state(&engine, id).await, Some(JobState::Scheduled));
    at(&engine, &clock, hours(25)).await;
    engine.maintain().await.expect("maintain");
    assert_eq!(state(&engine, id).await, Some(JobState::Ready));
}

/// The instants that engine time comes through again number other bundles and tombstones.
#[tokio::test]
async fn nothing_that_was_numbered_by_an_instant_is_written_over() {
    let server = TestServer::start();
    let clock = ManualClock::new(START);
    let engine = engine(&server, &clock).await;
    let call = || (0..12).map(|_| job()).collect::<Vec<_>>();
    at(&engine, &clock, hours(1)).await;
    let before = engine.enqueue(&here(), call()).await.expect("enqueue");
    at(&engine, &clock, seconds(1)).await;
    engine.maintain().await.expect("maintain");
    let done = engine.set_clock_back(&here(), true).await.expect("clocks");
    assert!(done[0].is_set_back, "{done:?}");
    at(&engine, &clock, hours(1)).await;
    let after = engine.enqueue(&here(), call()).await.expect("enqueue");
    assert_eq!(after.now, before.now, "the same instant comes again");
    let mut ids: Vec<_> = before
        .receipts
        .iter()
        .chain(&after.receipts)
        .map(|it| it.id)
        .collect();
    let mut claimed = crate::client::drain(&engine).await;
    ids.sort();
    claimed.sort();
    assert_eq!(claimed, ids);
}
