//! Limits of an engine, fixed bounds, and the rules of names.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bounds::{
    self, KEY_BYTES_MAX, NAME_BYTES_MAX, TEXT_HEADER_NAME, TEXT_HEADER_VALUE, TEXT_KEY_RULE,
    TEXT_LIMIT_NAME, TEXT_NAME_RULE,
};
use crate::error::{Error, ErrorKind, Result};
use crate::time::millis;

/// The bounds of one engine; every call over one is refused with the limit's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one payload. Default 256 KiB: keep blobs elsewhere and send a reference.
    pub payload_bytes: usize,
    /// Bytes of all header names and values of one job. Default 8 KiB.
    pub header_bytes: usize,
    /// Bytes of a result, a progress note or an error text that the engine keeps. Default 8 KiB.
    pub result_bytes: usize,
    /// Items of one call: jobs, targets, leases, settlements, samples of each kind. Default 1,000.
    pub batch_items: usize,
    /// Bytes of all payloads of one call, those of effects too. Default 4 MiB.
    pub batch_bytes: usize,
    /// Names that one held job may wait for. Default 64.
    pub wait_for_names: usize,
    /// Effects of one settlement. Default 64.
    pub effects: usize,
    /// Waiting jobs that one call moves, rescues, expires or prunes besides its own work.
    /// Default 500.
    pub sweep: usize,
    /// Bytes of the tombstones of settled jobs, each counted as [`TOMBSTONE_BYTES`] and its result;
    /// over it the oldest go before their time. Default 256 MiB, a million tombstones.
    pub tombstone_bytes: usize,
    /// Settled jobs kept per queue and state, besides their retention in time. Default 10,000.
    pub retained: usize,
    /// Bytes of settled jobs kept per queue and state. Default 64 MiB.
    pub retained_bytes: usize,
    /// Bytes of settled jobs kept in all queues of a namespace; where an engine divides it into
    /// shards, each counts its own. Over it some go before the end of their retention. Default
    /// 512 MiB.
    pub namespace_retained_bytes: usize,
    /// Changes that the feed remembers. Default 16,384.
    pub feed: usize,
    /// Schedules of a namespace. Default 100,000.
    pub schedules: usize,
    /// Clears of a namespace that came before their jobs; of more the oldest go. Default 10,000.
    pub early_clears: usize,
    /// How long the tombstone of a settled job stays, and a kept job at least. Default 2 minutes:
    /// an id that is sent again later than that is a new job.
    pub settled_window: Duration,
    /// How long cancelled jobs are kept. Default a day; zero keeps none.
    pub cancelled_retention: Duration,
    /// How long dead jobs are kept. Default 30 days; zero keeps none.
    pub dead_retention: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload_bytes: bounds::PAYLOAD_BYTES,
            header_bytes: bounds::HEADER_BYTES,
            result_bytes: bounds::RESULT_BYTES,
            batch_items: bounds::BATCH_ITEMS,
            batch_bytes: bounds::BATCH_BYTES,
            wait_for_names: bounds::WAIT_FOR_NAMES,
            effects: bounds::EFFECTS,
            sweep: bounds::SWEEP,
            tombstone_bytes: bounds::TOMBSTONE_BYTES,
            retained: bounds::RETAINED,
            retained_bytes: bounds::RETAINED_BYTES,
            namespace_retained_bytes: bounds::NAMESPACE_RETAINED_BYTES,
            feed: bounds::FEED,
            schedules: bounds::SCHEDULES,
            early_clears: bounds::EARLY_CLEARS,
            settled_window: millis(bounds::SETTLED_WINDOW_MS),
            cancelled_retention: millis(bounds::CANCELLED_RETENTION_MS),
            dead_retention: millis(bounds::DEAD_RETENTION_MS),
        }
    }
}

impl Limits {
    /// Bytes of payload that a claim returns at most: what it wants, [`CLAIM_BYTES_MAX`], and what
    /// one call may carry, whichever is least. Every engine asks here.
    ///
    /// # Examples
    ///
    /// ```
    /// let limits = punctual::Limits::default();
    /// assert_eq!(limits.claim_bytes(1_000), 1_000);
    /// assert_eq!(limits.claim_bytes(usize::MAX), punctual::job::CLAIM_BYTES_MAX);
    /// ```
    pub fn claim_bytes(&self, wanted: usize) -> usize {
        wanted.min(self.batch_bytes).min(CLAIM_BYTES_MAX)
    }

    /// The error for one schedule more than a namespace may have; engines answer it.
    pub fn too_many_schedules(most: usize) -> Error {
        let message =
            format!("namespace has {most} schedules, the most that it may have; remove some");
        Error::new(ErrorKind::Conflict, message)
    }
}

