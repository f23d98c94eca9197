//! Leases whose records their claimer reads by itself, a round trip later.

use std::sync::Arc;

use punctual::conformance::START;
use punctual::engine::ExtendVerdict;
use punctual::time::{ManualClock, seconds};
use punctual::{Engine, JobState, NewJob, Unique};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestProxy, TestServer, Weather};

use crate::client::{claim, enqueue, here, job, options, state};

/// So many that their claimer is to read them by itself, and too few to be stored as one.
const JOBS: usize = 10;

async fn connect(address: &str, clock: &ManualClock) -> RedisEngine {
    let engine =
        RedisEngine::connect_with_clock_and_full_bundles(options(address), clock.clone()).await;
    engine.expect("the server is there")
}

/// Seed 1 of `redis-clock` at 7f206c6 had three jobs answered so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_ended_before_its_records_were_read_is_not_returned() {
    a_lease_ends_before_it_is_read(|_| job()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_keyed_jobs_that_ended_unread_is_not_returned() {
    a_lease_ends_before_it_is_read(|number| {
        let mut keyed = job();
        keyed.unique = Some(Unique::new(format!("order-{number}")));
        keyed
    })
    .await;
}

/// No job is answered with the attempt after that of its lease.
async fn a_lease_ends_before_it_is_read(job: fn(usize) -> NewJob) {
    let server = TestServer::start();
    let proxy = TestProxy::to(server.port()).await;
    let clock = ManualClock::new(START);
    let engine = Arc::new(connect(&proxy.address(), &clock).await);
    let direct = connect(&server.address(), &clock).await;
    enqueue(&direct).await.expect("enqueue");
    let met = claim(&engine, 1).await.expect("claim");
    assert_eq!(met.len(), 1, "shard and functions are known");
    let mut ids = Vec::new();
    for number in 0..JOBS {
        let job = job(number);
        ids.push(job.id);
        direct.enqueue(&here(), vec![job]).await.expect("enqueue");
    }
    proxy.set_weather(Weather::Slow(seconds(1)));
    let (claimer, limit) = (engine.clone(), JOBS);
    let claimed = tokio::spawn(async move { claim(&claimer, limit).await });
    while state(&direct, ids[0]).await != Some(JobState::Active) {
        tokio::task::yield_now().await;
    }
    // No worker could have prolonged it in the first step, so it is extended once.
    for step in [seconds(31), seconds(62)] {
        direct.set_time(START + step).await.expect("a clock");
        clock.set(START + step);
        direct.maintain().await.expect("maintain");
    }
    assert_eq!(state(&direct, ids[0]).await, Some(JobState::Ready));
    assert!(!claimed.is_finished(), "it has yet to read the records");
    let leases = claimed.await.expect("no panic").expect("claim");
    let jobs = leases.iter().flat_map(|lease| &lease.jobs);
    assert!(jobs.clone().count() > 0);
    assert!(jobs.clone().all(|job| job.attempt == 2), "read afterwards");
    for lease in &leases {
        let verdict = lease.extend(&direct).await.expect("extend");
        assert!(
            matches!(verdict, ExtendVerdict::Extended { .. }),
            "a second attempt under the lease of the first: {verdict:?}"
        );
    }
}
