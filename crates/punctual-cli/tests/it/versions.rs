//! Tests of the command: records are written at the version that was read, and every blocked share
//! is shown and exported.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual::{NewJob, Queue};
use punctual_embedded::{EmbeddedEngine, Options};
use serde_json::Value;

use crate::support::{Punctual, lines};

/// A kind of record: what reads it, what writes it twice, and what removes it.
type Kind = [&'static [&'static str]; 4];

const KINDS: [Kind; 4] = [
    [
        &["queues", "limit", "mail"],
        &["queues", "limit", "mail", "--concurrency", "3"],
        &["queues", "limit", "mail", "--weight", "acme=5"],
        &["queues", "limit", "mail", "--none"],
    ],
    [
        &["limits", "show", "smtp"],
        &["limits", "set", "smtp", "--concurrency", "3"],
        &["limits", "set", "smtp", "--rate", "5/1m"],
        &["limits", "remove", "smtp"],
    ],
    [
        &["topics", "list"],
        &["topics", "subscribe", "a.>", "mail", "--name", "mailer"],
        &["topics", "subscribe", "b.>", "mail", "--name", "mailer"],
        &["topics", "unsubscribe", "mailer"],
    ],
    [
        &["schedules", "show", "beat"],
        &["schedules", "set", "beat", "--every", "1h", "mail", "{}"],
        &["schedules", "set", "beat", "--every", "2h", "mail", "{}"],
        &["schedules", "remove", "beat"],
    ],
];

#[test]
fn records_are_written_at_the_version_that_was_read() {
    let punctual = Punctual::with_data();
    for [read, one, other, remove] in KINDS {
        let at = |words: &[&str], version: &str| {
            let words = [words, &["--if-version", version]].concat();
            punctual.run(&words)
        };
        let version = || {
            let version = punctual.one(read)["version"].as_u64();
            version.expect("a version").to_string()
        };
        at(one, "7").exits(4);
        at(one, "0").exits(0);
        let first = version();
        let refused = at(other, "0").exits(4);
        assert!(refused.stderr.contains("read it again"), "{refused:?}");
        at(other, &first).exits(0);
        at(one, &first).exits(4);
        at(remove, &first).exits(4);
        at(remove, &version()).exits(0);
    }
    let nothing = punctual.run(&["queues", "limit", "mail", "--if-version", "3"]);
    assert!(nothing.exits(2).stderr.contains("name a limit"));
}

#[tokio::main(flavor = "current_thread")]
async fn block_many(punctual: &Punctual, shares: usize) {
    let path = punctual.path("punctual-data");
    let engine = Arc::new(EmbeddedEngine::open(path, Options::default()).expect("it opens"));
    let queue = Queue::new(&engine);
    let large = (0..150).map(|n| NewJob::new("mail", "{}").share(format!("large {}", n % 15)));
    queue.enqueue_many(large).await.expect("enqueued");
    let limits = queue.limits("mail");
    for n in 0..shares {
        let share = format!("small {n:03}");
        let done = match n % 2 {
            0 => limits.block_share(share, punctual::time::hours(5)).await,
            _ => limits.pause_share(share).await,
        };
        assert!(done.expect("blocked"));
    }
    engine.close().await.expect("it ends well");
}

/// The shares of the blocks in an export, and which of them are paused.
fn blocks(punctual: &Punctual, file: &str) -> BTreeSet<(String, bool)> {
    let lines = lines(&punctual.path(file));
    let blocks = lines.iter().filter_map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let block = line.get("block")?;
        let share = block["share"].as_str().expect("a share");
        Some((share.to_owned(), block.get("until").is_none()))
    });
    blocks.collect()
}

#[test]
fn an_export_has_the_blocks_of_every_share() {
    const SHARES: usize = 120;
    let punctual = Punctual::new();
    block_many(&punctual, SHARES);
    let top = punctual.run(&["queues", "top", "mail", "--limit", "10"]);
    assert!(!top.exits(0).stdout.contains("small"), "they are not large");
    let blocked = punctual.json(&["queues", "top", "mail", "--blocked"]);
    assert_eq!(blocked.len(), SHARES);
    assert_eq!(blocked[1]["share"], "small 001");
    assert_eq!(blocked[1]["until"], Value::Null, "it is paused");
    punctual.run(&["export", "all.jsonl"]).exits(0);
    let exported = blocks(&punctual, "all.jsonl");
    let expected = (0..SHARES).map(|n| (format!("small {n:03}"), n % 2 == 1));
    assert_eq!(exported, expected.collect());
    let other = ["--engine", "file:./other"];
    let import = [&["import", "all.jsonl"][..], &other].concat();
    punctual.run(&import).exits(0);
    let again = [&["export", "again.jsonl"][..], &other].concat();
    punctual.run(&again).exits(0);
    assert_eq!(blocks(&punctual, "again.jsonl"), exported);
}
