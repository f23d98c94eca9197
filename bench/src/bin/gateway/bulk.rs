//! Throughput of `/v1/bulk`, beside enqueues in process.

use std::net::SocketAddr;
use std::path::Path;

use punctual::engine::Durability;
use punctual::time::Stopwatch;
use punctual::{Engine, Namespace, NewJob};
use punctual_embedded::{EmbeddedEngine, Options};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::enqueue::JOB;
use crate::http::{Connection, find};
use crate::server::{Server, TOKEN};
use crate::{Arguments, announce, figure, median, rounded};

/// Jobs of one call in process, as many as the gateway puts into one at most.
const BATCH: usize = 500;
/// Lines that are written at once.
const LINES: usize = 500;

pub(crate) async fn measure(arguments: &Arguments, connections: usize, jobs: usize, runs: usize) {
    let (mut rates, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let place = tempfile::tempdir_in(&arguments.directory).expect("a directory");
        let own = in_process(&place.path().join("own"), connections, jobs).await;
        let engine = format!("file:{}/data?durability=os", place.path().display());
        let server = Server::start(&arguments.punctual, &engine);
        let rate = load(server.address, connections, jobs).await;
        let cpu_us = server.cpu_seconds() * 1e6 / jobs as f64;
        announce(
            &json!({"bulk_per_s": rounded(rate), "in_process_per_s": rounded(own),
            "server_cpu_us": rounded(cpu_us)}),
        );
        rates.push(rate);
        ratios.push(rate / own);
    }
    figure("JSONL of in process", median(ratios), "at least 0.5");
    figure("JSONL lines a second", median(rates), "reach for 120000");
}

/// Streams of lines, each read while it is answered; lines a second.
pub(crate) async fn load(address: SocketAddr, connections: usize, jobs: usize) -> f64 {
    let each = jobs / connections / LINES * LINES;
    let watch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        tasks.spawn(stream(address, each));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
    (each * connections) as f64 / watch.elapsed().as_secs_f64()
}

async fn stream(address: SocketAddr, jobs: usize) {
    let connection = Connection::open(address).await;
    let (mut answers, mut lines) = connection.stream.into_split();
    let head = format!(
        "POST /v1/bulk HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let text = format!("{JOB}\n").repeat(LINES);
    let chunk = format!("{:x}\r\n{text}\r\n", text.len());
    let writing = tokio::spawn(async move {
        lines.write_all(head.as_bytes()).await.expect("sent");
        for _ in 0..jobs / LINES {
            lines.write_all(chunk.as_bytes()).await.expect("sent");
        }
        lines.write_all(b"0\r\n\r\n").await.expect("sent");
        lines
    });
    // The end of the answer is looked for in what came last: verdicts are many.
    let mut tail: Vec<u8> = Vec::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = answers.read(&mut buffer).await.expect("an answer");
        assert!(read > 0, "cut: {}", String::from_utf8_lossy(&tail));
        tail.extend_from_slice(&buffer[..read]);
        tail.drain(..tail.len().saturating_sub(512));
        if find(&tail, b"\"done\":true").is_some() {
            break;
        }
    }
    let all = format!("\"accepted\":{jobs},\"refused\":0");
    let tail = String::from_utf8_lossy(&tail);
    assert!(tail.contains(&all), "{tail}");
    drop(writing.await.expect("no panic"));
}

/// The same jobs in batches into an engine in this process.
async fn in_process(path: &Path, callers: usize, jobs: usize) -> f64 {
    let options = Options::default().durability(Durability::Os);
    let engine = std::sync::Arc::new(EmbeddedEngine::open(path, options).expect("open"));
    let payload = &JOB[JOB.find(":{").expect("a payload") + 1..JOB.len() - 1];
    let watch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let engine = engine.clone();
        tasks.spawn(async move {
            let namespace = Namespace::default();
            for _ in 0..jobs / callers / BATCH {
                let job = || NewJob::new("orders", payload.as_bytes().to_vec());
                let batch = std::iter::repeat_with(job).take(BATCH).collect();
                engine.enqueue(&namespace, batch).await.expect("enqueued");
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
    (jobs / callers / BATCH * BATCH * callers) as f64 / watch.elapsed().as_secs_f64()
}
