//! The suite is proved: every injected bug is found, and without one nothing is.
//!
//! A binary of its own with one test, because an injected bug is in every engine of the process.

#[path = "../it/conformance/harness.rs"]
mod harness;

use harness::Memory;
use punctual::conformance::{LAWS, Law, find, first_broken};
use punctual::injected::Bug;

#[test]
fn every_injected_bug_is_found() {
    for bug in Bug::ALL {
        // Only an engine that writes can answer before it has written.
        if bug == Bug::AckBeforeWrite {
            continue;
        }
        let found = find(bug, LAWS, Memory);
        let broken = found.unwrap_or_else(|| panic!("no law finds {bug:?}"));
        println!("{bug:?} breaks {broken}");
    }
    let is_history = |law: &&Law| law.name == "named_histories::random_limits_agree_with_a_model";
    let alone = find(Bug::NewestAsked, LAWS.iter().filter(is_history), Memory);
    assert!(
        alone.is_some(),
        "histories find what a full limit does wrong"
    );
    let broken = first_broken(LAWS, Memory);
    assert_eq!(broken, None, "an engine without a bug breaks no law");
}
