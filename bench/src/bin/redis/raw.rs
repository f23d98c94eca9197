//! Raw commands of Redis that figures are compared with.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::server::Server;

/// Microseconds of server CPU for a value of 100 bytes in and out of a list: a command each, RPUSH
/// then LPOP, 100 in one write. Nothing that keeps jobs in lists costs less.
pub(crate) fn list_us(values: u64) -> f64 {
    const PIPELINE: u64 = 100;
    let server = Server::start();
    let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    let value = "x".repeat(100);
    let push = format!("*3\r\n$5\r\nRPUSH\r\n$1\r\nl\r\n$100\r\n{value}\r\n");
    let pop = "*2\r\n$4\r\nLPOP\r\n$1\r\nl\r\n";
    let before = server.cpu_us();
    for (command, lines) in [(push.as_str(), 1), (pop, 2)] {
        let pipeline = command.repeat(PIPELINE as usize);
        for _ in 0..values / PIPELINE {
            pipelined(&stream, pipeline.as_bytes(), lines * PIPELINE);
        }
    }
    (server.cpu_us() - before) / values as f64
}

/// Microseconds of server CPU for a job of 100 bytes by what people build by hand, in calls of 100,
/// all of them variadic: ids in a list, payloads in a hash, and who has them until when in a sorted
/// set, by one script that claims and one that settles. It checks for no duplicates, gives no lease
/// back, delays nothing and notifies no client.
pub(crate) fn by_hand_us(jobs: u64) -> f64 {
    const CALL: u64 = 100;
    const CLAIM: &str = "local ids = redis.call('LPOP', KEYS[1], ARGV[1]) local lent = {} \
        for nth, id in ipairs(ids) do lent[2 * nth - 1], lent[2 * nth] = ARGV[2], id end \
        redis.call('ZADD', KEYS[3], unpack(lent)) return redis.call('HMGET', KEYS[2], unpack(ids))";
    const SETTLE: &str = "redis.call('HDEL', KEYS[2], unpack(ARGV)) return redis.call('ZREM', KEYS[3], unpack(ARGV))";
    let server = Server::start();
    let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    let [claim, settle] = [CLAIM, SETTLE].map(|script| server.cli(&["SCRIPT", "LOAD", script]));
    let keys = |script: &str| ["EVALSHA", script.trim(), "3", "l", "h", "z"].map(String::from);
    let payload = "x".repeat(100);
    let before = server.cpu_us();
    let calls = || (0..jobs).step_by(CALL as usize);
    let ids = |first: u64| (first..first + CALL).map(|id| format!("{id:016x}"));
    for first in calls() {
        let push = ["RPUSH", "l"]
            .map(String::from)
            .into_iter()
            .chain(ids(first));
        let fields = ids(first).flat_map(|id| [id, payload.clone()]);
        let set = ["HSET", "h"].map(String::from).into_iter().chain(fields);
        pipelined(&stream, (resp(push) + &resp(set)).as_bytes(), 2);
    }
    for first in calls() {
        let asked = [CALL.to_string(), "1700000000000".into()];
        let claimed = resp(keys(&claim).into_iter().chain(asked));
        pipelined(&stream, claimed.as_bytes(), 1 + 2 * CALL);
        let settled = resp(keys(&settle).into_iter().chain(ids(first)));
        pipelined(&stream, settled.as_bytes(), 1);
    }
    let took = server.cpu_us() - before;
    assert_eq!(server.cli(&["DBSIZE"]).trim(), "0", "jobs are left");
    took / jobs as f64
}

/// A command as it goes over the wire.
fn resp(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    let said = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), said.collect::<String>())
}

/// Writes commands and reads so many lines of answers.
fn pipelined(mut stream: &TcpStream, commands: &[u8], lines: u64) {
    stream.write_all(commands).expect("the server reads");
    let mut buffer = [0; 1 << 16];
    let mut seen = 0;
    while seen < lines {
        let length = stream.read(&mut buffer).expect("the server answers");
        assert!(length > 0, "the server has hung up");
        let ends = buffer[..length].iter().filter(|byte| **byte == b'\n');
        seen += ends.count() as u64;
    }
}
