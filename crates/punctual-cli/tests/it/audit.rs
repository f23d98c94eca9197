//! Tests of the command: audit.

use serde_json::{Value, json};

use crate::serve::Server;
use crate::support::{Punctual, text};

/// `who action on phase`, the latest first.
fn reported(entries: &[Value]) -> Vec<String> {
    let words = |entry: &Value| ["who", "action", "on", "phase"].map(|field| text(&entry[field]));
    entries.iter().map(|entry| words(entry).join(" ")).collect()
}

#[test]
fn changes_in_an_unserved_directory_are_on_record() {
    let punctual = Punctual::with_data();
    let id = punctual.enqueue(&["mail", "{}", "--delay", "1h"]);
    punctual.json(&["jobs", "cancel", &id]);
    punctual.json(&["jobs", "redrive", "--queue", "mail"]);
    punctual.json(&["queues", "pause", "mail"]);
    punctual.json(&["queues", "purge", "mail"]);
    let of_job = format!("local cancel job {id} done");
    let expected = ["local pause mail done", &of_job];
    let entries = punctual.json(&["audit"]);
    assert_eq!(
        reported(&entries),
        expected,
        "dry runs and reads are not in it"
    );
    assert_eq!(entries[1]["matched"], json!(1));

    // Another process, asked by command, by address and after its end: one record.
    let server = Server::start(&punctual, &["--no-push"]);
    punctual.json(&["queues", "resume", "mail"]);
    let all = [&["local resume mail done"], &expected[..]].concat();
    assert_eq!(reported(&punctual.json(&["audit"])), all);
    let mut by_address = punctual.command(&["audit", "-o", "json", "--engine", &server.url()]);
    let token = text(&server.announced["token"]);
    let ran = by_address.env("PUNCTUAL_TOKEN", token).output();
    let ran = crate::support::Ran::from(ran.expect("it runs")).exits(0);
    assert_eq!(reported(&ran.documents()), all);
    assert_eq!(server.end(), Some(0));
    assert_eq!(reported(&punctual.json(&["audit"])), all);
}

#[test]
fn the_record_is_filtered_by_time_by_caller_and_by_action() {
    let punctual = Punctual::with_data();
    let entry = |at: &str, who: &str, namespace: &str, action: &str, phase: &str| {
        json!({"id": format!("{at}{who}"), "at": at, "who": who, "namespace": namespace,
               "action": action, "on": "mail", "phase": phase})
        .to_string()
    };
    let lines = [
        entry("2026-01-01T00:00:00Z", "ann", "default", "pause", "done"),
        entry("2026-01-02T00:00:00Z", "bob", "default", "purge", "begun"),
        entry("2026-01-03T00:00:00Z", "ann", "other", "purge", "done"),
        entry("2026-01-04T00:00:00Z", "ann", "default", "resume", "done"),
        "torn".to_owned(),
    ];
    punctual.write("record.jsonl", lines.join("\n"));
    let asked = |args: &[&str]| {
        let args = [&["audit", "--file", "record.jsonl"], args].concat();
        reported(&punctual.json(&args))
    };
    let (pause, purge) = ("ann pause mail done", "bob purge mail begun");
    let resume = "ann resume mail done";
    assert_eq!(asked(&[]), [resume, purge, pause]);
    assert_eq!(asked(&["--limit", "1"]), [resume]);
    assert_eq!(asked(&["--who", "ann"]), [resume, pause]);
    assert_eq!(asked(&["--what", "purge"]), [purge]);
    assert_eq!(asked(&["--what", "mail"]).len(), 3);
    assert_eq!(asked(&["--since", "2026-01-02T00:00:00Z"]), [resume, purge]);
    assert_eq!(asked(&["--until", "2026-01-02T00:00:00Z"]), [pause]);
    assert_eq!(asked(&["--since", "1s"]), Vec::<String>::new());
    assert_eq!(asked(&["--namespace", "other"]), ["ann purge mail done"]);
    let table = punctual.run(&["audit", "--file", "record.jsonl"]).exits(0);
    assert!(table.stdout.contains("purge"), "{table:?}");
}

#[test]
fn where_there_is_no_record_it_is_said() {
    let punctual = Punctual::new();
    punctual.run(&["audit"]).exits(3);
    punctual.run(&["audit", "--file", "none.jsonl"]).exits(3);
    let memory = punctual.run(&["audit", "--engine", "memory:"]).exits(2);
    assert!(
        memory.stderr.contains("keeps no audit record"),
        "{memory:?}"
    );
    punctual.run(&["audit", "--since", "yesterday"]).exits(2);
}
