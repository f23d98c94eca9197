//! Tests of the command: top.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::serve::Server;
use crate::support::Punctual;

#[test]
fn top_shows_queues_and_workers_once() {
    let punctual = Punctual::new();
    // The minutes are kept by the process that holds the directory.
    let server = Server::start(&punctual, &[]);
    punctual.enqueue(&["orders", "{}", "--delay", "1h"]);
    punctual.enqueue(&["mail", "{}"]);
    let work = ["work", "mail", "--exec", "true", "--until-idle"];
    punctual.run(&work).exits(0);
    let shown = punctual.one(&["top", "--once"]);
    let queue = |name: &str| {
        let queues = shown["queues"].as_array().expect("queues").iter();
        let mut named = queues.filter(|queue| queue["queue"] == name);
        named.next().expect("it is there").clone()
    };
    assert_eq!(queue("orders")["scheduled"], 1);
    assert_eq!(queue("mail")["completed_per_minute"], 1);
    assert!(queue("mail")["lateness_p99_us"].is_u64(), "{shown}");
    assert_eq!(shown["durability"], json!("fsync"));
    let mut command = punctual.command(&["top"]);
    let output = command.env("COLUMNS", "80").output().expect("it runs");
    let table = crate::support::Ran::from(output).exits(0).stdout;
    for word in ["QUEUE", "SCHED", "LATE P99", "orders", "mail", "fsync"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let widest = table.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{table}");
    assert_eq!(
        punctual.one(&["top", "mail", "--once"])["queues"][0]["queue"],
        "mail"
    );
    assert_eq!(shown["workers"][0]["queues"], json!(["mail"]));
    punctual.run(&["top", "--every", "1ms"]).exits(2);
    assert_eq!(server.end(), Some(0));
}

#[test]
fn top_refreshes_until_it_is_ended() {
    let punctual = Punctual::with_data();
    punctual.enqueue(&["mail", "{}"]);
    let mut child = punctual
        .command(&["top", "--every", "100ms", "-o", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for line in lines.take(3) {
        let shown: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        assert_eq!(shown["queues"][0]["ready"], 1);
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}
