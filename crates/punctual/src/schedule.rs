//! Calendars: which instants a schedule names. Pure arithmetic, without a clock, a store or I/O.
//!
//! A [`Spec`] is a union of cron patterns, spans and fixed instants, in a time zone, without what
//! is excluded. It answers with instants; `docs/schedules.md` explains patterns, gaps and folds.
//!
//! ```
//! use punctual::schedule::Spec;
//!
//! let spec = Spec::cron("30 2 * * *").zone("Europe/Berlin").build()?;
//! let from = "2026-03-28T00:00:00Z".parse()?;
//! let days: Vec<String> = spec.instants(from).take(3).map(|at| at.to_string()).collect();
//! // On 29 March 02:30 does not exist: it runs at 03:00, when the gap ends.
//! assert_eq!(days, ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
//! # Ok::<(), punctual::Error>(())
//! ```

mod builder;
mod clock;
mod field;
mod old_names;
mod pattern;
mod preview;
mod spec;
mod zone;

pub use builder::{
    BEFORE_MAX, EVERY_MAX, EVERY_MIN, Every, INSTANTS_MAX, JITTER_MAX, PATTERNS_MAX, SpecBuilder,
};
pub use clock::{Fold, Gap};
pub use pattern::{Form, PatternText};
pub use preview::{ClockNote, Run};
pub use spec::{Instants, Spec};
pub use zone::tz_database_version;

use crate::error::{Error, ErrorKind};

/// A part of a schedule that cannot be; the message names it, its value and the remedy.
fn refuse(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}
