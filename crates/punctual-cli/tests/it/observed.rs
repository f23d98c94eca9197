//! What `punctual serve` lets those see who watch over it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use punctual::time::{Stopwatch, seconds};
use serde_json::Value;

use crate::serve::Server;
use crate::support::{Punctual, text};

/// Names of metrics in a text, without what Prometheus adds for the parts of a histogram.
fn metrics_named_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let named = words.filter(|word| word.starts_with("punctual_"));
    let parts = ["_bucket", "_sum", "_count"];
    named
        .map(|name| {
            let ends = parts.iter().find_map(|part| name.strip_suffix(part));
            ends.unwrap_or(name)
        })
        .collect()
}

/// A job that is put in, claimed and failed; the requests and the answers.
fn one_attempt(server: &Server, payload: &str, said: &str) -> String {
    let body = format!(
        "{{\"queue\":\"mail\",\"payload\":\"{payload}\",\"headers\":{{\"h\":\"{payload}\"}}}}"
    );
    let put = server.request("POST /v1/jobs", &body);
    let claimed = server.request("POST /v1/claims", r#"{"queues":["mail"]}"#);
    let (_, answer) = claimed.split_once("\r\n\r\n").expect("a body");
    let answer: Value = serde_json::from_str(answer).expect("JSON");
    let page = &answer["pages"][0];
    let settle = serde_json::json!({"pages": [{"token": page["token"], "settlements": [
        {"id": page["jobs"][0]["id"], "attempt": 1, "outcome": "retry", "error": said}]}]});
    let settled = server.request("POST /v1/settlements", &settle.to_string());
    assert!(settled.contains("\"settled\""), "{settled}");
    put
}

#[test]
fn the_grafana_dashboard_asks_only_for_metrics_that_are_served() {
    let punctual = Punctual::new();
    let server = Server::start_with(
        &punctual,
        &["--engine", "file:data?durability=fsync"],
        |it| it,
    );
    one_attempt(&server, "x", "y");
    // The first job with a target brings about a worker in the server, which counts too.
    let posted = r#"{"queue":"mail","target":"https://1.1.1.1/","delay":"1h"}"#;
    let put = server.request("POST /v1/jobs", posted);
    assert!(put.starts_with("HTTP/1.1 201"), "{put}");
    let watch = Stopwatch::start();
    let page = loop {
        let page = server.request("GET /metrics", "");
        if page.contains("# TYPE punctual_active") {
            break page;
        }
        assert!(watch.elapsed() < seconds(60), "no worker counts: {page}");
    };
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let served: BTreeSet<_> = types.filter_map(|line| line.split(' ').next()).collect();
    assert!(served.contains("punctual_fsync_seconds"), "{page}");

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/punctual.json");
    let dashboard = std::fs::read_to_string(file).expect("the dashboard");
    let read: Value = serde_json::from_str(&dashboard).expect("JSON");
    assert!(
        read["panels"]
            .as_array()
            .is_some_and(|panels| panels.len() > 10)
    );
    let asked = metrics_named_in(&dashboard);
    let unserved: Vec<_> = asked.difference(&served).collect();
    assert!(unserved.is_empty(), "asked for, not served: {unserved:?}");
    let unasked: Vec<_> = served.difference(&asked).collect();
    assert!(unasked.is_empty(), "served, not shown: {unasked:?}");
    assert!(
        metrics_named_in("rate(punctual_planted_total[1m])").contains("punctual_planted_total")
    );
}

#[test]
fn logs_are_json_and_tell_no_payload_and_no_token() {
    let punctual = Punctual::new();
    let log = File::create(punctual.path("log.jsonl")).expect("a file");
    let server = Server::start_with(&punctual, &[], |command| {
        let told = command.env("PUNCTUAL_LOG", "trace");
        told.env("PUNCTUAL_LOG_FORMAT", "json").stderr(log)
    });
    let token = text(&server.announced["token"]);
    let put = one_attempt(&server, "s3cr3t-payload", "s3cr3t-error");
    let (_, receipt) = put.split_once("\r\n\r\n").expect("a body");
    let receipt: Value = serde_json::from_str(receipt).expect("JSON");
    let path = format!("DELETE /v1/jobs/{}", text(&receipt["id"]));
    server.request(&path, "");
    server.request(
        "POST /v1/jobs",
        r#"{"queue":"mail","payload":{"s3cr3t-payload"#,
    );
    server.request("GET /v1/jobs?text=s3cr3t-search", "");
    assert_eq!(server.end(), Some(0));

    let log = punctual.read("log.jsonl");
    let events: Vec<Value> = log
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    let answered = events.iter().filter(|event| event["message"] == "answered");
    let answered: Vec<_> = answered.collect();
    assert!(answered.len() >= 6, "{log}");
    for event in answered {
        for field in [
            "at",
            "level",
            "target",
            "method",
            "path",
            "status",
            "request_id",
        ] {
            assert!(!event[field].is_null(), "{field}: {event}");
        }
    }
    assert!(
        events.iter().any(|event| event["message"] == "audit"),
        "{log}"
    );
    for secret in ["s3cr3t", &token] {
        assert!(!log.contains(secret), "{secret} stands in the log: {log}");
    }
}
