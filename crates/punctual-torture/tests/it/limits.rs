//! Limits under faults: concurrency, windows and turns of shares hold by the stamps of what ran.

use crate::support::{Run, run};

/// Rounds with queues that have limits. Every verdict on them checked something.
fn with_limits(cell: &str, options: &[&str]) -> Run {
    let always = ["--limits", "--engine", cell, "--drain", "20", "--rate", "5"];
    run(&[&always[..], options].concat())
}

const NAMES: [&str; 3] = [
    "L1 no more at once",
    "L2 no fuller window",
    "L3 small shares first",
];

/// What the verdicts on limits checked in all.
fn checked(run: &Run) -> [u64; 3] {
    NAMES.map(|name| {
        let of_round = |round: &serde_json::Value| {
            let verdicts = round["findings"]["verdicts"].as_array().expect("verdicts");
            let named = verdicts.iter().find(|verdict| verdict["name"] == name);
            named.map_or(0, |verdict| verdict["checked"].as_u64().expect("a number"))
        };
        run.rounds().iter().map(of_round).sum()
    })
}

fn hold(cell: &str) {
    let run = with_limits(cell, &["--minutes", "0.1", "--seed", "3"]);
    assert!(run.is_clean(), "{}", run.said());
    let checked = checked(&run);
    println!("{checked:?}");
    let [at_once, windows, small] = checked;
    // A loaded machine sends few small shares.
    assert!(at_once > 10 && windows > 10 && small > 2, "{checked:?}");
}

#[test]
fn limits_hold_under_kills_of_workers_and_redis() {
    hold("redis-always");
}

#[test]
fn limits_hold_under_kills_of_the_gateway_by_the_same_plan() {
    hold("embedded-http");
}

#[test]
fn cells_that_cannot_judge_limits_are_named_or_refused() {
    let refused = run(&["--limits", "--engine", "cluster,redis-clock"]);
    assert!(!refused.is_clean() && refused.rounds().is_empty());
    let why = "--limits does nothing in cluster, redis-clock; name others with --engine";
    assert!(refused.said().contains(why), "{}", refused.said());

    let named = with_limits("embedded,redis-rdb", &["--faults", "0"]);
    let left_out = "Without --limits: redis-rdb";
    assert!(named.said().contains(left_out), "{}", named.said());
    let alone = with_limits("embedded", &["--faults", "0"]);
    assert!(!alone.said().contains("Without"), "{}", alone.said());
}

#[cfg(feature = "injected")]
mod injected {
    use super::with_limits;

    /// The bug is found under one of a few seeds: what a kill meets is chance.
    fn is_found(bug: &str, cell: &str, invariant: &str) {
        let seeds = ["5", "6", "7"];
        let found = seeds.iter().any(|seed| {
            let options = ["--inject", bug, "--minutes", "0.1", "--seed", seed];
            let run = with_limits(cell, &options);
            println!("{}", run.said());
            run.breaks(invariant)
        });
        assert!(found, "{bug} broke no {invariant} in {cell}");
    }

    #[test]
    fn a_job_that_starts_at_a_closed_limit_is_found() {
        is_found("OneGateIsEnough", "embedded-http", "L1");
    }

    #[test]
    fn a_job_that_starts_at_a_closed_limit_is_found_in_redis() {
        is_found("OneGateIsEnough", "redis-always", "L1");
    }

    #[test]
    fn a_rescue_that_frees_a_slot_twice_is_found_in_redis() {
        is_found("SlotFreedTwice", "redis-always", "L1");
    }

    #[test]
    fn windows_that_begin_with_the_clock_are_found() {
        is_found("WindowAligned", "embedded-http", "L2");
    }

    #[test]
    fn windows_that_begin_with_the_clock_are_found_in_redis() {
        is_found("WindowAligned", "redis-always", "L2");
    }

    #[test]
    fn a_share_that_keeps_its_turn_is_found() {
        is_found("PassNotRaised", "embedded-http", "L3");
    }

    #[test]
    fn a_share_that_keeps_its_turn_is_found_in_redis() {
        is_found("PassNotRaised", "redis-always", "L3");
    }
}
