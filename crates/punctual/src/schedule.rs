//! Schedules: what an engine keeps of them, and the calendars that say which instants they name.
//!
//! Pure arithmetic, without a clock, a store or I/O. Calendars need the feature `schedules`.
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

#[cfg(feature = "schedules")]
mod builder;
#[cfg(feature = "schedules")]
mod clock;
mod durable;
#[cfg(feature = "schedules")]
mod field;
mod list;
#[cfg(feature = "schedules")]
mod old_names;
mod parts;
#[cfg(feature = "schedules")]
mod pattern;
#[cfg(feature = "schedules")]
mod preview;
mod series;
#[cfg(feature = "schedules")]
mod spec;
#[cfg(feature = "schedules")]
mod zone;

#[cfg(feature = "schedules")]
pub use builder::{BEFORE_MAX, EVERY_MAX, EVERY_MIN, INSTANTS_MAX, JITTER_MAX, PATTERNS_MAX};
pub(crate) use durable::run_key;
pub use durable::{
    EXPECT_WITHIN_MAX, GRACE_DEFAULT, MISSED_MAX, Missed, OVERDUE_MAX, Occurrence, Overdue,
    Overlap, SCHEDULE_PREFIX, Schedule, ScheduleStatus, Success, Template,
};
pub(crate) use list::{LASTS, LIST_MAX, LIST_MIN, LOW, LOW_SPAN};
pub use list::{Listed, MoreInstants};
pub use parts::{Every, Fold, Form, Gap, PatternText, SpecBuilder};
#[cfg(feature = "schedules")]
pub use preview::{ClockNote, Run};
pub(crate) use series::{Next, PlannedRun, Series};
#[cfg(feature = "schedules")]
pub use spec::{Instants, Spec};
#[cfg(feature = "schedules")]
pub use zone::tz_database_version;

use crate::error::{Error, ErrorKind};

/// The version of the tz database of this build, such as `2026a`; empty without calendars.
pub fn tz_database() -> &'static str {
    #[cfg(feature = "schedules")]
    return tz_database_version();
    #[cfg(not(feature = "schedules"))]
    ""
}

/// A part of a schedule that cannot be; the message names it, its value and the remedy.
fn refuse(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}
