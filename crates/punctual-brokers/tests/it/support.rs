//! Relays whose source is the binary, and what arrived.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use punctual::engine::{List, ListBy};
use punctual::sync::Lock;
use punctual::time::{Clock, SystemClock, Timestamp};
use punctual::{Context, Engine, JobId, JobRecord, MemoryEngine, Namespace, NewJob, Worker};
use punctual_gateway::JobJson;
use punctual_relay::lines::{LineSink, LineSource, ReadJob};
use punctual_relay::{Relay, RelayHealth};

/// The path of the binary.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_punctual-relay");

/// As the command reads jobs.
fn reader() -> ReadJob {
    Arc::new(|text: &str, id: JobId| {
        let line = JobJson::parse(text)?;
        if line.has_history() {
            // The command adds what the line leaves out, as here.
            let mut line: serde_json::Value = serde_json::from_str(text).expect("JSON");
            line["id"] = id.to_string().into();
            line["queue"] = "into".into();
            return JobJson::parse(&line.to_string())?.into_import();
        }
        line.into_new_job(&NewJob::with_id(id, "into", ""))
    })
}

/// A source that runs the binary with these arguments against that address.
pub(crate) fn source(arguments: &str, address: &str) -> LineSource {
    let command = format!("exec '{BINARY}' {arguments}");
    LineSource::new(command, "test", reader()).env("PUNCTUAL_RELAY_ADDRESS", address)
}

/// A sink that runs the binary.
pub(crate) fn sink(arguments: &str, address: &str) -> LineSink {
    let write = |job: &JobRecord| serde_json::to_string(&JobJson::from(job)).expect("JSON");
    let command = format!("exec '{BINARY}' {arguments}");
    LineSink::new(command, Arc::new(write)).env("PUNCTUAL_RELAY_ADDRESS", address)
}

/// A relay that runs until it is dropped, which kills the binary.
pub(crate) struct Running {
    pub(crate) health: RelayHealth,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn relay(engine: &Arc<MemoryEngine>, source: LineSource) -> Running {
    let relay = Relay::new(engine, "test").expect("a name").at_most(50);
    let health = relay.health();
    let task = tokio::spawn(async move {
        relay
            .run_until(source, std::future::pending())
            .await
            .expect("it goes on");
    });
    Running { health, task }
}

/// Relays until nothing waits.
pub(crate) async fn drained(engine: &Arc<MemoryEngine>, source: LineSource) -> RelayHealth {
    let relay = Relay::new(engine, "test").expect("a name").until_idle();
    let health = relay.health();
    relay
        .run_until(source, std::future::pending())
        .await
        .expect("it ends");
    health
}

/// Waits until a fact is true.
pub(crate) async fn until(fact: impl Fn() -> bool) {
    while !fact() {
        punctual::time::pause(punctual::time::millis(1)).await;
    }
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

/// When each message arrived. A message is text that ends with the microsecond of its due.
#[derive(Clone, Default)]
pub(crate) struct Arrivals(Arc<Mutex<HashMap<String, Vec<Timestamp>>>>);

impl Arrivals {
    pub(crate) fn add(&self, message: String) {
        self.0
            .locked()
            .entry(message)
            .or_default()
            .push(SystemClock.now());
    }

    pub(crate) fn total(&self) -> usize {
        self.0.locked().len()
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        let mut messages: Vec<String> = self.0.locked().keys().cloned().collect();
        messages.sort();
        messages
    }

    /// How often each message arrived that arrived more than once.
    pub(crate) fn doubled(&self) -> HashMap<String, usize> {
        let arrivals = self.0.locked();
        let counts = arrivals.iter().map(|(text, all)| (text.clone(), all.len()));
        counts.filter(|(_, times)| *times > 1).collect()
    }

    /// Does the jobs of a queue.
    pub(crate) fn work(
        &self,
        engine: &Arc<MemoryEngine>,
        queue: &str,
    ) -> impl Future<Output = ()> + Send + use<> {
        let arrivals = self.clone();
        let handler = move |job: JobRecord, _: Context| {
            arrivals.add(
                String::from_utf8_lossy(&job.payload)
                    .trim_matches('"')
                    .to_owned(),
            );
            async { Ok::<(), punctual::Error>(()) }
        };
        let worker = Worker::new(engine).queues([queue]).handle_any(handler);
        async move {
            worker
                .run_until(std::future::pending())
                .await
                .expect("it works")
        }
    }

    /// The report of a drill, printed as one line: lost, doubled and early.
    pub(crate) fn report(&self, name: &str, sent: usize) -> (usize, usize, usize) {
        let arrivals = self.0.locked();
        let mut late = Vec::new();
        let (mut doubled, mut early) = (0, 0);
        for (message, instants) in arrivals.iter() {
            doubled += instants.len() - 1;
            let (_, digits) = message.rsplit_once('-').expect("it has a due");
            let due = Timestamp::from_micros(digits.parse().expect("a number"));
            early += usize::from(instants[0] < due);
            late.push(instants[0] - due);
        }
        late.sort_unstable();
        let lost = sent - arrivals.len();
        let p99 = late
            .get(late.len() * 99 / 100)
            .map_or(0.0, |late| late.as_secs_f64() * 1e3);
        let report = serde_json::json!({
            "drill": name, "sent": sent, "arrived": arrivals.len(), "lost": lost,
            "doubled": doubled, "early": early, "p99_ms": (p99 * 10.0).round() / 10.0,
        });
        println!("{report}");
        (lost, doubled, early)
    }
}

/// Kills relays while messages flow, until `all` have arrived.
pub(crate) async fn killed_until(
    all: impl Fn() -> bool,
    engine: &Arc<MemoryEngine>,
    source: impl Fn() -> LineSource,
    kills: u64,
) {
    for kill in 0.. {
        let running = relay(engine, source());
        let enough = 20 + kill * 37 % 101;
        until(|| all() || kill < kills && running.health.numbers().received >= enough).await;
        if all() {
            return;
        }
    }
}
