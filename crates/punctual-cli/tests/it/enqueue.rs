//! Tests of the command: enqueue.

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
        "--max-attempts",
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
fn a_payload_from_standard_input_is_named_by_its_form() {
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
fn verdicts_are_printed_and_refusals_exit_with_4() {
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
        &["mail", "{}", "--max-attempts", "0"],
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
    // The second one is over the limit of a whole call, too.
    for bytes in [(256 << 10) + 1, 26 << 20] {
        let ran = punctual.run_with_input(&args, &vec![b'x'; bytes]).exits(2);
        let error = ran.error();
        assert_eq!(error["code"], "payload_too_large");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains("limit: 262144"), "{error}");
    }
    let reported = punctual.run(&["enqueue", "mail", "--priority", "-1"]);
    assert!(reported.exits(2).stderr.contains("0, which runs first"));
    assert_eq!(
        punctual.json(&["queues", "list"]).len(),
        0,
        "nothing was stored"
    );
}

#[test]
fn a_held_job_is_shown_as_held() {
    let punctual = Punctual::new();
    let held = ["enqueue", "mail", "--wait-for", "stock"];
    let reported = punctual.run(&held).exits(0).stdout;
    assert!(
        reported.ends_with(", held until stock is cleared\n"),
        "{reported}"
    );
    let more = ["--wait-for", "money", "--delay", "1h"];
    let reported = punctual.run(&[&held[..], &more].concat()).exits(0).stdout;
    assert!(
        reported.contains("held until stock and money are cleared, then due "),
        "{reported}"
    );
}

#[test]
fn a_job_after_one_that_has_ended_is_shown_as_it_stands() {
    let punctual = Punctual::new();
    let first = punctual.enqueue(&["mail", "{}"]);
    let done = ["work", "mail", "--exec", "true", "--until-idle"];
    punctual.run(&done).exits(0);
    let again = punctual
        .run(&["enqueue", "mail", "{}", "--id", &first])
        .exits(0);
    assert!(
        again.stdout.contains("stored before, and is completed"),
        "{again:?}"
    );

    let id = |last: char| format!("01994f2e-8a51-7c3e-8000-3f0f4c1d2b7{last}");
    let (never, at_once, later) = (id('a'), id('b'), id('c'));
    let failed = format!("{first}=failed");
    let never = ["enqueue", "mail", "{}", "--after", &failed, "--id", &never];
    let sent = punctual.run(&never).exits(0);
    assert!(
        sent.stdout.contains("is cancelled already: a job"),
        "{sent:?}"
    );
    let again = punctual.run(&never).exits(0);
    assert!(
        again.stdout.contains("stored before, and is cancelled"),
        "{again:?}"
    );

    let at_once = ["enqueue", "mail", "{}", "--after", &first, "--id", &at_once];
    let sent = punctual.run(&at_once).exits(0);
    assert!(sent.stdout.contains("in mail, due now"), "{sent:?}");
    let open = punctual.enqueue(&["orders", "{}"]);
    let later = [
        "enqueue", "mail", "{}", "--after", &first, "--after", &open, "--id", &later,
    ];
    let sent = punctual.run(&later).exits(0);
    let held = "to run once 1 other job has ended as asked\n";
    assert!(sent.stdout.contains(held), "{sent:?}");
    let again = punctual.run(&later).exits(0);
    assert!(
        again.stdout.contains("stored before, and is held"),
        "{again:?}"
    );

    let unknown = ["enqueue", "mail", "{}", "--after", "pack@order-7"];
    let refused = punctual.run(&unknown).exits(4);
    assert!(
        refused.stdout.contains("pack@order-7, which"),
        "{refused:?}"
    );
}

#[test]
fn the_last_second_of_the_year_9999_is_an_instant() {
    let punctual = Punctual::new();
    let last = "9999-12-31T23:59:59Z";
    let sent = punctual.one(&["enqueue", "mail", "--at", last]);
    assert_eq!(sent["due"], last);
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
    assert!(text(&error["lines"][3]["message"]).starts_with("truncated: "));
    assert_eq!(punctual.json(&["queues", "list"]).len(), 0);

    let reported = punctual.run(&["enqueue", "--from", "bad.jsonl"]).exits(2);
    assert!(
        reported.stderr.contains("line 3: unknown field `dealy`"),
        "{reported:?}"
    );

    let sent = punctual.one(&["enqueue", "--from", "bad.jsonl", "--skip-bad"]);
    assert_eq!((&sent["created"], &sent["bad"]), (&json!(2), &json!(4)));
}

