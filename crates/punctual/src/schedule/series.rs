//! The instants of a schedule one after the other, for an engine: by arithmetic, or by a calendar.

use std::time::Duration;

use crate::retry::even_draw;
use crate::time::Timestamp;

use super::parts::SpecBuilder;

/// An instant that a schedule names, and when its run is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedRun {
    pub(crate) at: Timestamp,
    pub(crate) due: Timestamp,
}

/// Where the instants of a schedule come from.
#[derive(Debug)]
pub(crate) struct Series<'a> {
    parts: &'a SpecBuilder,
    name: &'a str,
    #[cfg(feature = "schedules")]
    calendar: Option<super::Spec>,
}

/// The answer to a question for the next instant.
pub(crate) enum Next {
    At(PlannedRun),
    /// The schedule names no later one.
    End,
    /// This build has no calendars.
    Unknown,
}

impl<'a> Series<'a> {
    /// The parts have been checked when the schedule was written.
    pub(crate) fn of(name: &'a str, parts: &'a SpecBuilder) -> Self {
        Self {
            parts,
            name,
            #[cfg(feature = "schedules")]
            calendar: match is_arithmetic(parts) {
                true => None,
                false => parts.clone().build().ok(),
            },
        }
    }

    /// The first instant from that one on.
    pub(crate) fn next(&self, from: Timestamp) -> Next {
        let found = match is_arithmetic(self.parts) {
            true => next_by_arithmetic(self.parts, from),
            false => match self.next_by_calendar(from) {
                Some(found) => found,
                None => return Next::Unknown,
            },
        };
        found.map_or(Next::End, |at| {
            let due = due_of(self.parts, self.name, at);
            Next::At(PlannedRun { at, due })
        })
    }

    #[cfg(feature = "schedules")]
    fn next_by_calendar(&self, from: Timestamp) -> Option<Option<Timestamp>> {
        self.calendar.as_ref().map(|spec| spec.next_from(from))
    }

    #[cfg(not(feature = "schedules"))]
    fn next_by_calendar(&self, _: Timestamp) -> Option<Option<Timestamp>> {
        None
    }

    /// The span between all instants, if it is one.
    pub(crate) fn span(&self) -> Option<Duration> {
        let SpecBuilder { every, at, .. } = self.parts;
        let is_one = is_arithmetic(self.parts) && at.is_empty() && every.len() == 1;
        is_one.then(|| every[0].span)
    }

    /// Whether no process with calendars is needed, ever.
    pub(crate) fn never_runs_dry(&self) -> bool {
        is_arithmetic(self.parts)
    }
}

/// Whether sums alone name the instants.
fn is_arithmetic(parts: &SpecBuilder) -> bool {
    parts.patterns.is_empty() && parts.except.is_empty()
}

fn next_by_arithmetic(parts: &SpecBuilder, from: Timestamp) -> Option<Timestamp> {
    let from = from.max(parts.start.unwrap_or_default());
    let every = parts.every.iter();
    let every = every.filter_map(|every| next_multiple(from, every.span, every.phase));
    let at = parts.at.iter().copied().filter(|at| *at >= from);
    let end = parts.end.unwrap_or(Timestamp::MAX);
    every.chain(at).min().filter(|at| *at <= end)
}

/// The first multiple of a span, plus the phase, from an instant on.
pub(super) fn next_multiple(from: Timestamp, span: Duration, phase: Duration) -> Option<Timestamp> {
    let (span, phase) = (span.as_micros() as u64, phase.as_micros() as u64);
    let from = from.as_micros();
    if from <= phase {
        return Some(Timestamp::from_micros(phase));
    }
    let over = (from - phase) % span;
    let wait = if over == 0 { 0 } else { span - over };
    Timestamp::from_micros(from).checked_add(Duration::from_micros(wait))
}

/// When the run of an instant is due in the schedule of that name: later by the jitter.
pub(super) fn due_of(parts: &SpecBuilder, name: &str, at: Timestamp) -> Timestamp {
    let span = parts.jitter.as_millis() as u64;
    let bytes = name.bytes().chain(at.as_micros().to_be_bytes());
    let (drawn, of) = even_draw(bytes);
    at + Duration::from_millis((span + 1) * u64::from(drawn) / u64::from(of))
}
