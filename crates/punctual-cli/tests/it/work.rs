//! Tests of the command: work.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::support::{Punctual, text};

/// Works on queue `jobs` until nothing is due; answers one document per attempt.
pub(crate) fn work(punctual: &Punctual, command: &str, more: &[&str]) -> Vec<Value> {
    punctual.json(&[&["work", "jobs", "--exec", command, "--until-idle"], more].concat())
}

#[test]
fn the_command_gets_payload_and_job_and_its_output_is_the_result() {
    let punctual = Punctual::new();
    let args = [
        "jobs",
        r#"{"a": 1}"#,
        "--kind",
        "k",
        "--retention",
        "1h",
        "--header",
        "trace-id=42",
        "--unique",
        "u",
    ];
    let id = punctual.enqueue(&args);
    let command = r#"cat; echo " $PUNCTUAL_ID $PUNCTUAL_KIND $PUNCTUAL_QUEUE $PUNCTUAL_ATTEMPT $PUNCTUAL_HEADER_TRACE_ID $PUNCTUAL_UNIQUE""#;
    let attempts = work(&punctual, command, &[]);
    assert_eq!(
        (&attempts[0]["outcome"], &attempts[0]["id"]),
        (&json!("completed"), &json!(id))
    );
    let job = punctual.run(&["jobs", "show", &id]).exits(0).stdout;
    assert!(
        job.contains(&format!(r#"{{"a": 1}} {id} k jobs 1 42 u"#)),
        "{job}"
    );
}

#[test]
fn no_command_completes_no_job() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["jobs"]);
    let args = ["work", "jobs", "--until-idle", "--exec", " "];
    let reported = punctual.run(&args).exits(2);
    assert!(reported.stderr.contains("--exec"), "{reported:?}");
    assert_eq!(punctual.one(&["jobs", "show", &id])["state"], "ready");
}

#[test]
fn a_worker_that_is_refused_does_not_say_that_it_works() {
    let punctual = Punctual::with_data();
    for wrong in [
        &["jobs=0"][..],
        &["jobs", "--concurrency", "0"],
        &["jobs", "--lease-duration", "1ms"],
    ] {
        let reported = punctual
            .run(&[&["work", "--exec", "true"], wrong].concat())
            .exits(2);
        assert!(!reported.stderr.contains("working on"), "{reported:?}");
    }
}

#[test]
fn exit_codes_are_verdicts() {
    let punctual = Punctual::new();
    let failing = punctual.enqueue(&["jobs", "3", "--retry", "fixed:1h"]);
    let snoozing = punctual.enqueue(&["jobs", "75"]);
    let killed = punctual.enqueue(&["jobs", "9", "--max-attempts", "1"]);
    let command = r#"read code; echo "said $code" >&2; [ $code = 9 ] && kill -9 $$; exit $code"#;
    work(&punctual, command, &["--snooze", "2h"]);
    let show = |id: &str| punctual.one(&["jobs", "show", id]);

    let job = show(&failing);
    assert_eq!(
        (&job["state"], &job["failures"]),
        (&json!("scheduled"), &json!(1))
    );
    assert_eq!(job["last_error"], "exit status 3: said 3");
    assert_eq!(
        (&job["attempts"][0]["outcome"], &job["attempts"][0]["error"]),
        (&json!("retry"), &json!("exit status 3: said 3"))
    );
    let job = show(&snoozing);
    assert_eq!(
        (&job["state"], &job["failures"]),
        (&json!("scheduled"), &json!(0))
    );
    let job = show(&killed);
    assert_eq!(
        (&job["state"], &job["dead"], &job["crashes"]),
        (&json!("dead"), &json!("exhausted"), &json!(0))
    );
    assert_eq!(job["last_error"], "ended by signal 9: said 9");
}

