//! Bounds of what is read before it is known what it is for: exactly at each, and one byte more.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::support::{READER, Socket, Under, WORKER, serve};

/// A socket of a token.
async fn welcomed(under: &Under, token: &str) -> Socket {
    let mut socket = under.socket().await;
    socket.say(json!({"type": "hello", "token": token})).await;
    assert_eq!(socket.json().await["type"], "welcome");
    socket
}

/// Why it is closed.
async fn farewell(socket: &mut Socket) -> (u16, String) {
    match socket.receive().await {
        Message::Close(Some(frame)) => (frame.code.into(), frame.reason.to_string()),
        other => panic!("not closed: {other:?}"),
    }
}

/// The begin of a frame of 8 MiB: so many bytes of it, and no more.
async fn begin(socket: &mut Socket, bytes: usize) {
    let mut frame = vec![0x81, 0xff];
    frame.extend((8_u64 << 20).to_be_bytes());
    frame.resize(frame.len() + 4 + bytes, 0);
    let sent = socket.0.get_mut().write_all(&frame).await;
    sent.expect("sent");
}

#[tokio::test]
async fn of_a_long_hello_no_more_is_read_than_a_hello_may_have() {
    let under = serve().await;
    let mut socket = under.socket().await;
    begin(&mut socket, 48 << 10).await;
    let no_hello = "the first frame is not hello".to_owned();
    assert_eq!(farewell(&mut socket).await, (4401, no_hello));
}

/// A ping of so many bytes, as JSON.
fn ping(bytes: usize) -> Message {
    let text = r#"{"type":"ping"}"#;
    Message::text(text.to_owned() + &" ".repeat(bytes - text.len()))
}

#[tokio::test]
async fn frames_without_the_scope_work_have_256_kib_at_most() {
    let under = serve().await;
    let mut reader = welcomed(&under, READER).await;
    for _ in 0..10 {
        reader.0.send(ping(256 << 10)).await.expect("sent");
        assert_eq!(reader.json().await["type"], "pong");
    }
    reader.0.send(ping((256 << 10) + 1)).await.expect("sent");
    assert_eq!(reader.closed().await, 1009);
    let mut worker = welcomed(&under, WORKER).await;
    worker.0.send(ping(8 << 20)).await.expect("sent");
    assert_eq!(worker.json().await["type"], "pong");
    // Nor is one put together first.
    let mut reader = welcomed(&under, READER).await;
    begin(&mut reader, 600 << 10).await;
    assert_eq!(reader.closed().await, 1009);
}

#[tokio::test]
async fn pings_do_not_raise_the_bound_of_the_frame_around_them() {
    let under = serve().await;
    let mut reader = welcomed(&under, READER).await;
    for _ in 0..6_000 {
        let ping = Message::Ping(vec![7; 125].into());
        reader.0.send(ping).await.expect("sent");
        let pong = reader.0.next().await.expect("a frame");
        assert!(pong.expect("a sound one").is_pong());
    }
    let mut is_first = true;
    let part = vec![b' '; 32 << 10];
    let mut parts = 0;
    // It may be closed before the last of them is sent.
    while parts < 40 {
        let code = if is_first { Data::Text } else { Data::Continue };
        is_first = false;
        let frame = Frame::message(part.clone(), OpCode::Data(code), false);
        let sent = reader.0.send(Message::Frame(frame)).await;
        if sent.is_err() || reader.0.send(Message::Ping(vec![7].into())).await.is_err() {
            break;
        }
        parts += 1;
    }
    let closed = async {
        loop {
            match reader.receive().await {
                Message::Pong(_) => {}
                Message::Close(Some(frame)) => return u16::from(frame.code),
                other => panic!("not closed: {other:?}"),
            }
        }
    };
    assert_eq!(closed.await, 1009);
}

#[tokio::test]
async fn a_watch_names_queues_that_there_can_be_each_once() {
    let under = serve().await;
    let mut reader = welcomed(&under, READER).await;
    let long = "q".repeat(129);
    for bad in ["", "a b", &long] {
        reader
            .say(json!({"type": "watch", "queues": ["mail", bad]}))
            .await;
        let reported = reader.json().await;
        assert_eq!(reported["error"]["code"], "invalid_name", "{reported}");
    }
    let named = |names: usize| {
        (0..names)
            .map(|name| format!("q{name}"))
            .collect::<Vec<_>>()
    };
    let states = vec!["ready"; 5_000];
    for (queues, kind) in [
        (named(1_000), "watching"),
        (named(1_001), "error"),
        (vec!["mail".to_owned(); 5_000], "watching"),
    ] {
        reader
            .say(json!({"type": "watch", "queues": queues, "states": states}))
            .await;
        assert_eq!(reader.json().await["type"], kind);
    }
    let body = json!({"queue": "mail"}).to_string();
    assert_eq!(under.send("POST", "/v1/jobs", body).await.status, 201);
    let reported = reader.json().await;
    assert_eq!(reported["changes"][0]["queue"], "mail", "{reported}");
}

/// A hello of so many bytes, to a socket of its own.
async fn hello(under: &Under, bytes: usize) -> Socket {
    let mut text = json!({"type": "hello", "token": WORKER}).to_string();
    text.push_str(&" ".repeat(bytes - text.len()));
    let mut socket = under.socket().await;
    socket.0.send(Message::text(text)).await.expect("sent");
    socket
}

#[tokio::test]
async fn a_hello_has_16_kib_at_most() {
    let under = serve().await;
    let mut at_most = hello(&under, 16 << 10).await;
    assert_eq!(at_most.json().await["type"], "welcome");
    let mut more = hello(&under, (16 << 10) + 1).await;
    assert_eq!(more.closed().await, 4401);
}

#[tokio::test]
async fn a_ref_has_256_bytes_at_most() {
    let under = serve().await;
    let mut socket = hello(&under, 100).await;
    assert_eq!(socket.json().await["type"], "welcome");
    for (letters, kind) in [(254, "claimed"), (255, "error")] {
        // With its quotes.
        let reference = "r".repeat(letters);
        socket
            .say(json!({"type": "claim", "ref": reference, "request": {"queues": ["a"]}}))
            .await;
        let answer = socket.json().await;
        assert_eq!(answer["type"], kind, "{letters}: {answer}");
        match kind {
            "claimed" => assert_eq!(answer["ref"], reference),
            _ => assert!(answer.to_string().contains("256 bytes"), "{answer}"),
        }
    }
}

/// What an error says of a mistake in a body of so many bytes.
async fn reported(under: &Under, bytes: usize) -> String {
    let (before, after) = (r#"{"queue":"a","priority":"high","payload":""#, r#""}"#);
    let filled = "x".repeat(bytes - before.len() - after.len());
    let body = format!("{before}{filled}{after}");
    let reply = under.send("POST", "/v1/jobs", body).await;
    assert_eq!(reply.status, 422, "{}", reply.body);
    let reported: Value = reply.json();
    reported["error"]["message"]
        .as_str()
        .expect("a text")
        .to_owned()
}

#[tokio::test]
async fn a_mistake_is_searched_in_64_kib_at_most() {
    let under = serve().await;
    let at_most = reported(&under, 64 << 10).await;
    assert!(
        at_most.contains("priority") && at_most.contains("\"high\""),
        "{at_most}"
    );
    let more = reported(&under, (64 << 10) + 1).await;
    assert!(
        more.contains("priority") && !more.contains("high"),
        "{more}"
    );
}
