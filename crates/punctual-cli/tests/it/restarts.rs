//! Tests of the command: restarts.

use std::collections::BTreeSet;
use std::io::ErrorKind::ConnectionRefused;
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual::time::{millis, pause, seconds, within};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::serve::Server;
use crate::support::{Punctual, text};

const RESTARTS: u64 = 6;
const PRODUCERS: usize = 4;
const WORKERS: usize = 2;
/// Requests of each client between two restarts, at least.
const LOAD: u64 = 20;
const TOKEN: &str = "a-token-of-my-own-0123456789";

/// A client as a balancer has it: it keeps its connection as long as it is let, and asks again if a
/// connection is refused. Anything else that goes wrong is a failed request, to be asked to come
/// back too.
struct Client {
    port: u16,
    kept: Option<BufReader<TcpStream>>,
    done: Arc<AtomicU64>,
    asked_again: Arc<AtomicU64>,
}

struct Answer {
    status: u16,
    is_last: bool,
    body: Value,
}

impl Client {
    /// The answer to a request, however often the server was started again meanwhile.
    async fn ask(&mut self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut connection = self.connection().await;
        let exchange = exchange(&mut connection, path, &body);
        let answer = within(seconds(60), exchange).await;
        let answer = answer.expect("an answer in time");
        if !answer.is_last {
            self.kept = Some(connection);
        }
        assert!(
            answer.status < 300,
            "{path}: {} {}",
            answer.status,
            answer.body
        );
        self.done.fetch_add(1, Ordering::Relaxed);
        answer.body
    }

    async fn connection(&mut self) -> BufReader<TcpStream> {
        if let Some(kept) = self.kept.take() {
            // One that the other end has closed meanwhile is used no more.
            let is_open = kept.get_ref().try_read(&mut [0]);
            if is_open.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
                return kept;
            }
        }
        loop {
            match TcpStream::connect(("127.0.0.1", self.port)).await {
                Ok(stream) => return BufReader::new(stream),
                Err(error) if error.kind() == ConnectionRefused => {
                    self.asked_again.fetch_add(1, Ordering::Relaxed);
                    pause(millis(1)).await;
                }
                Err(error) => panic!("a connection failed otherwise than refused: {error}"),
            }
        }
    }
}

async fn exchange(connection: &mut BufReader<TcpStream>, path: &str, body: &str) -> Answer {
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let sent = connection.get_mut().write_all(request.as_bytes()).await;
    sent.expect("a connection that takes a request");
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        let read = connection.read_line(&mut line).await;
        let read = read.expect("a request that was sent is answered");
        assert!(
            read > 0,
            "a request that was sent is answered, not closed on"
        );
        match line.trim().to_ascii_lowercase() {
            end if end.is_empty() => break,
            line => head.push(line),
        }
    }
    let header = |name: &str| {
        let of = |line: &String| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned());
        head.iter().find_map(of)
    };
    let length = header("content-length").expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    connection
        .read_exact(&mut body)
        .await
        .expect("the whole answer");
    let status = head[0].split(' ').nth(1).expect("a status");
    Answer {
        status: status.parse().expect("a number"),
        is_last: header("connection").is_some_and(|reported| reported == "close"),
        body: serde_json::from_slice(&body).expect("JSON"),
    }
}

/// A free port that the system gives to no connection on its way out: one of those may be taken
/// while the server is down, or be connected to itself.
fn free_port() -> u16 {
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (first..32_000).find(free).expect("a free port")
}

fn start(punctual: &Punctual, port: u16) -> Server {
    let listen = format!("127.0.0.1:{port}");
    let mut command = punctual.command(&["serve", "--listen", &listen, "-o", "json"]);
    let command = command.env("PUNCTUAL_TOKEN", TOKEN).stdout(Stdio::piped());
    Server::of(command.spawn().expect("it starts"))
}

