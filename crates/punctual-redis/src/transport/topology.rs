//! Which node answers for which slots, and how to ask.

use std::collections::BTreeSet;

use punctual::time::{millis, within};
use punctual::{Error, ErrorKind, Result};
use redis::{FromRedisValue, Value, cmd};

use crate::transport::address::{Host, Place};
use crate::transport::link::Dialer;

/// The part of a cluster's keys that moves between its nodes as one, 0 to 16,383.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(u16);

const SLOTS: u16 = 16_384;

impl Slot {
    /// The slot of every key with that text between its braces.
    pub(crate) fn of_tag(tag: &str) -> Self {
        // CRC-16 with the polynomial 0x1021, as the cluster specification says.
        let step = |crc: u16, byte: u8| {
            (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| match crc & 0x8000 {
                0 => crc << 1,
                _ => (crc << 1) ^ 0x1021,
            })
        };
        Self(tag.bytes().fold(0, step) % SLOTS)
    }
}

/// Which node answers for which slots, as last learned.
#[derive(Debug)]
pub(crate) struct Topology {
    ranges: Vec<Range>,
    /// Nodes that failed: a refresh reads the servers of their slots anew, though all slots are
    /// covered. Others go on.
    doubted: BTreeSet<Host>,
    fixed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    first: u16,
    last: u16,
    host: Host,
}

impl Topology {
    pub(crate) fn of(place: &Place) -> Self {
        let ranges = match place {
            Place::Standalone(host) => vec![Range {
                first: 0,
                last: SLOTS - 1,
                host: host.clone(),
            }],
            Place::Sentinel { .. } | Place::Cluster(_) => Vec::new(),
        };
        Self {
            fixed: !ranges.is_empty(),
            ranges,
            doubted: BTreeSet::new(),
        }
    }

    /// The server of a slot; `None` if a refresh must find it first.
    pub(crate) fn owner(&self, slot: Slot) -> Option<Host> {
        self.named(slot).filter(|host| !self.doubted.contains(host))
    }

    /// The server at the last refresh.
    pub(crate) fn named(&self, slot: Slot) -> Option<Host> {
        let holds = |range: &&Range| (range.first..=range.last).contains(&slot.0);
        // The latest word comes last.
        let range = self.ranges.iter().rev().find(holds)?;
        Some(range.host.clone())
    }

    pub(crate) fn masters(&self) -> Vec<Host> {
        let mut hosts: Vec<_> = self.ranges.iter().map(|range| range.host.clone()).collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }

    pub(crate) fn is_complete(&self) -> bool {
        !self.ranges.is_empty() && self.doubted.is_empty()
    }

    /// A node said that another one answers for a slot.
    pub(crate) fn moved(&mut self, slot: Slot, host: Host) {
        if !self.fixed {
            self.ranges
                .retain(|range| (range.first, range.last) != (slot.0, slot.0));
            let (first, last) = (slot.0, slot.0);
            self.ranges.push(Range { first, last, host });
        }
    }

    /// A node failed: another node may serve its slots by now.
    pub(crate) fn doubt(&mut self, host: &Host) {
        if !self.fixed && self.names(host) {
            self.doubted.insert(host.clone());
        }
    }

    pub(crate) fn learn(&mut self, ranges: Vec<Range>) {
        self.doubted.clear();
        self.ranges = ranges;
    }

    /// The nodes to ask: the known ones first, then those of the address.
    fn sources(&self, of_address: &[Host]) -> Vec<Host> {
        let mut hosts = self.masters();
        hosts.extend(of_address.iter().filter(|host| !self.names(host)).cloned());
        hosts
    }

    fn names(&self, host: &Host) -> bool {
        self.ranges.iter().any(|range| range.host == *host)
    }

