//! A small HTTP client that makes one request at a time.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::TOKEN;

/// A kept connection, one request at a time.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Self {
            stream,
            buffer: Vec::with_capacity(64 << 10),
        }
    }

    /// Sends a request as it is; the status and the body of the answer, which has a length.
    pub(crate) async fn send(&mut self, request: &[u8]) -> (u16, &[u8]) {
        self.stream.write_all(request).await.expect("it is sent");
        self.buffer.clear();
        let head = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
            self.more().await;
        };
        let text = std::str::from_utf8(&self.buffer[..head]).expect("a head");
        let status = text[9..12].parse().expect("a status");
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse::<usize>().ok())?
        });
        let length = length.expect("an answer with a length");
        while self.buffer.len() < head + length {
            self.more().await;
        }
        (status, &self.buffer[head..head + length])
    }

    async fn more(&mut self) {
        let read = self.stream.read_buf(&mut self.buffer).await;
        assert!(read.expect("an answer") > 0, "the connection was cut");
    }

    pub(crate) async fn get(&mut self, path: &str) -> serde_json::Value {
        let (status, body) = self.send(&request("GET", path, "", "")).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(body));
        serde_json::from_slice(body).expect("JSON")
    }
}

/// A request as bytes, with the headers that a client sends.
pub(crate) fn request(method: &str, path: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

pub(crate) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
