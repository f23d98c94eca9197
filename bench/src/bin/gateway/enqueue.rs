//! Throughput of single enqueues over HTTP.

use std::net::SocketAddr;
use std::process::Command;

use punctual::time::Stopwatch;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::http::{Connection, find, request};
use crate::server::Server;
use crate::{Arguments, announce, figure, median, rounded};

/// A job as an application sends it: 100 bytes of payload.
pub(crate) const JOB: &str = r#"{"queue":"orders","payload":{"order":1234567,"customer":"c-0123456789","items":[1,2,3,4],"note":"leave it at the door, please"}}"#;
/// As long as the gateway's.
const RECEIPT: &str = r#"{"id":"01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a","verdict":"created","due":"2026-11-21T10:30:00.123456Z","late":false,"durability":"os","now":"2026-11-21T10:00:00.123456Z"}"#;

pub(crate) async fn measure(arguments: &Arguments, connections: usize, jobs: usize, runs: usize) {
    let (mut rates, mut ceilings) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let place = tempfile::tempdir_in(&arguments.directory).expect("a directory");
        let engine = format!("file:{}/data?durability=os", place.path().display());
        let server = Server::start(&arguments.punctual, &engine);
        let rate = load(server.address, connections, jobs).await;
        let cpu_us = server.cpu_seconds() * 1e6 / jobs as f64;
        drop(server);
        let this = std::env::current_exe().expect("this program");
        let mut command = Command::new(this);
        command.arg("receipts");
        let ceiling = load(Server::of(command).address, connections, jobs).await;
        announce(
            &json!({"enqueued_per_s": rounded(rate), "server_cpu_us": rounded(cpu_us),
            "load_alone_per_s": rounded(ceiling)}),
        );
        rates.push(rate);
        ceilings.push(ceiling);
    }
    figure("jobs a second, one by one", median(rates), "at least 20000");
    figure("the load's own ceiling", median(ceilings), "");
}

/// Requests of a job each; how many a second.
async fn load(address: SocketAddr, connections: usize, jobs: usize) -> f64 {
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(address).await);
    }
    let each = jobs / connections;
    let watch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for mut connection in open {
        tasks.spawn(async move {
            let request = request("POST", "/v1/jobs", "application/json", JOB);
            for _ in 0..each {
                let (status, body) = connection.send(&request).await;
                assert_eq!(status, 201, "{}", String::from_utf8_lossy(body));
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
    (each * connections) as f64 / watch.elapsed().as_secs_f64()
}

/// Answers without doing anything, until it is ended.
pub(crate) async fn answer_receipts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    announce(&json!({"url": format!("http://{address}")}));
    let length = RECEIPT.len();
    let answer = format!(
        "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{RECEIPT}"
    );
    loop {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let answer = answer.clone();
        tokio::spawn(async move {
            let mut buffer = Vec::new();
            loop {
                while find(&buffer, JOB.as_bytes()).is_none() {
                    match stream.read_buf(&mut buffer).await {
                        Ok(0) | Err(_) => return,
                        Ok(_) => {}
                    }
                }
                buffer.clear();
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
    }
}
