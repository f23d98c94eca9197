//! The memory engine and the reference model do the same, step by step.

use std::ops::Range;

use punctual::conformance::{Histories, check_histories};

use crate::conformance::harness::Memory;

#[test]
fn memory_engine_agrees_with_the_model() {
    check_histories(Memory, of(0..8).or_from_env());
}

#[test]
fn memory_engine_agrees_with_the_model_on_more_seeds() {
    check_histories(Memory, of(8..60).or_from_env());
}

fn of(seeds: Range<u64>) -> Histories {
    Histories {
        seeds,
        ..Histories::default()
    }
}
