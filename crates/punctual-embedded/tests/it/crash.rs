//! Goal: a crash at any moment loses nothing acknowledged and leaves nothing half.
//! Method: seeded histories of three callers, cut at every operation of the disk; what each was
//! answered is compared with what is there afterwards.

/// What callers do, what they were answered, and whether that is so.
mod history;

use futures_util::{StreamExt, stream};
use history::{History, Verdict};
use punctual::conformance::START;
use punctual::engine::Durability;
use punctual::time::ManualClock;
use punctual::{Limits, Result};
use punctual_embedded::disk::Disk;
use punctual_embedded::testing::{Crash, Fault, ForgetfulDisk, MemoryStore};
use punctual_embedded::{EmbeddedEngine, Options};
use std::sync::Arc;

use crate::client::{enqueue, state};
use crate::harness::options;

fn open(
    disk: &ForgetfulDisk,
    store: &MemoryStore,
    options: Options,
) -> Result<Arc<EmbeddedEngine>> {
    let (disk, store) = (Arc::new(disk.clone()), Arc::new(store.clone()));
    EmbeddedEngine::open_on(disk, store, options).map(Arc::new)
}

/// Plays a history on a disk that stops at an operation, and reads what is left.
async fn cut_at(
    seed: u64,
    operation: u64,
    fault: Fault,
    crash: Crash,
    durability: Durability,
) -> Verdict {
    let clock = ManualClock::new(START);
    let options = options(Limits::default(), &clock).durability(durability);
    let disk = ForgetfulDisk::default();
    let store = MemoryStore::new(disk.clone());
    disk.at_operation(operation, fault);
    let mut history = History::new(seed);
    let engine = open(&disk, &store, options.clone());
    if let Ok(engine) = &engine {
        history.play(engine, 30).await;
    }
    let is_whole = disk.operations() <= operation;
    let disk = disk.crash(crash);
    let store = store.copy(disk.clone());
    drop(engine);
    let engine = open(&disk, &store, options).expect("a crash is no damage");
    history.check(&engine, &clock).await;
    Verdict {
        is_whole,
        ..history.verdict()
    }
}

/// Histories that are cut at a time: most of a cut is the wait of an engine for its disk.
const CUTS_AT_ONCE: usize = 8;

/// Runs one of them on a thread of its own: an engine that ends waits for its threads.
async fn at_the_same_time(cut: impl Future<Output = Verdict> + Send + 'static) -> Verdict {
    tokio::spawn(cut).await.expect("a cut ends")
}

/// Cuts a history at every operation; answers what was met on the way.
async fn cut_everywhere(
    seed: u64,
    fault: impl Fn(u64) -> Fault,
    crash: impl Fn(u64) -> Crash,
    durability: Durability,
) -> (u64, Verdict) {
    cut_at_each(0, 1, seed, fault, crash, durability).await
}

/// The same from one operation on, and at every `step`th.
async fn cut_at_each(
    from: u64,
    step: usize,
    seed: u64,
    fault: impl Fn(u64) -> Fault,
    crash: impl Fn(u64) -> Crash,
    durability: Durability,
) -> (u64, Verdict) {
    let cut = |operation| {
        let (fault, crash) = (fault(operation), crash(operation));
        at_the_same_time(cut_at(seed, operation, fault, crash, durability))
    };
    let operations = stream::iter((from..).step_by(step));
    let mut cuts = std::pin::pin!(operations.map(cut).buffered(CUTS_AT_ONCE).enumerate());
    let mut total = Verdict::default();
    while let Some((count, verdict)) = cuts.next().await {
        total.add(&verdict);
        if verdict.is_whole {
            println!("seed {seed}: {count} operations, {total:?}");
            return (count as u64, total);
        }
    }
    unreachable!("a history ends")
}

/// Plays a history on a disk one of whose operations fails, kills the process, goes on where it
/// ended, and cuts the power.
async fn fails_and_goes_on(seed: u64, operation: u64) -> Verdict {
    let clock = ManualClock::new(START);
    // No checkpoint takes what is in doubt out of the log.
    let options = options(Limits::default(), &clock).checkpoint_bytes(100_000);
    let disk = ForgetfulDisk::default();
    let store = MemoryStore::new(disk.clone());
    disk.at_operation(operation, Fault::Fails);
    let mut history = History::new(seed);
    let engine = open(&disk, &store, options.clone());
    if let Ok(engine) = &engine {
        history.play(engine, 20).await;
    }
    let is_whole = disk.operations() <= operation;
    let disk = disk.crash(Crash::Kill);
    let store = store.copy(disk.clone());
    drop(engine);
    let engine = open(&disk, &store, options.clone()).expect("a crash is no damage");
    history.resume(&engine).await;
    history.play(&engine, 5).await;
    let disk = disk.crash(Crash::PowerCut { keeps: 0 });
    let store = store.copy(disk.clone());
    drop(engine);
    let engine = open(&disk, &store, options).expect("a power cut is no damage");
    history.check(&engine, &clock).await;
    Verdict {
        is_whole,
        ..history.verdict()
    }
}

