//! What a schedule is written with, and the checks of every part.

use std::time::Duration;

use crate::error::Result;
use crate::time::{Timestamp, days, exact_span, millis};

use super::parts::{Every, Fold, Form, Gap, PatternText, SpecBuilder};
use super::pattern::Pattern;
use super::spec::Spec;
use super::{refuse, zone};

/// The most patterns of a schedule, and as many exclusions.
pub const PATTERNS_MAX: usize = 64;
/// The most fixed instants of a schedule.
pub const INSTANTS_MAX: usize = 1_000;
/// The shortest span of `every`.
pub const EVERY_MIN: Duration = millis(1);
/// The longest span of `every`: eight years.
pub const EVERY_MAX: Duration = days(2_922);
/// The longest offset before the patterns: a year.
pub const BEFORE_MAX: Duration = days(366);
/// The longest jitter: a day.
pub const JITTER_MAX: Duration = days(1);

impl SpecBuilder {
    /// Adds a pattern of five fields: minute, hour, day of month, month, day of week.
    ///
    /// Where both day fields are given, one of them suffices: `0 9 13 * FRI` runs on each 13th and
    /// on each Friday. Only a bare `*` counts as not given.
    #[must_use]
    pub fn cron(self, pattern: impl Into<String>) -> Self {
        self.pattern(Form::Cron, pattern)
    }

    /// Adds a pattern of six fields: a second, then those of [`SpecBuilder::cron`].
    #[must_use]
    pub fn cron_with_seconds(self, pattern: impl Into<String>) -> Self {
        self.pattern(Form::CronWithSeconds, pattern)
    }

    /// Adds a line of Quartz, such as `0 0/5 14 ? * MON-FRI`, in which Sunday is 1.
    #[must_use]
    pub fn quartz(self, pattern: impl Into<String>) -> Self {
        self.pattern(Form::Quartz, pattern)
    }

    /// Adds a pattern of any form.
    #[must_use]
    pub fn pattern(mut self, form: Form, pattern: impl Into<String>) -> Self {
        self.patterns.push(PatternText::new(form, pattern));
        self
    }

    /// Adds a run in every span, counted from 1970.
    #[must_use]
    pub fn every(self, span: Duration) -> Self {
        self.every_with_phase(span, Duration::ZERO)
    }

    /// The same, with each run later by `phase`: 1 h with 15 min runs at quarter past.
    #[must_use]
    pub fn every_with_phase(mut self, span: Duration, phase: Duration) -> Self {
        self.every.push(Every { span, phase });
        self
    }

    /// Adds fixed instants.
    #[must_use]
    pub fn at(mut self, instants: impl IntoIterator<Item = Timestamp>) -> Self {
        self.at.extend(instants);
        self
    }

    /// Leaves out the times of a pattern of five fields, each for its whole minute.
    ///
    /// `* * 25 12 *` leaves out Christmas Day. What counts is the time of the pattern, before the
    /// offset of [`SpecBuilder::before`].
    #[must_use]
    pub fn except_cron(self, pattern: impl Into<String>) -> Self {
        self.except(Form::Cron, pattern)
    }

    /// Leaves out the times of a pattern of any form.
    #[must_use]
    pub fn except(mut self, form: Form, pattern: impl Into<String>) -> Self {
        self.except.push(PatternText::new(form, pattern));
        self
    }

    /// Sets the zone of all patterns: `Europe/Berlin`, `UTC`.
    #[must_use]
    pub fn zone(mut self, name: impl Into<String>) -> Self {
        self.zone = name.into();
        self
    }

    /// Runs that much earlier than the patterns say; `every` and fixed instants stay.
    #[must_use]
    pub fn before(mut self, span: Duration) -> Self {
        self.before = span;
        self
    }

    /// Sets what becomes of local times that do not exist.
    #[must_use]
    pub fn gap(mut self, gap: Gap) -> Self {
        self.gap = gap;
        self
    }

    /// Sets which is meant of local times that exist twice.
    #[must_use]
    pub fn fold(mut self, fold: Fold) -> Self {
        self.fold = fold;
        self
    }

    /// Makes each run due up to that much later, so that schedules of one instant spread.
    ///
    /// The draw depends on the schedule's name and the instant alone: see [`Spec::due`].
    #[must_use]
    pub fn jitter(mut self, span: Duration) -> Self {
        self.jitter = span;
        self
    }

    /// Leaves out what is before that instant.
    #[must_use]
    pub fn start(mut self, at: Timestamp) -> Self {
        self.start = Some(at);
        self
    }

    /// Leaves out what is after that instant.
    #[must_use]
    pub fn end(mut self, at: Timestamp) -> Self {
        self.end = Some(at);
        self
    }

