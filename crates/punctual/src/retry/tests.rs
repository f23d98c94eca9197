//! Unit tests of `retry`.

use super::*;
use crate::time::{days, hours, seconds};
use crate::time::{millis, minutes};

fn id(n: u128) -> JobId {
    JobId::from_bytes(n.to_be_bytes())
}

#[test]
fn exponential_doubles_to_its_cap() {
    let policy = RetryPolicy::Exponential {
        base: seconds(1),
        factor: 2.0,
        cap: seconds(10),
        jitter: false,
    };
    let spans: Vec<_> = (1..=6).map(|n| policy.span(id(7), n).as_secs()).collect();
    assert_eq!(spans, [1, 2, 4, 8, 10, 10]);
}

#[test]
fn linear_grows_by_its_base() {
    let policy = RetryPolicy::Linear {
        base: seconds(3),
        cap: seconds(10),
        jitter: false,
    };
    let spans: Vec<_> = (1..=4).map(|n| policy.span(id(7), n).as_secs()).collect();
    assert_eq!(spans, [3, 6, 9, 10]);
}

#[test]
fn jitter_spreads_evenly_and_repeats() {
    let policy = RetryPolicy::Fixed {
        span: minutes(1),
        jitter: true,
    };
    let spans: Vec<_> = (0..10_000).map(|n| policy.span(id(n), 1)).collect();
    let mean = spans.iter().map(|s| s.as_secs_f64()).sum::<f64>() / 10_000.0;
    assert!(
        (29.0..31.0).contains(&mean),
        "mean of an even draw from 60 s is 30 s, not {mean}"
    );
    assert!(spans.iter().all(|s| *s < minutes(1)));
    assert_eq!(policy.span(id(5), 1), policy.span(id(5), 1));
    assert_ne!(policy.span(id(5), 1), policy.span(id(5), 2));
}

#[test]
fn a_huge_number_of_failures_ends_at_the_cap() {
    let policy = RetryPolicy::Exponential {
        base: millis(1),
        factor: 1.0,
        cap: hours(1),
        jitter: false,
    };
    assert_eq!(policy.span(id(1), u32::MAX), millis(1));
    let policy = RetryPolicy::Exponential {
        base: millis(1),
        factor: 1.5,
        cap: days(80),
        jitter: false,
    };
    assert_eq!(policy.span(id(1), u32::MAX), days(80));
}

#[test]
fn ranges_are_checked() {
    for policy in [
        RetryPolicy::List(vec![]),
        RetryPolicy::List(vec![days(91)]),
        RetryPolicy::fixed(days(91)),
        RetryPolicy::Exponential {
            base: seconds(1),
            factor: 0.5,
            cap: hours(1),
            jitter: true,
        },
        RetryPolicy::Exponential {
            base: seconds(1),
            factor: f64::NAN,
            cap: hours(1),
            jitter: true,
        },
    ] {
        assert!(policy.check().is_err(), "{policy:?}");
    }
}

/// Goal: every engine computes the same instants. Method: a table that engines in other languages
/// read too; `docs/vectors/retry.tsv` says what its columns are.
#[test]
fn spans_are_those_of_the_shared_vectors() {
    let table = include_str!("../../../../docs/vectors/retry.tsv");
    let mut rows = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.split('\t').collect();
        let [policy, id, failures, span_ms] = fields[..] else {
            panic!("a row has four columns: {line}");
        };
        let policy = vector_policy(policy);
        let id = id.parse().unwrap();
        let span = policy.span(id, failures.parse().unwrap());
        assert_eq!(span.as_millis().to_string(), span_ms, "{line}");
        rows += 1;
    }
    assert!(rows >= 60, "the table has {rows} rows");
}

/// `exponential base factor cap jitter`, `fixed span jitter`, `linear base cap jitter`, `list
/// span...`.
fn vector_policy(text: &str) -> RetryPolicy {
    let words: Vec<_> = text.split(' ').collect();
    let ms = |n: usize| millis(words[n].parse().unwrap());
    let jitter = words.last() == Some(&"jitter");
    match words[0] {
        "exponential" => RetryPolicy::Exponential {
            base: ms(1),
            factor: words[2].parse().unwrap(),
            cap: ms(3),
            jitter,
        },
        "fixed" => RetryPolicy::Fixed {
            span: ms(1),
            jitter,
        },
        "linear" => RetryPolicy::Linear {
            base: ms(1),
            cap: ms(2),
            jitter,
        },
        "list" => RetryPolicy::List((1..words.len()).map(ms).collect()),
        other => panic!("no such policy: {other}"),
    }
}
