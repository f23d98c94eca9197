//! What commands of `work --exec` get, and that nothing of them outlives its attempt.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Punctual, text};
use crate::work::{assert_gone, wait_for_start, with_fifos, work};

/// A command that leaves its session twice over, notes its process id in `child` and stays.
const LEAVES: &str = "setsid sh -c 'setsid sh -c \"echo \\$\\$ > child; echo started > fifo; sleep 600\" &'; sleep 600";

#[test]
fn a_process_that_left_the_session_ends_with_the_timeout() {
    let punctual = with_fifos();
    punctual.enqueue(&["jobs", "{}", "--max-attempts", "1"]);
    let mut worker = started(&punctual, LEAVES, &["--timeout", "3s", "--until-idle"]);
    wait_for_start(&punctual);
    assert!(worker.wait().expect("it ends").success());
    assert_gone(&punctual.read("child"));
}

#[test]
fn a_process_that_left_the_session_ends_with_its_command() {
    let punctual = Punctual::new();
    punctual.enqueue(&["jobs", "{}"]);
    let command = "setsid sh -c 'echo $$ > child; sleep 600' & until [ -s child ]; do :; done";
    assert_eq!(work(&punctual, command, &[])[0]["outcome"], "completed");
    assert_gone(&punctual.read("child"));
}

#[test]
fn a_process_that_left_the_session_ends_with_a_killed_worker() {
    let punctual = with_fifos();
    punctual.enqueue(&["jobs", "{}"]);
    let mut worker = started(&punctual, LEAVES, &[]);
    wait_for_start(&punctual);
    worker.kill().expect("it is killed");
    worker.wait().expect("it is gone");
    assert_gone(&punctual.read("child"));
}

#[test]
fn the_whole_group_gets_the_grace_though_its_shell_ends_first() {
    let punctual = with_fifos();
    punctual.write(
        "job.sh",
        "trap 'read go < go; echo done > cleaned; exit 0' TERM\n\
         echo started > fifo; sleep 600 & wait\n",
    );
    let id = punctual.enqueue(&["jobs", "{}", "--max-attempts", "1"]);
    // A shell with more to do stays the parent, and ends on SIGTERM at once.
    let command = "echo $$ > shell; sh job.sh; true";
    let args = ["--timeout", "3s", "--grace", "1m", "--until-idle"];
    let mut worker = started(&punctual, command, &args);
    wait_for_start(&punctual);
    assert_gone(&punctual.read("shell"));
    std::fs::write(punctual.path("go"), "go\n").expect("the handler reads on");
    assert!(worker.wait().expect("it ends").success());
    assert_eq!(punctual.read("cleaned"), "done\n");
    let error = text(&punctual.one(&["jobs", "show", &id])["last_error"]);
    assert!(error.contains("the command ended on SIGTERM"), "{error}");
}

#[test]
fn a_command_that_the_drain_ends_gets_its_grace() {
    let punctual = with_fifos();
    punctual.write(
        "job.sh",
        "trap 'sleep 1; echo done > cleaned; exit 0' TERM\n\
         echo started > fifo; sleep 600 & wait\n",
    );
    let id = punctual.enqueue(&["jobs", "{}"]);
    let args = ["--drain", "100ms", "--grace", "1m"];
    let mut worker = started(&punctual, "sh job.sh; true", &args);
    wait_for_start(&punctual);
    let pid = Pid::from_raw(worker.id() as i32).expect("not 0");
    kill_process(pid, Signal::TERM).expect("it runs");
    assert!(worker.wait().expect("it ends").success());
    assert_eq!(punctual.read("cleaned"), "done\n");
    let job = punctual.one(&["jobs", "show", &id]);
    assert_eq!(
        (&job["state"], &job["failures"]),
        (&json!("ready"), &json!(0))
    );
}

#[test]
fn a_command_that_is_killed_after_its_grace_did_not_end_on_sigterm() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["jobs", "{}", "--max-attempts", "1", "--timeout", "300ms"]);
    punctual.write(
        "job.sh",
        "trap '' TERM; echo $$ > child; sleep 600 & wait\n",
    );
    work(&punctual, "sh job.sh; true", &["--grace", "100ms"]);
    let error = text(&punctual.one(&["jobs", "show", &id])["last_error"]);
    assert!(error.contains("killed 100ms after SIGTERM"), "{error}");
    assert_gone(&punctual.read("child"));
}

#[test]
fn a_signal_to_a_guard_harms_no_command() {
    let punctual = with_fifos();
    punctual.enqueue(&["jobs", "{}"]);
    let command = "echo $PPID > guard; echo started > fifo; read go < go";
    let mut worker = started(&punctual, command, &["--until-idle"]);
    wait_for_start(&punctual);
    let guard = punctual.read("guard");
    let guard = Pid::from_raw(guard.trim().parse().expect("a process id")).expect("not 0");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        kill_process(guard, signal).expect("it is there");
    }
    std::fs::write(punctual.path("go"), "go\n").expect("the command reads on");
    let said = BufReader::new(worker.stdout.take().expect("a pipe"));
    let line = said.lines().next().expect("a line").expect("text");
    assert!(line.contains(r#""outcome":"completed""#), "{line}");
    assert!(worker.wait().expect("it ends").success());
}

#[test]
fn a_killed_guard_fails_the_attempt_and_ends_the_command() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["jobs", "{}", "--max-attempts", "1"]);
    // It has its payload once the guard has reported its process group.
    work(
        &punctual,
        "cat > payload; echo $$ > command; kill -9 $PPID; sleep 600",
        &[],
    );
    let error = text(&punctual.one(&["jobs", "show", &id])["last_error"]);
    assert!(
        error.contains("the guard of the command was killed"),
        "{error}"
    );
    assert_gone(&punctual.read("command"));
}

