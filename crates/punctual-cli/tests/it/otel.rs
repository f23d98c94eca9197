//! Spans, as a collector of OpenTelemetry gets them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

use punctual::time::seconds;

use crate::support::Punctual;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PRODUCER: &str = "00f067aa0ba902b7";

/// A collector of a few lines: the heads and bodies of what is posted to it.
fn collector() -> (SocketAddr, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, posted) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let from = head.len();
                stream.read_line(&mut head).expect("a line");
                if let Some(value) = head[from..].to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).expect("a body");
            let done = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.get_mut().write_all(done).expect("it reads");
            if sender.send((head, body)).is_err() {
                return;
            }
        }
    });
    (address, posted)
}

fn has(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16);
    pairs.map(|one| pair(one).expect("hex")).collect()
}

#[test]
fn a_collector_gets_the_span_of_a_job_under_the_trace_of_its_producer() {
    let (address, posted) = collector();
    let punctual = Punctual::with_data();
    let job = format!(
        r#"{{"queue":"mail","payload":{{}},"headers":{{"traceparent":"00-{TRACE}-{PRODUCER}-01"}}}}"#
    );
    let file = punctual.write("jobs.jsonl", job);
    let file = file.to_str().expect("text");
    punctual.run(&["enqueue", "--from", file]).exits(0);
    let work = ["work", "mail", "--exec", "true", "--until-idle"];
    let worked = punctual
        .command(&work)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"))
        .output();
    assert!(worked.expect("it runs").status.success());

    let (head, body) = posted.recv_timeout(seconds(20)).expect("spans");
    assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
    assert!(head.contains("application/x-protobuf"), "{head}");
    for wanted in [
        unhex(TRACE),
        unhex(PRODUCER),
        b"job".to_vec(),
        b"mail".to_vec(),
        b"punctual".to_vec(),
    ] {
        assert!(has(&body, &wanted), "no {wanted:?}");
    }
}

#[test]
fn a_collector_behind_tls_is_refused_with_the_remedy() {
    let punctual = Punctual::with_data();
    let mut command = punctual.command(&["queues", "list"]);
    let refused = command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4318")
        .output();
    let refused = crate::support::Ran::from(refused.expect("it runs")).exits(2);
    assert!(refused.stderr.contains("plain HTTP"), "{refused:?}");
}
