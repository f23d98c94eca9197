//! What is done to a cell, when, for how long: a function of the seed alone.

mod relays;

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use punctual::time::millis;
use serde::{Deserialize, Serialize};

use crate::cell::CellKind;
use crate::setting::LEASE_DURATION;
pub(crate) use relays::plan_of_relays;

/// A kind of fault. Its id is the one of the list in `docs/reliability.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    KillWorker,
    StopWorker,
    StopWorkers,
    TerminateWorker,
    KillEngine,
    StopEngine,
    KillGateway,
    StopGateway,
    CutRequest,
    CutReply,
    NoReplies,
    BlackHole,
    Reset,
    HalfClose,
    Slow,
    Thin,
    Drop,
    ForgetFunctions,
    FullMemory,
    MoveSlot,
    FailOver,
    OutrunReplicas,
    CutPower,
    SlowSync,
    FailSync,
    FullDisk,
    LeaveMaster,
    NewerFunctions,
    ClockAhead,
    ClockBack,
    ClientClock,
    Empty,
    EmptyDisk,
    OtherDatabase,
    Drip,
    TakeNothing,
    KillRelay,
    StopRelay,
    TerminateRelay,
    KillSource,
}

/// Faults of a track come one after the other; tracks go on at the same time.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Track {
    Workers,
    Servers,
    Network,
    RogueClients,
    Relays,
    Sources,
}

/// One fault.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// Milliseconds after the start of the round.
    pub(crate) at: u64,
    pub(crate) track: Track,
    pub(crate) kind: Kind,
    /// How long, in milliseconds.
    pub(crate) holds: u64,
    /// Which of several, and where, by the kind.
    pub(crate) pick: u64,
}

impl Fault {
    pub(crate) fn span(&self) -> Duration {
        millis(self.holds)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.kind.what();
        write!(
            f,
            "{:>8} ms  {what}, {} ms, pick {}",
            self.at, self.holds, self.pick
        )
    }
}

/// How long nothing is broken in a quiet period: five seconds, in which a worker is to claim, and
/// what it takes until faults come again.
pub(crate) const REST: Duration = millis(REST_MILLIS);
const REST_MILLIS: u64 = 6_000;
/// About how long it is from rest to rest.
const EVERY_MILLIS: u64 = 20_000;
/// A round that is shorter has none: faults need some time to do harm.
const RESTLESS_MILLIS: u64 = 15_000;

/// When the quiet periods of a round begin, in milliseconds after its start: of each, whatever its
/// seed and cell. The last one ends with the round.
pub(crate) fn quiet_periods(spans: u64) -> Vec<u64> {
    let count = match spans {
        0..RESTLESS_MILLIS => 0,
        _ => (spans + EVERY_MILLIS / 2) / EVERY_MILLIS,
    };
    let ends = (1..=count).map(|number| spans * number / count);
    ends.map(|end| end - REST_MILLIS).collect()
}

/// The faults of one round of a cell: none begins or holds in a quiet period.
pub(crate) fn plan(seed: u64, cell: CellKind, round: u64, spans: u64) -> Vec<Fault> {
    let mut random =
        Rng::with_seed(seed ^ (cell as u64 + 1).wrapping_mul(0x9e37_79b9) ^ (round << 40));
    let mut plan = Vec::new();
    let quiet_periods = quiet_periods(spans);
    // What quiet periods take away comes back between them.
    let gap = if quiet_periods.is_empty() {
        150..700
    } else {
        50..400
    };
    for (track, kinds) in tracks(cell) {
        let from = match cell {
            // Data that no process knows cannot be missed.
            CellKind::RedisEmptied => random.u64(4_000..8_000),
            // Nor data of which nothing was synced.
            CellKind::RedisEverysecPower => random.u64(2_500..3_500),
            _ => random.u64(200..700),
        };
        let besides = |kind| match kind {
            // Sentinels, too, take their time.
            Kind::FailOver | Kind::OutrunReplicas | Kind::LeaveMaster => 6_000,
            Kind::Drip | Kind::TakeNothing => 3_000,
            // What is gone is not lost again.
            Kind::Empty | Kind::EmptyDisk | Kind::OtherDatabase => spans,
            // Else each cut takes all there is: some seconds' jobs are to be there that were
            // synced.
            Kind::CutPower if cell == CellKind::RedisEverysecPower => 4_000,
            _ if cell.may_lose() => 1_500,
            _ => 0,
        };
        let filling = Filling {
            track,
            kinds,
            gap: gap.clone(),
            quiet_periods: &quiet_periods,
            spans,
        };
        filling.fill(from, besides, &mut random, &mut plan);
    }
    plan.sort_by_key(|fault| (fault.at, fault.track));
    plan
}