    /// Ends the schedule after that many runs, at least one.
    #[must_use]
    pub fn max_runs(mut self, runs: u64) -> Self {
        self.max_runs = Some(runs);
        self
    }

    /// Checks every part.
    ///
    /// # Errors
    /// `invalid_input`, with the part, its value and the remedy; also where the whole never runs.
    pub fn build(self) -> Result<Spec> {
        self.check_counts()?;
        let (zone, name) = zone::read(&self.zone)?;
        let patterns = read_all(&self.patterns)?;
        let except = read_all(&self.except)?;
        self.check_spans()?;
        self.check_jitter(&patterns)?;
        let mut parts = self;
        parts.zone = name;
        parts.at.sort_unstable();
        parts.at.dedup();
        let spec = Spec::new(parts, zone, patterns, except);
        spec.check_runs()?;
        Ok(spec)
    }

    fn check_counts(&self) -> Result<()> {
        let nothing = self.patterns.is_empty() && self.every.is_empty() && self.at.is_empty();
        if nothing {
            let what = "schedule: it names no time; give a cron pattern, a span or an instant";
            return Err(refuse(what));
        }
        let counts = [
            ("patterns", self.patterns.len(), PATTERNS_MAX),
            ("spans", self.every.len(), PATTERNS_MAX),
            ("exclusions", self.except.len(), PATTERNS_MAX),
            ("instants", self.at.len(), INSTANTS_MAX),
        ];
        for (what, count, most) in counts {
            if count > most {
                let message = format!("schedule: {count} {what} are too many; use at most {most}");
                return Err(refuse(message));
            }
        }
        Ok(())
    }

    fn check_spans(&self) -> Result<()> {
        for Every { span, phase } in &self.every {
            if !(EVERY_MIN..=EVERY_MAX).contains(span) {
                let (least, most) = (exact_span(EVERY_MIN), exact_span(EVERY_MAX));
                let what = format!("every is out of range; use {least} to {most}");
                return Err(refuse(what).with("every", exact_span(*span)));
            }
            if phase >= span {
                let (phase, span) = (exact_span(*phase), exact_span(*span));
                let what = format!(
                    "every: phase {phase} is not shorter than the span {span}; use a shorter one"
                );
                return Err(refuse(what));
            }
        }
        if self.before > BEFORE_MAX {
            let most = exact_span(BEFORE_MAX);
            let what = format!("before is out of range; use at most {most}");
            return Err(refuse(what).with("before", exact_span(self.before)));
        }
        if !self.before.is_zero() && self.patterns.is_empty() {
            let what = "before: there is no cron pattern to be before; give one, or leave it out";
            return Err(refuse(what));
        }
        if self.max_runs == Some(0) {
            return Err(refuse("max_runs: 0 is out of range; use at least 1"));
        }
        match (self.start, self.end) {
            (Some(start), Some(end)) if end < start => {
                let what = format!("end: {end} is before the start {start}; use a later one");
                Err(refuse(what))
            }
            _ => Ok(()),
        }
    }

    /// With more jitter than that, a run could be due after the next one.
    fn check_jitter(&self, patterns: &[Pattern]) -> Result<()> {
        if self.jitter.is_zero() {
            return Ok(());
        }
        let of_patterns = patterns.iter().map(|pattern| {
            let span = Duration::from_secs(pattern.shortest_span());
            (span, "the shortest span between two runs of a pattern")
        });
        let of_every = self.every.iter().map(|every| (every.span, "its span"));
        let most = [(JITTER_MAX, "the most")].into_iter();
        for (most, why) in of_patterns.chain(of_every).chain(most) {
            if self.jitter > most {
                let most = exact_span(most);
                let what = format!("jitter is over {most}, {why}; use at most {most}");
                return Err(refuse(what).with("jitter", exact_span(self.jitter)));
            }
        }
        Ok(())
    }
}

fn read_all(patterns: &[PatternText]) -> Result<Vec<Pattern>> {
    patterns.iter().map(Pattern::read).collect()
}

impl TryFrom<SpecBuilder> for Spec {
    type Error = crate::Error;

    fn try_from(parts: SpecBuilder) -> Result<Self> {
        parts.build()
    }
}

impl From<Spec> for SpecBuilder {
    fn from(spec: Spec) -> Self {
        spec.into_parts()
    }
}

impl Spec {
    /// Begins with a pattern of five fields: see [`SpecBuilder::cron`].
    pub fn cron(pattern: impl Into<String>) -> SpecBuilder {
        SpecBuilder::default().cron(pattern)
    }

    /// Begins with a span: see [`SpecBuilder::every`].
    pub fn every(span: Duration) -> SpecBuilder {
        SpecBuilder::default().every(span)
    }

    /// Begins with nothing.
    pub fn builder() -> SpecBuilder {
        SpecBuilder::default()
    }
}
