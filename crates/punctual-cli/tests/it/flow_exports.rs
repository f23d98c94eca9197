//! Tests of the command: flows that move between engines half way.

use punctual_redis::testing::TestServer;

use crate::support::Punctual;

const ORDER: &str = r#"{"name": "order-7", "steps": [
  {"name": "charge", "job": {"queue": "cards"}},
  {"name": "pack", "job": {"queue": "orders", "payload": {"order": 7}}, "after": ["charge"]},
  {"name": "label", "job": {"queue": "orders"}, "after": ["charge"]},
  {"name": "ship", "job": {"queue": "orders"}, "after": ["pack", "label"]},
  {"name": "refund", "job": {"queue": "orders"}, "after": [{"step": "pack", "on": "failed"}]}],
  "on_settled": {"queue": "reports"}}"#;

fn counts(punctual: &Punctual, engine: &str) -> serde_json::Value {
    punctual.one(&["flows", "show", "order-7", "--engine", engine])["counts"].take()
}

/// A flow is exported after its first step, moves from engine to engine, goes on in the last, and
/// its callback runs once.
#[test]
fn a_flow_moves_between_engines_half_way() {
    let server = TestServer::start();
    let punctual = Punctual::new();
    let redis = server.address();
    let engines = ["file:./first", redis.as_str(), "file:./last"];
    let file = punctual.write("order.json", ORDER);
    let file = file.to_str().expect("a path");
    let on = |engine: &str, args: &[&str]| punctual.run(&[args, &["--engine", engine]].concat());
    on(engines[0], &["flows", "send", file]).exits(0);
    let work = |engine: &str, queues: &[&str]| {
        let until = ["--exec", "echo $PUNCTUAL_STEP >> ran", "--until-idle"];
        on(engine, &[&["work"], queues, &until[..]].concat()).exits(0);
    };
    work(engines[0], &["cards"]);
    let before = counts(&punctual, engines[0]);
    assert_eq!(
        (&before["completed"], &before["open"]),
        (&1.into(), &4.into())
    );
    for pair in engines.windows(2) {
        on(pair[0], &["export", "all.jsonl"]).exits(0);
        let import = ["import", "all.jsonl"];
        on(pair[1], &import).exits(0);
        assert_eq!(counts(&punctual, pair[1]), before);
        // The same again changes nothing, nor does the plan.
        on(pair[1], &import).exits(0);
        assert_eq!(counts(&punctual, pair[1]), before);
        let sent = on(pair[1], &["flows", "send", file]).exits(0);
        assert!(sent.stdout.contains("was sent before"), "{sent:?}");
    }
    let last = engines[2];
    work(last, &["orders"]);
    work(last, &["reports"]);
    let mut ran: Vec<_> = punctual.read("ran").lines().map(str::to_owned).collect();
    assert_eq!(
        (ran.remove(0), ran.pop()),
        ("charge".into(), Some("on_settled".into()))
    );
    ran.sort();
    assert_eq!(ran, ["label", "pack", "ship"]);
    let after = punctual.one(&["flows", "show", "order-7", "--engine", last]);
    assert_eq!(after["state"], "done");
    on(last, &["flows", "recount", "order-7"]).exits(0);

    // What has settled moves too, and runs nothing.
    on(last, &["export", "all.jsonl"]).exits(0);
    on("file:./copy", &["import", "all.jsonl"]).exits(0);
    work("file:./copy", &["orders", "reports"]);
    assert_eq!(punctual.read("ran").lines().count(), 5);
}

/// A file whose end is missing imports nothing, as its flow would stay open and be cancelled.
#[test]
fn an_export_that_was_cut_is_refused() {
    let server = TestServer::start();
    let punctual = Punctual::new();
    let file = punctual.write("order.json", ORDER);
    let file = file.to_str().expect("a path");
    let on = |engine: &str, args: &[&str]| punctual.run(&[args, &["--engine", engine]].concat());
    on("file:./first", &["flows", "send", file]).exits(0);
    on("file:./first", &["export", "all.jsonl"]).exits(0);
    let all = punctual.read("all.jsonl");
    let (cut, _) = all.trim_end().rsplit_once('\n').expect("lines");
    punctual.write("cut.jsonl", format!("{cut}\n"));
    let ran = on("file:./last", &["import", "cut.jsonl"]).exits(2);
    assert!(
        ran.stderr.contains("before the flow order-7 does"),
        "{ran:?}"
    );
    let jobs = on("file:./last", &["jobs", "list", "-o", "json"]).exits(0);
    assert_eq!(jobs.stdout, "");

    // Nor does one that the engine cannot hold.
    let redis = format!("{}?shards=3", server.address());
    on("file:./limited", &["enqueue", "mail", "1"]).exits(0);
    on(
        "file:./limited",
        &["enqueue", "mail", "2", "--limit", "smtp"],
    )
    .exits(0);
    on("file:./limited", &["export", "limited.jsonl"]).exits(0);
    let ran = on(&redis, &["import", "limited.jsonl"]).exits(2);
    assert!(ran.stderr.contains("without `shards`"), "{ran:?}");
    let jobs = on(&redis, &["jobs", "list", "-o", "json"]).exits(0);
    assert_eq!(jobs.stdout, "");
}

#[test]
fn bad_lines_of_flows_are_named() {
    let punctual = Punctual::new();
    let bad = [
        (
            r#"{"record":"flow/a b","flow":{}}"#,
            "part of a flow is of `flow/NAME`",
        ),
        (
            r#"{"record":"flow/a","flow":{"ended":[{"step":"s","state":"held","sent":"0000000000000001"}]}}"#,
            "has not settled",
        ),
        (
            r#"{"record":"flow/a","flow":{"ended":[{"step":"s","state":"dead","sent":"1"}]}}"#,
            "16 hexadecimal digits",
        ),
        (
            r#"{"record":"flow/a","flow":{"ended":[{"step":"s","role":"boss","state":"dead","sent":"0000000000000001"}]}}"#,
            "role \"boss\"",
        ),
        (
            r#"{"record":"flow/a","flow":{"waits":{"job":"x","after":[]}}}"#,
            "not a UUID",
        ),
        (r#"{"record":"flow/a","flow":{"seals":1}}"#, "seals"),
    ];
    for (line, why) in bad {
        let ran = punctual.run_with_input(&["import", "-"], line.as_bytes());
        let ran = ran.exits(2);
        assert!(ran.stderr.contains(why), "{line}: {ran:?}");
    }
    // A seal without its jobs.
    let seal =
        r#"{"record":"flow/a","flow":{"seal":{"steps":2,"planned":2,"on_failure":"continue"}}}"#;
    let ran = punctual.run_with_input(&["import", "-"], seal.as_bytes());
    assert!(ran.stderr.contains("another number of steps"), "{ran:?}");
    // Only a whole export has flows.
    let file = punctual.write("order.json", ORDER);
    punctual
        .run(&["flows", "send", file.to_str().expect("a path")])
        .exits(0);
    let part = punctual.run(&["export", "--queue", "cards"]).exits(0);
    assert!(part.stderr.contains("export without --queue"), "{part:?}");
}
