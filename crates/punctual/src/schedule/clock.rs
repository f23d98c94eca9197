//! From local times to instants: what happens where the clock of a zone is set forward or back.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::parts::{Fold, Gap};
use super::pattern::Pattern;
use crate::injected::{Bug, is_injected};

/// A zone, and the policies for its changes.
#[derive(Debug, Clone)]
pub(super) struct ZoneClock {
    pub(super) zone: TimeZone,
    pub(super) gap: Gap,
    pub(super) fold: Fold,
}

/// A stretch of time in which the zone has one offset.
struct Stretch {
    offset: Offset,
    /// The change that it begins with, and the offset before, unless that is longer ago than
    /// `REACH`.
    start: Option<(Timestamp, Offset)>,
    /// The change that it ends with, and the offset after.
    end: Option<(Timestamp, Offset)>,
}

/// No change of a clock reaches further: Samoa skipped a day.
const REACH: SignedDuration = SignedDuration::from_hours(26);

impl ZoneClock {
    /// The first run of a pattern in whole seconds from `from` to `until`, both included.
    pub(super) fn next(&self, pattern: &Pattern, from: i64, until: i64) -> Option<i64> {
        let mut at = Timestamp::from_second(from).ok()?;
        let last_year = pattern.last_year(self.local(at).year());
        loop {
            let stretch = self.stretch_at(at);
            let gap_run = self.gap_run(pattern, &stretch, at);
            let own_run = self.own_run(pattern, &stretch, at, until);
            let run = [gap_run, own_run].into_iter().flatten().min();
            let end = stretch.end.map(|(end, _)| end);
            if let Some(run) = run.filter(|run| end.is_none_or(|end| *run < end)) {
                return Some(run.as_second()).filter(|run| *run <= until);
            }
            at = end?;
            if at.as_second() > until || self.local(at).year() > last_year {
                return None;
            }
        }
    }

    /// Whether a pattern covers an instant, by the clock or by a run that a gap moved.
    pub(super) fn covers(&self, pattern: &Pattern, second: i64, is_whole: bool) -> bool {
        let Ok(at) = Timestamp::from_second(second) else {
            return false;
        };
        pattern.covers(self.local(at))
            || (is_whole && self.next(pattern, second, second) == Some(second))
    }

    /// The first second that a pattern does not cover in one go with this one.
    pub(super) fn covered_until(&self, pattern: &Pattern, second: i64) -> i64 {
        let after = second.saturating_add(1);
        let Ok(at) = Timestamp::from_second(second) else {
            return after;
        };
        let stretch = self.stretch_at(at);
        let local = stretch.offset.to_datetime(at);
        if !pattern.covers(local) {
            return after;
        }
        let by_clock = pattern.covered_until(local);
        let by_clock = by_clock.and_then(|local| stretch.offset.to_timestamp(local).ok());
        let end = stretch.end.map(|(end, _)| end);
        let until = [by_clock, end].into_iter().flatten().min();
        until.map_or(after, |until| until.as_second().max(after))
    }

    /// The local time of an instant.
    pub(super) fn local(&self, at: Timestamp) -> DateTime {
        self.zone.to_offset(at).to_datetime(at)
    }

    fn stretch_at(&self, at: Timestamp) -> Stretch {
        let offset = self.zone.to_offset(at);
        let mut stretch = Stretch {
            offset,
            start: None,
            end: None,
        };
        // Not `preceding`: in jiff 0.2.43 that leaves out the last change before a zone's final
        // rule.
        let near = at.checked_sub(REACH).unwrap_or(Timestamp::MIN);
        for change in self.zone.following(near) {
            let when = change.timestamp();
            if when > at {
                stretch.end = Some((when, change.offset()));
                break;
            }
            let before = when - SignedDuration::from_secs(1);
            stretch.start = Some((when, self.zone.to_offset(before)));
        }
        stretch
    }

    /// The run that the gap at the start of a stretch moves to `at` or later.
    fn gap_run(&self, pattern: &Pattern, stretch: &Stretch, at: Timestamp) -> Option<Timestamp> {
        let (start, before) = stretch
            .start
            .filter(|(_, before)| *before < stretch.offset)?;
        let gap = before.to_datetime(start)..stretch.offset.to_datetime(start);
        let from = match self.gap {
            Gap::Skip => return None,
            _ if is_injected(Bug::GapSkipped) => return None,
            Gap::AtItsEnd if at > start => return None,
            Gap::AtItsEnd => gap.start,
            Gap::Shift => before.to_datetime(at),
        };
        if from >= gap.end {
            return None;
        }
        let missed = pattern.next(from, gap.end)?;
        if pattern.follows_real_time() {
            let hour_after = gap.end.checked_add(SignedDuration::from_hours(1)).ok()?;
            if pattern.next(gap.end, hour_after).is_some() {
                return None;
            }
        }
        match self.gap {
            Gap::Shift => before.to_timestamp(missed).ok(),
            _ => Some(start),
        }
    }

    /// The first run at a local time that the clock shows within a stretch.
    fn own_run(
        &self,
        pattern: &Pattern,
        stretch: &Stretch,
        at: Timestamp,
        until: i64,
    ) -> Option<Timestamp> {
        let offset = stretch.offset;
        let fold = match pattern.follows_real_time() {
            true => Fold::Both,
            false if is_injected(Bug::FoldTwice) => Fold::Both,
            false => self.fold,
        };
        let mut from = offset.to_datetime(at);
        if let (Fold::First, Some((start, before))) = (fold, stretch.start) {
            from = from.max(before.to_datetime(start));
        }
        let mut end = match stretch.end {
            Some((end, after)) if fold == Fold::Last => offset.min(after).to_datetime(end),
            Some((end, _)) => offset.to_datetime(end),
            None => DateTime::MAX,
        };
        if let Ok(until) = Timestamp::from_second(until.saturating_add(1)) {
            end = end.min(offset.to_datetime(until));
        }
        if from >= end {
            return None;
        }
        offset.to_timestamp(pattern.next(from, end)?).ok()
    }
}
