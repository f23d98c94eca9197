//! Subjects and patterns: tokens between dots; `*` is one token, `>` at the end one or more.

use crate::error::{Error, ErrorKind, Result};
use crate::job::shown;

/// Bytes of a subject or a pattern.
const BYTES_MAX: usize = 256;
/// Tokens of a subject or a pattern.
const TOKENS_MAX: usize = 32;

/// Checks a subject: 1 to 32 tokens between dots, of printable characters but `*`, `>` and `#`.
///
/// ```
/// use punctual::topic::check_subject;
///
/// assert!(check_subject("orders.eu.paid").is_ok());
/// assert!(check_subject("orders..paid").is_err());
/// assert!(check_subject("orders.*").is_err());
/// ```
pub fn check_subject(subject: &str) -> Result<()> {
    check(
        "subject",
        subject,
        |_, _| "has a wildcard; `*`, `>` and `#` belong into the patterns of subscriptions",
    )
}

/// Checks a pattern: a subject in which a token may be `*`, and the last one `>` or `#`.
pub fn check_pattern(pattern: &str) -> Result<()> {
    check("pattern", pattern, |token, is_last| match token {
        "*" => "",
        ">" | "#" if is_last => "",
        ">" | "#" => "has `>` before its end; use `*` for one token, `>` for all that follow",
        _ => "has a wildcard within a token; a wildcard is a token of its own",
    })
}

fn check(what: &str, text: &str, wildcard: impl Fn(&str, bool) -> &'static str) -> Result<()> {
    let refuse = |wrong: &str| {
        let message = format!("{what} {wrong}");
        Err(Error::new(ErrorKind::InvalidInput, message).with("text", shown(text)))
    };
    if text.is_empty() || text.len() > BYTES_MAX {
        return refuse("is empty or too long; use 1 to 256 bytes, such as orders.eu.paid");
    }
    let tokens: Vec<&str> = text.split('.').collect();
    if tokens.len() > TOKENS_MAX {
        return refuse("has too many tokens; use at most 32");
    }
    for (nth, token) in tokens.iter().enumerate() {
        if token.is_empty() {
            return refuse("has an empty token; put something between its dots");
        }
        if token.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return refuse("has a space or a control character; use printable characters");
        }
        if token.contains(['*', '>', '#']) {
            match wildcard(token, nth + 1 == tokens.len()) {
                "" => {}
                wrong => return refuse(wrong),
            }
        }
    }
    Ok(())
}

/// The pattern with `>` at its end where it has `#`.
pub(super) fn canonical(mut pattern: String) -> String {
    if pattern == "#" || pattern.ends_with(".#") {
        pattern.pop();
        pattern.push('>');
    }
    pattern
}
