use super::*;
use crate::time::{millis, minutes};

#[test]
fn every_instant_up_to_the_last_is_read_back_as_it_was_written() {
    let last = Timestamp::MAX.as_micros();
    for back in [
        0,
        1,
        999_999,
        3_600_000_000,
        79_200_000_000,
        200_000_000_000,
    ] {
        let at = Timestamp::from_micros(last - back);
        assert_eq!(at.to_string().parse::<Timestamp>().ok(), Some(at), "{at}");
    }
    assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999999Z");
    let late = "10000-01-01T00:00:00Z".parse::<Timestamp>();
    let error = late.expect_err("it is later than that");
    assert!(
        error.message().contains("until 9999-12-31T23:59:59Z"),
        "{error}"
    );
}

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
