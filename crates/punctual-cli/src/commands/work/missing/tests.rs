//! Unit tests of `commands::work::missing`.

use super::{check, first_word};

#[test]
fn only_a_word_that_the_shell_takes_as_it_stands_is_searched_for() {
    assert_eq!(first_word("  ./run \"$PUNCTUAL_KIND\""), Some("./run"));
    assert_eq!(first_word("true; missing"), None);
    for other in [
        "A=1 ./run",
        "'./my run'",
        "$RUN",
        "~/run",
        "(cd x && ./run)",
    ] {
        assert_eq!(first_word(other), None, "{other}");
    }
}

#[test]
fn builtins_and_keywords_are_commands() {
    for there in ["true", "cd / && ls", "if true\nthen ls\nfi", "[ -e x ]"] {
        assert!(check(there).is_ok(), "{there}");
    }
    for missing in ["no-such-command x", "./no-such-file", "echo 'open"] {
        assert!(check(missing).is_err(), "{missing}");
    }
    let directory = check("/etc/").expect_err("a directory is no command");
    assert!(format!("{directory:?}").contains("/etc/"));
}
