//! Tests of the command: liveness: soak.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::conformance::START;
use punctual::engine::{Claim, Durability, Lease, LeaseReport, Settle, Settlement, WorkerId};
use punctual::job::{Group, OnRetry, Unique};
use punctual::time::{
    ManualClock, Stopwatch, Timestamp, days, hours, millis, minutes, pause, seconds,
};
use punctual::{Due, Engine, NewJob, Outcome};
use punctual_embedded::{EmbeddedEngine, Options};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;
use tempfile::TempDir;

use super::{QUEUE, here};

/// How many, unless `PUNCTUAL_SOAK` says otherwise.
const JOBS: usize = 20_000;
/// They come in so many waves; jobs of a wave are there together.
const WAVES: usize = 10;
/// As many waves stand all the while.
const STANDING: usize = 3;
/// Jobs of a call.
const BATCH: usize = 500;
/// Dead letters stay for 30 days, everything else for less.
const LAPSE: Duration = days(40);
/// Within that time of the wall clock an engine comes down that has nothing to do.
const TIME_LIMIT: Duration = seconds(60);

/// What an engine takes, by kind: keys, bytes in memory by its own account, bytes that its process
/// holds of the machine's memory, bytes on disk.
type Taken = BTreeMap<&'static str, u64>;
/// What the process holds.
const PROCESS: &str = "resident";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_came_and_went_leave_nothing_in_redis() {
    soak(OnRedis::new().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_came_and_went_leave_nothing_in_a_directory() {
    soak(InDirectory::new()).await;
}

/// An engine whose clock a test moves.
#[async_trait]
trait Soaked: Send {
    /// After so many waves it has made room that it keeps, as tables that do not grow smaller.
    const KEEPS_AFTER: usize;
    fn engine(&self) -> Arc<dyn Engine>;
    async fn set_time(&mut self, now: Timestamp);
    /// What it takes now.
    async fn taken(&mut self) -> Taken;
}

/// Jobs of every kind come in waves past others that stand, and go until every tombstone of them
/// has lapsed: after each wave the engine comes down to what it took before them, within a
/// twentieth. Its process keeps what it takes in the first half of them, as caches fill.
async fn soak<S: Soaked>(mut soaked: S) {
    let wave = wave();
    let far = START + LAPSE * (2 * WAVES as u32);
    let standing = |number| NewJob::new(QUEUE, payload(number)).due(Due::At(far));
    enqueue(&*soaked.engine(), 0..STANDING * wave, standing).await;

    let mut base = soaked.taken().await;
    println!("{base:?} before the waves");
    for number in 0..WAVES {
        let numbers = number * wave..(number + 1) * wave;
        let start = START + LAPSE * number as u32;
        enqueue(&*soaked.engine(), numbers, job).await;
        let peak = soaked.taken().await;
        let mut attempts = work_off(&*soaked.engine()).await;
        soaked.set_time(start + minutes(1)).await;
        attempts += work_off(&*soaked.engine()).await;
        assert_eq!(attempts, wave + wave / 10, "each once, and a tenth again");
        soaked.set_time(start + LAPSE).await;
        forget(&*soaked.engine(), start + LAPSE).await;

        if number < WAVES / 2 {
            base.remove(PROCESS);
        }
        if number < S::KEEPS_AFTER {
            base.clear();
        } else {
            let shows = |what: &str| peak[what] > base[what] * 11 / 10;
            assert!(shows("memory") && shows("disk"), "twice what may be left");
        }
        let left = comes_down(&mut soaked, &base).await;
        println!("{peak:?} with wave {number}, {left:?} after it");
        for (what, taken) in left {
            base.entry(what).or_insert(taken);
        }
    }
}

/// What is left once it takes no more than before, as it tidies up while it is left in peace.
async fn comes_down(soaked: &mut impl Soaked, base: &Taken) -> Taken {
    let watch = Stopwatch::start();
    let mut peace = millis(100);
    loop {
        let left = soaked.taken().await;
        if !base
            .iter()
            .any(|(what, base)| is_above(what, left[what], *base))
        {
            return left;
        }
        let has_time = watch.elapsed() < TIME_LIMIT;
        assert!(
            has_time,
            "it does not come down to {base:?} any more: {left:?}"
        );
        pause(peace).await;
        peace *= 2;
    }
}

/// Jobs of a wave.
fn wave() -> usize {
    let reported = std::env::var("PUNCTUAL_SOAK").ok();
    let jobs = reported.map_or(JOBS, |reported| reported.parse().expect("a number of jobs"));
    assert!(jobs >= 100 * WAVES, "{jobs} jobs show nothing");
    jobs / WAVES / 100 * 100
}

/// Whether more was left than before, by a twentieth; of the pages of a process some are in pieces
/// that it cannot give back.
fn is_above(what: &str, left: u64, base: u64) -> bool {
    let slack = if what == PROCESS { 8 << 20 } else { 0 };
    left > base * 21 / 20 + slack
}

/// Digits that hardly compress.
fn payload(number: usize) -> String {
    let digits = [
        0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835,
        0xda94_2042_e4dd_58b5_2545_f491_4f6c_dd1d,
    ]
    .map(|odd: u128| format!("{:032x}", odd.wrapping_mul(number as u128 + 1)));
    format!(r#"{{"order":{number},"note":"{}"}}"#, digits.concat())
}

/// Of every ten, one has a unique key, one is in a group, one is kept, one is to fail, one to die.
fn job(number: usize) -> NewJob {
    let mut job = NewJob::new(QUEUE, payload(number));
    match number % 10 {
        0 => {
            job.unique = Some(Unique::new(format!("order-{number}")).hold(Default::default()));
        }
        1 => {
            job.group =
                Some(Group::new(format!("customer-{}", number / 100)).on_retry(OnRetry::Hold));
        }
        2 => job.retention = hours(1),
        3 => job.kind = "fails".into(),
        4 => job.kind = "dies".into(),
        5 => job.due = Due::After(seconds(20)),
        _ => {}
    }
    job
}

async fn enqueue(engine: &dyn Engine, numbers: Range<usize>, job: impl Fn(usize) -> NewJob) {
    for first in numbers.clone().step_by(BATCH) {
        let batch = first..numbers.end.min(first + BATCH);
        let jobs = batch.map(&job).collect();
        engine.enqueue(&here(), jobs).await.expect("enqueue");
    }
}

/// Claims and settles what is due; how many attempts that took.
async fn work_off(engine: &dyn Engine) -> usize {
    let worker = WorkerId::random();
    let mut attempts = 0;
    loop {
        let claim = Claim::new(worker, QUEUE, BATCH);
        let claimed = engine.claim(&here(), claim).await.expect("claim");
        if claimed.leases.is_empty() {
            return attempts;
        }
        attempts += claimed
            .leases
            .iter()
            .map(|lease| lease.jobs.len())
            .sum::<usize>();
        let leases = claimed.leases.iter().map(report).collect();
        engine
            .settle(&here(), Settle::new(leases))
            .await
            .expect("settle");
    }
}

fn report(lease: &Lease) -> LeaseReport {
    let ends = lease.jobs.iter().map(|job| {
        let outcome = match (job.kind.as_str(), job.attempt) {
            ("fails", 1) => Outcome::Retry {
                after: Some(seconds(5)),
            },
            ("dies", _) => Outcome::Dead,
            _ => Outcome::Completed,
        };
        Settlement::new(job.id, job.attempt, outcome)
    });
    LeaseReport::new(lease.token, ends.collect())
}

/// All that time has caused, slice by slice.
async fn forget(engine: &dyn Engine, now: Timestamp) {
    loop {
        let done = engine.maintain().await.expect("maintain");
        if done.next.is_none_or(|next| next > now) {
            return;
        }
    }
}

struct OnRedis {
    server: TestServer,
    engine: Arc<RedisEngine>,
    clock: ManualClock,
}

impl OnRedis {
    async fn new() -> Self {
        let server =
            TestServer::with(&["--save", "", "--appendonly", "yes", "--appendfsync", "no"]);
        let clock = ManualClock::new(START);
        let options = server.address().parse().expect("a good address");
        let engine = RedisEngine::connect_with_clock(options, clock.clone()).await;
        Self {
            engine: Arc::new(engine.expect("the server is there")),
            clock,
            server,
        }
    }

    fn reported(&self, section: &str, name: &str) -> u64 {
        let info = self.server.cli(&["INFO", section]);
        let value = info
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value = value.unwrap_or_else(|| panic!("no {name}: {info}"));
        value.trim().parse().expect("a number")
    }
}

#[async_trait]
impl Soaked for OnRedis {
    const KEEPS_AFTER: usize = 1;

    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn set_time(&mut self, now: Timestamp) {
        self.engine
            .set_time(now)
            .await
            .expect("the server is there");
        self.clock.set(now);
    }

    async fn taken(&mut self) -> Taken {
        self.server.cli(&["BGREWRITEAOF"]);
        while self.reported("persistence", "aof_rewrite_in_progress") > 0
            || self.reported("persistence", "aof_rewrite_scheduled") > 0
        {
            pause(millis(20)).await;
        }
        let keys = self
            .server
            .cli(&["DBSIZE"])
            .trim()
            .parse()
            .expect("a number");
        let memory = self.reported("memory", "used_memory_dataset");
        let disk = self.reported("persistence", "aof_current_size");
        // Its allocator gives back now what it would in some seconds.
        assert_eq!(self.server.cli(&["MEMORY", "PURGE"]), "OK");
        let mut taken = BTreeMap::from([("keys", keys), ("memory", memory), ("disk", disk)]);
        let process = self.reported("server", "process_id").to_string();
        taken.extend(resident(&process).map(|bytes| (PROCESS, bytes)));
        taken
    }
}

struct InDirectory {
    directory: TempDir,
    engine: Arc<EmbeddedEngine>,
    clock: ManualClock,
}

impl InDirectory {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let clock = ManualClock::new(START);
        Self {
            engine: Self::open(&directory, &clock),
            directory,
            clock,
        }
    }

    /// The log holds what the store does not have yet, up to a checkpoint: a small part of a wave.
    fn open(directory: &TempDir, clock: &ManualClock) -> Arc<EmbeddedEngine> {
        let options = Options::default()
            .clock(clock.clone())
            .durability(Durability::Os)
            .maintenance(false)
            .reserve_bytes(0)
            .checkpoint_bytes(4 * wave())
            .idle_after(millis(50));
        let engine = EmbeddedEngine::open(directory.path().join("data"), options);
        Arc::new(engine.expect("the data are whole"))
    }
}

#[async_trait]
impl Soaked for InDirectory {
    const KEEPS_AFTER: usize = 0;

    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn set_time(&mut self, now: Timestamp) {
        self.clock.set(now);
    }

    /// Opened anew, so that nothing waits in the log for its checkpoint.
    async fn taken(&mut self) -> Taken {
        self.engine.close().await.expect("it closes in good order");
        let disk = bytes_below(&self.directory.path().join("data"));
        self.engine = Self::open(&self.directory, &self.clock);
        let memory = self.engine.info().await.expect("info").store_bytes;
        let memory = memory.expect("it can measure");
        let mut taken = BTreeMap::from([("memory", memory), ("disk", disk)]);
        // The engine lives in this process.
        taken.extend(resident("self").map(|bytes| (PROCESS, bytes)));
        taken
    }
}

/// Bytes of the machine's memory that a process holds; `None` where the system does not say.
fn resident(process: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = kilobytes.and_then(|rest| rest.split_whitespace().next());
    kilobytes?
        .parse::<u64>()
        .ok()
        .map(|kilobytes| kilobytes << 10)
}

#[test]
fn what_a_process_holds_and_does_not_give_back_is_seen() {
    let Some(before) = resident("self") else {
        return;
    };
    let held = vec![1_u8; 64 << 20];
    let after = resident("self").expect("it reported before");
    assert_eq!(std::hint::black_box(&held).len(), 64 << 20);
    assert!(after > before + (60 << 20), "{before} and {after}");
    assert!(is_above(PROCESS, after, before));
    assert!(!is_above(PROCESS, before, before));
}

fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).expect("a directory");
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        // Removed meanwhile.
        Err(_) => 0,
    };
    entries.map(|entry| bytes(entry.expect("it reads"))).sum()
}
