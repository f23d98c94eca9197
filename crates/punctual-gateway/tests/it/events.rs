//! Tests of the gateway over HTTP: events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::SinkExt;
use punctual::engine::{Action, Edit, Select, Target};
use punctual::time::{ManualClock, millis, seconds, within};
use punctual::{Due, JobId, Namespace, NewJob};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::standin::{Standin, Verb};
use crate::support::{ADMIN, OTHER, READER, START, Socket, Under, WORKER, serve, serve_engine};

async fn hello(under: &Under, token: &str) -> Socket {
    let mut socket = under.socket().await;
    socket.say(json!({"type": "hello", "token": token})).await;
    assert_eq!(socket.json().await["type"], "welcome");
    socket
}

async fn put(under: &Under, queue: &str) -> String {
    let reply = under
        .send("POST", "/v1/jobs", json!({"queue": queue}).to_string())
        .await;
    reply.json()["id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn a_socket_without_a_good_token_is_closed() {
    let under = serve().await;
    for first in [
        json!({"type": "hello"}),
        json!({"type": "hello", "token": "x"}),
        json!({"type": "ping"}),
    ] {
        let mut socket = under.socket().await;
        socket.say(first).await;
        assert_eq!(socket.closed().await, 4401);
    }
}

#[tokio::test]
async fn watched_changes_are_sent_and_others_not() {
    let under = serve().await;
    let mut socket = hello(&under, READER).await;
    socket
        .say(json!({"type": "watch", "queues": ["mail"], "stats": "250ms"}))
        .await;
    assert_eq!(socket.json().await["type"], "watching");
    put(&under, "other").await;
    let id = put(&under, "mail").await;
    let (mut jobs, mut stats) = (Value::Null, Value::Null);
    while jobs.is_null() || stats["queues"][0]["ready"] != 1 {
        let frame = socket.json().await;
        match frame["type"].as_str() {
            Some("jobs") => jobs = frame,
            Some("stats") => stats = frame,
            _ => panic!("{frame}"),
        }
    }
    let changes = jobs["changes"].as_array().expect("changes");
    assert_eq!(changes.len(), 1, "{jobs}");
    assert_eq!(
        (&changes[0]["id"], &changes[0]["state"]),
        (&json!(id), &json!("ready"))
    );
}

#[tokio::test]
async fn changes_of_another_namespace_are_not_sent() {
    let under = serve().await;
    let mut socket = hello(&under, OTHER).await;
    socket.say(json!({"type": "watch"})).await;
    assert_eq!(socket.json().await["type"], "watching");
    put(&under, "mail").await;
    let own = json!({"queue": "own"}).to_string();
    under.send_as(OTHER, "POST", "/v1/jobs", own).await;
    let reported = socket.json().await;
    assert_eq!(
        reported["changes"].as_array().map(Vec::len),
        Some(1),
        "{reported}"
    );
    assert_eq!(reported["changes"][0]["queue"], "own");
}

#[tokio::test]
async fn a_reader_that_missed_too_much_is_asked_to_read_anew() {
    let under = serve().await;
    let mut socket = hello(&under, READER).await;
    socket.say(json!({"type": "watch"})).await;
    assert_eq!(socket.json().await["type"], "watching");
    drop(socket);
    let many = serde_json::to_string(&vec![json!({"queue": "a"}); 1_000]).expect("JSON");
    for _ in 0..18 {
        under.send("POST", "/v1/jobs", many.clone()).await;
    }
    let mut socket = under.socket().await;
    socket
        .say(json!({"type": "hello", "token": READER, "after": 1}))
        .await;
    assert_eq!(socket.json().await["type"], "welcome");
    socket.say(json!({"type": "watch"})).await;
    assert_eq!(socket.json().await["type"], "watching");
    assert_eq!(socket.json().await["type"], "resync");
}

#[tokio::test]
async fn changes_to_states_that_are_not_watched_are_not_sent() {
    let under = serve().await;
    let mut socket = hello(&under, READER).await;
    let watch = json!({"type": "watch", "states": ["dead", "completed"]});
    socket.say(watch).await;
    assert_eq!(socket.json().await["type"], "watching");
    let mut ended = Vec::new();
    for outcome in ["completed", "cancelled", "dead"] {
        let id = put(&under, "mail").await;
        let claimed = under
            .send("POST", "/v1/claims", r#"{"queues":["mail"]}"#)
            .await;
        let token = claimed.json()["leases"][0]["token"].take();
        let settle = json!({"leases": [{"token": token, "settlements": [
            {"id": id, "attempt": 1, "outcome": outcome}]}]});
        under
            .send("POST", "/v1/settlements", settle.to_string())
            .await;
        ended.push(json!([id, outcome]));
    }
    ended.remove(1);
    let mut reported = Vec::new();
    while reported.len() < ended.len() {
        let frame = socket.json().await;
        let changes = frame["changes"]
            .as_array()
            .unwrap_or_else(|| panic!("{frame}"));
        assert!(!changes.is_empty(), "{frame}");
        reported.extend(
            changes
                .iter()
                .map(|change| json!([change["id"], change["state"]])),
        );
    }
    assert_eq!(reported, ended);
}

/// Of the namespace that the tokens are for.
async fn put_many(under: &Under, count: usize) -> Vec<JobId> {
    let jobs: Vec<_> = (0..count).map(|_| NewJob::new("flood", "1")).collect();
    let ids = jobs.iter().map(|job| job.id).collect();
    let shop = Namespace::new("shop").expect("a name");
    let put = under.engine.enqueue(&shop, jobs).await;
    put.expect("receipts");
    ids
}

#[tokio::test]
async fn in_a_flood_each_job_is_once_in_a_frame_as_it_is_then() {
    let under = serve().await;
    let mut socket = hello(&under, READER).await;
    socket.say(json!({"type": "watch"})).await;
    assert_eq!(socket.json().await["type"], "watching");
    const JOBS: usize = 300;
    let ids = put_many(&under, JOBS).await;
    for priority in 0..3 {
        let action = match priority {
            2 => Action::Cancel,
            _ => Action::Reschedule(Due::After(seconds(priority))),
        };
        let edit = Edit::new(
            Select::Targets(ids.iter().map(|id| Target::from(*id)).collect()),
            action,
        );
        let shop = Namespace::new("shop").expect("a name");
        under.engine.edit(&shop, edit).await.expect("edited");
    }
    let (mut states, mut reported, mut frames) = (BTreeMap::new(), 0, 0);
    while states
        .values()
        .filter(|state| **state == "cancelled")
        .count()
        < JOBS
    {
        let frame = socket.json().await;
        let changes = frame["changes"]
            .as_array()
            .unwrap_or_else(|| panic!("{frame}"));
        frames += 1;
        reported += changes.len();
        let in_frame: BTreeSet<_> = changes
            .iter()
            .map(|change| change["id"].to_string())
            .collect();
        assert_eq!(in_frame.len(), changes.len(), "a job twice in a frame");
        for change in changes {
            let state = change["state"].as_str().expect("a state").to_owned();
            states.insert(change["id"].to_string(), state);
        }
    }
    println!(
        "{reported} reported in {frames} frames of {} changes",
        JOBS * 4
    );
    assert_eq!(states.len(), JOBS);
    assert!(
        reported <= JOBS * frames && reported < JOBS * 3,
        "{reported} in {frames}"
    );
}

#[tokio::test]
async fn an_open_socket_gets_resync_after_a_gap_and_continues() {
    let under = serve().await;
    let mut socket = hello(&under, READER).await;
    socket.say(json!({"type": "watch"})).await;
    assert_eq!(socket.json().await["type"], "watching");
    // More than the engine remembers.
    for _ in 0..18 {
        put_many(&under, 1_000).await;
    }
    let mut frames = Vec::new();
    let gap = loop {
        let frame = socket.json().await;
        if frame["type"] == "resync" {
            break frame["cursor"].as_u64().expect("a cursor");
        }
        frames.push(frame);
        assert!(
            frames.len() < 18,
            "all of it was sent, or kept for the slow reader"
        );
    };
    let id = put(&under, "after").await;
    loop {
        let frame = socket.json().await;
        assert_eq!(frame["type"], "jobs", "{frame}");
        let changes = frame["changes"].as_array().expect("changes");
        assert!(changes.len() <= 1_000);
        assert!(frame["cursor"].as_u64() > Some(gap), "{frame}");
        if changes.iter().any(|change| change["id"] == id.as_str()) {
            return;
        }
    }
}

#[tokio::test]
async fn a_worker_claims_extends_and_settles_over_the_socket() {
    let under = serve().await;
    let mut socket = hello(&under, WORKER).await;
    socket
        .say(json!({"type": "claim", "ref": 1, "request": {"queues": ["mail"], "wait": "60s"}}))
        .await;
    socket.say(json!({"type": "ping"})).await;
    assert_eq!(socket.json().await["type"], "pong");
    let id = put(&under, "mail").await;
    let claimed = socket.json().await;
    assert_eq!(
        (&claimed["type"], &claimed["ref"]),
        (&json!("claimed"), &json!(1))
    );
    let lease = &claimed["answer"]["leases"][0];
    assert_eq!(lease["jobs"][0]["id"], id.as_str());
    let extend = json!({"leases": [{"token": lease["token"]}]});
    socket
        .say(json!({"type": "extend", "ref": "x", "request": extend}))
        .await;
    let extended = socket.json().await;
    assert_eq!(
        (&extended["type"], &extended["ref"]),
        (&json!("extended"), &json!("x"))
    );
    let settle = json!({"leases": [{"token": lease["token"], "settlements": [
        {"id": id, "attempt": 1, "outcome": "completed"}]}]});
    socket
        .say(json!({"type": "settle", "ref": 3, "request": settle}))
        .await;
    let settled = socket.json().await;
    assert_eq!(
        settled["answer"]["leases"][0]["settlements"][0]["state"],
        "completed"
    );
    let watch = json!({"type": "watch"});
    socket.say(watch).await;
    assert_eq!(socket.json().await["error"]["code"], "forbidden");
}

#[tokio::test]
async fn strange_frames_are_refused_and_large_ones_close() {
    let under = serve().await;
    let mut socket = hello(&under, ADMIN).await;
    for strange in [
        "{",
        "[]",
        r#"{"type":"dance"}"#,
        r#"{"type":"claim","ref":1}"#,
    ] {
        socket.0.send(Message::text(strange)).await.expect("sent");
        assert_eq!(socket.json().await["type"], "error", "{strange}");
    }
    // The other end may close before it has read all of this.
    let _ = socket.0.send(Message::text("x".repeat(9 << 20))).await;
    assert_eq!(socket.closed().await, 1009);
}

/// A socket with a settle under way that the engine does not answer yet.
async fn settling() -> (Under, Arc<Standin>, Socket) {
    let clock = ManualClock::new(START);
    let engine = Arc::new(Standin::new(clock.clone()).holds(Verb::Settle));
    let under = serve_engine(engine.clone(), clock).await;
    let mut socket = hello(&under, WORKER).await;
    let id = put(&under, "mail").await;
    socket
        .say(json!({"type": "claim", "request": {"queues": ["mail"]}}))
        .await;
    let lease = socket.json().await["answer"]["leases"][0].take();
    let settle = json!({"leases": [{"token": lease["token"], "settlements": [
        {"id": id, "attempt": 1, "outcome": "completed"}]}]});
    socket
        .say(json!({"type": "settle", "ref": 7, "request": settle}))
        .await;
    engine.is_asked().await;
    (under, engine, socket)
}

#[tokio::test]
async fn a_drain_answers_what_is_under_way_on_a_socket_before_it_closes_it() {
    let (under, engine, mut socket) = settling().await;
    let address = under.address;
    let drained = tokio::spawn(under.serving.drain(seconds(20)));
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    // It has begun, and waits for this.
    assert!(within(millis(100), socket.receive()).await.is_none());
    assert!(!drained.is_finished());
    engine.answer();
    let settled = socket.json().await;
    assert_eq!(settled["ref"], 7, "{settled}");
    let verdict = &settled["answer"]["leases"][0]["settlements"][0]["verdict"];
    assert_eq!(verdict, "settled", "{settled}");
    assert_eq!(socket.closed().await, 1001);
    assert!(drained.await.expect("no panic"));
}

#[tokio::test]
async fn a_drain_waits_for_a_socket_no_longer_than_it_may() {
    let (under, _engine, mut socket) = settling().await;
    assert!(!under.serving.drain(millis(100)).await);
    assert_eq!(socket.closed().await, 1001);
}

#[tokio::test]
async fn a_drain_closes_a_socket_that_has_not_said_hello() {
    let under = serve().await;
    let mut socket = under.socket().await;
    let drained = tokio::spawn(under.serving.drain(seconds(20)));
    assert_eq!(socket.closed().await, 1001);
    assert!(drained.await.expect("no panic"));
}

#[tokio::test]
async fn a_drain_closes_sockets() {
    let under = serve().await;
    let mut socket = hello(&under, ADMIN).await;
    let drained = tokio::spawn(under.serving.drain(seconds(10)));
    assert_eq!(socket.closed().await, 1001);
    assert!(drained.await.expect("no panic"));
}
