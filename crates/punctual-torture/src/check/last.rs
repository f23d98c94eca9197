//! Part of I1: the state of a job in the snapshot follows from what was settled and asked for.

use std::collections::{HashMap, HashSet};

use punctual::{JobId, JobState, UniquePolicy};

use super::Verdict;
use super::cancels::may_have_taken;
use super::job_timelines::{Case, JobTimeline};
use super::keys::{Key, key};
use crate::scripted_outcome::ScriptedOutcome;
use crate::snapshot::Seen;

/// As many failures bury a job.
const ATTEMPTS_MAX: usize = 20;

/// What may have caused how jobs ended, besides what was settled for them.
pub(super) struct Causes<'a> {
    case: &'a Case,
    /// Jobs that take the place of another one under their key, if they took effect.
    takers: HashMap<Key<'a>, Vec<(JobId, &'a JobTimeline)>>,
}

impl<'a> Causes<'a> {
    pub(super) fn of(case: &'a Case) -> Self {
        let mut takers: HashMap<Key<'_>, Vec<_>> = HashMap::new();
        for (id, timeline) in &case.jobs {
            let policy = timeline.sent.as_ref().and_then(|(.., sent)| sent.policy);
            if let (Some(key), Some(UniquePolicy::Replace)) = (key(timeline), policy) {
                takers.entry(key).or_default().push((*id, timeline));
            }
        }
        Self { case, takers }
    }

    /// Compares the state in the snapshot with what causes it.
    pub(super) fn explain(
        &self,
        id: &JobId,
        timeline: &JobTimeline,
        seen: &Seen,
        verdict: &mut Verdict,
    ) {
        let settled = timeline.settled_at().map(|place| &timeline.ends[place]);
        if let Some(state) = settled.and_then(|end| timeline.settled_by(end)) {
            verdict.check(seen.state == state, || {
                format!("{id} was settled as {state} and is {}", seen.state)
            });
        }
        let may_have = |outcome| timeline.may_have_ended_as(self.case, outcome);
        match seen.state {
            JobState::Completed => verdict.check(may_have("completed"), || {
                format!("{id} is completed, and no settlement says so")
            }),
            JobState::Dead => {
                let may_be = may_have("dead") || self.may_be_buried(timeline, seen);
                verdict.check(may_be, || format!("{id} is dead, and nothing says why"));
            }
            JobState::Cancelled => {
                let mut cancels = timeline.cancels.iter();
                let asked = cancels.any(|(_, answer)| may_have_taken(answer));
                verdict.check(asked || self.may_be_replaced(id, timeline), || {
                    format!("{id} is cancelled, and no call asked for that")
                });
            }
            _ => {}
        }
    }

    /// Whether it ended its process while alone, or failed too often.
    fn may_be_buried(&self, timeline: &JobTimeline, seen: &Seen) -> bool {
        // A tombstone does not say why.
        let scripted = timeline.sent.as_ref().map(|(.., sent)| sent.scripted);
        let may_be_poison =
            seen.attempt.is_none() && scripted == Some(ScriptedOutcome::AbortsAlways);
        let failed = timeline
            .ends
            .iter()
            .filter(|end| end.outcome == "retry" && timeline.may_be_taken(self.case, end));
        let failed: HashSet<u32> = failed.map(|end| end.attempt).collect();
        seen.poison || may_be_poison || failed.len() >= ATTEMPTS_MAX
    }

    /// Whether another job may have taken its place: it has its key and is of those that do that,
    /// and was answered so; or its first answer was lost. Its receipt names the
    /// holder, and the one that was to come after that one goes with it.
    fn may_be_replaced(&self, id: &JobId, timeline: &JobTimeline) -> bool {
        let Some(((since, ..), key)) = timeline.sent.as_ref().zip(key(timeline)) else {
            return false;
        };
        let (.., sent) = timeline.sent.as_ref().expect("it was sent");
        let claimed = timeline.grants.iter().map(|grant| grant.invoked);
        let waited = claimed.fold(*since, u64::max);
        let takes = |(other, taker): &(JobId, &JobTimeline)| {
            let may_have = |verdict: &str, named: Option<JobId>| match verdict {
                "duplicate" => true,
                "replaced" => named == Some(*id) || sent.policy == Some(UniquePolicy::After),
                _ => false,
            };
            let mut receipts = taker.receipts.iter();
            let is_answered = receipts
                .any(|it| it.at >= waited && may_have(&it.received.verdict, it.received.other));
            *other != *id && (taker.unknown > 0 || is_answered)
        };
        (self.takers.get(&key)).is_some_and(|takers| takers.iter().any(takes))
    }
}
