//! Long random walks: an engine answers as the model does.

use std::ops::Range;

use punctual::conformance::Harness;
use punctual_model::replay::{Covered, walks};
use punctual_model::{Bug, Law, Replication};

use crate::harness::{Embedded, Memory, Redis};

/// What a long walk meets: every kind of answer there is.
const ANSWERS: [&str; 12] = [
    "Cancel AlreadyCancelled",
    "Cancel CancelRequested",
    "Cancel Cancelled",
    "Cancel WrongState",
    "Claim Claimed",
    "Die Silence",
    "Extend Extended",
    "Extend LeaseLost",
    "Settle LeaseLost",
    "Settle Repeated",
    "Settle Settled",
    "Tick Silence",
];

async fn agree(harness: &dyn Harness, failover: bool, seeds: Range<u64>) -> Covered {
    let law = Law {
        failover,
        ..Law::default()
    };
    let covered = walks(harness, law, seeds, 40, &|| {}).await;
    covered.unwrap_or_else(|difference| panic!("{difference}"))
}

fn met_all(covered: &Covered) {
    let met: Vec<&str> = covered.answers.iter().map(String::as_str).collect();
    for answer in ANSWERS {
        assert!(met.contains(&answer), "{answer:?} is not among {met:?}");
    }
    println!("{} acts answered as the model says", covered.acts);
}

#[tokio::test]
async fn memory_engine_answers_as_the_model() {
    met_all(&agree(&Memory, false, 0..2_000).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_engine_answers_as_the_model_over_kills_too() {
    let covered = agree(&Embedded, true, 0..150).await;
    assert!(covered.answers.contains("Failover Silence"));
    met_all(&covered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_engine_answers_as_the_model() {
    met_all(&agree(&Redis::start(), false, 0..60).await);
}

/// Both jobs, and failovers to a replica that lacks some: the server is killed and comes back with
/// what it saved last.
const LOSES: Law = Law {
    bug: None,
    failover: false,
    replication: Replication::Unawaited,
    jobs: 2,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_engine_answers_as_the_model_over_losses_too() {
    let redis = Redis::start();
    let covered = walks(&redis, LOSES, 0..25, 40, &|| redis.save()).await;
    let covered = covered.unwrap_or_else(|difference| panic!("{difference}"));
    assert!(covered.answers.contains("Lose Silence"));
    met_all(&covered);
}

/// An engine that compared attempts alone would not pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_compares_attempts_alone_differs_from_redis_over_losses() {
    let redis = Redis::start();
    let law = Law {
        bug: Some(Bug::SettleComparesAttempt),
        ..LOSES
    };
    let differs = walks(&redis, law, 0..200, 40, &|| redis.save()).await;
    let differs = differs.expect_err("it is seen");
    assert!(differs.contains("Settle"), "{differs}");
}

/// A model that is wrong does not pass for what engines do.
#[tokio::test]
async fn a_wrong_model_differs_from_the_engine() {
    let seen = [
        Bug::SettleIgnoresToken,
        Bug::ExtendIgnoresToken,
        Bug::ClaimTakesActive,
        Bug::RescueDoesNotCheck,
        Bug::RescueDoesNotCount,
        Bug::NeighboursAreBlamed,
        Bug::CancelIsForgotten,
        Bug::ClaimTakesWaiting,
    ];
    for bug in seen {
        let law = Law {
            bug: Some(bug),
            ..Law::default()
        };
        let differs = walks(&Memory, law, 0..2_000, 40, &|| {}).await;
        assert!(differs.is_err(), "{bug:?} is not seen");
    }
}
