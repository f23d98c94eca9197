//! Part of I1: what cancels were answered, and what then holds.

use punctual::{JobId, JobState};

use super::Verdict;
use super::job_timelines::{Case, Handed, JobTimeline};
use crate::snapshot::Seen;

/// Whether a cancel took effect, now or before: a client may have sent it twice, and got the
/// second answer.
fn took_effect(verdict: &str) -> bool {
    matches!(verdict, "done" | "cancel_requested" | "already_cancelled")
}

/// Whether that is an answer to a cancel that took effect, or none.
pub(super) fn may_have_taken(answer: &Option<(u64, String)>) -> bool {
    answer.as_ref().is_none_or(|(_, said)| took_effect(said))
}

impl JobTimeline {
    /// When a cancel was first answered so.
    fn answered(&self, verdict: &str) -> Option<u64> {
        let answers = self
            .cancels
            .iter()
            .filter_map(|(_, answer)| answer.as_ref());
        let such = answers.filter(|(_, said)| said == verdict);
        such.map(|(at, _)| *at).min()
    }

    /// When a cancel was answered that says that it waited, and is cancelled.
    pub(super) fn cancelled_at(&self) -> Option<u64> {
        self.answered("done")
    }
}

/// A job that was cancelled stays so: an active one is asked to stop instead, so what is `done`
/// waited, and no end of it was taken that is for good, nor one that was settled after the answer.
pub(super) fn check(
    case: &Case,
    id: &JobId,
    timeline: &JobTimeline,
    seen: Option<&Seen>,
    verdict: &mut Verdict,
) {
    let (done, already) = (
        timeline.cancelled_at(),
        timeline.answered("already_cancelled"),
    );
    let Some(at) = done.into_iter().chain(already).min() else {
        return;
    };
    if case.may_lose_between(at, case.ended) {
        return;
    }
    let is_against = |end: &&Handed| {
        let settled = timeline.settled_by(end);
        let by_itself = settled == Some(JobState::Cancelled) && done.is_none();
        end.is_taken() && end.invoked > at || settled.is_some() && !by_itself
    };
    let ended = timeline.ends.iter().find(is_against);
    verdict.check(ended.is_none(), || {
        let outcome = ended.map_or("", |end| &end.outcome);
        format!("{id} was cancelled, and its end as {outcome} was accepted")
    });
    if let Some(seen) = seen {
        verdict.check(seen.state == JobState::Cancelled, || {
            format!("{id} was cancelled and is {}", seen.state)
        });
    }
}

/// A job that was acknowledged is found until its tombstone has lapsed.
pub(super) fn find(case: &Case, id: &JobId, timeline: &JobTimeline, verdict: &mut Verdict) {
    let Some(stored) = timeline.stored() else {
        return;
    };
    let after = |(invoked, answer): &(u64, Option<(u64, String)>)| {
        answer.clone().filter(|_| *invoked > stored.at)
    };
    for (answered, said) in timeline.cancels.iter().filter_map(after) {
        let holds = said != "not_found" || case.may_be_gone(timeline, answered);
        verdict.check(holds, || {
            format!("{id} was acknowledged, and not found then")
        });
    }
}
