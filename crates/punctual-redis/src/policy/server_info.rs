//! What a server is and how it is set up, and what durability that can keep.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::engine::Durability;
use punctual::time::seconds;
use punctual::{Error, ErrorKind, Result};
use redis::{FromRedisValue, cmd};

use crate::transport::address::Host;
use crate::transport::link::{Deadline, Live};
use crate::transport::node::Node;

/// One server, as it describes itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Its host and port.
    pub host: String,
    /// `redis` or `valkey`, with its version.
    pub version: String,
    /// The version of punctual's functions in it, if it has them.
    pub functions: Option<i64>,
    /// What it does when its memory is full.
    pub maxmemory_policy: String,
    /// Bytes it may use; 0 for no bound.
    pub maxmemory: u64,
    /// Bytes it uses.
    pub used_memory: u64,
    /// Whether it logs each change to a file.
    pub appendonly: bool,
    /// When it syncs that file: `always`, `everysec` or `no`.
    pub appendfsync: String,
    /// Whether it stops syncing while it rewrites that file.
    pub no_fsync_on_rewrite: bool,
    /// Whether it starts with a truncated transaction of that file (`aof-load-truncated yes`).
    pub loads_truncated: bool,
    /// Whether it has begun a new file since it started, as the first call to it has it do: what
    /// comes is not written behind a truncated transaction.
    pub began_anew: bool,
    /// Replicas that are connected.
    pub replicas: u64,
    /// Where it says that they are.
    pub(crate) followers: Vec<Host>,
    /// The master that it follows, as `host:port`, if it is a replica: then it takes no changes.
    pub replica_of: Option<String>,
    /// Why it could not be asked, if it could not: then nothing else is known of it. Only of
    /// replicas.
    pub silent: Option<String>,
    /// How often a slow disk made it answer before it had written (`aof_delayed_fsync`).
    pub delayed_fsyncs: u64,
    /// Whether its last write to that file failed.
    pub write_failed: bool,
    /// By how many microseconds its clock is ahead of this machine's, behind if negative; `None` if
    /// it does not say.
    pub clock_offset_us: Option<i64>,
    /// The settings that its user may not read; what they keep cannot be promised.
    pub unreadable: Vec<String>,
}

const SETTINGS: [&str; 6] = [
    "maxmemory-policy",
    "maxmemory",
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "aof-load-truncated",
];

/// How long a server may take to say how it stands.
pub(crate) const ASK_TIMEOUT: Duration = seconds(2);

const UNREADABLE: &str = "its user may not read appendfsync: allow +config|get, or state what a \
     managed server keeps with stated_durability=";

/// The oldest server that has functions and all that they use.
const OLDEST: (u32, u32) = (7, 0);

impl ServerInfo {
    pub(crate) async fn of(node: &Node, live: &Live, deadline: Deadline) -> Result<Self> {
        let info = node.ask(live, &cmd("INFO"), deadline).await?;
        let info = String::from_redis_value(info).unwrap_or_default();
        let info: BTreeMap<&str, &str> = info
            .lines()
            .filter_map(|line| line.split_once(':'))
            .collect();
        let field = |name: &str| info.get(name).copied().unwrap_or_default();
        let number = |name: &str| field(name).parse().unwrap_or(0);
        let mut command = cmd("CONFIG");
        command.arg("GET").arg(&SETTINGS);
        let (settings, unreadable) = match node.ask(live, &command, deadline).await {
            Ok(settings) => {
                let settings = BTreeMap::<String, String>::from_redis_value(settings);
                let settings = settings.unwrap_or_default();
                let missing = SETTINGS
                    .iter()
                    .filter(|name| !settings.contains_key(**name));
                let missing = missing.map(ToString::to_string).collect();
                (settings, missing)
            }
            Err(error) if error.is_retryable() => return Err(error),
            Err(_) => (BTreeMap::new(), SETTINGS.map(String::from).to_vec()),
        };
        let set = |name: &str| settings.get(name).cloned().unwrap_or_default();
        let version = match field("valkey_version") {
            "" => format!("redis {}", field("redis_version")),
            version => format!("valkey {version}"),
        };
        Ok(Self {
            host: node.host().to_string(),
            version,
            functions: None,
            maxmemory_policy: match set("maxmemory-policy") {
                unknown if unknown.is_empty() => field("maxmemory_policy").to_owned(),
                policy => policy,
            },
            maxmemory: number("maxmemory"),
            used_memory: number("used_memory"),
            appendonly: field("aof_enabled") == "1",
            appendfsync: set("appendfsync"),
            no_fsync_on_rewrite: set("no-appendfsync-on-rewrite") == "yes",
            loads_truncated: set("aof-load-truncated") == "yes",
            began_anew: number("aof_rewrites") + number("aof_rewrite_in_progress") > 0,
            replicas: number("connected_slaves"),
            followers: (0..number("connected_slaves"))
                .filter_map(|nth| follower(field(&format!("slave{nth}"))))
                .collect(),
            replica_of: (field("role") == "slave")
                .then(|| format!("{}:{}", field("master_host"), field("master_port"))),
            silent: None,
            delayed_fsyncs: number("aof_delayed_fsync"),
            write_failed: field("aof_last_write_status") == "err",
            clock_offset_us: None,
            unreadable,
        })
    }

