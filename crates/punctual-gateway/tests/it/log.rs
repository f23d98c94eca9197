use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use punctual::ErrorKind;
use punctual::time::ManualClock;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::standin::Standin;
use crate::support::{ADMIN, START, Under, serve, serve_engine};

/// What was logged: `LEVEL message="..." field=..` per line.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn keep(&self) -> DefaultGuard {
        tracing::subscriber::set_default(tracing_subscriber::registry().with(self.clone()))
    }

    /// What was logged since it was asked last.
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }

    /// What was logged of failures since it was asked last.
    fn errors(&self) -> Vec<String> {
        let mut lines = self.lines();
        lines.retain(|line| line.starts_with("ERROR"));
        lines
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().expect("no panic").push(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
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

/// Found by its id, with what is known, and nothing that nobody shall read.
fn check(errors: &[String], id: &str, request: [&str; 2]) {
    let [line] = errors else {
        panic!("not told once: {errors:?}");
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
        check(&log.errors(), id, ["POST", "/v1/jobs"]);
        assert_eq!(status == 500, !reply.body.contains(CAUSE), "{reply:?}");
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
    check(&log.errors(), id, ["POST", "/v1/bulk"]);
}

#[tokio::test]
async fn what_failed_on_a_socket_is_found_by_the_id_of_its_answer() {
    let (under, log, _keeps) = failing(ErrorKind::Io).await;
    let mut socket = under.socket().await;
    socket.say(json!({"type": "hello", "token": ADMIN})).await;
    assert_eq!(socket.json().await["type"], "welcome");
    let extend = json!({"pages": [{"token": "7-00000000000000aa"}]});
    socket
        .say(json!({"type": "extend", "request": extend}))
        .await;
    let error = socket.json().await["error"].take();
    let id = error["request_id"].as_str().expect("an id");
    check(&log.errors(), id, ["GET", "/v1/events"]);
}

#[tokio::test]
async fn what_was_wrong_with_a_request_is_not_told_to_the_log() {
    let (under, log, _keeps) = failing(ErrorKind::NotFound).await;
    let job = json!({"queue": "mail", "payload": SECRET}).to_string();
    assert_eq!(under.send("POST", "/v1/jobs", job).await.status, 404);
    assert_eq!(log.errors(), Vec::<String>::new());
}

#[tokio::test]
async fn while_the_engine_is_away_or_full_one_request_is_told_and_the_others_are_counted() {
    let job = json!({"queue": "mail", "payload": SECRET}).to_string();
    for (kind, told) in [
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
        let errors = log.errors();
        assert_eq!(errors.len(), told, "{kind:?}: {errors:?}");
        let id = first.headers["x-request-id"].to_str().expect("text");
        check(&errors[..1], id, ["POST", "/v1/jobs"]);
        // Nor is what comes by the other ways.
        if told == 1 {
            let authorization = format!("Bearer {ADMIN}");
            let headers = [
                ("host", "localhost"),
                ("authorization", &*authorization),
                ("content-type", "application/x-ndjson"),
            ];
            under.send_with(&headers, "POST", "/v1/bulk", lines).await;
            assert_eq!(log.errors(), Vec::<String>::new());
        }
    }
}

#[tokio::test]
async fn nothing_of_what_is_said_on_a_socket_is_told_to_the_log_at_any_level() {
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
        socket.json().await["answer"]["pages"][0].take()
    };
    let page = ask("claim", json!({"queues": ["mail"]})).await;
    let id = put["id"].as_str().expect("an id");
    let progress = json!({"pages": [{"token": page["token"], "progress": {id: SECRET}}]});
    ask("extend", progress).await;
    let end = json!({"id": id, "attempt": 1, "outcome": "completed", "result": SECRET,
        "effects": [{"enqueue": {"queue": "next", "payload": SECRET}}]});
    let settle = json!({"pages": [{"token": page["token"], "settlements": [end]}]});
    let settled = ask("settle", settle).await;
    assert_eq!(settled["settlements"][0]["verdict"], "settled", "{settled}");
    socket.say(json!({"type": SECRET})).await;
    assert_eq!(socket.json().await["type"], "error");
    socket
        .say(json!({"type": "settle", "request": {"pages": SECRET}}))
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
