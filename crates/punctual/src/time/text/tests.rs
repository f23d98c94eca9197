use super::{exact_span, parse_span};
use crate::time::{millis, minutes};
use std::time::Duration;

#[test]
fn exact_spans_read_back_as_themselves() {
    for micros in [
        0,
        1,
        999,
        1_000,
        1_500_000,
        5_400_000_000,
        86_400_000_000,
        86_400_000_001,
    ] {
        let span = Duration::from_micros(micros);
        assert_eq!(parse_span(&exact_span(span)).expect("a span"), span);
    }
    assert_eq!(exact_span(minutes(30)), "30m");
    assert_eq!(exact_span(millis(1_500)), "1500ms");
}
