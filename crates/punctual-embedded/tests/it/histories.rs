//! Seeded histories with crashes, against the reference model.

use std::ops::Range;

use punctual::conformance::{Histories, check_histories};

use crate::harness::Forgetful;

#[test]
fn embedded_engine_agrees_with_the_model_over_crashes() {
    check_histories(Forgetful, over_crashes(0..4).or_from_env());
}

#[test]
fn embedded_engine_agrees_with_the_model_on_more_seeds() {
    check_histories(Forgetful, over_crashes(4..30).or_from_env());
}

fn over_crashes(seeds: Range<u64>) -> Histories {
    Histories {
        seeds,
        durable: true,
        ..Histories::default()
    }
}
