//! Relays under faults: each message becomes one job, not early, or is in quarantine.

use crate::support::{Run, run, said};

/// Rounds with messages that come in by relays.
fn with_relays(cell: &str, options: &[&str]) -> Run {
    let always = ["--relay", "--engine", cell, "--drain", "40", "--rate", "5"];
    run(&[&always[..], options].concat())
}

const NAMES: [&str; 4] = [
    "R1 no message lost",
    "R2 no message twice",
    "R3 no message early",
    "R4 refused are kept",
];

fn hold(cell: &str) {
    let run = with_relays(cell, &["--minutes", "0.2", "--seed", "3"]);
    assert!(run.is_clean(), "{}", run.said());
    let rounds = run.rounds();
    let [round] = &rounds[..] else {
        panic!("one round: {rounds:?}");
    };
    let verdicts = round["findings"]["verdicts"].as_array().expect("verdicts");
    for name in NAMES {
        let named = verdicts.iter().find(|verdict| verdict["name"] == name);
        let checked = named.map_or(0, |verdict| verdict["checked"].as_u64().expect("a number"));
        // A loaded machine sends few.
        assert!(checked > 10, "{name} checked {checked}");
    }
    let tally = &round["findings"]["tally"];
    for id in ["F37", "F38"] {
        let caused = tally["faults"][id].as_u64().unwrap_or(0);
        assert!(caused > 0, "{id}: {tally}");
    }
    println!("{tally}");
    assert_eq!(tally["relayed"]["sent"], tally["relayed"]["arrived"]);
    assert!(
        run.said().contains(" messages by relays "),
        "{}",
        run.said()
    );
}

#[test]
fn messages_are_jobs_once_under_kills_of_relays_and_redis() {
    hold("redis-always");
}

#[test]
fn messages_are_jobs_once_under_kills_of_the_gateway_by_the_same_plan() {
    hold("embedded-http");
}

#[test]
fn a_plan_with_relays_has_their_faults_and_the_others_alike() {
    let plan = |options: &[&str]| {
        let cell = ["plan", "--engine", "redis-always", "--seed", "7"];
        said(&[&cell[..], options].concat())
    };
    let (without, with) = (plan(&[]), plan(&["--relay"]));
    assert!(with.contains("F37") && with.contains("F38"), "{with}");
    assert!(!without.contains("F37"), "{without}");
    let rest = with
        .lines()
        .filter(|line| !line.contains("F37 ") && !line.contains("F38 "));
    assert!(rest.eq(without.lines()), "{with}");
}

#[test]
fn cells_without_relays_are_named_or_refused() {
    let refused = run(&["--relay", "--engine", "embedded,cluster"]);
    assert!(!refused.is_clean() && refused.rounds().is_empty());
    let why = "--relay does nothing in embedded, cluster; name others with --engine";
    assert!(refused.said().contains(why), "{}", refused.said());
    let refused = run(&[
        "--relay",
        "--engine",
        "redis-always",
        "--totals",
        "none.json",
    ]);
    let why = "leave --totals or --relay out";
    assert!(refused.said().contains(why), "{}", refused.said());
}

#[cfg(feature = "injected")]
mod injected {
    use super::with_relays;

    /// The bug is found under one of a few seeds, mostly the first: what a kill meets is chance.
    fn is_found(bug: &str, cell: &str, invariant: &str) {
        let seeds = ["5", "6", "7", "8", "9"];
        let found = seeds.iter().any(|seed| {
            let options = ["--inject", bug, "--minutes", "0.1", "--seed", seed];
            let run = with_relays(cell, &options);
            println!("{}", run.said());
            run.breaks(invariant)
        });
        assert!(found, "{bug} broke no {invariant} in {cell}");
    }

    #[test]
    fn a_relay_that_accepts_before_the_receipt_is_found() {
        is_found("AcceptedBeforeStored", "embedded-http", "R1");
    }

    #[test]
    fn a_relay_that_accepts_before_the_receipt_is_found_in_redis() {
        is_found("AcceptedBeforeStored", "redis-always", "R1");
    }

    #[test]
    fn a_relay_that_draws_an_id_for_each_resend_is_found() {
        is_found("NewIdEachTime", "redis-always", "R2");
    }

    #[test]
    fn a_relay_that_drops_what_it_refuses_is_found() {
        is_found("RefusedDropped", "embedded-http", "R4");
    }

    #[test]
    fn a_score_that_is_read_as_seconds_is_found() {
        is_found("DueCutToSeconds", "embedded-http", "R3");
    }
}
