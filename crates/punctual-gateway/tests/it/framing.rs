//! Messages whose length two readers could understand differently, byte by byte over a socket.

use punctual::time::{seconds, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{ADMIN, Under, serve};

const JOB: &str = r#"{"queue":"smuggled"}"#;

/// A head of an enqueue with these lines in it, the body behind it, and a second request behind
/// that: what a reader that got the length wrong would answer too.
fn twice(lines: &str, body: &str) -> Vec<u8> {
    let usual = format!(
        "host: localhost\r\nauthorization: Bearer {ADMIN}\r\ncontent-type: application/json\r\n"
    );
    let second = format!(
        "POST /v1/jobs HTTP/1.1\r\n{usual}content-length: {}\r\n\r\n{JOB}",
        JOB.len()
    );
    format!("POST /v1/jobs HTTP/1.1\r\n{usual}{lines}\r\n{body}{second}").into_bytes()
}

/// What the gateway says until it closes, which it must by itself.
async fn said(under: &Under, bytes: &[u8]) -> String {
    let talk = async {
        let stream = TcpStream::connect(under.address).await;
        let mut stream = stream.expect("a connection");
        // It may close before everything is sent.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    within(seconds(20), talk)
        .await
        .unwrap_or_else(|| panic!("not closed after {}", String::from_utf8_lossy(bytes)))
}

async fn jobs(under: &Under) -> usize {
    let queues = under.get("/v1/queues").await.json();
    queues["queues"].as_array().expect("a list").len()
}

#[tokio::test]
async fn a_message_of_two_lengths_is_refused_and_the_connection_closed() {
    let under = serve().await;
    let length = JOB.len();
    let chunked = format!("{length:x}\r\n{JOB}\r\n0\r\n\r\n");
    let cases: Vec<(String, &str)> = vec![
        (
            format!("content-length: {length}\r\ncontent-length: 4\r\n"),
            JOB,
        ),
        (
            format!("content-length: {length}\r\ncontent-length: {length}\r\n"),
            JOB,
        ),
        (format!("content-length: {length}, {length}\r\n"), JOB),
        (
            format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n"),
            &chunked,
        ),
        (
            format!("transfer-encoding: chunked\r\ncontent-length: {length}\r\n"),
            &chunked,
        ),
        ("content-length: +20\r\n".into(), JOB),
        ("content-length: -20\r\n".into(), JOB),
        ("content-length: 0x14\r\n".into(), JOB),
        ("content-length: 18446744073709551616\r\n".into(), JOB),
        ("content-length:\r\n".into(), JOB),
        ("transfer-encoding: identity\r\n".into(), JOB),
        ("transfer-encoding: chunked, identity\r\n".into(), &chunked),
        ("transfer-encoding: xchunked\r\n".into(), &chunked),
        (format!("content-length : {length}\r\n"), JOB),
        (format!(" content-length: {length}\r\n"), JOB),
        (
            format!("content-length: {length}\r\nx: a\rtransfer-encoding: chunked\r\n"),
            JOB,
        ),
        (format!("content-length: {length}\r\nx: \0\r\n"), JOB),
        (format!("content-length: {length}\r\nx y: 1\r\n"), JOB),
    ];
    for (lines, body) in cases {
        let answer = said(&under, &twice(&lines, body)).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{lines:?}: {answer:?}");
        assert_eq!(
            answer.matches("HTTP/1.1 ").count(),
            1,
            "{lines:?}: {answer}"
        );
        assert_eq!(jobs(&under).await, 0, "{lines:?} enqueued a job");
    }
}

#[tokio::test]
async fn a_bare_line_feed_is_refused_and_the_connection_closed() {
    let under = serve().await;
    let length = JOB.len();
    let heads = [
        format!("content-length: {length}\nx: y\r\n"),
        format!("x: y\ncontent-length: {length}\r\n"),
        format!("content-length: {length}\r\n\n{JOB}\r\n"),
    ];
    for lines in heads {
        let answer = said(&under, &twice(&lines, JOB)).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{lines:?}: {answer:?}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{lines:?}");
    }
    let first = format!(
        "GET /v1/queues HTTP/1.1\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\r\n"
    );
    for bytes in [
        first.clone(),
        first.replace("\r\n", "\n"),
        format!("\n{first}"),
    ] {
        let answer = said(&under, bytes.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{bytes:?}: {answer:?}");
    }
    assert_eq!(jobs(&under).await, 0, "one of them enqueued a job");
}

#[tokio::test]
async fn a_request_of_two_hosts_is_refused() {
    let under = serve().await;
    let rest = format!("authorization: Bearer {ADMIN}\r\nconnection: close\r\n\r\n");
    for (start, status) in [
        ("GET /v1/queues HTTP/1.1\r\nhost: localhost\r\n", 200),
        (
            "GET http://localhost/v1/queues HTTP/1.1\r\nhost: LOCALHOST\r\n",
            200,
        ),
        (
            "GET /v1/queues HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n",
            400,
        ),
        (
            "GET /v1/queues HTTP/1.1\r\nhost: localhost\r\nHost: evil.example\r\n",
            400,
        ),
        (
            "GET http://evil.example/v1/queues HTTP/1.1\r\nhost: localhost\r\n",
            400,
        ),
        (
            "GET http://localhost:1/v1/queues HTTP/1.1\r\nhost: localhost\r\n",
            400,
        ),
        (
            "GET http://u@localhost/v1/queues HTTP/1.1\r\nhost: localhost\r\n",
            400,
        ),
        (
            "GET http://evil.example/v1/queues HTTP/1.1\r\nhost: evil.example\r\n",
            403,
        ),
    ] {
        let answer = said(&under, format!("{start}{rest}").as_bytes()).await;
        let wanted = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&wanted), "{start:?}: {answer:?}");
        assert_eq!(
            answer.contains("invalid_request"),
            status == 400,
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_body_whose_chunks_are_no_good_puts_nothing_in() {
    let under = serve().await;
    let length = JOB.len();
    let cases = [
        format!("zz\r\n{JOB}\r\n0\r\n\r\n"),
        format!("-{length:x}\r\n{JOB}\r\n0\r\n\r\n"),
        format!("+{length:x}\r\n{JOB}\r\n0\r\n\r\n"),
        format!("0x{length:x}\r\n{JOB}\r\n0\r\n\r\n"),
        format!("ffffffffffffffff1\r\n{JOB}\r\n0\r\n\r\n"),
        format!("{length:x}\r\n{JOB}xx\r\n0\r\n\r\n"),
        format!("{:x}\r\n{JOB}\r\n0\r\n\r\n", length - 1),
        format!("{length:x}\n{JOB}\r\n0\r\n\r\n"),
        format!("{length:x};{}\r\n{JOB}\r\n0\r\n\r\n", "x".repeat(100_000)),
        format!(
            "{length:x}\r\n{JOB}\r\n0\r\nx: {}\r\n\r\n",
            "y".repeat(100_000)
        ),
    ];
    for body in cases {
        let answer = said(&under, &twice("transfer-encoding: chunked\r\n", &body)).await;
        let shown = &body[..body.len().min(60)];
        assert!(answer.starts_with("HTTP/1.1 400 "), "{shown:?}: {answer:?}");
        assert_eq!(
            answer.matches("HTTP/1.1 ").count(),
            1,
            "{shown:?}: {answer}"
        );
        assert_eq!(jobs(&under).await, 0, "{shown:?} enqueued a job");
    }
}

#[tokio::test]
async fn a_body_that_is_cut_off_puts_nothing_in() {
    let under = serve().await;
    for lines in ["content-length: 21\r\n", "transfer-encoding: chunked\r\n"] {
        let body = match lines.starts_with('t') {
            true => format!("{:x}\r\n{JOB}\r\n", JOB.len()),
            false => JOB.to_owned(),
        };
        let head = format!(
            "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\
             content-type: application/json\r\n{lines}\r\n{body}"
        );
        let mut stream = TcpStream::connect(under.address)
            .await
            .expect("a connection");
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.shutdown().await.expect("half closed");
        let mut answer = String::new();
        let read = within(seconds(20), stream.read_to_string(&mut answer)).await;
        let _ = read.expect("closed");
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400 "),
            "{lines:?}: {answer}"
        );
        assert_eq!(jobs(&under).await, 0, "{lines:?} enqueued a job");
    }
}

#[tokio::test]
async fn heads_beyond_their_bounds_are_refused() {
    let under = serve().await;
    let usual = format!("host: localhost\r\nauthorization: Bearer {ADMIN}\r\n");
    let cases = [
        format!(
            "GET /v1/queues HTTP/1.1\r\n{usual}x: {}\r\n\r\n",
            "x".repeat(200_000)
        ),
        format!("GET /{} HTTP/1.1\r\n{usual}\r\n", "x".repeat(200_000)),
    ];
    for head in cases {
        let answer = said(&under, head.as_bytes()).await;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(
            ["431", "414"].contains(&status),
            "{:?}: {answer:?}",
            &head[..40]
        );
    }
    for line in [
        "GET /v1/queues HTTP/3.0",
        "GET  /v1/queues HTTP/1.1",
        "GET /v1/queues",
        "\u{1}",
    ] {
        let answer = said(&under, format!("{line}\r\n{usual}\r\n").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{line:?}: {answer:?}");
    }
}
