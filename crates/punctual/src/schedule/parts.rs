//! The parts of a schedule as data: engines keep them, and a build without calendars reads them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// How a pattern is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Form {
    /// Five fields: minute, hour, day of month, month, day of week.
    Cron,
    /// Six fields: the same after a second.
    CronWithSeconds,
    /// As Quartz has it: second, minute, hour, day of month, month, day of week, and perhaps a
    /// year. Sunday is 1, one of the two day fields is `?`, and `a/n` begins at `a`.
    Quartz,
}

/// A pattern as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PatternText {
    /// How it is to be read.
    pub form: Form,
    /// The fields, at most 256 bytes.
    pub text: String,
}

impl PatternText {
    /// A pattern of that form; it is checked when the [`Spec`](super::Spec) is built.
    pub fn new(form: Form, text: impl Into<String>) -> Self {
        Self {
            form,
            text: text.into(),
        }
    }
}

/// What becomes of a run at a local time that does not exist, because the clock is set forward over
/// it.
///
/// A pattern that runs every hour, or more than once in an hour, goes on after the gap by itself.
/// For such a pattern this counts only if it has no run in the hour after the gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Gap {
    /// It runs at the end of the gap: 02:30 at 03:00. Several runs become one.
    #[default]
    AtItsEnd,
    /// It is moved on by the length of the gap: 02:30 to 03:30.
    Shift,
    /// It does not run.
    Skip,
}

/// Which of two instants is meant by a local time that exists twice, because the clock is set back.
///
/// A pattern that runs every hour, or more than once in an hour, runs both times whatever this
/// says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fold {
    /// The first.
    #[default]
    First,
    /// The second.
    Last,
    /// Both.
    Both,
}

/// A run in every span, counted from 1970: `5m` runs at :00, :05 and so on, whatever the time of
/// the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Every {
    /// From [`EVERY_MIN`](super::EVERY_MIN) to [`EVERY_MAX`](super::EVERY_MAX).
    #[serde(with = "micros")]
    pub span: Duration,
    /// By how much later each run is; shorter than the span.
    #[serde(default, with = "micros", skip_serializing_if = "Duration::is_zero")]
    pub phase: Duration,
}

impl Every {
    /// A run in every span, later by a phase; both are checked when the [`Spec`](super::Spec) is
    /// built.
    pub fn new(span: Duration, phase: Duration) -> Self {
        Self { span, phase }
    }
}

/// The parts of a [`Spec`](super::Spec), before they are checked.
///
/// Spans and instants are serialised in microseconds. A part that this version does not know is
/// refused: a schedule without it would run at other times.
///
/// ```
/// use punctual::schedule::{Gap, Spec};
/// use punctual::time::{minutes, seconds};
///
/// let spec = Spec::cron("0 18 * * FRI")
///     .zone("Europe/Berlin")
///     .before(minutes(30))
///     .except_cron("* * 24-26 12 *")
///     .gap(Gap::Skip)
///     .jitter(seconds(10))
///     .build()?;
/// let from = "2026-12-18T00:00:00Z".parse()?;
/// let next: Vec<String> = spec.instants(from).take(2).map(|at| at.to_string()).collect();
/// assert_eq!(next, ["2026-12-18T16:30:00Z", "2027-01-01T16:30:00Z"]);
/// # Ok::<(), punctual::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SpecBuilder {
    /// Cron patterns; the schedule runs whenever one of them does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<PatternText>,
    /// Runs in equal spans.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub every: Vec<Every>,
    /// Fixed instants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<Timestamp>,
    /// Patterns whose times are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<PatternText>,
    /// The zone of all patterns, as the tz database names it. `UTC` by default.
    pub zone: String,
    /// How much earlier than its patterns the schedule runs.
    #[serde(with = "micros", skip_serializing_if = "Duration::is_zero")]
    pub before: Duration,
    /// What becomes of local times that do not exist.
    pub gap: Gap,
    /// Which is meant of local times that exist twice.
    pub fold: Fold,
    /// By how much later, at most, each run is due.
    #[serde(with = "micros", skip_serializing_if = "Duration::is_zero")]
    pub jitter: Duration,
    /// No run is before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Timestamp>,
    /// No run is after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// How often it runs in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runs: Option<u64>,
}

impl Default for SpecBuilder {
    /// In UTC, with nothing in it yet.
    fn default() -> Self {
        Self {
            patterns: Vec::new(),
            every: Vec::new(),
            at: Vec::new(),
            except: Vec::new(),
            zone: "UTC".into(),
            before: Duration::ZERO,
            gap: Gap::default(),
            fold: Fold::default(),
            jitter: Duration::ZERO,
            start: None,
            end: None,
            max_runs: None,
        }
    }
}

/// Spans as microseconds, like instants.
mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        span: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_micros)
    }
}
