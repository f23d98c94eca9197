//! The only place that turns an address into an engine.

mod audit_record;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use punctual::engine::Durability;
use punctual::time::{ManualClock, parse_span};
use punctual::{Engine, Error, ErrorKind, MemoryEngine, Namespace};
use punctual_client::{HttpEngine, Transport};
use punctual_directory::SharedDirectory;
pub(crate) use punctual_directory::{AUDIT, Mode};
use punctual_embedded::Options;
use punctual_gateway::Sharer;
use punctual_redis::RedisEngine;

use crate::failure::{Exit, Failure, Result};

/// Where jobs are kept unless told otherwise.
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
            Self::Memory => f.write_str("memory:"),
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
    Memory,
    /// An engine in a directory.
    File {
        dir: PathBuf,
        durability: Durability,
        /// Bytes of the disk to set aside, if not as many as the engine does by itself.
        reserve: Option<u64>,
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
    in_process: bool,
}

impl Connection {
    fn to(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            directory: None,
            gateway: None,
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

    /// Ends the engine in good order, whoever still has it. Dropping does so too, once nobody has.
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
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let refuse = |message: String| {
            Failure::new(Exit::Usage, "invalid_address", message).hint(format!(
                "this build supports {SUPPORTED}, such as file:./punctual-data?durability=os"
            ))
        };
        let (scheme, rest) = text
            .split_once(':')
            .ok_or_else(|| refuse(format!("engine address {text:?} has no scheme")))?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let options = options.split('&').filter(|option| !option.is_empty());
        match scheme {
            "memory" => {
                if !place.is_empty() || options.count() > 0 {
                    return Err(refuse("memory: takes no path and no options".into()));
                }
                Ok(Self::Memory)
            }
            "file" => {
                let place = place.strip_prefix("//").unwrap_or(place);
                if place.is_empty() {
                    return Err(refuse("file: names no directory".into()));
                }
                let (mut durability, mut reserve) = (Durability::Fsync, None);
                for option in options {
                    match option.split_once('=') {
                        Some(("durability", value)) => durability = parse_durability(value)?,
                        Some(("reserve", value)) => reserve = Some(parse_bytes(value)?),
                        _ => {
                            return Err(refuse(format!(
                                "file: has no option {option:?}; it has durability and reserve"
                            )));
                        }
                    }
                }
                Ok(Self::File {
                    dir: place.into(),
                    durability,
                    reserve,
                })
            }
            "http" | "https" => {
                let authority = place.strip_prefix("//").unwrap_or(place);
                let authority = authority.trim_end_matches('/');
                let odd = |c: char| matches!(c, '/' | '@' | '#') || c.is_whitespace();
                if authority.is_empty() || authority.contains(odd) {
                    return Err(refuse(format!(
                        "{scheme}: takes a host and a port, such as http://127.0.0.1:4180"
                    )));
                }
                let mut transport = match scheme {
                    "https" => Transport::Tls(None),
                    _ => Transport::Plain,
                };
                let mut deadline = None;
                for option in options {
                    match (option.split_once('='), &mut transport) {
                        (Some(("deadline", span)), _) => deadline = Some(parse_deadline(span)?),
                        (Some(("ca", file)), Transport::Tls(ca)) if !file.is_empty() => {
                            *ca = Some(file.into());
                        }
                        (Some(("plaintext", "allow")), Transport::Plain) => {
                            transport = Transport::PlainAnywhere;
                        }
                        _ => {
                            return Err(refuse(format!(
                                "{scheme}: has no option {option:?}; both have deadline=30s, \
                                 https: has ca=FILE, http: has plaintext=allow"
                            )));
                        }
                    }
                }
                Ok(Self::Gateway {
                    authority: authority.into(),
                    transport,
                    deadline,
                })
            }
            "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
            | "rediss+cluster" => {
                text.parse::<punctual_redis::Options>()?;
                Ok(Self::Redis(RedisAddress(text.to_owned())))
            }
            "amqp" | "amqps" | "kafka" => {
                Err(refuse(format!("{scheme}: engines are not in this build")))
            }
            _ => Err(refuse(format!(
                "{scheme:?} is not an engine address scheme"
            ))),
        }
    }

    /// A directory, with every default.
    pub(crate) fn of_directory(dir: impl Into<PathBuf>) -> Self {
        Self::File {
            dir: dir.into(),
            durability: Durability::Fsync,
            reserve: None,
        }
    }

    /// Opens the engine; `make` says whether a directory may be made.
    pub(crate) async fn open(&self, make: Make, mode: Mode) -> Result<Connection> {
        match self {
            Self::Memory => Ok(Connection::in_process(MemoryEngine::new())),
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
            } => {
                let mut options = Options::default()
                    .durability(*durability)
                    .create(make == Make::IfMissing);
                if let Some(bytes) = reserve {
                    options = options.reserve_bytes(*bytes);
                }
                let directory = SharedDirectory::open(dir.clone(), options, mode).await;
                let directory = Arc::new(directory.map_err(unopened)?);
                Ok(Connection {
                    engine: directory.clone(),
                    directory: Some(directory),
                    gateway: None,
                    in_process: false,
                })
            }
            Self::Redis(address) => {
                let engine = RedisEngine::connect(address.options()?).await?;
                Ok(Connection::to(Arc::new(engine)))
            }
        }
    }

    /// The same engine, for who works in a namespace of his own, which is new.
    pub(crate) fn that_may_begin(self) -> Self {
        match self {
            Self::Redis(address) => Self::Redis(address.that_may_begin()),
            other => other,
        }
    }

    /// An engine whose clock moves only when told to, for tests; only in memory.
    pub(crate) fn open_timed(&self, clock: ManualClock) -> Result<Connection> {
        match self {
            Self::Memory => Ok(Connection::in_process(MemoryEngine::with_clock(clock))),
            _ => {
                Err(Failure::usage("a test clock is for memory: only").hint("add --engine memory:"))
            }
        }
    }

    /// The directory in which other commands find the engine without being told more.
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
            Self::Memory => Err(no_directory(command, "memory:")),
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

fn parse_deadline(text: &str) -> Result<Duration> {
    let span = parse_span(text)?;
    if span.is_zero() {
        let message = "deadline must be above 0";
        return Err(Failure::new(Exit::Usage, "invalid_address", message)
            .hint("write a span such as deadline=30s"));
    }
    Ok(span)
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

fn parse_bytes(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    let bytes = (number.zip(unit)).and_then(|(number, unit)| number.checked_mul(unit));
    bytes.ok_or_else(|| {
        let message = format!("{text:?} is not a number of bytes");
        Failure::new(Exit::Usage, "invalid_address", message)
            .hint("write a number, or one of KiB, MiB or GiB, such as reserve=16MiB")
    })
}

fn parse_durability(text: &str) -> Result<Durability> {
    let span = text
        .strip_prefix("interval(")
        .and_then(|rest| rest.strip_suffix(')'));
    match (text, span) {
        ("fsync", _) => Ok(Durability::Fsync),
        ("os", _) => Ok(Durability::Os),
        (_, Some(span)) => Ok(Durability::Interval(parse_span(span)?)),
        _ => Err(Failure::new(
            Exit::Usage,
            "invalid_address",
            format!("{text:?} is not a durability"),
        )
        .hint("write fsync (the default), os, or interval(50ms)")),
    }
}

#[cfg(test)]
mod tests;
