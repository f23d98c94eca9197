//! The parts of a line that are more than text and numbers.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use punctual::time::{Timestamp, exact_span, parse_span};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::rules::HoldLine;

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
    ($name:ty, $kind:expr, $default:expr, $description:literal, $($example:tt)+) => {
        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let default: Option<&str> = $default;
                let object = ObjectBuilder::new()
                    .schema_type($kind)
                    .description(Some($description))
                    .default(default.map(Into::into))
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
    None,
    "a number and a unit of d, h, m, s, ms or us",
    "30m"
);
schema!(
    Instant,
    Type::String,
    None,
    "RFC 3339, until the year 9999",
    "2026-12-01T08:00:00Z"
);
schema!(Headers, Type::Object, None, "names and values", {"name": "value"});
schema!(
    HoldLine,
    Type::String,
    Some("settled"),
    "settled, started or a span",
    "settled"
);

/// Reads a text through a function whose error is reported as it is.
pub(super) fn text<'de, D: Deserializer<'de>, T>(
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

/// Bytes as base64.
pub fn base64_of(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// The bytes of base64, if it is that.
pub(crate) fn bytes_of_base64(text: &str) -> Option<Bytes> {
    BASE64_STANDARD.decode(text).ok().map(Bytes::from)
}
