//! Unique keys and serial groups: one job at a time.

use std::collections::{HashMap, HashSet};

use punctual::{JobId, UniquePolicy};

use super::Verdict;
use super::job_timelines::{Case, Grant, JobTimeline, Receipt};
use super::leases::over_for_others;

/// A queue and a key of it.
pub(super) type Key<'a> = (&'a str, &'a str);

/// The queue and the unique key of a job.
pub(super) fn key(timeline: &JobTimeline) -> Option<Key<'_>> {
    let (.., sent) = timeline.sent.as_ref()?;
    Some((&sent.queue, sent.unique.as_deref()?))
}

/// The queue and the serial group of a job.
fn group(timeline: &JobTimeline) -> Option<Key<'_>> {
    let (.., sent) = timeline.sent.as_ref()?;
    Some((&sent.queue, sent.group.as_deref()?))
}

/// Answers that name another job: the job that was answered, and the other one.
fn merges(case: &Case) -> impl Iterator<Item = (&JobId, &JobTimeline, &Receipt, JobId)> {
    let jobs = case.jobs.iter();
    let all =
        jobs.flat_map(|(id, timeline)| timeline.receipts.iter().map(move |it| (id, timeline, it)));
    let merged = all.filter(|(.., it)| it.received.verdict == "merged");
    merged.filter_map(|(id, timeline, it)| Some((id, timeline, it, it.received.other?)))
}

/// Jobs that an answer named as the holder of a key: that is as good as a receipt of their own.
pub(super) fn holders(case: &Case) -> HashSet<JobId> {
    merges(case).map(|(.., holder)| holder).collect()
}

/// Part of I8: what was merged had a job to be merged into, under its key, that was sent and not
/// cancelled.
pub(super) fn merged_into_one_there(case: &Case, verdict: &mut Verdict) {
    // The holder of a key may be lost since, and one of a round before be back.
    if case.may_lose {
        return;
    }
    let gone = Gone::of(case);
    for (id, timeline, receipt, other) in merges(case) {
        let holder = case.jobs.get(&other);
        let Some((holder, sent)) = holder.and_then(|it| Some((it, it.sent.as_ref()?))) else {
            verdict.check(false, || {
                format!("{id} was merged into {other}, which no process sent")
            });
            continue;
        };
        verdict.check(
            key(timeline).is_some() && key(timeline) == key(holder),
            || format!("{id} was merged into {other}, which has another key"),
        );
        verdict.check(sent.0 <= receipt.at, || {
            format!("{id} was merged into {other} before that was sent")
        });
        let over = gone.since(&other, holder);
        verdict.check(over.is_none_or(|over| over >= receipt.invoked), || {
            format!("{id} was merged into {other}, which was cancelled or settled before")
        });
    }
}

/// Since when jobs hold no key any more.
pub(super) struct Gone(HashMap<JobId, u64>);

impl Gone {
    /// When others were answered that they have taken the place of each.
    pub(super) fn of(case: &Case) -> Self {
        let mut replaced = HashMap::new();
        for receipt in case.jobs.values().flat_map(|timeline| &timeline.receipts) {
            if let ("replaced", Some(other)) = (&*receipt.received.verdict, receipt.received.other)
            {
                let first = replaced.entry(other).or_insert(u64::MAX);
                *first = receipt.at.min(*first);
            }
        }
        Self(replaced)
    }

    /// When another one was answered that it has taken its place.
    pub(super) fn replaced(&self, id: &JobId) -> Option<u64> {
        self.0.get(id).copied()
    }

    /// The stamp of the first answer that says that it has settled, besides those to ends.
    fn since(&self, id: &JobId, timeline: &JobTimeline) -> Option<u64> {
        let answered = timeline
            .cancels
            .iter()
            .filter_map(|(_, answer)| answer.as_ref());
        let settled = answered.filter(|(_, verdict)| {
            matches!(&**verdict, "done" | "already_cancelled" | "wrong_state")
        });
        let settled = settled.map(|(at, _)| *at);
        settled.chain(self.replaced(id)).min()
    }
}

