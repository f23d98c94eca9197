//! Tests of the command: outages.

use std::fs::File;

use punctual_redis::testing::TestServer;
use serde_json::Value;

use crate::serve::Server;
use crate::support::{Punctual, text};

const KEPT: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
const JOB: &str = r#"{"queue":"mail","id":"01994f2e-8a51-7c3e-8000-000000000001"}"#;

/// An answer of the server.
struct Reported {
    status: u16,
    head: String,
    body: String,
}

impl Reported {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    /// That it was refused so, with a word what to do about it.
    #[track_caller]
    fn is_refused(&self, status: u16, code: &str, remedy: &str, may_come_again: bool) {
        let error = &self.json()["error"];
        assert_eq!(
            (self.status, &error["code"]),
            (status, &code.into()),
            "{error}"
        );
        let hint = error["hint"].as_str().expect("a hint");
        assert!(hint.contains(remedy), "{hint}");
        assert_eq!(
            self.head.contains("\nretry-after: 1"),
            may_come_again,
            "{}",
            self.head
        );
    }
}

fn ask(server: &Server, route: &str, body: &str) -> Reported {
    let answer = server.request(route, body);
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).expect("a status");
    Reported {
        status: status.parse().expect("a number"),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

/// The verdicts of `/v1/bulk`, which come in chunks.
pub(crate) fn bulk(server: &Server, lines: &str) -> Vec<Value> {
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut stream = std::net::TcpStream::connect(&address).expect("a connection");
    let token = text(&server.announced["token"]);
    let length = lines.len();
    let request = format!(
        "POST /v1/bulk HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
         content-type: application/x-ndjson\r\ncontent-length: {length}\r\n\r\n{lines}"
    );
    std::io::Write::write_all(&mut stream, request.as_bytes()).expect("sent");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer");
    let documents = answer.lines().filter(|line| line.starts_with('{'));
    let read = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
    documents.map(read).collect()
}

fn serve(punctual: &Punctual, redis: &TestServer) -> Server {
    let log = File::create(punctual.path("log")).expect("a file");
    let engine = redis.address();
    Server::start_with(punctual, &["--engine", &engine], |command| {
        command.stderr(log)
    })
}

/// How often the log has a request that failed, and of nothing else than that code.
fn failures_reported(punctual: &Punctual, code: &str) -> usize {
    let log = punctual.read("log");
    let reported = log.lines().filter(|line| line.contains("a request failed"));
    reported
        .inspect(|line| assert!(line.contains(code), "{line}"))
        .count()
}

#[test]
fn while_redis_is_away_requests_may_come_again_and_are_then_done() {
    for is_killed in [true, false] {
        let mut redis = TestServer::with(&KEPT);
        let punctual = Punctual::new();
        let server = serve(&punctual, &redis);
        let put = ask(&server, "POST /v1/jobs", r#"{"queue":"mail"}"#);
        assert_eq!(put.status, 201, "{}", put.body);
        let kept = text(&put.json()["id"]);
        let lease = ask(
            &server,
            "POST /v1/claims",
            r#"{"queues":["mail"],"lease_duration":"10m"}"#,
        )
        .json();
        match is_killed {
            true => redis.kill(),
            false => redis.stop(),
        }
        for (route, body) in [
            ("POST /v1/jobs", JOB),
            ("POST /v1/claims", r#"{"queues":["mail"]}"#),
            (&*format!("GET /v1/jobs/{kept}"), ""),
        ] {
            let reported = ask(&server, route, body);
            reported.is_refused(503, "engine_unavailable", "same ids", true);
        }
        // No line is read then.
        let refused = bulk(&server, "{\"queue\":\"mail\"}\nnonsense\n");
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!(
            refused[0]["error"]["code"], "engine_unavailable",
            "{refused:?}"
        );
        let health = ask(&server, "GET /healthz", "");
        assert_eq!((health.status, &health.json()["ok"]), (503, &false.into()));
        let metrics = ask(&server, "GET /metrics", "");
        assert!(
            metrics.body.contains("punctual_healthy 0"),
            "{}",
            metrics.body
        );
        assert_eq!(
            failures_reported(&punctual, "engine_unavailable"),
            1,
            "the first of them"
        );

        match is_killed {
            true => redis.restart(),
            false => redis.go_on(),
        }
        // As it was asked: the same again, under the same id.
        let put = loop {
            let put = ask(&server, "POST /v1/jobs", JOB);
            if put.status != 503 {
                break put;
            }
        };
        let verdict = text(&put.json()["verdict"]);
        assert!(
            ["created", "duplicate"].contains(&&*verdict),
            "{}",
            put.body
        );
        let lease = &lease["leases"][0];
        let settle = serde_json::json!({"leases": [{"token": lease["token"], "settlements": [
            {"id": kept, "attempt": 1, "outcome": "completed"}]}]});
        let settled = ask(&server, "POST /v1/settlements", &settle.to_string());
        assert!(settled.body.contains("\"settled\""), "{}", settled.body);
        assert_eq!(server.end(), Some(0));
    }
}

#[test]
fn while_redis_is_full_new_jobs_are_refused_and_the_others_are_done() {
    let redis = TestServer::with(&KEPT);
    let punctual = Punctual::new();
    let server = serve(&punctual, &redis);
    let put = ask(&server, "POST /v1/jobs", r#"{"queue":"mail"}"#);
    assert_eq!(put.status, 201, "{}", put.body);
    redis.cli(&["CONFIG", "SET", "maxmemory", "1mb"]);
    for _ in 0..20 {
        let reported = ask(&server, "POST /v1/jobs", JOB);
        // When there is room again it is unknown: nothing says when to come.
        reported.is_refused(507, "engine_full", "workers", false);
    }
    let verdicts = bulk(&server, "{\"queue\":\"mail\"}\n");
    assert_eq!(verdicts[0]["error"]["code"], "engine_full", "{verdicts:?}");
    assert_eq!(
        failures_reported(&punctual, "engine_full"),
        1,
        "the first of them"
    );
    let missing = ask(
        &server,
        "GET /v1/jobs/01994f2e-8a51-7c3e-8000-000000000001",
        "",
    );
    assert_eq!(missing.status, 404, "{}", missing.body);

    let lease = ask(&server, "POST /v1/claims", r#"{"queues":["mail"]}"#).json();
    let lease = &lease["leases"][0];
    let settle = serde_json::json!({"leases": [{"token": lease["token"], "settlements": [
        {"id": lease["jobs"][0]["id"], "attempt": 1, "outcome": "completed"}]}]});
    let settled = ask(&server, "POST /v1/settlements", &settle.to_string());
    assert!(settled.body.contains("\"settled\""), "{}", settled.body);

    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    let put = ask(&server, "POST /v1/jobs", JOB);
    assert_eq!(
        (put.status, &put.json()["verdict"]),
        (201, &"created".into())
    );
    assert_eq!(server.end(), Some(0));
}
