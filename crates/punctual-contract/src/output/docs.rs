//! Tables of the pages.

use super::Output;
use crate::errors::{ERRORS, Origin};
use crate::fields::{CONTENT_TYPES, Field, PARTS, SENT};
use crate::keys::KEYS;
use crate::limits::LIMITS;
use crate::metrics::METRICS;
use crate::numbers::{GROUPS, Number, Value};
use crate::texts::TEXTS;
use crate::verbs::{FUNCTIONS, Function, VERBS};

const WIRE: &str = "docs/wire-protocol.md";
const HTTP: &str = "docs/http-api.md";
const LIFECYCLE: &str = "docs/job-lifecycle.md";
const WATCHING: &str = "docs/watching.md";
const REDIS: &str = "docs/engines/redis.md";

/// Every table with its page.
pub(super) fn parts() -> Vec<Output> {
    let mut parts = vec![
        part(HTTP, "errors", errors()),
        part(HTTP, "job-defaults", defaults()),
        part(HTTP, "job-refusals", refusals()),
        part(LIFECYCLE, "verbs", verbs()),
        part(WIRE, "functions", functions()),
        part(WATCHING, "metrics", metrics()),
        part(WIRE, "codes", codes()),
        part(WIRE, "limits", limits()),
        part(WIRE, "job-fields", fields()),
        part(WIRE, "content-types", content_types()),
        part(WIRE, "keys", keys()),
        part(REDIS, "keys-by-name", keys_by_name()),
    ];
    for group in GROUPS {
        if let Some(marker) = group.table {
            parts.push(part(WIRE, marker, numbers(group.rows)));
        }
    }
    parts
}

fn part(path: &'static str, marker: &'static str, text: String) -> Output {
    let marker = Some(marker);
    Output { path, marker, text }
}

fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut out = row(heads);
    out += &row(&vec!["---"; heads.len()]);
    for cells in rows {
        out += &row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    out
}

fn row(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |")
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn codes_of(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| code(name))
        .collect::<Vec<_>>()
        .join(", ")
}

fn numbers(rows: &[Number]) -> String {
    table(
        &["value", "name", "meaning"],
        rows.iter().map(|row| {
            let value = match row.value {
                Value::One(value) => value.to_string(),
                Value::Bytes(first, last) => format!("{first} to {last}"),
                Value::Text(text) => text.to_owned(),
            };
            vec![value, code(row.name), row.gloss.into()]
        }),
    )
}

/// The number of each content type that has one.
fn content_types() -> String {
    let rows = CONTENT_TYPES.iter().zip(1..);
    table(
        &["number", "content type"],
        rows.map(|(name, number): (_, usize)| vec![number.to_string(), code(name)]),
    )
}

/// What each verb does, and the functions on Redis that do it.
fn verbs() -> String {
    table(
        &[
            "verb",
            "what it does",
            "takes",
            "answers",
            "functions on Redis",
        ],
        VERBS.iter().map(|verb| {
            let is_of = |function: &&Function| function.verbs.contains(&verb.name);
            let functions = FUNCTIONS.iter().filter(is_of).map(|function| function.name);
            vec![
                code(verb.name),
                verb.gloss.into(),
                verb.takes.into(),
                verb.answers.into(),
                codes_of(&functions.collect::<Vec<_>>()),
            ]
        }),
    )
}

/// How each function on Redis is called.
fn functions() -> String {
    table(
        &[
            "function",
            "call",
            "flags",
            "takes",
            "replies",
            "words too",
            "note",
        ],
        FUNCTIONS.iter().map(|function| {
            let only_reads = function.flags.contains(&"no-writes");
            let (takes, replies) = function.form.names();
            vec![
                code(function.name),
                if only_reads { "FCALL_RO" } else { "FCALL" }.into(),
                function.flags.join(", "),
                takes.into(),
                replies.into(),
                if function.takes_words { "yes" } else { "" }.into(),
                function.note.into(),
            ]
        }),
    )
}

fn metrics() -> String {
    table(
        &["metric", "kind", "labels", "what it counts"],
        METRICS.iter().map(|metric| {
            let text = match metric.note {
                "" => metric.help.to_owned(),
                note => format!("{} ({note})", metric.help.trim_end_matches('.')),
            };
            let text = text.trim_end_matches('.').to_owned();
            vec![
                code(metric.name),
                metric.kind.name().into(),
                metric.labels.into(),
                text,
            ]
        }),
    )
}

