//! Unit tests of `waits`.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;

use punctual::time::millis;

use super::{FILE, Waits};
use crate::call_log::{self, History};
use crate::event::Event;

fn waits(folder: &tempfile::TempDir) -> Arc<Waits> {
    let history = History::create(folder.path(), "nemesis").expect("the disk takes a file");
    Arc::new(Waits::new(folder.path().into(), Arc::new(history)))
}

#[tokio::test]
async fn a_wait_that_runs_out_says_for_what_and_what_processes_were_at() {
    let folder = tempfile::tempdir().expect("a directory");
    let waits = waits(&folder);
    let child = Command::new("cat").stdin(Stdio::piped()).spawn();
    let mut child = child.expect("the system has cat");
    let never = std::future::pending::<()>();
    let listens = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listens.local_addr().expect("it is bound").port();
    let came = waits.on(millis(20), "worker-1 to end", never).await;
    child.kill().expect("it runs");
    child.wait().expect("it ran");
    assert_eq!(came, None);
    let text = fs::read_to_string(folder.path().join(FILE)).expect("an account");
    assert!(
        text.starts_with("# worker-1 to end: not within 0 s"),
        "{text}"
    );
    assert!(
        text.contains(&format!("process {}: cat", child.id())),
        "{text}"
    );
    assert!(
        text.contains(&format!("tcp {port} -> 0: state 0A")),
        "{text}"
    );
    let accounts = call_log::read(folder.path()).expect("a history");
    let stuck = |event: &Event| matches!(event, Event::Stuck { what } if what.contains("worker-1"));
    assert!(accounts[0].lines.iter().any(|line| stuck(&line.event)));
}

#[tokio::test]
async fn a_wait_for_what_comes_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a directory");
    let waits = waits(&folder);
    let came = waits.on(millis(10_000), "nothing", async { 7 }).await;
    assert_eq!(came, Some(7));
    assert!(!folder.path().join(FILE).exists());
}
