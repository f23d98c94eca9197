//! The table of metrics is that of the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use punctual_contract::metrics::METRICS;

use super::root;

/// Sources that record or export metrics.
const SOURCES: [&str; 3] = ["punctual", "punctual-embedded", "punctual-gateway"];
/// It is generated from the table.
const GENERATED: &str = "metrics/help.rs";

/// Adds what the sources below a folder name as a metric: a text of its own.
fn named_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            named_below(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with(GENERATED) {
            named(&fs::read_to_string(&path).expect("readable"), found);
        }
    }
}

fn named(source: &str, found: &mut BTreeSet<String>) {
    for part in source.split("\"punctual_").skip(1) {
        let (rest, _) = part.split_once('"').unwrap_or_default();
        if rest
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter == '_')
        {
            found.insert(format!("punctual_{rest}"));
        }
    }
}

#[test]
fn code_names_the_metrics_of_the_table() {
    let mut found = BTreeSet::new();
    for source in SOURCES {
        named_below(&root().join("crates").join(source).join("src"), &mut found);
    }
    let table: BTreeSet<String> = METRICS.iter().map(|it| it.name.to_owned()).collect();
    assert_eq!(found, table);
    named("gauge!(\"punctual_injected\")", &mut found);
    assert_ne!(found, table, "an injected name is found");
}

#[test]
fn names_say_what_is_counted() {
    let mut names = BTreeSet::new();
    for metric in METRICS {
        assert!(names.insert(metric.name), "{} is there twice", metric.name);
        let is_total = metric.name.ends_with("_total");
        assert_eq!(is_total, metric.kind.name() == "counter", "{}", metric.name);
        assert!(metric.help.ends_with('.'), "{}", metric.name);
    }
}
