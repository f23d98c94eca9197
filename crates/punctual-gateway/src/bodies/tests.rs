//! Tests of the bounds of bodies, by their counts and over connections in memory.

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use punctual::MemoryEngine;
use punctual::time::{millis, seconds, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::{Bodies, BodyPermit, PER_NAMESPACE, PER_TOKEN, UNCOUNTED};
use crate::http::{BodyOwner, Peer};
use crate::listener::test_transport::TestTransport;
use crate::{Gateway, GatewayLimits, Scope, Token, Tokens};

const MIB: usize = 1 << 20;

fn bodies(each: usize, all: usize) -> Arc<Bodies> {
    let mut limits = GatewayLimits::default();
    (limits.body_bytes_per_token, limits.body_bytes) = (each, all);
    limits.body_bytes_per_namespace = 100;
    Bodies::new(&limits, metrics::Gauge::noop())
}

fn begun_by(bodies: &Arc<Bodies>, namespace: &str, token: &str) -> BodyPermit {
    bodies.begin(BodyOwner {
        namespace: namespace.into(),
        token: token.into(),
    })
}

fn taken(bodies: &Bodies) -> usize {
    bodies.taken.lock().expect("no panic").all
}

#[test]
fn a_token_and_the_process_have_a_bound_each_and_get_back_what_is_dropped() {
    let bodies = bodies(100, 150);
    let (mut one, mut two, mut other) = (
        begun_by(&bodies, "a", "x"),
        begun_by(&bodies, "a", "x"),
        begun_by(&bodies, "b", "x"),
    );
    one.takes(UNCOUNTED + 60).expect("there is room");
    let refused = two.takes(UNCOUNTED + 41).expect_err("over the token's");
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
        (429, "too_many_bodies")
    );
    assert!(
        refused
            .shown_hint()
            .is_some_and(|hint| hint.contains("body_bytes_per_token"))
    );
    two.takes(UNCOUNTED + 40).expect("as many as it may");
    let refused = other.takes(UNCOUNTED + 51).expect_err("over the process's");
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
        (503, "too_many_bodies")
    );
    other.takes(UNCOUNTED).expect("small ones are not counted");
    assert_eq!(taken(&bodies), 100);
    two.takes(UNCOUNTED).expect("less is never refused");
    other.takes(UNCOUNTED + 51).expect("there is room again");
    drop((one, two, other));
    assert_eq!(taken(&bodies), 0);
    let taken = bodies.taken.lock().expect("no panic");
    assert!(taken.by_token.is_empty() && taken.by_namespace.is_empty());
}

#[test]
fn several_tokens_of_a_namespace_leave_room_for_other_namespaces() {
    let bodies = bodies(60, 150);
    let mut permits = Vec::new();
    for (token, room) in [("x", 60), ("y", 40), ("z", 0)] {
        let mut permit = begun_by(&bodies, "a", token);
        permit.takes(UNCOUNTED + room).expect("there is room");
        let refused = permit.takes(UNCOUNTED + room + 1).expect_err("no more");
        let name = if token == "x" {
            PER_TOKEN
        } else {
            PER_NAMESPACE
        };
        let hint = refused.shown_hint().expect("a hint");
        assert!(hint.contains(name), "{token}: {hint}");
        assert_eq!(refused.status.as_u16(), 429, "{token}");
        permits.push(permit);
    }
    let mut other = begun_by(&bodies, "b", "x");
    other.takes(UNCOUNTED + 50).expect("there is room");
}

const TOKEN: &str = "0123456789abcdef";

fn transport(limits: GatewayLimits) -> (TestTransport, Arc<Bodies>) {
    let token = Token::new(TOKEN, Default::default(), &[Scope::Enqueue]).expect("a token");
    let engine = Arc::new(MemoryEngine::new());
    let shared = Gateway::new(engine, Tokens::new(vec![token]))
        .limits(limits)
        .shared();
    let bodies = shared.bodies.clone();
    (TestTransport::to(shared), bodies)
}

/// A request whose body is begun: so many bytes of as many as it names.
async fn begun(
    transport: &TestTransport,
    path: &str,
    content: &str,
    length: usize,
    sent: usize,
) -> DuplexStream {
    let mut stream = transport.connect_with(1 << 16, Peer::Network([203, 0, 113, 7].into()));
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: {content}\r\ncontent-length: {length}\r\n\r\n"
    );
    let writing = async {
        stream.write_all(head.as_bytes()).await?;
        let part = vec![b' '; 1 << 16];
        let mut left = sent;
        while left > 0 {
            let here = left.min(part.len());
            stream.write_all(&part[..here]).await?;
            left -= here;
        }
        std::io::Result::Ok(())
    };
    // One that is refused reads no more.
    let _ = within(seconds(20), writing).await;
    stream
}

async fn answer(stream: &mut DuplexStream) -> String {
    let mut reported = vec![0; 1 << 10];
    let read = within(seconds(20), stream.read(&mut reported)).await;
    let read = read.expect("an answer in time").expect("in order");
    String::from_utf8_lossy(&reported[..read]).into_owned()
}

