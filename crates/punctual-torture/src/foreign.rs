//! An engine at an address that another operator keeps: only faults that can be caused from outside
//! befall it, and nothing in it is taken away but the jobs of the run.

use std::path::{Path, PathBuf};

use punctual::engine::{QueueStats, StatsRequest};
use punctual::{JobState, Namespace};

use crate::address;
use crate::plan::Track;
use crate::setting::QUEUES;

/// Where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// A server: its address, and its port if it is on this machine and takes bytes in the clear.
    Server { address: String, port: Option<u16> },
    /// A directory, which a gateway of the run opens, with options.
    Directory { path: PathBuf, options: String },
}

/// The port of a Redis whose address names none.
const REDIS_PORT: u16 = 6_379;

impl Foreign {
    /// `redis://HOST:PORT/DB`, `rediss://`, `http://HOST:PORT`, `https://`, `file:DIR` or the path
    /// of a directory; `None` for anything else, such as the name of a cell.
    pub(crate) fn named(text: &str) -> Option<Self> {
        let path = text.strip_prefix(address::DIRECTORY).unwrap_or(text);
        let is_path = path != text || path.starts_with(['/', '.']);
        if is_path && !path.is_empty() {
            let (path, options) = path.split_once('?').unwrap_or((path, ""));
            let (path, options) = (path.into(), options.to_owned());
            return Some(Self::Directory { path, options });
        }
        let (scheme, rest) = text.split_once("://")?;
        let port = match scheme {
            "redis" => port_here(rest, Some(REDIS_PORT)),
            "http" => port_here(rest, None),
            _ => None,
        };
        let address = match (scheme, text.contains('?')) {
            ("http" | "https", true) => format!("{text}&{}", address::TOKEN_OUTSIDE),
            ("http" | "https", false) => format!("{text}?{}", address::TOKEN_OUTSIDE),
            _ => text.to_owned(),
        };
        Some(Self::Server { address, port })
    }

    /// Whether a gateway of the run stands before it.
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    /// What a proxy can stand before.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Server { port, .. } => *port,
            Self::Directory { .. } => None,
        }
    }

    /// Whether it is a gateway that rogue clients can come to.
    pub(crate) fn has_door(&self) -> bool {
        matches!(self, Self::Server { address, port: Some(_) } if address.starts_with("http:"))
    }

    /// Whether faults of a track can be caused: those of servers would be its supervisor's.
    pub(crate) fn is_hit_in(&self, track: Track) -> bool {
        match track {
            Track::Workers => true,
            Track::Servers => self.is_directory(),
            Track::Network => self.is_directory() || self.port().is_some(),
            Track::RogueClients => self.is_directory() || self.has_door(),
            Track::Relays | Track::Sources => false,
        }
    }

    /// Its address.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Server { address, .. } => address.clone(),
            Self::Directory { path, options } => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                format!("{}?{options}", address::of_directory(&path))
            }
        }
    }

    /// Its address past a proxy that stands before it at a port of this machine.
    pub(crate) fn behind(&self, proxy: u16) -> String {
        let address = self.address();
        let Some((scheme, rest)) = address.split_once("://") else {
            return address;
        };
        let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let user = authority
            .rsplit_once('@')
            .map(|(user, _)| format!("{user}@"));
        let user = user.unwrap_or_default();
        format!("{scheme}://{user}127.0.0.1:{proxy}{tail}")
    }

    /// Whether it may keep the time of another machine: it is not on this one.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let Self::Server { address, .. } = self else {
            return false;
        };
        let rest = address.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let places = authority.rsplit('@').next().unwrap_or_default();
        !places.split(',').all(is_here)
    }

    /// Refuses one that holds anything: what is there is not the run's to touch.
    pub(crate) async fn be_empty(&self) -> Result<(), String> {
        match self {
            Self::Server { .. } => self.hold_no_jobs().await,
            Self::Directory { path, .. } => is_empty(path),
        }
    }

    async fn hold_no_jobs(&self) -> Result<(), String> {
        let engine = address::open(&self.address()).await;
        let engine = engine.map_err(|error| format!("the engine does not open: {error}"))?;
        let namespace = Namespace::default();
        let stats = engine.stats(&namespace, StatsRequest::default()).await;
        let stats = stats.map_err(|error| error.to_string())?;
        let jobs = |queue: &QueueStats| {
            JobState::ALL
                .iter()
                .map(|state| queue.counts.of(*state))
                .sum::<u64>()
        };
        let held: u64 = stats.queues.iter().map(jobs).sum();
        let known = |queue: &QueueStats| QUEUES.contains(&&*queue.queue);
        match stats.queues.iter().find(|queue| !known(queue)) {
            _ if held > 0 => Err(format!(
                "the engine holds {held} jobs already, and a run would run them; {EMPTY}"
            )),
            Some(queue) => Err(format!(
                "the engine has a queue already, {}; {EMPTY}",
                queue.queue
            )),
            None => Ok(()),
        }
    }
}

/// The remedy.
const EMPTY: &str = "give it one without jobs, such as another database (the number at the end of its address), a gateway whose token is for \
     another namespace, or a directory that is not there yet";

fn is_empty(path: &Path) -> Result<(), String> {
    let is_empty = std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
    match is_empty {
        true => Ok(()),
        false => Err(format!(
            "the directory {} is not empty; {EMPTY}",
            path.display()
        )),
    }
}

/// The port, if the host is this machine.
fn port_here(rest: &str, default: Option<u16>) -> Option<u16> {
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let place = authority.rsplit('@').next().unwrap_or_default();
    let port = match place.rsplit_once(':') {
        Some((_, port)) => port.parse().ok(),
        None => default,
    };
    port.filter(|_| is_here(place))
}

/// Whether a host, with a port or without, is this machine's loopback.
fn is_here(place: &str) -> bool {
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    matches!(host, "127.0.0.1" | "localhost")
}

#[cfg(test)]
mod tests;
