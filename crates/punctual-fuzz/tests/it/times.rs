//! Fuzzes texts of spans and instants.

use punctual::time::{Timestamp, exact_span, parse_span};
use punctual_fuzz::fuzz;

/// What is read as a span or an instant is written and read again as the same.
#[test]
fn texts_of_time_are_read_or_refused() {
    let texts = [
        "90s",
        "1h30m",
        "2d",
        "1.5h",
        "100us",
        "7w",
        "PT5M",
        "0s",
        "250ms",
        "5",
        "2026-11-21T10:00:00Z",
        "2026-11-21T10:00:00.000001+02:00",
        "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "2024-02-29T12:00:00-11:30",
    ];
    let seeds = texts.map(|text| text.as_bytes().to_vec()).to_vec();
    let ran = fuzz("times", seeds, 40_000, |input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return;
        };
        if let Ok(span) = parse_span(text) {
            let written = exact_span(span);
            assert_eq!(
                parse_span(&written).ok(),
                Some(span),
                "{text:?} as {written:?}"
            );
        }
        if let Ok(instant) = text.parse::<Timestamp>() {
            let written = instant.to_string();
            assert_eq!(
                written.parse().ok(),
                Some(instant),
                "{text:?} as {written:?}"
            );
        }
    });
    println!("{ran:?}");
}
