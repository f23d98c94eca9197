//! Unit tests of `decode`.

use serde_json::json;

use super::*;
use crate::JobJson;

fn reported(text: &str) -> (String, Option<String>) {
    let unread = read::<JobJson>(text.as_bytes()).expect_err(text);
    (unread.message, unread.hint)
}

#[test]
fn an_error_names_the_field_its_value_and_what_it_takes() {
    let rows = [
        (
            r#"{"priority":300}"#,
            "priority is 300",
            "from 0 (first) to 9 (last)",
        ),
        (r#"{"priority":"high"}"#, "priority is \"high\"", "from 0"),
        (
            r#"{"max_attempts":-1}"#,
            "max_attempts is -1",
            "from 1 to 4294967295",
        ),
        (r#"{"delay":5}"#, "delay is 5", "such as \"30s\""),
        (
            r#"{"delay":"5 minutes"}"#,
            "delay is \"5 minutes\": not a span",
            "a unit of d, h",
        ),
        (
            r#"{"at":"1960-01-01T00:00:00Z"}"#,
            "at is \"1960-01-01T00:00:00Z\": instant lies before 1970",
            "",
        ),
        (
            r#"{"headers":{"a":[]}}"#,
            "headers.a is an array",
            "a string",
        ),
        (
            r#"{"unique":{"key":"k","policy":"x"}}"#,
            "unique.policy is \"x\"",
            "keep, replace",
        ),
        (
            r#"{"retry":{"policy":"fixed","span":5,"jitter":true}}"#,
            "retry.span is 5",
            "such as \"30s\"",
        ),
        (
            r#"{"retry":{"policy":"fixed","span":"5s"}}"#,
            "retry.jitter is missing",
            "",
        ),
        (
            r#"{"wait_for":[1]}"#,
            "wait_for[0] is 1",
            "an array of strings",
        ),
        (r#"{"queue":null,"queue":"a"}"#, "queue appears twice", ""),
        ("[1]", "the input is an array", "an object"),
        (
            r#""of a secret payload""#,
            "the input is a text",
            "an object",
        ),
    ];
    for (text, message, hint) in rows {
        let (is, use_of) = reported(text);
        assert!(is.starts_with(message), "{text}: {is}");
        let use_of = use_of.unwrap_or_default();
        assert!(use_of.contains(hint), "{text}: {is}; {use_of}");
    }
    let (message, hint) = reported(r#"{"dealy":"5m"}"#);
    assert_eq!(message, "unknown field `dealy`");
    let hint = hint.expect("those that are known");
    assert!(
        hint.starts_with("use id, queue") && hint.ends_with("wait_for, after"),
        "{hint}"
    );
}

#[test]
fn a_job_is_an_object_or_where_it_is_waited_for_an_id() {
    use crate::json::topic::MessageLine;
    for text in [r#"{"subject":"a"}"#, r#"{"subject":"a","job":"7"}"#] {
        let unread = read::<MessageLine>(text.as_bytes()).expect_err(text);
        let hint = unread.hint.unwrap_or_default();
        assert!(hint.starts_with("use an object: a job"), "{text}: {hint}");
    }
    for text in [r#"{"after":[{}]}"#, r#"{"after":[{"job":7}]}"#] {
        let (message, hint) = reported(text);
        let hint = hint.unwrap_or_default();
        assert!(message.starts_with("after[0].job"), "{text}: {message}");
        assert!(hint.starts_with("use a UUID"), "{text}: {hint}");
    }
}

#[test]
fn input_is_shown_in_64_visible_characters() {
    let long = "a\u{202e}\n\"`, expected `".repeat(1_000);
    for text in [
        json!({"priority": long.as_str()}).to_string(),
        json!({long.as_str(): 1}).to_string(),
        json!({"headers": {long.as_str(): 1}}).to_string(),
        json!({"retry": {"policy": long.as_str()}}).to_string(),
        json!({"delay": long.as_str()}).to_string(),
        json!(long.as_str()).to_string(),
    ] {
        let (message, _) = reported(&text);
        assert!(message.chars().count() < 200, "{message}");
        assert!(
            !message.chars().any(|c| c.is_control() || c == '\u{202e}'),
            "{message:?}"
        );
    }
}

/// A field of the contract gets its hint from there.
#[test]
fn hints_of_a_job_are_those_of_the_contract() {
    use punctual_contract::fields::SENT;
    use punctual_contract::hints::Takes;
    for field in SENT {
        assert_eq!(field.json.len(), field.takes.len(), "{}", field.name);
        for (name, takes) in field.json.iter().zip(field.takes) {
            let Some(words) = takes.words(field.bounds) else {
                assert_eq!(*takes, Takes::Any, "{name}");
                continue;
            };
            let wrong = match takes {
                Takes::Integer => "\"x\"",
                Takes::Form(_) => "true",
                _ => "[7]",
            };
            let text = format!("{{\"{name}\":{wrong}}}");
            let (message, hint) = reported(&text);
            assert!(message.starts_with(name), "{text}: {message}");
            assert_eq!(hint, Some(format!("use {words}")), "{text}");
        }
    }
}
