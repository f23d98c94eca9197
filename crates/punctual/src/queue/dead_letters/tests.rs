//! Tests of how errors become groups.

use super::*;

#[test]
fn errors_that_differ_in_numbers_and_ids_are_one() {
    let rows = [
        (
            "timeout after 30 ms",
            "timeout after # ms",
            Some("timeout after"),
        ),
        ("HTTP 503: busy", "HTTP #: busy", Some(": busy")),
        (
            "order 0f1e7c3e-8a51-4c3e-8000-3f0f4c1d2b7a is gone",
            "order # is gone",
            Some("is gone"),
        ),
        (
            "commit 9fceb02d0ae598e9 lost",
            "commit # lost",
            Some("commit"),
        ),
        (
            "panicked at src/main.rs:12:7",
            "panicked at src/main.rs:#:#",
            Some("panicked at src/main.rs:"),
        ),
        (
            "\n  first line 1\nsecond",
            "first line #",
            Some("first line"),
        ),
        ("12", "#", None),
        ("", "", None),
        ("é 7 ü", "é # ü", None),
        ("utf-8 is no x1y2", "utf-# is no x#y#", Some("is no x")),
    ];
    for (error, shape, search) in rows {
        let (reported, found) = shape_of(error);
        assert_eq!((&*reported, found.as_deref()), (shape, search), "{error}");
        assert!(found.is_none_or(|part| error.contains(&part)), "{error}");
    }
    let long = shape_of(&"é".repeat(1_000)).0;
    assert_eq!(long.chars().count(), ERROR_CHARS_MAX);
}
