//! Flows under faults: none stalls, callbacks run once, and steps wait for what they ask for.

use crate::support::{Run, run};

/// Rounds with flows. Every verdict on them checked something.
fn with_flows(cell: &str, drain: &str, options: &[&str]) -> Run {
    let always = ["--flows", "--engine", cell, "--drain", drain, "--rate", "5"];
    run(&[&always[..], options].concat())
}

/// What the verdicts on flows checked in all.
fn checked(run: &Run) -> [u64; 3] {
    [
        "G1 no flow stalls",
        "G2 callbacks run once",
        "G3 steps wait",
    ]
    .map(|name| {
        let of_round = |round: &serde_json::Value| {
            let verdicts = round["findings"]["verdicts"].as_array().expect("verdicts");
            let named = verdicts.iter().find(|verdict| verdict["name"] == name);
            named.map_or(0, |verdict| verdict["checked"].as_u64().expect("a number"))
        };
        run.rounds().iter().map(of_round).sum()
    })
}

/// A round in which a fault met nothing, as on a busy machine, says nothing: then the next seed.
fn none_stalls(cell: &str) {
    let mut total = [0; 3];
    for seed in ["3", "4", "5"] {
        // Each slow step whose process was killed twice runs alone, in more than two seconds.
        let run = with_flows(cell, "60", &["--minutes", "0.2", "--seed", seed]);
        if run.breaks_only("D ") {
            continue;
        }
        assert!(run.is_clean(), "{}", run.said());
        for (sum, count) in total.iter_mut().zip(checked(&run)) {
            *sum += count;
        }
        if total.iter().all(|count| *count > 10) {
            return;
        }
    }
    panic!("too little was checked: {total:?}");
}

#[test]
fn flows_come_to_their_end_under_kills_of_workers_and_redis() {
    none_stalls("redis-always");
}

#[test]
fn flows_come_to_their_end_under_kills_of_the_embedded_engine() {
    none_stalls("embedded");
}

#[cfg(feature = "injected")]
mod injected {
    use super::with_flows;

    /// The bug is found under one of a few seeds: whether a step is cancelled in time is chance.
    fn is_found(bug: &str, cell: &str, invariant: &str) {
        let seeds = ["5", "6", "7"];
        let found = seeds.iter().any(|seed| {
            let options = ["--inject", bug, "--minutes", "0.1", "--seed", seed];
            let run = with_flows(cell, "20", &options);
            println!("{}", run.said());
            run.breaks(invariant)
        });
        assert!(found, "{bug} broke no {invariant}in {cell}");
    }

    #[test]
    fn a_count_that_only_workers_change_is_found() {
        is_found("CountByClient", "embedded-http", "G1 ");
    }

    #[test]
    fn a_count_that_only_workers_change_is_found_in_redis() {
        is_found("CountByClient", "redis-always", "G1 ");
    }

    #[test]
    fn dependants_that_learn_of_completions_only_are_found_in_redis() {
        is_found("WatchOnlyOnCompleted", "redis-always", "G1 ");
    }

    #[test]
    fn steps_that_start_before_the_seal_are_found_in_redis() {
        is_found("HalfPlanRuns", "redis-always", "G2 ");
    }
}
