//! Tests of cells that may lose jobs: they lose no more than their durability says.

use serde_json::Value;

use crate::support::{Run, run};

/// Acknowledged and lost, over all rounds of a run.
fn kept_and_lost(run: &Run) -> (u64, u64) {
    (sum(run, "acknowledged"), sum(run, "lost"))
}

/// A figure of the tallies, over all rounds of a run.
fn sum(run: &Run, name: &str) -> u64 {
    let rounds = run.rounds();
    let of_round = |round: &Value| round["findings"]["tally"][name].as_u64().expect("a number");
    rounds.iter().map(of_round).sum()
}

/// Nothing was lost but what its setting says.
fn is_held_to_its_bound(run: &Run) -> bool {
    let was_checked = |round: &Value| {
        let verdicts = round["findings"]["verdicts"].as_array().expect("verdicts");
        let named = |verdict: &&Value| verdict["name"] == "L no more is lost than said";
        let bound = verdicts.iter().find(named).expect("it is judged");
        bound["checked"].as_u64() > Some(0)
    };
    run.is_clean() && run.rounds().iter().all(was_checked)
}

/// Redis said of itself, before a kill, that it had answered what it had not written; or what was
/// lost is what it answered once it had been asked.
fn was_delayed(run: &Run) -> bool {
    sum(run, "unwritten") > 0 || sum(run, "oldest_lost") == 0
}

/// Calls of a producer per second: half of the usual ones meet the same faults.
const RATE: &str = "10";

/// Under one of a few seeds: whether a fault meets what is not kept yet is chance.
fn loses(cell: &str) {
    let lost = ["3", "4", "5"].iter().any(|seed| {
        let run = run(&[
            "--engine",
            cell,
            "--minutes",
            "0.3",
            "--rate",
            RATE,
            "--drain",
            "60",
            "--seed",
            seed,
        ]);
        println!("{}", run.said());
        let lost = kept_and_lost(&run).1;
        assert!(
            cell != "redis-everysec-slow" || lost == 0 || was_delayed(&run),
            "{}",
            run.said()
        );
        // What did run, if all was not lost before, ran under one lease, and not early.
        for promised in ["I2 ", "I3 ", "I5 "] {
            assert!(!run.breaks(promised), "{}", run.said());
        }
        // There it is said how much a power cut or a kill takes.
        let is_bounded = matches!(
            cell,
            "embedded-interval" | "redis-everysec-slow" | "redis-everysec-power"
        );
        assert!(!is_bounded || is_held_to_its_bound(&run), "{}", run.said());
        lost > 0
    });
    assert!(lost, "{cell}: nothing was lost");
}

fn loses_nothing(cell: &str) {
    let run = run(&[
        "--engine",
        cell,
        "--minutes",
        "0.3",
        "--rate",
        RATE,
        "--seed",
        "3",
    ]);
    let (acknowledged, lost) = kept_and_lost(&run);
    assert!(
        acknowledged > 0,
        "{cell}: nothing was acknowledged: {}",
        run.said()
    );
    assert!(run.is_clean() && lost == 0, "{}", run.said());
}

#[test]
fn redis_that_syncs_each_second_loses_in_a_power_cut() {
    loses("redis-everysec-power");
}

#[test]
fn redis_that_syncs_each_second_loses_in_a_kill_while_a_sync_is_slow() {
    loses("redis-everysec-slow");
}

/// Whether a kill meets what Redis delayed to write is the disk's chance; it says so itself, and
/// else loses nothing.
#[test]
fn redis_that_syncs_each_second_loses_in_a_kill_only_what_it_had_delayed() {
    let run = run(&[
        "--engine",
        "redis-everysec",
        "--minutes",
        "0.3",
        "--seed",
        "3",
    ]);
    println!("{}", run.said());
    assert!(is_held_to_its_bound(&run), "{}", run.said());
    let (acknowledged, lost) = kept_and_lost(&run);
    assert!(acknowledged > lost, "{}", run.said());
    assert!(lost == 0 || was_delayed(&run), "{}", run.said());
    let rounds = run.rounds();
    let kills = |round: &Value| round["findings"]["tally"]["faults"]["F03"].as_u64();
    assert!(
        rounds.iter().all(|round| kills(round) > Some(0)),
        "{}",
        run.said()
    );
}

#[test]
fn redis_with_snapshots_only_loses_in_a_kill() {
    loses("redis-rdb");
}

/// How the data go, and a seed under which they do.
const GONE: [(&str, &str); 3] = [
    ("the data emptied", "7"),
    ("the data gone after a restart", "1"),
    ("another, empty database where the data were", "3"),
];

#[test]
fn redis_that_is_emptied_loses_all_and_its_clients_stop() {
    for (way, seed) in GONE {
        let cell = ["--engine", "redis-emptied", "--seed", seed];
        let run = run(&[&cell[..], &["--minutes", "0.2", "--round", "12"]].concat());
        let (acknowledged, lost) = kept_and_lost(&run);
        assert!(acknowledged > 0 && lost > 0, "{}", run.said());
        assert!(run.is_clean(), "{}", run.said());
        let findings = &run.rounds()[0]["findings"];
        assert_eq!(findings["tally"]["kinds"][way], 1, "{}", run.said());
        let verdicts = findings["verdicts"].as_array().expect("verdicts");
        let named = |verdict: &&Value| verdict["name"] == "T total loss is reported";
        let reported = verdicts.iter().find(named).expect("it is judged");
        assert!(reported["checked"].as_u64() > Some(0), "{}", run.said());
    }
}

#[test]
fn the_embedded_engine_without_syncs_loses_in_a_power_cut() {
    loses("embedded-os-power");
}

#[test]
fn the_embedded_engine_that_syncs_loses_nothing_in_a_power_cut() {
    loses_nothing("embedded-power");
}

#[test]
fn redis_that_syncs_each_call_loses_nothing_in_a_power_cut() {
    loses_nothing("redis-power");
}

#[test]
fn a_master_whose_replicas_are_both_waited_for_takes_nothing_with_it() {
    loses_nothing("sentinel");
}

#[test]
fn an_engine_with_interval_syncs_loses_one_interval_in_a_power_cut() {
    loses("embedded-interval");
}

#[test]
fn a_master_without_waits_is_lost_with_what_it_alone_acknowledged() {
    let run = run(&[
        "--engine",
        "sentinel-unwaited",
        "--minutes",
        "0.1",
        "--drain",
        "60",
        "--seed",
        "3",
    ]);
    println!("{}", run.said());
    let (acknowledged, lost) = kept_and_lost(&run);
    assert!(acknowledged > lost && lost > 0, "{}", run.said());
    assert!(sum(&run, "oldest_lost") > 0, "{}", run.said());
    assert!(run.is_clean(), "{}", run.said());
}
