//! Workers that are gone.

use std::time::Duration;

use punctual::conformance::START;
use punctual::engine::{Action, Claim, Edit, Select, StatsRequest, Target, WorkerId};
use punctual::time::{ManualClock, days, hours, minutes, seconds};
use punctual::{Due, Engine, NewJob};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, here, options};

const WORKERS: usize = 200;

/// An engine whose clock is moved by hand, and what its server remembers.
struct Claimers {
    server: TestServer,
    engine: RedisEngine,
}

impl Claimers {
    async fn new() -> Self {
        let server = TestServer::start();
        let clock = ManualClock::new(START);
        let engine = RedisEngine::connect_with_clock(options(&server.address()), clock).await;
        let engine = engine.expect("the server is there");
        Self { server, engine }
    }

    /// So many claim, each for the first and last time.
    async fn come(&self, many: usize) {
        for _ in 0..many {
            let claim = Claim::new(WorkerId::random(), QUEUE, 1);
            self.engine.claim(&here(), claim).await.expect("claim");
        }
    }

    async fn after(&self, span: Duration) {
        self.engine.set_time(START + span).await.expect("set");
    }

    fn fields(&self) -> usize {
        let said = self.server.cli(&["HLEN", "punctual:{default/0}:s"]);
        said.parse().expect("a number")
    }
}

#[tokio::test]
async fn workers_past_their_minute_are_forgotten_by_maintenance() {
    let claimers = Claimers::new().await;
    claimers.come(1).await;
    let before = claimers.fields();
    claimers.come(WORKERS).await;
    assert_eq!(claimers.fields(), before + WORKERS);
    claimers.after(minutes(2)).await;
    claimers.engine.maintain().await.expect("maintain");
    assert_eq!(claimers.fields(), before - 1, "the first is forgotten too");
    let request = StatsRequest::default();
    let stats = claimers.engine.stats(&here(), request).await;
    assert!(stats.expect("stats").workers.is_empty());
}

/// Where a caller always calls, no round is made.
#[tokio::test]
async fn workers_that_come_and_go_are_never_more_than_those_of_some_minutes() {
    let claimers = Claimers::new().await;
    claimers.come(1).await;
    let before = claimers.fields();
    for half_minutes in 1..40 {
        claimers.after(seconds(30) * half_minutes).await;
        claimers.come(10).await;
        let more = claimers.fields() - before;
        assert!(more <= 7 * 10, "{more} after {half_minutes} half minutes");
    }
}

/// A queue without jobs, settings and a day's history leaves nothing; nor do its cancelled far
/// jobs.
#[tokio::test]
async fn an_idle_queue_is_forgotten_after_a_day() {
    let claimers = Claimers::new().await;
    let mut far = NewJob::new("idle", "{}");
    far.due = Due::After(days(20));
    let id = far.id;
    let engine = &claimers.engine;
    engine.enqueue(&here(), vec![far]).await.expect("enqueue");
    let edit = Edit::new(Select::Targets(vec![Target::Id(id)]), Action::Cancel);
    engine.edit(&here(), edit).await.expect("edit");
    let queues = async || {
        let stats = engine.stats(&here(), StatsRequest::default()).await;
        stats.expect("stats").queues.len()
    };
    for hour in 1..=24 {
        claimers.after(hours(hour)).await;
        engine.maintain().await.expect("maintain");
    }
    assert_eq!(queues().await, 1, "its history is of the last day");
    for hour in 25..=52 {
        claimers.after(hours(hour)).await;
        engine.maintain().await.expect("maintain");
    }
    assert_eq!(queues().await, 0);
    let keys = claimers.server.cli(&["KEYS", "*idle*"]);
    assert_eq!(keys, "");
}
