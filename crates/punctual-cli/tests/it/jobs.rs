//! Tests of the command: jobs.

use std::collections::BTreeSet;

use punctual::time::{Stopwatch, seconds};
use serde_json::json;

use crate::support::{Punctual, Ran, text};

const ABSENT: &str = "01994f2e-8a51-7c3e-8000-000000000000";

#[test]
fn lists_find_jobs_by_queue_state_key_and_text() {
    let punctual = Punctual::new();
    let seven = punctual.enqueue(&[
        "orders",
        r#"{"order":7}"#,
        "--delay",
        "2h",
        "--unique",
        "order:7",
    ]);
    let eight = punctual.enqueue(&["orders", r#"{"order":8}"#, "--delay", "1h", "--group", "g"]);
    let mail = punctual.enqueue(&["mail", r#"{"order":7}"#]);
    let ids = |args: &[&str]| -> Vec<String> {
        let jobs = punctual.json(&[&["jobs", "list"], args].concat());
        jobs.iter().map(|job| text(&job["id"])).collect()
    };
    assert_eq!(ids(&[]).len(), 3);
    assert_eq!(ids(&["--queue", "orders"]), [&*eight, &*seven], "by due");
    assert_eq!(ids(&["--queue", "mail", "--state", "ready"]), [&*mail]);
    assert_eq!(
        ids(&["--queue", "orders", "--unique", "order:7"]),
        [&*seven]
    );
    assert_eq!(ids(&["--queue", "orders", "--group", "g"]), [&*eight]);
    assert_eq!(
        ids(&["--text", "\"order\":7", "--state", "scheduled"]),
        [seven]
    );
    assert_eq!(ids(&["--limit", "1"]).len(), 1);
    assert_eq!(ids(&["--queue", "none"]).len(), 0);
    let table = punctual
        .run(&["jobs", "list", "--queue", "orders"])
        .exits(0);
    assert!(table.stdout.starts_with("ID "), "{}", table.stdout);
    assert!(table.stdout.contains("in 1h"), "{}", table.stdout);
    punctual
        .run(&["jobs", "list", "--state", "asleep"])
        .exits(2);
}

/// Of all queues: the job that runs and the one that waits, and no other one with a limit.
#[test]
fn lists_by_a_named_limit_have_its_holder_and_its_waiters() {
    let punctual = Punctual::with_data();
    let limited = ["limits", "set", "api", "--concurrency", "1"];
    punctual.run(&limited).exits(0);
    let sent = ["orders", "mail"].map(|queue| {
        let id = punctual.enqueue(&[queue, "1", "--limit", "api", "--retention", "1h"]);
        punctual.enqueue(&[queue, "2", "--limit", "other", "--delay", "1h"]);
        id
    });
    let script = "touch running; until [ -e go ]; do :; done";
    let mut worker =
        punctual.command(&["work", "orders", "mail", "--until-idle", "--exec", script]);
    let mut worker = worker.spawn().expect("it starts");
    let list = |more: &[&str]| -> Vec<(String, String)> {
        let args = [&["jobs", "list", "--limit-name", "api"], more].concat();
        let jobs = punctual.json(&args);
        jobs.iter()
            .map(|job| (text(&job["id"]), text(&job["state"])))
            .collect()
    };
    let watch = Stopwatch::start();
    while list(&[]).len() < 2 && watch.elapsed() < seconds(60) {}
    let (listed, of_mail) = (list(&[]), list(&["--queue", "mail"]));
    // Before any assertion: else the worker would outlive this test.
    punctual.write("go", "");
    assert!(worker.wait().expect("it ends").success());
    let states: BTreeSet<&str> = listed.iter().map(|(_, state)| state.as_str()).collect();
    assert_eq!(states, BTreeSet::from(["active", "ready"]), "{listed:?}");
    let ids: BTreeSet<&String> = listed.iter().map(|(id, _)| id).collect();
    assert_eq!(ids, sent.iter().collect(), "queue by queue: {listed:?}");
    assert_eq!(of_mail.len(), 1, "{of_mail:?}");
    assert_eq!(of_mail[0].0, sent[1]);
    let with_key = ["--queue", "mail", "--group", "g"];
    let with_key = [&["jobs", "list", "--limit-name", "api"], &with_key[..]].concat();
    punctual.run(&with_key).exits(2);
    assert_eq!(list(&[]), [], "nothing holds it");
}

#[test]
fn a_list_of_no_jobs_is_wrong_usage() {
    let punctual = Punctual::new();
    punctual.enqueue(&["mail"]);
    let reported = punctual.run(&["jobs", "list", "--limit", "0"]).exits(2);
    assert!(
        reported.stderr.contains("a number from 1 on, or --all"),
        "{reported:?}"
    );
}

#[test]
fn explain_says_why_and_what_to_do() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["orders", "{}", "--delay", "1h"]);
    let reasons = punctual.one(&["jobs", "explain", &id])["reasons"].clone();
    assert_eq!(reasons[0]["reason"], "not_due");
    let ready = punctual.enqueue(&["orders", "{}", "--unique", "k"]);
    let reported = punctual
        .run(&["jobs", "explain", "--queue", "orders", "--unique", "k"])
        .exits(0);
    assert!(
        reported.stdout.contains(&ready) && reported.stdout.contains("punctual work orders"),
        "{reported:?}"
    );
    punctual.run(&["queues", "pause", "orders"]).exits(0);
    let reported = punctual.run(&["jobs", "explain", &ready]).exits(0);
    assert!(
        reported.stdout.contains("punctual queues resume orders"),
        "{reported:?}"
    );
}

#[test]
fn a_job_that_does_not_exist_exits_with_3() {
    let punctual = Punctual::with_data();
    for command in ["show", "explain", "cancel", "redrive", "run-now", "delete"] {
        let ran = punctual.run(&["jobs", command, ABSENT]).exits(3);
        assert!((ran.stdout + &ran.stderr).contains(ABSENT), "{command}");
    }
    punctual.run(&["jobs", "show", "seven"]).exits(2);
    punctual.run(&["jobs", "show"]).exits(2);
}

#[test]
fn the_end_of_an_id_names_its_job() {
    let punctual = Punctual::new();
    let one = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";
    let twin = "01994f2e-8a51-7c3e-8000-aaaa4c1d2b7a";
    for id in [one, twin, "01994f2e-8a51-7c3e-8000-3f0f00000000"] {
        punctual.enqueue(&["mail", "{}", "--delay", "1h", "--id", id]);
    }
    let shown = punctual.one(&["jobs", "show", "3f0f4c1d2b7a"]);
    assert_eq!(shown["id"], one);
    let explained = punctual.one(&["jobs", "explain", "8000-AAAA4C1D2B7A"]);
    assert_eq!(explained["id"], twin);
    let ran = punctual.run(&["jobs", "cancel", "4c1d2b7a"]).exits(2);
    assert!(ran.stderr.contains("2 jobs have an id"), "{ran:?}");
    assert!(
        ran.stderr.contains(one) && ran.stderr.contains(twin),
        "{ran:?}"
    );
    let ran = punctual.run(&["jobs", "show", "12345678"]).exits(3);
    assert!(ran.stderr.contains("ends in 12345678"), "{ran:?}");
    punctual.run(&["jobs", "show", "1d2b7a"]).exits(2);
    punctual
        .run(&["jobs", "cancel", "00000000", "3f0f4c1d2b7a"])
        .exits(0);
    assert_eq!(
        [one, twin].map(|id| punctual.state(id)),
        ["cancelled", "scheduled"]
    );
}

#[test]
fn at_80_columns_no_id_queue_or_header_is_broken() {
    let punctual = Punctual::new();
    let queue = "notifications.of.orders.in.europe/west";
    let ids = [
        "{}",
        r#"{"a":"long payload that does not fit beside the rest"}"#,
    ]
    .map(|payload| {
        punctual.enqueue(&[queue, payload, "--kind", "orders.remind", "--delay", "90d"])
    });
    punctual.enqueue(&["mail", "{}", "--delay", "1h"]);
    for columns in ["40", "80", "100", "140"] {
        let at = |args: &[&str]| {
            let mut command = punctual.command(args);
            let output = command.env("COLUMNS", columns).output().expect("it runs");
            crate::support::Ran::from(output).exits(0).stdout
        };
        let jobs = at(&["jobs", "list"]);
        for word in [
            &*ids[0],
            &ids[1],
            queue,
            "orders.remind",
            "scheduled",
            "QUEUE",
            "STATE",
        ] {
            assert!(jobs.contains(word), "{word} at {columns}: {jobs}");
        }
        let queues = at(&["queues", "list"]);
        for word in [queue, "SCHEDULED"] {
            assert!(queues.contains(word), "{word} at {columns}: {queues}");
        }
        let verdicts = at(&["jobs", "cancel", &ids[0], &ids[1], "--dry-run"]);
        assert!(verdicts.contains("done: cancelled"), "{verdicts}");
        let widest = [jobs, queues, verdicts].concat();
        let widest = widest.lines().map(|line| line.chars().count()).max();
        assert!(widest <= columns.parse().ok(), "{widest:?} at {columns}");
    }
}

#[test]
fn explain_of_a_dead_job_gives_its_cause() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["mail", "{}", "--max-attempts", "1"]);
    let work = [
        "work",
        "mail",
        "--exec",
        "echo no such customer; exit 1",
        "--until-idle",
    ];
    punctual.run(&work).exits(0);
    let reason = punctual.one(&["jobs", "explain", &id])["reasons"][0].clone();
    assert_eq!(
        (&reason["reason"], &reason["why"]),
        (&json!("dead"), &json!("exhausted"))
    );
    assert!(
        text(&reason["error"]).contains("no such customer"),
        "{reason}"
    );
    let reported = punctual.run(&["jobs", "explain", &id]).exits(0).stdout;
    for words in ["max_attempts", "no such customer", "punctual jobs redrive"] {
        assert!(reported.contains(words), "{reported}");
    }
}

