//! Inputs that no client meant, on the two routes that the description cannot express: lines
//! without end, and a socket. Made from a seed; `PUNCTUAL_FUZZ_SEED` takes another,
//! `PUNCTUAL_FUZZ_INPUTS` more of them.

use std::collections::BTreeSet;

use fastrand::Rng;
use punctual::time::{seconds, within};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{ADMIN, OPERATOR, Socket, Under, serve};

/// What the process may grow by, whatever is sent: the client's copies are in it too.
pub(crate) const GROWTH_MAX: u64 = 48 << 20;

fn number(name: &str, usual: u64) -> u64 {
    let reported = std::env::var(name).ok();
    reported.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn random() -> Rng {
    let seed = number("PUNCTUAL_FUZZ_SEED", 1);
    println!("PUNCTUAL_FUZZ_SEED={seed}");
    Rng::with_seed(seed)
}

/// Bytes of memory that this process has.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("a number") << 10
}

/// The one form of errors, wherever it stands.
fn is_error(error: &Value) -> bool {
    let fields: BTreeSet<&str> = match error.as_object() {
        Some(fields) => fields.keys().map(String::as_str).collect(),
        None => return false,
    };
    let known = BTreeSet::from(["code", "message", "hint", "index", "request_id"]);
    fields.is_subset(&known) && error["code"].is_string() && error["message"].is_string()
}

/// A line of a body, and whether it is a job.
fn line(random: &mut Rng) -> (Vec<u8>, Option<bool>) {
    let good = format!("{{\"queue\":\"a\",\"payload\":{}}}", random.u32(..));
    let bad = |bytes: &[u8]| (bytes.to_vec(), Some(false));
    match random.usize(..16) {
        0 => (Vec::new(), None),
        1 => (b" \t".to_vec(), None),
        2 => bad(&good.as_bytes()[..random.usize(1..good.len())]),
        3 => bad(b"\0"),
        4 => bad(format!("{{\"queue\":\"a\",\"payload\":\"{}\"}}", '\u{1}').as_bytes()),
        5 => bad(b"{\"queue\":\"\xff\xfe\"}"),
        6 => bad(b"{\"queue\":\"a\",\"kind\":\"\\ud800\"}"),
        7 => bad(b"{\"queue\":\"a\",\"queue\":\"b\"}"),
        8 => bad(b"{\"queue\":\"a\",\"unknown\":1}"),
        9 => bad("[".repeat(random.usize(1..5_000)).as_bytes()),
        10 => bad(format!("{good}{good}").as_bytes()),
        11 => bad(format!(
            "{{\"queue\":\"a\",\"payload\":\"{}\"}}",
            "x".repeat(300 << 10)
        )
        .as_bytes()),
        12 => bad((0..random.usize(1..64))
            .map(|_| random.u8(14..))
            .collect::<Vec<_>>()
            .as_slice()),
        _ => (good.into_bytes(), Some(true)),
    }
}

