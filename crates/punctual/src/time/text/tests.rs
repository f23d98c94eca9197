//! Unit tests of `time::text`.

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

#[test]
fn spans_over_a_day_are_written_with_days() {
    assert_eq!(exact_span(minutes(25 * 60)), "1d1h");
    assert_eq!(exact_span(minutes(30 * 24 * 60 + 1)), "30d1m");
    assert_eq!(exact_span(Duration::from_micros(86_400_000_001)), "1d1us");
}

#[test]
fn instants_without_a_zone_are_read_and_written_in_the_local_one() {
    let zone = TimeZone::posix("XST-8").expect("a zone eight hours east");
    let at = "2026-12-01T00:00:00Z".parse().expect("an instant");
    for text in [
        "2026-12-01 08:00",
        "2026-12-01T08:00:00",
        "2026-12-01T01:00:00+01:00",
    ] {
        assert_eq!(parse_in(text, &zone).ok(), Some(at), "{text}");
    }
    assert_eq!(format_in(at, &zone), "2026-12-01T08:00:00+08:00");
    assert_eq!(format_in(at, &TimeZone::UTC), "2026-12-01T00:00:00Z");
    for text in [
        "tomorrow",
        "08:00",
        "2026-13-01 08:00",
        "1969-01-01 08:00",
        "",
    ] {
        assert!(parse_in(text, &zone).is_err(), "{text}");
    }
}

#[test]
fn local_times_that_clocks_skip_or_repeat_are_one_instant() {
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone with summer time");
    let read = |text: &str| parse_in(text, &zone).expect("an instant").to_string();
    assert_eq!(read("2026-03-29 02:30"), "2026-03-29T01:30:00Z", "skipped");
    assert_eq!(
        read("2026-10-25 02:30"),
        "2026-10-25T00:30:00Z",
        "the first of two"
    );
}
