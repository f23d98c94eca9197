//! Text for a terminal: hostile characters escaped, spans and counts as people say them.

use std::borrow::Cow;
use std::time::Duration;

use punctual::time::{Timestamp, format_span};
use punctual_gateway::is_hostile;

/// The text with control characters and direction marks escaped, so that data cannot move the
/// cursor, hide itself or lie.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c if is_hostile(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// JSON with every hostile character written as its number, such as `\u001b`. Inside a document
/// such characters stand in strings only, except white space.
pub(super) fn json_for_terminal(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_hostile) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match c {
            // Raw payloads may hold white space between their tokens.
            '\n' | '\r' | '\t' => safe.push(' '),
            c if is_hostile(c) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    safe.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// At most that many characters, with `…` where it was cut.
pub(crate) fn cut(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(chars.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// An instant against now: `in 1h30m`, `5s ago`, `now`.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    let tidy = |span: Duration| {
        let whole = Duration::from_secs(span.as_secs());
        format_span(if span >= Duration::from_secs(10) {
            whole
        } else {
            span
        })
    };
    match at.cmp(&now) {
        std::cmp::Ordering::Less => format!("{} ago", tidy(now - at)),
        std::cmp::Ordering::Equal => "now".into(),
        std::cmp::Ordering::Greater => format!("in {}", tidy(at - now)),
    }
}

/// A number with its thousands apart: `12,345`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number of things: `1 job`, `2,000 jobs`.
pub(crate) fn counted(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Microseconds as milliseconds with what is worth showing: `0.42 ms`, `12.3 ms`, `1,204 ms`; a
/// minute or more as a span, such as `3d2h`.
pub(crate) fn ms(micros: u64) -> String {
    let value = micros as f64 / 1_000.0;
    match value {
        v if v < 10.0 => format!("{v:.2} ms"),
        v if v < 100.0 => format!("{v:.1} ms"),
        v if v >= 60_000.0 => format_span(Duration::from_secs(micros / 1_000_000)),
        v => format!("{} ms", count(v.round() as u64)),
    }
}

/// A histogram of microseconds, drawn as bars.
pub(crate) struct Histogram {
    exact: hdrhistogram::Histogram<u64>,
    ranges: [u64; RANGES.len()],
}

/// The bars: exclusive upper bounds in microseconds.
const RANGES: [(u64, &str); 8] = [
    (500, "under 0.5 ms"),
    (1_000, "0.5 to 1 ms"),
    (2_000, "1 to 2 ms"),
    (5_000, "2 to 5 ms"),
    (10_000, "5 to 10 ms"),
    (50_000, "10 to 50 ms"),
    (1_000_000, "50 ms to 1 s"),
    (u64::MAX, "over 1 s"),
];

/// A day; what is longer counts as that.
const MICROS_MAX: u64 = 86_400_000_000;

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            exact: hdrhistogram::Histogram::new_with_max(MICROS_MAX, 3)
                .expect("three digits up to a day are allowed"),
            ranges: [0; RANGES.len()],
        }
    }

    pub(crate) fn record(&mut self, micros: u64) {
        self.exact.saturating_record(micros);
        let range = RANGES.iter().position(|(until, _)| micros < *until);
        self.ranges[range.unwrap_or(RANGES.len() - 1)] += 1;
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> u64 {
        self.exact.len()
    }

    /// The value at a quantile, in microseconds.
    pub(crate) fn at(&self, quantile: f64) -> u64 {
        self.exact.value_at_quantile(quantile)
    }

    pub(crate) fn max(&self) -> u64 {
        self.exact.max()
    }

    /// The value at a quantile in milliseconds, for JSON.
    pub(crate) fn ms_at(&self, quantile: f64) -> f64 {
        to_ms(self.at(quantile))
    }

    pub(crate) fn ms_max(&self) -> f64 {
        to_ms(self.max())
    }

    /// One line per range: its name, its count, a bar of at most that many cells.
    pub(crate) fn bars(&self, cells: usize) -> Vec<String> {
        let most = self.ranges.iter().copied().max().unwrap_or(0).max(1);
        let line = |((_, name), n): (&(u64, &str), &u64)| {
            let eighths = (*n as f64 / most as f64 * cells as f64 * 8.0).ceil() as usize;
            format!("{name:>12}  {:>7}  {}", count(*n), bar(eighths))
        };
        RANGES.iter().zip(&self.ranges).map(line).collect()
    }
}

fn to_ms(micros: u64) -> f64 {
    (micros as f64 / 10.0).round() / 100.0
}

fn bar(eighths: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

#[cfg(test)]
mod tests;
