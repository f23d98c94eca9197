//! Constants of Rust.

use crate::fields::{CONSTANTS, CONTENT_TYPES};
use crate::limits::LIMITS;
use crate::metrics::METRICS;
use crate::numbers::{GROUPS, Value};
use crate::texts::TEXTS;

/// The longest line of code and comment.
const WIDTH: usize = 100;

/// The numbers of the packed forms, for the engine on Redis.
pub(super) fn numbers() -> String {
    let mut out = head("Numbers of the packed forms of `docs/wire-protocol.md`.");
    let rows = GROUPS.iter().flat_map(|group| group.rows);
    let ranges = rows.clone().any(|row| row.rust == Some("range"));
    if ranges {
        out += "use std::ops::Range;\n\n";
    }
    for row in rows {
        let (kind, value) = match (row.rust, row.value) {
            (None, _) | (_, Value::Text(_)) => continue,
            (Some(kind), Value::One(value)) => (kind, digits(value)),
            (Some(_), Value::Bytes(first, last)) => {
                ("Range<usize>", format!("{}..{last}", first - 1))
            }
        };
        constant(&mut out, "pub(crate)", row.name, kind, &value, row.gloss);
    }
    comment(
        &mut out,
        "///",
        "Content types that have a number in `sflags`, from 1 on.",
    );
    out += "pub(crate) const CONTENT_TYPES: &[&str] = &[\n";
    for name in CONTENT_TYPES {
        out += &format!("    \"{name}\",\n");
    }
    out += "];\n";
    for row in CONSTANTS.iter().filter(|row| row.is_packed) {
        constant(
            &mut out,
            "pub(crate)",
            row.name,
            row.rust,
            row.value,
            row.gloss,
        );
    }
    out
}

/// Limits, defaults and texts, for the library.
pub(super) fn bounds() -> String {
    let mut out = head("Limits, defaults of a job's fields, and texts of refusals.");
    for limit in LIMITS.iter().filter(|limit| !limit.rust.is_empty()) {
        let (kind, end) = match limit.rust {
            "span" => ("u64", "_MS"),
            kind => (kind, ""),
        };
        let name = limit.name.to_uppercase() + end;
        let visible = match limit.is_adjustable || name.ends_with("_MS") {
            true => "pub(crate)",
            false => "pub",
        };
        constant(
            &mut out,
            visible,
            &name,
            kind,
            &digits(limit.value),
            limit.gloss,
        );
    }
    for row in CONSTANTS {
        let visible = if row.is_public { "pub" } else { "pub(crate)" };
        constant(&mut out, visible, row.name, row.rust, row.value, row.gloss);
    }
    for text in TEXTS {
        let quoted = format!("{:?}", text.text);
        constant(
            &mut out,
            "pub(crate)",
            text.name,
            "&str",
            &quoted,
            text.gloss,
        );
    }
    out
}

/// What fields of JSON take, for the gateway's errors.
pub(super) fn takes() -> String {
    let mut out = head("What fields of JSON take, in the words of a hint.");
    comment(
        &mut out,
        "///",
        "Words behind `use`, by the name of the field.",
    );
    out += "#[rustfmt::skip]\npub(super) const TAKES: &[(&str, &str)] = &[\n";
    for (name, words) in crate::hints::all() {
        out += &format!("    ({name:?}, {words:?}),\n");
    }
    out + "];\n"
}

/// Metrics, for the gateway's page.
pub(super) fn help() -> String {
    let mut out = head("Every metric, with its kind and its help text.");
    comment(&mut out, "///", "Name, kind and help.");
    out += "#[rustfmt::skip]\npub(super) const METRICS: &[(&str, &str, &str)] = &[\n";
    for metric in METRICS {
        let (name, kind, help) = (metric.name, metric.kind.name(), metric.help);
        out += &format!("    ({name:?}, {kind:?}, {help:?}),\n");
    }
    out + "];\n"
}

fn head(what: &str) -> String {
    let mut out = String::new();
    comment(&mut out, "//!", what);
    out += "//!\n";
    comment(&mut out, "//!", &super::notice());
    out + "\n"
}

fn constant(out: &mut String, visible: &str, name: &str, kind: &str, value: &str, gloss: &str) {
    comment(out, "///", &sentence(gloss));
    let line = format!("{visible} const {name}: {kind} = {value};");
    // rustfmt leaves what fits on no line of its own where it is.
    if line.len() <= WIDTH || 4 + value.len() + 1 > WIDTH {
        *out += &line;
    } else {
        *out += &format!("{visible} const {name}: {kind} =\n    {value};");
    }
    out.push('\n');
}

/// Lines of a comment, broken between words.
fn comment(out: &mut String, mark: &str, text: &str) {
    let mut line = mark.to_owned();
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > WIDTH {
            *out += &line;
            out.push('\n');
            mark.clone_into(&mut line);
        }
        line.push(' ');
        line += word;
    }
    *out += &line;
    out.push('\n');
}

/// A gloss as a sentence.
fn sentence(gloss: &str) -> String {
    let mut letters = gloss.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// A number with its thousands apart.
fn digits(value: u64) -> String {
    let plain = value.to_string();
    if plain.len() < 5 {
        return plain;
    }
    let mut out = String::new();
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            out.push('_');
        }
        out.push(digit);
    }
    out
}
