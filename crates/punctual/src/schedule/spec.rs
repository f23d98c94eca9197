//! A checked schedule, and its instants.

use std::cell::Cell;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::time::{Timestamp, days};

use super::clock::ZoneClock;
use super::parts::SpecBuilder;
use super::pattern::Pattern;
use super::refuse;
use super::series::{due_of, next_multiple};

/// Which instants a schedule names, by its parts.
///
/// It is serialised as its [`SpecBuilder`]; what is read is checked again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "SpecBuilder", into = "SpecBuilder")]
pub struct Spec {
    parts: SpecBuilder,
    patterns: Vec<Pattern>,
    except: Vec<Pattern>,
    pub(super) clock: ZoneClock,
}

/// A search gives up after that long without an instant that is not excluded: eight years.
const EXCLUDED_MAX: Duration = days(2_922);
/// A search gives up after that many checks of an exclusion, about a tenth of a second.
const CHECKS_MAX: usize = 100_000;
const SECOND: u64 = 1_000_000;
const MICROSECOND: Duration = Duration::from_micros(1);

impl Spec {
    pub(super) fn new(
        parts: SpecBuilder,
        zone: TimeZone,
        patterns: Vec<Pattern>,
        except: Vec<Pattern>,
    ) -> Self {
        let clock = ZoneClock {
            zone,
            gap: parts.gap,
            fold: parts.fold,
        };
        Self {
            parts,
            patterns,
            except,
            clock,
        }
    }

    /// The parts that it was built from, with the zone as the database writes it.
    pub fn parts(&self) -> &SpecBuilder {
        &self.parts
    }

    pub(super) fn into_parts(self) -> SpecBuilder {
        self.parts
    }

    /// The first instant after that one, or `None` if the schedule has ended.
    ///
    /// The search ends after eight years, or 100,000 checks of an exclusion. It does not count
    /// runs: `max_runs` is for the caller who keeps the count.
    ///
    /// ```
    /// use punctual::schedule::Spec;
    ///
    /// let spec = Spec::cron("0 9 * * MON").zone("Europe/Berlin").build()?;
    /// let next = spec.next_after("2026-11-25T00:00:00Z".parse()?);
    /// assert_eq!(next, Some("2026-11-30T08:00:00Z".parse()?));
    /// # Ok::<(), punctual::Error>(())
    /// ```
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.next_from(after.checked_add(MICROSECOND)?)
    }

    /// The instants from that one on, itself included, at most `max_runs` of them.
    pub fn instants(&self, from: Timestamp) -> Instants<'_> {
        Instants {
            spec: self,
            next: Some(from),
            left: self.parts.max_runs.unwrap_or(u64::MAX),
        }
    }

    /// The instants from one on and before another that are past: what a backfill runs.
    ///
    /// # Errors
    /// `invalid_input` for more than `most`, and for an end that is not after its start.
    pub fn past(
        &self,
        from: Timestamp,
        to: Timestamp,
        now: Timestamp,
        most: usize,
    ) -> Result<Vec<Timestamp>> {
        if to <= from {
            return Err(refuse(format!(
                "backfill: it ends at {to} and begins at {from}; use a later end"
            )));
        }
        let last = Timestamp::from_micros(to.as_micros() - 1);
        self.between(from, last.min(now), most)
    }

    /// The instants from one on and up to another, both included.
    ///
    /// # Errors
    /// `invalid_input` for more than `most`.
    pub fn between(&self, from: Timestamp, to: Timestamp, most: usize) -> Result<Vec<Timestamp>> {
        let mut found = Vec::new();
        let mut next = self.next_from(from);
        while let Some(at) = next.filter(|at| *at <= to) {
            if found.len() == most {
                let what = format!("backfill: over {most} instants; name a shorter stretch");
                return Err(refuse(what));
            }
            found.push(at);
            next = self.next_after(at);
        }
        Ok(found)
    }

    /// When the run of that instant is due in the schedule of that name: later by the jitter.
    ///
    /// The draw is even, in whole milliseconds, and depends on the name and the instant alone.
    ///
    /// ```
    /// use punctual::schedule::Spec;
    /// use punctual::time::{minutes, seconds};
    ///
    /// let spec = Spec::every(minutes(5)).jitter(seconds(30)).build()?;
    /// let at = "2026-11-25T09:00:00Z".parse()?;
    /// assert!(spec.due("report", at) - at <= seconds(30));
    /// assert_eq!(spec.due("report", at), spec.due("report", at));
    /// assert_ne!(spec.due("report", at), spec.due("invoice", at));
    /// # Ok::<(), punctual::Error>(())
    /// ```
    pub fn due(&self, name: &str, at: Timestamp) -> Timestamp {
        due_of(&self.parts, name, at)
    }

    pub(super) fn next_from(&self, from: Timestamp) -> Option<Timestamp> {
        let from = from.max(self.parts.start.unwrap_or_default());
        let search = Search {
            spec: self,
            end: self.parts.end.unwrap_or(Timestamp::MAX),
            checks_left: Cell::new(CHECKS_MAX),
        };
        let of_patterns = self.patterns.iter();
        let of_patterns = of_patterns.filter_map(|pattern| search.of_pattern(pattern, from));
        let of_every = self.parts.every.iter().filter_map(|every| {
            let next = |from| next_multiple(from, every.span, every.phase);
            search.first_allowed(from, search.end, next)
        });
        let of_instants = search.first_allowed(from, search.end, |from| {
            let index = self.parts.at.partition_point(|at| *at < from);
            self.parts.at.get(index).copied()
        });
        of_patterns.chain(of_every).chain(of_instants).min()
    }

    /// Refuses a schedule without a single run.
    pub(super) fn check_runs(&self) -> Result<()> {
        if self.next_from(Timestamp::ZERO).is_some() {
            return Ok(());
        }
        let (start, end) = (self.parts.start, self.parts.end);
        let without = Self {
            except: Vec::new(),
            ..self.clone()
        };
        Err(match without.next_from(Timestamp::ZERO) {
            Some(_) => refuse("schedule: its exclusions cover every run; leave one out"),
            None => {
                let edge = |at: Option<Timestamp>| at.map_or("-".into(), |at| at.to_string());
                refuse("schedule: it has no run between start and end; move one of them")
                    .with("start", edge(start))
                    .with("end", edge(end))
            }
        })
    }

    /// Whether a pattern names the local time of an instant, so that no gap has moved it there.
    pub(super) fn is_on_the_clock(&self, at: jiff::Timestamp) -> bool {
        let local = self.clock.local(at);
        self.patterns.iter().any(|pattern| pattern.covers(local))
    }
}

