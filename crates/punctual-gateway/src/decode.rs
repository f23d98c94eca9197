//! Decode errors of JSON and queries: the field, its value, and what it accepts.

mod objects;
mod takes;

use punctual::Error;
use punctual::time::{Timestamp, parse_span};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};

use objects::Objects;
use takes::TAKES;

/// Why an input could not be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DecodeError {
    pub(crate) why: Why,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Where the reader stopped, from 1.
    pub(crate) line: usize,
    pub(crate) column: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is not JSON.
    Syntax,
    /// A span or an instant is malformed.
    Delay,
    /// Another field is missing, unknown, or malformed.
    Field,
}

/// What serde_json says of something that cannot begin there.
const NO_VALUE: &str = "expected value";

/// Reads JSON; what has fields is an object, and never an array of their values.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let found = T::deserialize(Objects(&mut json));
    let found = found.and_then(|found| json.end().map(|()| found));
    found.map_err(|error| {
        // Only now is it worth following where the reader is.
        let mut again = serde_json::Deserializer::from_slice(bytes);
        let path = match serde_path_to_error::deserialize::<_, T>(Objects(&mut again)) {
            Err(error) => Some(error.path().clone()),
            Ok(_) => None,
        };
        let reported = error.to_string();
        let reported = reported
            .rsplit_once(" at line ")
            .map_or(&*reported, |(reported, _)| reported);
        // A number where a word must be is called a mistake of the form by its reader.
        let is_json = || serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
        let is_data = error.classify() == Category::Data || reported == NO_VALUE && is_json();
        let (why, message, hint) = match (is_data, path) {
            (true, Some(path)) => {
                let place = shown_path(&path);
                field(&place, reported, lookup(bytes, &path).as_ref())
            }
            (true, None) => (Why::Field, shown(reported), None),
            (false, _) => (Why::Syntax, reported.to_owned(), None),
        };
        DecodeError {
            why,
            message,
            hint,
            line: error.line(),
            column: error.column(),
        }
    })
}

impl DecodeError {
    /// For the sender of a file that is one document.
    pub(crate) fn into_text(self) -> String {
        let place = format!("(line {}, column {})", self.line, self.column);
        let is = match self.why {
            Why::Syntax => "the input is not JSON: ",
            Why::Delay | Why::Field => "",
        };
        match self.hint {
            Some(hint) => format!("{is}{} {place}; {hint}", self.message),
            None => format!("{is}{} {place}", self.message),
        }
    }

    /// In one line, for the sender of an NDJSON row.
    pub(crate) fn into_line(self) -> String {
        let Self {
            message, column, ..
        } = self;
        match self.hint {
            Some(hint) => format!("{message} (column {column}); {hint}"),
            None => format!("{message} (column {column})"),
        }
    }
}

/// Received text, made safe for an error: at most 64 characters, invisible ones escaped.
pub(crate) fn shown(text: &str) -> String {
    text.chars()
        .take(64)
        .flat_map(char::escape_debug)
        .take(64)
        .collect()
}

/// A query that could not be read, by what its reader said.
pub(crate) fn of_query(reported: &str, pairs: &[(String, String)]) -> DecodeError {
    let (name, what) = reported.split_once(": ").unwrap_or(("", reported));
    let value = pairs.iter().find(|(known, _)| known == name);
    let value = value.map(|(_, value)| Value::String(value.clone()));
    // Its numbers and flags are read from texts, of whose readers the words are others.
    let what = match what {
        "provided string was not `true` or `false`" => "invalid value, expected a boolean",
        what if what.ends_with("digit found in string") => "invalid value, expected u64",
        what => what,
    };
    let (why, message, hint) = field(&shown(name), what, value.as_ref());
    DecodeError {
        why,
        message,
        hint,
        line: 1,
        column: 1,
    }
}

