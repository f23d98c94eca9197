//! Messages that come in by relays: of which systems, and what one is.

use std::path::{Path, PathBuf};

use punctual::{JobId, JobState};
use serde::{Deserialize, Serialize};

/// The queue of their jobs.
pub(crate) const QUEUE: &str = "relayed";

/// What relays take from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum System {
    /// A list of Redis, with the processing lists that dead consumers left.
    List,
    /// A sorted set of Redis: its scores are instants.
    Zset,
    /// A stream of Redis.
    Stream,
    /// A command that sends each line again until it is answered.
    Lines,
    /// The table of an SQLite database; rows are rolled back, too.
    Outbox,
}

impl System {
    pub(crate) const ALL: [Self; 5] = [
        Self::List,
        Self::Zset,
        Self::Stream,
        Self::Lines,
        Self::Outbox,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Zset => "zset",
            Self::Stream => "stream",
            Self::Lines => "lines",
            Self::Outbox => "outbox",
        }
    }

    /// Whether it is the server that faults hit.
    pub(crate) fn is_on_redis(self) -> bool {
        matches!(self, Self::List | Self::Zset | Self::Stream)
    }

    /// How many relays share it.
    pub(crate) fn relays(self) -> usize {
        match self {
            Self::List | Self::Stream => 2,
            _ => 1,
        }
    }

    /// What its relays are called as processes, before their number.
    pub(crate) fn process(self) -> String {
        format!("{PROCESS}{}", self.name())
    }

    /// The queue of messages that are no jobs.
    pub(crate) fn quarantine(self) -> String {
        format!("relay.{}.refused", self.name())
    }
}

/// How names of processes that are relays begin.
pub(crate) const PROCESS: &str = "relay-";

/// The queues of a run with relays.
pub(crate) fn queues() -> Vec<String> {
    let quarantines = System::ALL.map(System::quarantine);
    [&[QUEUE.to_owned()], &quarantines[..]].concat()
}

/// Where producers send messages, and relays take them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Places {
    /// The server.
    pub(crate) redis: String,
    /// How its keys begin.
    pub(crate) keys: String,
    /// The file of lines.
    pub(crate) lines: PathBuf,
    /// The database; none if there is no program for it.
    pub(crate) outbox: Option<PathBuf>,
}

impl Places {
    pub(crate) fn systems(&self) -> impl Iterator<Item = System> {
        let has_outbox = self.outbox.is_some();
        let all = System::ALL.into_iter();
        all.filter(move |system| has_outbox || *system != System::Outbox)
    }

    pub(crate) fn key(&self, system: System) -> String {
        format!("{}:{}", self.keys, system.name())
    }

    /// A processing list that a consumer left, or with `*` the pattern of all.
    pub(crate) fn processing(&self, consumer: &str) -> String {
        format!("{}:processing:{consumer}", self.key(System::List))
    }
}

/// The file in which the source of lines notes what was answered.
pub(crate) fn answered(lines: &Path) -> PathBuf {
    lines.with_extension("answered")
}

/// How each name of a message begins and ends, so that it is found in whatever was kept of it.
const BEGIN: &str = "relayed:";
const END: char = ';';

/// The name of a message: once in a run.
pub(crate) fn name_of(round: &str, process: &str, system: System, number: u64) -> String {
    format!("{BEGIN}{round}:{process}:{}:{number}{END}", system.name())
}

/// The name of a message in what a job carries.
pub(crate) fn name_in(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let rest = &text[text.find(BEGIN)?..];
    Some(rest[..=rest.find(END)?].to_owned())
}

/// Jobs of messages that are there at the end of a round, and messages that a source kept back.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SeenRelayed {
    pub(crate) jobs: Vec<SeenMessage>,
    /// Names of rows in the outbox's table of refused ones.
    pub(crate) refused_rows: Vec<String>,
}

/// A job in a queue of messages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SeenMessage {
    pub(crate) id: JobId,
    pub(crate) queue: String,
    pub(crate) state: JobState,
    pub(crate) name: Option<String>,
}

#[cfg(test)]
mod tests;
