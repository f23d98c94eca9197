//! The harness that the conformance suite runs the embedded engine with.

use std::sync::Arc;

use punctual::conformance::{Harness, START, Subject};
use punctual::engine::Durability;
use punctual::time::{ManualClock, Timestamp};
use punctual::{Engine, Limits};
use punctual_embedded::testing::{Crash, ForgetfulDisk, MemoryStore};
use punctual_embedded::{EmbeddedEngine, Options};

/// Options under a manual clock, with checkpoints so small that every law crosses some.
pub(crate) fn options(limits: Limits, clock: &ManualClock) -> Options {
    Options::default()
        .limits(limits)
        .clock(clock.clone())
        .maintenance(false)
        .reserve_bytes(1 << 20)
        .checkpoint_bytes(2_000)
}

/// Makes engines over a disk that forgets what was not synced.
pub(crate) struct Forgetful;

#[async_trait::async_trait]
impl Harness for Forgetful {
    async fn fresh(&self, limits: Limits) -> Box<dyn Subject> {
        let clock = ManualClock::new(START);
        let options = options(limits, &clock);
        let disk = ForgetfulDisk::default();
        let store = MemoryStore::new(disk.clone());
        let engine = open(&disk, &store, &options);
        Box::new(OnForgetfulDisk {
            clock,
            options,
            disk,
            store,
            engine: Some(engine),
        })
    }
}

struct OnForgetfulDisk {
    clock: ManualClock,
    options: Options,
    disk: ForgetfulDisk,
    store: MemoryStore,
    engine: Option<Arc<EmbeddedEngine>>,
}

fn open(disk: &ForgetfulDisk, store: &MemoryStore, options: &Options) -> Arc<EmbeddedEngine> {
    let (disk, store) = (Arc::new(disk.clone()), Arc::new(store.clone()));
    let engine = EmbeddedEngine::open_on(disk, store, options.clone());
    Arc::new(engine.expect("the data are whole"))
}

#[async_trait::async_trait]
impl Subject for OnForgetfulDisk {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone().expect("it is open")
    }

    async fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }

    async fn reopen(&mut self) {
        let engine = self.engine.take().expect("it is open");
        engine.close().await.expect("it closes in good order");
        drop(engine);
        self.engine = Some(open(&self.disk, &self.store, &self.options));
    }

    async fn crash(&mut self) {
        self.disk = self.disk.crash(Crash::Kill);
        self.store = self.store.copy(self.disk.clone());
        self.engine = Some(open(&self.disk, &self.store, &self.options));
    }
}

/// Makes engines in directories of the operating system.
pub(crate) struct InDirectory;

#[async_trait::async_trait]
impl Harness for InDirectory {
    async fn fresh(&self, limits: Limits) -> Box<dyn Subject> {
        let clock = ManualClock::new(START);
        let directory = tempfile::tempdir().expect("a directory");
        let options = options(limits, &clock)
            .durability(Durability::Os)
            .checkpoint_bytes(100_000);
        let engine = EmbeddedEngine::open(directory.path().join("data"), options);
        Box::new(Opened {
            engine: Arc::new(engine.expect("an empty directory is opened")),
            clock,
            _directory: directory,
        })
    }
}

struct Opened {
    engine: Arc<EmbeddedEngine>,
    clock: ManualClock,
    _directory: tempfile::TempDir,
}

#[async_trait::async_trait]
impl Subject for Opened {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }
}
