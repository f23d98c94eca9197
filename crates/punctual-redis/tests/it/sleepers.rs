//! Callers of the functions alone, which sleep until the instant of the answer.

use std::time::Duration;

use punctual::Engine;
use punctual::conformance::START;
use punctual::time::{ManualClock, millis, seconds};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;
use serde_json::Value;

use crate::client::{here, job, options};
use crate::hand::SHARD;

/// The lease of every claim here.
const LEASE: Duration = seconds(30);

/// Two workers by hand on a clock that is moved by hand; no engine calls.
struct Callers {
    server: TestServer,
    /// Since the start.
    now: Duration,
}

impl Callers {
    async fn new() -> Self {
        let server = TestServer::start();
        let clock = ManualClock::new(START);
        let engine = RedisEngine::connect_with_clock(options(&server.address()), clock).await;
        let engine = engine.expect("the server is there");
        engine.enqueue(&here(), vec![job()]).await.expect("enqueue");
        drop(engine);
        let now = Duration::ZERO;
        let mut callers = Self { server, now };
        callers.at(now);
        callers
    }

    fn at(&mut self, now: Duration) {
        self.now = now;
        let instant = (START + now).as_micros().to_string();
        let set = self
            .server
            .cli(&["SET", &format!("{SHARD}:clock"), &instant]);
        assert_eq!(set, "OK");
    }

    /// How many jobs a claim has, and how long its worker is to sleep.
    fn claim(&self, worker: &str) -> (usize, Duration) {
        let lease = LEASE.as_millis().to_string();
        let words = [
            "FCALL",
            "punctual_test_claim",
            "1",
            SHARD,
            "orders",
            "LEASE_MS",
            &lease,
        ];
        let answer = self.server.cli(&[&words[..], &["WORKER", worker]].concat());
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let sleep = answer["wake_in_ms"].as_u64().unwrap_or_default();
        (
            answer["jobs"].as_array().expect("jobs").len(),
            millis(sleep),
        )
    }
}

#[tokio::test]
async fn a_dead_workers_job_returns_when_its_lease_ends() {
    let mut callers = Callers::new().await;
    assert_eq!(callers.claim("dies").0, 1);
    let mut polls = 0;
    loop {
        let (jobs, sleep) = callers.claim("lives");
        if jobs > 0 {
            break;
        }
        assert!(sleep > Duration::ZERO && sleep <= LEASE / 2, "{sleep:?}");
        callers.at(callers.now + sleep);
        polls += 1;
    }
    assert!(
        callers.now >= LEASE && callers.now <= LEASE + seconds(2),
        "{:?}",
        callers.now
    );
    assert!(polls <= 5, "{polls} polls");
}

#[tokio::test]
async fn a_stop_of_three_quarters_of_a_lease_rescues_nothing() {
    let mut callers = Callers::new().await;
    assert_eq!(callers.claim("lives").0, 1);
    assert_eq!(callers.claim("sleeps").0, 0);
    callers.at(LEASE * 3 / 4);
    assert_eq!(callers.claim("sleeps").0, 0);
    // The lease has one more of its own time from here on.
    for quarters in 4..7 {
        callers.at(LEASE * quarters / 4);
        assert_eq!(callers.claim("sleeps").0, 0, "{:?}", callers.now);
    }
    callers.at(LEASE * 7 / 4 + millis(1));
    assert_eq!(callers.claim("sleeps").0, 1);
}
