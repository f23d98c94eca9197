//! The only place that turns an address into an engine.

mod audit_record;
mod kept;
mod parse;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use punctual::engine::Durability;
use punctual::time::{ManualClock, SystemClock, exact_span};
use punctual::{Engine, Error, ErrorKind, MemoryEngine, Namespace};
use punctual_client::{HttpEngine, Transport};
use punctual_directory::SharedDirectory;
pub(crate) use punctual_directory::{AUDIT, Mode};
use punctual_embedded::Options;
use punctual_gateway::Sharer;
use punctual_redis::RedisEngine;

use self::kept::Kept;
use crate::failure::{Failure, Result};

/// Where jobs are kept by default.
pub(crate) const DEFAULT: &str = "file:./punctual-data";

/// The environment's variable with the token that a gateway wants, or that it is to want.
pub(crate) const TOKEN: &str = "PUNCTUAL_TOKEN";

/// The addresses that this build understands, for errors and `--help`.
pub(crate) const SUPPORTED: &str = "memory:, file:DIR, redis://HOST, rediss://HOST, \
     redis+sentinel://HOST,HOST/MASTER, redis+cluster://HOST,HOST, http://HOST:PORT and https://HOST:PORT";

/// The same for a reader with time.
pub(crate) const ADDRESSES: &str = "\
Engines:
  memory:                      ends with the process; for experiments
  file:DIR                     a directory on this machine; the process that has it open (serve,
                               work) answers other commands of its user
  file:DIR?durability=os       acknowledged once the OS has it: survives a kill, not a power cut
  file:DIR?durability=interval(50ms)   the same, on disk 50 ms later
  file:DIR?reserve=16MiB       reserved for a full disk, 64 MiB by default
  file:DIR?settled_window=2m   how long the id of a settled job is recognised when sent again
  file:DIR?retention=1d        cancelled and dead jobs are kept that long, not 1 and 30 days;
                               memory: and redis: have both options too
  redis://USER:PASSWORD@HOST:PORT/DB   Redis 7 or Valkey, any number of processes and hosts;
                               rediss:// encrypts, redis+sentinel://HOST,HOST/MASTER and
                               redis+cluster://HOST,HOST discover their servers
  redis://127.0.0.1?durability=fsync   refused unless the server has it; or memory, os, replica(1)
  redis://HOST?data=required   refused if the server is empty, for example after data loss
  redis://HOST?plaintext=allow         another machine unencrypted, which is refused otherwise
  http://127.0.0.1:4180        what `punctual serve` serves there; PUNCTUAL_TOKEN is its token
  https://HOST:PORT?ca=FILE    the same over TLS; without ca= with the system's CA certificates
  http://127.0.0.1:4180?deadline=5s    time without an answer after which a call fails, 30 s
  http://HOST:PORT?plaintext=allow     another machine unencrypted, which is refused otherwise";

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(_) => f.write_str("memory:"),
            Self::File { dir, .. } => write!(f, "file:{}", dir.display()),
            Self::Gateway {
                authority,
                transport: Transport::Tls(_),
                ..
            } => write!(f, "https://{authority}"),
            Self::Gateway { authority, .. } => write!(f, "http://{authority}"),
            Self::Redis(address) => f.write_str(&address.shown()),
        }
    }
}

/// Where an engine is, read from text such as `file:./punctual-data?durability=os`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// An engine that ends with this process.
    Memory(Kept),
    /// An engine in a directory.
    File {
        dir: PathBuf,
        durability: Durability,
        /// Bytes of the disk to set aside, if not as many as the engine does by itself.
        reserve: Option<u64>,
        kept: Kept,
    },
    /// An engine behind `punctual serve`.
    Gateway {
        authority: String,
        transport: Transport,
        /// How long it may be silent, if not as long as calls wait by themselves.
        deadline: Option<Duration>,
    },
    /// An engine on servers.
    Redis(RedisAddress),
}

/// An address of servers that was read once without a mistake; no log shows the password in it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RedisAddress(String);

impl fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.parse::<punctual_redis::Options>())
    }
}

