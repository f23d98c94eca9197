//! Tests find the bugs that are injected into relays.

use std::process::Command;

/// A bug, and a test that fails with it. Torture finds the fourth, which needs a kill.
const FOUND: [(&str, &str); 3] = [
    ("DueCutToSeconds", "drill::zset_drill"),
    (
        "NewIdEachTime",
        "lines::the_same_name_again_is_the_same_job",
    ),
    (
        "RefusedDropped",
        "refusals::an_item_over_the_limit_becomes_a_dead_job_and_blocks_no_other",
    ),
];

/// Each in a process of its own, as the environment names the bug.
#[test]
fn tests_find_each_injected_bug() {
    let program = std::env::current_exe().expect("the tests");
    for (bug, test) in FOUND {
        let mut run = Command::new(&program);
        run.args([test, "--exact"]).env("PUNCTUAL_PLANTED", bug);
        let output = run.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let fails = text.contains("running 1 test") && text.contains("1 failed");
        assert!(fails, "{bug} is not found by {test}: {text}");
    }
}
