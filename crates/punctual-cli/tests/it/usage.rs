use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::support::Punctual;

/// Every command with its subcommands.
const COMMANDS: &[&[&str]] = &[
    &["serve"],
    &["enqueue"],
    &["work"],
    &["jobs", "list"],
    &["jobs", "show"],
    &["jobs", "explain"],
    &["jobs", "cancel"],
    &["jobs", "reschedule"],
    &["jobs", "retry"],
    &["jobs", "delete"],
    &["queues", "list"],
    &["queues", "pause"],
    &["queues", "resume"],
    &["queues", "purge"],
    &["audit"],
    &["doctor"],
    &["bench", "lifecycle"],
    &["bench", "lateness"],
    &["bench", "footprint"],
    &["demo"],
    &["export"],
    &["import"],
    &["backup"],
    &["restore"],
    &["repair"],
    &["completions"],
];

#[test]
fn every_command_has_help_with_examples() {
    let punctual = Punctual::new();
    for command in COMMANDS {
        let ran = punctual.run(&[command, &["--help"][..]].concat()).exits(0);
        assert!(
            ran.stdout.contains("Examples:"),
            "{command:?} has no examples"
        );
        assert!(
            ran.stdout.contains("--output"),
            "{command:?} has no --output"
        );
        let longest = ran.stdout.lines().map(|line| line.chars().count()).max();
        assert!(
            longest <= Some(100),
            "{command:?} has a line of {longest:?}"
        );
    }
    let top = punctual.run(&["--help"]).exits(0);
    assert!(top.stdout.contains("Exit codes:"));
    punctual.run(&["--version"]).exits(0);
}

#[test]
fn a_command_that_does_not_exist_is_wrong_usage() {
    let punctual = Punctual::new();
    let ran = punctual.run(&["enquue", "mail"]).exits(2);
    assert!(
        ran.stderr.contains("enqueue"),
        "the nearest is named: {ran:?}"
    );
    let ran = punctual
        .run(&["--output", "json", "enquue", "mail"])
        .exits(2);
    assert_eq!(ran.error()["code"], "usage");
    punctual.run(&["--output", "json"]).exits(2);
}

#[test]
fn arguments_that_are_no_text_are_wrong_usage() {
    use std::os::unix::ffi::OsStrExt;
    let punctual = Punctual::new();
    punctual
        .run(&[std::ffi::OsStr::from_bytes(b"\xff")])
        .exits(2);
}

#[test]
fn wrong_addresses_name_what_is_supported() {
    let punctual = Punctual::new();
    for address in [
        "amqp://127.0.0.1",
        "nonsense",
        "file:",
        "file:d?durability=maybe",
    ] {
        let ran = punctual
            .run(&["queues", "list", "--engine", address])
            .exits(2);
        assert!(ran.stderr.contains("hint:"), "{address}: {ran:?}");
    }
    let ran = punctual
        .run(&["-e", "kafka://k", "-o", "json", "queues", "list"])
        .exits(2);
    assert!(
        ran.error()["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("file:DIR"))
    );
}

#[test]
fn the_environment_names_engine_namespace_and_output() {
    let punctual = Punctual::new();
    let mut command = punctual.command(&["enqueue", "mail", "{}"]);
    command
        .env("PUNCTUAL_ENGINE", "file:./elsewhere")
        .env("PUNCTUAL_NAMESPACE", "shop")
        .env("PUNCTUAL_OUTPUT", "json");
    let ran = crate::support::Ran::from(command.output().expect("the binary runs")).exits(0);
    assert_eq!(ran.documents()[0]["verdict"], "created");
    let args = ["queues", "list", "--engine", "file:./elsewhere"];
    assert_eq!(punctual.json(&args).len(), 0);
    assert_eq!(
        punctual
            .json(&[&args[..], &["--namespace", "shop"]].concat())
            .len(),
        1
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let punctual = Punctual::new();
    let lines: String = (0..5_000)
        .map(|n| format!("{{\"payload\":{n}}}\n"))
        .collect();
    let file = punctual.write("many.jsonl", lines);
    punctual
        .run(&["enqueue", "mail", "--from", file.to_str().expect("a path")])
        .exits(0);
    let mut child = punctual
        .command(&["jobs", "list", "--all", "--output", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut first = String::new();
    reader.read_line(&mut first).expect("a line");
    drop(reader);
    let mut said = String::new();
    let status = child.wait().expect("it ends");
    child
        .stderr
        .take()
        .expect("a pipe")
        .read_to_string(&mut said)
        .expect("text");
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}

#[test]
fn data_cannot_write_to_the_terminal() {
    let punctual = Punctual::new();
    let hostile = "\u{1b}[2Jgone\u{7}\u{202e}\u{9b}31m";
    let id = punctual.enqueue(&["mail", hostile, "--delay", "1h"]);
    for args in [
        &["jobs", "list"][..],
        &["jobs", "show", &id],
        &["jobs", "show", &id, "-o", "json"],
        &["jobs", "list", "-o", "json"],
        &["export"],
    ] {
        let ran = punctual.run(args).exits(0);
        let bad = ran
            .stdout
            .chars()
            .find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
        assert_eq!(bad, None, "{args:?}");
    }
}

#[test]
fn completions_name_every_command() {
    let punctual = Punctual::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = punctual.run(&["completions", shell]).exits(0);
        for command in COMMANDS {
            assert!(ran.stdout.contains(command[0]), "{shell} lacks {command:?}");
        }
    }
    punctual.run(&["completions", "abacus"]).exits(2);
}
