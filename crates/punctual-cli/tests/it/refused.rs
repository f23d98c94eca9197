//! Directories that cannot be opened, or not be filled: what is reported, and that nothing is lost.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::support::{Punctual, Ran};

/// The code, text and remedy of an error.
fn reported(ran: &Ran) -> [String; 3] {
    let error = ran.error();
    ["code", "message", "hint"].map(|field| error[field].as_str().unwrap_or_default().to_owned())
}

#[track_caller]
fn assert_reported(ran: Ran, exit: i32, code: &str, message: &str, hint: &str) {
    let ran = ran.exits(exit);
    let [is_code, is_message, is_hint] = reported(&ran);
    assert_eq!(is_code, code, "{ran:?}");
    assert!(is_message.contains(message), "{ran:?}");
    assert!(is_hint.contains(hint), "{ran:?}");
}

#[test]
fn a_directory_in_a_missing_or_wrong_place_is_not_found_or_misnamed() {
    let punctual = Punctual::new();
    punctual.write("a-file", "");
    let enqueue =
        |engine: &str| punctual.run(&["enqueue", "mail", "{}", "-o", "json", "-e", engine]);
    assert_reported(
        enqueue("file:none/data"),
        3,
        "not_found",
        "none/data",
        "make it first",
    );
    assert!(!punctual.path("none").exists());
    assert_reported(
        enqueue("file:a-file"),
        2,
        "invalid_input",
        "a-file",
        "name a directory",
    );
    assert_reported(
        enqueue("file:a-file/data"),
        2,
        "invalid_input",
        "lies in a file",
        "directories",
    );
    punctual.write("thesis.tex", "");
    assert_reported(
        enqueue("file:."),
        2,
        "invalid_input",
        "other files",
        "empty or new",
    );
    let list = punctual.run(&["jobs", "list", "-o", "json"]);
    assert_reported(list, 3, "not_found", "./punctual-data", "--engine file:DIR");
}

#[test]
fn a_directory_of_a_newer_version_is_left_alone() {
    let punctual = Punctual::with_data();
    let marker = punctual.path("punctual-data/format");
    let written = fs::read_to_string(&marker).expect("a marker");
    let newer = written.replace("format 1\n", "format 2\n");
    assert_ne!(newer, written, "{written}");
    fs::write(&marker, &newer).expect("a marker");
    for args in [
        &["jobs", "list"][..],
        &["enqueue", "mail", "{}"],
        &["doctor"],
        &["repair", "--yes"],
    ] {
        let ran = punctual.run(&[args, &["-o", "json"]].concat());
        assert_reported(ran, 6, "data_newer", "format: 2, known: 1", "that version");
    }
    assert_eq!(fs::read_to_string(&marker).expect("a marker"), newer);
}

#[test]
fn a_directory_that_may_only_be_read_says_what_is_missing() {
    let punctual = Punctual::with_data();
    let allow = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions");
    };
    let (data, parent) = (punctual.path("punctual-data"), punctual.path(""));
    let is_root = fs::metadata(&data).expect("metadata").uid() == 0;
    // Root may write everywhere: then another user runs a copy that it may read.
    let binary = punctual.path("copy");
    fs::copy(env!("CARGO_BIN_EXE_punctual"), &binary).expect("a copy");
    allow(&binary, 0o755);
    let run = |args: &[&str]| -> Ran {
        let mut command = Command::new(&binary);
        command.args(args).args(["-o", "json"]).current_dir(&parent);
        if is_root {
            command.uid(65_534).gid(65_534);
        }
        command.output().expect("the binary runs").into()
    };
    for entry in fs::read_dir(&data).expect("a directory") {
        let path = entry.expect("an entry").path();
        let mode = if path.is_dir() { 0o555 } else { 0o444 };
        allow(&path, mode);
    }
    allow(&data, 0o555);
    allow(&parent, 0o555);
    let list = run(&["jobs", "list"]);
    assert_reported(list, 5, "io", "punctual-data", "give this user the right");
    let enqueue = run(&["enqueue", "mail", "{}", "--engine", "file:new"]);
    assert_reported(enqueue, 5, "io", "new", "give this user the right");
    let export = run(&["export", "jobs.jsonl", "--engine", "memory:"]);
    assert_reported(export, 1, "io", "jobs.jsonl", "permissions");
    allow(&data, 0o755);
    allow(&parent, 0o755);
}

/// Steps on a disk that fills up: first with room, then full, then with room again. Each step is
/// reported with its exit code, and what it said on both ways.
const FULL: &str = r#"
step() {
    said=$("$PUNCTUAL" --engine "$engine" "$@" 2>&1)
    echo "$? $said" | tr '\n' ' '
    echo
}
fill
step enqueue mail one
fill
step enqueue mail two
step jobs list
step work mail --exec true --until-idle
step jobs list
drain
step enqueue mail three
"#;

/// A real one, where the kernel lets us have it.
const SMALL_DISK: &str = r#"
mkdir disk && mount -t tmpfs -o size=12m none disk || exit 99
engine='file:disk/data?reserve=1MiB'
fill() { if [ -d disk/data ]; then head -c 20m /dev/zero > disk/filler; fi 2>/dev/null; }
drain() { rm disk/filler; }
"#;

/// Elsewhere a reserve that no disk has room for.
const LARGE_RESERVE: &str = r#"
engine='file:data'
fill() { if [ -d data ]; then engine='file:data?reserve=1000000GiB'; fi; }
drain() { engine='file:data'; }
"#;

#[test]
fn a_full_disk_refuses_new_jobs_and_lets_the_rest_be_done() {
    let small = format!("{SMALL_DISK}{FULL}");
    let namespaces = [
        &["unshare", "--mount"][..],
        &["unshare", "--map-root-user", "--mount"],
    ];
    let mut ran: Vec<Ran> = Vec::new();
    for namespace in namespaces {
        ran.extend(steps(namespace, &small).filter(|ran| ran.code == 0));
    }
    ran.extend(steps(&[], &format!("{LARGE_RESERVE}{FULL}")));
    for ran in ran {
        let steps: Vec<&str> = ran.stdout.lines().collect();
        let [first, refused, before, work, after, again] = steps[..] else {
            panic!("{ran:?}");
        };
        assert!(first.starts_with("0 created"), "{ran:?}");
        assert!(refused.starts_with("4 "), "{ran:?}");
        assert!(refused.contains("disk is nearly full"), "{ran:?}");
        assert!(refused.contains("MiB on"), "{ran:?}");
        assert!(
            refused.contains("hint: ") && refused.contains("?reserve="),
            "{ran:?}"
        );
        assert!(
            before.starts_with("0 ") && before.contains("ready"),
            "{ran:?}"
        );
        assert!(work.starts_with("0 "), "{ran:?}");
        assert!(
            after.starts_with("0 ") && !after.contains("ready"),
            "{ran:?}"
        );
        assert!(again.starts_with("0 created"), "{ran:?}");
    }
}

/// Runs a script of the shell, inside another command or not; none if that is not to be had.
fn steps(inside: &[&str], script: &str) -> Option<Ran> {
    let punctual = Punctual::new();
    let shell = [inside, &["sh", "-c", script]].concat();
    let mut command = Command::new(shell[0]);
    command
        .args(&shell[1..])
        .current_dir(punctual.path(""))
        .env("PUNCTUAL", env!("CARGO_BIN_EXE_punctual"));
    command.output().ok().map(Ran::from)
}
