//! Tests of the gateway over HTTP: log.

use std::sync::Arc;

use punctual::time::{ManualClock, seconds, within};
use punctual::wire::{self, Answer, Call};
use punctual::{Engine, Error, ErrorKind, Namespace, NewJob};
use punctual_gateway::Gateway;
use serde_json::{Value, json};
use tokio::task::yield_now;
use tracing::subscriber::DefaultGuard;

use crate::logged::Log;
use crate::standin::Standin;
use crate::support::{ADMIN, START, Under, serve, serve_engine, serving, tokens};

/// Failures that were logged since it was asked last.
fn failures(log: &Log) -> Vec<String> {
    let mut lines = log.lines();
    lines.retain(|line| line.starts_with("ERROR"));
    lines
}

const SECRET: &str = "what-only-the-job-knows";
const CAUSE: &str = "the disk is gone";

/// An engine that fails, and what is logged of it.
async fn failing(kind: ErrorKind) -> (Under, Log, DefaultGuard) {
    let log = Log::default();
    let keeps = log.keep();
    let clock = ManualClock::new(START);
    let engine = Arc::new(Standin::new(clock.clone()));
    let under = serve_engine(engine.clone(), clock).await;
    engine.fail(kind, CAUSE);
    (under, log, keeps)
}

/// Found by its id, with what is known, and nothing that is secret.
fn check(errors: &[String], id: &str, request: [&str; 2]) {
    let [line] = errors else {
        panic!("not logged once: {errors:?}");
    };
    let [method, path] = request;
    for part in [
        &format!("request_id={id:?} "),
        &format!("method={method} "),
        &format!("path={path:?}"),
        CAUSE,
    ] {
        assert!(line.contains(part), "no {part}: {line}");
    }
    assert!(!line.contains(SECRET) && !line.contains(ADMIN), "{line}");
}

#[tokio::test]
async fn what_failed_is_found_in_the_log_by_the_id_of_its_answer() {
    let job = json!({"queue": "mail", "payload": SECRET}).to_string();
    for (kind, status) in [
        (ErrorKind::Io, 500),
        (ErrorKind::EngineUnavailable, 503),
        (ErrorKind::EngineFull, 507),
    ] {
        let (under, log, _keeps) = failing(kind).await;
        let reply = under.send("POST", "/v1/jobs", job.clone()).await;
        assert_eq!(reply.status, status);
        let id = reply.headers["x-request-id"].to_str().expect("text");
        assert_eq!(reply.json()["error"]["request_id"], id);
        check(&failures(&log), id, ["POST", "/v1/jobs"]);
        assert!(!reply.body.contains(CAUSE), "{reply:?}");
    }
}

#[tokio::test]
async fn what_failed_within_a_stream_is_found_by_the_id_of_its_answer() {
    let (under, log, _keeps) = failing(ErrorKind::Io).await;
    let authorization = format!("Bearer {ADMIN}");
    let headers = [
        ("host", "localhost"),
        ("authorization", &*authorization),
        ("content-type", "application/x-ndjson"),
    ];
    let lines = json!({"queue": "mail", "payload": SECRET}).to_string() + "\n";
    let reply = under.send_with(&headers, "POST", "/v1/bulk", lines).await;
    assert_eq!(reply.status, 200);
    let id = reply.headers["x-request-id"].to_str().expect("text");
    check(&failures(&log), id, ["POST", "/v1/bulk"]);
    assert!(!reply.body.contains(CAUSE), "{reply:?}");
}

/// What a worker on a socket is answered that extends a lease.
async fn extends_on_a_socket(under: &Under, token: &str) -> Value {
    let mut socket = under.socket().await;
    socket.say(json!({"type": "hello", "token": token})).await;
    assert_eq!(socket.json().await["type"], "welcome");
    let extend = json!({"leases": [{"token": "7-00000000000000aa"}]});
    socket
        .say(json!({"type": "extend", "request": extend}))
        .await;
    socket.json().await
}

