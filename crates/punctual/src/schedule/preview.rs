//! The next runs for a person: in the zone, in UTC, and what a change of the clock did to them.

use jiff::tz::AmbiguousOffset;

use crate::time::Timestamp;

use super::spec::Spec;

/// What a change of the clock has to do with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClockNote {
    /// A local time that does not exist was moved here.
    MovedByGap,
    /// The local time exists twice; this is the first.
    FirstPass,
    /// The local time exists twice; this is the second.
    SecondPass,
}

/// One run of a preview.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// The instant that the schedule names.
    pub at: Timestamp,
    /// When it is due: later by the jitter.
    pub due: Timestamp,
    /// The instant in the schedule's zone: `Mon 2026-03-30 02:30:00 +02:00`.
    pub local: String,
    /// What a change of the clock has to do with it.
    pub note: Option<ClockNote>,
}

impl Spec {
    /// The first `count` runs from an instant on, in the schedule of that name.
    ///
    /// ```
    /// use punctual::schedule::{ClockNote, Spec};
    ///
    /// let spec = Spec::cron("30 2 * * *").zone("Europe/Berlin").build()?;
    /// let runs = spec.preview("report", "2026-03-29T00:00:00Z".parse()?, 2);
    /// assert_eq!(runs[0].local, "Sun 2026-03-29 03:00:00 +02:00");
    /// assert_eq!(runs[0].note, Some(ClockNote::MovedByGap));
    /// assert_eq!(runs[1].note, None);
    /// # Ok::<(), punctual::Error>(())
    /// ```
    pub fn preview(&self, name: &str, from: Timestamp, count: usize) -> Vec<Run> {
        let run = |at| Run {
            at,
            due: self.due(name, at),
            local: self.local_text(at),
            note: self.note(at),
        };
        self.instants(from).take(count).map(run).collect()
    }

    /// An instant in the schedule's zone, with its weekday and offset.
    pub fn local_text(&self, at: Timestamp) -> String {
        let Some(instant) = instant_of(at) else {
            return at.to_string();
        };
        let zoned = instant.to_zoned(self.clock.zone.clone());
        let fraction = match at.as_micros() % 1_000_000 {
            0 => "",
            _ => "%.f",
        };
        zoned
            .strftime(&format!("%a %Y-%m-%d %H:%M:%S{fraction} %:z"))
            .to_string()
    }

    fn note(&self, at: Timestamp) -> Option<ClockNote> {
        // The pattern's own time, not that of a run before it.
        let at = at.checked_add(self.parts().before)?;
        let instant = instant_of(at)?;
        let zone = &self.clock.zone;
        let ambiguous = zone.to_ambiguous_timestamp(self.clock.local(instant));
        if let AmbiguousOffset::Fold { before, .. } = ambiguous.offset() {
            return Some(match zone.to_offset(instant) == before {
                true => ClockNote::FirstPass,
                false => ClockNote::SecondPass,
            });
        }
        let has_patterns = !self.parts().patterns.is_empty();
        let only_patterns = self.parts().every.is_empty() && self.parts().at.is_empty();
        let moved = has_patterns && only_patterns && !self.is_on_the_clock(instant);
        moved.then_some(ClockNote::MovedByGap)
    }
}

fn instant_of(at: Timestamp) -> Option<jiff::Timestamp> {
    let micros = i64::try_from(at.as_micros()).ok()?;
    jiff::Timestamp::from_microsecond(micros).ok()
}
