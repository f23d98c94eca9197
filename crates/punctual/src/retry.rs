//! When a failed attempt is due again: plain arithmetic, the same here and in every engine.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::job::bounds::{
    RETRY_BASE_MS, RETRY_CAP_MS, RETRY_FACTOR, RETRY_SPAN_MAX_MS, TEXT_RETRY_FACTOR,
    TEXT_RETRY_LIST, TEXT_RETRY_SPAN,
};
use crate::job::{JobId, RETRY_SPANS_MAX};
use crate::time::{exact_span, millis};

/// How long a failed job waits, as a function of its failures so far.
///
/// The engine computes the span in whole milliseconds, at most 90 days. With jitter the span is
/// drawn evenly from zero to the full one ("full jitter"), by a draw that depends on the job's id
/// and failures alone, so that every engine and every repetition computes the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RetryPolicy {
    /// `base * factor^(failures - 1)`, at most `cap`.
    Exponential {
        /// The first span.
        base: Duration,
        /// By what each next one is longer, 1 to 100.
        factor: f64,
        /// The longest span.
        cap: Duration,
        /// Whether to draw from zero to the span.
        jitter: bool,
    },
    /// The same span each time.
    Fixed {
        /// The span.
        span: Duration,
        /// Whether to draw from zero to the span.
        jitter: bool,
    },
    /// `base * failures`, at most `cap`.
    Linear {
        /// The first span and each growth.
        base: Duration,
        /// The longest span.
        cap: Duration,
        /// Whether to draw from zero to the span.
        jitter: bool,
    },
    /// The first failure waits the first span, and so on; the last one repeats. Never jittered.
    List(
        /// 1 to 64 spans.
        Vec<Duration>,
    ),
}

impl Default for RetryPolicy {
    /// From 1 s doubling to 1 h, with full jitter: 20 attempts take about five hours on average.
    fn default() -> Self {
        Self::Exponential {
            base: millis(RETRY_BASE_MS),
            factor: RETRY_FACTOR,
            cap: millis(RETRY_CAP_MS),
            jitter: true,
        }
    }
}

/// No policy waits longer.
const SPAN_MAX: Duration = millis(RETRY_SPAN_MAX_MS);

impl RetryPolicy {
    /// The same span after each failure, without jitter.
    pub fn fixed(span: Duration) -> Self {
        Self::Fixed {
            span,
            jitter: false,
        }
    }

    /// Spans from `base`, doubled each time up to `cap`, with full jitter.
    pub fn exponential(base: Duration, cap: Duration) -> Self {
        Self::Exponential {
            base,
            factor: 2.0,
            cap,
            jitter: true,
        }
    }

    /// The span to wait after that many failures (at least one) of that job.
    ///
    /// ```
    /// use punctual::{JobId, RetryPolicy, time::seconds};
    ///
    /// let list = RetryPolicy::List(vec![seconds(1), seconds(10)]);
    /// let id = JobId::new();
    /// assert_eq!(list.span(id, 1), seconds(1));
    /// assert_eq!(list.span(id, 9), seconds(10));
    /// ```
    pub fn span(&self, id: JobId, failures: u32) -> Duration {
        let nth = failures.max(1);
        let (full, jitter) = match self {
            Self::Exponential {
                base,
                factor,
                cap,
                jitter,
            } => {
                let cap = whole_millis(*cap);
                let mut span = whole_millis(*base);
                // Multiplying step by step rounds the same in every language; 90 days end it.
                for _ in 1..nth {
                    if span >= cap || *factor <= 1.0 {
                        break;
                    }
                    span *= factor;
                }
                (span.min(cap).floor(), *jitter)
            }
            Self::Fixed { span, jitter } => (whole_millis(*span), *jitter),
            Self::Linear { base, cap, jitter } => (
                (whole_millis(*base) * f64::from(nth)).min(whole_millis(*cap)),
                *jitter,
            ),
            Self::List(spans) => {
                let index = (nth as usize - 1).min(spans.len().saturating_sub(1));
                (
                    spans.get(index).map_or(0.0, |span| whole_millis(*span)),
                    false,
                )
            }
        };
        let drawn = if jitter {
            (full * f64::from(draw(id, nth)) / f64::from(DRAW_RANGE)).floor()
        } else {
            full
        };
        Duration::from_millis(drawn as u64)
    }

    /// Checks the ranges of every field.
    pub fn check(&self) -> Result<()> {
        let refused = |message: &str| Error::new(ErrorKind::InvalidInput, message);
        let within = |field: &'static str, span: &Duration| match *span > SPAN_MAX {
            true => {
                Err(refused(&format!("{field} {TEXT_RETRY_SPAN}")).with(field, exact_span(*span)))
            }
            false => Ok(()),
        };
        match self {
            Self::Exponential { factor, .. } if !(1.0..=100.0).contains(factor) => {
                Err(refused(TEXT_RETRY_FACTOR).with("retry.factor", factor))
            }
            Self::Exponential { base, cap, .. } | Self::Linear { base, cap, .. } => {
                within("retry.base", base)?;
                within("retry.cap", cap)
            }
            Self::Fixed { span, .. } => within("retry.span", span),
            Self::List(spans) if spans.is_empty() || spans.len() > RETRY_SPANS_MAX => {
                Err(refused(TEXT_RETRY_LIST).with("spans", spans.len()))
            }
            Self::List(spans) => {
                let mut spans = spans.iter();
                spans.try_for_each(|span| within("retry.spans", span))
            }
        }
    }
}

fn whole_millis(span: Duration) -> f64 {
    span.min(SPAN_MAX).as_millis() as f64
}

/// Twenty bits: a span of 90 days times a draw stays below 2^53, exact in a double.
const DRAW_RANGE: u32 = 1_048_576;

/// An even draw from 0 to 2^20 - 1 out of id and failures.
fn draw(id: JobId, failures: u32) -> u32 {
    let bytes = id.as_bytes().iter().copied();
    even_draw(bytes.chain(failures.to_be_bytes())).0
}

/// An even draw out of bytes, from 0 up to but without the second number.
///
/// A Lehmer generator (Park and Miller, 1988; multiplier 48271 modulo 2^31 - 1) that takes in the
/// bytes: every product stays below 2^53, so Lua computes the same.
pub(crate) fn even_draw(bytes: impl Iterator<Item = u8>) -> (u32, u32) {
    const MODULUS: u64 = 2_147_483_647;
    let state = bytes.chain([0, 0]).fold(1_u64, |state, byte| {
        (state * 48_271 + u64::from(byte)) % MODULUS
    });
    ((state % u64::from(DRAW_RANGE)) as u32, DRAW_RANGE)
}

#[cfg(test)]
mod tests;
