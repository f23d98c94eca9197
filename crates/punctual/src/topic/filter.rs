//! Filters of a subscription: tests of a header, the kind, the group or the due of a message.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, ErrorKind, Result};
use crate::job::{NewJob, check_header, shown};
use crate::time::{exact_span, format_span, parse_span};

/// Values of one list.
const VALUES_MAX: usize = 100;
/// Bytes of a value.
const VALUE_BYTES_MAX: usize = 256;

pub(super) const KIND: &str = "@kind";
pub(super) const GROUP: &str = "@group";
pub(super) const DUE: &str = "@due";

/// Tests of one header of a message, or of its kind, group or due; a message passes if it passes
/// all of them. Payloads are not read.
///
/// Values are compared byte by byte. Of several headers of a name the first counts.
///
/// ```
/// use punctual::topic::Filter;
///
/// let filter = Filter::header("amount").at_least(100.0);
/// assert_eq!(filter, "amount >= 100".parse()?);
/// assert_eq!(filter.to_string(), "amount >= 100");
/// # Ok::<(), punctual::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// The name of a header, or `@kind`, `@group` or `@due`.
    pub(super) on: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) one_of: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) none_of: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exists: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "span")]
    pub(super) within: Option<Duration>,
}

impl Filter {
    pub(super) fn on(on: impl Into<String>) -> Self {
        Self {
            on: on.into(),
            one_of: None,
            none_of: None,
            prefix: None,
            exists: None,
            min: None,
            max: None,
            within: None,
        }
    }

    /// Tests the first header of that name.
    pub fn header(name: impl Into<String>) -> Self {
        Self::on(name)
    }

    /// Tests the kind.
    pub fn kind() -> Self {
        Self::on(KIND)
    }

    /// Tests the key of the serial group.
    pub fn group() -> Self {
        Self::on(GROUP)
    }

    /// Passes what is due in at most that span from the publish on.
    pub fn due_within(span: Duration) -> Self {
        Self {
            within: Some(span),
            ..Self::on(DUE)
        }
    }

    /// Passes what is one of these values.
    #[must_use]
    pub fn one_of<T: Into<String>>(mut self, values: impl IntoIterator<Item = T>) -> Self {
        self.one_of = Some(values.into_iter().map(Into::into).collect());
        self
    }

    /// Passes what is none of these values, and what is not there.
    #[must_use]
    pub fn none_of<T: Into<String>>(mut self, values: impl IntoIterator<Item = T>) -> Self {
        self.none_of = Some(values.into_iter().map(Into::into).collect());
        self
    }

    /// Passes what begins so.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Passes what is there, or with `false` what is not.
    #[must_use]
    pub fn exists(mut self, exists: bool) -> Self {
        self.exists = Some(exists);
        self
    }

    /// Passes a number that is no less; text passes no test of numbers.
    #[must_use]
    pub fn at_least(mut self, min: f64) -> Self {
        self.min = Some(min);
        self
    }

    /// Passes a number that is no more.
    #[must_use]
    pub fn at_most(mut self, max: f64) -> Self {
        self.max = Some(max);
        self
    }

