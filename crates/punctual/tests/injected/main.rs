//! The suite is proved: every injected bug is found. That nothing is found without one, the laws of
//! the engine in memory show.
//!
//! A binary of its own with one test, because an injected bug is in every engine of the process.

#[path = "../it/conformance/harness.rs"]
mod harness;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use harness::Memory;
use punctual::conformance::{LAWS, Law, find};
use punctual::injected::Bug;

/// Parts of the names of long laws, which come last: each bug has all those before the one that
/// finds it run.
const LONG: [&str; 6] = ["thousand", "random", "room", "large", "many", "histories"];

/// The words of a name, in small letters and without the s of a plural.
fn words(name: &str) -> BTreeSet<String> {
    let mut spaced = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() {
            spaced.push('_');
        }
        spaced.extend(letter.to_lowercase());
    }
    let words = spaced.split(['_', ':']).filter(|word| !word.is_empty());
    words
        .map(|word| word.trim_end_matches('s').into())
        .collect()
}

/// The laws, those first that have words of the bug in their names.
fn likely_first(bug: Bug) -> Vec<&'static Law> {
    let of_bug = words(&format!("{bug:?}"));
    let mut laws: Vec<_> = LAWS.iter().collect();
    laws.sort_by_cached_key(|law| {
        let of_law = words(law.name);
        let is_long = LONG.iter().any(|word| law.name.contains(word));
        (is_long, Reverse(of_bug.intersection(&of_law).count()))
    });
    laws
}

#[test]
fn every_injected_bug_is_found() {
    for bug in Bug::ALL {
        // Only an engine that writes can answer before it has written.
        if bug == Bug::AckBeforeWrite {
            continue;
        }
        let found = find(bug, likely_first(bug), Memory);
        let broken = found.unwrap_or_else(|| panic!("no law finds {bug:?}"));
        println!("{bug:?} breaks {broken}");
    }
    let is_history = |law: &&Law| law.name == "named_histories::random_limits_agree_with_a_model";
    let alone = find(Bug::NewestAsked, LAWS.iter().filter(is_history), Memory);
    assert!(
        alone.is_some(),
        "histories find what a full limit does wrong"
    );
}
