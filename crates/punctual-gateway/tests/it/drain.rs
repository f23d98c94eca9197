//! The end of a gateway, and the next one: no request fails, no claim waits in vain.

use std::io::ErrorKind::ConnectionRefused;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use punctual::engine::StatsRequest;
use punctual::time::{millis, pause, seconds, within};
use punctual::{Engine, MemoryEngine, Namespace};
use punctual_gateway::{Gateway, Serving, Tokens};
use serde_json::json;
use tokio::net::TcpStream;

use crate::support::{ADMIN, serve};

const RESTARTS: u64 = 10;
const CLIENTS: u64 = 6;

/// A producer that keeps its connection as long as it is let, and connects again if it is refused.
struct Producer {
    address: SocketAddr,
    kept: Option<SendRequest<Full<Bytes>>>,
}

impl Producer {
    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        loop {
            match TcpStream::connect(self.address).await {
                Ok(stream) => {
                    let (sender, connection) =
                        http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
                    tokio::spawn(connection);
                    return sender;
                }
                Err(error) if error.kind() == ConnectionRefused => pause(millis(1)).await,
                Err(error) => panic!("a connection failed otherwise than refused: {error}"),
            }
        }
    }

    async fn enqueue(&mut self) {
        let mut connection = match self.kept.take().filter(|kept| !kept.is_closed()) {
            Some(kept) => kept,
            None => self.connect().await,
        };
        let request = hyper::Request::post("/v1/jobs")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from_static(b"{\"queue\":\"mail\"}")))
            .expect("a request");
        let answer = connection.send_request(request).await;
        let answer = answer.expect("a request that was sent is answered");
        assert_eq!(answer.status(), 201);
        let is_last = answer
            .headers()
            .get("connection")
            .is_some_and(|reported| reported == "close");
        answer.into_body().collect().await.expect("a body");
        self.kept = (!is_last).then_some(connection);
    }
}

async fn start(engine: &Arc<dyn Engine>, address: SocketAddr) -> Serving {
    let gateway = Gateway::new(engine.clone(), Tokens::open());
    gateway.serve(address).await.expect("the address")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_in_ten_restarts_under_load() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let mut serving = start(&engine, ([127, 0, 0, 1], 0).into()).await;
    let address = serving.address();
    let (ends, sent) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (ends, sent) = (ends.clone(), sent.clone());
            tokio::spawn(async move {
                let mut producer = Producer {
                    address,
                    kept: None,
                };
                while !ends.load(Ordering::Relaxed) {
                    producer.enqueue().await;
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for restart in 1..=RESTARTS {
        // Load before each, by everybody.
        while sent.load(Ordering::Relaxed) < restart * CLIENTS * 20 {
            assert!(!clients.iter().any(tokio::task::JoinHandle::is_finished));
            pause(millis(1)).await;
        }
        assert!(serving.drain(seconds(20)).await);
        serving = start(&engine, address).await;
    }
    ends.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no request failed");
    }
    let stats = engine
        .stats(&Namespace::default(), StatsRequest::default())
        .await;
    let stored: u64 = stats
        .expect("stats")
        .queues
        .iter()
        .map(|one| one.counts.pending())
        .sum();
    assert_eq!(
        stored,
        sent.load(Ordering::Relaxed),
        "each was acknowledged once"
    );
}

#[tokio::test]
async fn waiters_are_answered_at_once_when_it_ends() {
    let under = Arc::new(serve().await);
    let mut socket = under.socket().await;
    socket.say(json!({"type": "hello", "token": ADMIN})).await;
    assert_eq!(socket.json().await["type"], "welcome");
    let address = under.address;
    let body = r#"{"queues":["mail"],"wait":"60s"}"#;
    let head = format!(
        "POST /v1/claims HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut waiting = TcpStream::connect(address).await.expect("a connection");
    tokio::io::AsyncWriteExt::write_all(&mut waiting, head.as_bytes())
        .await
        .expect("sent");
    // The engine knows of the worker once the claim is there.
    let namespace = Namespace::new("shop").expect("a name");
    let seen = async {
        loop {
            let stats = under
                .engine
                .stats(&namespace, StatsRequest::default())
                .await;
            if !stats.expect("stats").workers.is_empty() {
                return;
            }
            pause(millis(1)).await;
        }
    };
    within(seconds(20), seen).await.expect("the claim arrives");
    let under = Arc::into_inner(under).expect("no other process has it");
    let (drained, answer, closed) = tokio::join!(
        under.serving.drain(seconds(20)),
        async {
            let mut answer = String::new();
            let read = tokio::io::AsyncReadExt::read_to_string(&mut waiting, &mut answer);
            read.await.expect("an answer");
            answer
        },
        socket.closed()
    );
    assert!(drained);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains("connection: close") && answer.contains("\"leases\":[]"),
        "{answer}"
    );
    assert_eq!(closed, 1001);
}
