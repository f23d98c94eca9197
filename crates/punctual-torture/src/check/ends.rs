//! I7: failures are those that were settled, crashes the rest.

use super::job_timelines::{Answer, Case, Grant, JobTimeline};
use super::{Tally, Verdict};
use crate::event::Verdict as Said;

/// I7: attempts before a claim are failures, crashes, and those handed back or delayed; and of the
/// failures and of those handed back there are as many as were settled.
pub(super) fn attempts(case: &Case, _tally: &mut Tally) -> Verdict {
    let mut verdict = Verdict::new("I7 attempts add up");
    for (id, timeline) in case
        .jobs
        .iter()
        .filter(|(_, timeline)| !timeline.over_a_loss)
    {
        for grant in &timeline.grants {
            let failed = Bounds::of(timeline, grant, &["retry"]);
            let back = Bounds::of(timeline, grant, &["released", "snooze"]);
            let rest = (grant.attempt - 1).checked_sub(grant.failures + grant.crashes);
            verdict.check(failed.explains(grant.failures), || {
                format!(
                    "{id}: attempt {} has {} failures, {failed:?} were settled",
                    grant.attempt, grant.failures
                )
            });
            verdict.check(rest.is_some_and(|rest| back.explains(rest)), || {
                format!(
                    "{id}: attempt {} has {} failures and {} crashes, {back:?} were handed back",
                    grant.attempt, grant.failures, grant.crashes
                )
            });
        }
    }
    verdict
}

/// How many there were at least and at most.
#[derive(Debug)]
struct Bounds {
    least: u32,
    most: u32,
}

impl Bounds {
    /// Attempts before a claim that were settled with one of these outcomes. After a power cut an
    /// attempt may be counted again; its end then comes after a claim that was forgotten.
    fn of(timeline: &JobTimeline, claim: &Grant, outcomes: &[&str]) -> Self {
        let mut bounds = Self { least: 0, most: 0 };
        let mut counted: Vec<u32> = Vec::new();
        let ours = |end: &&super::job_timelines::Handed| {
            end.attempt < claim.attempt && outcomes.contains(&&*end.outcome)
        };
        for end in timeline.ends.iter().filter(ours) {
            let sure =
                matches!(end.answer, Answer::Known(now, Said::Settled(..)) if now <= claim.now);
            let possible = matches!(
                end.answer,
                Answer::Unknown | Answer::Known(_, Said::Repeated)
            );
            if sure {
                bounds.least += 1;
            }
            if (sure || possible) && !counted.contains(&end.attempt) {
                counted.push(end.attempt);
                bounds.most += 1;
            }
        }
        bounds
    }

    fn explains(&self, count: u32) -> bool {
        (self.least..=self.most).contains(&count)
    }
}