impl RedisAddress {
    /// Scheme, hosts and path: neither user nor password nor options.
    fn shown(&self) -> String {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("redis", &self.0));
        let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
        let hosts = hosts.split('?').next().unwrap_or(hosts);
        format!("{scheme}://{hosts}")
    }

    /// The same, for namespaces that are begun where the address says that data must be there.
    fn that_may_begin(self) -> Self {
        let separator = if self.0.contains('?') { '&' } else { '?' };
        Self(format!("{}{separator}data=any", self.0))
    }

    /// The same with spans that the address may set otherwise: the last option counts.
    fn forgetting_after(self, span: Duration) -> Self {
        let (place, options) = self.0.split_once('?').unwrap_or((&self.0, ""));
        let span = exact_span(span);
        Self(format!(
            "{place}?settled_window={span}&retention={span}&{options}"
        ))
    }

    pub(crate) fn options(&self) -> Result<punctual_redis::Options> {
        Ok(self.0.parse::<punctual_redis::Options>()?)
    }
}

/// An open engine.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) engine: Arc<dyn Engine>,
    directory: Option<Arc<SharedDirectory>>,
    gateway: Option<HttpEngine>,
    redis: Option<Arc<RedisEngine>>,
    in_process: bool,
}

impl Connection {
    fn to(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            directory: None,
            gateway: None,
            redis: None,
            in_process: false,
        }
    }

    fn in_process(engine: MemoryEngine) -> Self {
        Self {
            in_process: true,
            ..Self::to(Arc::new(engine))
        }
    }

    /// Lets others that come to the directory be answered by what is served.
    pub(crate) fn share_by(&self, sharer: Sharer) {
        if let Some(directory) = &self.directory {
            directory.share_by(sharer);
        }
    }

    /// Answers them no more.
    pub(crate) async fn unshare(&self) {
        if let Some(directory) = &self.directory {
            directory.unshare().await;
        }
    }

    /// The namespace of the token, where the engine wants one.
    pub(crate) async fn own_namespace(&self) -> Result<Option<Namespace>> {
        match &self.gateway {
            Some(gateway) => Ok(Some(gateway.own_namespace().await?)),
            None => Ok(None),
        }
    }

    /// The CPU that the store's servers have used since their start; none where the engine runs in
    /// this process, or behind a gateway.
    pub(crate) async fn store_cpu(&self) -> Result<Option<Duration>> {
        match &self.redis {
            Some(redis) => Ok(Some(redis.servers_cpu().await?)),
            None => Ok(None),
        }
    }

    /// Whether the engine runs in this process and in no other.
    pub(crate) fn is_here(&self) -> bool {
        self.in_process || self.directory.is_some()
    }

    /// Whether all that is stored ends with this process.
    pub(crate) fn ends_with_process(&self) -> bool {
        self.in_process
    }

    /// Completes when the engine of this process stops itself, with the reason.
    pub(crate) async fn stopped(&self) -> Error {
        match &self.directory {
            Some(directory) => directory.stopped().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the engine in good order, also while others still hold it. Dropping the last handle
    /// does so too.
    pub(crate) async fn close(&self) -> Result<()> {
        match &self.directory {
            Some(directory) => Ok(directory.close().await?),
            None => Ok(()),
        }
    }
}

/// Whether a directory that is not there is made: only by commands that enqueue jobs. The others
/// would answer a mistyped address with "no jobs".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Make {
    IfMissing,
    Never,
}

impl Address {
    /// A directory, with every default.
    pub(crate) fn of_directory(dir: impl Into<PathBuf>) -> Self {
        Self::File {
            dir: dir.into(),
            durability: Durability::Fsync,
            reserve: None,
            kept: Kept::default(),
        }
    }

