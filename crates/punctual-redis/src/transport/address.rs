//! Parses the addresses of servers.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use punctual::engine::{Durability, StatedDurability};
use punctual::time::parse_span;
use punctual::{Error, ErrorKind, Result};

use crate::options::{Options, SHARDS_MAX};

/// A host and a port of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

impl Host {
    fn is_here(&self) -> bool {
        match self.name.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => self.name.eq_ignore_ascii_case("localhost"),
        }
    }

    /// Refuses to send passwords and jobs to another machine in the clear.
    pub(crate) fn check_plaintext(&self) -> Result<()> {
        if self.is_here() {
            return Ok(());
        }
        let message = "redis on another machine would get passwords and jobs in the clear; use \
             rediss://, or say ?plaintext=allow on a network that only you can read";
        Err(invalid(message.into()).with("redis", self))
    }
}

/// Which servers keep the jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// One server.
    Standalone(Host),
    /// The master of that name, as the sentinels report it.
    Sentinel {
        sentinels: Vec<Host>,
        master: String,
    },
    /// A cluster, some of whose nodes are these.
    Cluster(Vec<Host>),
}

impl Place {
    /// Those that the address names.
    pub(crate) fn hosts(&self) -> &[Host] {
        match self {
            Self::Standalone(host) => std::slice::from_ref(host),
            Self::Sentinel { sentinels, .. } => sentinels,
            Self::Cluster(hosts) => hosts,
        }
    }
}

/// A text that no log and no error may show.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The ports that are meant when none is named.
const PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

const FORMS: &str = "write redis://HOST:PORT, rediss://HOST:PORT (TLS), \
     redis+sentinel://HOST:PORT,HOST:PORT/MASTER or redis+cluster://HOST:PORT,HOST:PORT, with \
     USER:PASSWORD@ before the hosts";

impl FromStr for Options {
    type Err = Error;

    /// Reads an address such as `redis://user:password@host:6379/0?durability=os`.
    fn from_str(text: &str) -> Result<Self> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| invalid(format!("redis address has no scheme; {FORMS}")))?;
        let (before, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (user_info, hosts_and_path) = match before.rsplit_once('@') {
            Some((user_info, rest)) => (Some(user_info), rest),
            None => (None, before),
        };
        let (hosts, path) = hosts_and_path
            .split_once('/')
            .unwrap_or((hosts_and_path, ""));
        let mut read = match scheme {
            "redis" | "rediss" => {
                let mut hosts = parse_hosts(hosts, PORT)?;
                if hosts.len() != 1 {
                    return Err(invalid(format!("{scheme}: names one host; {FORMS}")));
                }
                Self::of(Place::Standalone(hosts.remove(0))).database(parse_database(path)?)
            }
            "redis+sentinel" | "rediss+sentinel" => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(invalid(format!("{scheme}: names no master; {FORMS}")));
                }
                let sentinels = parse_hosts(hosts, SENTINEL_PORT)?;
                let master = decoded(master)?;
                Self::of(Place::Sentinel { sentinels, master }).database(parse_database(database)?)
            }
            "redis+cluster" | "rediss+cluster" => {
                if !path.is_empty() {
                    return Err(invalid(format!(
                        "{scheme}: has no databases but 0; {FORMS}"
                    )));
                }
                Self::of(Place::Cluster(parse_hosts(hosts, PORT)?))
            }
            _ => {
                return Err(invalid(format!(
                    "redis address of an unknown kind; {FORMS}"
                )));
            }
        };
        read.tls.on = scheme.starts_with("rediss");
        if let Some(user_info) = user_info {
            let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
            read.user = Some(decoded(user)?).filter(|user| !user.is_empty());
            read.password = Some(Secret(decoded(password)?)).filter(|it| !it.0.is_empty());
        }
        if options.contains('@') {
            let message = "redis address has an @ behind its ?; write ? as %3F and @ as %40";
            return Err(invalid(message.into()));
        }
        for option in options.split('&').filter(|option| !option.is_empty()) {
            read.set(option)?;
        }
        let names_sentinels = matches!(read.place, Place::Sentinel { .. });
        let for_sentinels = read.sentinel_user.is_some() || read.sentinel_password.is_some();
        if for_sentinels && !names_sentinels {
            let message = "sentinel_user and sentinel_password are for redis+sentinel: addresses";
            return Err(invalid(message.into()));
        }
        if read.tls.on && read.plaintext {
            let message = "plaintext=allow is for addresses without TLS; leave it out";
            return Err(invalid(message.into()));
        }
        if read.refuses_plaintext() {
            read.place
                .hosts()
                .iter()
                .try_for_each(Host::check_plaintext)?;
        }
        Ok(read)
    }
}

impl Options {
    /// Whether passwords and jobs go to another machine unencrypted, as `?plaintext=allow` says.
    pub fn is_in_the_clear(&self) -> bool {
        !self.tls.on && !self.place.hosts().iter().all(Host::is_here)
    }

    /// Whether hosts of other machines are refused, those too that sentinels and nodes name.
    pub(crate) fn refuses_plaintext(&self) -> bool {
        !self.tls.on && !self.plaintext
    }

