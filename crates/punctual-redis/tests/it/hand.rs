//! Calls by hand: words over a plain socket, one line of JSON back.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use punctual::engine::Target;
use punctual::{Engine, JobId};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;
use serde_json::Value;

use crate::client::{connect, here};

/// The shard of every call that names no other.
pub(crate) const SHARD: &str = "punctual:{default/0}";

/// A server with the library, and an engine beside the hand.
pub(crate) struct Hand {
    pub(crate) server: TestServer,
    pub(crate) engine: RedisEngine,
}

impl Hand {
    pub(crate) async fn new() -> Self {
        Self::at(TestServer::start()).await
    }

    pub(crate) async fn at(server: TestServer) -> Self {
        let engine = connect(&server.address()).await;
        // The first call brings the library.
        let absent = vec![Target::Id(JobId::new())];
        engine.get(&here(), absent, false).await.expect("get");
        Self { server, engine }
    }

    /// One function; what it refuses is a failure.
    pub(crate) fn call(&self, function: &str, words: &[&str]) -> Value {
        self.call_bytes(SHARD, function, &bytes_of(words))
            .unwrap_or_else(|refused| panic!("{function} {words:?}: {refused}"))
    }

    /// What a function refuses; an answer is a failure.
    pub(crate) fn refused(&self, shard: &str, function: &str, words: &[&[u8]]) -> String {
        match self.call_bytes(shard, function, words) {
            Ok(answer) => panic!("{function} {words:?} was not refused: {answer}"),
            Err(refused) => refused,
        }
    }

    pub(crate) fn call_bytes(
        &self,
        shard: &str,
        function: &str,
        words: &[&[u8]],
    ) -> Result<Value, String> {
        let function = format!("punctual_1_{function}");
        let mut parts: Vec<&[u8]> = vec![b"FCALL", function.as_bytes(), b"1", shard.as_bytes()];
        parts.extend(words);
        let line = self.send(&parts);
        match line.split_at(1) {
            ("+", json) => Ok(serde_json::from_str(json).expect("one line of JSON")),
            ("-", refused) => Err(refused.into()),
            _ => panic!("neither an answer nor an error: {line}"),
        }
    }

    /// Sends a command and reads the first line of its reply.
    fn send(&self, parts: &[&[u8]]) -> String {
        let line = raw(self.server.port(), parts);
        String::from_utf8(line)
            .expect("UTF-8")
            .trim_end()
            .to_owned()
    }

    /// A digest of everything that the server holds.
    pub(crate) fn digest(&self) -> String {
        self.server.cli(&["DEBUG", "DIGEST"])
    }
}

/// Sends a command of any bytes to a server; the first line of its reply.
pub(crate) fn raw(port: u16, parts: &[&[u8]]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut command = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        command.extend(format!("${}\r\n", part.len()).bytes());
        command.extend(*part);
        command.extend(b"\r\n");
    }
    stream.write_all(&command).expect("it reads");
    let mut line = Vec::new();
    let mut reply = BufReader::new(&stream);
    reply.read_until(b'\n', &mut line).expect("it answers");
    line
}

pub(crate) fn bytes_of<'a>(words: &[&'a str]) -> Vec<&'a [u8]> {
    words.iter().map(|word| word.as_bytes()).collect()
}

/// A field of an answer as text.
pub(crate) fn text<'a>(answer: &'a Value, field: &str) -> &'a str {
    answer[field]
        .as_str()
        .unwrap_or_else(|| panic!("no text {field} in {answer}"))
}