/// What is wrong with a field at a place, by what serde said, and by what stands there.
fn field(place: &str, reported: &str, value: Option<&Value>) -> (Why, String, Option<String>) {
    let within = |name: &str| match place {
        "" => shown(name),
        place => format!("{place}.{}", shown(name)),
    };
    if let Some(name) = quoted(reported, "missing field `") {
        return (
            Why::Field,
            format!("{} is missing", within(name)),
            use_of(meant(place, name), ""),
        );
    }
    if let Some(name) = quoted(reported, "duplicate field `") {
        return (Why::Field, format!("{} appears twice", within(name)), None);
    }
    if let Some(name) = quoted(reported, "unknown field `") {
        // The place is that of the object, or of the field itself.
        let whole = within(name);
        let is_whole = place == shown(name) || place.ends_with(&format!(".{}", shown(name)));
        return (
            Why::Field,
            format!("unknown field `{}`", if is_whole { place } else { &whole }),
            known(reported),
        );
    }
    let name = place.rsplit('.').next().unwrap_or_default();
    let name = name.split('[').next().unwrap_or_default();
    let name = meant(place.rsplit_once('.').map_or("", |(outer, _)| outer), name);
    if let Some(variant) = quoted(reported, "unknown variant `") {
        let message = format!("{place} is \"{}\"", shown(variant));
        return (
            Why::Field,
            message,
            // A kind of a job is no variant.
            use_of(name, "")
                .filter(|_| name != "kind")
                .or_else(|| known(reported)),
        );
    }
    // Of a whole body only its kind is named: it may be anything.
    let is = match (place, value) {
        ("", Some(value)) => format!("the input is {}", kind_of(value)),
        ("", None) if reported.starts_with("invalid type: sequence") => {
            "the input is an array".to_owned()
        }
        ("", None) => "the input cannot be read".to_owned(),
        (place, Some(value)) => format!("{place} is {}", short(value)),
        (place, None) => format!("{place} cannot be read"),
    };
    if let Some((_, expected)) = reported
        .split_once(", expected ")
        .filter(|_| reported.starts_with("invalid "))
    {
        // The words of a list are of no use to one of its items.
        let is_item = place.ends_with(']') && expected.starts_with("struct ");
        let hint = match is_item {
            true => Some("use an object".into()),
            false => use_of(name, expected),
        };
        return (Why::Field, is, hint);
    }
    // Spans and instants bring the code of their own error along.
    if let Some((what, _)) = reported.split_once(" (invalid_delay") {
        let (what, remedy) = what.split_once("; ").unwrap_or((what, ""));
        let hint = Some(remedy.to_owned()).filter(|remedy| !remedy.is_empty());
        return (Why::Delay, format!("{is}: {what}"), hint);
    }
    let (what, remedy) = match reported.split_once("; ") {
        Some((what, remedy)) => (what, Some(remedy.to_owned())),
        None => (reported, None),
    };
    match use_of(name, "") {
        None if reported == NO_VALUE => (Why::Field, is, None),
        Some(hint) => (Why::Field, is, Some(hint)),
        None if place.is_empty() => (Why::Field, what.to_owned(), remedy),
        None => (Why::Field, format!("{is}: {what}"), remedy),
    }
}

/// What stands behind a tombstone, up to the next quote.
fn quoted<'a>(reported: &'a str, tombstone: &str) -> Option<&'a str> {
    let rest = reported.strip_prefix(tombstone)?;
    let end = rest.rfind("`, expected").or_else(|| rest.rfind('`'))?;
    Some(&rest[..end])
}

/// The names that would have been known; of a job those that it is sent with.
fn known(reported: &str) -> Option<String> {
    let (_, expected) = reported.rsplit_once(", expected ")?;
    let mut names: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    if let Some(kept) = names.iter().position(|name| *name == "state")
        && names.contains(&"payload_base64")
    {
        names.truncate(kept);
    }
    Some(format!("use {}", names.join(", ")))
}

/// The name by which [`use_of`] knows a field: `job` is the id of one in `clear` and `after`, and a
/// whole job elsewhere.
fn meant<'a>(outer: &str, name: &'a str) -> &'a str {
    let outer = outer.rsplit('.').next().unwrap_or_default();
    let outer = outer.split('[').next().unwrap_or_default();
    match name {
        "job" if matches!(outer, "clear" | "after") => "id",
        // In a settlement it is a span; in a job it is a list of others.
        "after" if outer == "settlements" => "wait",
        "after" if outer == "steps" => "steps.after",
        "policy" if outer == "retry" => "retry.policy",
        "policy" => "unique.policy",
        "key" if matches!(outer, "unique" | "group") => "share",
        name => name,
    }
}

