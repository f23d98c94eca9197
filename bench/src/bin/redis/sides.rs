//! The sides that are measured, and the programs that run them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde::Deserialize;

use crate::server::Server;

/// The name of ours, always the first.
pub(crate) const PUNCTUAL: &str = "punctual";

/// One of those who are measured: a program that takes the orders of `bench/redis.md`.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) name: &'static str,
    /// What differs from its defaults, as its documentation recommends for throughput.
    pub(crate) settings: &'static str,
    words: Vec<String>,
    /// Jobs of one call of its bulk enqueue, and calls at the same time.
    pub(crate) batch: u64,
    pub(crate) callers: u64,
    /// Jobs a call each at the same time.
    pub(crate) flight: u64,
    /// Jobs of a run, in bulk and a job a call: some seconds' worth.
    pub(crate) jobs: u64,
    pub(crate) singles: u64,
    /// Whether it can run jobs later at all.
    pub(crate) schedules: bool,
    /// Whether it is in the measures that take long.
    pub(crate) matters: bool,
}

/// Where each side is, below the folder of rivals or that of what was installed for them.
enum Program {
    Rust,
    Node(&'static str),
    Ruby(&'static str),
    Python(&'static str),
}

use Program::{Node, Python, Ruby, Rust};

/// The sides that are installed, ours first; `only` names those wanted, all if it is empty.
///
/// # Panics
/// If there is no side of such a name.
pub(crate) fn installed(only: &[String]) -> Vec<Side> {
    let mut sides = all();
    let names: Vec<&str> = sides.iter().map(|side| side.name).collect();
    for name in only {
        let is_known = names.contains(&name.as_str());
        assert!(
            is_known,
            "no side is called {name}; there are {}",
            names.join(", ")
        );
    }
    sides.retain(|side| only.is_empty() || only.iter().any(|name| name == side.name));
    sides.retain(|side| {
        let is_there = Path::new(&side.words[0]).exists() || side.words[0] == "ruby";
        if !is_there {
            println!("{} is not installed: run bench/rivals/install", side.name);
        }
        is_there
    });
    sides
}

#[rustfmt::skip]
fn all() -> Vec<Side> {
    let side = |name, program, settings, [batch, callers, flight, jobs, singles]: [u64; 5]| Side {
        name, settings, words: words(name, program), batch, callers, flight, jobs, singles,
        schedules: true, matters: false,
    };
    vec![
        Side { matters: true, ..side(PUNCTUAL, Rust, "defaults, batch 100", [100, 8, 64, 500_000, 100_000]) },
        Side { matters: true, ..side("bullmq", Node("bullmq.cjs"), "concurrency 200, addBulk of 1,000, removeOnComplete", [1_000, 1, 64, 100_000, 50_000]) },
        side("bullmq-official", Rust, "concurrency 200, add_bulk of 1,000, remove_on_complete", [1_000, 1, 64, 50_000, 50_000]),
        Side { matters: true, ..side("sidekiq", Ruby("sidekiq.rb"), "concurrency 10, push_bulk of 1,000", [1_000, 1, 1, 100_000, 30_000]) },
        side("celery", Python("celery_side.py"), "2 processes, prefetch 128, no gossip, no results", [1, 1, 1, 10_000, 5_000]),
        side("rq", Python("rq_side.py"), "SimpleWorker, enqueue_many of 1,000", [1_000, 1, 1, 3_000, 2_000]),
        side("dramatiq", Python("dramatiq_side.py"), "2 processes of 8 threads", [1, 1, 1, 20_000, 10_000]),
        Side { schedules: false, ..side("taskiq", Python("taskiq_side.py"), "2 processes, stream broker, 100 sends at once", [1, 100, 64, 20_000, 10_000]) },
        side("apalis-redis", Rust, "heartbeat (its poll) 1 ms, batch 1,000, lock_tasks off, at most 7,000 waiting", [1_000, 1, 64, 7_000, 7_000]),
        side("rusty-sidekiq", Rust, "10 workers, pool of 20, 10 callers", [1, 10, 10, 50_000, 30_000]),
        side("broccoli", Rust, "50 consumers, pool of 60, publish_batch of 1,000", [1_000, 1, 50, 30_000, 30_000]),
        side("rsmq_async", Rust, "loop of ours: 100 received, deleted one by one by 16 tasks", [1_000, 1, 64, 50_000, 30_000]),
    ]
}

fn words(name: &str, program: Program) -> Vec<String> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rivals = bench.join("rivals");
    let installed = target().join("rivals");
    let paths = match program {
        Rust => vec![installed.join("rust/release").join(name)],
        Node(file) => vec![which("node"), rivals.join("node").join(file)],
        Ruby(file) => vec!["ruby".into(), rivals.join("ruby").join(file)],
        Python(file) => vec![
            installed.join("python/bin/python"),
            rivals.join("python").join(file),
        ],
    };
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect()
}

/// Where cargo builds, as `bench/rivals/install` finds it.
fn target() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(beside, PathBuf::from)
}

fn which(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(program));
    found
        .find(|file| file.exists())
        .unwrap_or_else(|| program.into())
}