/// Part of I2: of a serial group, and under a unique key, one job is active at a time.
pub(super) fn one_at_a_time(case: &Case, verdict: &mut Verdict) {
    for jobs in by(case, group).values() {
        one_of_a_group(case, jobs, verdict);
    }
    for jobs in by(case, key).values() {
        one_under_a_key(case, jobs, verdict);
    }
}

/// Jobs by queue and key, but for those that rest on what may be lost.
fn by<'a>(
    case: &'a Case,
    key: fn(&JobTimeline) -> Option<Key<'_>>,
) -> HashMap<Key<'a>, Vec<(JobId, &'a JobTimeline)>> {
    let mut found: HashMap<_, Vec<_>> = HashMap::new();
    for (id, timeline) in case
        .jobs
        .iter()
        .filter(|(_, timeline)| !timeline.over_a_loss)
    {
        if let Some(key) = key(timeline) {
            found.entry(key).or_default().push((*id, timeline));
        }
    }
    found
}

/// No lease begins before those of the others are over.
fn one_of_a_group<'a>(case: &Case, jobs: &[(JobId, &'a JobTimeline)], verdict: &mut Verdict) {
    let of = |&(id, timeline): &(JobId, &'a JobTimeline)| {
        timeline.grants.iter().map(move |it| (id, timeline, it))
    };
    let mut grants: Vec<(JobId, &JobTimeline, &Grant)> = jobs.iter().flat_map(of).collect();
    // A clock that was set back may answer several of them the same instant.
    grants.sort_by_key(|(.., grant)| grant.token.fence);
    for (place, &(id, _, after)) in grants.iter().enumerate() {
        let holds = |&&(other, timeline, before): &&(JobId, &JobTimeline, &Grant)| {
            let is_over = |over: u64| over <= after.now;
            other != id
                && !case.may_forget(before, after.at)
                && !over_for_others(case, timeline, before, after).is_none_or(is_over)
        };
        let held = grants[..place].iter().find(holds);
        verdict.check(held.is_none(), || {
            let (other, ..) = held.expect("it is held");
            format!("{id} was claimed while {other} of its group was active")
        });
    }
}

/// The active job of a key holds it until it has settled: meanwhile no other is claimed, nor stored
/// but to come after.
fn one_under_a_key(case: &Case, jobs: &[(JobId, &JobTimeline)], verdict: &mut Verdict) {
    for (id, timeline) in jobs {
        let Some(stored) = timeline.stored() else {
            continue;
        };
        let Some(first) = timeline.grants.iter().min_by_key(|grant| grant.now) else {
            continue;
        };
        let taken = timeline.ends.iter().filter(|end| end.is_taken());
        // The last that shows that it had not settled, in engine time and by the stamps of calls.
        let claimed = timeline
            .grants
            .iter()
            .map(|grant| (grant.now, grant.invoked));
        let ended = taken.filter_map(|end| Some((end.engine_time()?, end.invoked)));
        let alive: Vec<(u64, u64)> = claimed.chain(ended).collect();
        let until = alive.iter().map(|(now, _)| *now).max().unwrap_or_default();
        let asked = alive.iter().map(|(_, at)| *at).max().unwrap_or_default();
        let others = jobs.iter().filter(|(other, _)| other != id);
        for (other, beside) in others {
            let is_between = |grant: &&Grant| {
                (first.now + 1..until).contains(&grant.now) && !case.may_forget(first, grant.at)
            };
            let claimed = beside.grants.iter().find(is_between);
            verdict.check(claimed.is_none(), || {
                format!("{other} was claimed while {id} held its key")
            });
            let policy = beside.sent.as_ref().and_then(|(.., sent)| sent.policy);
            let comes_after = policy.is_none_or(|policy| policy == UniquePolicy::After);
            let is_beside = |receipt: &&Receipt| {
                matches!(&*receipt.received.verdict, "created" | "replaced")
                    && stored.at < receipt.invoked
                    && receipt.at < asked
            };
            let created = beside.receipts.iter().find(is_beside);
            verdict.check(case.may_lose || comes_after || created.is_none(), || {
                format!("{other} was stored while {id} held its key")
            });
        }
    }
}
