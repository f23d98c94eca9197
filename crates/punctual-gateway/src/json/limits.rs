//! The limits of a queue as JSON: what a `PUT` sends, and how they stand.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use punctual::engine::{LimitStats, QueueSettings, Rate, ShareSettings, ShareStats};
use punctual::time::{exact_span, parse_span};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
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
pub(crate) struct RateRequest {
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
    /// Limits of each share, and weights.
    #[serde(default, deserialize_with = "object")]
    shares: Option<SharesRequest>,
}

/// An object; serde alone would take a list of its fields, too.
pub(crate) fn object<'de, D, T>(from: D) -> std::result::Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: DeserializeOwned,
{
    struct Object<T>(PhantomData<T>);
    impl<'de, T: DeserializeOwned> Visitor<'de> for Object<T> {
        type Value = Option<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_unit<E>(self) -> std::result::Result<Option<T>, E> {
            Ok(None)
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<Option<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }
    from.deserialize_any(Object(PhantomData))
}

/// Settings of the shares of a queue; one that is omitted is none.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SharesRequest {
    /// Jobs of one share that may be active at once, 1 to 1,000,000.
    #[schema(minimum = 1, maximum = 1_000_000)]
    concurrency: Option<u64>,
    rate: Option<RateRequest>,
    /// Held, scheduled and ready jobs that one share may have, 1 to 1,000,000; one more is refused
    /// (`share_full`).
    #[schema(minimum = 1, maximum = 1_000_000)]
    max_pending: Option<u64>,
    /// Weights by share, 1 to 1,000; every other share has 1. At most 1,000.
    #[serde(default)]
    weights: BTreeMap<String, u32>,
}

impl SharesRequest {
    fn settings(&self) -> Result<ShareSettings> {
        let mut shares = ShareSettings::new();
        (shares.concurrency, shares.max_pending) = (self.concurrency, self.max_pending);
        shares.rate = self.rate.as_ref().map(RateRequest::rate).transpose()?;
        let weights = self.weights.iter();
        shares.weights = weights
            .map(|(share, weight)| (share.clone(), *weight))
            .collect();
        Ok(shares)
    }
}

impl LimitsRequest {
    /// The settings with these limits.
    pub(crate) fn set(&self, mut settings: QueueSettings) -> Result<QueueSettings> {
        settings.concurrency = self.concurrency;
        settings.rate = self.rate.as_ref().map(RateRequest::rate).transpose()?;
        let shares = self.shares.as_ref().map(SharesRequest::settings);
        Ok(settings.shares(shares.transpose()?.unwrap_or_default()))
    }
}

impl RateRequest {
    pub(crate) fn rate(&self) -> Result<Rate> {
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

/// Settings of the shares of a queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Shares)]
#[serde(deny_unknown_fields)]
pub(crate) struct SharesLine {
    /// Jobs of one share that may be active at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concurrency: Option<u64>,
    /// How many of one share may start in a span of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<RateLine>,
    /// Held, scheduled and ready jobs that one share may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_pending: Option<u64>,
    /// Weights by share; every other share has 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    weights: BTreeMap<String, u32>,
}

impl From<&ShareSettings> for SharesLine {
    fn from(shares: &ShareSettings) -> Self {
        Self {
            concurrency: shares.concurrency,
            rate: shares.rate.as_ref().map(Into::into),
            max_pending: shares.max_pending,
            weights: shares.weights.iter().cloned().collect(),
        }
    }
}

/// The settings of a line.
pub(crate) fn shares_of(line: SharesLine) -> Result<ShareSettings> {
    let mut shares = ShareSettings::new();
    (shares.concurrency, shares.max_pending) = (line.concurrency, line.max_pending);
    shares.rate = line.rate.as_ref().map(rate_of).transpose()?;
    shares.weights = line.weights.into_iter().collect();
    Ok(shares)
}

/// A share of a queue and how it stands.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Share)]
pub(crate) struct ShareLine {
    share: String,
    /// Ready jobs; those of a serial group that wait behind its first one are not counted.
    ready: u64,
    active: u64,
    weight: u32,
    /// Which limit lets none of its jobs start: `concurrency`, `rate`, `blocked` or `paused`.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<&'static str>,
    /// When time opens it.
    #[serde(skip_serializing_if = "Option::is_none")]
    opens_at: Option<String>,
}

impl From<&ShareStats> for ShareLine {
    fn from(share: &ShareStats) -> Self {
        Self {
            share: share.share.clone(),
            ready: share.ready,
            active: share.active,
            weight: share.weight,
            closed: share.closed.map(|closed| closed.name()),
            opens_at: share.opens_at.map(|at| at.to_string()),
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
