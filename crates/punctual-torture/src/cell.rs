//! A cell: one engine with all that stands before it, tortured by itself.

mod kind;

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fs, io};

use punctual::sync::Lock;
use punctual::time::{Stopwatch, millis, seconds};
use punctual_redis::testing::{TestCluster, TestProxy, TestSentinels, TestServer};
use punctual_syncspy::SyncSpy;
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use crate::address;
use crate::foreign::Foreign;
use crate::plan::Track;
use crate::relays::Relays;
pub(crate) use kind::CellKind;

/// Servers of a run, which go on from round to round.
pub(crate) enum Servers {
    /// A directory, which needs none.
    None,
    One(Box<TestServer>),
    Sentinels(Box<TestSentinels>),
    Cluster(Box<TestCluster>),
}

/// What a round of a cell finds.
pub(crate) struct Cell {
    pub(crate) kind: CellKind,
    pub(crate) servers: Arc<Mutex<Servers>>,
    /// Stands before the server, or before the gateway.
    pub(crate) proxy: Option<Arc<TestProxy>>,
    /// Where clients find the engine, or the gateway does.
    pub(crate) behind: String,
    /// The port of the gateway.
    pub(crate) gateway: Option<u16>,
    /// What sees every write and sync of the engine, and sets its clock.
    pub(crate) spy: Option<Arc<SyncSpy>>,
    /// What sets the clock of producers and workers.
    pub(crate) clients: Option<Arc<SyncSpy>>,
    /// What its relays take from, if it has any.
    pub(crate) relays: Option<Relays>,
    /// Bytes of all keys of its server after the first round.
    base: OnceLock<u64>,
    tombstones: std::sync::Mutex<Tombstones>,
    /// Where it is, if another operator keeps it.
    foreign: Option<Foreign>,
}

/// Jobs of rounds whose tombstones may not have lapsed yet.
#[derive(Debug, Default)]
struct Tombstones(Vec<(Stopwatch, u64)>);

/// A tombstone lasts two minutes, and is swept away soon after.
const MARKED: Duration = seconds(130);

impl Tombstones {
    /// So many jobs were deleted now; how many may be marked, of those and of the ones before.
    fn add(&mut self, jobs: u64) -> u64 {
        self.0.retain(|(since, _)| since.elapsed() < MARKED);
        self.0.push((Stopwatch::start(), jobs));
        self.0.iter().map(|(_, jobs)| jobs).sum()
    }
}

/// Bytes of all keys.
const KEYS_BYTES: &str = "local sum, at = 0, '0' repeat local found = redis.call('SCAN', at) at = found[1] \
     for _, key in ipairs(found[2]) do sum = sum + (redis.call('MEMORY', 'USAGE', key, 'SAMPLES', '0') or 0) end \
     until at == '0' return sum";

const EVERYSEC: [&str; 6] = [
    "--save",
    "",
    "--appendonly",
    "yes",
    "--appendfsync",
    "everysec",
];
/// Without a new file after each start: that takes several syncs, and if the one of its folder
/// fails, Redis 7.0.15 names a file in its manifest that it has removed.
const IN_ONE_FILE: [&str; 2] = ["--aof-load-truncated", "no"];
/// A snapshot each second in which something changed.
const SNAPSHOTS: [&str; 4] = ["--save", "1 1", "--appendonly", "no"];

impl Cell {
    /// Starts the servers, unless another operator keeps them.
    ///
    /// # Errors
    /// If those hold jobs already.
    pub(crate) async fn start(
        kind: CellKind,
        folder: &Path,
        foreign: Option<Foreign>,
        has_relays: bool,
    ) -> io::Result<Self> {
        if let Some(foreign) = &foreign {
            // In a box: it is as large as all that it awaits.
            Box::pin(foreign.be_empty())
                .await
                .map_err(io::Error::other)?;
        }
        let mut spy = None;
        let durability = kind.durability();
        let (servers, address) = block_in_place(|| -> io::Result<_> {
            let mut one = |settings: &[&str]| {
                let server = TestServer::watched(settings, |data| {
                    let made = kind
                        .is_spied_on()
                        .then(|| SyncSpy::new(folder.join("spy"), data));
                    spy = made.map(|made| Arc::new(made.expect("the system takes a spy")));
                    spy.as_deref().map_or_else(Vec::new, environment)
                });
                let address = server.address();
                (Servers::One(Box::new(server)), address)
            };
            Ok(match kind {
                CellKind::RedisAlways
                | CellKind::RedisHttp
                | CellKind::RedisPower
                | CellKind::RedisEmptied
                | CellKind::RedisClock => one(&TestServer::KEEPS_ALL),
                CellKind::RedisDisk => one(&[&TestServer::KEEPS_ALL[..], &IN_ONE_FILE].concat()),
                CellKind::RedisEverysec | CellKind::RedisEverysecPower => one(&EVERYSEC),
                CellKind::RedisEverysecSlow => one(&[&EVERYSEC[..], &IN_ONE_FILE].concat()),
                CellKind::RedisRdb => one(&SNAPSHOTS),
                CellKind::Sentinel | CellKind::SentinelOne | CellKind::SentinelUnwaited => {
                    let servers = TestSentinels::start_kept();
                    let address = servers.address();
                    (Servers::Sentinels(Box::new(servers)), address)
                }
                CellKind::Cluster => {
                    let cluster = TestCluster::start_kept();
                    let address = cluster.address();
                    (Servers::Cluster(Box::new(cluster)), address)
                }
                CellKind::Address => {
                    let foreign = foreign.as_ref().map(Foreign::address);
                    (Servers::None, foreign.unwrap_or_default())
                }
                _ => {
                    let data = folder.join("data");
                    if kind.is_spied_on() {
                        fs::create_dir_all(&data)?;
                        spy = Some(Arc::new(SyncSpy::new(folder.join("spy"), &data)?));
                    }
                    (Servers::None, address::of_directory(&data))
                }
            })
        })?;
        if let (CellKind::RedisEverysecSlow, Some(spy)) = (kind, &spy) {
            spy.slow_sync(millis(1_500))?;
        }
        let is_directory = foreign.as_ref().is_some_and(Foreign::is_directory);
        let gateway = (kind.has_gateway() || is_directory).then(free_port);
        let before = match (&servers, gateway) {
            (_, Some(port)) => Some(port),
            (Servers::One(server), None) => Some(server.port()),
            _ => foreign.as_ref().and_then(Foreign::port),
        };
        let proxy = match before {
            Some(port) => Some(Arc::new(TestProxy::to(port).await)),
            None => None,
        };
        let servers = Arc::new(Mutex::new(servers));
        let clients = match kind.has_clocks() {
            true => {
                let unwritten = folder.join("unwritten");
                fs::create_dir_all(&unwritten)?;
                Some(Arc::new(SyncSpy::new(folder.join("clients"), unwritten)?))
            }
            false => None,
        };
        Ok(Self {
            base: OnceLock::new(),
            tombstones: Default::default(),
            relays: block_in_place(|| has_relays.then(Relays::start).transpose())?,
            clients,
            kind,
            servers,
            proxy,
            behind: match &foreign {
                Some(_) => address,
                None => format!("{address}?durability={durability}"),
            },
            gateway,
            spy,
            foreign,
        })
    }

