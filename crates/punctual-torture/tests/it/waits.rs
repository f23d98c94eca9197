//! Tests of rounds that do not come to rest in time.

use crate::support::run;

/// What a round that has no time to come to rest leaves behind.
fn account(cell: &str) -> String {
    let run = run(&[
        "--engine",
        cell,
        "--minutes",
        "0.05",
        "--drain",
        "0",
        "--seed",
        "2",
    ]);
    assert!(!run.is_clean(), "{}", run.said());
    assert!(
        run.said().contains("W every wait ended: BROKEN"),
        "{}",
        run.said()
    );
    assert_eq!(run.rounds().len(), 1, "{}", run.said());
    let round = run.folder().join(format!("seed-2/{cell}/round-000"));
    assert!(round.join("history").exists(), "it is kept");
    let account = std::fs::read_to_string(round.join("stuck.md")).expect("an account");
    // It has not been read when the next run begins.
    let said = run.again(&["--engine", cell, "--minutes", "0", "--seed", "2"]);
    let stash = run.folder().join("seed-2.finding-1");
    assert!(said.contains(&*stash.to_string_lossy()), "{said}");
    let kept = stash.join(format!("{cell}/round-000/stuck.md"));
    let kept = std::fs::read_to_string(kept);
    assert_eq!(kept.expect("it is stashed"), account);
    account
}

#[test]
fn a_process_that_does_not_rest_ends_its_round_and_is_reported() {
    let account = account("embedded");
    assert!(
        account.contains("# solo-0 to have nothing left to do"),
        "{account}"
    );
    assert!(
        account.contains("punctual-torture solo --setting"),
        "{account}"
    );
}

#[test]
fn an_engine_that_does_not_come_to_rest_says_what_is_left() {
    let account = account("embedded-http");
    assert!(account.contains("# nothing to be left to do"), "{account}");
    assert!(
        account.contains("punctual-torture host --engine"),
        "{account}"
    );
    assert!(account.contains("QueueStats"), "{account}");
}
