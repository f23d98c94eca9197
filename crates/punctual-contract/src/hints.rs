//! What fields of JSON take, in the words of a hint: an error about one ends with `use ..`.

use crate::fields::{Field, SENT};

/// What a property of JSON takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Any JSON: no value is of the wrong form.
    Any,
    /// A string.
    Text,
    /// Strings.
    Texts,
    /// The name of a queue or a kind.
    Name,
    /// Printable text of 1 to 256 bytes.
    Key,
    /// The id of a job.
    Id,
    /// A span.
    Span,
    /// An instant.
    Instant,
    /// An integer within the bounds of the field.
    Integer,
    /// What the words say.
    Form(&'static str),
}

impl Takes {
    /// The words behind `use`; none for [`Takes::Any`]. `bounds` are those of an integer.
    pub fn words(self, bounds: &str) -> Option<String> {
        let words = match self {
            Self::Any => return None,
            Self::Text => "a string",
            Self::Texts => "an array of strings",
            Self::Name => "1 to 128 of a-z A-Z 0-9 . _ - : /",
            Self::Key => "a string of 1 to 256 bytes",
            Self::Id => "a UUID such as \"01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a\"",
            Self::Span => "a span such as \"30s\" or \"1h30m\"",
            Self::Instant => "an instant such as \"2026-11-21T10:00:00Z\"",
            Self::Integer => return Some(format!("an integer from {bounds}")),
            Self::Form(words) => words,
        };
        Some(words.to_owned())
    }
}

/// Properties of requests that are no field of a job.
pub const OTHERS: &[(&[&str], Takes)] = &[
    (
        &["job"],
        Takes::Form("an object: a job, such as {\"kind\": \"mail\", \"payload\": {\"order\": 7}}"),
    ),
    (&["ids", "jobs"], Takes::Form("an array of UUIDs")),
    (&["key"], Takes::Form("the unique key of a job")),
    (&["name"], Takes::Form("a string, such as \"order-7\"")),
    (
        &["steps"],
        Takes::Form(
            "an array of {\"name\", \"job\", \"after\"}, or to seal a flow the number of them",
        ),
    ),
    (
        &["steps.after"],
        Takes::Form(
            "an array of names of steps, or of {\"step\" or \"job\", \"on\": \"completed\", \"failed\" or \"settled\"}",
        ),
    ),
    (&["on"], Takes::Form("completed, failed or settled")),
    (&["step"], Takes::Form("a string: the name of a step")),
    (
        &["subject"],
        Takes::Form("a string, such as \"orders.eu.paid\""),
    ),
    (
        &["pattern"],
        Takes::Form("a string, such as \"orders.*.paid\""),
    ),
    (&["source"], Takes::Form("step, signal or timed_out")),
    (
        &["unique.policy"],
        Takes::Form("keep, replace, after or refresh"),
    ),
    (
        &["retry.policy"],
        Takes::Form("exponential, linear, fixed or list"),
    ),
    (
        &["from"],
        Takes::Form("a string: the instant of a backfill, or the step of a retry"),
    ),
    (&["on_retry"], Takes::Form("hold or pass")),
    (
        &["hold"],
        Takes::Form("settled, started or a span such as \"30m\""),
    ),
    (
        &["when_full"],
        Takes::Form("wait, refuse or cancel_running"),
    ),
    (
        &["schedule"],
        Takes::Form("an object: a schedule, or the run of one"),
    ),
    (
        &["overlap"],
        Takes::Form("skip, buffer_one, buffer_all, cancel_other or allow"),
    ),
    (&["missed"], Takes::Form("latest, all or skip")),
    (&["gap"], Takes::Form("end, shift or skip")),
    (&["fold"], Takes::Form("first, last or both")),
    (
        &["settlements"],
        Takes::Form("an array of {\"id\", \"attempt\", \"outcome\"}"),
    ),
    (
        &["on_failure"],
        Takes::Form("cancel_dependants, cancel_rest or continue"),
    ),
    (
        &["queues"],
        Takes::Form("an array of 1 to 64 names of queues"),
    ),
    (&["kinds"], Takes::Texts),
    (
        &[
            "lease_duration",
            "wait",
            "stats",
            "span",
            "per",
            "base",
            "cap",
            "max_wait",
            "older_than",
            "expect_within",
        ],
        Takes::Span,
    ),
    (&["due_from", "due_before", "now"], Takes::Instant),
    (
        &["reprioritise"],
        Takes::Form("an integer from 0 (first) to 9 (last)"),
    ),
    (&["limit"], Takes::Form("an integer from 1 to 1000")),
    (
        &["rate"],
        Takes::Form("{\"starts\", \"per\", \"kind\": \"window\" or \"smooth\", \"burst\"}"),
    ),
    (
        &["concurrency", "starts"],
        Takes::Form("an integer from 1 to 1000000"),
    ),
    (
        &["outcome"],
        Takes::Form("completed, retry, snooze, cancelled, dead, released or hold"),
    ),
    (&["order"], Takes::Form("strict or turns")),
    (&["on_full"], Takes::Form("refuse or dead_letter_oldest")),
    (&["dry_run"], Takes::Form("true or false")),
    (
        &["version"],
        Takes::Form("an integer: the version that was read, 0 if there was none"),
    ),
    (&["nonce"], Takes::Form("16 hexadecimal digits")),
    (&["token"], Takes::Form("the token as it was returned")),
    (
        &["action"],
        Takes::Form(
            "\"cancel\", \"run_now\", \"redrive\", \"delete\", {\"reschedule\": {\"delay\"}}, {\"reprioritise\": 0 to 9}, {\"update_payload\": {\"payload\"}} or {\"signal\": {\"name\", \"payload\"}}",
        ),
    ),
    (
        &["targets"],
        Takes::Form("an array of {\"id\"} or {\"queue\", \"unique\"}"),
    ),
    (
        &["effects"],
        Takes::Form("an array of objects with one of enqueue, clear, cancel, signal, publish"),
    ),
    (
        &["attempt", "slots", "busy"],
        Takes::Form("an integer from 0 to 4294967295"),
    ),
    (
        &["lateness_us", "run_time_us"],
        Takes::Form("an array of integers in microseconds"),
    ),
];

/// Every property with its words, fields of a job first.
pub fn all() -> Vec<(&'static str, String)> {
    let sent = SENT.iter().flat_map(|field: &Field| {
        let each = field.json.iter().zip(field.takes);
        each.map(|(name, takes)| (*name, takes.words(field.bounds)))
    });
    let others = OTHERS
        .iter()
        .flat_map(|(names, takes)| names.iter().map(|name| (*name, takes.words(""))));
    let named = sent.chain(others);
    named
        .filter_map(|(name, words)| Some((name, words?)))
        .collect()
}