#[test]
fn jobs_are_changed_by_id_and_by_unique_key() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["orders", "{}", "--delay", "1h", "--unique", "order:7"]);
    punctual
        .run(&["jobs", "reschedule", &id, "--delay", "2d"])
        .exits(0);
    assert_eq!(punctual.state(&id), "scheduled");
    punctual.run(&["jobs", "redrive", &id]).exits(4);
    punctual.run(&["jobs", "run-now", &id]).exits(0);
    assert_eq!(
        punctual.state(&id),
        "ready",
        "a waiting job is made to run now"
    );

    let by_key = ["jobs", "cancel", "--queue", "orders", "--unique", "order:7"];
    let dry = punctual.one(&[&by_key[..], &["--dry-run"]].concat());
    assert_eq!(
        (&dry["verdict"], &dry["dry_run"]),
        (&json!("done"), &json!(true))
    );
    assert_eq!(punctual.state(&id), "ready");
    punctual.run(&by_key).exits(0);
    assert_eq!(punctual.state(&id), "cancelled");
    punctual.run(&["jobs", "cancel", &id]).exits(0);
    punctual.run(&["jobs", "run-now", &id]).exits(4);
    punctual.run(&["jobs", "delete", &id]).exits(0);
    punctual.run(&["jobs", "show", &id]).exits(3);
}

