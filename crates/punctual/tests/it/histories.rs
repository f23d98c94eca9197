//! The memory engine and the reference model do the same, step by step.

use punctual::conformance::{Histories, check_histories};

use crate::conformance::harness::Memory;

#[test]
fn memory_engine_agrees_with_the_model() {
    check_histories(Memory, Histories::default().or_from_env());
}
