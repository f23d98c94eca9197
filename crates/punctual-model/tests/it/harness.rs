//! The engines that walks are played on.

use std::sync::{Arc, Mutex, MutexGuard};

use punctual::conformance::{Harness, START, Subject};
use punctual::sync::Lock;
use punctual::time::{ManualClock, Timestamp};
use punctual::{Engine, Limits, MemoryEngine};
use punctual_embedded::testing::{Crash, ForgetfulDisk, MemoryStore};
use punctual_embedded::{EmbeddedEngine, Options};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;
use tokio::task::block_in_place;

pub(crate) struct Memory;

struct InMemory(Arc<MemoryEngine>, ManualClock);

#[async_trait::async_trait]
impl Harness for Memory {
    async fn fresh(&self, limits: Limits) -> Box<dyn Subject> {
        let clock = ManualClock::new(START);
        let engine = MemoryEngine::with_limits(clock.clone(), limits);
        Box::new(InMemory(Arc::new(engine), clock))
    }
}

#[async_trait::async_trait]
impl Subject for InMemory {
    fn engine(&self) -> Arc<dyn Engine> {
        self.0.clone()
    }

    async fn set_time(&self, now: Timestamp) {
        self.1.set(now);
    }
}

/// On a disk that forgets what was not synced.
pub(crate) struct Embedded;

struct OnDisk {
    clock: ManualClock,
    disk: ForgetfulDisk,
    store: MemoryStore,
    engine: Arc<EmbeddedEngine>,
}

#[async_trait::async_trait]
impl Harness for Embedded {
    async fn fresh(&self, _: Limits) -> Box<dyn Subject> {
        let clock = ManualClock::new(START);
        let disk = ForgetfulDisk::default();
        let store = MemoryStore::new(disk.clone());
        Box::new(OnDisk {
            engine: open(&disk, &store, &clock),
            clock,
            disk,
            store,
        })
    }
}

#[async_trait::async_trait]
impl Subject for OnDisk {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }

    async fn crash(&mut self) {
        self.disk = self.disk.crash(Crash::Kill);
        self.store = self.store.copy(self.disk.clone());
        self.engine = open(&self.disk, &self.store, &self.clock);
    }
}

fn open(disk: &ForgetfulDisk, store: &MemoryStore, clock: &ManualClock) -> Arc<EmbeddedEngine> {
    let options = Options::default()
        .clock(clock.clone())
        .maintenance(false)
        .reserve_bytes(1 << 20)
        .checkpoint_bytes(2_000);
    let (disk, store) = (Arc::new(disk.clone()), Arc::new(store.clone()));
    Arc::new(EmbeddedEngine::open_on(disk, store, options).expect("the data are whole"))
}

/// On one server, cleared for each walk. After a crash it has what it saved last.
pub(crate) struct Redis(Arc<Mutex<TestServer>>);

struct OnServer {
    engine: Arc<RedisEngine>,
    clock: ManualClock,
    server: Arc<Mutex<TestServer>>,
}

impl Redis {
    pub(crate) fn start() -> Self {
        Self(Arc::new(Mutex::new(TestServer::start())))
    }

    /// Saves what it has.
    pub(crate) fn save(&self) {
        let said = block_in_place(|| held(&self.0).cli(&["SAVE"]));
        assert_eq!(said, "OK");
    }
}

fn held(server: &Mutex<TestServer>) -> MutexGuard<'_, TestServer> {
    server.locked()
}

#[async_trait::async_trait]
impl Harness for Redis {
    async fn fresh(&self, limits: Limits) -> Box<dyn Subject> {
        let address = {
            let server = held(&self.0);
            server.cli(&["FLUSHALL"]);
            server.address()
        };
        let clock = ManualClock::new(START);
        let options: punctual_redis::Options = address.parse().expect("an address");
        let options = options.limits(limits);
        let engine = RedisEngine::connect_with_clock(options, clock.clone()).await;
        Box::new(OnServer {
            engine: Arc::new(engine.expect("the server is there")),
            clock,
            server: self.0.clone(),
        })
    }
}

#[async_trait::async_trait]
impl Subject for OnServer {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn set_time(&self, now: Timestamp) {
        self.engine
            .set_time(now)
            .await
            .expect("the server is there");
        self.clock.set(now);
    }

    async fn crash(&mut self) {
        block_in_place(|| {
            let mut server = held(&self.server);
            server.kill();
            server.restart();
        });
    }
}
