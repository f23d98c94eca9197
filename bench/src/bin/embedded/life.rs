//! Whole lives of jobs per second, beside the same rows in a bare store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punctual::engine::{Claim, Claimed, Durability, LeaseReport, Settle, Settlement, WorkerId};
use punctual::time::{Stopwatch, pause};
use punctual::{Engine, Namespace, NewJob, Outcome};
use punctual_bench::random::Random;
use punctual_embedded::EmbeddedEngine;
use serde_json::json;

use crate::{announce, figure, fresh, median, open, payload};

pub(crate) async fn measure(
    directory: &Path,
    jobs: usize,
    batch: usize,
    callers: usize,
    runs: usize,
) {
    let jobs = jobs / batch / callers * batch * callers;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for run in 0..runs {
        ours.push(lives_per_s(directory, jobs, batch, callers).await);
        bare.push(bare_per_s(directory, jobs, batch));
        announce(&json!({
            "run": run + 1, "jobs": jobs, "batch": batch, "payload_bytes": 100, "durability": "os",
            "lives_per_s": ours[run].round(), "bare_store_per_s": bare[run].round(),
        }));
    }
    let (ours, bare) = (median(ours), median(bare));
    figure("lives per second", ours, "at least 100,000");
    figure("of the bare store", ours / bare, "at least 0.5");
}

/// Producers and workers at the same time.
async fn lives_per_s(directory: &Path, jobs: usize, batch: usize, callers: usize) -> f64 {
    let place = fresh(directory);
    let engine = Arc::new(open(&place.path().join("data"), Durability::Os));
    let left = Arc::new(AtomicUsize::new(jobs));
    let watch = Stopwatch::start();
    let mut tasks = Vec::new();
    for caller in 0..callers {
        let (engine, left) = (engine.clone(), left.clone());
        let producer = engine.clone();
        tasks.push(tokio::spawn(async move {
            let mut random = Random::new(caller as u64);
            for _ in 0..jobs / callers / batch {
                enqueue(&producer, "orders", batch, &mut random).await;
            }
        }));
        tasks.push(tokio::spawn(async move {
            while left.load(Ordering::Relaxed) > 0 {
                let claimed = claim(&engine, "orders", batch).await;
                match settle(&engine, claimed).await {
                    0 => pause(Duration::from_micros(100)).await,
                    done => {
                        left.fetch_sub(done, Ordering::Relaxed);
                    }
                }
            }
        }));
    }
    for task in tasks {
        task.await.expect("a caller ends");
    }
    jobs as f64 / watch.elapsed().as_secs_f64()
}

pub(crate) async fn enqueue(
    engine: &EmbeddedEngine,
    queue: &str,
    batch: usize,
    random: &mut Random,
) {
    let jobs = (0..batch).map(|_| NewJob::new(queue, payload(random)));
    let enqueued = engine.enqueue(&Namespace::default(), jobs.collect()).await;
    enqueued.expect("enqueue");
}

pub(crate) async fn claim(engine: &EmbeddedEngine, queue: &str, limit: usize) -> Claimed {
    let claim = Claim::new(WorkerId(1), queue, limit);
    let claimed = engine.claim(&Namespace::default(), claim).await;
    claimed.expect("claim")
}

/// Completes all jobs of a claim; how many.
pub(crate) async fn settle(engine: &EmbeddedEngine, claimed: Claimed) -> usize {
    let mut done = 0;
    let report = |lease: punctual::engine::Lease| {
        let end =
            |job: &punctual::JobRecord| Settlement::new(job.id, job.attempt, Outcome::Completed);
        let ended: Vec<_> = lease.jobs.iter().map(end).collect();
        done += ended.len();
        LeaseReport::new(lease.token, ended)
    };
    let leases: Vec<_> = claimed.leases.into_iter().map(report).collect();
    if !leases.is_empty() {
        let settled = engine
            .settle(&Namespace::default(), Settle::new(leases))
            .await;
        settled.expect("settle");
    }
    done
}

/// The rows of the same lives in fjall, a batch per verb, not synced: what was sent and its place;
/// then the place removed; then what was sent removed and a tombstone put.
fn bare_per_s(directory: &Path, jobs: usize, batch: usize) -> f64 {
    let place = fresh(directory);
    let store = fjall::Database::builder(place.path()).open().expect("open");
    let rows = store
        .keyspace("rows", fjall::KeyspaceCreateOptions::default)
        .expect("keyspace");
    let key = |table: u8, n: usize| [&[table][..], &[0; 8], &(n as u64).to_be_bytes()].concat();
    let mut random = Random::new(1);
    let watch = Stopwatch::start();
    for first in (0..jobs).step_by(batch) {
        let ids = first..first + batch;
        let mut enqueue = store.batch();
        for n in ids.clone() {
            let known = rows.get(key(4, n)).expect("get");
            assert!(known.is_none(), "the duplicate check");
            let mut sent = payload(&mut random);
            sent.resize(180, b'x');
            enqueue.insert(&rows, key(4, n), sent);
            enqueue.insert(&rows, key(7, n), key(4, n));
        }
        enqueue.commit().expect("commit");
        let mut claim = store.batch();
        for n in ids.clone() {
            rows.get(key(4, n)).expect("get").expect("it is there");
            claim.remove(&rows, key(7, n));
        }
        claim.insert(&rows, key(15, first), vec![1; batch * 16]);
        claim.commit().expect("commit");
        let mut settle = store.batch();
        for n in ids {
            settle.remove(&rows, key(4, n));
            settle.insert(&rows, key(17, n), vec![1; 30]);
        }
        settle.remove(&rows, key(15, first));
        settle.commit().expect("commit");
    }
    jobs as f64 / watch.elapsed().as_secs_f64()
}
