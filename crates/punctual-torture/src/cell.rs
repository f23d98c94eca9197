//! A cell: one engine with all that stands before it, tortured by itself.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use punctual_redis::testing::{TestCluster, TestProxy, TestSentinels, TestServer};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use crate::address;

/// Which engine, and how it is reached.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CellKind {
    /// The embedded engine in the process of its producers and workers, synced
    Embedded,
    /// The embedded engine behind a gateway, synced
    EmbeddedHttp,
    /// Redis with appendfsync always
    RedisAlways,
    /// Redis with appendfsync everysec
    RedisEverysec,
    /// Redis with appendfsync always, behind a gateway
    RedisHttp,
    /// A master, two replicas, three sentinels; acknowledged by one replica
    Sentinel,
    /// Three masters
    Cluster,
}

impl CellKind {
    /// Its name, as on the command line.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("no cell is hidden");
        value.get_name().to_owned()
    }

    /// The cells that are meant by an engine's address without a place, or by a cell's name.
    pub(crate) fn named(text: &str) -> Result<Vec<Self>, String> {
        match text {
            address::DIRECTORY => Ok(vec![Self::Embedded, Self::EmbeddedHttp]),
            "redis" | "redis:" => Ok(vec![
                Self::RedisAlways,
                Self::RedisEverysec,
                Self::RedisHttp,
                Self::Sentinel,
                Self::Cluster,
            ]),
            "all" => Ok(Self::value_variants().to_vec()),
            name => Self::from_str(name, false).map(|kind| vec![kind]),
        }
    }

    pub(crate) fn is_solo(self) -> bool {
        self == Self::Embedded
    }

    pub(crate) fn has_gateway(self) -> bool {
        matches!(self, Self::EmbeddedHttp | Self::RedisHttp)
    }

    /// The durability that its engine was asked for, as replies name it.
    pub(crate) fn durability(self) -> &'static str {
        match self {
            Self::Embedded | Self::EmbeddedHttp | Self::RedisAlways | Self::RedisHttp => "fsync",
            Self::RedisEverysec | Self::Cluster => "os",
            Self::Sentinel => "replica(1)",
        }
    }
}

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
}

const ALWAYS: [&str; 8] = [
    "--save",
    "",
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--no-appendfsync-on-rewrite",
    "no",
];
const EVERYSEC: [&str; 6] = [
    "--save",
    "",
    "--appendonly",
    "yes",
    "--appendfsync",
    "everysec",
];

impl Cell {
    /// Starts the servers.
    pub(crate) async fn start(kind: CellKind, folder: &Path) -> Self {
        let (servers, address) = block_in_place(|| match kind {
            CellKind::Embedded | CellKind::EmbeddedHttp => {
                (Servers::None, address::of_directory(&folder.join("data")))
            }
            CellKind::RedisAlways | CellKind::RedisHttp => one(&ALWAYS, "fsync"),
            CellKind::RedisEverysec => one(&EVERYSEC, "os"),
            CellKind::Sentinel => {
                let servers = TestSentinels::start();
                let address = format!("{}?durability=replica(1)", servers.address());
                (Servers::Sentinels(Box::new(servers)), address)
            }
            CellKind::Cluster => {
                let cluster = TestCluster::start_kept();
                let address = format!("{}?durability=os", cluster.address());
                (Servers::Cluster(Box::new(cluster)), address)
            }
        });
        let gateway = kind.has_gateway().then(free_port);
        let before = match (&servers, gateway) {
            (_, Some(port)) => Some(port),
            (Servers::One(server), None) => Some(server.port()),
            _ => None,
        };
        let proxy = match before {
            Some(port) => Some(Arc::new(TestProxy::to(port).await)),
            None => None,
        };
        Self {
            kind,
            servers: Arc::new(Mutex::new(servers)),
            proxy,
            behind: address,
            gateway,
        }
    }

    /// Where producers and workers of a round find their engine.
    pub(crate) fn address(&self) -> String {
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

    /// Where whoever looks at the end finds it, past the proxy.
    pub(crate) fn direct(&self) -> String {
        match self.gateway {
            Some(port) => format!("http://127.0.0.1:{port}"),
            None => self.behind.clone(),
        }
    }
}

fn one(settings: &[&str], durability: &str) -> (Servers, String) {
    let server = TestServer::with(settings);
    let address = format!("{}?durability={durability}", server.address());
    (Servers::One(Box::new(server)), address)
}

/// A port of the loopback that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback has a free port");
    listener.local_addr().expect("it is bound").port()
}
