//! How long an engine keeps settled jobs, as its address may say.

use std::time::Duration;

use punctual::Limits;
use punctual::time::parse_span;

use crate::failure::{Exit, Failure, Result};

/// The spans that an address sets; the engine's defaults where it sets none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kept {
    settled_window: Option<Duration>,
    retention: Option<Duration>,
}

impl Kept {
    /// Both spans of one length.
    pub(super) fn all(span: Duration) -> Self {
        Self {
            settled_window: Some(span),
            retention: Some(span),
        }
    }

    /// Reads one option; whether it is one of these.
    pub(super) fn set(&mut self, option: &str) -> Result<bool> {
        match option.split_once('=') {
            Some(("settled_window", span)) => self.settled_window = Some(parse(option, span)?),
            Some(("retention", span)) => self.retention = Some(parse(option, span)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// These spans, and those of `other` where this sets none.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            settled_window: self.settled_window.or(other.settled_window),
            retention: self.retention.or(other.retention),
        }
    }

    /// The default limits with these spans.
    pub(super) fn limits(self) -> Limits {
        let mut limits = Limits::default();
        limits.settled_window = self.settled_window.unwrap_or(limits.settled_window);
        limits.cancelled_retention = self.retention.unwrap_or(limits.cancelled_retention);
        limits.dead_retention = self.retention.unwrap_or(limits.dead_retention);
        limits
    }
}

fn parse(option: &str, text: &str) -> Result<Duration> {
    let span = parse_span(text)?;
    if span.is_zero() {
        let message = format!("{option:?} must be above 0");
        return Err(Failure::new(Exit::Usage, "invalid_address", message)
            .hint("write spans such as settled_window=2m and retention=1d"));
    }
    Ok(span)
}
