//! Every injected bug is found.

use serde_json::Value;

use crate::support::{Run, run};

/// What all tries of a bug may cause together, as their rounds counted it.
const FAULTS_MAX: u64 = 100;
/// Jobs that end their process and callers that give up are faults, too, and come on top of what is
/// planned.
const ON_TOP: u64 = 30;
/// A seed whose faults meet nothing leaves some for the next.
const OF_A_SEED: u64 = 45;
/// What faults meet is chance, of the seed and of the machine: so a bug may be found under the next
/// one.
const SEEDS: [&str; 4] = ["5", "6", "7", "8"];
/// The same, but for the seed that stops all workers late.
const STOPS_FIRST: [&str; 4] = ["6", "7", "8", "5"];

/// Those of a second hundred.
const OTHERS: [&str; 4] = ["15", "16", "17", "18"];

/// The engine refuses its data, so that no snapshot can be made: only bugs that damage them may be
/// found by that. It has to say so: on a slow machine an engine may not open in time, either.
const REFUSES: &str = "B engine answered";
const DAMAGED: &str = "(data_damaged";

/// A bug, and the plan that shows it.
struct Injected<'a> {
    bug: &'a str,
    cell: &'a str,
    /// Which faults.
    tracks: &'a str,
    /// Seconds of a round.
    round: &'a str,
    /// How many faults of those tracks at most; then nothing is broken any more until the round is
    /// over.
    faults: u64,
    options: &'a [&'a str],
    seeds: [&'a str; 4],
}

impl Injected<'_> {
    /// It is found by one of these, with a hundred faults at most, those of all tries counted. What
    /// meets what is chance: one more hundred is tried before it is said that this plan does not
    /// find it.
    fn is_found_by(&self, invariants: &[&str]) {
        let first = self.is_found_under(self.seeds, invariants);
        let Err(said) = first else { return };
        println!("{said}");
        if let Err(said) = self.is_found_under(OTHERS, invariants) {
            panic!("{said}");
        }
    }

    fn is_found_under(&self, seeds: [&str; 4], invariants: &[&str]) -> Result<(), String> {
        let (bug, cell) = (self.bug, self.cell);
        let (mut used, mut said) = (0, Vec::new());
        for seed in seeds {
            let Some(left) = (FAULTS_MAX - ON_TOP).checked_sub(used + 1) else {
                break;
            };
            let run = self.run(seed, self.faults.min(left + 1).min(OF_A_SEED));
            used += count(&run);
            let is_reported = |it: &str| it != REFUSES || !run.files_with(DAMAGED).is_empty();
            let found = invariants
                .iter()
                .find(|it| run.breaks(it) && is_reported(it));
            if let Some(invariant) = found {
                println!(
                    "{bug} in {cell}: {invariant}broken, after {used} faults in all, under seed {seed}"
                );
                return match used <= FAULTS_MAX {
                    true => Ok(()),
                    false => Err(format!("{bug} took {used}: {}", run.said())),
                };
            }
            // Found by something else, such as a backlog that a slow machine did not drain, or not
            // at all.
            said.push(run.said());
        }
        Err(format!(
            "{bug} broke none of {invariants:?} in {cell} with {used} faults: {said:#?}"
        ))
    }

    fn run(&self, seed: &str, faults: u64) -> Run {
        let faults = faults.to_string();
        let always = [
            "--tracks",
            self.tracks,
            "--round",
            self.round,
            "--faults",
            &faults,
            "--engine",
            self.cell,
            "--inject",
            self.bug,
            "--minutes",
            "1.5",
            "--drain",
            "10",
            "--open",
            "10",
            "--until-found",
            "--seed",
            seed,
        ];
        run(&[&always, self.options].concat())
    }
}

/// Faults that its rounds caused, of every kind.
fn count(run: &Run) -> u64 {
    let rounds = run.rounds();
    let of_round = rounds.iter().map(|round| {
        let faults = round["findings"]["tally"]["faults"].as_object();
        let counts = faults.expect("by number").values();
        counts.filter_map(Value::as_u64).sum::<u64>()
    });
    of_round.sum()
}