/// How a track is filled with faults.
struct Filling<'a> {
    track: Track,
    kinds: Faults,
    /// Milliseconds between two faults.
    gap: Range<u64>,
    quiet_periods: &'a [u64],
    spans: u64,
}

impl Filling<'_> {
    /// Adds faults from a millisecond on; after some a track pauses for longer.
    fn fill(
        self,
        from: u64,
        besides: impl Fn(Kind) -> u64,
        random: &mut Rng,
        plan: &mut Vec<Fault>,
    ) {
        let mut at = from;
        while at < self.spans && plan.len() < 100_000 {
            let kind = pick(self.kinds, random);
            let holds = kind.holds(random);
            let is_in = |rest: &&u64| at < **rest + REST_MILLIS && at + holds > **rest;
            if let Some(rest) = self.quiet_periods.iter().find(is_in) {
                at = rest + REST_MILLIS + random.u64(self.gap.clone());
                if at >= self.spans {
                    break;
                }
            }
            plan.push(Fault {
                at,
                track: self.track,
                kind,
                holds,
                pick: random.u64(0..1_000_000),
            });
            at += holds + besides(kind) + random.u64(self.gap.clone());
        }
    }
}

/// Whether a track is among these, of which none means all.
pub(crate) fn is_among(tracks: &[Track], track: Track) -> bool {
    tracks.is_empty() || tracks.contains(&track)
}

fn pick(kinds: &[(Kind, u32)], random: &mut Rng) -> Kind {
    let mut at = random.u32(0..kinds.iter().map(|(_, weight)| weight).sum());
    for (kind, weight) in kinds {
        match at.checked_sub(*weight) {
            None => return *kind,
            Some(rest) => at = rest,
        }
    }
    unreachable!("the weights add up")
}

/// Kinds of fault, each with its weight.
type Faults = &'static [(Kind, u32)];

const WORKERS: Faults = &[
    (Kind::KillWorker, 20),
    (Kind::TerminateWorker, 6),
    (Kind::StopWorker, 2),
    (Kind::StopWorkers, 1),
];
const ROGUE_CLIENTS: Faults = &[(Kind::Drip, 1), (Kind::TakeNothing, 1)];
const NETWORK: Faults = &[
    (Kind::CutRequest, 6),
    (Kind::CutReply, 6),
    (Kind::NoReplies, 6),
    (Kind::BlackHole, 1),
    (Kind::Reset, 6),
    (Kind::HalfClose, 4),
    (Kind::Slow, 2),
    (Kind::Thin, 1),
    (Kind::Drop, 6),
];
const REDIS: Faults = &[
    (Kind::KillEngine, 12),
    (Kind::StopEngine, 1),
    (Kind::ForgetFunctions, 6),
    (Kind::FullMemory, 2),
    (Kind::NewerFunctions, 2),
];
const CLOCKED_WORKERS: Faults = &[(Kind::ClientClock, 10), (Kind::KillWorker, 6)];

const GATEWAY: Faults = &[(Kind::KillGateway, 12), (Kind::StopGateway, 1)];
const GATEWAY_AND_REDIS: Faults = &[
    (Kind::KillGateway, 12),
    (Kind::StopGateway, 1),
    (Kind::KillEngine, 6),
    (Kind::ForgetFunctions, 3),
];
const POWER: Faults = &[
    (Kind::CutPower, 12),
    (Kind::SlowSync, 1),
    (Kind::FullDisk, 1),
];
/// After a failed sync the engine answers nothing until it is opened again, and an opening copies
/// what no sync is known to have covered: so nothing answered may go with a cut.
const DISK_OF_EMBEDDED: Faults = &[
    (Kind::FailSync, 4),
    (Kind::FullDisk, 4),
    (Kind::SlowSync, 1),
    (Kind::KillEngine, 3),
    (Kind::CutPower, 3),
];
/// No power cut: a disk that failed to sync once may have lost what it says that it has, and Redis
/// goes on with the same file.
const DISK_OF_REDIS: Faults = &[
    (Kind::FailSync, 4),
    (Kind::FullDisk, 4),
    (Kind::SlowSync, 1),
    (Kind::KillEngine, 3),
];
const CLOCK_OF_EMBEDDED: Faults = &[
    (Kind::ClockAhead, 2),
    (Kind::ClockBack, 6),
    (Kind::KillGateway, 4),
];
const CLOCK_OF_REDIS: Faults = &[
    (Kind::ClockAhead, 2),
    (Kind::ClockBack, 6),
    (Kind::KillEngine, 4),
];
const EMPTIED: Faults = &[
    (Kind::Empty, 1),
    (Kind::EmptyDisk, 1),
    (Kind::OtherDatabase, 1),
];
const NODES: Faults = &[
    (Kind::MoveSlot, 3),
    (Kind::KillEngine, 2),
    (Kind::ForgetFunctions, 2),
];

