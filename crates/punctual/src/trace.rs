//! What headers say of where a job comes from: its W3C trace context, shown by its span and passed
//! on to what it brings about, and the job that caused it.

use std::borrow::Cow;

use crate::job::{JobId, NewJob, PARENT_HEADER};

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

type Headers = [(String, String)];

/// The trace that headers belong to: their one `traceparent`, in any case, if it is well formed.
pub fn parent(headers: &Headers) -> Option<&str> {
    let mut named = values(headers, PARENT);
    // Of several none is the right one.
    let only = named.next().filter(|_| named.next().is_none())?;
    is_parent(only).then_some(only)
}

/// The headers whose trace follow-ups go on with: under the attempt's own span, if a subscriber
/// records it.
pub(crate) fn cause(headers: &Headers) -> Cow<'_, Headers> {
    #[cfg(feature = "otel")]
    if let Some(parent) = crate::otel::parent_under(&tracing::Span::current()) {
        let others = headers
            .iter()
            .filter(|(name, _)| !name.eq_ignore_ascii_case(PARENT));
        let own = (PARENT.to_owned(), parent);
        return others.cloned().chain([own]).collect();
    }
    Cow::Borrowed(headers)
}

/// Has a job go on with the trace of what causes it, unless it has a `traceparent` of its own.
///
/// `tracestate` comes along unless it has that. What would not fit into `header_bytes_max`
/// ([`Limits::header_bytes`](crate::Limits)) is left out: a job is worth more than its trace.
pub fn inherit(cause: &Headers, job: &mut NewJob, header_bytes_max: usize) {
    let Some(parent) = parent(cause) else { return };
    if values(&job.headers, PARENT).next().is_some() {
        return;
    }
    let own_state = values(&job.headers, STATE).next().is_some();
    let mut bytes: usize = job.headers.iter().map(size).sum();
    let mut add = |name: &str, value: &str| {
        let header = (name.to_owned(), value.to_owned());
        bytes += size(&header);
        let fits = bytes <= header_bytes_max;
        if fits {
            job.headers.push(header);
        }
        fits
    };
    if add(PARENT, parent) && !own_state {
        // Several of them are one list, in their order.
        let _ = values(cause, STATE).all(|state| add(STATE, state));
    }
}

/// Names the job that brought a job about in its header [`PARENT_HEADER`], unless it has one. Left
/// out if it would not fit into `header_bytes_max`.
pub fn name_parent(by: JobId, job: &mut NewJob, header_bytes_max: usize) {
    if values(&job.headers, PARENT_HEADER).next().is_some() {
        return;
    }
    let header = (PARENT_HEADER.to_owned(), by.to_string());
    let bytes: usize = job.headers.iter().map(size).sum();
    if bytes + size(&header) <= header_bytes_max {
        job.headers.push(header);
    }
}

fn values<'a>(headers: &'a Headers, wanted: &str) -> impl Iterator<Item = &'a str> {
    let named = headers
        .iter()
        .filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
    named.map(|(_, value)| value.as_str())
}

fn size((name, value): &(String, String)) -> usize {
    name.len() + value.len()
}

/// `version-trace-parent-flags` in lower-case hex; later versions may go on after another dash.
fn is_parent(text: &str) -> bool {
    let Some(known) = text.get(..55) else {
        return false;
    };
    let parts: Vec<&str> = known.split('-').collect();
    let [version, trace, span, flags] = parts[..] else {
        return false;
    };
    let is_hex = |part: &str, digits: usize| {
        let digit = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        part.len() == digits && part.bytes().all(digit)
    };
    let names = |part: &str| part.bytes().any(|c| c != b'0');
    let ends = match version {
        "00" => text.len() == 55,
        "ff" => false,
        _ => text.len() == 55 || text.as_bytes()[55] == b'-',
    };
    ends && is_hex(version, 2)
        && is_hex(trace, 32)
        && is_hex(span, 16)
        && is_hex(flags, 2)
        && names(trace)
        && names(span)
}

#[cfg(test)]
mod tests;
