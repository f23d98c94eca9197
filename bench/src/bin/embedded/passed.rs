//! What a claim costs after many jobs have passed through the store.

use std::path::Path;

use punctual::engine::Durability;
use punctual::time::{Stopwatch, pause, seconds};
use punctual_bench::process::resident_bytes;
use punctual_bench::random::Random;
use punctual_embedded::EmbeddedEngine;
use serde_json::json;

use crate::life::{claim, enqueue, settle};
use crate::{announce, disk_bytes, figure, fresh, median, open, rounded};

/// Jobs that wait at the same time: so many cross checkpoints and pass through the store.
const BACKLOG: usize = 1_000_000;
const BATCH: usize = 1_000;
/// Claims of a round, and jobs of a claim.
const CLAIMS: usize = 100;
const LEASE: usize = 100;

pub(crate) async fn measure(directory: &Path, jobs: usize, rounds: usize) {
    let place = fresh(directory);
    let path = place.path().join("data");
    let mut random = Random::new(1);
    let engine = open(&path, Durability::Os);
    let watch = Stopwatch::start();
    for _ in 0..jobs / BACKLOG.min(jobs) {
        pass(&engine, BACKLOG.min(jobs), &mut random).await;
    }
    let took = watch.elapsed().as_secs_f64();
    announce(&json!({"passed": jobs, "lives_per_s": (jobs as f64 / took).round()}));
    let beside = |name: &'static str| beside_fresh(&engine, directory, rounds, name);
    beside("claim of a fresh store's, at once").await;
    idle(&path).await;
    beside("claim of a fresh store's, once quiet").await;
    let resident = resident_bytes().unwrap_or(0) as f64 / 1e6;
    announce(&json!({"resident_mb": rounded(resident)}));
}

/// Claims of this store beside those of one that was just made, in turns.
async fn beside_fresh(worn: &EmbeddedEngine, directory: &Path, rounds: usize, name: &str) {
    let place = fresh(directory);
    let new = open(&place.path().join("data"), Durability::Os);
    let mut random = Random::new(2);
    let (mut costs, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..rounds {
        let fresh_us = claim_us(&new, &mut random).await;
        let worn_us = claim_us(worn, &mut random).await;
        costs[0].push(fresh_us);
        costs[1].push(worn_us);
        ratios.push(worn_us / fresh_us);
    }
    let [fresh_us, worn_us] = costs.map(median).map(rounded);
    announce(&json!({"claim_us_per_job": {"fresh": fresh_us, "after_passed": worn_us}}));
    figure(name, median(ratios), "at most 1.3");
}

/// A backlog comes, and is worked off.
async fn pass(engine: &EmbeddedEngine, jobs: usize, random: &mut Random) {
    for _ in 0..jobs / BATCH {
        enqueue(engine, "orders", BATCH, random).await;
    }
    let mut left = jobs / BATCH * BATCH;
    while left > 0 {
        let claimed = claim(engine, "orders", BATCH).await;
        left -= settle(engine, claimed).await;
    }
}

/// Microseconds that a claim takes per job.
async fn claim_us(engine: &EmbeddedEngine, random: &mut Random) -> f64 {
    for _ in 0..CLAIMS * LEASE / BATCH {
        enqueue(engine, "orders", BATCH, random).await;
    }
    let mut spent = 0.0;
    for _ in 0..CLAIMS {
        let watch = Stopwatch::start();
        let claimed = claim(engine, "orders", LEASE).await;
        spent += watch.elapsed().as_secs_f64();
        assert_eq!(settle(engine, claimed).await, LEASE);
    }
    spent * 1e6 / (CLAIMS * LEASE) as f64
}

/// The disk when no client has called for a minute: nothing is alive.
async fn idle(path: &Path) {
    let bound = 128 << 20;
    let (mut disk, mut waited) = (0, 0);
    for second in 0..=60 {
        disk = disk_bytes(path);
        waited = second;
        if disk <= bound {
            break;
        }
        pause(seconds(1)).await;
    }
    announce(&json!({"live_bytes": 0, "disk_bytes": disk, "seconds_idle": waited}));
    figure(
        "disk MiB with nothing alive",
        disk as f64 / f64::from(1 << 20),
        "at most 128 within 60 s",
    );
}