/// Sends a body in chunks of any size and answers what came back; `whole` says whether to end it.
async fn sent(under: &Under, body: &[u8], whole: bool, random: &mut Rng) -> String {
    let head = format!(
        "POST /v1/bulk HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\
         content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    );
    let stream = TcpStream::connect(under.address).await;
    let (mut read, mut write) = stream.expect("a connection").into_split();
    let answer = tokio::spawn(async move {
        let mut answer = Vec::new();
        let _ = read.read_to_end(&mut answer).await;
        String::from_utf8(answer).expect("text")
    });
    let mut bytes = head.into_bytes();
    let mut rest = body;
    while !rest.is_empty() {
        let (part, more) = rest.split_at(random.usize(1..=rest.len().min(40_000)));
        bytes.extend(format!("{:x}\r\n", part.len()).bytes());
        bytes.extend(part);
        bytes.extend(b"\r\n");
        rest = more;
        if random.u8(..4) == 0 {
            // It may have received enough.
            let _ = write.write_all(&std::mem::take(&mut bytes)).await;
        }
    }
    if whole {
        bytes.extend(b"0\r\n\r\n");
    }
    let _ = write.write_all(&bytes).await;
    if !whole {
        let _ = write.shutdown().await;
    }
    let answered = within(seconds(30), answer).await;
    answered.expect("an end in time").expect("no panic")
}

/// The documents of an answer in chunks.
fn documents(answer: &str) -> Vec<Value> {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let lines = body
        .split(['\r', '\n'])
        .filter(|line| line.starts_with('{'));
    let read = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
    lines.map(read).collect()
}

#[tokio::test]
async fn whatever_lines_are_sent_each_has_its_verdict() {
    let under = serve().await;
    let mut random = random();
    let mut accepted = 0;
    let before = resident();
    for input in 0..number("PUNCTUAL_FUZZ_INPUTS", 60) {
        let lines: Vec<_> = (0..random.usize(..40)).map(|_| line(&mut random)).collect();
        let ends: &[u8] = if random.bool() { b"\n" } else { b"\r\n" };
        let mut body = lines
            .iter()
            .map(|(line, _)| line.as_slice())
            .collect::<Vec<_>>()
            .join(ends);
        if random.bool() {
            body.extend(ends);
        }
        let whole = random.u8(..4) > 0;
        if !whole && !body.is_empty() {
            body.truncate(random.usize(..body.len()));
        }
        let answer = sent(&under, &body, whole, &mut random).await;
        assert!(
            answer.starts_with("HTTP/1.1 200"),
            "input {input}: {answer}"
        );
        let reported = documents(&answer);
        let mut number = 0;
        for verdict in reported
            .iter()
            .filter(|reported| reported["line"].is_number())
        {
            let line = verdict["line"].as_u64().expect("a number");
            assert!(line > number, "input {input}: {verdict}");
            number = line;
            assert!(
                verdict["verdict"].is_string() != is_error(&verdict["error"]),
                "{verdict}"
            );
            accepted += u64::from(verdict["verdict"] == "created");
        }
        let last = reported.last().cloned().unwrap_or_default();
        if whole {
            let count = |wanted| {
                lines
                    .iter()
                    .filter(|(_, is_job)| *is_job == Some(wanted))
                    .count()
            };
            let (jobs, others) = (count(true), count(false));
            let expected =
                json!({"lines": jobs + others, "accepted": jobs, "refused": others, "done": true});
            assert_eq!(last, expected, "input {input}");
        } else {
            assert!(
                last.is_null() || is_error(&last["error"]),
                "input {input}: {last}"
            );
        }
    }
    let ready = under.get("/v1/queues").await.json()["queues"][0]["ready"].clone();
    assert_eq!(ready, json!(accepted), "what was answered is what is there");
    let growth = resident().saturating_sub(before);
    assert!(growth < GROWTH_MAX, "{growth} bytes more");
}

#[tokio::test]
async fn a_line_that_never_ends_takes_no_more_memory_than_a_line_may() {
    let under = serve().await;
    let head = format!(
        "POST /v1/bulk HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\
         content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let mut stream = TcpStream::connect(under.address)
        .await
        .expect("a connection");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let chunk = [
        b"100000\r\n".to_vec(),
        vec![b'x'; 1 << 20],
        b"\r\n".to_vec(),
    ]
    .concat();
    let before = resident();
    for _ in 0..128 {
        stream.write_all(&chunk).await.expect("it goes on reading");
        let growth = resident().saturating_sub(before);
        assert!(growth < GROWTH_MAX, "{growth} bytes more");
    }
    stream
        .write_all(b"1\r\n\n\r\n14\r\n{\"queue\":\"a\",\"id\":7}\r\n0\r\n\r\n")
        .await
        .expect("sent");
    let mut answer = vec![0; 64 << 10];
    let mut reported = String::new();
    while !reported.contains("\"done\":true") {
        let read = within(seconds(30), stream.read(&mut answer)).await;
        let read = read.expect("in time").expect("an answer");
        assert!(read > 0, "cut off: {reported}");
        reported += std::str::from_utf8(&answer[..read]).expect("text");
    }
    let reported = documents(&reported);
    assert_eq!(
        reported[0]["error"]["code"], "payload_too_large",
        "{reported:?}"
    );
    assert_eq!(
        reported.last().expect("an end")["refused"],
        2,
        "{reported:?}"
    );
}

/// A frame as it is sent; a client must mask its frames.
fn frame(first: u8, masked: bool, payload: &[u8]) -> Vec<u8> {
    let mask = u8::from(masked) << 7;
    let mut bytes = vec![first];
    match payload.len() {
        short @ 0..126 => bytes.push(mask | short as u8),
        middle @ 126..65_536 => {
            bytes.push(mask | 126);
            bytes.extend((middle as u16).to_be_bytes());
        }
        long => {
            bytes.push(mask | 127);
            bytes.extend((long as u64).to_be_bytes());
        }
    }
    if masked {
        bytes.extend([0; 4]);
    }
    bytes.extend(payload);
    bytes
}

const FINAL: u8 = 0x80;
const TEXT: u8 = 1;
const PING: u8 = 9;

/// A text in several frames, with pings between them.
fn in_fragments(text: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut rest, mut opcode) = (text, TEXT);
    loop {
        let (part, more) = rest.split_at(random.usize(..=rest.len()));
        let is_last = more.is_empty();
        bytes.extend(frame(opcode | if is_last { FINAL } else { 0 }, true, part));
        if is_last {
            return bytes;
        }
        bytes.extend(frame(FINAL | PING, true, b"there?"));
        (rest, opcode) = (more, 0);
    }
}

/// A text that is answered, and with what type.
fn said(random: &mut Rng) -> (Vec<u8>, &'static str) {
    let answered: [(&[u8], &str); 13] = [
        (b"{\"type\":\"ping\"}", "pong"),
        (b"{\"type\":\"ping\"", "error"),
        (b"", "error"),
        (b"\0", "error"),
        (b"[]", "error"),
        (b"{\"type\":\"fly\"}", "error"),
        (b"{\"type\":\"ping\",\"wings\":2}", "error"),
        (b"{\"type\":7}", "error"),
        (b"{\"type\":\"hello\"}", "error"),
        (b"{\"type\":\"watch\",\"states\":[\"odd\"]}", "error"),
        (b"{\"type\":\"claim\",\"ref\":[1,{\"a\":null}]}", "error"),
        (
            b"{\"type\":\"claim\",\"ref\":1,\"request\":{\"queues\":[]}}",
            "error",
        ),
        (
            b"{\"type\":\"settle\",\"ref\":\"x\",\"request\":[[[1e400]]]}",
            "error",
        ),
    ];
    if random.u8(..8) == 0 {
        let deep = format!(
            "{{\"type\":\"claim\",\"request\":{}",
            "[".repeat(random.usize(..60_000))
        );
        return (deep.into_bytes(), "error");
    }
    let (text, answer) = answered[random.usize(..answered.len())];
    (text.to_vec(), answer)
}

/// Bytes after which the socket is closed, and the codes that may be answered.
fn last_words(random: &mut Rng) -> (Vec<u8>, &'static [u16]) {
    const PROTOCOL: &[u16] = &[1002, 1007];
    const SIZE: &[u16] = &[1009];
    let large = [
        vec![FINAL | TEXT, 0xff],
        (9_u64 << 20).to_be_bytes().to_vec(),
        vec![0; 4],
    ]
    .concat();
    let endless = [
        vec![FINAL | TEXT, 0xff],
        u64::MAX.to_be_bytes().to_vec(),
        vec![0; 4],
    ]
    .concat();
    match random.usize(..12) {
        0 => (frame(FINAL | TEXT, true, b"\"\xff\xfe\""), PROTOCOL),
        1 => (frame(FINAL | 2, true, b"{}"), &[1003]),
        2 => (frame(FINAL | TEXT, false, b"{}"), PROTOCOL),
        3 => (frame(FINAL | 3, true, b"{}"), PROTOCOL),
        4 => (frame(FINAL | 0x40 | TEXT, true, b"{}"), PROTOCOL),
        5 => (frame(FINAL | PING, true, &[b'x'; 126]), PROTOCOL),
        6 => (frame(PING, true, b"x"), PROTOCOL),
        7 => (frame(FINAL, true, b"{}"), PROTOCOL),
        8 => (
            [frame(TEXT, true, b"{"), frame(FINAL | TEXT, true, b"}")].concat(),
            PROTOCOL,
        ),
        9 => (large, SIZE),
        10 => (endless, SIZE),
        _ => {
            let part = vec![b' '; 1 << 20];
            let mut bytes = frame(TEXT, true, &part);
            (0..9).for_each(|_| bytes.extend(frame(0, true, &part)));
            (bytes, SIZE)
        }
    }
}

async fn write(socket: &mut Socket, bytes: &[u8]) {
    // It may be closed before everything is sent.
    let _ = socket.0.get_mut().write_all(bytes).await;
}

/// The next frame that is no ping or pong; nothing at the end.
async fn received(socket: &mut Socket) -> Option<Message> {
    use futures_util::StreamExt;
    loop {
        let next = within(seconds(30), socket.0.next()).await;
        match next.expect("a frame in time") {
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(message)) => return Some(message),
            Some(Err(_)) | None => return None,
        }
    }
}