/// Codes by status.
fn errors() -> String {
    let mut statuses: Vec<u16> = ERRORS.iter().filter_map(|error| error.http).collect();
    statuses.dedup();
    table(
        &["status", "codes"],
        statuses.into_iter().map(|status| {
            let of = ERRORS.iter().filter(|error| error.http == Some(status));
            let reported = of.map(|error| match error.note {
                "" => code(error.code),
                note => format!("{} ({note})", code(error.code)),
            });
            vec![status.to_string(), reported.collect::<Vec<_>>().join(", ")]
        }),
    )
}

/// Codes that the functions answer.
fn codes() -> String {
    let answered = |origin| matches!(origin, Origin::Functions | Origin::KindAndFunctions);
    let rows = ERRORS.iter().filter(|error| answered(error.origin));
    table(
        &["code", "note"],
        rows.map(|error| vec![code(error.code), error.note.into()]),
    )
}

fn limits() -> String {
    table(
        &["limit", "value", "what it bounds", "set by `Limits`"],
        LIMITS.iter().map(|limit| {
            let set = if limit.is_adjustable { "yes" } else { "" };
            vec![
                code(limit.name),
                limit.text.into(),
                limit.gloss.into(),
                set.into(),
            ]
        }),
    )
}

/// Fields over HTTP, with what an engine takes for one that is left out.
fn defaults() -> String {
    let fields = SENT.iter().filter(|field| !field.json.is_empty());
    let rows = fields.flat_map(|field| {
        let whole = vec![
            codes_of(field.json),
            field.default.into(),
            field.bounds.into(),
        ];
        let parts = PARTS.iter().filter(|part| part.field == field.name);
        let parts = parts.map(|part| {
            let name = format!("{}.{}", part.field, part.json);
            let default = part.default_json.trim_matches('"');
            vec![code(&name), code(default), part.bounds.into()]
        });
        std::iter::once(whole).chain(parts)
    });
    table(&["field", "default", "bounds"], rows)
}

/// Why a field of a job is refused.
fn refusals() -> String {
    let rows = TEXTS.iter().filter(|text| !text.fields.is_empty());
    table(
        &["field", "code", "message", "when"],
        rows.map(|text| {
            let message = match text.is_end {
                true => format!(".. {}", text.text),
                false => text.text.to_owned(),
            };
            vec![
                codes_of(text.fields),
                code(text.code),
                message,
                text.gloss.into(),
            ]
        }),
    )
}

/// Names of every field in every form.
fn fields() -> String {
    let names = |names: &[&str]| names.iter().map(|name| code(name)).collect::<Vec<_>>();
    table(
        &["field", "JSON", "command", "packed", "words", "compared"],
        SENT.iter().map(|field: &Field| {
            vec![
                code(field.name),
                names(field.json).join(" "),
                names(field.cli).join(" "),
                names(field.packed).join(" "),
                names(field.words).join(" "),
                if field.is_compared {
                    "yes".into()
                } else {
                    String::new()
                },
            ]
        }),
    )
}

fn keys() -> String {
    table(
        &["key", "type", "what it holds", "written by"],
        KEYS.iter().map(|key| {
            let files = key.written_by.iter().map(|file| format!("`{file}.lua`"));
            let files = files.collect::<Vec<_>>().join(", ");
            let files = if files.is_empty() {
                "the operator".into()
            } else {
                files
            };
            vec![
                code(&key.pattern()),
                key.kind.name().into(),
                key.gloss.into(),
                files,
            ]
        }),
    )
}

/// Keys in the order of their names, for a person who meets one.
fn keys_by_name() -> String {
    let mut keys: Vec<_> = KEYS.iter().collect();
    keys.sort_by_key(|key| key.name);
    table(
        &["key", "type", "what it holds"],
        keys.into_iter().map(|key| {
            let gloss = key.gloss.replace("](#", "](../wire-protocol.md#");
            vec![code(&key.pattern()), key.kind.name().into(), gloss]
        }),
    )
}
