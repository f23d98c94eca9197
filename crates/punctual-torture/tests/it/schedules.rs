//! Schedules under faults: every instant is accounted for, once, by the stamps of what ran and what
//! the engine says of the others.

use crate::support::{Run, run};

/// Rounds with schedules. Every verdict on them checked something.
fn with_schedules(cell: &str, options: &[&str]) -> Run {
    let always = [
        "--schedules",
        "--engine",
        cell,
        "--drain",
        "20",
        "--rate",
        "5",
    ];
    run(&[&always[..], options].concat())
}

/// What the verdicts on schedules checked in all.
fn checked(run: &Run) -> u64 {
    let of_round = |round: &serde_json::Value| {
        let verdicts = round["findings"]["verdicts"].as_array().expect("verdicts");
        let is_ours = |verdict: &&serde_json::Value| {
            verdict["name"]
                .as_str()
                .is_some_and(|name| name.starts_with('S'))
        };
        let ours = verdicts.iter().filter(is_ours);
        ours.map(|verdict| verdict["checked"].as_u64().expect("a number"))
            .sum::<u64>()
    };
    run.rounds().iter().map(of_round).sum()
}

fn hold(cell: &str) {
    let run = with_schedules(cell, &["--minutes", "0.1", "--seed", "3"]);
    assert!(run.is_clean(), "{}", run.said());
    // A loaded machine has fewer runs.
    assert!(checked(&run) > 12, "{} checked", checked(&run));
}

#[test]
fn instants_are_accounted_for_under_kills_of_workers_and_redis() {
    hold("redis-always");
}

#[test]
fn instants_are_accounted_for_under_kills_of_the_gateway() {
    hold("embedded-http");
}

#[test]
fn cells_that_cannot_judge_schedules_are_refused() {
    let refused = run(&["--schedules", "--engine", "cluster,redis-clock"]);
    assert!(!refused.is_clean() && refused.rounds().is_empty());
    let why = "--schedules does nothing in cluster, redis-clock; name others with --engine";
    assert!(refused.said().contains(why), "{}", refused.said());
}

#[cfg(feature = "injected")]
mod injected {
    use super::with_schedules;

    fn is_found(bug: &str, cell: &str) {
        let options = ["--inject", bug, "--minutes", "0.1", "--seed", "5"];
        let run = with_schedules(cell, &options);
        assert!(run.breaks("S1"), "{bug} in {cell}: {}", run.said());
    }

    #[test]
    fn a_series_that_ends_with_a_cancelled_run_is_found() {
        is_found("TickLostOnCancel", "embedded-http");
    }

    #[test]
    fn a_series_that_ends_with_a_cancelled_run_is_found_in_redis() {
        is_found("TickLostOnCancel", "redis-always");
    }

    #[test]
    fn an_instant_that_is_enqueued_twice_is_found() {
        is_found("TickedTwice", "embedded-http");
    }

    #[test]
    fn an_instant_that_is_enqueued_twice_is_found_in_redis() {
        is_found("TickedTwice", "redis-always");
    }
}
