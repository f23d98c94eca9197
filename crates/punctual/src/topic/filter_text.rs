//! Filters as text: `country in [de,at]`, `amount >= 100`, `@due within 1h`.

use std::fmt;
use std::str::FromStr;

use super::filter::{DUE, Filter};
use crate::error::{Error, ErrorKind, Result};
use crate::job::shown;
use crate::time::{exact_span, parse_span};

/// How a filter is written.
const FORMS: &str = "write `NAME in [a,b]`, `NAME not in [a,b]`, `NAME = a`, `NAME starts with a`, \
                     `NAME exists`, `NAME absent`, `NAME >= 1`, `NAME <= 9`, `NAME in 1..9` or \
                     `@due within 1h`; NAME is a header, @kind or @group";

impl FromStr for Filter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let filter = parse(text.trim()).ok_or_else(|| {
            let message = format!("filter is not understood; {FORMS}");
            Error::new(ErrorKind::InvalidInput, message).with("filter", shown(text))
        })?;
        filter.check().map(|()| filter)
    }
}

fn parse(text: &str) -> Option<Filter> {
    let (on, test) = text.split_once(char::is_whitespace)?;
    let (filter, test) = (Filter::on(on), test.trim());
    let rest = |word: &str| test.strip_prefix(word).map(str::trim);
    if test == "exists" || test == "absent" {
        return Some(filter.exists(test == "exists"));
    }
    if let Some(prefix) = rest("starts with ") {
        return Some(filter.prefix(prefix));
    }
    if let Some(values) = rest("not in ") {
        return list(values).map(|values| filter.none_of(values));
    }
    if let Some(values) = rest("in ") {
        if let Some(values) = list(values) {
            return Some(filter.one_of(values));
        }
        let (min, max) = values.split_once("..")?;
        return Some(
            filter
                .at_least(min.parse().ok()?)
                .at_most(max.parse().ok()?),
        );
    }
    if let Some(span) = rest("within ") {
        let within = Filter::due_within(parse_span(span).ok()?);
        return (on == DUE).then_some(within);
    }
    if let Some(min) = rest(">=") {
        return Some(filter.at_least(min.parse().ok()?));
    }
    if let Some(max) = rest("<=") {
        return Some(filter.at_most(max.parse().ok()?));
    }
    if let Some(value) = rest("!=") {
        return Some(filter.none_of([value]));
    }
    rest("=").map(|value| filter.one_of([value]))
}

fn list(text: &str) -> Option<Vec<&str>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    Some(inner.split(',').map(str::trim).collect())
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = &self.on;
        let mut tests = Vec::new();
        if let Some(values) = &self.one_of {
            tests.push(format!("{on} in [{}]", values.join(",")));
        }
        if let Some(values) = &self.none_of {
            tests.push(format!("{on} not in [{}]", values.join(",")));
        }
        if let Some(prefix) = &self.prefix {
            tests.push(format!("{on} starts with {prefix}"));
        }
        if let Some(exists) = self.exists {
            tests.push(format!("{on} {}", if exists { "exists" } else { "absent" }));
        }
        match (self.min, self.max) {
            (Some(min), Some(max)) => tests.push(format!("{on} in {min}..{max}")),
            (Some(min), None) => tests.push(format!("{on} >= {min}")),
            (None, Some(max)) => tests.push(format!("{on} <= {max}")),
            (None, None) => {}
        }
        if let Some(within) = self.within {
            tests.push(format!("{on} within {}", exact_span(within)));
        }
        f.write_str(&tests.join(" and "))
    }
}
