//! Drills whose relay and engine are processes that are killed as well. Small ones run with the
//! tests of servers; variables make them large, and let them take the broker or the database down:
//! `scripts/relay-drill NAME`.

mod delayed;
mod outbox;
mod pending;

use std::collections::HashSet;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use punctual::engine::{Counts, StatsRequest};
use punctual::sync::Lock;
use punctual::time::{millis, pause};
use punctual::{Context, Engine, JobRecord, JobState, Namespace, Worker};
use punctual_client::HttpEngine;
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::support::{Arrivals, BINARY};

/// A number of the drill, from a variable if that is set.
fn number(variable: &str, usual: usize) -> usize {
    let set = std::env::var(variable).ok();
    set.map_or(usual, |text| text.parse().expect("a number"))
}

/// Whether the server may be taken down: no other test uses it then.
fn takes_servers_down() -> bool {
    std::env::var("PUNCTUAL_DRILL_CRASHES").is_ok()
}

/// A process that is killed when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the command `punctual`, which is beside the binary.
fn punctual(arguments: &[&str]) -> Killed {
    let mut command = Command::new(PathBuf::from(BINARY).with_file_name("punctual"));
    command.args(arguments).stdin(Stdio::null());
    let child = command.stdout(Stdio::null()).spawn();
    Killed(child.expect("punctual is built: cargo build --workspace --all-features"))
}

/// A relay under a supervisor: it starts again after it was killed, and when it ends by itself, as
/// one does that finds its engine away as it starts.
struct SupervisedRelay {
    process: Arc<Mutex<Killed>>,
    task: tokio::task::JoinHandle<()>,
}

impl SupervisedRelay {
    fn start(arguments: &[&str]) -> Self {
        let process = Arc::new(Mutex::new(punctual(arguments)));
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let supervised = process.clone();
        let task = tokio::spawn(async move {
            loop {
                pause(millis(20)).await;
                let mut process = supervised.locked();
                if process.0.try_wait().expect("it was started").is_some() {
                    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                    *process = punctual(&arguments);
                }
            }
        });
        Self { process, task }
    }

    /// Ends it as a kill does.
    fn kill(&self) {
        let _ = self.process.locked().0.kill();
    }

    fn id(&self) -> u32 {
        self.process.locked().0.id()
    }
}

impl Drop for SupervisedRelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An engine in a process of its own, which syncs what it answers.
struct EngineProcess {
    kind: Kind,
}

enum Kind {
    Serve {
        directory: TempDir,
        port: u16,
        process: Option<Killed>,
    },
    Redis(Box<TestServer>),
}

impl EngineProcess {
    /// A directory behind `punctual serve`.
    fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut engine = Self {
            kind: Kind::Serve {
                directory: tempfile::tempdir().expect("a directory"),
                port,
                process: None,
            },
        };
        drop(listener);
        engine.start();
        engine
    }

    /// Redis with `appendfsync always`.
    fn redis() -> Self {
        let server = TestServer::watched(&TestServer::KEEPS_ALL, |_| Vec::new());
        Self {
            kind: Kind::Redis(Box::new(server)),
        }
    }

    fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Serve { .. } => "file",
            Kind::Redis(_) => "redis",
        }
    }

    /// As `--engine` takes it.
    fn address(&self) -> String {
        match &self.kind {
            Kind::Serve { port, .. } => format!("http://127.0.0.1:{port}"),
            Kind::Redis(server) => format!("{}?durability=fsync", server.address()),
        }
    }

    /// A client.
    async fn client(&self) -> Arc<dyn Engine> {
        match &self.kind {
            Kind::Serve { port, .. } => {
                let authority = format!("127.0.0.1:{port}");
                Arc::new(HttpEngine::connect(&authority, None).expect("an address"))
            }
            Kind::Redis(_) => {
                let options = self.address().parse().expect("an address");
                Arc::new(RedisEngine::connect(options).await.expect("it runs"))
            }
        }
    }

    fn start(&mut self) {
        match &mut self.kind {
            Kind::Serve {
                directory,
                port,
                process,
            } => {
                let engine = format!("file:{}", directory.path().display());
                let listen = format!("127.0.0.1:{port}");
                let serve = ["serve", "--no-auth", "--engine", &engine];
                *process = Some(punctual(&[&serve[..], &["--listen", &listen]].concat()));
            }
            Kind::Redis(server) => block_in_place(|| {
                if !server.starts_again() {
                    server.repair_append_only_files();
                    server.restart();
                }
            }),
        }
    }

    /// Kills it, and starts it again.
    fn kill(&mut self) {
        match &mut self.kind {
            Kind::Serve { process, .. } => *process = None,
            Kind::Redis(server) => block_in_place(|| server.kill()),
        }
        self.start();
    }

    /// The megabytes that it has in memory.
    fn megabytes(&self) -> u64 {
        match &self.kind {
            Kind::Serve { process, .. } => process
                .as_ref()
                .map_or(0, |process| resident(process.0.id())),
            Kind::Redis(server) => {
                let said = server.cli(&["INFO", "memory"]);
                let line = said
                    .lines()
                    .find_map(|line| line.strip_prefix("used_memory_rss:"));
                line.and_then(|bytes| bytes.trim().parse::<u64>().ok())
                    .unwrap_or(0)
                    >> 20
            }
        }
    }
}