#[test]
fn every_attempt_is_shown_within_80_columns() {
    let punctual = Punctual::new();
    let attempts = ["--retry", "fixed:1ms", "--max-attempts", "12"];
    let id = punctual.enqueue(&[&["jobs", "x"][..], &attempts].concat());
    for _ in 0..12 {
        let long = "the bank is closed ".repeat(30);
        work(&punctual, &format!("echo '{long}'>&2; exit 1"), &[]);
    }
    let card = punctual.run(&["jobs", "show", &id]).exits(0).stdout;
    let reported: Vec<_> = card
        .lines()
        .skip_while(|line| !line.starts_with("attempts "))
        .collect();
    assert!(reported[0].contains("1  retry"), "{card}");
    assert!(
        reported[1].contains("exit status 1: the bank is closed"),
        "{card}"
    );
    assert!(reported[2].contains("(2 to 3 are not kept)"), "{card}");
    assert!(reported[3].contains("4  retry"), "{card}");
    assert!(reported[19].contains("12  retry"), "{card}");
    for line in &reported[..21] {
        assert!(line.chars().count() <= 80, "{line:?}");
    }
}

#[test]
fn output_is_bounded_and_a_command_may_ignore_its_input() {
    let punctual = Punctual::new();
    let loud = punctual.enqueue(&["jobs", "x", "--retention", "1h"]);
    work(
        &punctual,
        "head -c 3000000 /dev/zero | tr '\\0' a; echo end",
        &[],
    );
    let job = punctual.one(&["jobs", "show", &loud]);
    assert_eq!(job["state"], "completed");
    let kept = text(&job["result_base64"]).len();
    assert!(
        (8_000..12_000).contains(&kept),
        "{kept} characters of base64"
    );

    let big = "x".repeat(200_000);
    punctual.write("big.jsonl", format!("{big}\n"));
    punctual
        .run(&["enqueue", "jobs", "--from", "big.jsonl", "--raw"])
        .exits(0);
    assert_eq!(work(&punctual, "true", &[])[0]["outcome"], "completed");
}

#[test]
fn a_timeout_kills_the_command_with_its_children() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["jobs", "{}", "--timeout", "300ms", "--max-attempts", "1"]);
    // A child in the background, and a shell that ignores SIGTERM: only SIGKILL to all ends them.
    let command = "trap '' TERM; sleep 600 & echo $! > child; wait; sleep 600";
    let attempts = work(&punctual, command, &["--grace", "200ms"]);
    assert_eq!(attempts[0]["outcome"], "failed");
    let job = punctual.one(&["jobs", "show", &id]);
    assert_eq!(
        (&job["state"], &job["failures"]),
        (&json!("dead"), &json!(1))
    );
    assert!(
        text(&job["last_error"]).contains("timed out after 300ms"),
        "{job}"
    );
    assert_gone(&punctual.read("child"));
}

#[test]
fn a_default_timeout_is_for_jobs_without_one() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["jobs", "{}", "--max-attempts", "1"]);
    work(&punctual, "sleep 600", &["--timeout", "200ms"]);
    let job = punctual.one(&["jobs", "show", &id]);
    assert!(
        text(&job["last_error"]).contains("timed out after 200ms"),
        "{job}"
    );
}

#[test]
fn what_a_command_leaves_running_ends_with_it() {
    let punctual = Punctual::new();
    punctual.enqueue(&["jobs", "{}"]);
    let attempts = work(&punctual, "sleep 600 & echo $! > child", &[]);
    assert_eq!(attempts[0]["outcome"], "completed");
    assert_gone(&punctual.read("child"));
}

#[test]
fn a_worker_killed_with_9_takes_its_commands_along_and_its_jobs_run_again() {
    let punctual = with_fifos();
    let id = punctual.enqueue(&["jobs", "{}"]);
    let mut worker = start(
        &punctual,
        "echo $$ > command; echo started > fifo; sleep 600",
    );
    wait_for_start(&punctual);
    worker.kill().expect("it is killed");
    worker.wait().expect("it is gone");
    assert_gone(&punctual.read("command"));
    assert_eq!(work(&punctual, "true", &[])[0]["attempt"], 2);
    punctual.run(&["jobs", "show", &id]).exits(0);
}

