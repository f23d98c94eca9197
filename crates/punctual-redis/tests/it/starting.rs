//! Where there is no redis-server.

use std::process::Command;

/// The name of a test that starts one.
const STARTS_ONE: &str = "health::settings_that_change_stand_in_health_until_they_are_mended";

#[test]
fn a_missing_server_is_a_failure_that_says_how_to_install_it() {
    let tests = std::env::current_exe().expect("it runs");
    let mut run = Command::new(tests);
    run.args(["--exact", STARTS_ONE, "--nocapture"]);
    // As on a machine that has none.
    let run = run.env("PATH", "").output().expect("it is there");
    let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    assert!(!run.status.success(), "{said}");
    assert!(said.contains("1 failed"), "it is never passed over: {said}");
    for words in [
        "tests start a redis-server 7.0 or later of their own and found none",
        "sudo apt-get install redis-server",
        "brew install redis",
    ] {
        assert!(said.contains(words), "no {words:?} in: {said}");
    }
}