#[test]
fn commands_run_on_while_another_program_takes_the_place_of_the_worker() {
    let punctual = Punctual::new();
    let copy = punctual.path("copy");
    std::fs::copy(env!("CARGO_BIN_EXE_punctual"), &copy).expect("a copy");
    punctual.enqueue(&["jobs", "{}"]);
    punctual.enqueue(&["jobs", "{}"]);
    let done = Command::new(&copy)
        .args(["work", "jobs", "--concurrency", "1", "--until-idle"])
        .args(["--exec", "rm -f copy"])
        .current_dir(punctual.path(""))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(said.matches("completed").count(), 2, "{done:?}");
}

#[test]
fn no_secret_of_the_worker_reaches_its_commands() {
    let punctual = Punctual::new();
    punctual.enqueue(&["jobs", "{}"]);
    let mut worker = punctual.command(&["work", "jobs", "--until-idle"]);
    worker
        .args([
            "--exec",
            "env > environment; tr '\\0' '\\n' < /proc/$PPID/environ > parent",
        ])
        .env("PUNCTUAL_TOKEN", "hush-token")
        .env(
            "PUNCTUAL_PUSH_SECRET",
            "whsec_aHVzaC1zZWNyZXQtaHVzaC1zZWNyZXQ=",
        )
        .env("PUNCTUAL_LATER", "hush-later")
        .env("PUNCTUAL_ENGINE", "file:./punctual-data?password=hush")
        .env("KEPT", "kept");
    let worker = worker.args(["--engine", "file:./punctual-data"]);
    assert!(worker.output().expect("it runs").status.success());
    for seen in [punctual.read("environment"), punctual.read("parent")] {
        assert!(
            seen.contains("KEPT=kept") && seen.contains("PUNCTUAL_ID="),
            "{seen}"
        );
        assert!(!seen.contains("hush") && !seen.contains("whsec"), "{seen}");
    }
}

#[test]
fn headers_that_share_a_variable_are_all_there() {
    let punctual = Punctual::new();
    let headers = ["a-b", "a_b", "a.b"].map(|name| format!("{name}=of {name}"));
    let mut args = vec!["jobs", "{}"];
    for header in &headers {
        args.extend(["--header", header]);
    }
    punctual.enqueue(&args);
    let command = "env | grep ^PUNCTUAL_HEADER_ | sort > variables; \
                   printenv PUNCTUAL_HEADERS > document";
    work(&punctual, command, &[]);
    let variables = "PUNCTUAL_HEADER_A_B=of a-b\n\
                     PUNCTUAL_HEADER_A_B_2=of a.b\n\
                     PUNCTUAL_HEADER_A_B_3=of a_b\n";
    assert_eq!(punctual.read("variables"), variables);
    let document: Value = serde_json::from_str(&punctual.read("document")).expect("JSON");
    assert_eq!(document["a.b"], "of a.b");
}

#[test]
fn a_command_that_does_not_exist_is_refused_at_the_start() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["jobs"]);
    punctual.write("not-executable.sh", "exit 0\n");
    for (exec, reported) in [
        ("no-such-command --x", "no-such-command is not found"),
        ("./no-such-file", "./no-such-file cannot be run"),
        ("./not-executable.sh x", "chmod +x ./not-executable.sh"),
        ("echo 'open", "not a shell command"),
    ] {
        let ran = punctual.run(&["work", "jobs", "--until-idle", "--exec", exec]);
        assert!(ran.exits(2).stderr.contains(reported), "{exec}");
    }
    assert_eq!(punctual.one(&["jobs", "show", &id])["attempt"], 0);
}

#[test]
fn exit_codes_126_and_127_snooze_and_are_reported() {
    let punctual = Punctual::new();
    punctual.write("not-executable.sh", "exit 0\n");
    for (command, reported) in [
        (
            ": ; no-such-command",
            "exit status 127, a command was not found",
        ),
        (
            ": ; ./not-executable.sh",
            "exit status 126, a command could not be executed",
        ),
    ] {
        let id = punctual.enqueue(&["jobs", "--max-attempts", "1"]);
        let args = ["--until-idle", "--snooze", "2h", "--output", "json"];
        let ran = punctual.run(&[&["work", "jobs", "--exec", command][..], &args].concat());
        assert!(ran.stderr.contains(reported), "{ran:?}");
        let attempt = &ran.exits(0).documents()[0];
        assert_eq!(attempt["outcome"], "snoozed");
        assert!(text(&attempt["error"]).starts_with(reported), "{attempt}");
        let job = punctual.one(&["jobs", "show", &id]);
        assert_eq!(
            (&job["state"], &job["failures"]),
            (&json!("scheduled"), &json!(0))
        );
    }
}

fn started(punctual: &Punctual, command: &str, more: &[&str]) -> Child {
    punctual
        .command(
            &[
                &["work", "jobs", "--exec", command, "--output", "json"],
                more,
            ]
            .concat(),
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the worker starts")
}