#[tokio::test]
async fn what_failed_on_a_socket_is_found_by_the_id_of_its_answer() {
    let (under, log, _keeps) = failing(ErrorKind::Io).await;
    let error = extends_on_a_socket(&under, ADMIN).await["error"].take();
    let id = error["request_id"].as_str().expect("an id");
    check(&failures(&log), id, ["GET", "/v1/events"]);
}

/// What a program that speaks calls is answered, and what is logged of it.
async fn called(under: &Under, token: &str) -> Error {
    let authorization = format!("Bearer {token}");
    let headers = [
        ("host", "localhost"),
        ("authorization", &*authorization),
        ("content-type", wire::CONTENT_TYPE),
    ];
    let call = Call::Enqueue(vec![NewJob::new("mail", SECRET)]);
    let bytes = wire::encode(&call).expect("bytes");
    let reply = under.send_with(&headers, "POST", "/v1/calls", bytes).await;
    assert_eq!(reply.status, 200);
    match wire::decode(&reply.bytes).expect("an answer") {
        Answer::Failed(failed) => failed.into(),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn only_the_operator_sees_the_text_of_the_engine() {
    let operator = "operator-and-admin-0001";
    let all = tokens(&[
        format!("{ADMIN} shop admin"),
        format!("{operator} shop admin,operator"),
    ]);
    let clock = ManualClock::new(START);
    let engine = Arc::new(Standin::new(clock));
    let theirs = engine.clone();
    let under = serving(|_| Gateway::new(theirs, all)).await;
    for kind in [
        ErrorKind::EngineUnavailable,
        ErrorKind::EngineFull,
        ErrorKind::DataMissing,
    ] {
        engine.fail(kind, CAUSE);
        let log = Log::default();
        let _keeps = log.keep();
        let error = called(&under, ADMIN).await;
        assert_eq!(error.kind(), kind);
        assert!(!format!("{error:?}").contains(CAUSE), "{error:?}");
        let id = error.context().find(|(name, _)| *name == "request_id");
        let (_, id) = id.expect("an id");
        // Each code begins a spell of its own.
        check(&failures(&log), id, ["POST", "/v1/calls"]);
        let error = called(&under, operator).await;
        assert!(error.message().contains(CAUSE), "{error}");
        reported_everywhere(&under, operator).await;

        let authorization = format!("Bearer {ADMIN}");
        let headers = [("host", "localhost"), ("authorization", &*authorization)];
        for path in ["/v1/jobs", "/v1/queues", "/v1/stats"] {
            let reply = under.send_with(&headers, "GET", path, "").await;
            assert_eq!(reply.json()["error"]["code"], kind.code(), "{path}");
            assert!(!reply.body.contains(CAUSE), "{path}: {reply:?}");
        }
        // That the engine cannot be counted is no failure of who asks for these.
        for path in ["/metrics", "/healthz"] {
            let reply = under.send_with(&headers, "GET", path, "").await;
            assert_eq!(reply.status, 200, "{path}");
            assert!(!reply.body.contains(CAUSE), "{path}: {reply:?}");
        }
        let reported = extends_on_a_socket(&under, ADMIN).await;
        assert_eq!(reported["error"]["code"], kind.code(), "{reported}");
        assert!(!reported.to_string().contains(CAUSE), "{reported}");
    }
}

/// Who runs the gateway reads the cause where the failure is, by every way.
async fn reported_everywhere(under: &Under, operator: &str) {
    let authorization = format!("Bearer {operator}");
    let headers = |content_type| {
        let fixed = [("host", "localhost"), ("content-type", content_type)];
        [fixed[0], fixed[1], ("authorization", &*authorization)]
    };
    let job = json!({"queue": "mail"}).to_string();
    for (method, path, content_type, body) in [
        ("GET", "/v1/jobs", "application/json", ""),
        ("GET", "/v1/queues", "application/json", ""),
        ("POST", "/v1/jobs", "application/json", &job),
        ("POST", "/v1/bulk", "application/x-ndjson", &job),
    ] {
        let headers = headers(content_type);
        let reply = under
            .send_with(&headers, method, path, body.to_owned())
            .await;
        let first = reply.body.lines().next().expect("a line");
        let error = serde_json::from_str::<Value>(first).expect("JSON")["error"].take();
        let cause = error["cause"].as_str().unwrap_or_default();
        assert!(cause.contains(CAUSE), "{path}: {error}");
        assert!(
            !error["message"].to_string().contains(CAUSE),
            "{path}: {error}"
        );
    }
    let reported = extends_on_a_socket(under, operator).await;
    let cause = reported["error"]["cause"].to_string();
    assert!(cause.contains(CAUSE), "{reported}");
}

#[tokio::test]
async fn an_engine_error_of_a_program_is_logged_once_an_episode() {
    let operator = "operator-and-admin-0001";
    let all = tokens(&[format!("{operator} shop admin,operator")]);
    let engine = Arc::new(Standin::new(ManualClock::new(START)));
    let theirs = engine.clone();
    let under = serving(|_| Gateway::new(theirs, all)).await;
    for kind in [ErrorKind::EngineUnavailable, ErrorKind::EngineFull] {
        engine.fail(kind, CAUSE);
        let log = Log::default();
        let _keeps = log.keep();
        for _ in 0..100 {
            let error = called(&under, operator).await;
            assert!(error.message().contains(CAUSE), "{error}");
        }
        let errors = failures(&log);
        assert!(
            errors.len() == 1 && errors[0].contains(CAUSE),
            "{kind:?}: {errors:?}"
        );
        assert!(!errors[0].contains(SECRET), "{errors:?}");
    }
    // What was wrong with a call is of the caller alone.
    engine.fail(ErrorKind::NotFound, CAUSE);
    let log = Log::default();
    let _keeps = log.keep();
    called(&under, operator).await;
    assert_eq!(failures(&log), Vec::<String>::new());
}

#[tokio::test]
async fn another_cause_under_the_same_code_is_logged_too() {
    let log = Log::default();
    let _keeps = log.keep();
    let clock = ManualClock::new(START);
    let engine = Arc::new(Standin::new(clock.clone()));
    let under = serve_engine(engine.clone(), clock).await;
    let job = json!({"queue": "mail"}).to_string();
    for cause in [
        CAUSE,
        "the first server is gone",
        "the second server is gone",
    ] {
        engine.fail(ErrorKind::EngineUnavailable, cause);
        for _ in 0..3 {
            under.send("POST", "/v1/jobs", job.clone()).await;
        }
        let errors = failures(&log);
        assert!(errors.len() == 1 && errors[0].contains(cause), "{errors:?}");
    }
}

#[tokio::test]
async fn of_many_sockets_that_miss_changes_one_is_logged() {
    let log = Log::default();
    let _keeps = log.keep();
    let clock = ManualClock::new(START);
    let engine = Arc::new(Standin::new(clock.clone()));
    let under = serve_engine(engine.clone(), clock).await;
    let mut sockets = Vec::new();
    for _ in 0..5 {
        let mut socket = under.socket().await;
        socket.say(json!({"type": "hello", "token": ADMIN})).await;
        assert_eq!(socket.json().await["type"], "welcome");
        socket.say(json!({"type": "watch"})).await;
        assert_eq!(socket.json().await["type"], "watching");
        sockets.push(socket);
    }
    let shop = Namespace::new("shop").expect("a name");
    let jobs = vec![NewJob::new("mail", SECRET)];
    engine.enqueue(&shop, jobs).await.expect("it is taken");
    engine.fail(ErrorKind::EngineUnavailable, CAUSE);
    let mut reported = Vec::new();
    let telling = async {
        while reported.len() < 5 {
            let lines = log.lines().into_iter();
            reported.extend(lines.filter(|line| line.contains("the change feed failed")));
            yield_now().await;
        }
    };
    let in_time = within(seconds(20), telling).await;
    in_time.expect("each asks, and is refused");
    let warned = reported.iter().filter(|line| line.starts_with("WARN"));
    assert_eq!(warned.count(), 1, "{reported:?}");
    // They are no requests: the first of those is logged all the same, with its id.
    let job = json!({"queue": "mail", "payload": SECRET}).to_string();
    let reply = under.send("POST", "/v1/jobs", job).await;
    let id = reply.headers["x-request-id"].to_str().expect("text");
    check(&failures(&log), id, ["POST", "/v1/jobs"]);
}

#[tokio::test]
async fn what_was_wrong_with_a_request_is_not_logged() {
    let (under, log, _keeps) = failing(ErrorKind::NotFound).await;
    let job = json!({"queue": "mail", "payload": SECRET}).to_string();
    assert_eq!(under.send("POST", "/v1/jobs", job).await.status, 404);
    assert_eq!(failures(&log), Vec::<String>::new());
}

#[tokio::test]
async fn equal_failures_are_logged_once_and_then_counted() {
    let job = json!({"queue": "mail", "payload": SECRET}).to_string();
    for (kind, reported) in [
        (ErrorKind::EngineUnavailable, 1),
        (ErrorKind::EngineFull, 1),
        // Of what is broken each may be another thing.
        (ErrorKind::Io, 100),
    ] {
        let (under, log, _keeps) = failing(kind).await;
        let first = under.send("POST", "/v1/jobs", job.clone()).await;
        let lines = format!("{job}\n{job}\n");
        for _ in 1..100 {
            let reply = under.send("POST", "/v1/jobs", job.clone()).await;
            assert_eq!(reply.status, first.status);
        }
        let errors = failures(&log);
        assert_eq!(errors.len(), reported, "{kind:?}: {errors:?}");
        let id = first.headers["x-request-id"].to_str().expect("text");
        check(&errors[..1], id, ["POST", "/v1/jobs"]);
        // Nor is what comes by the other ways.
        if reported == 1 {
            let authorization = format!("Bearer {ADMIN}");
            let headers = [
                ("host", "localhost"),
                ("authorization", &*authorization),
                ("content-type", "application/x-ndjson"),
            ];
            under.send_with(&headers, "POST", "/v1/bulk", lines).await;
            assert_eq!(failures(&log), Vec::<String>::new());
        }
    }
}

#[tokio::test]
async fn nothing_said_on_a_socket_is_logged_at_any_level() {
    let log = Log::default();
    let _keeps = log.keep();
    let under = serve().await;
    let job = json!({"queue": "mail", "payload": SECRET}).to_string();
    let put = under.send("POST", "/v1/jobs", job).await.json();
    let mut socket = under.socket().await;
    socket.say(json!({"type": "hello", "token": ADMIN})).await;
    assert_eq!(socket.json().await["type"], "welcome");
    let mut ask = async |kind: &str, request: Value| {
        socket
            .say(json!({"type": kind, "ref": SECRET, "request": request}))
            .await;
        socket.json().await["answer"]["leases"][0].take()
    };
    let lease = ask("claim", json!({"queues": ["mail"]})).await;
    let id = put["id"].as_str().expect("an id");
    let progress = json!({"leases": [{"token": lease["token"], "progress": {id: SECRET}}]});
    ask("extend", progress).await;
    let end = json!({"id": id, "attempt": 1, "outcome": "completed", "result": SECRET,
        "effects": [{"enqueue": {"queue": "next", "payload": SECRET}}]});
    let settle = json!({"leases": [{"token": lease["token"], "settlements": [end]}]});
    let settled = ask("settle", settle).await;
    assert_eq!(settled["settlements"][0]["verdict"], "settled", "{settled}");
    socket.say(json!({"type": SECRET})).await;
    assert_eq!(socket.json().await["type"], "error");
    socket
        .say(json!({"type": "settle", "request": {"leases": SECRET}}))
        .await;
    assert_eq!(socket.json().await["type"], "error");
    let mut wrong = under.socket().await;
    wrong
        .say(json!({"type": "hello", "token": format!("{SECRET}-token")}))
        .await;
    assert_eq!(wrong.closed().await, 4401);
    let lines = log.lines();
    assert!(
        lines.iter().any(|line| line.starts_with("DEBUG")),
        "{lines:?}"
    );
    for line in lines {
        assert!(!line.contains(SECRET) && !line.contains(ADMIN), "{line}");
    }
}