    fn set(&mut self, option: &str) -> Result<()> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = decoded(value)?;
        match name {
            "durability" | "stated_durability" if self.durability.is_some() => {
                let message = "redis address has two durabilities; keep one of durability and stated_durability";
                return Err(invalid(message.into()));
            }
            "durability" => self.durability = Some(parse_durability(&value)?),
            "stated_durability" => self.durability = Some(parse_stated(&value)?),
            "shards" => {
                let shards = value.parse().ok();
                let shards = shards.filter(|n| (1..=SHARDS_MAX).contains(n));
                let out_of_range = || invalid("shards is out of range; use 1 to 1024".into());
                self.shards = Some(shards.ok_or_else(out_of_range)?);
            }
            "settled_window" => self.limits.settled_window = parse_kept(name, &value)?,
            "retention" => {
                let retention = parse_kept(name, &value)?;
                self.limits.cancelled_retention = retention;
                self.limits.dead_retention = retention;
            }
            "data" if value == "required" => self.data_required = true,
            "data" if value == "any" => self.data_required = false,
            "sentinel_user" => self.sentinel_user = Some(value),
            "sentinel_password" => self.sentinel_password = Some(Secret(value)),
            "plaintext" if value == "allow" => self.plaintext = true,
            "ca" => self.tls.authority = Some(PathBuf::from(value)),
            "cert" => self.tls.certificate = Some(PathBuf::from(value)),
            "key" => self.tls.key = Some(PathBuf::from(value)),
            // Not shown: what stands here may be the rest of a password with a bare ? in it.
            _ => {
                return Err(invalid(
                    "redis address has an unknown option; it has durability, stated_durability, shards, settled_window, retention, \
                     data=required, plaintext=allow, sentinel_user, sentinel_password, ca, cert and key (a ? in a password is written %3F)"
                        .into(),
                ));
            }
        }
        Ok(())
    }
}

fn parse_hosts(text: &str, default_port: u16) -> Result<Vec<Host>> {
    let hosts: Result<Vec<Host>> = text
        .split(',')
        .map(|host| parse_host(host, default_port))
        .collect();
    hosts
}

fn parse_host(text: &str, default_port: u16) -> Result<Host> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest
                .split_once(']')
                .ok_or_else(|| invalid(format!("redis address has a broken host; {FORMS}")))?;
            (name, port.strip_prefix(':').unwrap_or(port))
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-:%".contains(c);
    if name.is_empty() || !name.chars().all(allowed) {
        return Err(invalid(format!(
            "redis address names no host where one must be; {FORMS}"
        )));
    }
    let port = match port {
        "" => default_port,
        port => (port.parse().ok().filter(|port| *port != 0)).ok_or_else(|| {
            invalid("redis address has a port that is no number from 1 to 65535".into())
        })?,
    };
    Ok(Host {
        name: name.into(),
        port,
    })
}

fn parse_database(text: &str) -> Result<i64> {
    match text {
        "" => Ok(0),
        text => (text
            .parse()
            .ok()
            .filter(|number| (0..=65_535).contains(number)))
        .ok_or_else(|| invalid("redis database is no number; write such as /0".into())),
    }
}

/// Reads how long settled jobs are kept.
fn parse_kept(name: &str, text: &str) -> Result<Duration> {
    let span = parse_span(text).ok().filter(|span| !span.is_zero());
    span.ok_or_else(|| {
        invalid(format!(
            "{name} is no span above 0; write such as {name}=2m"
        ))
    })
}

/// Reads a durability that this engine knows.
pub(crate) fn parse_durability(text: &str) -> Result<Durability> {
    let replicas = text
        .strip_prefix("replica(")
        .and_then(|rest| rest.strip_suffix(')'));
    let replicas = replicas.and_then(|n| n.parse().ok()).filter(|n| *n > 0);
    match (text, replicas) {
        ("memory", _) => Ok(Durability::Memory),
        ("os", _) => Ok(Durability::Os),
        ("fsync", _) => Ok(Durability::Fsync),
        (_, Some(replicas)) => Ok(Durability::Replica(replicas)),
        _ => Err(invalid(
            "redis has no such durability; write memory, os, fsync or replica(1)".into(),
        )),
    }
}

/// Reads a durability that an operator can state.
fn parse_stated(text: &str) -> Result<Durability> {
    match text {
        "os" => Ok(Durability::Stated(StatedDurability::Os)),
        "fsync" => Ok(Durability::Stated(StatedDurability::Fsync)),
        _ => Err(invalid(
            "stated_durability is out of range; write os or fsync".into(),
        )),
    }
}

/// Text with `%41` for `A`.
fn decoded(text: &str) -> Result<String> {
    let broken = || invalid("redis address has a % that is not followed by two hex digits".into());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(rest.next().ok_or_else(broken)?);
            digit.to_digit(16).ok_or_else(broken)
        };
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).map_err(|_| invalid("redis address is not UTF-8".into()))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, message).operation("connect")
}

#[cfg(test)]
mod tests;