/// How many seconds an order took, without the start of its process.
#[derive(Deserialize)]
struct Took {
    seconds: f64,
}

/// A line of a worker: what it has done since the line before.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    done: u64,
    #[serde(default)]
    first: u64,
    #[serde(default)]
    last: u64,
    #[serde(default)]
    late: Vec<i64>,
}

impl Side {
    /// Gives an order and waits until it is carried out; answers the seconds it took.
    pub(crate) fn order(&self, server: &Server, order: &[&str]) -> Option<f64> {
        let output = self
            .command(server, order)
            .output()
            .expect("the side starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let took = text
            .lines()
            .find_map(|line| serde_json::from_str::<Took>(line).ok());
        if took.is_none() {
            let errors = String::from_utf8_lossy(&output.stderr);
            eprintln!("{} {}: failed: {text}{errors}", self.name, order.join(" "));
        }
        took.map(|took| took.seconds)
    }

    /// Gives an order that is carried out meanwhile.
    pub(crate) fn begin(&self, server: &Server, order: &[&str]) -> Child {
        let mut command = self.command(server, order);
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the side starts")
    }

    /// Starts worker processes; answers once all are ready.
    pub(crate) fn work(&self, server: &Server, processes: usize) -> Option<Workers> {
        let (lines, received) = channel();
        let mut workers = Workers {
            processes: Vec::new(),
            received,
            seen: Seen::default(),
        };
        for _ in 0..processes {
            let mut command = self.command(server, &["work"]);
            command.stderr(Stdio::null());
            let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut process = spawned.expect("the side starts");
            let output = BufReader::new(process.stdout.take().expect("it is piped"));
            let lines = lines.clone();
            std::thread::spawn(move || {
                for line in output.lines().map_while(Result::ok) {
                    if let Ok(line) = serde_json::from_str(&line) {
                        let _ = lines.send(line);
                    }
                }
            });
            workers.processes.push(process);
        }
        let mut ready = 0;
        while ready < processes {
            match workers.received.recv_timeout(Duration::from_secs(30)) {
                Ok(line) if line.ready => ready += 1,
                // The first ones are at work before the last one is there.
                Ok(line) => workers.seen.add(line),
                Err(_) => {
                    eprintln!("{}: only {ready} of {processes} workers start", self.name);
                    return None;
                }
            }
        }
        Some(workers)
    }

    fn command(&self, server: &Server, order: &[&str]) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(order);
        command.env("REDIS_PORT", server.port().to_string());
        command.env("NODE_PATH", target().join("rivals/node/node_modules"));
        command.stdin(Stdio::null());
        command
    }
}

/// Processes that run jobs until this is dropped.
pub(crate) struct Workers {
    processes: Vec<Child>,
    received: Receiver<Line>,
    /// What was reported so far.
    seen: Seen,
}

/// What handlers have reported.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) done: u64,
    first_us: Option<u64>,
    last_us: u64,
    pub(crate) late_us: Vec<i64>,
}

impl Seen {
    fn add(&mut self, line: Line) {
        if line.done > 0 {
            self.done += line.done;
            self.first_us = self.first_us.into_iter().chain([line.first]).min();
            self.last_us = self.last_us.max(line.last);
            self.late_us.extend(line.late);
        }
    }

    /// From the first start of a handler to the last.
    pub(crate) fn seconds(&self) -> f64 {
        let first_us = self.first_us.unwrap_or(self.last_us);
        self.last_us.saturating_sub(first_us) as f64 / 1e6
    }
}

impl Workers {
    /// Listens until so many jobs are done; `None` if nothing comes within the time limit.
    pub(crate) fn until(&mut self, jobs: u64, time_limit: Duration) -> Option<Seen> {
        let seen = self.until_or_silent(jobs, time_limit);
        if seen.done < jobs {
            eprintln!("only {} of {jobs} jobs were run", seen.done);
        }
        (seen.done >= jobs).then_some(seen)
    }

    /// The same, with whatever was received.
    pub(crate) fn until_or_silent(&mut self, jobs: u64, time_limit: Duration) -> Seen {
        while self.seen.done < jobs {
            match self.received.recv_timeout(time_limit) {
                Ok(line) => self.seen.add(line),
                Err(_) => break,
            }
        }
        self.seen.clone()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // They end with their input.
            drop(process.stdin.take());
        }
        for process in &mut self.processes {
            let _ = process.wait();
        }
    }
}

#[cfg(test)]
mod tests;
