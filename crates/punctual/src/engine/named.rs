//! The contract: named limits, which hold over the jobs of any number of queues.

use serde::{Deserialize, Serialize};

use super::limited::check_concurrency;
use super::{ClosedShare, Rate};
use crate::error::{Error, ErrorKind, Result};
use crate::time::Timestamp;

/// Records whose name begins so are the settings of named limits.
pub const LIMIT_PREFIX: &str = "limit/";
/// The most named limits of a namespace that have settings of their own.
pub const LIMIT_RECORDS_MAX: usize = 10_000;
/// The most named limits of a namespace that are blocked at one time.
pub const BLOCKED_LIMITS_MAX: usize = 10_000;

/// The most jobs that may be active at once by a limit that cancels running ones.
pub const CANCELLING_MAX: u64 = 64;

/// What becomes of a new job that is due at once while the concurrency of its limit is fully taken.
///
/// Only active jobs take a concurrency: jobs that are ready, and have not started, do not. What
/// holds is the instant of the enqueue. A delayed job waits, and so does one that waits for names
/// or other jobs, an effect, a run of a schedule, an import, and a job that is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WhenFull {
    /// It waits.
    #[default]
    Wait,
    /// It is not stored: [`EnqueueVerdict::LimitFull`](super::EnqueueVerdict::LimitFull).
    Refuse,
    /// It waits, and the job of the limit that started first, of those that started since the
    /// settings say so and were not asked to stop yet, is asked to stop.
    CancelRunning,
}

impl WhenFull {
    /// Every one, in the order of their numbers on the wire.
    pub const ALL: [Self; 3] = [Self::Wait, Self::Refuse, Self::CancelRunning];

    /// The name on the wire, in the shell and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Refuse => "refuse",
            Self::CancelRunning => "cancel_running",
        }
    }

    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_wait(&self) -> bool {
        *self == Self::Wait
    }
}

/// What a named limit lets start, over all queues of its namespace.
///
/// ```
/// use punctual::engine::{LimitSettings, Rate};
/// use punctual::time::minutes;
///
/// let settings = LimitSettings::new().concurrency(4).rate(Rate::window(100, minutes(1)));
/// assert!(settings.check().is_ok());
/// assert!(LimitSettings::new().check().is_err(), "it would limit nothing");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LimitSettings {
    /// Jobs with the limit that may be active at once; `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// Units that may start in a span of time: each job counts as many as it costs; `None` for any
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// What becomes of a new job while the concurrency is fully taken.
    #[serde(default, skip_serializing_if = "WhenFull::is_wait")]
    pub when_full: WhenFull,
}

impl LimitSettings {
    /// Settings that limit nothing; name a concurrency or a rate.
    pub const fn new() -> Self {
        Self {
            concurrency: None,
            rate: None,
            when_full: WhenFull::Wait,
        }
    }

    /// Sets how many jobs with the limit may be active at once, 1 to 1,000,000.
    #[must_use]
    pub const fn concurrency(mut self, jobs: u64) -> Self {
        self.concurrency = Some(jobs);
        self
    }

    /// Sets how many units may start in a span of time.
    #[must_use]
    pub const fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Sets what becomes of a new job while the concurrency is fully taken.
    #[must_use]
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Checks the bounds; every engine does.
    ///
    /// # Errors
    /// `invalid_input`, with what to use instead.
    pub fn check(&self) -> Result<()> {
        if self.concurrency.is_none() && self.rate.is_none() {
            let message = "limit has no bound; name a concurrency or a rate, or remove the limit";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        self.concurrency.map_or(Ok(()), check_concurrency)?;
        let most = match self.when_full {
            WhenFull::CancelRunning => CANCELLING_MAX,
            WhenFull::Refuse | WhenFull::Wait => u64::MAX,
        };
        if !self.when_full.is_wait() && self.concurrency.is_none_or(|jobs| jobs > most) {
            let message = "`when_full` needs a concurrency: any to refuse, at most 64 to cancel \
                           running jobs";
            let error = Error::new(ErrorKind::InvalidInput, message);
            return Err(error.with("when_full", self.when_full.name()));
        }
        self.rate.map_or(Ok(()), |rate| rate.check())
    }
}

/// The name whose settings hold for each key of it: what comes before the first colon.
///
/// ```
/// use punctual::engine::limit_family;
///
/// assert_eq!(limit_family("smtp:gmail.com"), Some("smtp"));
/// assert_eq!(limit_family("smtp"), None);
/// ```
pub fn limit_family(name: &str) -> Option<&str> {
    name.split_once(':').map(|(family, _)| family)
}

/// A named limit and how it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NamedLimit {
    /// Its name.
    pub name: String,
    /// The settings that hold for it.
    pub settings: Option<LimitSettings>,
    /// The name under which these are kept: its own, or that of its family.
    pub set_by: Option<String>,
    /// Its active jobs.
    pub active: u64,
    /// Ready jobs that it keeps from starting; of a serial group only the first.
    pub waiting: u64,
    /// What of it is closed for a job that costs one unit.
    pub closed: Option<ClosedShare>,
    /// When time opens it.
    pub opens_at: Option<Timestamp>,
}

impl NamedLimit {
    /// A limit without settings, of which no job is active or waits.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            settings: None,
            set_by: None,
            active: 0,
            waiting: 0,
            closed: None,
            opens_at: None,
        }
    }
}