    /// The durability that this server keeps: the one asked for, or the most it can without
    /// replicas. Refused with the remedy if it cannot.
    pub fn keeps(&self, asked: Option<Durability>) -> Result<Durability> {
        self.check_version()?;
        self.check_policy()?;
        let most = self.most();
        let refuse = |what: &str, remedy: &str| {
            let message = format!(
                "redis at {} cannot keep durability={what}; {remedy}",
                self.host
            );
            Err(Error::new(ErrorKind::DurabilityUnavailable, message).operation("connect"))
        };
        // An operator who has set `always` counts on it.
        let pauses = self.appendonly && self.appendfsync == "always" && self.no_fsync_on_rewrite;
        match asked {
            None if pauses => refuse(
                "fsync",
                "it syncs always, but not during a rewrite: set no-appendfsync-on-rewrite no, or ask for \
                 durability=os",
            ),
            None => Ok(most),
            Some(Durability::Memory) => Ok(Durability::Memory),
            // Who may read the settings checks them.
            Some(Durability::Stated(stated)) if self.unreadable.is_empty() => {
                self.keeps(Some(stated.into()))
            }
            Some(Durability::Stated(stated)) => Ok(Durability::Stated(stated)),
            Some(Durability::Os | Durability::Fsync) if !self.appendonly => refuse(
                if asked == Some(Durability::Os) {
                    "os"
                } else {
                    "fsync"
                },
                "it keeps no append-only file: set appendonly yes",
            ),
            Some(Durability::Os) if self.appendfsync == "no" => refuse(
                "os",
                "it never syncs its append-only file by itself: set appendfsync everysec",
            ),
            Some(Durability::Os) if self.appendfsync.is_empty() => refuse("os", UNREADABLE),
            Some(Durability::Os) => Ok(Durability::Os),
            Some(Durability::Fsync) if !self.unreadable.is_empty() => refuse("fsync", UNREADABLE),
            Some(Durability::Fsync) if self.appendfsync != "always" => refuse(
                "fsync",
                "it syncs its append-only file later: set appendfsync always",
            ),
            Some(Durability::Fsync) if self.no_fsync_on_rewrite => refuse(
                "fsync",
                "it does not sync during a rewrite: set no-appendfsync-on-rewrite no",
            ),
            Some(Durability::Fsync) => Ok(Durability::Fsync),
            Some(Durability::Replica(wanted)) if self.replicas < u64::from(wanted) => refuse(
                &format!("replica({wanted})"),
                &format!("it has {} connected: start more", self.replicas),
            ),
            Some(Durability::Replica(wanted)) => Ok(Durability::Replica(wanted)),
            Some(other) => refuse(
                &other.to_string(),
                "redis has memory, os, fsync and replica(n)",
            ),
        }
    }

    /// What is wrong now with a server that was good when the engine started, with the remedies.
    pub fn problems(&self, asked: Durability) -> Vec<String> {
        let mut problems = Vec::new();
        if let Err(error) = self.keeps(Some(asked)) {
            problems.push(error.message().to_owned());
        }
        if self.write_failed {
            problems.push(format!(
                "redis at {} cannot write its append-only file; free space on its disk",
                self.host
            ));
        }
        problems
    }

    /// Whether it would keep what its master keeps, if it became master in its place. Refused with
    /// the remedy if not.
    pub fn could_keep(&self, of_master: Durability) -> Result<Durability> {
        let as_master = Self {
            replicas: u64::MAX,
            ..self.clone()
        };
        as_master.keeps(Some(of_master))
    }

    fn most(&self) -> Durability {
        match (self.appendonly, self.appendfsync.as_str()) {
            (true, "always") if !self.no_fsync_on_rewrite => Durability::Fsync,
            // Who may not read when it syncs cannot promise that it does.
            (true, "no" | "") | (false, _) => Durability::Memory,
            (true, _) => Durability::Os,
        }
    }

    /// Whether it is of before there were functions.
    pub(crate) fn is_too_old(&self) -> bool {
        let numbers = self
            .version
            .split_once(' ')
            .map_or("", |(_, version)| version);
        let mut numbers = numbers.split('.').map(|part| part.parse().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        version < OLDEST
    }

    fn check_version(&self) -> Result<()> {
        if !self.is_too_old() {
            return Ok(());
        }
        let message = format!(
            "{} at {} has no functions; use Redis 7.0 or later, or Valkey",
            self.version, self.host
        );
        Err(Error::new(ErrorKind::Unsupported, message).operation("connect"))
    }

    /// Eviction removes what was acknowledged, whatever the durability.
    fn check_policy(&self) -> Result<()> {
        if self.maxmemory_policy == "noeviction" || self.maxmemory_policy.is_empty() {
            return Ok(());
        }
        let message = format!(
            "redis at {} removes keys when its memory is full; set maxmemory-policy noeviction",
            self.host
        );
        Err(Error::new(ErrorKind::DurabilityUnavailable, message)
            .operation("connect")
            .with("maxmemory-policy", &self.maxmemory_policy))
    }
}

/// `ip=127.0.0.1,port=6380,state=online,offset=14,lag=1`
fn follower(line: &str) -> Option<Host> {
    let mut fields = line.split(',').filter_map(|field| field.split_once('='));
    let mut field = |name| fields.find(|(it, _)| *it == name).map(|(_, value)| value);
    Some(Host {
        name: field("ip")?.to_owned(),
        port: field("port")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests;
