//! Calls by hand: words over a plain socket, one line of JSON back.

use std::io::{BufRead, BufReader, Read, Write};
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
    Line::to(port).ask(parts)
}

/// A connection for many commands: to make one costs a server more than most calls do.
pub(crate) struct Line(BufReader<TcpStream>);

impl Line {
    pub(crate) fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        Self(BufReader::new(stream))
    }

    /// The first line of the reply; the rest of it is read, too, before the next one.
    pub(crate) fn ask(&mut self, parts: &[&[u8]]) -> Vec<u8> {
        let mut command = format!("*{}\r\n", parts.len()).into_bytes();
        for part in parts {
            command.extend(format!("${}\r\n", part.len()).bytes());
            command.extend(*part);
            command.extend(b"\r\n");
        }
        self.0.get_mut().write_all(&command).expect("it reads");
        let first = self.line();
        let mut left = items(&first);
        while left > 0 {
            left += items(&self.line()) - 1;
        }
        first
    }

    /// A line, and the bytes that it announces.
    fn line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).expect("it answers");
        if let Some(bytes) = number(&line, b'$').and_then(|it| u64::try_from(it).ok()) {
            let bytes = (&mut self.0).take(bytes + 2);
            std::io::copy(&mut { bytes }, &mut std::io::sink()).expect("it answers");
        }
        line
    }
}

/// Replies that follow this first line of one.
fn items(line: &[u8]) -> i64 {
    number(line, b'*').unwrap_or(0).max(0)
}

/// The number in a line of that kind.
fn number(line: &[u8], kind: u8) -> Option<i64> {
    let text = line.strip_prefix(&[kind])?.strip_suffix(b"\r\n")?;
    std::str::from_utf8(text).ok()?.parse().ok()
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
