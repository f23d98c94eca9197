//! Tests of the command: liveness: waiters.

use std::sync::Arc;

use punctual::engine::{StatsRequest, WorkerId};
use punctual::time::{millis, pause, seconds, within};
use punctual::{Due, Engine, NewJob};
use punctual_redis::testing::TestServer;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{QUEUE, engine, here};
use crate::serve::Server;
use crate::support::{Punctual, text};

/// Two gateways before one Redis.
struct Gateways {
    redis: TestServer,
    engine: Arc<dyn Engine>,
    _punctual: Punctual,
    one: Server,
    other: Server,
    known: usize,
}

impl Gateways {
    async fn start() -> Self {
        let redis = TestServer::start();
        let punctual = Punctual::new();
        let address = redis.address();
        let serve = || Server::start(&punctual, &["--engine", &address]);
        let (one, other) = (serve(), serve());
        Self {
            engine: engine(&address).await,
            redis,
            _punctual: punctual,
            one,
            other,
            known: 0,
        }
    }

    /// A claim that waits at a gateway, known to the engine.
    async fn waits(&mut self, at_other: bool) -> TcpStream {
        let server = if at_other { &self.other } else { &self.one };
        let id = WorkerId::random();
        let body = format!(
            r#"{{"queues":["{QUEUE}"],"wait":"60s","lease_duration":"1s","worker":{{"id":"{id}"}}}}"#
        );
        let address = server.url().trim_start_matches("http://").to_owned();
        let request = format!(
            "POST /v1/claims HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nauthorization: Bearer {}\r\n\r\n{body}",
            body.len(),
            text(&server.announced["token"])
        );
        let mut stream = TcpStream::connect(&address).await.expect("it serves");
        stream.write_all(request.as_bytes()).await.expect("sent");
        self.known += 1;
        while self.seen().await < self.known {
            pause(millis(10)).await;
        }
        stream
    }

    async fn seen(&self) -> usize {
        let stats = self.engine.stats(&here(), StatsRequest::default()).await;
        stats.expect("stats").workers.len()
    }

    async fn enqueue(&self, due: Due) {
        let job = NewJob::new(QUEUE, "{}").due(due);
        self.engine
            .enqueue(&here(), vec![job])
            .await
            .expect("enqueue");
    }

    /// Once as many of this process's gateways wait for wakeups.
    async fn listen(&self, gateways: usize) {
        let blocked = || {
            let clients = self.redis.cli(&["CLIENT", "LIST"]);
            clients.matches("cmd=bzpopmin").count()
        };
        while blocked() < gateways {
            pause(millis(10)).await;
        }
    }
}

/// The id of the job that a waiting claim is answered.
async fn job(mut waits: TcpStream) -> String {
    let mut answer = String::new();
    waits.read_to_string(&mut answer).await.expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let claimed: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
    text(&claimed["leases"][0]["jobs"][0]["id"])
}

/// The longest that a due job may wait while a worker waits for it.
const ALIVE_AFTER: std::time::Duration = seconds(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_are_given_up_while_they_wait_keep_no_job_from_the_others() {
    let mut gateways = Gateways::start().await;
    let mut given_up = Vec::new();
    let mut wait = JoinSet::new();
    for number in 0..12 {
        let waits = gateways.waits(number % 3 == 0).await;
        if number % 2 == 0 {
            given_up.push(waits);
        } else {
            wait.spawn(job(waits));
        }
    }
    gateways.listen(2).await;
    drop(given_up);
    let mut ids = std::collections::BTreeSet::new();
    while !wait.is_empty() {
        gateways.enqueue(Due::After(millis(20))).await;
        let next = within(ALIVE_AFTER, wait.join_next()).await;
        let next = next.expect("a worker waits, and comes");
        ids.extend(next.map(|id| id.expect("a job")));
    }
    assert_eq!(ids.len(), 6, "each has a job of its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_killed_takes_no_due_with_it() {
    let mut gateways = Gateways::start().await;
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(gateways.waits(false).await);
    }
    let waits = gateways.waits(true).await;
    gateways.listen(2).await;
    gateways.enqueue(Due::After(seconds(2))).await;
    let spare = Server::start(&Punctual::new(), &["--engine", "memory:"]);
    // A kill, and no end in good order.
    drop(std::mem::replace(&mut gateways.one, spare));
    let came = within(seconds(2) + ALIVE_AFTER, job(waits)).await;
    assert!(came.is_some(), "the worker that is left comes");
    drop(held);
}