fn mix(seed: u64, operation: u64) -> u64 {
    let mixed = (seed + 1)
        .wrapping_mul(operation + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

fn torn(seed: u64, operation: u64) -> Fault {
    let written = usize::try_from(mix(seed, operation) % 700).unwrap_or(0);
    Fault::Stops { written }
}

fn assert_met(operations: u64, met: &Verdict) {
    assert!(operations > 100, "{operations} operations");
    assert!(
        met.acknowledged > operations && met.in_doubt > operations / 4,
        "{met:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_history_cut_at_every_operation_by_a_kill_keeps_what_was_acknowledged() {
    let met = cut_everywhere(1, |at| torn(1, at), |_| Crash::Kill, Durability::Fsync).await;
    assert_met(met.0, &met.1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_history_cut_at_every_operation_by_a_kill_on_more_seeds() {
    let met = cut_everywhere(2, |at| torn(2, at), |_| Crash::Kill, Durability::Os).await;
    assert_met(met.0, &met.1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_power_cut_at_any_operation_keeps_acknowledged_jobs() {
    power_cuts_that_keep_some(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_power_cut_at_any_operation_on_more_seeds() {
    power_cuts_that_keep_none(3).await;
    power_cuts_that_keep_some(4).await;
    power_cuts_that_keep_none(4).await;
}

/// The disk keeps some of what was not synced.
async fn power_cuts_that_keep_some(seed: u64) {
    let cut = |at| Crash::PowerCut {
        keeps: mix(seed, at),
    };
    let met = cut_everywhere(seed, |at| torn(seed, at), cut, Durability::Fsync).await;
    assert_met(met.0, &met.1);
}

/// What was not synced is gone: the faults of an operation that fails end so in the fast tier, too.
async fn power_cuts_that_keep_none(seed: u64) {
    let cut = |_| Crash::PowerCut { keeps: 0 };
    cut_everywhere(seed, |at| torn(seed, at), cut, Durability::Fsync).await;
}

/// Operations of a history that fail in the fast tier, from the first or the second on: every
/// second one. The deep tier has the others.
const FAST: (u64, usize) = (0, 2);
const DEEP: (u64, usize) = (1, 2);

async fn any_fails((from, step): (u64, usize)) {
    let cut = |_| Crash::PowerCut { keeps: 0 };
    let met = cut_at_each(from, step, 5, |_| Fault::Fails, cut, Durability::Fsync).await;
    assert!(met.0 > 50, "{met:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_history_in_which_any_operation_fails_keeps_what_was_acknowledged() {
    any_fails(FAST).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_history_in_which_any_operation_fails_on_more_seeds() {
    any_fails(DEEP).await;
    cut_everywhere(6, |_| Fault::Fails, |_| Crash::Kill, Durability::Fsync).await;
}

// Torture found by seed 303 of `embedded-disk` that a settlement was called refused and took
// effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_disk_full_for_a_while_keeps_acknowledged_jobs_and_no_refused_ones() {
    is_full_for_a_while(FAST).await;
}

async fn is_full_for_a_while((from, step): (u64, usize)) {
    let cut = |_| Crash::PowerCut { keeps: 0 };
    let full = |_| Fault::Full { operations: 4 };
    let met = cut_at_each(from, step, 7, full, cut, Durability::Fsync).await;
    assert_full(&met.1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_disk_full_for_a_while_keeps_acknowledged_jobs_on_more_seeds() {
    is_full_for_a_while(DEEP).await;
    let full = |_| Fault::Full { operations: 12 };
    let kill = |_| Crash::Kill;
    assert_full(&cut_everywhere(8, full, kill, Durability::Fsync).await.1);
}

fn assert_full(met: &Verdict) {
    let enough = met.acknowledged > 1_000 && met.refused > 50 && met.in_doubt > 20;
    assert!(enough, "{met:?}");
}

// The sync spy found a directory that was refused after this: to sync its file again proved
// nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn changes_after_a_failed_operation_and_a_kill_outlive_a_power_cut() {
    let (mut operations, mut total) = (0, Verdict::default());
    for seed in [11, 12, 13] {
        let cut = |operation| at_the_same_time(fails_and_goes_on(seed, operation));
        let mut cuts = std::pin::pin!(stream::iter(0..).map(cut).buffered(CUTS_AT_ONCE));
        while let Some(verdict) = cuts.next().await {
            total.add(&verdict);
            if verdict.is_whole {
                break;
            }
            operations += 1;
        }
    }
    assert_met(operations, &total);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_log_torn_at_500_places_opens_with_a_prefix_of_what_was_acknowledged() {
    let clock = ManualClock::new(START);
    let options = options(Limits::default(), &clock).durability(Durability::Os);
    let options = options.checkpoint_bytes(10_000_000);
    let disk = ForgetfulDisk::default();
    let store = MemoryStore::new(disk.clone());
    let engine = open(&disk, &store, options.clone()).expect("it is new");
    let log = || {
        let mut names = disk.names().expect("names");
        names.retain(|(name, _)| name.starts_with("log-"));
        assert_eq!(names.len(), 1, "one segment");
        names.remove(0)
    };
    let mut acknowledged = Vec::new();
    for n in 0..250 {
        let id = enqueue(&*engine, 1 + n * 7 % 200).await.expect("enqueue");
        acknowledged.push((id, usize::try_from(log().1).expect("it is short")));
    }
    let (name, _) = log();
    let whole = disk.read(&name).expect("read");
    let first = acknowledged[20].1;
    let mut torn = 0;
    for at in 0..500 {
        let cut = first + (whole.len() - first) * at / 500;
        let copy = disk.crash(Crash::Kill);
        copy.put(&name, &whole[..cut]);
        let engine = open(&copy, &MemoryStore::new(copy.clone()), options.clone());
        let engine = engine.expect("a torn tail is no damage");
        torn += u64::from(engine.opened().torn_bytes > 0);
        for (id, end) in &acknowledged {
            let is_there = state(&*engine, *id).await.is_some();
            assert_eq!(is_there, *end <= cut, "cut at {cut}: {id} ends at {end}");
        }
    }
    assert!(torn > 400, "{torn} cuts went through a record");
}