#[test]
fn every_line_that_is_left_out_is_named() {
    let punctual = Punctual::new();
    punctual.write("bad.jsonl", format!("{}{{}}\n", "[]\n".repeat(1_002)));
    let args = ["enqueue", "mail", "--from", "bad.jsonl", "--skip-bad"];
    let reported = punctual.run(&args).exits(0);
    assert!(
        reported.stderr.contains("skipped line 1000:"),
        "{reported:?}"
    );
    assert!(
        reported.stderr.contains("skipped 2 more lines"),
        "{reported:?}"
    );
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
    assert!(!sends(&["--delay", "30m", "--expires", "1h"]).contains("expires"));
}

#[test]
fn text_that_resembles_json_is_refused_with_the_fix() {
    let punctual = Punctual::with_data();
    for broken in ["{a:1}", "[1,", " {\"to\":ann}", "\"open"] {
        let ran = punctual.run(&["enqueue", "mail", broken]).exits(2);
        assert!(
            ran.stderr.contains("--text") && ran.stderr.contains("double quotes"),
            "{ran:?}"
        );
        let input = punctual.run_with_input(&["enqueue", "mail", "-"], broken.as_bytes());
        input.exits(2);
        let id = punctual.enqueue(&["mail", broken, "--text"]);
        assert_eq!(
            punctual.one(&["jobs", "show", &id])["content_type"],
            "text/plain"
        );
        punctual.enqueue(&["mail", broken, "--content-type", "application/x-mine"]);
        let update = ["jobs", "update", &id, "--payload", broken];
        let ran = punctual.run(&update).exits(2);
        assert!(ran.stderr.contains("--text"), "{ran:?}");
        punctual.run(&[&update[..], &["--text"]].concat()).exits(0);
        let signal = ["signal", "ok", &id, "--payload", broken];
        let ran = punctual.run(&signal).exits(2);
        assert!(
            ran.stderr.contains("double quotes") && !ran.stderr.contains("--text"),
            "{ran:?}"
        );
    }
    let id = punctual.enqueue(&["mail", "hello"]);
    assert_eq!(
        punctual.one(&["jobs", "show", &id])["content_type"],
        "text/plain"
    );
    let raw = ["enqueue", "mail", "--from", "-", "--raw", "-o", "json"];
    let ran = punctual.run_with_input(&raw, b"{a:1}\n").exits(2);
    assert!(
        text(&ran.error()["lines"][0]["message"]).contains("--text"),
        "{ran:?}"
    );
    let text = [&raw[..], &["--text"]].concat();
    punctual.run_with_input(&text, b"{a:1}\n").exits(0);
    // A pipe by its name, as a shell gives one for `<(command)`.
    let pipe = ["enqueue", "mail", "--from", "/dev/stdin", "--raw"];
    punctual.run_with_input(&pipe, b"1\n2\n").exits(0);
}

#[test]
fn wrong_numbers_say_what_to_write() {
    let punctual = Punctual::with_data();
    for (option, value, says) in [
        ("--priority", "high", "0, which runs first"),
        ("--priority", "10", "9, which runs last"),
        ("--max-attempts", "0", "from 1 on"),
        ("--max-attempts", "many", "from 1 on"),
    ] {
        let ran = punctual
            .run(&["enqueue", "mail", "{}", option, value])
            .exits(2);
        assert!(
            ran.stderr.contains(says) && ran.stderr.contains(option),
            "{ran:?}"
        );
    }
    // The former names are gone.
    punctual
        .run(&["enqueue", "mail", "{}", "--attempts", "1"])
        .exits(2);
    punctual.run(&["jobs", "retry", "--queue", "mail"]).exits(2);
}

