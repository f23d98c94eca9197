//! Laws find the bugs that are injected into the functions.

use std::process::Command;

/// A bug, and a law that it breaks.
const FOUND: [(&str, &str); 4] = [
    ("SlotLeftBehind", "a_lost_lease_frees_its_slot"),
    ("TokenAtEnqueue", "a_retry_takes_a_token_anew"),
    ("WindowAligned", "no_window_has_more_than_the_rate"),
    (
        "ClaimedAheadOfLimit",
        "a_limited_queue_is_not_claimed_ahead",
    ),
];

/// Each in a process of its own, as the environment names the bug.
#[test]
fn laws_of_limits_find_each_injected_bug() {
    let program = std::env::current_exe().expect("the tests");
    for (bug, law) in FOUND {
        let name = format!("conformance::limits::{law}");
        let kept = |bug: Option<&str>| {
            let mut run = Command::new(&program);
            run.args([&*name, "--exact"]);
            match bug {
                Some(bug) => run.env("PUNCTUAL_PLANTED", bug),
                None => run.env_remove("PUNCTUAL_PLANTED"),
            };
            let output = run.output().expect("it runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("running 1 test"), "{name}: {text}");
            output.status.success()
        };
        assert!(kept(None), "{name} holds");
        assert!(!kept(Some(bug)), "{bug} breaks {name}");
    }
}
