//! The contract: how many jobs of a queue may be active, and how many may start in a span of time.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::time::{Timestamp, days, exact_span, format_span, millis};

/// The largest concurrency limit of a queue.
pub const CONCURRENCY_MAX: u64 = 1_000_000;
/// The most starts of a rate, and of its burst.
pub const RATE_STARTS_MAX: u64 = 1_000_000;
/// The shortest span of a rate.
pub const RATE_SPAN_MIN: Duration = millis(1);
/// The longest span of a rate.
pub const RATE_SPAN_MAX: Duration = days(365);

/// How many jobs may start in a span of time. What counts is claims, by engine time.
///
/// ```
/// use punctual::engine::Rate;
/// use punctual::time::{minutes, seconds};
///
/// assert_eq!(Rate::window(1_000, minutes(1)).to_string(), "1000/1m window");
/// assert_eq!(Rate::smooth(20, seconds(1)).to_string(), "20/1s smooth, burst 2");
/// assert_eq!(Rate::smooth(20, seconds(1)).burst(0).to_string(), "20/1s smooth, burst 0");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Rate {
    /// Starts come evenly (a leaky bucket, GCRA): one each `per / starts`, rounded up to a
    /// microsecond. After a quiet time `burst` more may start at once. At most `starts + burst`
    /// start in any span of length `per`.
    Smooth {
        /// Starts in a span.
        starts: u64,
        /// The span.
        per: Duration,
        /// Starts that may come early, at most `starts`.
        burst: u64,
    },
    /// At most `starts` in any span of length `per`, wherever it begins (a sliding window). Up to
    /// 64 starts are counted one by one; more in 64 parts of the span, each as if all of it had
    /// started at the last one's instant, so that it is never more.
    Window {
        /// Starts in a span.
        starts: u64,
        /// The span.
        per: Duration,
    },
}

impl Rate {
    /// Evenly that many in a span, with a burst of a tenth of it.
    pub const fn smooth(starts: u64, per: Duration) -> Self {
        let burst = starts / 10;
        Self::Smooth { starts, per, burst }
    }

    /// At most that many in any span of that length.
    pub const fn window(starts: u64, per: Duration) -> Self {
        Self::Window { starts, per }
    }

    /// Sets how many may start early, at once, after a quiet time. A window has no burst: this
    /// changes nothing there.
    #[must_use]
    pub const fn burst(self, burst: u64) -> Self {
        match self {
            Self::Smooth { starts, per, .. } => Self::Smooth { starts, per, burst },
            window => window,
        }
    }

    /// Starts in a span.
    pub const fn starts(&self) -> u64 {
        match self {
            Self::Smooth { starts, .. } | Self::Window { starts, .. } => *starts,
        }
    }

    /// The span.
    pub const fn per(&self) -> Duration {
        match self {
            Self::Smooth { per, .. } | Self::Window { per, .. } => *per,
        }
    }

    /// The most that can start in any span of its length.
    pub const fn most(&self) -> u64 {
        match self {
            Self::Smooth { starts, burst, .. } => *starts + *burst,
            Self::Window { starts, .. } => *starts,
        }
    }

    /// Checks the bounds.
    ///
    /// # Errors
    /// `invalid_input`, with what to use instead.
    pub fn check(&self) -> Result<()> {
        let (starts, per) = (self.starts(), self.per());
        let of = |field: &'static str, value: &dyn fmt::Display, what: &str| {
            let message = format!("{field} {what}");
            Err(Error::new(ErrorKind::InvalidInput, message).with(field, value))
        };
        if starts == 0 {
            let what = "of 0 starts nothing; use 1 to 1,000,000, or pause the queue to stop it";
            return of("rate.starts", &starts, what);
        }
        if starts > RATE_STARTS_MAX {
            let what = "is too large; use at most 1,000,000 in a shorter span";
            return of("rate.starts", &starts, what);
        }
        if !(RATE_SPAN_MIN..=RATE_SPAN_MAX).contains(&per) {
            let what = "is out of range; use 1 ms to 365 days";
            return of("rate.per", &exact_span(per), what);
        }
        if !per.as_nanos().is_multiple_of(1_000) {
            let what = "has parts of a microsecond, which engine time has not; use whole ones";
            return of("rate.per", &format!("{per:?}"), what);
        }
        let Self::Smooth { burst, .. } = *self else {
            return Ok(());
        };
        if burst > starts {
            let what = "is over the starts; use at most the starts, or the kind window";
            return of("rate.burst", &burst, what);
        }
        if u128::from(starts) > per.as_micros() {
            let what = "is too short for more than one start a microsecond; use a longer span, or the kind window";
            return of("rate.per", &exact_span(per), what);
        }
        Ok(())
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = format_span(self.per());
        match self {
            Self::Smooth { starts, burst, .. } => {
                write!(f, "{starts}/{span} smooth, burst {burst}")
            }
            Self::Window { starts, .. } => write!(f, "{starts}/{span} window"),
        }
    }
}

/// Checks a concurrency limit.
///
/// # Errors
/// `invalid_input`, with what to use instead.
pub(super) fn check_concurrency(concurrency: u64) -> Result<()> {
    let remedy = match concurrency {
        0 => "concurrency of 0 starts nothing; use 1 to 1,000,000, or pause the queue to stop it",
        1..=CONCURRENCY_MAX => return Ok(()),
        _ => "concurrency is out of range; use 1 to 1,000,000, or none",
    };
    Err(Error::new(ErrorKind::InvalidInput, remedy).with("concurrency", concurrency))
}

/// Which limit of a queue lets nothing start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ClosedLimit {
    /// As many jobs are active as may be.
    Concurrency,
    /// As many have started as may in the span.
    Rate,
}

impl ClosedLimit {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Rate => "rate",
        }
    }
}

/// A queue of a claim that has limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LimitedQueue {
    /// Its name.
    pub queue: String,
    /// Since when its limits let jobs start, before this claim. A job that was due before that is
    /// late from then on.
    pub open_since: Timestamp,
    /// The same of shares, by key, of which this claim has jobs that were due before that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<(String, Timestamp)>,
    /// The same of named limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<(String, Timestamp)>,
}

impl LimitedQueue {
    /// A queue with limits whose last gate opened then; no share and no named limit was closed.
    pub fn new(queue: impl Into<String>, open_since: Timestamp) -> Self {
        Self {
            queue: queue.into(),
            open_since,
            shares: Vec::new(),
            limits: Vec::new(),
        }
    }
}

/// The limits of a queue and how they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LimitStats {
    /// How many jobs may be active.
    pub concurrency: Option<u64>,
    /// How many may start in a span.
    pub rate: Option<Rate>,
    /// Which limit is closed; the rate if both are, as the queue waits for it at least.
    pub closed: Option<ClosedLimit>,
    /// When a closed rate opens. No instant is known for a closed concurrency: a job must end.
    pub opens_at: Option<Timestamp>,
    /// How long the oldest due job waits behind a closed limit. It is not late meanwhile.
    pub waits: Option<Duration>,
}
