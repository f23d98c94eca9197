//! Unit tests of `output::text`.

use super::*;
use punctual::time::{minutes, seconds};

#[test]
fn hostile_characters_are_escaped_and_the_rest_is_left() {
    assert_eq!(plain("order 7 · 订单"), "order 7 · 订单");
    assert_eq!(plain("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
    assert_eq!(plain("a\nb\tc\r"), "a\\nb\\tc\\r");
    assert_eq!(
        plain("x\u{202e}y\u{9b}z\u{7f}"),
        "x\\u{202e}y\\u{9b}z\\u{7f}"
    );
}

#[test]
fn json_stays_json_once_it_is_made_safe() {
    let hostile = "{\"a\":\"x\u{202e}\u{9b}y\",\n\"b\": 1}";
    let safe = json_for_terminal(hostile);
    assert!(!safe.chars().any(is_hostile));
    let read: serde_json::Value = serde_json::from_str(&safe).expect("still JSON");
    assert_eq!(read["a"], "x\u{202e}\u{9b}y");
    assert_eq!(read["b"], 1);
}

#[test]
fn instants_are_shown_against_now() {
    let now = Timestamp::from_millis(1_000_000);
    assert_eq!(ago(now + minutes(90), now), "in 1h30m");
    assert_eq!(ago(Timestamp::from_millis(985_500), now), "14s ago");
    assert_eq!(ago(now + seconds(2), now), "in 2s");
    assert_eq!(ago(now, now), "now");
}

#[test]
fn counts_have_their_thousands_apart() {
    assert_eq!(count(0), "0");
    assert_eq!(count(999), "999");
    assert_eq!(count(1_000), "1,000");
    assert_eq!(count(12_345_678), "12,345,678");
    assert_eq!(counted(1, "job"), "1 job");
    assert_eq!(counted(2_000, "job"), "2,000 jobs");
}

#[test]
fn every_value_stands_in_one_bar() {
    let mut histogram = Histogram::new();
    for micros in [0, 499, 500, 1_999, 4_000, 9_999, 49_000, 900_000, 5_000_000] {
        histogram.record(micros);
    }
    let counted: u64 = histogram
        .bars(20)
        .iter()
        .map(|line| line[14..21].trim().parse::<u64>().expect("a count"))
        .sum();
    assert_eq!(counted, 9);
    assert_eq!(histogram.len(), 9);
}

#[test]
fn long_text_is_cut_by_characters() {
    assert_eq!(cut("订单订单", 3), "订单…");
    assert_eq!(cut("abc", 3), "abc");
}
