//! The contract: shares, the keys whose jobs take turns, with their weights and limits.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Rate;
use super::limited::check_concurrency;
use crate::error::{Error, ErrorKind, Result};
use crate::job::check_key;
use crate::time::{Timestamp, days};

/// The largest weight of a share.
pub const WEIGHT_MAX: u32 = 1_000;
/// The largest `max_pending` of a share.
pub const SHARE_PENDING_MAX: u64 = 1_000_000;
/// The most shares of a queue that have a weight of their own.
pub const WEIGHTS_MAX: usize = 1_000;
/// The most shares of a queue that are blocked at one time.
pub const BLOCKED_SHARES_MAX: u64 = 10_000;
/// The longest time for which one call blocks a share.
pub const BLOCK_MAX: Duration = days(365);
/// The most shares of one queue that statistics answer.
pub const TOP_SHARES_MAX: usize = 100;

/// A share of which no job starts, until an instant or until it is resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BlockedShare {
    /// Its key.
    pub share: String,
    /// When time opens it; `None` while it is paused.
    pub until: Option<Timestamp>,
}

impl BlockedShare {
    /// A share that is blocked until an instant, or paused.
    pub fn new(share: impl Into<String>, until: Option<Timestamp>) -> Self {
        Self {
            share: share.into(),
            until,
        }
    }
}

/// Settings of the shares of a queue: the limits of each, and weights.
///
/// ```
/// use punctual::engine::{Rate, ShareSettings};
/// use punctual::time::seconds;
///
/// let shares = ShareSettings::new()
///     .concurrency(4)
///     .rate(Rate::smooth(10, seconds(1)))
///     .weight("acme", 5);
/// assert!(shares.check().is_ok());
/// assert_eq!((shares.weight_of("acme"), shares.weight_of("any other")), (5, 1));
/// assert!(ShareSettings::new().weight("acme", 0).check().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ShareSettings {
    /// Jobs of one share that may be active at once; `None` for any number.
    #[serde(default)]
    pub concurrency: Option<u64>,
    /// Jobs of one share that may start in a span of time; `None` for any number.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// Weights of shares by key, in order; every other share has the weight 1.
    #[serde(default)]
    pub weights: Vec<(String, u32)>,
    /// Held, scheduled and ready jobs that one share may have; `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pending: Option<u64>,
}

impl ShareSettings {
    /// No limits, and the same weight for all.
    pub const fn new() -> Self {
        Self {
            concurrency: None,
            rate: None,
            weights: Vec::new(),
            max_pending: None,
        }
    }

    /// Sets how many jobs of one share may be active at once, 1 to 1,000,000.
    #[must_use]
    pub const fn concurrency(mut self, jobs: u64) -> Self {
        self.concurrency = Some(jobs);
        self
    }

    /// Sets how many jobs of one share may start in a span of time.
    #[must_use]
    pub const fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Sets how many held, scheduled and ready jobs one share may have, 1 to 1,000,000. One more is
    /// refused ([`ShareFull`](crate::engine::EnqueueVerdict::ShareFull)).
    #[must_use]
    pub const fn max_pending(mut self, jobs: u64) -> Self {
        self.max_pending = Some(jobs);
        self
    }

    /// Sets the weight of a share, 1 to 1,000: it gets that many turns for one of a share without.
    #[must_use]
    pub fn weight(mut self, share: impl Into<String>, weight: u32) -> Self {
        let share = share.into();
        match self.find(&share) {
            Ok(at) => self.weights[at].1 = weight,
            Err(at) => self.weights.insert(at, (share, weight)),
        }
        self
    }

    /// The weight of a share.
    pub fn weight_of(&self, share: &str) -> u32 {
        self.find(share).map_or(1, |at| self.weights[at].1)
    }

    fn find(&self, share: &str) -> std::result::Result<usize, usize> {
        self.weights
            .binary_search_by(|(key, _)| key.as_str().cmp(share))
    }

    /// Whether it limits what may start.
    pub const fn has_limits(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }

    /// Checks the bounds; every engine does.
    ///
    /// # Errors
    /// `invalid_input`, with what to use instead.
    pub fn check(&self) -> Result<()> {
        self.concurrency.map_or(Ok(()), check_concurrency)?;
        self.rate.map_or(Ok(()), |rate| rate.check())?;
        if let Some(jobs) = self.max_pending
            && !(1..=SHARE_PENDING_MAX).contains(&jobs)
        {
            let message = "max_pending of a share is out of range; use 1 to 1,000,000, or none";
            let error = Error::new(ErrorKind::InvalidInput, message);
            return Err(error.with("max_pending", jobs));
        }
        if self.weights.len() > WEIGHTS_MAX {
            let message = "too many shares have a weight; use at most 1,000";
            let error = Error::new(ErrorKind::InvalidInput, message);
            return Err(error.with("weights", self.weights.len()));
        }
        for (share, weight) in &self.weights {
            check_key("share", share)?;
            if !(1..=WEIGHT_MAX).contains(weight) {
                let message = "weight is out of range; use 1 to 1,000";
                let error = Error::new(ErrorKind::InvalidInput, message);
                return Err(error.with("share", share).with("weight", weight));
            }
        }
        if !self.weights.is_sorted_by(|one, next| one.0 < next.0) {
            let message = "weights are not in the order of their shares, or name one twice; name \
                           each share once, in order";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(())
    }
}

/// Which limit of a share lets none of its jobs start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ClosedShare {
    /// As many of its jobs are active as may be.
    Concurrency,
    /// As many have started as may in the span.
    Rate,
    /// A caller blocked it for a while.
    Blocked,
    /// A caller paused it, until it is resumed.
    Paused,
}

impl ClosedShare {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Rate => "rate",
            Self::Blocked => "blocked",
            Self::Paused => "paused",
        }
    }
}

impl fmt::Display for ClosedShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A share of a queue and how it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ShareStats {
    /// Its key.
    pub share: String,
    /// Its ready jobs; those of a serial group that wait behind its first one are not counted.
    pub ready: u64,
    /// Its active jobs.
    pub active: u64,
    /// Its weight.
    pub weight: u32,
    /// Which limit keeps its jobs from starting.
    pub closed: Option<ClosedShare>,
    /// When time opens that limit.
    pub opens_at: Option<Timestamp>,
}

impl ShareStats {
    /// A share of weight 1 with so many jobs, which nothing keeps from starting.
    pub fn new(share: impl Into<String>, ready: u64, active: u64) -> Self {
        Self {
            share: share.into(),
            ready,
            active,
            weight: 1,
            closed: None,
            opens_at: None,
        }
    }
}
