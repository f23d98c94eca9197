//! What the handlers of a job logged, kept with its record within bounds.

use serde::{Deserialize, Serialize};

use super::bounds::{LOG_BYTES_KEPT, LOG_LINES_KEPT, TEXT_LOG};
use crate::error::{Error, ErrorKind, Result};
use crate::time::Timestamp;

/// One line that an attempt of a job logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogLine {
    /// When the engine took it.
    pub at: Timestamp,
    /// The attempt that logged it.
    pub attempt: u32,
    /// The line.
    pub text: String,
}

impl LogLine {
    /// A line that an attempt logged then.
    pub fn new(at: Timestamp, attempt: u32, text: impl Into<String>) -> Self {
        Self {
            at,
            attempt,
            text: text.into(),
        }
    }
}

/// Refuses more lines, or bytes of them, than a job keeps.
pub fn check_log<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let (mut count, mut bytes) = (0, 0);
    for line in lines {
        count += 1;
        bytes += line.len();
    }
    if count > LOG_LINES_KEPT || bytes > LOG_BYTES_KEPT {
        return Err(Error::new(ErrorKind::PayloadTooLarge, TEXT_LOG)
            .with("lines", count)
            .with("bytes", bytes)
            .with("limit", LOG_BYTES_KEPT));
    }
    Ok(())
}

/// Appends lines of an attempt; the oldest give way.
pub(crate) fn append_log(log: &mut Vec<LogLine>, at: Timestamp, attempt: u32, lines: Vec<String>) {
    log.extend(lines.into_iter().map(|text| LogLine { at, attempt, text }));
    let mut bytes: usize = log.iter().map(|line| line.text.len()).sum();
    let mut gone = 0;
    while log.len() - gone > LOG_LINES_KEPT || bytes > LOG_BYTES_KEPT {
        bytes -= log[gone].text.len();
        gone += 1;
    }
    log.drain(..gone);
}
