//! What a round asks of its processes: one file beside the histories.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::address;
use crate::relayed::Places;
use crate::scripted_outcome::Mix;
use crate::sink::SinkAddress;

/// The queues that every round uses.
pub(crate) const QUEUES: [&str; 5] = ["orders", "mail", "parcels", "reports", "uploads"];

/// Leases are short, so that what waits for their end is seen soon.
pub(crate) const LEASE_DURATION: Duration = punctual::time::seconds(1);

/// A round as its processes see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Setting {
    /// The folder of the round.
    pub(crate) round: PathBuf,
    /// The engine's address.
    pub(crate) engine: String,
    /// Where effects are written.
    pub(crate) sink: SinkAddress,
    /// What jobs are made.
    pub(crate) mix: Mix,
    /// Jobs that a producer sends in one call, at most.
    pub(crate) batch: usize,
    /// Calls of a producer per second, at most.
    pub(crate) rate: u32,
    /// Jobs that may stand ready before producers wait, so that what is behind catches up.
    pub(crate) ahead: u64,
    /// Producers and workers of a process that has its own engine.
    pub(crate) solo: (usize, usize),
    /// Handlers at the same time per worker.
    pub(crate) slots: usize,
    /// How long before a power cut, or a kill of Redis, a job was acknowledged, at most, that may
    /// be lost by it, but for syncs, where the engine says so.
    #[serde(default)]
    pub(crate) loses_at_most: Option<Duration>,
    /// Whether what was acknowledged may be lost at all.
    #[serde(default)]
    pub(crate) may_lose: bool,
    /// Quiet periods that its plan has, in which nothing is broken and a worker is to claim.
    #[serde(default)]
    pub(crate) quiet_periods: u64,
    /// Whether flows are sent, too.
    #[serde(default)]
    pub(crate) flows: bool,
    /// Whether queues with limits are kept full, too.
    #[serde(default)]
    pub(crate) limits: bool,
    /// Where messages are sent that relays take, if any are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) relayed: Option<Places>,
    /// Whether there are schedules, too.
    #[serde(default)]
    pub(crate) schedules: bool,
    /// Whether the engine may keep the time of another machine.
    #[serde(default)]
    pub(crate) is_elsewhere: bool,
}

/// What is written of it.
pub(crate) const FILE: &str = "setting.json";
const ENOUGH: &str = "enough";

impl Setting {
    pub(crate) fn write(&self) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.round)?;
        let path = self.round.join(FILE);
        fs::write(&path, serde_json::to_vec_pretty(self)?)?;
        Ok(path)
    }

    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// That of a round.
    pub(crate) fn of(round: &Path) -> io::Result<Self> {
        Self::read(&round.join(FILE))
    }

    /// What may be kept once no process reads it any more.
    pub(crate) fn without_password(self) -> Self {
        Self {
            engine: address::hidden(&self.engine),
            ..self
        }
    }

    /// Stops the producers.
    pub(crate) fn say_enough(&self) -> io::Result<()> {
        fs::write(self.round.join(ENOUGH), "")
    }

    /// Whether they were stopped.
    pub(crate) fn is_enough(&self) -> bool {
        self.round.join(ENOUGH).exists()
    }
}
