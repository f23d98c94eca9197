//! Named limits as JSON.

use punctual::engine::{LimitSettings, NamedLimit};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::limits::{RateLine, RateRequest, object, rate_of};
use crate::http::Result;

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
}

impl NamedLimitRequest {
    pub(crate) fn settings(&self) -> Result<LimitSettings> {
        let mut settings = LimitSettings::new();
        settings.concurrency = self.concurrency;
        settings.rate = self.rate.as_ref().map(RateRequest::rate).transpose()?;
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
}

impl LimitOf {
    pub(crate) fn settings(&self) -> Result<LimitSettings> {
        let mut settings = LimitSettings::new();
        settings.concurrency = self.concurrency;
        settings.rate = self.rate.as_ref().map(rate_of).transpose()?;
        Ok(settings)
    }
}

impl From<&LimitSettings> for LimitOf {
    fn from(settings: &LimitSettings) -> Self {
        Self {
            concurrency: settings.concurrency,
            rate: settings.rate.as_ref().map(Into::into),
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
            set_by: limit.set_by.clone(),
            active: limit.active,
            waiting: limit.waiting,
            closed: limit.closed.map(|closed| closed.name()),
            opens_at: limit.opens_at.map(|at| at.to_string()),
        }
    }
}