    /// Opens the engine; `make` says whether a directory may be made.
    pub(crate) async fn open(&self, make: Make, mode: Mode) -> Result<Connection> {
        match self {
            Self::Memory(kept) => {
                let engine = MemoryEngine::with_limits(SystemClock, kept.limits());
                Ok(Connection::in_process(engine))
            }
            Self::Gateway {
                authority,
                transport,
                deadline,
            } => {
                let engine = gateway(authority, transport, *deadline)?;
                Ok(Connection {
                    gateway: Some(engine.clone()),
                    ..Connection::to(Arc::new(engine))
                })
            }
            Self::File {
                dir,
                durability,
                reserve,
                kept,
            } => {
                let mut options = Options::default()
                    .durability(*durability)
                    .limits(kept.limits())
                    .create(make == Make::IfMissing);
                if let Some(bytes) = reserve {
                    options = options.reserve_bytes(*bytes);
                }
                let directory = SharedDirectory::open(dir.clone(), options, mode).await;
                let directory = Arc::new(directory.map_err(unopened)?);
                Ok(Connection {
                    directory: Some(directory.clone()),
                    ..Connection::to(directory)
                })
            }
            Self::Redis(address) => {
                let engine = Arc::new(RedisEngine::connect(address.options()?).await?);
                Ok(Connection {
                    redis: Some(engine.clone()),
                    ..Connection::to(engine)
                })
            }
        }
    }

    /// The same engine, for work in a namespace of its own, which is new.
    pub(crate) fn that_may_begin(self) -> Self {
        match self {
            Self::Redis(address) => Self::Redis(address.that_may_begin()),
            other => other,
        }
    }

    /// The same engine, whose settled jobs go after that span unless the address says otherwise.
    /// A directory with data and a gateway keep their spans.
    pub(crate) fn forgetting_after(self, span: Duration) -> Self {
        let is_new = |dir: &Path| std::fs::read_dir(dir).map_or(true, |mut it| it.next().is_none());
        match self {
            Self::Memory(kept) => Self::Memory(kept.or(Kept::all(span))),
            Self::File {
                dir,
                durability,
                reserve,
                kept,
            } if is_new(&dir) => Self::File {
                dir,
                durability,
                reserve,
                kept: kept.or(Kept::all(span)),
            },
            Self::Redis(address) => Self::Redis(address.forgetting_after(span)),
            other => other,
        }
    }

    /// An engine with a manual clock, for tests; only in memory.
    pub(crate) fn open_timed(&self, clock: ManualClock) -> Result<Connection> {
        match self {
            Self::Memory(kept) => {
                let engine = MemoryEngine::with_limits(clock, kept.limits());
                Ok(Connection::in_process(engine))
            }
            _ => {
                Err(Failure::usage("a test clock is for memory: only").hint("add --engine memory:"))
            }
        }
    }

    /// The directory in which other commands find the engine without an address.
    pub(crate) fn of_files(&self) -> Option<&Path> {
        match self {
            Self::File { dir, .. } => Some(dir),
            _ => None,
        }
    }

    /// The directory, for commands that work on its files.
    pub(crate) fn directory(&self, command: &str) -> Result<&PathBuf> {
        match self {
            Self::File { dir, .. } => Ok(dir),
            Self::Memory(_) => Err(no_directory(command, "memory:")),
            Self::Redis(_) => Err(no_directory(command, "redis:")),
            Self::Gateway { .. } => Err(no_directory(command, "http:")),
        }
    }
}

fn gateway(
    authority: &str,
    transport: &Transport,
    deadline: Option<Duration>,
) -> Result<HttpEngine> {
    let token = std::env::var(TOKEN).ok();
    let engine = HttpEngine::connect_by(transport.clone(), authority, token.as_deref())?;
    Ok(match deadline {
        Some(deadline) => engine.deadline(deadline),
        None => engine,
    })
}

fn no_directory(command: &str, engine: &str) -> Failure {
    let message = format!("{command} needs a directory, and {engine} has none");
    Failure::usage(message).hint("name one with --engine file:DIR")
}

/// Why a directory was not opened, with the flag that names another.
fn unopened(error: Error) -> Failure {
    let is_missing = error.kind() == ErrorKind::NotFound && !error.message().contains("parent");
    let failure = Failure::from(error);
    if is_missing {
        return failure.hint(
            "name one with --engine file:DIR or PUNCTUAL_ENGINE; `punctual enqueue` makes a new one",
        );
    }
    failure
}

#[cfg(test)]
mod tests;