#[test]
fn sigterm_lets_running_jobs_end_and_a_second_one_hands_them_back() {
    let punctual = with_fifos();
    punctual.enqueue(&["jobs", "{}"]);
    let mut worker = start(
        &punctual,
        "echo started > fifo; read go < go; echo done > ended",
    );
    wait_for_start(&punctual);
    signal(&worker, Signal::TERM);
    std::fs::write(punctual.path("go"), "go\n").expect("the command reads on");
    assert!(worker.wait().expect("it ends").success());
    assert_eq!(punctual.read("ended"), "done\n");

    let id = punctual.enqueue(&["jobs", "{}"]);
    let mut worker = start(
        &punctual,
        "echo $$ > command; echo started > fifo; sleep 600",
    );
    wait_for_start(&punctual);
    signal(&worker, Signal::TERM);
    // Two signals at once would be one.
    let said = BufReader::new(worker.stderr.take().expect("a pipe"));
    let mut said = said.lines().map(|line| line.expect("text"));
    assert!(said.any(|line| line.contains("worker drains")));
    signal(&worker, Signal::TERM);
    assert!(worker.wait().expect("it ends").success());
    assert_gone(&punctual.read("command"));
    let job = punctual.one(&["jobs", "show", &id]);
    assert_eq!(
        (&job["state"], &job["failures"], &job["crashes"]),
        (&json!("ready"), &json!(0), &json!(0))
    );
}

#[test]
fn queues_come_in_order_or_by_weight() {
    let punctual = Punctual::new();
    for queue in ["low", "high"] {
        for _ in 0..3 {
            punctual.enqueue(&[queue, "{}"]);
        }
    }
    let args = [
        "work",
        "high",
        "low",
        "--exec",
        "true",
        "--until-idle",
        "--concurrency",
        "1",
    ];
    let order: Vec<String> = punctual
        .json(&args)
        .iter()
        .map(|job| text(&job["queue"]))
        .collect();
    assert_eq!(order, ["high", "high", "high", "low", "low", "low"]);

    punctual.enqueue(&["low", "{}"]);
    punctual.enqueue(&["high", "{}"]);
    let args = ["work", "high=3", "low", "--exec", "true", "--until-idle"];
    assert_eq!(punctual.json(&args).len(), 2);
    punctual
        .run(&["work", "high=much", "--exec", "true"])
        .exits(2);
    punctual.run(&["work", "--exec", "true"]).exits(2);
}

/// One with the pipes `fifo` and `go`, by which commands and tests wait for each other.
pub(crate) fn with_fifos() -> Punctual {
    let punctual = Punctual::new();
    for name in ["fifo", "go"] {
        let made = std::process::Command::new("mkfifo")
            .arg(punctual.path(name))
            .status();
        assert!(made.expect("mkfifo runs").success());
    }
    punctual
}

/// Starts a worker on queue `jobs`; its command says through `fifo` that it runs.
fn start(punctual: &Punctual, command: &str) -> Child {
    punctual
        .command(&["work", "jobs", "--exec", command, "--quiet"])
        .env("PUNCTUAL_LOG", "info")
        .stderr(Stdio::piped())
        .spawn()
        .expect("the worker starts")
}

pub(crate) fn wait_for_start(punctual: &Punctual) {
    let fifo = std::fs::File::open(punctual.path("fifo")).expect("a pipe");
    let mut line = String::new();
    BufReader::new(fifo).read_line(&mut line).expect("a line");
    assert_eq!(line, "started\n");
}

fn signal(child: &Child, signal: Signal) {
    let id = Pid::from_raw(child.id() as i32).expect("a process id");
    kill_process(id, signal).expect("it is signalled");
}

/// A killed process is gone, or about to be: its end is awaited by looking.
pub(crate) fn assert_gone(id: &str) {
    let id = Pid::from_raw(id.trim().parse().expect("a process id")).expect("not 0");
    let watch = punctual::time::Stopwatch::start();
    while test_kill_process(id).is_ok() && !is_zombie(id) {
        assert!(watch.elapsed().as_secs() < 20, "process {id:?} still runs");
        std::thread::yield_now();
    }
}

/// An orphan that no process collects is dead all the same.
fn is_zombie(id: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
    status.is_ok_and(|status| {
        status
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'))
    })
}
