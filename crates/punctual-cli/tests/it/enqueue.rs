use serde_json::json;

use crate::support::{Punctual, text};

#[test]
fn a_job_is_kept_with_every_option() {
    let punctual = Punctual::new();
    let id = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";
    let receipt = punctual.one(&[
        "enqueue",
        "mail",
        r#"{"to": "ann"}"#,
        "--id",
        id,
        "--kind",
        "mail.send",
        "--delay",
        "30m",
        "--priority",
        "3",
        "--unique",
        "mail:7",
        "--unique-policy",
        "after",
        "--unique-hold",
        "1h",
        "--group",
        "ann",
        "--group-on-retry",
        "pass",
        "--attempts",
        "4",
        "--retry",
        "list:1s,10s",
        "--timeout",
        "90s",
        "--retention",
        "1d",
        "--header",
        "trace=42",
        "--expires",
        "2h",
    ]);
    assert_eq!(
        (&receipt["id"], &receipt["verdict"]),
        (&json!(id), &json!("created"))
    );
    assert_eq!(receipt["durability"], "fsync");
    let job = punctual.one(&["jobs", "show", id]);
    for (field, value) in [
        ("queue", json!("mail")),
        ("kind", json!("mail.send")),
        ("payload", json!({"to": "ann"})),
        ("content_type", json!("application/json")),
        ("headers", json!({"trace": "42"})),
        ("priority", json!(3)),
        (
            "unique",
            json!({"key": "mail:7", "policy": "after", "hold": "1h"}),
        ),
        ("group", json!({"key": "ann", "on_retry": "pass"})),
        ("max_attempts", json!(4)),
        ("retry", json!({"policy": "list", "spans": ["1s", "10s"]})),
        ("timeout", json!("90s")),
        ("retention", json!("1d")),
        ("state", json!("scheduled")),
    ] {
        assert_eq!(job[field], value, "{field}");
    }
    assert_eq!(job["due"], receipt["due"]);
}

#[test]
fn a_payload_is_taken_from_standard_input_and_named_by_its_looks() {
    let punctual = Punctual::new();
    for (payload, content_type) in [
        (&b"{\"a\":1}"[..], "application/json"),
        (b"hello", "text/plain"),
        (b"\xff\x00", "application/octet-stream"),
    ] {
        let args = ["enqueue", "mail", "-", "--delay", "1h", "-o", "json"];
        let ran = punctual.run_with_input(&args, payload).exits(0);
        let job = punctual.one(&["jobs", "show", &text(&ran.documents()[0]["id"])]);
        assert_eq!(job["content_type"], content_type);
    }
}

#[test]
fn verdicts_are_told_and_refusals_exit_with_4() {
    let punctual = Punctual::new();
    let unique = ["mail", "{}", "--delay", "1h", "--unique", "k"];
    let first = punctual.enqueue(&unique);
    let merged = punctual.one(&[&["enqueue"], &unique[..]].concat());
    assert_eq!(
        (&merged["verdict"], &merged["holder"]),
        (&json!("merged"), &json!(first))
    );

    let same = ["enqueue", "mail", "{}", "--id", &first, "-o", "json"];
    assert_eq!(
        punctual.run(&same).exits(0).documents()[0]["verdict"],
        "duplicate"
    );
    let other = ["enqueue", "mail", "[]", "--id", &first, "-o", "json"];
    let ran = punctual.run(&other).exits(4);
    assert_eq!(ran.documents()[0]["verdict"], "id_conflict");

    let late = punctual.one(&["enqueue", "mail", "{}", "--at", "2001-01-01T00:00:00Z"]);
    assert_eq!(late["late"], true);
}

#[test]
fn what_cannot_be_a_job_is_wrong_usage() {
    let punctual = Punctual::with_data();
    let long_name = "q".repeat(129);
    for args in [
        &["", "{}"][..],
        &["{mail}", "{}"],
        &["ma\nil", "{}"],
        &[&long_name, "{}"],
        &["mail", "{}", "--kind", "a b"],
        &["mail", "{}", "--delay", "-5m"],
        &["mail", "{}", "--delay", "99999999d"],
        &["mail", "{}", "--delay", "5"],
        &["mail", "{}", "--at", "10000-01-01T00:00:00Z"],
        &["mail", "{}", "--at", "tomorrow"],
        &[
            "mail",
            "{}",
            "--delay",
            "5m",
            "--at",
            "2030-01-01T00:00:00Z",
        ],
        &["mail", "{}", "--priority", "10"],
        &["mail", "{}", "--attempts", "0"],
        &["mail", "{}", "--unique", ""],
        &["mail", "{}", "--header", "no-value"],
        &["mail", "{}", "--retry", "sometimes"],
        &["mail", "{}", "--expires", "soon"],
        &["mail", "{}", "--id", "7"],
        &["mail", "{}", "--unique-policy", "keep"],
    ] {
        let ran = punctual
            .run(&[&["enqueue"], args, &["-o", "json"]].concat())
            .exits(2);
        assert!(ran.error()["message"].is_string(), "{args:?}: {ran:?}");
    }
    let args = ["enqueue", "mail", "-", "-o", "json"];
    let ran = punctual
        .run_with_input(&args, &vec![b'x'; (256 << 10) + 1])
        .exits(2);
    assert_eq!(ran.error()["code"], "payload_too_large");
    assert_eq!(
        punctual.json(&["queues", "list"]).len(),
        0,
        "nothing was stored"
    );
}

