//! Bounds of what is read before anybody knows what it is for: exactly at each, and one byte more.

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{Socket, Under, WORKER, serve};

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
async fn told(under: &Under, bytes: usize) -> String {
    let (before, after) = (r#"{"queue":"a","priority":"high","payload":""#, r#""}"#);
    let filled = "x".repeat(bytes - before.len() - after.len());
    let body = format!("{before}{filled}{after}");
    let reply = under.send("POST", "/v1/jobs", body).await;
    assert_eq!(reply.status, 422, "{}", reply.body);
    let told: Value = reply.json();
    told["error"]["message"]
        .as_str()
        .expect("a text")
        .to_owned()
}

#[tokio::test]
async fn a_mistake_is_looked_up_in_64_kib_at_most() {
    let under = serve().await;
    let at_most = told(&under, 64 << 10).await;
    assert!(
        at_most.contains("priority") && at_most.contains("\"high\""),
        "{at_most}"
    );
    let more = told(&under, (64 << 10) + 1).await;
    assert!(
        more.contains("priority") && !more.contains("high"),
        "{more}"
    );
}