    /// Asks which server serves which slots; the first answer counts.
    pub(crate) fn fetch(
        &self,
        place: &Place,
        dialer: &Dialer,
    ) -> impl Future<Output = Result<Vec<Range>>> + use<> {
        let sources = match place {
            Place::Cluster(hosts) => self.sources(hosts),
            Place::Sentinel { sentinels, .. } => sentinels.clone(),
            Place::Standalone(_) => Vec::new(),
        };
        let (place, dialer) = (place.clone(), dialer.clone());
        async move {
            let mut last = Error::new(ErrorKind::EngineUnavailable, "no server is known");
            for source in sources {
                let asked = match &place {
                    Place::Sentinel { master, .. } => master_of(&source, master, &dialer).await,
                    _ => slots_of(&source, &dialer).await,
                };
                match asked {
                    Ok(ranges) => return Ok(ranges),
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

/// A source that takes longer is skipped.
const SOURCE_TIMEOUT: std::time::Duration = millis(1_000);

async fn slots_of(source: &Host, dialer: &Dialer) -> Result<Vec<Range>> {
    let slots = question(source, dialer, cmd("CLUSTER").arg("SLOTS")).await?;
    let broken = || {
        let message = format!("redis at {source} names no slots; is it part of a whole cluster?");
        Error::new(ErrorKind::EngineUnavailable, message)
    };
    let Value::Array(rows) = slots else {
        return Err(broken());
    };
    let ranges: Option<Vec<Range>> = rows.into_iter().map(|row| range(row, source)).collect();
    ranges
        .filter(|ranges| !ranges.is_empty())
        .ok_or_else(broken)
}

/// `[first, last, [name, port, id, ...], replica...]`
fn range(row: Value, source: &Host) -> Option<Range> {
    let Value::Array(mut parts) = row else {
        return None;
    };
    if parts.len() < 3 {
        return None;
    }
    let Value::Array(mut master) = parts.swap_remove(2) else {
        return None;
    };
    master.truncate(2);
    let port = u16::from_redis_value(master.pop()?).ok()?;
    let name = Option::<String>::from_redis_value(master.pop()?).ok()?;
    let name = name.filter(|name| !name.is_empty() && name != "?");
    let last = u16::from_redis_value(parts.remove(1)).ok()?;
    let first = u16::from_redis_value(parts.remove(0)).ok()?;
    let name = name.unwrap_or_else(|| source.name.clone());
    let host = Host { name, port };
    Some(Range { first, last, host })
}

async fn master_of(sentinel: &Host, master: &str, dialer: &Dialer) -> Result<Vec<Range>> {
    let mut command = cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    let answer = question(sentinel, &dialer.to_sentinels(), &command).await;
    let answer = answer.map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => {
            let message = format!(
                "the sentinel at {sentinel} refuses the user or the password; give them as \
                 ?sentinel_user=USER&sentinel_password=PASSWORD"
            );
            Error::new(ErrorKind::InvalidInput, message)
        }
        _ => error,
    })?;
    let answer = Option::<(String, u16)>::from_redis_value(answer)
        .ok()
        .flatten();
    let (name, port) = answer.ok_or_else(|| {
        let message = format!("the sentinel at {sentinel} knows no master of that name");
        Error::new(ErrorKind::InvalidInput, message).with("master", format!("{master:?}"))
    })?;
    let host = Host { name, port };
    // A sentinel may not have seen yet that its master is one no more.
    let role = question(&host, dialer, &cmd("ROLE")).await?;
    let role = Vec::<Value>::from_redis_value(role).unwrap_or_default();
    let role = role.into_iter().next().map(String::from_redis_value);
    match role {
        Some(Ok(role)) if role == "master" => Ok(vec![Range {
            first: 0,
            last: SLOTS - 1,
            host,
        }]),
        _ => {
            let message = format!("redis at {host} is no master any more; a failover goes on");
            Err(Error::new(ErrorKind::EngineUnavailable, message))
        }
    }
}

async fn question(source: &Host, dialer: &Dialer, command: &redis::Cmd) -> Result<Value> {
    let asked = async {
        let mut connection = dialer.dial(source).await?;
        let answer = command.query_async(&mut connection).await;
        answer.map_err(|error| crate::transport::error_mapping::unreachable(source, &error))
    };
    within(SOURCE_TIMEOUT, asked).await.unwrap_or_else(|| {
        let message = format!("redis at {source} gave no answer in time");
        Err(Error::new(ErrorKind::EngineUnavailable, message))
    })
}

#[cfg(test)]
mod tests;