#[test]
fn a_file_sent_twice_sends_nothing_twice() {
    let punctual = Punctual::new();
    let lines: String = (0..2_500)
        .map(|n| format!("{{\"payload\":{n},\"delay\":\"1h\"}}\n"))
        .collect();
    punctual.write("jobs.jsonl", &lines);
    let send = ["enqueue", "mail", "--from", "jobs.jsonl"];
    let first = punctual.one(&send);
    assert_eq!(
        (&first["sent"], &first["created"]),
        (&json!(2_500), &json!(2_500))
    );
    let second = punctual.one(&send);
    assert_eq!(
        (&second["created"], &second["duplicate"]),
        (&json!(0), &json!(2_500))
    );
    let again = punctual.one(&[&send[..], &["--again"]].concat());
    assert_eq!(again["created"], 2_500);
    // Another file with the same lines in it is other jobs.
    punctual.write("more.jsonl", lines + "{\"delay\":\"1h\"}\n");
    let more = punctual.one(&["enqueue", "mail", "--from", "more.jsonl"]);
    assert_eq!(more["created"], 2_501);
}

#[test]
fn a_bad_line_is_named_and_nothing_is_sent_unless_it_is_skipped() {
    let punctual = Punctual::with_data();
    let good = r#"{"queue":"mail","payload":1,"delay":"1h"}"#;
    let bad = r#"{"queue":"mail","dealy":"1h"}"#;
    let hostile = r#"{"queue":"ma il"}"#;
    let queueless = r#"{"payload":1}"#;
    let torn = r#"{"queue":"mail","payl"#;
    punctual.write(
        "bad.jsonl",
        format!("{good}\n\n{bad}\n{hostile}\n{queueless}\n{good}\n{torn}"),
    );
    let send = ["enqueue", "--from", "bad.jsonl", "-o", "json"];
    let error = punctual.run(&send).exits(2).error();
    let named: Vec<u64> = error["lines"]
        .as_array()
        .expect("lines")
        .iter()
        .filter_map(|line| line["line"].as_u64())
        .collect();
    assert_eq!(named, [3, 4, 5, 7]);
    assert!(text(&error["lines"][0]["message"]).contains("dealy"));
    assert!(text(&error["lines"][3]["message"]).starts_with("torn: "));
    assert_eq!(punctual.json(&["queues", "list"]).len(), 0);

    let told = punctual.run(&["enqueue", "--from", "bad.jsonl"]).exits(2);
    assert!(
        told.stderr.contains("line 3: unknown field `dealy`"),
        "{told:?}"
    );

    let sent = punctual.one(&["enqueue", "--from", "bad.jsonl", "--skip-bad"]);
    assert_eq!((&sent["created"], &sent["bad"]), (&json!(2), &json!(4)));
}

#[test]
fn a_last_line_without_a_line_feed_is_sent() {
    let punctual = Punctual::new();
    punctual.write("jobs.jsonl", "{\"delay\":\"1h\"}\n{\"delay\":\"2h\"}");
    let sent = punctual.one(&["enqueue", "mail", "--from", "jobs.jsonl"]);
    assert_eq!(sent["created"], 2);
}

#[test]
fn lines_come_from_standard_input_and_raw() {
    let punctual = Punctual::new();
    let args = [
        "enqueue", "mail", "--from", "-", "--raw", "--delay", "1h", "-o", "json",
    ];
    let ran = punctual
        .run_with_input(&args, b"{\"order\":7}\nhello\n")
        .exits(0);
    assert_eq!(ran.documents()[0]["created"], 2);
    let mut types: Vec<String> = punctual
        .json(&["jobs", "list"])
        .iter()
        .map(|job| text(&job["content_type"]))
        .collect();
    types.sort();
    assert_eq!(types, ["application/json", "text/plain"]);
}

#[test]
fn refused_lines_are_named_in_the_summary() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["mail", "1", "--delay", "1h"]);
    punctual.write(
        "jobs.jsonl",
        format!("{{\"delay\":\"1h\"}}\n{{\"id\":\"{id}\",\"payload\":2}}\n"),
    );
    let ran = punctual
        .run(&["enqueue", "mail", "--from", "jobs.jsonl", "-o", "json"])
        .exits(4);
    let summary = &ran.documents()[0];
    assert_eq!(
        (&summary["created"], &summary["id_conflict"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        summary["refused"],
        json!([{"line": 2, "id": id, "verdict": "id_conflict"}])
    );
}

#[test]
fn a_file_that_is_not_there_is_not_found() {
    let punctual = Punctual::new();
    let ran = punctual
        .run(&["enqueue", "mail", "--from", "none.jsonl"])
        .exits(3);
    assert!(ran.stderr.contains("none.jsonl"), "{ran:?}");
}

#[test]
fn a_job_that_expires_before_it_is_due_is_warned_of() {
    let punctual = Punctual::new();
    let sends = |args: &[&str]| {
        let ran = punctual.run(&[&["enqueue", "mail", "{}"], args].concat());
        ran.exits(0).stderr
    };
    assert!(sends(&["--delay", "1h", "--expires", "30m"]).contains("expires before"));
    assert!(sends(&["--expires", "2020-01-01T00:00:00Z"]).contains("expires before"));
    assert_eq!(sends(&["--delay", "30m", "--expires", "1h"]), "");
}
