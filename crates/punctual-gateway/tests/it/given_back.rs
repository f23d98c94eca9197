//! Tests of the gateway over HTTP: given back.

use std::sync::Arc;
use std::time::Duration;

use punctual::time::{ManualClock, millis, seconds, within};
use punctual::{Engine, JobId, JobState, Namespace, NewJob};
use punctual_gateway::{Gateway, GatewayLimits, Tokens};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::standin::{Standin, Verb};
use crate::support::{START, Socket, Under, WORKER, serve_engine, serving};

fn shop() -> Namespace {
    Namespace::new("shop").expect("a name")
}

/// A job is claimed for a client that hangs up before the answer, which has not come yet.
async fn hung_up(claim: &str) -> (Under, Arc<Standin>, JobId) {
    let clock = ManualClock::new(START);
    let engine = Arc::new(Standin::new(clock.clone()).holds(Verb::Claim));
    let under = serve_engine(engine.clone(), clock).await;
    let job = NewJob::new("a", "1");
    let id = job.id;
    engine.enqueue(&shop(), vec![job]).await.expect("a receipt");
    let mut stream = sent(&under, claim).await;
    engine.is_asked().await;
    // The gateway closes too once it knows that no client listens.
    stream.shutdown().await.expect("it is open");
    let mut received = Vec::new();
    stream
        .read_to_end(&mut received)
        .await
        .expect("it is closed");
    assert!(received.is_empty(), "{received:?}");
    (under, engine, id)
}

async fn sent(under: &Under, claim: &str) -> TcpStream {
    let mut stream = TcpStream::connect(under.address).await.expect("it serves");
    let request = format!(
        "POST /v1/claims HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {WORKER}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{claim}",
        claim.len()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream
}

const PATIENT: Duration = seconds(10);

#[tokio::test]
async fn jobs_claimed_for_a_closed_connection_are_handed_back() {
    let (_under, engine, id) = hung_up(r#"{"queues":["a"]}"#).await;
    let state = async || {
        let got = engine.get(&shop(), vec![id.into()], false).await;
        got.expect("get")[0].as_ref().expect("it is there").state()
    };
    assert_eq!(state().await, JobState::Active);
    engine.answer();
    let comes = async {
        while state().await != JobState::Ready {
            tokio::task::yield_now().await;
        }
    };
    within(PATIENT, comes).await.expect("it is ready again");
}

#[tokio::test]
async fn a_lease_for_a_socket_that_takes_nothing_is_handed_back() {
    let mut limits = GatewayLimits::default();
    limits.reader = millis(200);
    let under = serving(|engine| Gateway::new(engine, Tokens::open()).limits(limits)).await;
    let jobs = (0..16).map(|_| NewJob::new("a", "x".repeat(240 << 10)));
    let jobs: Vec<_> = jobs.collect();
    let first = jobs[0].id;
    for job in jobs {
        let enqueued = under.engine.enqueue(&Namespace::default(), vec![job]).await;
        enqueued.expect("a receipt");
    }
    let stream = TcpSocket::new_v4().expect("a socket");
    stream.set_recv_buffer_size(4 << 10).expect("it is new");
    let stream = stream.connect(under.address).await.expect("it serves");
    let uri = format!("ws://{}/v1/events", under.address);
    let socket = tokio_tungstenite::client_async(uri, stream).await;
    let mut socket = Socket(socket.expect("a socket").0);
    socket.say(json!({"type": "hello"})).await;
    assert_eq!(socket.json().await["type"], "welcome");
    let request = json!({"queues": ["a"], "limit": 16});
    socket
        .say(json!({"type": "claim", "ref": 1, "request": request}))
        .await;
    let namespace = Namespace::default();
    // The clock stands still: no lease ends.
    let is_handed_back = async || {
        let got = under
            .engine
            .get(&namespace, vec![first.into()], false)
            .await;
        let got = got.expect("get").remove(0).expect("there");
        got.state() == JobState::Ready && got.job().is_some_and(|job| job.attempt == 1)
    };
    let comes = async {
        while !is_handed_back().await {
            tokio::task::yield_now().await;
        }
    };
    within(seconds(60), comes).await.expect("it is handed back");
    let claim = r#"{"queues":["a"]}"#;
    let claimed = under.send("POST", "/v1/claims", claim).await.json();
    assert_eq!(claimed["leases"][0]["jobs"][0]["attempt"], 2);
}

#[tokio::test]
async fn a_claim_that_may_come_again_gets_its_lease_then() {
    let claim = r#"{"queues":["a"],"nonce":"00000000000000aa",
        "worker":{"id":"0f1e2d3c-0000-4000-8000-000000000001"}}"#;
    let (under, engine, _) = hung_up(claim).await;
    // One answer: no other claim waits for the first.
    engine.answer();
    let again = within(PATIENT, under.send_as(WORKER, "POST", "/v1/claims", claim)).await;
    let lease = again.expect("an answer").json();
    assert_eq!(lease["leases"][0]["jobs"][0]["attempt"], 1, "{lease}");
}
