//! What an answer means for the job.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{HeaderMap, LOCATION, RETRY_AFTER};
use punctual::time::{Timestamp, days, seconds};
use punctual::worker::Verdict;

use crate::exchange::Answer;

/// A `Retry-After` is obeyed from here ..
const RETRY_AFTER_MIN: Duration = seconds(1);
/// .. to here.
const RETRY_AFTER_MAX: Duration = days(1);
/// Characters of a location or body in an error.
const SHOWN_MAX: usize = 1_024;

/// The verdict of an answer, and whether the host is well.
///
/// | status | outcome |
/// | --- | --- |
/// | 2xx | completed |
/// | 410 | dead |
/// | all else | retry: after `Retry-After` if there is one, else by the job's policy |
pub(crate) fn verdict(answer: Answer, now: Timestamp) -> (Verdict, bool) {
    let status = answer.status;
    let is_well = !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS;
    if status.is_success() {
        let verdict = Verdict::completed();
        let body = answer.body.filter(|body| !body.is_empty());
        return match body {
            Some(body) => (verdict.result(body), is_well),
            None => (verdict, is_well),
        };
    }
    if status.is_redirection() {
        let location = answer.headers.get(LOCATION);
        let location = location.map(|value| shown(value.as_bytes()));
        let mut text = format!(
            "target_redirect_refused: target answered {}, and redirects are not followed",
            status.as_u16()
        );
        if let Some(location) = location {
            text += &format!("; use {location} as the target if that is intended");
        }
        return (Verdict::retry(text), is_well);
    }
    let mut text = format!("target answered {status}");
    let said = shown(&answer.start);
    if !said.is_empty() {
        text += ": ";
        text += &said;
    }
    if status == StatusCode::GONE {
        return (Verdict::dead(text), is_well);
    }
    let verdict = Verdict::retry(text);
    match retry_after(&answer.headers, now) {
        Some(span) => (verdict.after(span), is_well),
        None => (verdict, is_well),
    }
}

/// The span that a target asks for, in seconds or as a date, within bounds.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let span = if text.bytes().all(|c| c.is_ascii_digit()) && !text.is_empty() {
        // More digits than fit mean a very long time.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let at = httpdate::parse_http_date(text).ok()?;
        let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
        let at = Timestamp::from_micros(u64::try_from(since.as_micros()).ok()?);
        at.since(now)
    };
    Some(span.clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX))
}

/// Text of others, fit for a line of a log.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(plain).take(SHOWN_MAX).collect();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests;
