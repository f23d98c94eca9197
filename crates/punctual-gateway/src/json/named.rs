//! Named limits as JSON.

use punctual::engine::{LimitSettings, NamedLimit, WhenFull};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::limits::{RateLine, RateRequest, object, rate_of};
use crate::http::Result;

/// What becomes of a new job while the concurrency of its limit is fully taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WhenFull)]
pub(crate) enum WhenFullName {
    /// It waits.
    #[default]
    Wait,
    /// It is refused with `limit_full`.
    Refuse,
    /// It waits, and the oldest running job is asked to stop.
    CancelRunning,
}

impl From<WhenFull> for WhenFullName {
    fn from(when_full: WhenFull) -> Self {
        match when_full {
            WhenFull::Refuse => Self::Refuse,
            WhenFull::CancelRunning => Self::CancelRunning,
            _ => Self::Wait,
        }
    }
}

impl From<WhenFullName> for WhenFull {
    fn from(name: WhenFullName) -> Self {
        match name {
            WhenFullName::Wait => Self::Wait,
            WhenFullName::Refuse => Self::Refuse,
            WhenFullName::CancelRunning => Self::CancelRunning,
        }
    }
}

/// The name where it is not the default.
fn unless_wait(when_full: WhenFull) -> Option<WhenFullName> {
    (when_full != WhenFull::Wait).then(|| when_full.into())
}

/// Settings of a named limit; name a concurrency, a rate, or both.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedLimitRequest {
    /// Jobs with the limit that may be active at once, 1 to 1,000,000.
    #[schema(minimum = 1, maximum = 1_000_000)]
    concurrency: Option<u64>,
    /// How many units may start in a span of time; a job takes as many as it costs.
    #[serde(default, deserialize_with = "object")]
    rate: Option<RateRequest>,
    /// What becomes of a new job while the concurrency is fully taken; `wait` by default. It needs
    /// a concurrency, of at most 64 for `cancel_running`.
    #[serde(default)]
    when_full: Option<WhenFullName>,
}

impl NamedLimitRequest {
    pub(crate) fn settings(&self) -> Result<LimitSettings> {
        let mut settings = LimitSettings::new();
        settings.concurrency = self.concurrency;
        settings.rate = self.rate.as_ref().map(RateRequest::rate).transpose()?;
        settings.when_full = self.when_full.unwrap_or_default().into();
        settings.check()?;
        Ok(settings)
    }
}

/// The settings of a named limit in an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitOf {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concurrency: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<RateLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    when_full: Option<WhenFullName>,
}

impl LimitOf {
    pub(crate) fn settings(&self) -> Result<LimitSettings> {
        let mut settings = LimitSettings::new();
        settings.concurrency = self.concurrency;
        settings.rate = self.rate.as_ref().map(rate_of).transpose()?;
        settings.when_full = self.when_full.unwrap_or_default().into();
        Ok(settings)
    }
}

impl From<&LimitSettings> for LimitOf {
    fn from(settings: &LimitSettings) -> Self {
        Self {
            concurrency: settings.concurrency,
            rate: settings.rate.as_ref().map(Into::into),
            when_full: unless_wait(settings.when_full),
        }
    }
}

/// A named limit and how it stands; without `set_by` it has no settings.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = NamedLimit)]
pub(crate) struct NamedLimitLine {
    name: String,
    /// Jobs with it that may be active at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<u64>,
    /// How many units may start in a span of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<RateLine>,
    /// What becomes of new jobs while the concurrency is fully taken; without it they wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    when_full: Option<WhenFullName>,
    /// The name that these settings are of: its own, or what comes before its first colon.
    #[serde(skip_serializing_if = "Option::is_none")]
    set_by: Option<String>,
    active: u64,
    /// Ready jobs that it keeps from starting; of a serial group only the first.
    waiting: u64,
    /// What of it is closed: `concurrency`, `rate` or `blocked`.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<&'static str>,
    /// When time opens it.
    #[serde(skip_serializing_if = "Option::is_none")]
    opens_at: Option<String>,
}

impl From<&NamedLimit> for NamedLimitLine {
    fn from(limit: &NamedLimit) -> Self {
        let settings = limit.settings.unwrap_or_default();
        Self {
            name: limit.name.clone(),
            concurrency: settings.concurrency,
            rate: settings.rate.as_ref().map(Into::into),
            when_full: unless_wait(settings.when_full),
            set_by: limit.set_by.clone(),
            active: limit.active,
            waiting: limit.waiting,
            closed: limit.closed.map(|closed| closed.name()),
            opens_at: limit.opens_at.map(|at| at.to_string()),
        }
    }
}
