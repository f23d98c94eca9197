//! A server with a client, relays that stop at a step, and what arrived.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::engine::{List, ListBy};
use punctual::sync::Lock;
use punctual::{Engine, JobRecord, MemoryEngine, Namespace, Result, Worker};
use punctual_redis::testing::TestServer;
use punctual_relay::redis::Place;
use punctual_relay::{Message, Open, Refused, Relay, RelayNumbers, Source};
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;

/// Nothing is parked for too short a time: a second relay takes it at once.
pub(crate) const AT_ONCE: Duration = Duration::ZERO;

/// A server of the test's own.
pub(crate) struct Redis {
    pub(crate) server: TestServer,
    pub(crate) client: MultiplexedConnection,
}

impl Redis {
    pub(crate) async fn start() -> Self {
        let server = TestServer::start();
        let client = redis::Client::open(server.address()).expect("an address");
        let client = client
            .get_multiplexed_async_connection()
            .await
            .expect("it runs");
        Self { server, client }
    }

    pub(crate) fn place(&self, key: &str) -> Place {
        Place::new(&format!("127.0.0.1:{}", self.server.port()), key).expect("an address")
    }

    /// Runs a command given as words.
    pub(crate) async fn run(&mut self, words: &[&str]) -> redis::Value {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command
            .query_async(&mut self.client)
            .await
            .expect("it answers")
    }

    /// The keys that are left.
    pub(crate) async fn keys(&mut self) -> Vec<String> {
        let mut keys: Vec<String> = redis::cmd("KEYS")
            .arg("*")
            .query_async(&mut self.client)
            .await
            .expect("it answers");
        keys.sort();
        keys
    }
}

/// Between which steps a relay is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    BeforeTake,
    AfterTake,
    AfterReceipt,
    AfterAccept,
}

impl Step {
    pub(crate) const ALL: [Self; 4] = [
        Self::BeforeTake,
        Self::AfterTake,
        Self::AfterReceipt,
        Self::AfterAccept,
    ];
}

/// A source that stands still at a step, for its relay to be killed there.
pub(crate) struct StopsAt<O> {
    pub(crate) open: O,
    pub(crate) step: Step,
    pub(crate) reached: Arc<Notify>,
}

struct Stopping {
    source: Box<dyn Source>,
    step: Step,
    reached: Arc<Notify>,
}

impl Stopping {
    async fn passes(&mut self, step: Step) {
        if self.step == step {
            self.reached.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl<O: Open> Open for StopsAt<O> {
    async fn open(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(Stopping {
            source: self.open.open().await?,
            step: self.step,
            reached: self.reached.clone(),
        }))
    }
}

#[async_trait]
impl Source for Stopping {
    async fn next(&mut self, at_most: usize) -> Result<Vec<Message>> {
        self.passes(Step::BeforeTake).await;
        let batch = self.source.next(at_most).await?;
        self.passes(Step::AfterTake).await;
        Ok(batch)
    }

    async fn accept(&mut self, refused: &[Refused]) -> Result<()> {
        self.passes(Step::AfterReceipt).await;
        self.source.accept(refused).await?;
        self.passes(Step::AfterAccept).await;
        Ok(())
    }
}

/// Runs a relay into the engine until it is killed at that step.
pub(crate) async fn killed_at(step: Step, engine: &Arc<MemoryEngine>, open: impl Open) {
    let reached = Arc::new(Notify::new());
    let stops = StopsAt {
        open,
        step,
        reached: reached.clone(),
    };
    let relay = Relay::new(engine, "test").expect("a name");
    relay
        .run_until(stops, reached.notified())
        .await
        .expect("it goes on until it is killed");
}

/// Runs a relay until nothing waits.
pub(crate) async fn drained(engine: &Arc<MemoryEngine>, open: impl Open) -> RelayNumbers {
    let relay = Relay::new(engine, "test").expect("a name").until_idle();
    let health = relay.health();
    relay
        .run_until(open, std::future::pending())
        .await
        .expect("it ends");
    health.numbers()
}

/// Every job of the engine.
pub(crate) async fn jobs(engine: &Arc<MemoryEngine>) -> Vec<JobRecord> {
    let list = List::new(ListBy::All).limit(1_000).payloads(true);
    engine
        .list(&Namespace::default(), list)
        .await
        .expect("it lists")
        .jobs
}

/// Payloads, as text.
pub(crate) fn texts(jobs: &[JobRecord]) -> Vec<String> {
    let mut texts: Vec<String> = jobs
        .iter()
        .map(|job| String::from_utf8_lossy(&job.payload).into_owned())
        .collect();
    texts.sort();
    texts
}

/// How often a worker has done the job of each payload.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done(pub(crate) Arc<Mutex<HashMap<String, u32>>>);

impl Done {
    /// Does what is due in a queue.
    pub(crate) async fn work(&self, engine: &Arc<MemoryEngine>, queue: &str) {
        let done = self.0.clone();
        let handler = move |job: JobRecord, _: punctual::Context| {
            let text = String::from_utf8_lossy(&job.payload).into_owned();
            *done.locked().entry(text).or_default() += 1;
            async { Ok::<(), punctual::Error>(()) }
        };
        let worker = Worker::new(engine).queues([queue]).handle_any(handler);
        worker.run_until_idle().await.expect("it works");
    }

    pub(crate) fn counts(&self) -> HashMap<String, u32> {
        self.0.locked().clone()
    }
}
