//! The suite is proved: every injected bug is found, and without one nothing is.
//!
//! A binary of its own with one test, because an injected bug is in every engine of the process.

#[path = "../it/conformance/harness.rs"]
mod harness;

use harness::Memory;
use punctual::conformance::{LAWS, Law, find, first_broken};
use punctual::injected::Bug;
use punctual::time::Stopwatch;

/// The laws, the quick ones first: each bug has all those before the one that finds it run. Without
/// a bug all hold.
fn quick_first() -> Vec<&'static Law> {
    let mut laws: Vec<_> = (LAWS.iter())
        .map(|law| {
            let watch = Stopwatch::start();
            let broken = first_broken([law], Memory);
            assert_eq!(broken, None, "an engine without a bug breaks no law");
            (watch.elapsed(), law)
        })
        .collect();
    laws.sort_by_key(|(took, _)| *took);
    laws.into_iter().map(|(_, law)| law).collect()
}

#[test]
fn every_injected_bug_is_found() {
    let laws = quick_first();
    for bug in Bug::ALL {
        // Only an engine that writes can answer before it has written.
        if bug == Bug::AckBeforeWrite {
            continue;
        }
        let found = find(bug, laws.iter().copied(), Memory);
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