/// Kills of workers and of what stands before the engine; the rest comes with every round.
fn finds(bug: &str, cell: &str, invariants: &[&str]) {
    finds_by(&["--rate", "10"], SEEDS, bug, cell, invariants);
}

/// A lease has to have several jobs when its worker is killed or stopped: many come with a call,
/// for calls that are given up are faults, too, and find nothing here.
const IN_LEASES: [&str; 4] = ["--rate", "10", "--batch", "20"];

/// The same, and handlers that end their process are rare: nor do these find anything.
fn finds_in_leases(bug: &str, cell: &str, invariants: &[&str]) {
    let options = [&IN_LEASES[..], &["--many"]].concat();
    finds_by(&options, STOPS_FIRST, bug, cell, invariants);
}

fn finds_by(options: &[&str], seeds: [&str; 4], bug: &str, cell: &str, invariants: &[&str]) {
    let injected = Injected {
        bug,
        cell,
        tracks: "workers",
        round: "6",
        faults: FAULTS_MAX,
        options,
        seeds,
    };
    injected.is_found_by(invariants);
}

/// Power cuts and kills of the engine.
fn finds_under_kills(bug: &str, cell: &str, invariants: &[&str]) {
    finds_under_kills_by(&["--rate", "10"], bug, cell, invariants);
}

fn finds_under_kills_by(options: &[&str], bug: &str, cell: &str, invariants: &[&str]) {
    under_kills(options, bug, cell).is_found_by(invariants);
}

fn under_kills<'a>(options: &'a [&'a str], bug: &'a str, cell: &'a str) -> Injected<'a> {
    Injected {
        bug,
        cell,
        tracks: "servers",
        round: "8",
        faults: FAULTS_MAX,
        options,
        seeds: SEEDS,
    }
}

#[test]
fn an_answer_before_the_write_is_found() {
    finds_under_kills("AckBeforeWrite", "embedded-http", &["I1 ", REFUSES]);
}

#[test]
fn a_rescue_without_a_check_is_found() {
    // Some of a lease are to be tried again, and then it is to run out: handlers that end their
    // process see to that.
    let (bug, broken) = ("RescueWithoutStateCheck", ["I2 ", "I3 ", "I7 "]);
    finds_by(&IN_LEASES, STOPS_FIRST, bug, "embedded-http", &broken);
}

#[test]
fn a_rescue_without_a_check_is_found_in_redis() {
    let broken = ["I1 ", "I2 ", "I3 ", "I7 "];
    finds_in_leases("RescueWithoutStateCheck", "redis-always", &broken);
}

#[test]
fn a_settle_that_takes_any_token_is_found() {
    finds_in_leases("SettleWithoutToken", "embedded-http", &["I2 ", "I3 "]);
}

#[test]
fn a_settle_that_takes_any_token_is_found_in_redis() {
    finds_in_leases("SettleWithoutToken", "redis-always", &["I2 ", "I3 "]);
}

#[test]
fn an_extend_that_takes_any_token_is_found() {
    finds("ExtendWithoutToken", "embedded-http", &["I3 "]);
}

#[test]
fn an_extend_that_takes_any_token_is_found_in_redis() {
    finds("ExtendWithoutToken", "redis-always", &["I3 "]);
}

#[test]
fn another_id_after_a_retry_is_found() {
    finds("NewIdOnRetry", "embedded-http", &["I1 ", "I4 "]);
}

#[test]
fn a_job_promoted_in_two_steps_is_found() {
    // Such a job is counted, and in no line: no claim ever comes to it.
    finds("PromotedInTwoSteps", "redis-always", &["I1 ", "I10 "]);
}

/// Many jobs, so that one comes whose key another one had.
fn by_a_key_left_behind(cell: &str) -> Injected<'_> {
    Injected {
        bug: "UniqueKeyLeftBehind",
        cell,
        tracks: "workers",
        round: "6",
        faults: FAULTS_MAX,
        options: &["--many", "--batch", "20"],
        seeds: SEEDS,
    }
}

