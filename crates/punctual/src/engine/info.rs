//! The contract: capabilities, durability, health.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Namespace;
use crate::job::Limits;
use crate::time::Timestamp;

/// What an acknowledged change has survived by the time of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Durability {
    /// It is in memory: it ends with the process.
    Memory,
    /// It is with the operating system: it survives a kill, not a power cut.
    Os,
    /// As `Os`, and on disk at most that much later.
    Interval(
        /// The span.
        Duration,
    ),
    /// It is on disk: it survives a power cut.
    Fsync,
    /// It is on that many replicas.
    Replica(
        /// How many.
        u8,
    ),
    /// The operator states it, of a server that does not let the engine check it.
    Stated(
        /// What is stated.
        StatedDurability,
    ),
}

/// What an operator states of a server whose settings cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StatedDurability {
    /// As [`Durability::Os`].
    Os,
    /// As [`Durability::Fsync`].
    Fsync,
}

impl From<StatedDurability> for Durability {
    fn from(stated: StatedDurability) -> Self {
        match stated {
            StatedDurability::Os => Self::Os,
            StatedDurability::Fsync => Self::Fsync,
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Os => f.write_str("os"),
            Self::Interval(span) => write!(f, "interval({})", crate::time::format_span(*span)),
            Self::Fsync => f.write_str("fsync"),
            Self::Replica(n) => write!(f, "replica({n})"),
            Self::Stated(stated) => write!(f, "stated({})", Self::from(*stated)),
        }
    }
}

/// Something an engine can do, as data. Only broker engines may leave one unclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are the documentation of each")]
pub enum Capability {
    Delay,
    Priority,
    UniqueKeep,
    UniqueReplace,
    UniqueAfter,
    Groups,
    HeldJobs,
    Effects,
    Expiry,
    CancelActive,
    Suspects,
    MaxPending,
    EditByFilter,
    ListByState,
    Explain,
    ChangeFeed,
    AwaitSettled,
    History,
    Records,
    Import,
    StrictDueOrder,
    Ends,
    Schedules,
    QueueLimits,
    Flows,
    Debounce,
    Shares,
    Memos,
    Guards,
    NamedLimits,
}

impl Capability {
    /// Every capability.
    pub const ALL: [Self; 30] = [
        Self::Delay,
        Self::Priority,
        Self::UniqueKeep,
        Self::UniqueReplace,
        Self::UniqueAfter,
        Self::Groups,
        Self::HeldJobs,
        Self::Effects,
        Self::Expiry,
        Self::CancelActive,
        Self::Suspects,
        Self::MaxPending,
        Self::EditByFilter,
        Self::ListByState,
        Self::Explain,
        Self::ChangeFeed,
        Self::AwaitSettled,
        Self::History,
        Self::Records,
        Self::Import,
        Self::StrictDueOrder,
        Self::Ends,
        Self::Schedules,
        Self::QueueLimits,
        Self::Flows,
        Self::Debounce,
        Self::Shares,
        Self::Memos,
        Self::Guards,
        Self::NamedLimits,
    ];

    /// The capabilities that an engine with this one has too: schedules, limits and guards are
    /// records, for example.
    ///
    /// ```
    /// use punctual::engine::Capability;
    ///
    /// let of_limits = Capability::QueueLimits.rests_on();
    /// assert!(of_limits.contains(&Capability::Records));
    /// ```
    pub const fn rests_on(self) -> &'static [Self] {
        match self {
            Self::UniqueReplace | Self::UniqueAfter | Self::Debounce => &[Self::UniqueKeep],
            Self::MaxPending | Self::Guards | Self::NamedLimits => &[Self::Records],
            Self::QueueLimits | Self::Shares => &[Self::MaxPending, Self::Records],
            Self::Schedules => &[Self::Delay, Self::Records],
            _ => &[],
        }
    }

    /// Those that need no part which this build lacks: schedules need calendars.
    pub fn of_this_build() -> Vec<Self> {
        let all = Self::ALL.into_iter();
        all.filter(|one| *one != Self::Schedules || cfg!(feature = "schedules"))
            .collect()
    }
}

/// Under a name of its own, serde does not try to borrow it from what it reads.
type Label = &'static str;

/// What an engine is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Info {
    /// Its name, such as `memory` or `embedded`.
    #[serde(deserialize_with = "interned")]
    pub engine: Label,
    /// The version of the crate.
    #[serde(deserialize_with = "interned")]
    pub version: Label,
    /// What it can do, in order.
    pub capabilities: Vec<Capability>,
    /// What every acknowledged change has survived.
    pub durability: Durability,
    /// Its bounds.
    pub limits: Limits,
    /// How long the tombstone of a settled job stays, at most; longer with a `remember`.
    pub settled_window: Duration,
    /// How long a resend is recognised now after its job settled: as long as `settled_window`, or
    /// less while tombstones go early because they have reached [`Limits::tombstone_bytes`].
    #[serde(default)]
    pub resend_window: Duration,
    /// How often the clock jumped since the start: back, or over a gap in which the engine answered
    /// no call.
    pub clock_jumps: u64,
    /// Bytes that the store takes in memory and on disk, where the engine knows.
    pub store_bytes: Option<u64>,
    /// Into how many shards it cuts a namespace, the largest number of those it serves; 1 if it
    /// cuts none.
    #[serde(default = "one")]
    pub shards: u32,
    /// Whether it works as it should.
    pub health: Health,
    /// Engine time.
    pub now: Timestamp,
}