#[test]
fn errors_show_spans_as_they_were_written() {
    let punctual = Punctual::with_data();
    for (options, shown) in [
        (&["--remember", "720h"][..], "(remember: 720h)"),
        (&["--remember", "30d"], "(remember: 30d)"),
        (&["--remember=720h"], "(remember: 720h)"),
        (
            &["--timeout", "9000h", "--retention", "375d"],
            "(timeout: 9000h)",
        ),
        (&["--retry", "fixed:2400h"], "(retry.span: 2400h)"),
        (&["--retry", "linear:10s..2400h"], "(retry.cap: 2400h)"),
        (&["--delay", "70000000h"], "delay: 70000000h"),
    ] {
        let args = [&["enqueue", "mail", "{}"], options].concat();
        let ran = punctual.run(&args).exits(2);
        assert!(ran.stderr.contains(shown), "{options:?}: {}", ran.stderr);
    }
    let line = r#"{"queue":"mail","remember":"720h"}"#;
    let args = ["enqueue", "--from", "-"];
    let ran = punctual.run_with_input(&args, line.as_bytes()).exits(2);
    assert!(ran.stderr.contains("remember: 720h"), "{}", ran.stderr);
}

#[test]
fn an_instant_without_a_zone_is_local_and_the_zone_is_shown() {
    let punctual = Punctual::new();
    let run = |args: &[&str]| {
        let mut command = punctual.command(args);
        // Eight hours east of Greenwich, in the form that needs no files.
        let output = command.env("TZ", "XST-8").output().expect("it runs");
        crate::support::Ran::from(output).exits(0)
    };
    let reported = run(&["enqueue", "mail", "{}", "--at", "2099-12-01 08:00"]).stdout;
    assert!(
        reported.contains("due 2099-12-01T08:00:00+08:00"),
        "{reported}"
    );
    let args = [
        "enqueue",
        "mail",
        "{}",
        "--at",
        "2099-12-01T08:00",
        "-o",
        "json",
    ];
    assert_eq!(run(&args).documents()[0]["due"], "2099-12-01T00:00:00Z");
    let args = [
        "enqueue",
        "mail",
        "{}",
        "--at",
        "2099-12-01T08:00Z",
        "-o",
        "json",
    ];
    assert_eq!(run(&args).documents()[0]["due"], "2099-12-01T08:00:00Z");
}

#[test]
fn what_stores_something_prints_the_durability() {
    let punctual = Punctual::new();
    let said = |ran: crate::support::Ran| ran.exits(0).stderr;
    let stored = |stderr: &str| stderr.contains("stored by fsync");
    assert!(stored(&said(punctual.run(&["enqueue", "mail", "{}"]))));
    let file = punctual.write("jobs.jsonl", "{}\n");
    let file = file.to_str().expect("a path");
    assert!(stored(&said(
        punctual.run(&["enqueue", "mail", "--from", file])
    )));
    let id = punctual.enqueue(&["mail", "{}", "--delay", "1h"]);
    for args in [
        &["jobs", "reschedule", &*id, "--delay", "2h"][..],
        &["jobs", "run-now", &id],
        &["jobs", "cancel", &id],
        &["jobs", "delete", &id],
        &["jobs", "cancel", "--queue", "mail", "--yes"],
        &["queues", "pause", "mail"],
        &["queues", "resume", "mail"],
    ] {
        assert!(stored(&said(punctual.run(args))), "{args:?}");
        assert!(!stored(&said(
            punctual.run(&["jobs", "cancel", "--queue", "mail"])
        )));
    }
    punctual.enqueue(&["mail", "{}"]);
    assert!(stored(&said(
        punctual.run(&["queues", "purge", "mail", "--yes"])
    )));
    let exported = punctual.run(&["export"]).exits(0).stdout;
    let exported = punctual.run_with_input(
        &["import", "-", "--engine", "file:./other"],
        exported.as_bytes(),
    );
    assert!(stored(&said(exported)));
    let memory = punctual.run(&["enqueue", "mail", "{}", "--engine", "memory:"]);
    let memory = said(memory);
    assert!(
        memory.contains("warning: ") && memory.contains("so it is lost"),
        "{memory}"
    );
}
