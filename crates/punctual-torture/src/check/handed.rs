//! How the ends that were settled for a job were taken.

use punctual::JobState;

use super::job_timelines::{Answer, Case, Handed, JobTimeline};
use crate::event::Verdict;

impl Handed {
    /// The engine time of the step that answered it.
    pub(super) fn engine_time(&self) -> Option<u64> {
        match self.answer {
            Answer::Known(now, _) => Some(now),
            _ => None,
        }
    }

    /// Whether it was answered as taken.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self.answer, Answer::Known(_, Verdict::Settled(..)))
    }

    /// Whether it changed nothing, for sure.
    pub(super) fn is_refused(&self) -> bool {
        matches!(
            self.answer,
            Answer::Known(_, Verdict::LeaseLost) | Answer::Refused
        )
    }
}

impl JobTimeline {
    /// The state for good that an end caused, as far as that is known: it was answered so, or that
    /// it had been settled before, and nothing else was under its lease. An engine knows the
    /// attempt again, not its outcome.
    pub(super) fn settled_by(&self, end: &Handed) -> Option<JobState> {
        match &end.answer {
            Answer::Known(_, Verdict::Settled(state, _)) => {
                Some(*state).filter(|it| it.is_settled())
            }
            Answer::Known(_, Verdict::Repeated) if !self.may_have_ended_otherwise(end) => {
                for_good(&end.outcome)
            }
            _ => None,
        }
    }

    fn may_have_ended_otherwise(&self, end: &Handed) -> bool {
        let is_other = |other: &&Handed| {
            other.token == end.token && other.attempt == end.attempt && other.outcome != end.outcome
        };
        let mut others = self.ends.iter().filter(is_other);
        others.any(|other| !other.is_refused())
    }

    /// The first end that settled it for good, as far as that is known, by its number.
    pub(super) fn settled_at(&self) -> Option<usize> {
        self.ends
            .iter()
            .position(|end| self.settled_by(end).is_some())
    }

    /// Whether any end of an attempt was taken.
    pub(super) fn is_acknowledged(&self) -> bool {
        let taken = |end: &Handed| {
            matches!(
                end.answer,
                Answer::Known(_, Verdict::Settled(..) | Verdict::Repeated)
            )
        };
        self.ends.iter().any(taken)
    }

    /// Whether an end with that outcome was taken, or may have been: no answer came, no
    /// other one was taken in its place, and the job was claimed no more since.
    pub(super) fn may_have_ended_as(&self, case: &Case, outcome: &str) -> bool {
        let mut ends = self.ends.iter().filter(|end| end.outcome == outcome);
        ends.any(|end| self.may_be_taken(case, end))
    }

    /// Whether an end was taken, or may have been.
    pub(super) fn may_be_taken(&self, case: &Case, end: &Handed) -> bool {
        let is_another = |other: &Handed| {
            other.is_taken() && other.token == end.token && other.attempt == end.attempt
        };
        let is_void =
            || end.is_refused() || self.ends.iter().any(is_another) || self.is_over(case, end);
        end.is_taken() || !is_void()
    }

    /// Whether a later lease stands, so that an end under its own can have been taken no more.
    fn is_over(&self, case: &Case, end: &Handed) -> bool {
        self.grants.iter().any(|grant| {
            grant.token.fence > end.token.fence && !case.may_forget(grant, end.answered)
        })
    }
}

/// The state for good that an outcome causes, if it does whatever else is asked.
fn for_good(outcome: &str) -> Option<JobState> {
    match outcome {
        "completed" => Some(JobState::Completed),
        "dead" => Some(JobState::Dead),
        "cancelled" => Some(JobState::Cancelled),
        _ => None,
    }
}
