//! Which cells there are, and what each is held to.

use std::time::Duration;

use clap::ValueEnum;
use punctual::time::{millis, seconds};
use serde::{Deserialize, Serialize};

use crate::address;
use crate::check::LOSABLE;

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
    /// A master, two replicas, three sentinels; acknowledged by both replicas, which write it down
    Sentinel,
    /// Three masters
    Cluster,
    /// The embedded engine, synced, with power cuts
    EmbeddedPower,
    /// Redis with appendfsync always, with power cuts
    RedisPower,
    /// The embedded engine, synced, with a disk that is full or fails to sync
    EmbeddedDisk,
    /// Redis with appendfsync always, with a disk that is full or fails to sync
    RedisDisk,
    /// The embedded engine without syncs, with power cuts: loses
    EmbeddedOsPower,
    /// Redis with appendfsync everysec, with power cuts: loses
    RedisEverysecPower,
    /// Redis with appendfsync everysec on a disk that takes 1.5 s per sync, killed: may lose
    RedisEverysecSlow,
    /// Redis with snapshots only, killed: loses
    RedisRdb,
    /// A master and two replicas that no call waits for, outrun by it before it is lost: loses
    SentinelUnwaited,
    /// A master and two replicas, one of which is waited for: may lose
    SentinelOne,
    /// The embedded engine, synced, with clocks that are wrong
    EmbeddedClock,
    /// Redis with appendfsync always, with clocks that are wrong
    RedisClock,
    /// Redis with appendfsync always, emptied: loses all, and says so
    RedisEmptied,
    /// The embedded engine, synced five times a second, killed and with power cuts: loses so much
    EmbeddedInterval,
    /// The engine at an address that is given instead: of its servers nothing is broken
    Address,
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
            "redis" | "redis:" => Ok(vec![Self::RedisAlways, Self::RedisHttp, Self::Cluster]),
            "disk" => Ok(vec![
                Self::EmbeddedPower,
                Self::EmbeddedDisk,
                Self::RedisPower,
                Self::RedisDisk,
            ]),
            "all" => Ok(Self::value_variants()
                .iter()
                .copied()
                .filter(|kind| !kind.may_lose() && *kind != Self::Address)
                .collect()),
            "lossy" => Ok(Self::value_variants()
                .iter()
                .copied()
                .filter(|kind| kind.may_lose())
                .collect()),
            name => match Self::from_str(name, false)? {
                Self::Address => Err("write the address itself, such as ./data".into()),
                kind => Ok(vec![kind]),
            },
        }
    }

    pub(crate) fn is_solo(self) -> bool {
        self == Self::Embedded
    }

    pub(crate) fn has_gateway(self) -> bool {
        matches!(
            self,
            Self::EmbeddedHttp
                | Self::RedisHttp
                | Self::EmbeddedPower
                | Self::EmbeddedDisk
                | Self::EmbeddedOsPower
                | Self::EmbeddedInterval
                | Self::EmbeddedClock
        )
    }

    /// Whether clocks are shifted.
    pub(crate) fn has_clocks(self) -> bool {
        matches!(self, Self::EmbeddedClock | Self::RedisClock)
    }

    /// Whether its setting admits that acknowledged jobs are lost.
    pub(crate) fn may_lose(self) -> bool {
        matches!(
            self,
            Self::EmbeddedOsPower
                | Self::EmbeddedInterval
                | Self::RedisEverysec
                | Self::SentinelOne
                | Self::RedisEverysecPower
                | Self::RedisEverysecSlow
                | Self::RedisRdb
                | Self::RedisEmptied
                | Self::SentinelUnwaited
        )
    }

    /// Whether flows can be judged: none of their jobs is lost.
    pub(crate) fn has_flows(self) -> bool {
        !self.may_lose()
    }

    /// Whether limits can be judged: each claim that was answered lasts, whatever befalls the
    /// engine, and engine time is that of this machine. Else more may run than a limit allows.
    pub(crate) fn has_limits(self) -> bool {
        matches!(
            self,
            Self::Embedded
                | Self::EmbeddedHttp
                | Self::RedisAlways
                | Self::RedisHttp
                | Self::RedisPower
                | Self::Sentinel
        )
    }

    /// Whether relays can bring jobs in beside: other processes reach its engine, which loses
    /// nothing and has the time of this machine.
    pub(crate) fn has_relays(self) -> bool {
        matches!(
            self,
            Self::EmbeddedHttp
                | Self::EmbeddedPower
                | Self::RedisAlways
                | Self::RedisHttp
                | Self::RedisPower
        )
    }

    /// Whether its setting promises what a verdict of that name says.
    pub(crate) fn promises(self, verdict: &str) -> bool {
        !self.may_lose() || !LOSABLE.contains(&verdict)
    }

    /// How long before a power cut, or a kill of Redis, a job was acknowledged, at most, that is
    /// lost by it, where a setting says so; by nothing else is any lost there. What syncs take
    /// comes on top: one that is under way does not have what comes meanwhile.
    pub(crate) fn loses_at_most(self) -> Option<Duration> {
        match self {
            Self::EmbeddedInterval => Some(millis(200)),
            // So long it puts a write off for a sync, which only a disk that is slow makes it do.
            Self::RedisEverysec | Self::RedisEverysecSlow => Some(seconds(2)),
            // A sync begins in the next second of its clock, and one that is under way has not what
            // comes meanwhile.
            Self::RedisEverysecPower => Some(seconds(2)),
            _ => None,
        }
    }

    /// Whether Redis syncs each second, and so may hold writes back.
    pub(crate) fn is_everysec(self) -> bool {
        matches!(
            self,
            Self::RedisEverysec | Self::RedisEverysecPower | Self::RedisEverysecSlow
        )
    }

    pub(super) fn is_spied_on(self) -> bool {
        matches!(
            self,
            Self::EmbeddedPower
                | Self::EmbeddedDisk
                | Self::RedisDisk
                | Self::EmbeddedOsPower
                | Self::EmbeddedInterval
                | Self::RedisPower
                | Self::RedisEverysecPower
                | Self::RedisEverysecSlow
                | Self::EmbeddedClock
                | Self::RedisClock
        )
    }

    /// The durability that its engine was asked for, as replies name it.
    pub(crate) fn durability(self) -> &'static str {
        match self {
            Self::Embedded | Self::EmbeddedHttp | Self::RedisAlways | Self::RedisHttp => "fsync",
            Self::EmbeddedPower | Self::RedisPower => "fsync",
            Self::EmbeddedClock | Self::RedisClock => "fsync",
            Self::EmbeddedDisk | Self::RedisDisk | Self::Cluster => "fsync",
            Self::RedisEmptied => "fsync",
            Self::RedisEverysec | Self::EmbeddedOsPower => "os",
            Self::RedisEverysecPower | Self::RedisEverysecSlow => "os",
            Self::EmbeddedInterval => "interval(200ms)",
            Self::Address => "as it says",
            Self::Sentinel => "replica(2)",
            Self::SentinelOne => "replica(1)",
            Self::RedisRdb | Self::SentinelUnwaited => "memory",
        }
    }
}
