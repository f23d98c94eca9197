//! Bytes of pending jobs on disk and in memory.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use punctual::engine::Durability;
use punctual::time::{Stopwatch, pause, seconds};
use punctual::{Due, Engine, Namespace, NewJob};
use punctual_bench::process::resident_bytes;
use punctual_bench::random::Random;
use punctual_embedded::EmbeddedEngine;
use serde_json::json;

use crate::{announce, disk_bytes, figure, fresh, life, open, payload};

const BATCH: usize = 1_000;
/// An id and a payload: what no engine can do without.
const LIVE_BYTES: u64 = 116;

pub(crate) async fn measure(directory: &Path, jobs: usize) {
    let place = fresh(directory);
    let path = place.path().join("data");
    load(&path, jobs);
    for after in ["a kill", "a close"] {
        announce(&json!({"restart after": after, "jobs": jobs}));
        let restarted = again(&path).arg("restart").status();
        assert!(restarted.expect("it can be started again").success());
    }
    idle(&path, (jobs as u64 + 2) * LIVE_BYTES).await;
}

/// Loads in a process of its own, which is killed when its last job was acknowledged.
fn load(path: &Path, jobs: usize) {
    let watch = Stopwatch::start();
    let mut loader = again(path)
        .args(["load", &jobs.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started again");
    let mut said = String::new();
    let output = loader.stdout.take().expect("its output is ours");
    BufReader::new(output).read_line(&mut said).expect("a line");
    assert_eq!(said.trim(), "loaded");
    let took = watch.elapsed().as_secs_f64();
    loader.kill().and_then(|()| loader.wait()).expect("a kill");
    announce(&json!({"loaded": jobs, "per_s": (jobs as f64 / took).round()}));
}

fn again(path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this is a file"));
    command.arg("--directory").arg(path);
    command
}

pub(crate) async fn load_until_killed(path: &Path, jobs: usize) {
    let engine = open(path, Durability::Os);
    enqueue(&engine, jobs).await;
    println!("loaded");
    std::future::pending::<()>().await;
}

/// Jobs due over the 30 days after the coming hour, and two that are due.
async fn enqueue(engine: &EmbeddedEngine, jobs: usize) {
    let namespace = Namespace::default();
    let mut random = Random::new(1);
    let mut waiting = || {
        let after = seconds(3_600 + random.next_u64() % 2_592_000);
        NewJob::new("orders", payload(&mut random)).due(Due::After(after))
    };
    for _ in 0..jobs / BATCH {
        let jobs = (0..BATCH).map(|_| waiting()).collect();
        engine.enqueue(&namespace, jobs).await.expect("enqueue");
    }
    let due = vec![NewJob::new("orders", "due"), NewJob::new("orders", "due")];
    engine.enqueue(&namespace, due).await.expect("enqueue");
}

pub(crate) async fn restart(path: &Path) {
    let watch = Stopwatch::start();
    let engine = open(path, Durability::Os);
    let claimed = life::claim(&engine, "orders", 1).await;
    let first_claim = watch.elapsed().as_secs_f64();
    assert_eq!(claimed.leases.len(), 1, "one job is due");
    life::settle(&engine, claimed).await;
    announce(&json!({"replayed_commits": engine.opened().replayed}));
    figure("seconds to the first claim", first_claim, "under 2");
    let resident = resident_bytes().unwrap_or(0) as f64 / 1e6;
    figure("resident MB", resident, "under 300");
    engine.close().await.expect("close");
}

/// The disk when no client has called for a minute.
async fn idle(path: &Path, live: u64) {
    let engine = open(path, Durability::Os);
    let (mut disk, mut waited) = (0, 0);
    let bound = 3 * live + (128 << 20);
    for second in 0..=60 {
        disk = disk_bytes(path);
        waited = second;
        if disk <= bound {
            break;
        }
        pause(seconds(1)).await;
    }
    announce(&json!({"live_bytes": live, "disk_bytes": disk, "seconds_idle": waited}));
    figure(
        "disk of live data",
        disk as f64 / live as f64,
        "at most 3, and 128 MiB",
    );
    engine.close().await.expect("close");
}
