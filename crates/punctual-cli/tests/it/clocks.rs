//! Workers and producers whose own wall clock is a day ahead or behind: the engine's counts, and no
//! other.

use std::process::Command;

use punctual::time::{Clock, Stopwatch, SystemClock, Timestamp, hours, millis, seconds};
use punctual_redis::testing::TestServer;
use punctual_syncspy::SyncSpy;
use serde_json::Value;

use crate::serve::Server;
use crate::shared::Running;
use crate::support::{Punctual, Ran, text};

const DAY_MICROS: i64 = 86_400_000_000;

/// Fails once; then shows what its clock says, and goes on until it is let.
const EXEC: &str = "[ $PUNCTUAL_ATTEMPT = 1 ] && exit 1; date +%s > said && mv said clock; cat go";

const JOB: [&str; 11] = [
    "enqueue",
    "mail",
    "{}",
    "--delay",
    "1200ms",
    "--retry",
    "fixed:1200ms",
    "--retention",
    "1h",
    "-o",
    "json",
];

#[test]
fn a_worker_whose_clock_is_a_day_off_works_by_the_clock_of_redis() {
    for off in [DAY_MICROS, -DAY_MICROS] {
        let server = TestServer::start();
        works_by_the_engines_clock(&Punctual::new(), &server.address(), off);
    }
}

#[test]
fn a_worker_with_a_wrong_clock_uses_the_clock_of_the_directory() {
    for off in [DAY_MICROS, -DAY_MICROS] {
        let punctual = Punctual::new();
        let _holds = Server::start(&punctual, &["--engine", "file:data"]);
        works_by_the_engines_clock(&punctual, "file:data", off);
    }
}

fn works_by_the_engines_clock(punctual: &Punctual, engine: &str, off: i64) {
    std::fs::create_dir(punctual.path("watched")).expect("a directory");
    let spy = SyncSpy::new(punctual.path("spy"), punctual.path("watched")).expect("a spy");
    spy.shift_clock(off).expect("it was just made");
    let fifo = Command::new("mkfifo").arg(punctual.path("go")).status();
    assert!(fifo.expect("mkfifo is everywhere").success());

    let args = [
        "work",
        "mail",
        "--lease-duration",
        "1s",
        "-o",
        "json",
        "--exec",
        EXEC,
    ];
    let mut command = punctual.command(&on(engine, &args));
    spy.arm(&mut command).expect("it is built");
    let mut worker = Running::of(command);

    let watch = Stopwatch::start();
    let mut producer = punctual.command(&on(engine, &JOB));
    let sent = spy.arm(&mut producer).expect("it is built").output();
    let sent = Ran::from(sent.expect("it runs")).documents();
    let id = text(&sent[0]["id"]);
    let show = || punctual.one(&on(engine, &["jobs", "show", &id]));
    let due = at(&show(), "due");
    let ours = Clock::now(&SystemClock);
    assert!(off_by(due, ours) < seconds(30), "due by the engine's clock");

    assert!(worker.line().contains("failed"));
    assert!(
        watch.elapsed() >= millis(1_190),
        "early: {:?}",
        watch.elapsed()
    );
    let first = show()["attempts"][0].clone();
    on_time(due, at(&first, "started_at"));

    while !punctual.path("clock").exists() {
        std::thread::yield_now();
    }
    assert!(
        watch.elapsed() >= millis(2_380),
        "early: {:?}",
        watch.elapsed()
    );
    let theirs: u64 = punctual.read("clock").trim().parse().expect("seconds");
    let theirs = Timestamp::ZERO + seconds(theirs);
    assert!(off_by(theirs, ours) > hours(23), "its clock is wrong");

    // Two leases later it is still its job.
    let running = show();
    on_time(at(&running, "due"), at(&running, "started_at"));
    let until = at(&running, "lease_until") + seconds(2);
    while at(&show(), "lease_until") < until {
        std::thread::yield_now();
    }
    std::fs::write(punctual.path("go"), "").expect("it reads");
    assert!(worker.line().contains("completed"));
    let done = show();
    let counted = ["state", "attempt", "failures", "crashes"].map(|field| done[field].to_string());
    assert_eq!(counted, ["\"completed\"", "2", "1", "0"], "{done}");
    let _ = worker.child.kill();
}

fn on<'a>(engine: &'a str, args: &[&'a str]) -> Vec<&'a str> {
    [args, &["--engine", engine]].concat()
}

fn at(of: &Value, field: &str) -> Timestamp {
    let instant = text(&of[field]).parse();
    instant.unwrap_or_else(|error| panic!("{field}: {error}: {of}"))
}

fn off_by(one: Timestamp, other: Timestamp) -> std::time::Duration {
    one.since(other).max(other.since(one))
}

fn on_time(due: Timestamp, started: Timestamp) {
    assert!(started >= due, "early: {started} before {due}");
    assert!(
        started.since(due) < seconds(5),
        "late: {started}, due {due}"
    );
}