#[test]
fn a_unique_key_left_behind_is_found() {
    by_a_key_left_behind("embedded-http").is_found_by(&["I8 "]);
}

#[test]
fn a_unique_key_left_behind_is_found_in_redis() {
    by_a_key_left_behind("redis-always").is_found_by(&["I8 "]);
}

#[test]
fn keys_that_are_let_go_are_not_found_by_the_same_plan() {
    let without = Injected {
        bug: "None",
        ..by_a_key_left_behind("redis-always")
    };
    is_not_found(&without, &["I8 "]);
}

#[test]
fn a_millisecond_too_early_is_found() {
    finds("EarlyByOneMillisecond", "embedded-http", &["I5 "]);
}

#[test]
fn a_millisecond_too_early_is_found_in_redis() {
    finds("EarlyByOneMillisecond", "redis-always", &["I5 "]);
}

/// A cut leaves a log with an end that was written in part, if one is on its way: what stands there
/// is taken for jobs.
#[test]
fn a_checksum_that_is_not_checked_is_found() {
    let broken = ["I1 ", "I5 ", REFUSES];
    let often = ["--rate", "150", "--batch", "8"];
    finds_under_kills_by(&often, "ChecksumIgnored", "embedded-power", &broken);
}

#[test]
fn a_sync_that_is_skipped_is_found() {
    finds_under_kills("SyncSkipped", "embedded-power", &["I1 ", REFUSES]);
}

#[test]
fn what_is_synced_is_not_missed_under_the_same_plan() {
    let without = under_kills(&["--rate", "10"], "None", "embedded-power");
    is_not_found(&without, &["I1 ", REFUSES]);
}

/// It syncs at twenty times the configured interval.
#[test]
fn an_interval_longer_than_configured_is_found() {
    finds_under_kills("IntervalTooLong", "embedded-interval", &["L "]);
}

/// Clocks of producers and workers are off for a while, again and again, and workers are killed.
fn by_local_clock(cell: &str) -> Injected<'_> {
    Injected {
        bug: "LocalClock",
        cell,
        tracks: "workers",
        round: "6",
        faults: FAULTS_MAX,
        options: &["--rate", "10"],
        seeds: SEEDS,
    }
}

#[test]
fn a_lease_that_ends_by_the_clock_of_its_holder_is_found() {
    by_local_clock("embedded-clock").is_found_by(&["I2 "]);
}

#[test]
fn a_lease_that_ends_by_the_clock_of_its_holder_is_found_in_redis() {
    by_local_clock("redis-clock").is_found_by(&["I2 "]);
}

#[test]
fn leases_that_end_by_engine_time_are_not_found_by_the_same_plan() {
    let without = Injected {
        bug: "None",
        ..by_local_clock("embedded-clock")
    };
    is_not_found(&without, &["I2 "]);
}

/// Then both clocks read the same.
#[test]
fn a_lease_by_its_holders_clock_is_missed_where_clocks_are_right() {
    is_not_found(&by_local_clock("embedded-http"), &["I2 "]);
}

fn is_not_found(injected: &Injected<'_>, invariants: &[&str]) {
    let run = injected.run(SEEDS[0], OF_A_SEED);
    let broken = invariants.iter().any(|it| run.breaks(it));
    assert!(!broken, "{}", run.said());
    assert!(count(&run) > 5, "{}", run.said());
}

/// A job now and then, and the gateway is killed again and again, then left alone: a claim that
/// waited there receives no wakeup any more.
const FEW: Injected<'_> = Injected {
    bug: "DeafAfterBreak",
    cell: "embedded-http",
    tracks: "servers",
    round: "50",
    faults: 30,
    options: &["--few"],
    seeds: SEEDS,
};

#[test]
fn workers_that_listen_no_more_after_a_break_are_found() {
    FEW.is_found_by(&["I6 "]);
}

#[test]
fn workers_that_listen_again_after_a_break_are_not_found_by_the_same_plan() {
    let run = Injected { bug: "None", ..FEW }.run("5", FEW.faults);
    assert!(!run.breaks("I6 "), "{}", run.said());
    assert!(count(&run) > 5, "{}", run.said());
}
