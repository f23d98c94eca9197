use crate::support::run;

/// What a hundred faults meet is chance, of the seed and of the machine: so there is more than one.
const SEEDS: [&str; 6] = ["5", "6", "7", "8", "9", "10"];

/// Rounds of 25 faults or so, until one finds it: a hundred of them, under one of the seeds.
fn finds(bug: &str, cell: &str, invariants: &[&str]) {
    let under = |seed: &&str| {
        let run = run(&[
            "--engine",
            cell,
            "--planted",
            bug,
            "--faults",
            "100",
            "--minutes",
            "1.5",
            "--round",
            "12",
            "--drain",
            "10",
            "--until-found",
            "--seed",
            seed,
        ]);
        (!run.is_clean()).then_some(run)
    };
    let found = SEEDS.iter().find_map(under);
    let found = found.unwrap_or_else(|| panic!("{bug} was not found in {cell}"));
    let said = found.said();
    let broken = |invariant: &&&str| {
        let marked = |line: &str| line.trim().starts_with(**invariant) && line.contains("BROKEN");
        said.lines().any(marked)
    };
    // Or the engine itself says so, or does not open again, and cannot even be looked at.
    let gave_up = said.contains("(internal)") || said.contains("engine_unavailable");
    assert!(
        gave_up || invariants.iter().any(|invariant| broken(&invariant)),
        "{bug} broke none of {invariants:?}: {said}"
    );
}

#[test]
fn an_answer_before_the_write_is_found() {
    finds("AckBeforeWrite", "embedded-http", &["I1 "]);
}

#[test]
fn a_rescue_that_does_not_look_is_found() {
    finds(
        "RescueWithoutStateCheck",
        "embedded-http",
        &["I2 ", "I3 ", "I7 "],
    );
    finds(
        "RescueWithoutStateCheck",
        "redis-always",
        &["I1 ", "I2 ", "I3 ", "I7 "],
    );
}

#[test]
fn a_settle_that_takes_any_token_is_found() {
    finds("SettleWithoutToken", "embedded-http", &["I2 ", "I3 "]);
    finds("SettleWithoutToken", "redis-always", &["I2 ", "I3 "]);
}

#[test]
fn an_extend_that_takes_any_token_is_found() {
    finds("ExtendWithoutToken", "embedded-http", &["I3 "]);
    finds("ExtendWithoutToken", "redis-always", &["I3 "]);
}

#[test]
fn another_id_after_a_retry_is_found() {
    finds("NewIdOnRetry", "embedded-http", &["I1 ", "I4 "]);
}

#[test]
fn a_job_promoted_in_two_steps_is_found() {
    finds("PromotedInTwoSteps", "redis-always", &["I1 "]);
}

#[test]
fn a_unique_key_left_behind_is_found() {
    finds("UniqueKeyLeftBehind", "embedded-http", &["I8 "]);
    finds("UniqueKeyLeftBehind", "redis-always", &["I8 "]);
}

#[test]
fn a_millisecond_too_early_is_found() {
    finds("EarlyByOneMillisecond", "embedded-http", &["I5 "]);
    finds("EarlyByOneMillisecond", "redis-always", &["I5 "]);
}

/// A cut leaves a log with an end that was written in part: what stands there is taken for jobs.
#[test]
fn a_checksum_that_is_not_checked_is_found() {
    finds("ChecksumIgnored", "embedded-power", &["I1 ", "I5 "]);
}

#[test]
fn a_sync_that_is_skipped_is_found() {
    finds("SyncSkipped", "embedded-power", &["I1 "]);
}
