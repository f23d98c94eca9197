//! The contract: the settings of a queue.

use serde::{Deserialize, Serialize};

use super::limited::check_concurrency;
use super::{Rate, ShareSettings};
use crate::error::Result;

/// The settings of a queue: its bounds and limits.
///
/// ```
/// use punctual::engine::{QueueSettings, Rate};
/// use punctual::time::minutes;
///
/// let settings = QueueSettings::new()
///     .max_pending(10_000)
///     .concurrency(50)
///     .rate(Rate::window(1_000, minutes(1)));
/// assert!(settings.check().is_ok() && settings.has_limits());
/// assert!(settings.clone().concurrency(0).check().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueueSettings {
    /// Held, scheduled and ready jobs it may have; `None` for no bound of its own.
    pub max_pending: Option<u64>,
    /// What happens to an enqueue over that.
    pub on_full: OnFull,
    /// Jobs that may be active at once, over all workers; `None` for any number.
    #[serde(default)]
    pub concurrency: Option<u64>,
    /// Jobs that may start in a span of time; `None` for any number.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// The settings of each of its shares; `None` for no limits and equal weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Box<ShareSettings>>,
}

impl QueueSettings {
    /// Settings that bound nothing.
    pub const fn new() -> Self {
        Self {
            max_pending: None,
            on_full: OnFull::Refuse,
            concurrency: None,
            rate: None,
            shares: None,
        }
    }

    /// Sets how many held, scheduled and ready jobs it may have.
    #[must_use]
    pub const fn max_pending(mut self, jobs: u64) -> Self {
        self.max_pending = Some(jobs);
        self
    }

    /// Sets what happens to an enqueue over that.
    #[must_use]
    pub const fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }

    /// Sets how many jobs may be active at once, 1 to 1,000,000.
    #[must_use]
    pub const fn concurrency(mut self, jobs: u64) -> Self {
        self.concurrency = Some(jobs);
        self
    }

    /// Sets how many jobs may start in a span of time.
    #[must_use]
    pub const fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Sets the limits of each share, and the weights of some.
    #[must_use]
    pub fn shares(mut self, shares: ShareSettings) -> Self {
        self.shares = (shares != ShareSettings::new()).then(|| Box::new(shares));
        self
    }

    /// Whether it limits what is claimed of the whole queue.
    pub const fn has_limits(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }

    /// Checks the bounds of its limits; every engine does.
    ///
    /// # Errors
    /// `invalid_input`, with what to use instead.
    pub fn check(&self) -> Result<()> {
        self.concurrency.map_or(Ok(()), check_concurrency)?;
        self.rate.map_or(Ok(()), |rate| rate.check())?;
        self.shares.as_ref().map_or(Ok(()), |shares| shares.check())
    }
}

/// What happens to an enqueue into a full queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OnFull {
    /// It is refused (`full`).
    #[default]
    Refuse,
    /// The oldest pending job becomes `dead: overflow`: the next in line of the last priority that
    /// a claim could take from, else the scheduled one with the earliest due, else the first in
    /// line of a group that is kept back; held jobs never.
    DeadLetterOldest,
}
