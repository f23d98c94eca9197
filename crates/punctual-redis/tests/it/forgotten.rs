use punctual::Engine;
use punctual::conformance::START;
use punctual::engine::{Claim, StatsRequest, WorkerId};
use punctual::time::{ManualClock, Timestamp, minutes};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, here, options};

const WORKERS: usize = 200;

/// One round of a keeper in so many forgets them, by chance: the instant decides.
const ROUNDS: u64 = 31;

#[tokio::test]
async fn workers_that_nobody_is_told_of_any_more_take_no_place() {
    let server = TestServer::start();
    let clock = ManualClock::new(START);
    let engine = RedisEngine::connect_with_clock(options(&server.address()), clock).await;
    let engine = engine.expect("the server is there");
    let fields = || -> usize {
        let said = server.cli(&["HLEN", "punctual:{default/0}:s"]);
        said.parse().expect("a number")
    };
    let claim = async || {
        let claim = Claim::new(WorkerId::random(), QUEUE, 1);
        engine.claim(&here(), claim).await.expect("claim")
    };
    claim().await;
    let before = fields();
    for _ in 0..WORKERS {
        claim().await;
    }
    assert_eq!(fields(), before + WORKERS);
    let later = START + minutes(2);
    for round in 0..ROUNDS {
        let now = Timestamp::from_micros(later.as_micros() + round);
        engine.set_time(now).await.expect("set");
        engine.maintain().await.expect("maintain");
    }
    assert!(fields() < before, "{} of {before} fields", fields());
    let stats = engine.stats(&here(), StatsRequest::default()).await;
    assert!(stats.expect("stats").workers.is_empty());
}
