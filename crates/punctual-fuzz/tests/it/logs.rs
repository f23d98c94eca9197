//! Fuzzes the commit log of the embedded engine.

use std::cell::Cell;
use std::sync::Arc;

use punctual::engine::{Claim, LeaseReport, Settle, Settlement, Target, WorkerId};
use punctual::time::{ManualClock, Timestamp, hours};
use punctual::{Effect, Engine, ErrorKind, JobId, Namespace, NewJob, Outcome};
use punctual_embedded::disk::Disk;
use punctual_embedded::testing::{ForgetfulDisk, MemoryStore};
use punctual_embedded::{EmbeddedEngine, Options};
use punctual_fuzz::fuzz;
use tokio::runtime::{Builder, Runtime};

const NOW: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

fn ids() -> Vec<JobId> {
    let id = |no: u32| JobId::derived("punctual fuzz", &no.to_string());
    (0..5).map(id).collect()
}

pub(crate) fn runtime() -> Runtime {
    let runtime = Builder::new_multi_thread().worker_threads(1).build();
    runtime.expect("a runtime")
}

fn open(disk: &ForgetfulDisk) -> punctual::Result<EmbeddedEngine> {
    let options = Options::default()
        .clock(ManualClock::new(NOW))
        .maintenance(false)
        .reserve_bytes(0);
    let store = Arc::new(MemoryStore::new(disk.clone()));
    EmbeddedEngine::open_on(Arc::new(disk.clone()), store, options)
}

/// A disk after a kill, the name of its log, and the log up to the zeros at its end.
pub(crate) fn disk_with_log(runtime: &Runtime) -> (ForgetfulDisk, String, Vec<u8>) {
    let disk = ForgetfulDisk::default();
    let engine = open(&disk).expect("an empty disk");
    runtime.block_on(live(&engine));
    let whole = disk.copy();
    drop(engine);
    let names = whole.names().expect("a disk in memory").into_iter();
    let log = names
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("log-"))
        .max();
    let log = log.expect("a log");
    let mut bytes = whole.read(&log).expect("a log");
    let used = bytes.iter().rposition(|byte| *byte != 0);
    bytes.truncate(used.map_or(0, |last| last + 100));
    (whole, log, bytes)
}

/// Some jobs of every kind, of which one is claimed and settled with an effect.
async fn live(engine: &EmbeddedEngine) {
    let here = Namespace::default();
    let job = |no: usize| {
        NewJob::new("orders", "{\"order\":7}")
            .id(ids()[no])
            .retention(hours(1))
    };
    let kept_apart = job(1)
        .unique("order:7")
        .group("ann")
        .expires_at(NOW + hours(2));
    let held = job(2).wait_for(["paid"]);
    for job in [job(0), kept_apart, held, job(3)] {
        engine.enqueue(&here, vec![job]).await.expect("enqueue");
    }
    let mut claim = Claim::new(WorkerId(5), "orders", 2);
    claim.nonce = 11;
    let claimed = engine.claim(&here, claim).await.expect("claim");
    let lease = &claimed.leases[0];
    let mut end = Settlement::new(lease.jobs[0].id, 1, Outcome::Completed);
    end.effects = vec![Effect::Enqueue(Box::new(job(4)))];
    let leases = vec![LeaseReport::new(lease.token, vec![end])];
    engine
        .settle(&here, Settle::new(leases))
        .await
        .expect("settle");
}

/// A log is read back, cut or refused; what is answered after that can be read.
#[test]
fn logs_are_recovered_or_refused() {
    let runtime = runtime();
    let (whole, log, bytes) = disk_with_log(&runtime);
    let (refused, opened) = (Cell::new(0), Cell::new(0));
    let ran = fuzz("logs", vec![bytes], 1_500, |input| {
        let disk = whole.copy();
        disk.put(&log, input);
        match open(&disk) {
            Err(error) => {
                assert!(error.kind() != ErrorKind::Internal, "{error}");
                refused.set(refused.get() + 1);
            }
            Ok(engine) => {
                let targets = ids().into_iter().map(Target::Id).collect();
                let got = runtime.block_on(engine.get(&Namespace::default(), targets, false));
                got.expect("what was opened can be read");
                opened.set(opened.get() + 1);
            }
        }
    });
    let (refused, opened) = (refused.get(), opened.get());
    assert!(
        refused > 0 && opened > 0,
        "{refused} refused, {opened} opened"
    );
    println!("{ran:?}: {refused} refused, {opened} opened");
}