#[test]
fn jobs_that_a_filter_finds_are_changed_only_with_yes() {
    let punctual = Punctual::new();
    for n in 0..3 {
        punctual.enqueue(&[
            "orders",
            "{}",
            "--delay",
            "1h",
            "--kind",
            &format!("kind{}", n % 2),
        ]);
    }
    let cancel = ["jobs", "cancel", "--queue", "orders", "--kind", "kind0"];
    let dry = punctual.one(&cancel);
    assert_eq!(
        (&dry["dry_run"], &dry["changed"]),
        (&json!(true), &json!(2))
    );
    assert_eq!(
        punctual
            .json(&["jobs", "list", "--state", "cancelled"])
            .len(),
        0
    );
    let reported = punctual.run(&cancel).exits(0);
    assert!(reported.stderr.contains("--yes"), "{reported:?}");
    punctual.run(&[&cancel[..], &["--yes"]].concat()).exits(0);
    assert_eq!(
        punctual
            .json(&["jobs", "list", "--state", "cancelled"])
            .len(),
        2
    );
    assert_eq!(
        punctual
            .json(&["jobs", "list", "--state", "scheduled"])
            .len(),
        1
    );
    // Without any filter it would be every job of every queue.
    punctual.run(&["jobs", "cancel", "--yes"]).exits(2);
}

