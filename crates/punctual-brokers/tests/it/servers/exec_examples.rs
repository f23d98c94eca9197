//! The sources in Python of examples/relay-exec: relays are killed while messages flow.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use punctual::time::{millis, pause};

use super::address;
use crate::support::BINARY;

const MESSAGES: usize = 200;
const KILLS: usize = 5;
/// The distribution's, which has its packages.
const PYTHON: &str = "/usr/bin/python3";

/// Sends messages by requests; one without an answer is sent again, over a new socket.
const ZEROMQ: &str = r#"
import sys, zmq
for n in range(int(sys.argv[2])):
    while True:
        asks = zmq.Context.instance().socket(zmq.REQ)
        asks.setsockopt(zmq.LINGER, 0)
        asks.setsockopt(zmq.RCVTIMEO, 2000)
        asks.connect(sys.argv[1])
        asks.send_multipart([b"m%d" % n, b'{"n":%d}' % n])
        try:
            answer = asks.recv_multipart()
        except zmq.Again:
            continue
        finally:
            asks.close()
        assert answer[0] == b"stored", answer
        break
    print(n, flush=True)
"#;

/// Sends messages, each with a receipt of the broker.
const STOMP: &str = r#"
import socket, sys
host, port = sys.argv[1].rsplit(":", 1)
link = socket.create_connection((host, int(port)))
stream = link.makefile("rb")
def read():
    text = b""
    while not text.endswith(b"\0"):
        text += stream.read(1)
    return text
link.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
assert b"CONNECTED" in read()
for n in range(int(sys.argv[2])):
    link.sendall(b'SEND\ndestination:/queue/drill\npersistent:true\nreceipt:%d\n\n{"n":%d}\0' % (n, n))
    assert b"RECEIPT" in read()
    print(n, flush=True)
"#;

/// A process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn punctual(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PathBuf::from(BINARY).with_file_name("punctual"));
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command
}

/// How often each payload is a job.
fn jobs(dir: &Path) -> BTreeMap<u64, usize> {
    let exported = punctual(dir, &["export"]).output().expect("it runs");
    assert!(exported.status.success(), "{exported:?}");
    let text = String::from_utf8(exported.stdout).expect("text");
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if let Some(n) = line["payload"]["n"].as_u64() {
            *found.entry(n).or_default() += 1;
        }
    }
    found
}

/// Kills relays while a sender sends, until all has arrived once.
async fn drill(name: &str, source: &str, sender: &str, place: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("sent");
    let sent = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().count()
    };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/relay-exec");
    let source = format!(
        "{PYTHON} {} {source}",
        example.join(format!("{name}.py")).display()
    );
    let args = [
        "relay", "exec", "--source", &source, "--into", "drill", "--name", name,
    ];
    let start = || {
        let mut command = punctual(dir.path(), &args);
        let child = command.stdout(Stdio::null()).spawn();
        Killed(child.expect("it starts"))
    };
    let count = MESSAGES.to_string();
    let mut sending = Command::new(PYTHON)
        .args(["-c", sender, place, &count])
        .stdout(std::fs::File::create(&log).expect("a file"))
        .spawn()
        .expect("python3 is there");
    for kill in 1..=KILLS {
        let relay = start();
        // Each relay takes some before it is killed.
        while sent() < kill * MESSAGES / (KILLS + 1) {
            pause(millis(5)).await;
        }
        drop(relay);
    }
    let relay = start();
    assert!(sending.wait().expect("it ends").success());
    let once: BTreeMap<u64, usize> = (0..MESSAGES as u64).map(|n| (n, 1)).collect();
    // Taken is not stored yet.
    while jobs(dir.path()).len() < MESSAGES {
        pause(millis(50)).await;
    }
    drop(relay);
    assert_eq!(
        jobs(dir.path()),
        once,
        "{name}: none is lost, and none is there twice"
    );
}

#[tokio::test]
async fn requests_of_zeromq_are_stored_once_under_kills() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let place = format!("tcp://127.0.0.1:{port}");
    drill("zeromq", &place, ZEROMQ, &place).await;
}

#[tokio::test]
async fn messages_of_activemq_are_stored_once_under_kills() {
    let place = address("PUNCTUAL_STOMP");
    drill("activemq", &format!("{place} /queue/drill"), STOMP, &place).await;
}
