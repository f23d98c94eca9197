//! What the embedded engine keeps over power cuts, by its durability, and an injected bug that the
//! spy has to find: an engine that answers without having synced.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual::engine::{Durability, Target};
use punctual::time::millis;
use punctual::{Engine, ErrorKind, JobId, Namespace, NewJob};
use punctual_embedded::disk::{Disk, DiskFile, Folder};
use punctual_embedded::store::TreeStore;
use punctual_embedded::{EmbeddedEngine, Options};
use punctual_syncspy::Tear;

use crate::program::Watched;

const DIRECTORY: &str = "PUNCTUAL_TEST_SPIED_ENGINE";
const HOW: &str = "PUNCTUAL_TEST_SPIED_HOW";

/// What a row of power cuts did.
#[derive(Default)]
struct Outcome {
    acknowledged: usize,
    lost: usize,
    /// Openings that were refused because of damage.
    refused: usize,
    /// Unsynced bytes that went.
    bytes: u64,
}

/// Lets an engine work, cuts its power, reads, and again.
async fn power_cuts(how: &str, tear: Tear, seeds: std::ops::Range<u64>) -> Outcome {
    let (watched, mut outcome) = (Watched::new(), Outcome::default());
    let mut kept = BTreeSet::new();
    for seed in seeds {
        cut_once(&watched, how, (seed, tear), &mut kept, &mut outcome).await;
        if outcome.refused > 0 {
            break;
        }
    }
    outcome
}

/// Lets an engine work, cuts its power, and reads what is there of the jobs it has acknowledged.
async fn cut_once(
    watched: &Watched,
    how: &str,
    (seed, tear): (u64, Tear),
    kept: &mut BTreeSet<JobId>,
    outcome: &mut Outcome,
) {
    let (mut child, mut ids) = start(watched, how);
    let calls = 20 + 13 * (seed as usize % 17);
    let mut acknowledged: Vec<JobId> = ids.by_ref().take(calls).collect();
    let cut = watched.spy.power_cut(seed, tear).expect("a power cut");
    acknowledged.extend(ids);
    child.wait().expect("it is dead");
    outcome.acknowledged += acknowledged.len();
    outcome.bytes += cut.lost();
    kept.extend(acknowledged);
    let Some(gone) = gone(&directory(watched), kept).await else {
        outcome.refused += 1;
        return;
    };
    outcome.lost += gone.len();
    kept.retain(|id| !gone.contains(id));
}

fn directory(watched: &Watched) -> PathBuf {
    watched.data().join("engine")
}

/// Starts an engine under the spy; answers the jobs that it acknowledges, one by one.
fn start(watched: &Watched, how: &str) -> (Child, impl Iterator<Item = JobId> + use<>) {
    let mut command = Command::new(std::env::current_exe().expect("this test is a file"));
    command
        .args([
            "embedded::an_engine_to_be_cut_off",
            "--exact",
            "--nocapture",
        ])
        .env(DIRECTORY, directory(watched))
        .env(HOW, how)
        .stdout(Stdio::piped());
    let mut child = watched
        .spy
        .arm(&mut command)
        .expect("it is built")
        .spawn()
        .expect("it starts");
    let pipe = child.stdout.take().expect("its output is a pipe");
    let lines = BufReader::new(pipe).lines().map_while(Result::ok);
    (child, lines.filter_map(|line| id(&line)))
}

