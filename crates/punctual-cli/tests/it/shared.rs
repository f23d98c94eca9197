//! Two shells and one directory: the holder answers the other.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::Punctual;

/// A command that goes on until it is ended, and what it says first.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Running {
    fn start(punctual: &Punctual, args: &[&str]) -> Self {
        Self::of(punctual.command(args))
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let stdout = child.stdout.take().expect("a pipe");
        Self {
            child,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// `punctual serve`, once it can be asked.
    fn serve(punctual: &Punctual) -> Self {
        let mut serve = Self::start(
            punctual,
            &["serve", "--listen", "127.0.0.1:0", "-o", "json"],
        );
        assert!(serve.line().contains("\"url\""));
        serve
    }

    /// `punctual work`, once it has the first of these jobs behind it.
    fn work(punctual: &Punctual) -> Self {
        let args = [
            "work",
            "mail",
            "--exec",
            "true",
            "--lease-duration",
            "1s",
            "-o",
            "json",
        ];
        let mut work = Self::start(punctual, &args);
        let id = punctual.enqueue(&["mail", "{\"first\":true}"]);
        work.until_completed(&id);
        work
    }

    pub(crate) fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("text")
    }

    fn until_completed(&mut self, id: &str) {
        loop {
            let line = self.line();
            let reported: Value = serde_json::from_str(&line).unwrap_or_default();
            if reported["id"] == id && reported["outcome"] == "completed" {
                return;
            }
        }
    }

    /// Ends it by SIGTERM; its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends").code()
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is gone");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already, in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_second_shell_works_on_a_directory_that_is_served() {
    let punctual = Punctual::new();
    let serve = Running::serve(&punctual);
    let id = punctual.enqueue(&["mail", "{}"]);
    assert_eq!(punctual.state(&id), "ready");
    punctual
        .run(&["work", "mail", "--exec", "true", "--until-idle"])
        .exits(0);
    assert_eq!(punctual.state(&id), "completed");
    punctual.run(&["doctor"]).exits(0);
    let later = punctual.enqueue(&["mail", "{}", "--delay", "1h"]);
    punctual.run(&["jobs", "cancel", &later]).exits(0);
    assert_eq!(serve.end(), Some(0));
    assert!(!punctual.path("punctual-data/socket").exists());
    assert_eq!(punctual.state(&later), "cancelled");
}

#[test]
fn a_second_shell_puts_jobs_in_while_a_worker_holds_the_directory() {
    let punctual = Punctual::with_data();
    let mut work = Running::work(&punctual);
    let id = punctual.enqueue(&["mail", "{}"]);
    work.until_completed(&id);
    let listed = punctual.one(&["queues", "list"]);
    assert_eq!(listed["queue"], "mail");
    assert_eq!(work.end(), Some(0));
}

#[test]
fn a_worker_takes_over_from_a_server_that_was_killed() {
    let punctual = Punctual::new();
    let serve = Running::serve(&punctual);
    let mut work = Running::work(&punctual);
    serve.kill();
    let id = punctual.enqueue(&["mail", "{}"]);
    work.until_completed(&id);
    // It is the holder now, and answers a server that comes back.
    let back = Running::serve(&punctual);
    let id = punctual.enqueue(&["mail", "{}"]);
    work.until_completed(&id);
    assert_eq!(work.end(), Some(0));
    let id = punctual.enqueue(&["mail", "{}"]);
    assert_eq!(punctual.state(&id), "ready");
    assert_eq!(back.end(), Some(0));
}

#[test]
fn what_a_killed_holder_leaves_behind_stops_no_other() {
    let punctual = Punctual::new();
    Running::serve(&punctual).kill();
    assert!(punctual.path("punctual-data/socket").exists());
    punctual.run(&["queues", "list"]).exits(0);
    let again = Running::serve(&punctual);
    punctual.enqueue(&["mail", "{}"]);
    assert_eq!(again.end(), Some(0));
}

#[test]
fn a_path_too_long_for_sockets_is_no_obstacle() {
    let punctual = Punctual::new();
    let deep = format!("{}/{}", "a".repeat(100), "b".repeat(100));
    std::fs::create_dir_all(punctual.path(&deep)).expect("directories");
    let engine = format!("file:{deep}/data");
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "-o",
        "json",
        "--engine",
        &engine,
    ];
    let mut serve = Running::start(&punctual, &args);
    serve.line();
    punctual
        .run(&["enqueue", "mail", "{}", "--engine", &engine])
        .exits(0);
    assert_eq!(serve.end(), Some(0));
}

#[test]
fn a_holder_that_does_not_answer_is_named() {
    let punctual = Punctual::with_data();
    // A command that shares nothing: the bench is alone with its engine.
    let lock = punctual.path("punctual-data/lock");
    let held = std::fs::File::options()
        .write(true)
        .open(lock)
        .expect("the lock");
    held.try_lock().expect("no other process has it");
    let refused = punctual.run(&["queues", "list", "-o", "json"]).exits(5);
    assert_eq!(refused.error()["code"], "data_locked", "{refused:?}");
}
