//! A job's unique key, group and retry policy as JSON: a text, or an object with rules.
//!
//! An error inside an object names the field at fault, which serde's own readers of untagged and
//! tagged enums do not.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use punctual::time::{exact_span, parse_span};
use punctual::{Group, Hold, OnRetry, RetryPolicy, Unique, UniquePolicy};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::fields::{Span, text};
use crate::decode::shown;

/// Reads a text, or an object of a shape.
pub(crate) fn text_or_object<'de, D, T, O>(from: D, expected: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<String> + From<O>,
    O: Deserialize<'de>,
{
    struct Either<T, O>(&'static str, PhantomData<(T, O)>);
    impl<'de, T: From<String> + From<O>, O: Deserialize<'de>> Visitor<'de> for Either<T, O> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            Ok(text.to_owned().into())
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            O::deserialize(MapAccessDeserializer::new(map)).map(Into::into)
        }
    }
    from.deserialize_any(Either(expected, PhantomData::<(T, O)>))
}

/// A unique key, alone or with its rules: as a text, policy `keep`, held until the job settles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
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

/// What becomes of a job whose unique key another one holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(default = "keep")]
pub(crate) enum PolicyLine {
    #[default]
    Keep,
    Replace,
    After,
    Refresh,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HoldLine(Hold);

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
    pub(in crate::job_json) fn into_unique(self) -> Result<Unique, String> {
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

/// The object of [`UniqueLine`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UniqueObject {
    key: String,
    #[serde(default)]
    policy: PolicyLine,
    #[serde(default)]
    hold: HoldLine,
    max_wait: Option<Span>,
}

impl From<String> for UniqueLine {
    fn from(key: String) -> Self {
        Self::Key(key)
    }
}

impl From<UniqueObject> for UniqueLine {
    fn from(object: UniqueObject) -> Self {
        let UniqueObject {
            key,
            policy,
            hold,
            max_wait,
        } = object;
        Self::Whole {
            key,
            policy,
            hold,
            max_wait,
        }
    }
}

impl<'de> Deserialize<'de> for UniqueLine {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text_or_object::<D, Self, UniqueObject>(from, "a unique key")
    }
}

/// A serial group: only the key, or with what a retry does to the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum GroupLine {
    Key(String),
    Whole {
        key: String,
        #[serde(default)]
        on_retry: OnRetryLine,
    },
}

/// The object of [`GroupLine`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupObject {
    key: String,
    #[serde(default)]
    on_retry: OnRetryLine,
}

impl From<String> for GroupLine {
    fn from(key: String) -> Self {
        Self::Key(key)
    }
}

impl From<GroupObject> for GroupLine {
    fn from(GroupObject { key, on_retry }: GroupObject) -> Self {
        Self::Whole { key, on_retry }
    }
}

impl<'de> Deserialize<'de> for GroupLine {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text_or_object::<D, Self, GroupObject>(from, "a group key")
    }
}

/// What a retry of a group's job does to the rest: they wait behind it, or pass it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(default = "hold")]
pub(crate) enum OnRetryLine {
    #[default]
    Hold,
    Pass,
}

impl GroupLine {
    pub(in crate::job_json) fn into_group(self) -> Group {
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
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "policy", rename_all = "snake_case")]
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

/// Every field that a policy may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryObject {
    policy: RetryName,
    base: Option<SpanLine>,
    factor: Option<f64>,
    cap: Option<SpanLine>,
    span: Option<SpanLine>,
    spans: Option<Vec<SpanLine>>,
    jitter: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RetryName {
    Exponential,
    Fixed,
    Linear,
    List,
}

impl RetryObject {
    /// The policy; a field that it needs and has not, or has and does not use, is an error.
    fn line<E: de::Error>(self) -> Result<RetryLine, E> {
        let fields: &[&str] = match self.policy {
            RetryName::Exponential => &["policy", "base", "factor", "cap", "jitter"],
            RetryName::Fixed => &["policy", "span", "jitter"],
            RetryName::Linear => &["policy", "base", "cap", "jitter"],
            RetryName::List => &["policy", "spans"],
        };
        let present = [
            ("base", self.base.is_some()),
            ("factor", self.factor.is_some()),
            ("cap", self.cap.is_some()),
            ("span", self.span.is_some()),
            ("spans", self.spans.is_some()),
            ("jitter", self.jitter.is_some()),
        ];
        let unused = |(name, is): &&(&str, bool)| *is && !fields.contains(name);
        if let Some((name, _)) = present.iter().find(unused) {
            let names = fields.join("`, `");
            let message = format!("unknown field `{name}`, expected one of `{names}`");
            return Err(E::custom(message));
        }
        let base = self.base.ok_or_else(|| E::missing_field("base"));
        let cap = self.cap.ok_or_else(|| E::missing_field("cap"));
        let jitter = self.jitter.ok_or_else(|| E::missing_field("jitter"));
        Ok(match self.policy {
            RetryName::Exponential => RetryLine::Exponential {
                base: base?,
                factor: self.factor.ok_or_else(|| E::missing_field("factor"))?,
                cap: cap?,
                jitter: jitter?,
            },
            RetryName::Fixed => RetryLine::Fixed {
                span: self.span.ok_or_else(|| E::missing_field("span"))?,
                jitter: jitter?,
            },
            RetryName::Linear => RetryLine::Linear {
                base: base?,
                cap: cap?,
                jitter: jitter?,
            },
            RetryName::List => RetryLine::List {
                spans: self.spans.ok_or_else(|| E::missing_field("spans"))?,
            },
        })
    }
}

impl<'de> Deserialize<'de> for RetryLine {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = RetryLine;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a retry policy")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RetryLine, A::Error> {
                RetryObject::deserialize(MapAccessDeserializer::new(map))?.line()
            }
        }
        from.deserialize_map(Object)
    }
}

/// A span inside a policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub(crate) struct SpanLine(Span);

impl RetryLine {
    pub(in crate::job_json) fn into_policy(self) -> RetryPolicy {
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