/// One search for the next instant.
struct Search<'a> {
    spec: &'a Spec,
    end: Timestamp,
    checks_left: Cell<usize>,
}

impl Search<'_> {
    /// The patterns lie `before` after what the schedule runs at.
    fn of_pattern(&self, pattern: &Pattern, from: Timestamp) -> Option<Timestamp> {
        let before = self.spec.parts.before;
        let (from, end) = (from.checked_add(before)?, self.end + before);
        let until = (end.as_micros() / SECOND) as i64;
        let next = |from: Timestamp| {
            let from = from.as_micros().div_ceil(SECOND) as i64;
            let next = self.spec.clock.next(pattern, from, until)?;
            Some(Timestamp::from_micros(next as u64 * SECOND))
        };
        let found = self.first_allowed(from, end, next)?;
        Some(Timestamp::from_micros(
            found.as_micros() - before.as_micros() as u64,
        ))
    }

    /// The first of a row of instants that no exclusion covers.
    fn first_allowed(
        &self,
        mut from: Timestamp,
        end: Timestamp,
        next: impl Fn(Timestamp) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        let mut first_excluded = None;
        loop {
            let at = next(from).filter(|at| *at <= end)?;
            let Some(until) = self.excluded_until(at) else {
                return Some(at);
            };
            let first = *first_excluded.get_or_insert(at);
            if at - first > EXCLUDED_MAX {
                return None;
            }
            let checks = self.spec.except.len();
            self.checks_left
                .set(self.checks_left.get().checked_sub(checks)?);
            from = until;
        }
    }

    /// Where the stretch ends that an exclusion covers around an instant, if one does.
    fn excluded_until(&self, at: Timestamp) -> Option<Timestamp> {
        let second = (at.as_micros() / SECOND) as i64;
        let is_whole = at.as_micros().is_multiple_of(SECOND);
        let clock = &self.spec.clock;
        let covers = |pattern: &&Pattern| clock.covers(pattern, second, is_whole);
        let by = self.spec.except.iter().find(covers)?;
        let until = clock.covered_until(by, second);
        Some(Timestamp::from_micros(until as u64 * SECOND))
    }
}

impl PartialEq for Spec {
    /// By the parts.
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

/// The instants of a [`Spec`], from the first on.
#[derive(Debug, Clone)]
pub struct Instants<'a> {
    spec: &'a Spec,
    next: Option<Timestamp>,
    left: u64,
}

impl Iterator for Instants<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        self.left = self.left.checked_sub(1)?;
        let found = self.spec.next_from(self.next?);
        self.next = found.and_then(|at| at.checked_add(MICROSECOND));
        found
    }
}

#[cfg(test)]
mod tests;