/// Which of these jobs are not there any more; None if the directory is refused as damaged.
async fn gone(directory: &Path, kept: &BTreeSet<JobId>) -> Option<Vec<JobId>> {
    let options = Options::default()
        .durability(Durability::Os)
        .maintenance(false);
    let engine = match EmbeddedEngine::open(directory, options) {
        Ok(engine) => engine,
        Err(error) if error.kind() == ErrorKind::DataDamaged => {
            println!("{error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut gone = Vec::new();
    for ids in kept.iter().copied().collect::<Vec<_>>().chunks(1_000) {
        let targets = ids.iter().copied().map(Target::Id).collect();
        let found = engine
            .get(&Namespace::default(), targets, false)
            .await
            .expect("get");
        let missing = ids.iter().zip(found).filter(|(_, found)| found.is_none());
        gone.extend(missing.map(|(id, _)| *id));
    }
    engine.close().await.expect("it closes");
    Some(gone)
}

fn id(line: &str) -> Option<JobId> {
    line.strip_prefix("#")?.parse().ok()
}

#[tokio::test]
async fn power_cuts_take_nothing_that_was_acknowledged_as_synced() {
    let torn = power_cuts("fsync", Tear::Prefix, 0..12).await;
    assert_eq!(
        (torn.lost, torn.refused),
        (0, 0),
        "of {} acknowledged jobs",
        torn.acknowledged
    );
    assert!(torn.bytes > 0, "the cuts have to take something");
    let holed = power_cuts("fsync", Tear::Sectors, 12..24).await;
    assert_eq!(
        (holed.lost, holed.refused),
        (0, 0),
        "of {} acknowledged jobs",
        holed.acknowledged
    );
    println!(
        "24 power cuts: {} acknowledged jobs, 0 lost; {} unsynced bytes lost",
        torn.acknowledged + holed.acknowledged,
        torn.bytes + holed.bytes
    );
}

// The directory was refused as damaged after this, at a commit that had been acknowledged.
#[tokio::test]
async fn a_failed_sync_and_a_later_power_cut_take_nothing_acknowledged() {
    let (watched, mut outcome) = (Watched::new(), Outcome::default());
    let mut kept = BTreeSet::new();
    for seed in 0..8 {
        let (mut child, mut ids) = start(&watched, "fsync");
        let calls = 10 + 7 * (seed as usize % 5);
        kept.extend(ids.by_ref().take(calls));
        watched.spy.fail_sync(1 + seed % 3).expect("a spy");
        // It acknowledges nothing more and ends if the sync was the log's. If it was the store's,
        // the engine goes on with another file: it is killed after as many jobs as several
        // checkpoints take.
        kept.extend(ids.by_ref().take(2_000));
        let _ = child.kill();
        kept.extend(ids);
        child.wait().expect("it has ended");
        watched.spy.heal().expect("a spy");
        cut_once(
            &watched,
            "fsync",
            (seed, Tear::Sectors),
            &mut kept,
            &mut outcome,
        )
        .await;
    }
    assert_eq!((outcome.lost, outcome.refused), (0, 0), "of {}", kept.len());
}

#[tokio::test]
async fn power_cuts_take_some_of_what_was_only_written() {
    let outcome = power_cuts("os", Tear::Prefix, 0..8).await;
    assert!(
        outcome.lost > 0,
        "of {} acknowledged jobs",
        outcome.acknowledged
    );
    println!(
        "8 power cuts: {} of {} acknowledged jobs lost",
        outcome.lost, outcome.acknowledged
    );
}

#[tokio::test]
async fn an_engine_that_forgets_to_sync_is_found() {
    let outcome = power_cuts("unsynced", Tear::Prefix, 0..8).await;
    assert!(
        outcome.lost + outcome.refused > 0,
        "of {} acknowledged jobs",
        outcome.acknowledged
    );
    let (lost, refused) = (outcome.lost, outcome.refused);
    println!("found: {lost} acknowledged jobs lost, {refused} openings refused");
}

/// Does nothing, unless it is the child: then it enqueues, says each acknowledged id, and goes on
/// until its power is cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_to_be_cut_off() {
    let (Ok(directory), Ok(how)) = (std::env::var(DIRECTORY), std::env::var(HOW)) else {
        return;
    };
    let engine = open(Path::new(&directory), &how).expect("a power cut is no damage");
    let produce = || async {
        loop {
            let job = NewJob::new("orders", vec![b'x'; 300]);
            let id = job.id;
            engine
                .enqueue(&Namespace::default(), vec![job])
                .await
                .expect("enqueue");
            // The parent has closed the pipe only if it has seen enough.
            let _ = writeln!(io::stdout().lock(), "\n#{id}");
        }
    };
    // Until it is killed.
    tokio::join!(produce(), produce(), produce(), produce());
}

fn open(directory: &Path, how: &str) -> punctual::Result<EmbeddedEngine> {
    // Small, so that a checkpoint is nearly always under way.
    let options = Options::default()
        .checkpoint_bytes(100_000)
        .idle_after(millis(20));
    match how {
        "os" => EmbeddedEngine::open(directory, options.durability(Durability::Os)),
        "unsynced" => {
            std::fs::create_dir_all(directory).expect("a directory");
            let store = TreeStore::open(&directory.join("base"), false)?;
            let disk = Arc::new(Unsynced(Folder::new(directory)));
            EmbeddedEngine::open_on(disk, Arc::new(store), options)
        }
        _ => EmbeddedEngine::open(directory, options),
    }
}

/// The injected bug: a disk whose files are synced when they are begun, and never again.
#[derive(Debug)]
struct Unsynced(Folder);

#[derive(Debug)]
struct UnsyncedFile(Arc<dyn DiskFile>, AtomicBool);

impl Disk for Unsynced {
    fn names(&self) -> io::Result<Vec<(String, u64)>> {
        self.0.names()
    }
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.0.read(name)
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(unsynced(self.0.create(name)?))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(unsynced(self.0.open(name)?))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
    }
    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.0.reserve(name, bytes)
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.0.free_bytes()
    }
    fn boot(&self) -> u128 {
        self.0.boot()
    }
}

impl DiskFile for UnsyncedFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(at, bytes)
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }
    fn sync(&self) -> io::Result<()> {
        if self.1.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.0.sync()
    }
}

fn unsynced(file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
    Arc::new(UnsyncedFile(file, AtomicBool::new(false)))
}