#[test]
fn dead_jobs_are_sent_back_together() {
    let punctual = Punctual::new();
    for _ in 0..3 {
        punctual.enqueue(&["mail", "{}", "--max-attempts", "1"]);
    }
    punctual
        .run(&["work", "mail", "--exec", "exit 1", "--until-idle"])
        .exits(0);
    let dead = ["jobs", "list", "--queue", "mail", "--state", "dead"];
    assert_eq!(punctual.json(&dead).len(), 3);
    punctual
        .run(&["jobs", "redrive", "--queue", "mail", "--yes"])
        .exits(0);
    assert_eq!(punctual.json(&dead).len(), 0);
    assert_eq!(
        punctual.json(&["jobs", "list", "--state", "ready"]).len(),
        3
    );
}

#[test]
fn dead_jobs_are_shown_in_groups_of_kind_and_error() {
    let punctual = Punctual::new();
    punctual.run(&["jobs", "dead"]).exits(3);
    for n in 0..3 {
        punctual.enqueue(&["mail", &n.to_string(), "--max-attempts", "1"]);
    }
    punctual.enqueue(&["orders", "7", "--kind", "pay", "--max-attempts", "1"]);
    let none = punctual.run(&["jobs", "dead"]).exits(0);
    assert!(none.stderr.contains("no dead letters"), "{none:?}");
    let fail = "read n; echo timeout after $n ms; exit 1";
    let work = ["work", "mail", "orders", "--exec", fail, "--until-idle"];
    punctual.run(&work).exits(0);

    let groups = punctual.json(&["jobs", "dead"]);
    assert_eq!(groups.len(), 2, "{groups:?}");
    let of = |name: &str| groups.iter().map(|group| text(&group[name])).collect();
    let (queues, kinds): (Vec<_>, Vec<_>) = (of("queue"), of("kind"));
    assert_eq!(
        (queues, kinds),
        (
            vec!["mail".into(), "orders".into()],
            vec!["mail".into(), "pay".to_owned()]
        )
    );
    assert_eq!(
        (&groups[0]["jobs"], &groups[1]["jobs"]),
        (&json!(3), &json!(1))
    );
    assert!(
        text(&groups[0]["error"]).contains("timeout after # ms"),
        "{groups:?}"
    );
    let search = text(&groups[0]["search"]);
    let found = [
        "jobs", "list", "--queue", "mail", "--state", "dead", "--error", &search,
    ];
    assert_eq!(punctual.json(&found).len(), 3, "{search}");
    assert_eq!(punctual.state(&text(&groups[0]["example"])), "dead");

    for (args, left) in [
        (&["--queue", "orders"][..], 1),
        (&["--kind", "pay"], 1),
        (&["--error", "timeout"], 2),
        (&["--error", "no such text"], 0),
        (&["--limit", "1"], 1),
    ] {
        let narrowed = punctual.json(&[&["jobs", "dead"], args].concat());
        assert_eq!(narrowed.len(), left, "{args:?}");
    }
    let shown = punctual.run(&["jobs", "dead", "--limit", "1"]).exits(0);
    assert!(
        shown.stdout.contains("mail") && shown.stdout.contains('3'),
        "{shown:?}"
    );
    assert!(shown.stderr.contains("1 more groups"), "{shown:?}");
    punctual.run(&["jobs", "dead", "--limit", "0"]).exits(2);

    // At 80 columns the error is whole, and the example names a job.
    let mut command = punctual.command(&["jobs", "dead"]);
    let narrow = command.env("COLUMNS", "80").output().expect("it runs");
    let narrow = Ran::from(narrow).exits(0).stdout;
    let line = narrow.lines().find(|line| line.contains("mail"));
    let line = line.expect("a line of the group");
    assert!(line.contains("timeout after # ms"), "{narrow}");
    let end = line.split_whitespace().last().expect("an example");
    assert_eq!(end.len(), 8, "{narrow}");
    let example = text(&punctual.one(&["jobs", "show", end])["id"]);
    assert_eq!(example, text(&groups[0]["example"]));
}
