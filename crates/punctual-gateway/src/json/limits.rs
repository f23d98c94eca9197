//! The limits of a queue as JSON: what a `PUT` sends, and how they stand.

use punctual::engine::{LimitStats, QueueSettings, Rate};
use punctual::time::{exact_span, parse_span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::{Problem, Result};
use crate::job_json::SpanText;

/// How a rate lets jobs start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum RateKind {
    /// At most `starts` in any span of length `per`.
    Window,
    /// One each `per / starts`, and `burst` more after a quiet time.
    Smooth,
}

/// How many jobs may start in a span of time.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RateRequest {
    /// `window` if omitted.
    kind: Option<RateKind>,
    /// 1 to 1,000,000.
    #[schema(minimum = 1, maximum = 1_000_000)]
    starts: u64,
    /// 1ms to 365d.
    per: SpanText,
    /// Of a smooth rate: starts that may come early, at most `starts`; a tenth of it if omitted.
    #[schema(maximum = 1_000_000)]
    burst: Option<u64>,
}

/// Limits to set; one that is omitted is none.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsRequest {
    /// Jobs that may be active at once, 1 to 1,000,000.
    #[schema(minimum = 1, maximum = 1_000_000)]
    concurrency: Option<u64>,
    rate: Option<RateRequest>,
}

impl LimitsRequest {
    /// The settings with these limits.
    pub(crate) fn set(&self, mut settings: QueueSettings) -> Result<QueueSettings> {
        settings.concurrency = self.concurrency;
        settings.rate = self.rate.as_ref().map(RateRequest::rate).transpose()?;
        Ok(settings)
    }
}

impl RateRequest {
    fn rate(&self) -> Result<Rate> {
        let (starts, per) = (self.starts, self.per.0);
        match (self.kind.unwrap_or(RateKind::Window), self.burst) {
            (RateKind::Window, None) => Ok(Rate::window(starts, per)),
            (RateKind::Window, Some(_)) => Err(Problem::invalid("a window has no burst")
                .hint("omit `burst`, or use the kind smooth")),
            (RateKind::Smooth, None) => Ok(Rate::smooth(starts, per)),
            (RateKind::Smooth, Some(burst)) => Ok(Rate::smooth(starts, per).burst(burst)),
        }
    }
}

/// A rate that is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Rate)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLine {
    kind: RateKind,
    starts: u64,
    per: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
}

/// The rate of a line.
pub(crate) fn rate_of(line: &RateLine) -> Result<Rate> {
    let per = parse_span(&line.per)?;
    Ok(match (line.kind, line.burst) {
        (RateKind::Window, _) => Rate::window(line.starts, per),
        (RateKind::Smooth, None) => Rate::smooth(line.starts, per),
        (RateKind::Smooth, Some(burst)) => Rate::smooth(line.starts, per).burst(burst),
    })
}

impl From<&Rate> for RateLine {
    fn from(rate: &Rate) -> Self {
        let (kind, burst) = match rate {
            Rate::Smooth { burst, .. } => (RateKind::Smooth, Some(*burst)),
            _ => (RateKind::Window, None),
        };
        Self {
            kind,
            starts: rate.starts(),
            per: exact_span(rate.per()),
            burst,
        }
    }
}

/// The limits of a queue and how they stand.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = Limits)]
pub(crate) struct LimitsLine {
    /// Jobs that may be active at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<u64>,
    /// How many may start in a span of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<RateLine>,
    /// Which limit lets nothing start now: `concurrency` or `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<&'static str>,
    /// When a rate that is used up lets the next job start.
    #[serde(skip_serializing_if = "Option::is_none")]
    opens_at: Option<String>,
    /// How long the oldest due job waits at a closed limit. It is not late meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_ms: Option<u64>,
}

impl From<&LimitStats> for LimitsLine {
    fn from(limits: &LimitStats) -> Self {
        Self {
            concurrency: limits.concurrency,
            rate: limits.rate.as_ref().map(Into::into),
            closed: limits.closed.map(|closed| closed.name()),
            opens_at: limits.opens_at.map(|at| at.to_string()),
            waits_ms: limits.waits.map(|span| span.as_millis() as u64),
        }
    }
}
