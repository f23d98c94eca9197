//! Memory of many open WebSockets.

use punctual::time::Stopwatch;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::http::{Connection, find};
use crate::server::{Server, TOKEN};
use crate::{Arguments, announce, figure, rounded};

pub(crate) async fn measure(arguments: &Arguments, sockets: usize) {
    let server = Server::start(&arguments.punctual, "memory:");
    let before = server.resident_bytes();
    let watch = Stopwatch::start();
    let mut open = Vec::new();
    for at in 0..sockets {
        let mut connection = Connection::open(server.address).await;
        upgrade(&mut connection, at).await;
        open.push(connection);
    }
    let took = watch.elapsed().as_secs_f64();
    let after = server.resident_bytes();
    announce(
        &json!({"sockets": open.len(), "opened_per_s": rounded(sockets as f64 / took),
        "resident_mb_before": rounded(before / 1e6),
        "bytes_each": rounded((after - before) / sockets as f64)}),
    );
    figure(
        "MB with idle WebSockets",
        after / 1e6,
        "under 400 with 10000",
    );
}

/// Says hello, and what to receive; awaits both answers.
async fn upgrade(connection: &mut Connection, at: usize) {
    let head = "GET /v1/events HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let hello = json!({"type": "hello", "token": TOKEN}).to_string();
    let queue = format!("queue-{}", at % 100);
    let wish = json!({"type": "watch", "queues": [queue]}).to_string();
    let sent = [head.as_bytes().to_vec(), frame(&hello), frame(&wish)];
    let mut received = Vec::new();
    for (bytes, answer) in sent.iter().zip([&b"\r\n\r\n"[..], b"welcome", b"watching"]) {
        connection.stream.write_all(bytes).await.expect("sent");
        while find(&received, answer).is_none() {
            let read = connection.stream.read_buf(&mut received).await;
            assert!(read.expect("an answer") > 0, "the socket was closed");
        }
    }
}

/// A text as a client sends it: masked, here by nothing.
fn frame(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).ok().filter(|length| *length < 126);
    let mut bytes = vec![0x81, 0x80 | length.expect("a short text"), 0, 0, 0, 0];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}
