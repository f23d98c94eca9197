//! The parts of a line that are more than text and numbers.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use punctual::time::{Timestamp, exact_span, parse_span};
use punctual::{Group, Hold, OnRetry, RetryPolicy, Unique, UniquePolicy};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::decode::shown;

/// A span as text, such as `30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&exact_span(self.0))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, "a span such as \"30m\"", |text| {
            parse_span(text)
                .map(Self)
                .map_err(|error| error.to_string())
        })
    }
}

/// An instant as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instant(pub(crate) Timestamp);

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "an instant such as \"2026-11-21T10:00:00Z\"";
        text(deserializer, expected, |text| {
            text.parse()
                .map(Self)
                .map_err(|error: punctual::Error| error.to_string())
        })
    }
}

/// Declares the schema of a text, or of an object, with an example.
macro_rules! schema {
    ($name:ty, $kind:expr, $description:literal, $($example:tt)+) => {
        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let object = ObjectBuilder::new()
                    .schema_type($kind)
                    .description(Some($description))
                    .examples([serde_json::json!($($example)+)]);
                Schema::Object(object.build()).into()
            }
        }
        impl ToSchema for $name {}
    };
}
schema!(
    Span,
    Type::String,
    "a number and a unit of d, h, m, s, ms or us",
    "30m"
);
schema!(
    Instant,
    Type::String,
    "RFC 3339, until the year 9999",
    "2026-12-01T08:00:00Z"
);
schema!(Headers, Type::Object, "names and values", {"name": "value"});
schema!(
    HoldLine,
    Type::String,
    "settled, started or a span",
    "settled"
);

/// Reads a text through a function whose error is reported as it is.
fn text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &'static str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Text<F>(&'static str, F);
    impl<T, F: Fn(&str) -> Result<T, String>> Visitor<'_> for Text<F> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            (self.1)(text).map_err(E::custom)
        }
    }
    deserializer.deserialize_str(Text(expected, read))
}

/// Headers in their order: an object, or pairs where a name repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Headers(pub(super) Vec<(String, String)>);

impl Headers {
    pub(super) fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }
}

impl Serialize for Headers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() == self.0.len() {
            serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
        } else {
            serializer.collect_seq(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Headers;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("headers such as {\"name\":\"value\"} or [[\"name\",\"value\"]]")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Headers(pairs))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Headers, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = seq.next_element()? {
                    pairs.push(pair);
                }
                Ok(Headers(pairs))
            }
        }
        deserializer.deserialize_any(Pairs)
    }
}

/// A unique key: only the key, or with its policy and how long it is held.
/// A unique key, alone or with its rules: as a text, policy `keep`, held until the job settles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "unique is a key, or {\"key\", \"policy\": \"keep\"|\"replace\"|\"after\"|\"refresh\", \"hold\": \"settled\"|\"started\"|a span, \"max_wait\": a span, with refresh}"
)]
pub(crate) enum UniqueLine {
    Key(String),
    Whole {
        key: String,
        #[serde(default)]
        policy: PolicyLine,
        #[serde(default)]
        hold: HoldLine,
        /// Only with `refresh`, which needs it: how long after the first the job runs at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_wait: Option<Span>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PolicyLine {
    #[default]
    Keep,
    Replace,
    After,
    Refresh,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HoldLine(pub(super) Hold);

impl Serialize for HoldLine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Hold::UntilSettled => serializer.serialize_str("settled"),
            Hold::UntilStarted => serializer.serialize_str("started"),
            Hold::For(span) => serializer.serialize_str(&exact_span(span)),
        }
    }
}

impl<'de> Deserialize<'de> for HoldLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, "settled, started or a span", |text| {
            hold_of(text).map(Self)
        })
    }
}

/// Reads `settled`, `started` or a span.
pub fn hold_of(text: &str) -> Result<Hold, String> {
    match text {
        "settled" => Ok(Hold::UntilSettled),
        "started" => Ok(Hold::UntilStarted),
        span => parse_span(span).map(Hold::For).map_err(|_| {
            let text = shown(text);
            format!("\"{text}\" is not settled, started or a span such as 30m")
        }),
    }
}

impl UniqueLine {
    pub(super) fn into_unique(self) -> Result<Unique, String> {
        let (key, policy, hold, max_wait) = match self {
            Self::Key(key) => return Ok(Unique::new(key)),
            Self::Whole {
                key,
                policy,
                hold,
                max_wait,
            } => (key, policy, hold, max_wait),
        };
        let policy = match (policy, max_wait) {
            (PolicyLine::Refresh, Some(Span(max_wait))) => UniquePolicy::Refresh { max_wait },
            (PolicyLine::Refresh, None) => {
                return Err("has the unique policy `refresh` without `max_wait`; add it".into());
            }
            (_, Some(_)) => {
                return Err("has a `max_wait` that only the unique policy `refresh` uses".into());
            }
            (PolicyLine::Keep, None) => UniquePolicy::Keep,
            (PolicyLine::Replace, None) => UniquePolicy::Replace,
            (PolicyLine::After, None) => UniquePolicy::After,
        };
        Ok(Unique::new(key).policy(policy).hold(hold.0))
    }
}

