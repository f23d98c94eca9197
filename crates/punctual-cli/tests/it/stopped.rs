//! An engine that stops itself ends `serve` and `work` with a status of its own.

use std::process::{Child, Command, Stdio};

use crate::support::Punctual;

/// Runs a command whose files may grow to that many KiB: then writing the log fails.
fn with_short_files(punctual: &Punctual, args: &str) -> Command {
    let binary = env!("CARGO_BIN_EXE_punctual");
    let script = format!("trap '' XFSZ; ulimit -f 1024; exec {binary} {args}");
    let mut command = Command::new("bash");
    command
        .args(["-c", &script])
        .current_dir(punctual.path("."))
        .env_remove("PUNCTUAL_ENGINE")
        .env_remove("PUNCTUAL_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Stores jobs through the process that holds the directory, until that ends. A command that asks
/// it in that moment takes its place, and succeeds.
fn enqueue_until_ended(punctual: &Punctual, child: &mut Child) {
    let payload = "x".repeat(1000);
    for round in 0..40 {
        if child.try_wait().expect("a process").is_some() {
            return;
        }
        let line =
            |nth| format!("{{\"queue\":\"mail\",\"payload\":\"{round} {nth} {payload}\"}}\n");
        punctual.write("jobs.jsonl", (0..500).map(line).collect::<String>());
        punctual.run(&["enqueue", "--from", "jobs.jsonl"]);
    }
    let _ = child.kill();
    panic!("it goes on without a log");
}

fn ends_with_seven(args: &str) {
    let punctual = Punctual::with_data();
    let mut command = with_short_files(&punctual, args);
    let mut child = command.spawn().expect("it starts");
    // Held by the child from here on: others ask it, until its log cannot grow.
    while !punctual.path("punctual-data").join("socket").exists() {
        let ended = child.try_wait().expect("a process");
        assert_eq!(ended, None, "{args} ended before it answered");
        std::thread::yield_now();
    }
    enqueue_until_ended(&punctual, &mut child);
    let ended = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(7), "{args}: {stderr}");
    assert!(stderr.contains("log could not be written"), "{stderr}");
    // The directory is whole, and opens again.
    let listed = punctual.run(&["jobs", "list", "--queue", "mail", "--limit", "1"]);
    assert_eq!(listed.code, 0, "{listed:?}");
}

#[test]
fn serve_ends_with_status_7_when_its_engine_stops() {
    ends_with_seven(
        "serve --listen 127.0.0.1:0 --no-auth --engine file:punctual-data?reserve=64KiB",
    );
}

#[test]
fn work_ends_with_status_7_when_its_engine_stops() {
    ends_with_seven("work other --exec true --engine file:punctual-data?reserve=64KiB");
}