/// The longest [`remember`](crate::NewJob::remember) of a job.
pub const REMEMBER_MAX: Duration = millis(bounds::REMEMBER_MAX_MS);
/// The longest `max_wait` of a job that is refreshed.
pub const MAX_WAIT_MAX: Duration = millis(bounds::MAX_WAIT_MAX_MS);
/// What a tombstone counts against [`Limits::tombstone_bytes`] besides its result.
pub const TOMBSTONE_BYTES: usize = 256;
/// Bytes of payload that one claim returns, whatever it asks for; the first job comes whatever its
/// size.
pub const CLAIM_BYTES_MAX: usize = 4 << 20;
/// The longest timeout of an attempt.
pub const TIMEOUT_MAX: Duration = millis(bounds::TIMEOUT_MAX_MS);

/// Checks a name of a namespace, queue, kind or record: 1 to 128 of `a-z A-Z 0-9 . _ - : /`.
///
/// Braces would move hash slots, spaces and control characters would lie in logs.
pub fn check_name(what: &'static str, name: &str) -> Result<()> {
    let Some(wrong) = fault_of(name, NAME_BYTES_MAX) else {
        return Ok(());
    };
    let message = format!("{what} name {wrong}; {TEXT_NAME_RULE}");
    Err(Error::new(ErrorKind::InvalidName, message).with("name", shown(name)))
}

/// What is wrong with a name of at most so many bytes.
fn fault_of(name: &str, bytes_max: usize) -> Option<&'static str> {
    let allowed = |c: u8| matches!(c, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b':' | b'/');
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > bytes_max {
        Some("is too long")
    } else if !name.bytes().all(allowed) {
        Some("has a character that is not allowed")
    } else if name.contains('.') && name.split('/').any(|part| part == "." || part == "..") {
        Some("has a path step")
    } else {
        None
    }
}

/// Checks the name of a lock: that of a queue, which `lock:` stands before.
pub(crate) fn check_lock_name(name: &str) -> Result<()> {
    let bytes_max = NAME_BYTES_MAX - "lock:".len();
    let Some(wrong) = fault_of(name, bytes_max) else {
        return Ok(());
    };
    let message = format!("lock name {wrong}; use 1 to {bytes_max} of a-z A-Z 0-9 . _ - : /");
    Err(Error::new(ErrorKind::InvalidName, message).with("name", shown(name)))
}

/// Bytes of the name of a limit: its record is `limit/NAME`.
const LIMIT_NAME_BYTES_MAX: usize = NAME_BYTES_MAX - "limit/".len();

/// Checks the name of a limit: that of a queue, of at most 122 characters.
pub(crate) fn check_limit_name(name: &str) -> Result<()> {
    check_limit_name_of("limit", name)
}

/// Checks the name of a limit that stands in a field.
pub(crate) fn check_limit_name_of(field: &'static str, name: &str) -> Result<()> {
    if name.len() > LIMIT_NAME_BYTES_MAX {
        let message = format!("{field} {TEXT_LIMIT_NAME}");
        return Err(Error::new(ErrorKind::InvalidName, message).with("name", shown(name)));
    }
    check_name(field, name)
}

/// Checks the name of a schedule: that of a queue, of at most 119 characters. Its record is
/// `schedule/NAME`.
pub(crate) fn check_schedule_name(name: &str) -> Result<()> {
    let bytes_max = NAME_BYTES_MAX - "schedule/".len();
    if name.len() > bytes_max {
        let message = format!("schedule name is too long; use at most {bytes_max} characters");
        return Err(Error::new(ErrorKind::InvalidName, message).with("name", shown(name)));
    }
    check_name("schedule", name)
}

/// Checks a unique key, group key or held name: 1 to 256 bytes of printable text.
pub fn check_key(what: &'static str, key: &str) -> Result<()> {
    let wrong = if key.is_empty() {
        "is empty"
    } else if key.len() > KEY_BYTES_MAX {
        "is too long"
    } else if key.chars().any(is_hostile) {
        "has a control character"
    } else {
        return Ok(());
    };
    let message = format!("{what} {wrong}; {TEXT_KEY_RULE}");
    Err(Error::new(ErrorKind::InvalidName, message).with("key", shown(key)))
}

/// Checks one header: a name of 1 to 128 of `a-z A-Z 0-9 . _ -`, a value without control
/// characters.
pub fn check_header(name: &str, value: &str) -> Result<()> {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) {
        return Err(
            Error::new(ErrorKind::InvalidName, TEXT_HEADER_NAME).with("header", shown(name))
        );
    }
    if value.chars().any(is_hostile) {
        return Err(
            Error::new(ErrorKind::InvalidInput, TEXT_HEADER_VALUE).with("header", shown(name))
        );
    }
    Ok(())
}

/// Control characters and the marks that reverse the direction of text.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// At most 64 characters of a refused text, escaped, so that it cannot lie in a log.
pub(crate) fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(64).collect::<String>())
}
