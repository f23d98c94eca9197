//! Tests of the gateway over HTTP: bulk.

use punctual::time::{seconds, within};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::streams::{GROWTH_MAX, resident};
use crate::support::{PRODUCER, Under, serve};

fn headers(authorization: &str) -> [(&str, &str); 3] {
    [
        ("host", "localhost"),
        ("authorization", authorization),
        ("content-type", "application/x-ndjson"),
    ]
}

#[tokio::test]
async fn every_line_gets_its_verdict_and_a_bad_one_stops_no_other() {
    let under = serve().await;
    let mut body =
        String::from("{\"queue\":\"a\",\"payload\":1}\n\n{\"queue\":\"{x}\"}\nnonsense\r\n");
    for n in 0..2_000 {
        body += &format!("{{\"queue\":\"a\",\"payload\":{n}}}\n");
    }
    body += "{\"queue\":\"a\"}";
    let authorization = format!("Bearer {PRODUCER}");
    let reply = under
        .send_with(&headers(&authorization), "POST", "/v1/bulk", body)
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let lines: Vec<Value> = reply
        .body
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 2_005);
    assert_eq!(
        (&lines[0]["line"], &lines[0]["verdict"]),
        (&1.into(), &"created".into())
    );
    assert_eq!(
        (&lines[1]["line"], &lines[1]["error"]["code"]),
        (&3.into(), &"invalid_name".into())
    );
    assert_eq!(
        (&lines[2]["line"], &lines[2]["error"]["code"]),
        (&4.into(), &"invalid_json".into())
    );
    let last = &lines[2_004];
    assert_eq!(
        (&last["accepted"], &last["refused"], &last["done"]),
        (&2_002.into(), &2.into(), &true.into())
    );
    assert_eq!(
        under.get("/v1/queues").await.json()["queues"][0]["ready"],
        2_002
    );
}

#[tokio::test]
async fn a_line_without_end_is_left_out() {
    let under = serve().await;
    let mut body = format!(
        "{{\"queue\":\"a\",\"payload\":\"{}\"}}\n",
        "x".repeat(5 << 20)
    );
    body += "{\"queue\":\"a\"}\n";
    let authorization = format!("Bearer {PRODUCER}");
    let reply = under
        .send_with(&headers(&authorization), "POST", "/v1/bulk", body)
        .await;
    let lines: Vec<Value> = reply
        .body
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["error"]["code"], "payload_too_large", "{lines:?}");
    assert_eq!(lines[1]["verdict"], "created");
}

/// A body that is still being sent, and the verdicts that come meanwhile.
struct Open {
    body: OwnedWriteHalf,
    answer: BufReader<OwnedReadHalf>,
    /// Text of the answer that came and was not asked for yet.
    text: Vec<u8>,
}

impl Open {
    async fn to(under: &Under) -> Self {
        let stream = TcpStream::connect(under.address).await;
        let (answer, mut body) = stream.expect("a connection").into_split();
        let head = format!(
            "POST /v1/bulk HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {PRODUCER}\r\n\
             content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        body.write_all(head.as_bytes()).await.expect("sent");
        let mut answer = BufReader::new(answer);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            // The head of the answer comes before the body has an end, or a beginning.
            let read = within(seconds(20), answer.read_line(&mut line)).await;
            assert!(read.expect("in time").expect("a line") > 0, "closed");
        }
        let text = Vec::new();
        Self { body, answer, text }
    }

    async fn send(&mut self, text: &str) {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.body.write_all(chunk.as_bytes()).await.expect("sent");
    }

    async fn end(&mut self) {
        self.body.write_all(b"0\r\n\r\n").await.expect("sent");
    }

    /// The next document of the answer, which comes in chunks.
    async fn reported(&mut self) -> Value {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return serde_json::from_slice(&line).expect("JSON");
            }
            let mut size = String::new();
            let read = within(seconds(60), self.answer.read_line(&mut size)).await;
            read.expect("a verdict in time").expect("a chunk");
            let size = usize::from_str_radix(size.trim(), 16).expect("a size");
            let mut chunk = vec![0; size + 2];
            self.answer.read_exact(&mut chunk).await.expect("a chunk");
            chunk.truncate(size);
            self.text.extend(chunk);
        }
    }
}

#[tokio::test]
async fn verdicts_come_line_by_line_while_the_body_is_still_being_sent() {
    let under = serve().await;
    let mut bulk = Open::to(&under).await;
    let good = "{\"queue\":\"a\"}\n";
    for (text, verdicts) in [
        (good, &["created"][..]),
        // Half a line is none yet.
        ("{\"queue\":", &[]),
        ("\"a\"}\n{\"queue\"", &["created"]),
        (" }\n", &["invalid_json"]),
        (
            "\n{\"queue\":\"{x}\"}\n{\"queue\":\"a\"}\n\0\n",
            &["invalid_name", "created", "invalid_json"],
        ),
        (good, &["created"]),
    ] {
        bulk.send(text).await;
        for verdict in verdicts {
            let reported = bulk.reported().await;
            let code = reported["error"]["code"].as_str();
            let said = reported["verdict"].as_str().or(code).expect("a verdict");
            assert_eq!(said, *verdict, "{text}: {reported}");
        }
        let ready = under.get("/v1/queues").await.json()["queues"][0]["ready"].clone();
        assert!(
            ready.as_u64() >= Some(1),
            "what was answered is there: {ready}"
        );
    }
    bulk.end().await;
    let last = json!({"lines": 7, "accepted": 4, "refused": 3, "done": true});
    assert_eq!(bulk.reported().await, last);
}

#[tokio::test]
async fn a_body_of_a_hundred_mebibytes_takes_no_more_memory_than_its_parts() {
    let under = serve().await;
    let bound = json!({"queue": "a", "max_pending": 0, "on_full": "refuse", "version": 0});
    let set = under
        .send("PUT", "/v1/queues/settings", bound.to_string())
        .await;
    assert_eq!(set.status, 200, "{set:?}");
    let line = format!(
        "{{\"queue\":\"a\",\"payload\":\"{}\"}}\n",
        "x".repeat(200 << 10)
    );
    let mut bulk = Open::to(&under).await;
    let before = resident();
    for number in 1..=512_u64 {
        bulk.send(&line).await;
        let reported = bulk.reported().await;
        assert_eq!(
            (&reported["line"], &reported["verdict"]),
            (&json!(number), &json!("full"))
        );
        let growth = resident().saturating_sub(before);
        assert!(
            growth < GROWTH_MAX,
            "{growth} bytes more after {number} lines"
        );
    }
    bulk.end().await;
    assert_eq!(bulk.reported().await["refused"], 512);
}