/// The tracks of a cell, and the kinds of fault that each draws from.
fn tracks(cell: CellKind) -> Vec<(Track, Faults)> {
    let workers = workers(cell).map(|faults| (Track::Workers, faults));
    let network = has_network(cell).then_some((Track::Network, NETWORK));
    let rogue_clients = has_gateway(cell).then_some((Track::RogueClients, ROGUE_CLIENTS));
    let servers = Some((Track::Servers, servers(cell)));
    let tracks = [workers, servers, network, rogue_clients];
    tracks.into_iter().flatten().collect()
}

/// What befalls workers; `None` where they share the engine's process, or where the round is about
/// what the servers lose.
fn workers(cell: CellKind) -> Option<Faults> {
    match cell {
        CellKind::Embedded
        | CellKind::EmbeddedOsPower
        | CellKind::EmbeddedInterval
        | CellKind::RedisEverysecPower
        | CellKind::RedisEverysecSlow
        | CellKind::RedisRdb
        | CellKind::RedisEmptied => None,
        CellKind::EmbeddedClock | CellKind::RedisClock => Some(CLOCKED_WORKERS),
        _ => Some(WORKERS),
    }
}

/// What befalls the servers: the engine, its disk and clock, the gateway.
fn servers(cell: CellKind) -> Faults {
    match cell {
        CellKind::Embedded => &[(Kind::KillEngine, 14), (Kind::StopEngine, 1)],
        CellKind::EmbeddedHttp | CellKind::Address => GATEWAY,
        CellKind::RedisAlways | CellKind::RedisEverysec => REDIS,
        CellKind::RedisHttp => GATEWAY_AND_REDIS,
        CellKind::Sentinel | CellKind::SentinelOne => {
            &[(Kind::FailOver, 2), (Kind::LeaveMaster, 1)]
        }
        // What a failover loses by itself is chance, and often nothing.
        CellKind::SentinelUnwaited => &[(Kind::OutrunReplicas, 1)],
        CellKind::EmbeddedClock => CLOCK_OF_EMBEDDED,
        CellKind::RedisClock => CLOCK_OF_REDIS,
        CellKind::EmbeddedPower | CellKind::RedisPower => POWER,
        CellKind::EmbeddedDisk => DISK_OF_EMBEDDED,
        CellKind::RedisDisk => DISK_OF_REDIS,
        CellKind::EmbeddedOsPower | CellKind::RedisEverysecPower => &[(Kind::CutPower, 1)],
        CellKind::EmbeddedInterval => &[(Kind::CutPower, 2), (Kind::KillGateway, 1)],
        CellKind::RedisEverysecSlow | CellKind::RedisRdb => &[(Kind::KillEngine, 1)],
        CellKind::RedisEmptied => EMPTIED,
        CellKind::Cluster => NODES,
    }
}

fn has_gateway(cell: CellKind) -> bool {
    matches!(
        cell,
        CellKind::EmbeddedHttp | CellKind::Address | CellKind::RedisHttp
    )
}

fn has_network(cell: CellKind) -> bool {
    has_gateway(cell) || matches!(cell, CellKind::RedisAlways | CellKind::RedisEverysec)
}

impl Kind {
    /// How long one holds, in milliseconds.
    fn holds(self, random: &mut Rng) -> u64 {
        let lease_duration = LEASE_DURATION.as_millis() as u64;
        match self {
            Self::KillWorker | Self::KillEngine | Self::KillGateway => random.u64(0..250),
            Self::KillRelay | Self::KillSource => random.u64(0..250),
            Self::StopRelay => relays::STOPPED_MILLIS,
            Self::StopWorker => 3 * lease_duration,
            Self::StopWorkers => 5 * lease_duration,
            Self::Drip | Self::TakeNothing => random.u64(1_000..3_000),
            Self::StopEngine | Self::StopGateway | Self::BlackHole => 2 * lease_duration,
            Self::CutPower => random.u64(0..250),
            Self::Slow | Self::Thin | Self::FullMemory => random.u64(300..1_000),
            Self::SlowSync | Self::FailSync | Self::FullDisk => random.u64(200..800),
            Self::NoReplies | Self::CutRequest | Self::CutReply => random.u64(50..300),
            Self::FailOver | Self::OutrunReplicas => random.u64(1_500..4_000),
            Self::LeaveMaster => random.u64(0..1_000),
            Self::ClockBack | Self::ClientClock => random.u64(300..1_000),
            _ => 0,
        }
    }

    /// Whether it is counted, where it is caused, that something met it: bytes that were cut, syncs
    /// and writes that were refused or slowed, rogue clients that were let in. It counts as caused
    /// only then.
    pub(crate) fn is_counted(self) -> bool {
        matches!(
            self,
            Self::CutRequest
                | Self::CutReply
                | Self::SlowSync
                | Self::FailSync
                | Self::FullDisk
                | Self::Drip
                | Self::TakeNothing
        )
    }

