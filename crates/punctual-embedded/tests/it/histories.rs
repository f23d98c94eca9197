//! Seeded histories with crashes, against the reference model.

use punctual::conformance::{Histories, check_histories};

use crate::harness::Forgetful;

#[test]
fn embedded_engine_agrees_with_the_model_over_crashes() {
    let histories = Histories {
        seeds: 0..30,
        durable: true,
        ..Histories::default()
    };
    check_histories(Forgetful, histories.or_from_env());
}