/// Enqueues jobs until the end; those that were acknowledged.
async fn produce(mut client: Client, ends: Arc<AtomicBool>) -> BTreeSet<String> {
    let mut acknowledged = BTreeSet::new();
    while !ends.load(Ordering::Relaxed) {
        let receipt = client.ask("/v1/jobs", &json!({"queue": "mail"})).await;
        assert_eq!(receipt["verdict"], "created", "{receipt}");
        acknowledged.insert(text(&receipt["id"]));
    }
    acknowledged
}

/// Takes what is there, waiting for it, and completes it; those that it completed. Ends when asked
/// to and there is nothing more.
async fn work(mut client: Client, ends: Arc<AtomicBool>) -> Vec<String> {
    let mut completed = Vec::new();
    loop {
        let is_last = ends.load(Ordering::Relaxed);
        let claim = json!({"queues": ["mail"], "limit": 50, "wait": if is_last { "0s" } else { "200ms" }, "lease_duration": "1m"});
        let claimed = client.ask("/v1/claims", &claim).await;
        let Some(lease) = claimed["leases"].get(0) else {
            if is_last {
                return completed;
            }
            continue;
        };
        let jobs = lease["jobs"].as_array().expect("jobs");
        let done = |job: &Value| json!({"id": job["id"], "attempt": job["attempt"], "outcome": "completed"});
        let ends: Vec<Value> = jobs.iter().map(done).collect();
        let settle = json!({"leases": [{"token": lease["token"], "settlements": ends}]});
        let settled = client.ask("/v1/settlements", &settle).await;
        for one in settled["leases"][0]["settlements"]
            .as_array()
            .expect("verdicts")
        {
            assert_eq!(one["verdict"], "settled", "{settled}");
            completed.push(text(&one["id"]));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_loop_under_load_fails_no_request_and_loses_nothing() {
    let punctual = Punctual::new();
    let port = free_port();
    let mut server = start(&punctual, port);
    let asked_again = Arc::new(AtomicU64::new(0));
    let (ends, over) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let done: Vec<_> = (0..PRODUCERS + WORKERS)
        .map(|_| Arc::new(AtomicU64::new(0)))
        .collect();
    let client = |nth: usize| Client {
        port,
        kept: None,
        done: done[nth].clone(),
        asked_again: asked_again.clone(),
    };
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|nth| tokio::spawn(produce(client(nth), ends.clone())))
        .collect();
    let workers: Vec<_> = (PRODUCERS..PRODUCERS + WORKERS)
        .map(|nth| tokio::spawn(work(client(nth), over.clone())))
        .collect();
    let loaded = async |restart: u64| {
        while done
            .iter()
            .any(|done| done.load(Ordering::Relaxed) < restart * LOAD)
        {
            let failed = producers.iter().any(|one| one.is_finished())
                || workers.iter().any(|one| one.is_finished());
            assert!(!failed, "a request failed before restart {restart}");
            pause(millis(1)).await;
        }
    };
    for restart in 1..=RESTARTS {
        loaded(restart).await;
        let ending = tokio::task::spawn_blocking(move || server.end());
        assert_eq!(ending.await.expect("no panic"), Some(0));
        server = start(&punctual, port);
    }
    loaded(RESTARTS + 1).await;
    ends.store(true, Ordering::Relaxed);
    let mut acknowledged = BTreeSet::new();
    for producer in producers {
        acknowledged.extend(producer.await.expect("no request failed"));
    }
    over.store(true, Ordering::Relaxed);
    let mut completed = Vec::new();
    for worker in workers {
        completed.extend(worker.await.expect("no request failed"));
    }
    let again = asked_again.load(Ordering::Relaxed);
    println!(
        "{} jobs over {RESTARTS} restarts; asked again {again} times",
        acknowledged.len()
    );
    assert!(
        again > 0,
        "no client noticed a restart: the load was not there"
    );
    let all = completed.len();
    let completed: BTreeSet<String> = completed.into_iter().collect();
    assert_eq!(completed.len(), all, "each was done once");
    // What was enqueued is never lost.
    let lost: Vec<_> = acknowledged.difference(&completed).collect();
    assert_eq!(lost, Vec::<&String>::new());
    assert_eq!(server.end(), Some(0));
}
