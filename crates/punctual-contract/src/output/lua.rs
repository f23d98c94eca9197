//! The constants of the functions on Redis: `NAME = VALUE -- what it is`.

use crate::fields::{CONSTANTS, CONTENT_TYPES};
use crate::keys::{KEYS, Kind, Scope};
use crate::limits::LIMITS;
use crate::numbers::{GROUPS, Value};
use crate::texts::TEXTS;

/// The file `functions/CONSTANTS`.
pub(super) fn constants() -> String {
    let mut lines = vec![
        "# Numbers of the stored and sent forms, limits, keys and texts.".to_owned(),
        format!("# {}", super::notice()),
        "# `%NAME%` in a file of the library stands for the value here, and `%FLAGS has NAME%` for the".into(),
        "# test of that bit of FLAGS. A program that puts the library together replaces each.".into(),
    ];
    for group in GROUPS {
        let mut rows = group.rows.iter().filter(|row| row.lua).peekable();
        if rows.peek().is_none() {
            continue;
        }
        lines.push(format!("# {}", group.title));
        for row in rows {
            let value = match row.value {
                Value::One(number) => number.to_string(),
                Value::Bytes(first, last) => format!("{first}, {last}"),
                Value::Text(text) => text.to_owned(),
            };
            lines.push(line(row.name, &value, row.gloss));
        }
    }
    lines.push("# Limits.".into());
    for limit in LIMITS {
        if let Some((name, value)) = limit.lua {
            lines.push(line(name, value, limit.gloss));
        }
    }
    lines.push("# Defaults and bounds of a job's fields.".into());
    for constant in CONSTANTS {
        let value = constant.value.replace('_', "");
        let value = value.trim_end_matches(".0").trim_matches('"');
        lines.push(line(constant.name, value, constant.gloss));
    }
    let listed = quoted(CONTENT_TYPES);
    lines.push(line(
        "CONTENT_TYPES",
        &listed,
        "those that have a number, from 1 on",
    ));
    let most = (CONTENT_TYPES.len() * 4 + 3).to_string();
    lines.push(line("SPEC_FLAGS_MAX", &most, "the most that `sflags` are"));
    lines.push("# Keys.".into());
    for (name, value, gloss) in keys() {
        lines.push(line(name, &value, gloss));
    }
    lines.push("# Texts.".into());
    for text in TEXTS.iter().filter(|text| text.is_shared) {
        lines.push(line(text.name, text.text, text.gloss));
    }
    lines.join("\n") + "\n"
}

fn line(name: &str, value: &str, gloss: &str) -> String {
    format!("{name} = {value} -- {gloss}")
}

/// Lists of names of keys.
fn keys() -> Vec<(&'static str, String, &'static str)> {
    let names = |wanted: &dyn Fn(Scope, Kind) -> bool| {
        let found = KEYS.iter().filter(|key| wanted(key.scope, key.kind));
        found.map(|key| key.name).collect::<Vec<_>>()
    };
    let mut of_shard = names(&|scope, _| scope == Scope::Shard);
    of_shard.sort_unstable();
    let probed = |kind: Kind| {
        quoted(&names(&|scope, of| {
            of == kind && matches!(scope, Scope::Shard | Scope::ShardSeldom)
        }))
    };
    vec![
        ("SHARD_KEYS", quoted(&of_shard), "keys of a shard"),
        ("SHARD_HASHES", probed(Kind::Hash), "those that are hashes"),
        ("SHARD_LISTS", probed(Kind::List), "those that are lists"),
        (
            "SHARD_SORTED",
            probed(Kind::Sorted),
            "those that are sorted sets",
        ),
        (
            "PART_KEYS",
            quoted(&names(&|scope, _| scope == Scope::Part)),
            "keys of a part, all hashes",
        ),
        (
            "QUEUE_KEYS",
            quoted(&names(&|scope, _| scope == Scope::Queue)),
            "keys of a queue",
        ),
    ]
}

fn quoted(names: &[&str]) -> String {
    let names = names.iter().map(|name| format!("'{name}'"));
    names.collect::<Vec<_>>().join(", ")
}
