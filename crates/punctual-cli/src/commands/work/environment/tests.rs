//! Unit tests of `commands::work::environment`.

use std::ffi::OsString;

use super::{header_variables, hidden, json};

fn headers(names: &[&str]) -> Vec<(String, String)> {
    let value = |name: &&str| ((*name).to_owned(), format!("value of {name}"));
    names.iter().map(value).collect()
}

#[test]
fn headers_that_share_a_variable_are_numbered_and_none_is_lost() {
    let headers = headers(&["a_b_2", "a_b", "trace-id", "A-B", "a.b", "a-b"]);
    let variables = header_variables(&headers);
    let reported = |name: &str| {
        let found = variables.iter().find(|(variable, _)| variable == name);
        found.map(|(_, value)| value.strip_prefix("value of ").expect("a value"))
    };
    assert_eq!(reported("HEADER_TRACE_ID"), Some("trace-id"));
    assert_eq!(reported("HEADER_A_B"), Some("A-B"));
    assert_eq!(reported("HEADER_A_B_2"), Some("a_b_2"));
    assert_eq!(reported("HEADER_A_B_3"), Some("a-b"));
    assert_eq!(reported("HEADER_A_B_4"), Some("a.b"));
    assert_eq!(reported("HEADER_A_B_5"), Some("a_b"));
    assert_eq!(variables.len(), headers.len());
}

#[test]
fn headers_are_one_document_by_their_own_names() {
    let headers = headers(&["a_b", "a-b"]);
    assert_eq!(
        json(&headers),
        r#"{"a-b":"value of a-b","a_b":"value of a_b"}"#
    );
}

#[test]
fn only_variables_that_hold_no_secret_of_ours_are_inherited() {
    let hidden = |name: &str, value: &str| {
        let pair = (OsString::from(name), OsString::from(value));
        !hidden([pair].into_iter()).is_empty()
    };
    for name in ["PUNCTUAL_TOKEN", "PUNCTUAL_PUSH_SECRET", "PUNCTUAL_LATER"] {
        assert!(hidden(name, "x"), "{name}");
    }
    assert!(!hidden("PUNCTUAL_LOG", "info"));
    assert!(!hidden("PATH", "/bin"));
    assert!(!hidden("PUNCTUAL_ENGINE", "redis://localhost"));
    assert!(hidden("PUNCTUAL_ENGINE", "redis://:secret@localhost"));
    let sentinels = "redis+sentinel://h/main?sentinel_password=x";
    assert!(hidden("PUNCTUAL_ENGINE", sentinels));
}