    /// Variables of the process that holds the engine.
    pub(crate) fn environment(&self) -> Vec<(String, OsString)> {
        match (&self.spy, self.kind.has_gateway()) {
            (Some(spy), true) => environment(spy),
            _ => Vec::new(),
        }
    }

    /// Bytes of all keys after the first round and now, where there is one server, or why it does
    /// not say; to be asked once every job was deleted.
    pub(crate) async fn remains(&self) -> Option<Result<(u64, u64), String>> {
        let servers = self.servers.lock().await;
        let Servers::One(server) = &*servers else {
            return None;
        };
        let said = block_in_place(|| server.cli(&["EVAL", KEYS_BYTES, "0"]));
        let Ok(now) = said.parse() else {
            return Some(Err(format!("the server says: {said}")));
        };
        Some(Ok((*self.base.get_or_init(|| now), now)))
    }

    /// Jobs whose tombstones may be there, after so many more were deleted.
    pub(crate) fn tombstones(&self, jobs: u64) -> u64 {
        let mut tombstones = self.tombstones.locked();
        tombstones.add(jobs)
    }

    /// Variables of producers and workers.
    pub(crate) fn clients_environment(&self) -> Vec<(String, OsString)> {
        self.clients.as_deref().map_or_else(Vec::new, environment)
    }

    /// The port of a gateway that rogue clients can come to.
    pub(crate) fn door(&self) -> Option<u16> {
        let has_door = self.foreign.as_ref().is_some_and(Foreign::has_door);
        let proxy = self.proxy.as_ref().map(|proxy| proxy.port());
        self.gateway.or(proxy.filter(|_| has_door))
    }

    /// Refuses to go on where another client has put something in since the round before. A
    /// directory has no other client from the first round on.
    pub(crate) async fn be_still_empty(&self) -> Result<(), String> {
        match &self.foreign {
            Some(foreign) if !foreign.is_directory() => Box::pin(foreign.be_empty()).await,
            _ => Ok(()),
        }
    }

    /// Whether faults of a track can be caused.
    pub(crate) fn is_hit_in(&self, track: Track) -> bool {
        let foreign = self.foreign.as_ref();
        foreign.is_none_or(|foreign| foreign.is_hit_in(track))
    }

    /// Where producers and workers of a round find their engine.
    pub(crate) fn address(&self) -> String {
        if let (Some(foreign), Some(proxy), None) = (&self.foreign, &self.proxy, self.gateway) {
            return foreign.behind(proxy.port());
        }
        match (&self.proxy, self.gateway) {
            (Some(proxy), Some(_)) => format!("http://127.0.0.1:{}", proxy.port()),
            (Some(proxy), None) => {
                let options = self
                    .behind
                    .split_once('?')
                    .map_or("", |(_, options)| options);
                format!("{}?{options}", proxy.address())
            }
            _ => self.behind.clone(),
        }
    }

    /// Where the snapshot finds it, past the proxy.
    pub(crate) fn direct(&self) -> String {
        match self.gateway {
            Some(port) => format!("http://127.0.0.1:{port}"),
            None => self.behind.clone(),
        }
    }
}

fn environment(spy: &SyncSpy) -> Vec<(String, OsString)> {
    let variables = spy
        .environment()
        .expect("the spy's library is beside this program");
    variables
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// A port of the loopback that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback has a free port");
    listener.local_addr().expect("it is bound").port()
}
