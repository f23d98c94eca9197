//! Tests of the command: locks.

use std::process::Stdio;

use crate::support::{Punctual, Ran, lines};

/// Two at once run one after the other: neither finds the mark that the other sets while it runs.
#[test]
fn commands_under_one_lock_do_not_overlap() {
    let punctual = Punctual::with_data();
    let script = punctual.write(
        "run.sh",
        "mkdir running || exit 9\necho $PUNCTUAL_FENCE >> fences\nsleep 0.2\nrmdir running\n",
    );
    let script = script.to_str().expect("a path");
    let mut both = Vec::new();
    for _ in 0..3 {
        let mut command = punctual.command(&["lock", "deploy", "--", "sh", script]);
        command
            .current_dir(punctual.path(""))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        both.push(command.spawn().expect("it starts"));
    }
    for one in both {
        Ran::from(one.wait_with_output().expect("it ends")).exits(0);
    }
    let fences: Vec<u64> = lines(&punctual.path("fences"))
        .iter()
        .map(|line| line.parse().expect("a fence"))
        .collect();
    assert_eq!(fences.len(), 3);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[test]
fn a_lock_that_is_held_is_refused_and_named() {
    let punctual = Punctual::with_data();
    let itself = env!("CARGO_BIN_EXE_punctual");
    let inner = [itself, "lock", "deploy", "--no-wait", "--", "true"];
    let ran = punctual
        .run(&[&["lock", "deploy", "--"][..], &inner[..]].concat())
        .exits(4);
    assert!(
        ran.stderr.contains("lock is held") && ran.stderr.contains("--wait 30s"),
        "{ran:?}"
    );
    // It is free again, and another name never was taken.
    punctual
        .run(&["lock", "deploy", "--no-wait", "--", "true"])
        .exits(0);
    let other = [itself, "lock", "other", "--no-wait", "--", "true"];
    punctual
        .run(&[&["lock", "deploy", "--"][..], &other[..]].concat())
        .exits(0);
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let punctual = Punctual::with_data();
    punctual
        .run(&["lock", "a", "--", "sh", "-c", "exit 42"])
        .exits(42);
    punctual
        .run(&["lock", "a", "--", "sh", "-c", "kill -9 $$"])
        .exits(137);
    let ran = punctual
        .run(&["lock", "a", "--", "no-such-command"])
        .exits(3);
    assert!(ran.stderr.contains("cannot run no-such-command"), "{ran:?}");
    punctual.run(&["lock", "a b", "--", "true"]).exits(2);
    punctual.run(&["lock", "a"]).exits(2);
}