/// The megabytes of a process.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) >> 10
}

/// The megabytes of a process and of those that it has started.
fn resident_with_children(process: u32) -> u64 {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|id| id.parse().ok());
    resident(process) + children.map(resident_with_children).sum::<u64>()
}

/// Does the jobs of a queue. One that runs again, as its worker had no answer, arrives once.
async fn work(engine: Arc<dyn Engine>, queue: &'static str, arrivals: Arrivals) {
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let handler = move |job: JobRecord, _: Context| {
        if seen.locked().insert(job.id) {
            let text = String::from_utf8_lossy(&job.payload)
                .trim_matches('"')
                .to_owned();
            arrivals.add(text);
        }
        async { Ok::<(), punctual::Error>(()) }
    };
    let worker = Worker::new(&engine).queues([queue]).concurrency(200);
    let working = worker.handle_any(handler).run_until(std::future::pending());
    working.await.expect("it works");
}

/// The jobs of a queue by state; none, of an engine that does not answer.
async fn counts(engine: &Arc<dyn Engine>, queue: &str) -> Option<Counts> {
    let request = StatsRequest::default().queues(vec![queue.to_owned()]);
    let stats = engine.stats(&Namespace::default(), request).await.ok()?;
    stats.queues.first().map(|one| one.counts)
}

/// Waits until nothing of a queue is left to do.
async fn idle(engine: &Arc<dyn Engine>, queue: &str) {
    loop {
        let counts = counts(engine, queue).await;
        if counts.is_some_and(|counts| counts.pending() + counts.of(JobState::Active) == 0) {
            return;
        }
        pause(millis(50)).await;
    }
}

/// How many jobs of a queue were completed in the last day.
async fn completed(engine: &Arc<dyn Engine>, queue: &str) -> u64 {
    let mut request = StatsRequest::default().queues(vec![queue.to_owned()]);
    request.history = true;
    let stats = engine.stats(&Namespace::default(), request).await;
    let stats = stats.expect("it answers");
    let minutes = stats.queues.iter().flat_map(|one| &one.history);
    minutes.map(|minute| minute.completed).sum()
}

/// What is done once a drill has come so far.
#[derive(Debug, Clone, Copy)]
enum Act {
    KillRelay,
    KillEngine,
    /// Of the broker or the database: the number of the fault.
    BreakServer(usize),
}

/// Acts in the order of the progress at which they come, spread evenly over a drill.
fn acts(total: usize, relays: usize, engines: usize, servers: usize) -> Vec<(usize, Act)> {
    let at = |nth: usize, of: usize, shift: usize| total * (4 * nth + shift) / (4 * of + 4);
    let relays = (1..=relays).map(|nth| (at(nth, relays, 0), Act::KillRelay));
    let engines = (1..=engines).map(|nth| (at(nth, engines, 1), Act::KillEngine));
    let servers = (1..=servers).map(|nth| (at(nth, servers, 2), Act::BreakServer(nth)));
    let mut acts: Vec<_> = relays.chain(engines).chain(servers).collect();
    acts.sort_by_key(|(at, _)| *at);
    acts
}
