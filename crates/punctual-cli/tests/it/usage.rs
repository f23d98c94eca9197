//! Tests of the command: usage.

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
    &["jobs", "dead"],
    &["jobs", "update"],
    &["jobs", "cancel"],
    &["jobs", "reschedule"],
    &["jobs", "redrive"],
    &["jobs", "run-now"],
    &["jobs", "delete"],
    &["queues", "list"],
    &["queues", "pause"],
    &["queues", "resume"],
    &["queues", "purge"],
    &["flows", "send"],
    &["flows", "list"],
    &["flows", "show"],
    &["flows", "graph"],
    &["flows", "cancel"],
    &["flows", "retry"],
    &["flows", "recount"],
    &["bench", "flows"],
    &["schedules", "list"],
    &["schedules", "show"],
    &["schedules", "set"],
    &["schedules", "preview"],
    &["schedules", "pause"],
    &["schedules", "resume"],
    &["schedules", "run"],
    &["schedules", "skip"],
    &["schedules", "backfill"],
    &["schedules", "remove"],
    &["queues", "delete"],
    &["lock"],
    &["top"],
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
        for columns in [80, 100] {
            let mut help = punctual.command(&[command, &["--help"][..]].concat());
            let output = help.env("COLUMNS", columns.to_string()).output();
            let help = crate::support::Ran::from(output.expect("it runs")).stdout;
            for line in help.lines() {
                let count = line.chars().count();
                assert!(count <= columns, "{command:?} at {columns}: {line}");
            }
            for (line, next) in help.lines().zip(help.lines().skip(1)) {
                let is_text = |line: &str| line.starts_with(|first: char| first.is_alphabetic());
                let word = next.split(' ').next().unwrap_or_default();
                let has_room = line.chars().count() + 1 + word.chars().count() <= columns;
                assert!(
                    !(is_text(line) && is_text(next) && has_room),
                    "{command:?} at {columns} breaks before {word}: {line}"
                );
            }
            for example in examples(&ran.stdout) {
                assert!(
                    help.contains(example),
                    "{command:?} at {columns} breaks {example}"
                );
            }
        }
    }
    let top = punctual.run(&["--help"]).exits(0);
    assert!(top.stdout.contains("Exit codes:"));
    punctual.run(&["--version"]).exits(0);
}

#[test]
fn no_help_of_any_command_is_wider_than_80_columns() {
    let punctual = Punctual::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = 0;
    while let Some(command) = open.pop() {
        let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
        args.push("--help");
        let output = punctual.command(&args).env("COLUMNS", "80").output();
        let help = crate::support::Ran::from(output.expect("it runs")).stdout;
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{command:?}: {line}");
        }
        let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let names = lines.take_while(|line| !line.is_empty());
        // What continues the words of a command is further in.
        let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        for name in names.filter_map(|line| line.split_whitespace().next()) {
            open.push([&command[..], &[name.to_owned()]].concat());
        }
        seen += 1;
    }
    assert!(seen > COMMANDS.len(), "{seen} commands");
}

/// The commands of the examples that fit on 80 columns, without their comments.
fn examples(help: &str) -> Vec<&str> {
    let lines = help.lines().filter(|line| line.starts_with("  punctual "));
    let commands = lines.map(|line| line[2..].split("  ").next().unwrap_or_default());
    commands.filter(|command| command.len() < 78).collect()
}

#[test]
fn wrong_values_are_refused_in_lines_of_80_columns() {
    let punctual = Punctual::new();
    for args in [
        &["enqueue", "mail", "{}", "--priority", "high"][..],
        &["jobs", "list", "--limit", "0"],
        &["enqueue", "mail", "{}", "--at", "x"],
        &["jobs", "show", "0199"],
        &["completions", "abacus"],
    ] {
        let whole = punctual.run(args).exits(2).stderr;
        let output = punctual.command(args).env("COLUMNS", "80").output();
        let fitted = crate::support::Ran::from(output.expect("it runs")).exits(2);
        for line in fitted.stderr.lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {line}");
        }
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&fitted.stderr), words(&whole), "{args:?}");
    }
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
fn completions_know_queues_and_states() {
    let punctual = Punctual::new();
    punctual.enqueue(&["mail", "{}"]);
    punctual.enqueue(&["http:mail", "{}"]);
    let bash = punctual.run(&["completions", "bash"]).exits(0).stdout;
    punctual.write("completions.bash", bash);
    let completed = |line: &str| {
        let script = format!(
            "source ./completions.bash; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; \
             COMP_WORDBREAKS=$' \\t\\n:='; COMP_WORDS=({line}); \
             [[ $COMP_LINE == *' ' ]] && COMP_WORDS+=(''); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _punctual_with_queues punctual \"${{COMP_WORDS[COMP_CWORD]}}\" \
             \"${{COMP_WORDS[COMP_CWORD-1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let binary = std::path::Path::new(env!("CARGO_BIN_EXE_punctual"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", binary.parent().expect("a directory").display());
        let mut command = std::process::Command::new("bash");
        let command = command.args(["-c", &script]).env("PATH", path);
        let command = command
            .current_dir(punctual.path(""))
            .env_remove("PUNCTUAL_ENGINE");
        let ran = crate::support::Ran::from(command.output().expect("bash runs"));
        ran.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(completed("punctual enqueue m"), ["mail"]);
    assert_eq!(completed("punctual work "), ["http:mail", "mail"]);
    assert_eq!(
        completed("punctual queues pause http:m"),
        ["mail"],
        "after the colon"
    );
    for verb in ["list", "pause", "resume", "purge", "delete"] {
        let line = format!("punctual queues {verb} m");
        assert_eq!(completed(&line), ["mail"], "{line}");
    }
    assert_eq!(completed("punctual jobs list --queue m"), ["mail"]);
    assert_eq!(completed("punctual jobs list --state sch"), ["scheduled"]);
    assert_eq!(completed("punctual queues pa"), ["pause"]);
    assert_eq!(
        completed("punctual enqueue --engine file:./none m").concat(),
        ""
    );
    for (shell, asks) in [
        ("zsh", ":QUEUE:_punctual_queues'"),
        ("fish", "-f -a '(__punctual_queues)'"),
    ] {
        let script = punctual.run(&["completions", shell]).exits(0).stdout;
        assert!(script.matches(asks).count() > 5, "{shell}: {script}");
    }
    let fish = punctual.run(&["completions", "fish"]).exits(0).stdout;
    for verb in ["list", "pause", "resume", "purge", "delete"] {
        let condition = format!("queues; and __fish_seen_subcommand_from {verb}'");
        let asks = format!("{condition} -f -a '(__punctual_queues)'");
        assert!(fish.contains(&asks), "fish lacks {verb}");
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
