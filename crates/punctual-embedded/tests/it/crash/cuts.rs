//! Histories that are cut at an operation of the disk, and what is left of them.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use punctual::conformance::START;
use punctual::engine::Durability;
use punctual::time::ManualClock;
use punctual::{Limits, Result};
use punctual_embedded::testing::{Crash, Fault, ForgetfulDisk, MemoryStore};
use punctual_embedded::{EmbeddedEngine, Options};

use super::history::{History, Verdict};
use crate::harness::options;

pub(crate) fn open(
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
pub(crate) const CUTS_AT_ONCE: usize = 8;

/// Runs one of them on a thread of its own: an engine that ends waits for its threads.
pub(crate) async fn at_the_same_time(
    cut: impl Future<Output = Verdict> + Send + 'static,
) -> Verdict {
    tokio::spawn(cut).await.expect("a cut ends")
}

/// Cuts a history at every operation; answers what was met on the way.
pub(crate) async fn cut_everywhere(
    seed: u64,
    fault: impl Fn(u64) -> Fault,
    crash: impl Fn(u64) -> Crash,
    durability: Durability,
) -> (u64, Verdict) {
    cut_at_each(0, 1, seed, fault, crash, durability).await
}

/// The same from one operation on, and at every `step`th.
pub(crate) async fn cut_at_each(
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

pub(crate) fn mix(seed: u64, operation: u64) -> u64 {
    let mixed = (seed + 1)
        .wrapping_mul(operation + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

pub(crate) fn torn(seed: u64, operation: u64) -> Fault {
    let written = usize::try_from(mix(seed, operation) % 700).unwrap_or(0);
    Fault::Stops { written }
}
