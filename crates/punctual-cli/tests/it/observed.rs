//! What `punctual serve` lets those see who watch over it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use punctual::time::{Stopwatch, seconds};
use serde_json::{Value, json};

use crate::push::{SECRET, Target};
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

/// A job that is enqueued, claimed and failed; the requests and the answers.
fn one_attempt(server: &Server, payload: &str, said: &str) -> String {
    let body = format!(
        "{{\"queue\":\"mail\",\"payload\":\"{payload}\",\"headers\":{{\"h\":\"{payload}\"}}}}"
    );
    let put = server.request("POST /v1/jobs", &body);
    let claimed = server.request("POST /v1/claims", r#"{"queues":["mail"]}"#);
    let (_, answer) = claimed.split_once("\r\n\r\n").expect("a body");
    let answer: Value = serde_json::from_str(answer).expect("JSON");
    let lease = &answer["leases"][0];
    let settle = serde_json::json!({"leases": [{"token": lease["token"], "settlements": [
        {"id": lease["jobs"][0]["id"], "attempt": 1, "outcome": "retry", "error": said}]}]});
    let settled = server.request("POST /v1/settlements", &settle.to_string());
    assert!(settled.contains("\"settled\""), "{settled}");
    put
}

#[test]
fn the_grafana_dashboard_asks_only_for_metrics_that_are_served() {
    let punctual = Punctual::new();
    let relay = r#"
[allow.default]
commands = ["echo*"]
[[relay]]
name = "idle"
kind = "exec"
source = "echo '{\"lag\":0}'; sleep 1000"
"#;
    punctual.write("relays.toml", relay);
    let engine = "file:data?durability=fsync";
    let args = ["--engine", engine, "--relay", "relays.toml"];
    let server = Server::start_with(&punctual, &args, |it| it);
    one_attempt(&server, "x", "y");
    // The first job with a target causes a worker in the server, which counts too.
    let posted = r#"{"queue":"mail","target":"https://1.1.1.1/","delay":"1h"}"#;
    let put = server.request("POST /v1/jobs", posted);
    assert!(put.starts_with("HTTP/1.1 201"), "{put}");
    let limited = server.request("PUT /v1/queues/x/limits", r#"{"concurrency":1}"#);
    assert!(limited.starts_with("HTTP/1.1 200"), "{limited}");
    let limited = server.request("PUT /v1/limits/api", r#"{"concurrency":1}"#);
    assert!(limited.starts_with("HTTP/1.1 200"), "{limited}");
    let published = server.request(
        "POST /v1/publish",
        r#"{"subject":"orders.paid","job":{"payload":7}}"#,
    );
    assert!(published.starts_with("HTTP/1.1 20"), "{published}");
    let flow = r#"{"name":"f","steps":[{"name":"a","job":{"queue":"y"}}]}"#;
    let flow = server.request("POST /v1/flows", flow);
    assert!(flow.starts_with("HTTP/1.1 20"), "{flow}");
    let watch = Stopwatch::start();
    let page = loop {
        let page = server.request("GET /metrics", "");
        if ["punctual_active", "punctual_relay_lag"]
            .iter()
            .all(|name| page.contains(&format!("# TYPE {name}")))
        {
            break page;
        }
        assert!(
            watch.elapsed() < seconds(60),
            "no worker or relay counts: {page}"
        );
    };
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let served: BTreeSet<_> = types.filter_map(|line| line.split(' ').next()).collect();
    assert!(served.contains("punctual_fsync_seconds"), "{page}");
    assert!(
        page.contains("punctual_flows{state=\"running\"} 1"),
        "{page}"
    );
    let unmatched = "punctual_published_total{result=\"unmatched\"} 1";
    assert!(page.contains(unmatched), "{page}");

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
        metrics_named_in("rate(punctual_injected_total[1m])").contains("punctual_injected_total")
    );
}

#[test]
fn what_the_server_does_beside_requests_stands_in_its_health() {
    let punctual = Punctual::new();
    let loops = |args: &[&str]| -> BTreeSet<String> {
        let server = Server::start(&punctual, &[&["--engine", "memory:"], args].concat());
        let reported = body(&server.request("GET /healthz", ""));
        assert_eq!(reported["ok"], true, "{reported}");
        let names = reported["loops"].as_array().expect("loops").iter();
        names.map(|one| text(&one["name"])).collect()
    };
    let all = loops(&["--alert", "https://example.com/alerts"]);
    for name in ["posting", "callbacks", "alerts"] {
        assert!(all.contains(name), "{name}: {all:?}");
    }
    assert_eq!(loops(&["--no-push"]), BTreeSet::new());
}

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {answer}"))
}

/// All that a client says to a server, and it to others, that no log may show: each has a word of
/// its own in it, or is a secret.
fn say_it_all(server: &Server, target: &Target) {
    one_attempt(server, "s3cr3t-payload", "s3cr3t-error");
    let post =
        |route: &str, body: Value| server.request(&format!("POST {route}"), &body.to_string());
    let put = post(
        "/v1/jobs",
        json!({"queue": "work", "unique": "s3cr3t-key", "group": "s3cr3t-group",
        "payload": {"s3cr3t-payload": 1}}),
    );
    assert!(put.starts_with("HTTP/1.1 201"), "{put}");
    let again = post(
        "/v1/jobs",
        json!({"queue": "work", "id": body(&put)["id"], "payload": "s3cr3t-other"}),
    );
    assert!(again.starts_with("HTTP/1.1 409"), "{again}");
    let lease = body(&post("/v1/claims", json!({"queues": ["work"]})))["leases"][0].take();
    let id = text(&lease["jobs"][0]["id"]);
    let progress = json!({&id: {"note": "s3cr3t-progress"}});
    post(
        "/v1/extensions",
        json!({"leases": [{"token": lease["token"], "progress": progress}]}),
    );
    let settled = post(
        "/v1/settlements",
        json!({"leases": [{"token": lease["token"], "settlements": [
        {"id": id, "attempt": 1, "outcome": "completed", "result": "s3cr3t-result",
         "effects": [{"enqueue": {"queue": "next", "payload": "s3cr3t-next"}}]}]}]}),
    );
    assert!(settled.contains("\"settled\""), "{settled}");
    server.request(&format!("DELETE /v1/jobs/{id}"), "");
    server.request(
        "POST /v1/jobs",
        r#"{"queue":"mail","payload":{"s3cr3t-payload"#,
    );
    server.request("POST /v1/jobs", r#"{"queue":"mail","s3cr3t-field":1}"#);
    server.request("GET /v1/jobs?text=s3cr3t-search", "");
    server.request("GET /v1/jobs/by-unique?queue=work&key=s3cr3t-key", "");
    let edit = json!({"action": "cancel", "dry_run": false, "filter": {"queue": "work", "text": "s3cr3t-search"}});
    post("/v1/edits", edit);
    for scheme in ["Bearer", "Basic"] {
        let shown =
            format!("authorization: {scheme} s3cr3t-wrong-token\r\ncookie: s3cr3t-cookie\r\n");
        let address = server.url().trim_start_matches("http://").to_owned();
        let mut stream = std::net::TcpStream::connect(&address).expect("a connection");
        let request = format!(
            "GET /v1/queues HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{shown}\r\n"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
    // Posted, signed, refused with a word, and reported.
    let put = post(
        "/v1/jobs",
        json!({"queue": "out", "payload": "s3cr3t-posted", "max_attempts": 1,
        "headers": {"authorization": "s3cr3t-header"}, "target": format!("{}?s3cr3t-query", target.url()),
        "callback": format!("{}?s3cr3t-callback", target.url())}),
    );
    assert!(put.starts_with("HTTP/1.1 201"), "{put}");
    target
        .next()
        .says("500 Internal Server Error", "s3cr3t-answer");
    target.next().says("200 OK", "s3cr3t-thanks");
    let ended = format!("GET /v1/jobs/{}?wait=60s", text(&body(&put)["id"]));
    assert_eq!(body(&server.request(&ended, ""))["state"], "dead");
}

#[test]
fn no_log_of_any_form_and_level_shows_jobs_or_secrets() {
    for (format, level) in [
        ("json", "trace"),
        ("text", "trace"),
        ("json", "debug"),
        ("text", "info"),
    ] {
        let punctual = Punctual::new();
        let target = Target::start();
        let log = File::create(punctual.path("log")).expect("a file");
        let place = target.address.to_string();
        let server = Server::start_with(&punctual, &["--push-allow", &place], |command| {
            let reported = command.env("PUNCTUAL_LOG", level);
            let reported = reported.env("PUNCTUAL_LOG_FORMAT", format);
            reported.env("PUNCTUAL_PUSH_SECRET", SECRET).stderr(log)
        });
        let token = text(&server.announced["token"]);
        say_it_all(&server, &target);
        assert_eq!(server.end(), Some(0));

        let log = punctual.read("log");
        let whole = SECRET.trim_start_matches("whsec_");
        for secret in ["s3cr3t", &token, &token[4..], whole] {
            let reported: Vec<_> = log.lines().filter(|line| line.contains(secret)).collect();
            assert!(
                reported.is_empty(),
                "{format} {level}: {secret} stands in the log: {reported:#?}"
            );
        }
        assert!(log.contains("audit"), "{log}");
        if level == "info" {
            continue;
        }
        let answered: Vec<_> = log
            .lines()
            .filter(|line| line.contains("answered"))
            .collect();
        assert!(answered.len() >= 15, "{log}");
        for line in answered.into_iter().filter(|_| format == "json") {
            let event: Value =
                serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
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
    }
}
