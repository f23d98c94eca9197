//! The durable laws are proved: an answer before the write is found.
//!
//! A binary of its own with one test, because an injected bug is in every engine of the process.

// The other harness of that file is for the tests in directories.
#[allow(dead_code)]
#[path = "../it/harness.rs"]
mod harness;

use harness::Forgetful;
use punctual::conformance::{DURABLE_LAWS, find, first_broken};
use punctual::injected::Bug;

#[test]
fn injected_answer_before_the_write_is_found() {
    let found = find(Bug::AckBeforeWrite, DURABLE_LAWS, Forgetful);
    let broken = found.expect("a durable law finds it");
    println!("{:?} breaks {broken}", Bug::AckBeforeWrite);
    let broken = first_broken(DURABLE_LAWS, Forgetful);
    assert_eq!(broken, None, "an engine without a bug breaks no law");
}
