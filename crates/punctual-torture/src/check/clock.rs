//! What answers show of the engine's clock, where that may be wrong: it never steps back, and may
//! leap.

use super::job_timelines::{Case, JobTimeline};

/// The engine's clock, by its answers.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Stamps of answers, in order, and the latest engine time that was answered until each.
    answers: Vec<(u64, u64)>,
    /// By how much an answer was ahead of its stamp, at most.
    ahead: i64,
}

impl Clock {
    /// Of stamps of answers, in whatever order, and their engine time.
    pub(super) fn of(mut answers: Vec<(u64, u64)>) -> Self {
        answers.sort_unstable();
        let ahead = answers.iter().map(|(at, now)| *now as i64 - *at as i64);
        let ahead = ahead.max().unwrap_or_default();
        let mut latest = 0;
        for (_, now) in &mut answers {
            latest = latest.max(*now);
            *now = latest;
        }
        Self { answers, ahead }
    }

    /// Stamps of answers that came between two others, in order.
    pub(super) fn answers(&self, from: u64, until: u64) -> impl Iterator<Item = u64> {
        let first = self.answers.partition_point(|(at, _)| *at <= from);
        let last = self.answers.partition_point(|(at, _)| *at < until);
        let between = self.answers.get(first..last).unwrap_or_default();
        between.iter().map(|(at, _)| *at)
    }

    /// The latest engine time that was answered before a stamp; 0 if there was none.
    pub(super) fn before(&self, stamp: u64) -> u64 {
        let before = self.answers.partition_point(|(at, _)| *at < stamp);
        let last = before.checked_sub(1).map(|last| self.answers[last].1);
        last.unwrap_or_default()
    }
}

/// A clock that goes ahead does so by no more at a time.
const AHEAD: u64 = 2_000_000;

impl Case {
    /// The earliest instant at which a job may run, by its first sending alone; 0 if nothing is
    /// known of the clocks.
    pub(super) fn earliest(&self, timeline: &JobTimeline) -> u64 {
        let Some((at, wall, sent)) = &timeline.sent else {
            return 0;
        };
        match (self.is_elsewhere, self.has_wrong_clocks()) {
            (false, false) => wall + sent.after,
            (false, true) => self.clock.before(*at) + sent.after,
            // Parts of it may be on several machines, each with a time of its own.
            (true, _) => 0,
        }
    }

    /// Whether more than a span of engine time may lie between a call that was sent at a stamp and
    /// another stamp.
    pub(super) fn may_lie_between(&self, span: u64, sent: u64, at: u64) -> bool {
        let wrong = self.faults.iter().filter(|fault| fault.id == "F14");
        let stood_still = wrong.map(|fault| fault.until.saturating_sub(fault.from));
        let Some(stood_still) = stood_still.max() else {
            return sent + span <= at;
        };
        // What no answer showed: that it had stood still, and a step ahead since.
        let unseen = stood_still.saturating_add(AHEAD);
        let until = at.saturating_add_signed(self.clock.ahead);
        self.clock.before(sent) + span <= until.saturating_add(unseen)
    }
}