impl From<&Unique> for UniqueLine {
    fn from(unique: &Unique) -> Self {
        if unique.policy == UniquePolicy::Keep && unique.hold == Hold::UntilSettled {
            return Self::Key(unique.key.clone());
        }
        let (policy, max_wait) = match unique.policy {
            UniquePolicy::Keep => (PolicyLine::Keep, None),
            UniquePolicy::Replace => (PolicyLine::Replace, None),
            UniquePolicy::After => (PolicyLine::After, None),
            UniquePolicy::Refresh { max_wait } => (PolicyLine::Refresh, Some(Span(max_wait))),
        };
        Self::Whole {
            key: unique.key.clone(),
            policy,
            hold: HoldLine(unique.hold),
            max_wait,
        }
    }
}

/// A serial group: only the key, or with what a retry does to the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "group is a key, or {\"key\", \"on_retry\": \"hold\"|\"pass\"}"
)]
pub(crate) enum GroupLine {
    Key(String),
    Whole {
        key: String,
        #[serde(default)]
        on_retry: OnRetryLine,
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnRetryLine {
    #[default]
    Hold,
    Pass,
}

impl GroupLine {
    pub(super) fn into_group(self) -> Group {
        match self {
            Self::Key(key) => Group::new(key).on_retry(OnRetry::Hold),
            Self::Whole { key, on_retry } => Group::new(key).on_retry(match on_retry {
                OnRetryLine::Hold => OnRetry::Hold,
                OnRetryLine::Pass => OnRetry::Pass,
            }),
        }
    }
}

impl From<&Group> for GroupLine {
    fn from(group: &Group) -> Self {
        match group.on_retry {
            OnRetry::Hold => Self::Key(group.key.clone()),
            OnRetry::Pass => Self::Whole {
                key: group.key.clone(),
                on_retry: OnRetryLine::Pass,
            },
        }
    }
}

/// A retry policy, by its `policy`. Without one a job has `exponential` from 1 s, doubling up to an
/// hour, with jitter. Jitter draws each wait evenly between zero and the whole of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "policy", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RetryLine {
    /// The first wait is `base`; each further one is `factor` times the one before, at most `cap`.
    Exponential {
        base: SpanLine,
        #[schema(minimum = 1, maximum = 100)]
        factor: f64,
        cap: SpanLine,
        jitter: bool,
    },
    /// Each wait is `span`.
    Fixed { span: SpanLine, jitter: bool },
    /// The n-th wait is n times `base`, at most `cap`.
    Linear {
        base: SpanLine,
        cap: SpanLine,
        jitter: bool,
    },
    /// The n-th wait is the n-th span; the last span is used again. It is never jittered.
    List { spans: Vec<SpanLine> },
}

/// A span inside a policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub(crate) struct SpanLine(Span);

impl RetryLine {
    pub(super) fn into_policy(self) -> RetryPolicy {
        let span = |line: SpanLine| line.0.0;
        match self {
            Self::Exponential {
                base,
                factor,
                cap,
                jitter,
            } => RetryPolicy::Exponential {
                base: span(base),
                factor,
                cap: span(cap),
                jitter,
            },
            Self::Fixed { span: s, jitter } => RetryPolicy::Fixed {
                span: span(s),
                jitter,
            },
            Self::Linear { base, cap, jitter } => RetryPolicy::Linear {
                base: span(base),
                cap: span(cap),
                jitter,
            },
            Self::List { spans } => RetryPolicy::List(spans.into_iter().map(span).collect()),
        }
    }

    /// The line of a policy; `None` for one of a later version that has no name here.
    pub(crate) fn of(policy: &RetryPolicy) -> Option<Self> {
        let line = |span: &Duration| SpanLine(Span(*span));
        Some(match policy {
            RetryPolicy::Exponential {
                base,
                factor,
                cap,
                jitter,
            } => Self::Exponential {
                base: line(base),
                factor: *factor,
                cap: line(cap),
                jitter: *jitter,
            },
            RetryPolicy::Fixed { span, jitter } => Self::Fixed {
                span: line(span),
                jitter: *jitter,
            },
            RetryPolicy::Linear { base, cap, jitter } => Self::Linear {
                base: line(base),
                cap: line(cap),
                jitter: *jitter,
            },
            RetryPolicy::List(spans) => Self::List {
                spans: spans.iter().map(line).collect(),
            },
            _ => return None,
        })
    }
}

/// Bytes as base64.
pub fn base64_of(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// The bytes of base64, if it is that.
pub(crate) fn bytes_of_base64(text: &str) -> Option<Bytes> {
    BASE64_STANDARD.decode(text).ok().map(Bytes::from)
}