/// What a field takes, as the contract declares it, or else by the words of its reader.
fn use_of(name: &str, expected: &str) -> Option<String> {
    let declared = TAKES.iter().find(|(known, _)| *known == name);
    let takes = match declared {
        Some((_, takes)) => takes,
        None => match expected.trim_start_matches("a ") {
            "" => return None,
            "boolean" => "true or false",
            "string" => "a string",
            "sequence" => "an array",
            "map" => "an object",
            "f64" => "a number",
            "u8" => "an integer from 0 to 255",
            "u16" => "an integer from 0 to 65535",
            "u32" => "an integer from 0 to 4294967295",
            "u64" | "usize" => "an integer from 0 to 18446744073709551615",
            other if other.starts_with("struct ") => "an object",
            other if other.contains("enum ") => return None,
            other => return Some(format!("use {other}")),
        },
    };
    Some(format!("use {takes}"))
}

/// A value in an error: texts and numbers as they are, of others what they are.
fn short(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", shown(text)),
        Value::Array(_) | Value::Object(_) => kind_of(value).to_owned(),
        scalar => shown(&scalar.to_string()),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn shown_path(path: &Path) -> String {
    match path.iter().next() {
        None => String::new(),
        Some(_) => shown(&path.to_string()),
    }
}

/// A tree of what is longer could take a hundred times its bytes: what stands there is then not
/// shown.
pub(crate) const LOOKUP_BYTES_MAX: usize = 64 << 10;

/// What senders fill with names of their own.
const OWN: [&str; 4] = ["payload", "result", "progress", "headers"];

/// The message of an error with its spans and instants as the sender wrote them in this JSON.
pub fn as_sent(mut message: String, error: &Error, json: &[u8]) -> String {
    for (name, value) in error.context() {
        if let Some(sent) = sent_value(json, name, value) {
            let read = format!("{name}: {value}");
            message = message.replacen(&read, &format!("{name}: {}", shown(&sent)), 1);
        }
    }
    message
}

/// How a span or an instant of an error was written: the first text in a field of that name that
/// means the same. The engine refuses the first item that is wrong, so an earlier one with that
/// value is never another's.
fn sent_value(json: &[u8], field: &str, value: &str) -> Option<String> {
    if json.is_empty() || json.len() > LOOKUP_BYTES_MAX {
        return None;
    }
    let span = parse_span(value).ok();
    let instant = value.parse::<Timestamp>().ok();
    if span.is_none() && instant.is_none() {
        return None;
    }
    let means = |text: &str| {
        (span.is_some() && parse_span(text).ok() == span)
            || (instant.is_some() && text.parse().ok() == instant)
    };
    let json: Value = serde_json::from_slice(json).ok()?;
    let name = field.rsplit('.').next().unwrap_or(field);
    written(&json, name, &means).map(str::to_owned)
}

fn written<'a>(json: &'a Value, name: &str, means: &dyn Fn(&str) -> bool) -> Option<&'a str> {
    match json {
        Value::Array(items) => items.iter().find_map(|item| written(item, name, means)),
        Value::Object(fields) => {
            let own = fields.get(name).and_then(|value| match value {
                Value::Array(items) => items.iter().find_map(|item| text_of(item, means)),
                value => text_of(value, means),
            });
            own.or_else(|| {
                let inner = fields
                    .iter()
                    .filter(|(key, _)| !OWN.contains(&key.as_str()));
                let mut inner = inner.map(|(_, value)| value);
                inner.find_map(|value| written(value, name, means))
            })
        }
        _ => None,
    }
}

fn text_of<'a>(value: &'a Value, means: &dyn Fn(&str) -> bool) -> Option<&'a str> {
    value.as_str().filter(|text| means(text))
}

/// What stands at a path; nothing if that is unknown.
fn lookup(bytes: &[u8], path: &Path) -> Option<Value> {
    if bytes.len() > LOOKUP_BYTES_MAX {
        return None;
    }
    let mut value: Value = serde_json::from_slice(bytes).ok()?;
    for segment in path.iter() {
        value = match segment {
            Segment::Seq { index } => value.get_mut(*index)?.take(),
            Segment::Map { key } => value.get_mut(key)?.take(),
            // One without content is a text.
            Segment::Enum { variant } => match value.get_mut(variant) {
                Some(inner) => inner.take(),
                None => value,
            },
            Segment::Unknown => return None,
        };
    }
    Some(value)
}

#[cfg(test)]
mod tests;