    /// Its number in the list of faults.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::KillWorker => "F01",
            Self::KillEngine => "F02",
            Self::KillGateway => "F06",
            Self::StopWorker => "F08",
            Self::StopWorkers => "F29",
            Self::Empty | Self::EmptyDisk | Self::OtherDatabase => "F17",
            Self::TakeNothing => "F27",
            Self::Drip => "F28",
            Self::StopEngine => "F09",
            Self::StopGateway => "F10",
            Self::CutRequest | Self::CutReply | Self::NoReplies => "F11",
            Self::BlackHole | Self::Reset | Self::HalfClose | Self::Slow | Self::Thin => "F12",
            Self::Drop => "F13",
            Self::ForgetFunctions => "F16",
            Self::FullMemory => "F18",
            Self::FailOver | Self::OutrunReplicas => "F21",
            Self::LeaveMaster => "F22",
            Self::NewerFunctions => "F36",
            Self::ClockAhead | Self::ClockBack | Self::ClientClock => "F14",
            Self::MoveSlot => "F23",
            Self::CutPower => "F04",
            Self::SlowSync | Self::FailSync | Self::FullDisk => "F20",
            Self::TerminateWorker => "F31",
            Self::KillRelay | Self::StopRelay | Self::TerminateRelay => "F37",
            Self::KillSource => "F38",
        }
    }

    /// The number of a kill of the engine, where that depends on which it is.
    pub(crate) fn id_in(self, cell: CellKind) -> &'static str {
        match (self, cell) {
            (Self::KillEngine, CellKind::Embedded | CellKind::EmbeddedDisk) => "F07",
            (Self::KillEngine, CellKind::RedisEverysec | CellKind::RedisEverysecSlow) => "F03",
            (Self::CutPower, cell) if cell.may_lose() => "F05",
            (Self::KillEngine, CellKind::Cluster) => "F23",
            _ => self.id(),
        }
    }

    /// What it does, in words.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::KillWorker => "kill -9 of a worker",
            Self::StopWorker => "a worker stopped for three leases",
            Self::StopWorkers => {
                "all workers stopped for five leases, and a pile due when they go on"
            }
            Self::TerminateWorker => "SIGTERM to a worker",
            Self::KillEngine => "kill -9 of the engine",
            Self::StopEngine => "the engine stopped for two leases",
            Self::KillGateway => "kill -9 of the gateway",
            Self::StopGateway => "the gateway stopped for two leases",
            Self::CutRequest => "a connection cut within a request",
            Self::CutReply => "a connection cut within a reply",
            Self::NoReplies => "requests delivered, replies swallowed",
            Self::BlackHole => "no byte passes for two leases",
            Self::Reset => "every connection reset",
            Self::HalfClose => "every connection half closed",
            Self::Slow => "200 ms on the way, unevenly",
            Self::Thin => "four kilobytes per second",
            Self::Drop => "every connection closed, blocked ones too",
            Self::ForgetFunctions => "functions flushed, deleted or replaced by old ones",
            Self::FullMemory => "memory full",
            Self::MoveSlot => "the slot moved to another node under load",
            Self::FailOver => "the master lost, a replica takes over",
            Self::OutrunReplicas => {
                "the master lost with jobs that it alone has, a replica takes over"
            }
            Self::CutPower => {
                "power cut: the engine killed, its files cut back towards what was synced"
            }
            Self::SlowSync => "a second per sync",
            Self::FailSync => "a sync fails",
            Self::FullDisk => "disk full",
            Self::LeaveMaster => {
                "the master stopped, replaced, and back with what it had been sent"
            }
            Self::NewerFunctions => "functions of a newer program beside older programs",
            Self::ClockAhead => "the engine's clock steps ahead by up to two seconds",
            Self::ClockBack => "the engine's clock reads 5 s, an hour or a day less",
            Self::Empty => "the data emptied",
            Self::EmptyDisk => "the data gone after a restart",
            Self::OtherDatabase => "another, empty database where the data were",
            Self::Drip => "rogue clients at the gateway, whose heads come byte by byte",
            Self::TakeNothing => "rogue clients at the gateway, who ask and take no answer",
            Self::KillRelay => "kill -9 of a relay",
            Self::StopRelay => "a relay stopped until another takes what it had",
            Self::TerminateRelay => "SIGTERM to a relay",
            Self::KillSource => "kill -9 of the server that relays take from",
            Self::ClientClock => {
                "the clocks of producers and workers are off by 5 s, an hour or a day"
            }
        }
    }
}

#[cfg(test)]
mod tests;