impl Info {
    /// An engine that is well and has every capability, at that instant of its time.
    pub fn new(engine: Label, version: Label, durability: Durability, now: Timestamp) -> Self {
        Self {
            engine,
            version,
            capabilities: Capability::of_this_build(),
            durability,
            limits: Limits::default(),
            settled_window: crate::time::minutes(2),
            resend_window: crate::time::minutes(2),
            clock_jumps: 0,
            store_bytes: None,
            shards: 1,
            health: Health {
                ok: true,
                ..Health::default()
            },
            now,
        }
    }
}

/// What an engine says that knows of no shards.
const fn one() -> u32 {
    1
}

/// Whether an engine works as it should.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Health {
    /// The engine as a whole is in order. Late queues of a namespace do not change this:
    /// [`is_well`](Self::is_well) includes them.
    pub ok: bool,
    /// What is not, of the engine as a whole, in words with the remedy.
    pub problems: Vec<String>,
    /// What is not, of what one namespace has, such as a queue whose due jobs wait although
    /// workers have free slots.
    #[serde(default)]
    pub of_namespaces: Vec<NamespaceProblem>,
    /// The loops of the process, with their heartbeats.
    pub loops: Vec<LoopHealth>,
}

impl Health {
    /// Well if nothing is wrong with the engine itself; nothing is wrong in any namespace.
    pub fn new(problems: Vec<String>, loops: Vec<LoopHealth>) -> Self {
        Self {
            ok: problems.is_empty(),
            problems,
            of_namespaces: Vec::new(),
            loops,
        }
    }

    /// Whether nothing is wrong, neither with the engine nor in any namespace.
    ///
    /// # Examples
    ///
    /// ```
    /// use punctual::engine::{Health, NamespaceProblem};
    ///
    /// let namespace = punctual::Namespace::default();
    /// let mut health = Health::new(Vec::new(), Vec::new());
    /// health.of_namespaces = vec![NamespaceProblem::new(namespace, "queue mail is late")];
    /// assert!(health.ok && !health.is_well());
    /// ```
    pub fn is_well(&self) -> bool {
        self.ok && self.problems.is_empty() && self.of_namespaces.is_empty()
    }

    /// Every problem in words, those of a namespace under its name: for callers that may see all of
    /// them.
    pub fn problem_texts(&self) -> impl Iterator<Item = String> {
        let of_namespaces = self.of_namespaces.iter().map(ToString::to_string);
        self.problems.iter().cloned().chain(of_namespaces)
    }
}

/// What is not in order in one namespace. Its words name queues, so they are for its own tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NamespaceProblem {
    /// Whose it is.
    pub namespace: Namespace,
    /// What is wrong, in words with the remedy; without the namespace.
    pub text: String,
}

impl NamespaceProblem {
    /// What is wrong in that namespace.
    pub fn new(namespace: Namespace, text: impl Into<String>) -> Self {
        Self {
            namespace,
            text: text.into(),
        }
    }
}

impl fmt::Display for NamespaceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "namespace {}: {}", self.namespace, self.text)
    }
}

/// What is wrong, in words, where resends are recognised for less than the settled window.
///
/// # Examples
///
/// ```
/// use punctual::engine::resend_problem;
/// use punctual::time::{minutes, seconds};
///
/// assert_eq!(resend_problem(minutes(2), minutes(2)), None);
/// let problem = resend_problem(seconds(3), minutes(2)).unwrap();
/// assert!(problem.contains("recognised for 3s, not 2m"), "{problem}");
/// ```
pub fn resend_problem(held: Duration, window: Duration) -> Option<String> {
    use crate::time::format_span;
    let (short, long) = (format_span(held), format_span(window));
    (held < window).then(|| {
        format!(
            "a resend is recognised for {short}, not {long}, after its job settled, because tombstones \
             have reached their bound in bytes; send jobs that may be resent later with `remember`, \
             or fewer jobs at a time"
        )
    })
}

/// The heartbeat of one supervised loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoopHealth {
    /// Its name.
    pub name: String,
    /// How long ago it last went round.
    pub age: Duration,
    /// How often it was started again after a failure.
    pub restarts: u64,
}

impl LoopHealth {
    /// A loop whose last round began so long ago.
    pub fn new(name: impl Into<String>, age: Duration, restarts: u64) -> Self {
        Self {
            name: name.into(),
            age,
            restarts,
        }
    }
}

fn interned<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    String::deserialize(deserializer).map(|text| crate::error::interned(&text))
}
