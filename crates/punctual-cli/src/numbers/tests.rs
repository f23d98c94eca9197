//! Unit tests of `numbers`.

use super::*;

#[test]
fn a_whole_number_is_of_its_range() {
    assert_eq!(whole::<u32>("7", 1..=100), Ok(7));
    for text in ["", "-1", "0", "101", "1.5", "seven", "7 ", "٣", "1e2"] {
        let refused = whole::<u32>(text, 1..=100).expect_err(text);
        assert_eq!(refused, "use a whole number from 1 to 100");
    }
    let refused = whole::<u64>("18446744073709551616", 1..=u64::MAX);
    assert_eq!(refused, Err("use a whole number of 1 or more".to_owned()));
    let refused = whole::<u8>("300", 0..=u64::MAX);
    assert!(refused.is_err(), "it does not fit");
}

#[test]
fn what_parsers_say_is_put_in_words() {
    let option = "error: invalid value 'x' for '--limit <N>'";
    for (reported, words) in [
        ("invalid digit found in string", "use a whole number"),
        (
            "number too large to fit in target type",
            "use a smaller number",
        ),
        ("0 is not in 1..=100", "use 1 to 100"),
        ("0 is not in 1..", "use 1 or more"),
        ("100 is not in ..=99", "use at most 99"),
    ] {
        let help = "\n\nFor more information, try '--help'.";
        let message = format!("{option}: {reported}{help}");
        assert_eq!(in_words(&message), format!("{option}: {words}{help}"));
        assert_eq!(in_words(reported), words);
    }
    let other = "error: unexpected argument 'x' found";
    assert_eq!(in_words(other), other);
}
