//! Tests of the command: locks.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use punctual::time::{Stopwatch, seconds};
use punctual_redis::testing::TestServer;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Punctual, lines, text};

/// A command with its script, and a file for what it prints about itself.
fn locked(punctual: &Punctual, script: &str, log: &str) -> Child {
    let log = File::create(punctual.path(log)).expect("a file");
    let mut command = punctual.command(&["lock", "deploy", "--", "sh", "-c", script]);
    command.stderr(log).spawn().expect("it starts")
}

fn wait_until(fact: impl Fn() -> bool) {
    let watch = Stopwatch::start();
    while !fact() {
        assert!(watch.elapsed() < seconds(60), "it comes to that");
        std::thread::yield_now();
    }
}

/// Neither of the others begins while the first runs, although both wait for the lock.
#[test]
fn commands_under_one_lock_do_not_overlap() {
    let punctual = Punctual::with_data();
    let run = "mkdir running || exit 9; echo $PUNCTUAL_FENCE >> fences; rmdir running";
    let first =
        "mkdir running; echo $PUNCTUAL_FENCE >> fences; until [ -e go ]; do :; done; rmdir running";
    let mut all = vec![("first", locked(&punctual, first, "first"))];
    wait_until(|| punctual.path("running").exists());
    for log in ["second", "third"] {
        all.push((log, locked(&punctual, run, log)));
        wait_until(|| punctual.read(log).contains("waiting for it"));
    }
    let waiters = || {
        punctual.one(&["locks", "show", "deploy"])["waiters"]
            .as_array()
            .map(Vec::len)
    };
    wait_until(|| waiters() == Some(2));
    let lock = punctual.json(&["locks"]).remove(0);
    assert_eq!(
        punctual.one(&["locks", "list"])["name"],
        "deploy",
        "list is no name"
    );
    punctual.run(&["locks", "deploy"]).exits(2);
    assert_eq!(lock["name"], "deploy");
    let ticket = text(&lock["holder"]["ticket"]);
    for verb in ["explain", "show"] {
        let shown = punctual
            .run(&["jobs", verb, &ticket, "-o", "table"])
            .exits(0);
        assert!(shown.stdout.contains("2 wait for it"), "{shown:?}");
    }
    assert_eq!(
        punctual.json(&["top", "--once"])[0]["workers"]
            .as_array()
            .map(Vec::len),
        Some(0)
    );
    punctual.write("go", "");
    for (log, one) in &mut all {
        let ended = one.wait().expect("it ends");
        assert!(ended.success(), "{log}: {ended}: {}", punctual.read(log));
    }
    let fences: Vec<u64> = lines(&punctual.path("fences"))
        .iter()
        .map(|line| line.parse().expect("a fence"))
        .collect();
    assert_eq!(fences.len(), 3);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

/// The lock's process stands still until another holder has had the lock: its command ends well,
/// and that is no success.
#[test]
fn a_lost_lock_is_a_failure_whatever_its_command_says() {
    let server = TestServer::start();
    let punctual = Punctual::new();
    let itself = env!("CARGO_BIN_EXE_punctual");
    let engine = server.address();
    let script = format!(
        "kill -STOP $PPID; {itself} lock deploy --engine {engine} -- true; kill -CONT $PPID"
    );
    let ran = punctual
        .run(&[
            "lock", "deploy", "--engine", &engine, "--lease", "300ms", "--", "sh", "-c", &script,
        ])
        .exits(1);
    assert!(ran.stderr.contains("lock deploy was lost"), "{ran:?}");
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

#[test]
fn a_command_that_cannot_start_leaves_the_lock_free() {
    let server = TestServer::start();
    let punctual = Punctual::new();
    let redis = server.address();
    let lock = |more: &[&str]| {
        let of = ["lock", "deploy", "--engine", &redis];
        punctual.run(&[&of[..], more].concat())
    };
    for _ in 0..4 {
        lock(&["--", "no-such-command"]).exits(3);
        lock(&["--no-wait", "--", "true"]).exits(0);
    }
}

/// A lock under `env`, which sets what is done with signals; `sh` runs the script. A group of its
/// own is not the one that a terminal shows.
fn under_env(punctual: &Punctual, how: &str, script: &str) -> Command {
    let lock = punctual.command(&["lock", "deploy", "--", "sh", "-c", script]);
    let mut command = Command::new("env");
    command
        .arg(how)
        .arg(lock.get_program())
        .args(lock.get_args());
    for (name, _) in lock.get_envs() {
        command.env_remove(name);
    }
    command.current_dir(punctual.path(".")).process_group(0);
    command
}

/// A hangup that ended only the lock would leave the command without it.
#[test]
fn a_command_gets_the_signals_of_its_lock() {
    let punctual = Punctual::with_data();
    let script = "trap 'exit 41' HUP; trap 'exit 42' INT; trap 'exit 43' QUIT; trap 'exit 44' TERM
        touch ready; while :; do :; done";
    for (signal, code) in [
        (Signal::HUP, 41),
        (Signal::INT, 42),
        (Signal::QUIT, 43),
        (Signal::TERM, 44),
    ] {
        let mut lock = under_env(&punctual, "--default-signal=HUP,INT,QUIT", script);
        let mut lock = lock.spawn().expect("it starts");
        wait_until(|| punctual.path("ready").exists());
        std::fs::remove_file(punctual.path("ready")).expect("it is there");
        let id = Pid::from_raw(lock.id().cast_signed()).expect("a process");
        kill_process(id, signal).expect("it runs");
        let ended = lock.wait().expect("it ends");
        assert_eq!(ended.code(), Some(code), "{signal:?}");
    }
    punctual
        .run(&["lock", "deploy", "--no-wait", "--", "true"])
        .exits(0);
}

#[test]
fn a_lock_under_nohup_ignores_a_hangup() {
    let punctual = Punctual::with_data();
    let script = "kill -HUP $PPID; kill -HUP $$; exit 41";
    let ended = under_env(&punctual, "--ignore-signal=HUP", script).status();
    assert_eq!(ended.expect("it runs").code(), Some(41));
}

#[test]
fn a_command_may_have_arguments_that_are_no_text() {
    let punctual = Punctual::with_data();
    let name = OsStr::from_bytes(b"gr\xfcn");
    let lock = ["lock", "deploy", "--", "touch"].map(OsStr::new);
    punctual.run(&[&lock[..], &[name]].concat()).exits(0);
    assert!(punctual.path(".").join(name).exists());
    let ran = punctual.run(&[&lock[..3], &[name]].concat()).exits(3);
    assert!(ran.stderr.contains("cannot run gr\u{fffd}n"), "{ran:?}");
}

#[test]
fn a_command_that_may_not_be_run_is_named_with_the_remedy() {
    let punctual = Punctual::with_data();
    punctual.write("script", "echo ran");
    let ran = punctual.run(&["lock", "deploy", "--", "./script"]).exits(3);
    assert!(ran.stderr.contains("chmod +x"), "{ran:?}");
}
