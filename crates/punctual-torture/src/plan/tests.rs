//! Unit tests of `plan`.

use super::{REST_MILLIS, plan, quiet_periods};
use crate::cell::CellKind;

fn cells() -> Vec<CellKind> {
    let named = |name| CellKind::named(name).expect("it is a name of cells");
    [named("all"), named("lossy")].concat()
}

#[test]
fn quiet_periods_have_no_faults_and_end_each_long_round() {
    for seconds in [15, 24, 30, 42, 45, 60] {
        let spans = seconds * 1_000;
        let quiet_periods = quiet_periods(spans);
        assert_eq!(
            quiet_periods.last(),
            Some(&(spans - REST_MILLIS)),
            "{seconds} s"
        );
        for cell in cells() {
            let plan = plan(7, cell, 0, spans);
            assert!(!plan.is_empty(), "{cell:?}, {seconds} s");
            for fault in &plan {
                let holds_in = |rest: &&u64| {
                    fault.at < **rest + REST_MILLIS && fault.at + fault.holds > **rest
                };
                let rest = quiet_periods.iter().find(holds_in);
                assert_eq!(rest, None, "{cell:?}, {seconds} s: {fault}");
            }
        }
    }
}

#[test]
fn from_rest_to_rest_it_is_about_twenty_seconds() {
    assert_eq!(quiet_periods(42_000), [15_000, 36_000]);
    assert_eq!(quiet_periods(45_000), [16_500, 39_000]);
    assert_eq!(quiet_periods(24_000), [18_000]);
    assert_eq!(quiet_periods(14_999), [0; 0]);
}