#[tokio::test]
async fn slow_bodies_stay_within_the_bound_and_others_are_served() {
    let (transport, bodies) = transport(GatewayLimits::default());
    for (path, content) in [
        ("/v1/jobs", "application/json"),
        ("/v1/bulk", "application/x-ndjson"),
    ] {
        let mut slow = Vec::new();
        let mut most = 0;
        for _ in 0..120 {
            // Of a line of /v1/bulk that is all that there may be.
            let sent = if path == "/v1/bulk" { 3 * MIB } else { 7 * MIB };
            slow.push(begun(&transport, path, content, 7 * MIB + 1, sent).await);
            most = most.max(taken(&bodies));
        }
        let bound = GatewayLimits::default().body_bytes_per_token;
        assert!(most <= bound, "{path}: {most} bytes");
        assert!(most > bound / 2, "{path}: {most} bytes are few");
        let refused = answer(slow.last_mut().expect("the last one")).await;
        assert!(refused.contains("too_many_bodies"), "{path}: {refused}");
        let small = r#"{"queue":"mail"}"#;
        let mut one = begun(&transport, "/v1/jobs", "application/json", small.len(), 0).await;
        one.write_all(small.as_bytes()).await.expect("sent");
        let served = answer(&mut one).await;
        assert!(served.starts_with("HTTP/1.1 201"), "{path}: {served}");
        drop(slow);
        let given_back = async {
            while taken(&bodies) > 0 {
                tokio::task::yield_now().await;
            }
        };
        within(seconds(20), given_back)
            .await
            .expect("all is given back");
    }
}

#[tokio::test]
async fn a_body_that_says_it_is_too_long_is_refused_before_it_comes() {
    let (transport, _) = transport(GatewayLimits::default());
    let mut one = begun(&transport, "/v1/jobs", "application/json", 8 * MIB + 1, 0).await;
    let refused = answer(&mut one).await;
    assert!(
        refused.starts_with("HTTP/1.1 413") && refused.contains("body_too_large"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_body_that_never_pauses_for_long_is_over_in_time_all_the_same() {
    let limits = GatewayLimits {
        body: millis(300),
        ..GatewayLimits::default()
    };
    let (transport, _) = transport(limits);
    for (path, content) in [
        ("/v1/jobs", "application/json"),
        ("/v1/bulk", "application/x-ndjson"),
    ] {
        let one = begun(&transport, path, content, 8 * MIB, 1).await;
        let (mut reading, mut writing) = tokio::io::split(one);
        let dripping = async {
            // A byte whenever there is room for it, and never a whole line.
            while writing.write_all(b"x").await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        let mut reported = String::new();
        let reading = async {
            let mut byte = [0; 1 << 10];
            while !reported.contains("request_timeout") {
                let read = reading.read(&mut byte).await.expect("in order");
                assert!(read > 0, "{path}: closed after {reported}");
                reported += &String::from_utf8_lossy(&byte[..read]);
            }
        };
        let over = within(seconds(20), async {
            tokio::select! {
                () = reading => {}
                () = async { dripping.await; std::future::pending().await } => {}
            }
        });
        over.await.expect("it is over in time");
    }
}

/// A socket that has sent so many bytes of a frame of 200 KiB.
async fn begun_frame(transport: &TestTransport, sent: usize) -> WebSocketStream<DuplexStream> {
    let stream = transport.connect_with(1 << 16, Peer::Network([203, 0, 113, 7].into()));
    let opened = client_async("ws://localhost/v1/events", stream).await;
    let (mut socket, _) = opened.expect("a socket");
    let hello = format!(r#"{{"type":"hello","token":"{TOKEN}"}}"#);
    socket.send(Message::text(hello)).await.expect("sent");
    let welcome = socket.next().await.expect("a frame").expect("in order");
    assert!(welcome.to_text().expect("text").contains("welcome"));
    let mut frame = vec![0x81, 0xff];
    frame.extend((200_u64 << 10).to_be_bytes());
    frame.resize(frame.len() + 4 + sent, 0);
    // A socket that is closed reads no more.
    let _ = socket.get_mut().write_all(&frame).await;
    socket
}

#[tokio::test]
async fn a_hundred_and_twenty_slow_frames_stay_within_the_bound() {
    let limits = GatewayLimits {
        body_bytes_per_token: 4 * MIB,
        ..GatewayLimits::default()
    };
    let (transport, bodies) = transport(limits);
    let (mut sockets, mut most) = (Vec::new(), 0);
    for _ in 0..120 {
        let socket = within(seconds(20), begun_frame(&transport, 150 << 10)).await;
        sockets.push(socket.expect("it is open in time"));
        most = most.max(taken(&bodies));
    }
    assert!(most <= 4 * MIB, "{most} bytes");
    assert!(most > 2 * MIB, "{most} bytes are few");
    let last = sockets.last_mut().expect("the last one");
    let closed = within(seconds(20), last.next()).await.expect("in time");
    match closed.expect("a frame").expect("in order") {
        Message::Close(Some(close)) => assert_eq!(u16::from(close.code), 1013),
        other => panic!("not closed: {other:?}"),
    }
    drop(sockets);
    let given_back = async {
        while taken(&bodies) > 0 {
            tokio::task::yield_now().await;
        }
    };
    let given_back = within(seconds(20), given_back).await;
    given_back.expect("all is given back");
}