async fn reported(socket: &mut Socket) -> Value {
    match received(socket).await {
        Some(Message::Text(text)) => serde_json::from_str(text.as_str()).expect("JSON"),
        other => panic!("no text: {other:?}"),
    }
}

async fn open_sockets(under: &Under) -> String {
    let text = under.send_as(OPERATOR, "GET", "/metrics", "").await.body;
    let open = text
        .lines()
        .find(|line| line.starts_with("punctual_sockets"));
    open.and_then(|line| line.rsplit(' ').next())
        .expect("a number")
        .to_owned()
}

#[tokio::test]
async fn any_frame_gets_an_answer_in_one_form_or_a_close() {
    let under = serve().await;
    let mut random = random();
    let before = resident();
    for input in 0..number("PUNCTUAL_FUZZ_INPUTS", 60) {
        let mut socket = under.socket().await;
        let hello = json!({"type": "hello", "token": ADMIN}).to_string();
        let hello = in_fragments(hello.as_bytes(), &mut random);
        write(&mut socket, &hello).await;
        assert_eq!(
            reported(&mut socket).await["type"],
            "welcome",
            "input {input}"
        );
        for _ in 0..random.usize(..12) {
            let (text, expected) = said(&mut random);
            if random.u8(..6) == 0 {
                let flood: Vec<u8> = (0..500)
                    .flat_map(|_| frame(FINAL | PING, true, b""))
                    .collect();
                write(&mut socket, &flood).await;
            }
            let bytes = in_fragments(&text, &mut random);
            write(&mut socket, &bytes).await;
            let reported = reported(&mut socket).await;
            let shown = String::from_utf8_lossy(&text[..text.len().min(80)]).into_owned();
            assert_eq!(
                reported["type"], expected,
                "input {input}: {shown}: {reported}"
            );
            assert!(
                expected != "error" || is_error(&reported["error"]),
                "{shown}: {reported}"
            );
        }
        match random.u8(..4) {
            // Gone without a word, or in the middle of one.
            0 => drop(socket),
            1 => {
                write(
                    &mut socket,
                    &frame(FINAL | TEXT, true, b"{\"type\":\"ping\"}")[..9],
                )
                .await;
                let _ = socket.0.get_mut().shutdown().await;
                while received(&mut socket).await.is_some() {}
            }
            _ => {
                let (bytes, codes) = last_words(&mut random);
                write(&mut socket, &bytes).await;
                let shown = format!("input {input}: {:?}", &bytes[..bytes.len().min(20)]);
                match received(&mut socket).await {
                    Some(Message::Close(Some(close))) => {
                        let code = u16::from(close.code);
                        assert!(
                            codes.contains(&code),
                            "{shown}: {code} is none of {codes:?}"
                        );
                    }
                    // What was still on its way when it closed resets the connection.
                    None => {}
                    other => panic!("{shown}: {other:?}"),
                }
            }
        }
    }
    let closed = async { while open_sockets(&under).await != "0" {} };
    within(seconds(30), closed)
        .await
        .expect("every socket is closed");
    assert_eq!(under.get("/healthz").await.status, 200);
    let growth = resident().saturating_sub(before);
    assert!(growth < GROWTH_MAX, "{growth} bytes more");
}