    /// Checks its subject and its tests.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |wrong: &str| {
            let message = format!("filter {wrong}");
            let error = Error::new(ErrorKind::InvalidInput, message);
            Err(error.with("on", shown(&self.on)))
        };
        let lists = [&self.one_of, &self.none_of];
        let texts = lists.iter().any(|list| list.is_some()) || self.prefix.is_some();
        let numbers = self.min.is_some() || self.max.is_some();
        if !texts && !numbers && self.exists.is_none() && self.within.is_none() {
            return refuse(
                "tests nothing; use one_of, none_of, prefix, exists, min, max or within",
            );
        }
        match self.on.as_str() {
            DUE if texts || numbers || self.exists.is_some() => {
                return refuse("of `@due` takes `within` only");
            }
            DUE => {}
            _ if self.within.is_some() => return refuse("with `within` tests `@due` only"),
            KIND | GROUP if numbers => {
                return refuse("compares a text with a number; kinds and groups are texts");
            }
            KIND | GROUP => {}
            other if other.starts_with('@') => {
                return refuse("tests something unknown; use a header, @kind, @group or @due");
            }
            other => check_header(other, "")?,
        }
        for list in lists.into_iter().flatten() {
            if list.len() > VALUES_MAX {
                return refuse("has a list of too many values; use 1 to 100");
            }
        }
        let is_empty = |list: &Vec<String>| list.is_empty() || list.iter().any(String::is_empty);
        if lists.into_iter().flatten().any(is_empty) || self.prefix.as_deref() == Some("") {
            return refuse("has an empty value; write one, or test that it exists or is absent");
        }
        let mut values = lists.into_iter().flatten().flatten().chain(&self.prefix);
        if values.any(|value| value.len() > VALUE_BYTES_MAX) {
            return refuse("has a value over 256 bytes; use a shorter one");
        }
        let ends = [self.min, self.max];
        if ends.iter().flatten().any(|end| !end.is_finite()) {
            return refuse("has an end of a range that is no number");
        }
        match ends {
            [Some(min), Some(max)] if min > max => refuse("has a range that nothing is in"),
            _ => Ok(()),
        }
    }

    /// What it tests; `None` if the message does not have it.
    fn value<'a>(&self, job: &'a NewJob) -> Option<&'a str> {
        match self.on.as_str() {
            KIND => Some(&job.kind),
            GROUP => job.group.as_ref().map(|group| group.key.as_str()),
            DUE => None,
            name => {
                let mut named = job.headers.iter().filter(|(own, _)| own == name);
                named.next().map(|(_, value)| value.as_str())
            }
        }
    }

    /// Whether it needs to know how far off the due of a message is.
    pub(super) fn needs_due(&self) -> bool {
        self.within.is_some()
    }

    /// Whether a message that is due in that span passes.
    pub(super) fn passes(&self, job: &NewJob, due_in: Duration) -> bool {
        if let Some(within) = self.within {
            return due_in <= within;
        }
        let value = self.value(job);
        let has = |list: &Vec<String>| list.iter().any(|one| value == Some(one));
        self.exists.is_none_or(|exists| exists == value.is_some())
            && self.one_of.as_ref().is_none_or(has)
            && !self.none_of.as_ref().is_some_and(has)
            && (self.prefix.as_ref())
                .is_none_or(|prefix| value.is_some_and(|value| value.starts_with(prefix)))
            && self.is_in_range(value)
    }

    fn is_in_range(&self, value: Option<&str>) -> bool {
        if self.min.is_none() && self.max.is_none() {
            return true;
        }
        value.and_then(number).is_some_and(|number| {
            self.min.is_none_or(|min| number >= min) && self.max.is_none_or(|max| number <= max)
        })
    }

    /// Why a message that is due in that span does not pass; `None` if it does.
    pub(super) fn why_not(&self, job: &NewJob, due_in: Duration) -> Option<String> {
        if self.passes(job, due_in) {
            return None;
        }
        let is = match (self.within, self.value(job)) {
            (Some(_), _) => format!("it is due in {}", format_span(due_in)),
            (None, None) => format!("it has no {}", self.on),
            (None, Some(value)) => {
                let wants_number = self.min.is_some() || self.max.is_some();
                let no_number = wants_number && number(value).is_none();
                let note = if no_number {
                    ", which is no number"
                } else {
                    ""
                };
                format!("{} is {}{note}", self.on, shown(value))
            }
        };
        Some(format!("{is}, and the filter is `{self}`"))
    }
}

fn number(text: &str) -> Option<f64> {
    let number: f64 = text.trim().parse().ok()?;
    number.is_finite().then_some(number)
}

mod span {
    //! A span as its text, such as `1h30m`.

    use super::*;

    pub(super) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        to: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        span.map(exact_span).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> std::result::Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| parse_span(&text).map_err(serde::de::Error::custom))
            .transpose()
    }
}
