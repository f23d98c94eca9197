//! I6 by the clock on the wall: in quiet periods, in which nothing is broken.

use std::collections::BTreeMap;

use punctual::{JobId, JobState};

use super::job_timelines::{Case, FaultSpan, JobTimeline};
use super::timing::ALIVE_AFTER_US;
use super::{Tally, Verdict};

/// In each quiet period a worker claims within five seconds of its beginning.
pub(super) fn in_quiet_periods(case: &Case, tally: &mut Tally, verdict: &mut Verdict) {
    let signs = signs(case);
    for &(from, until) in &case.quiet_periods {
        if until < from + ALIVE_AFTER_US {
            continue;
        }
        let next = signs.partition_point(|at| *at < from);
        let next = signs.get(next).copied();
        let is_alive = next.is_some_and(|next| next <= from + ALIVE_AFTER_US);
        let is_ready = |(id, job): (&JobId, &JobTimeline)| is_ready(case, id, job, from);
        let is_excused = || is_disturbed(case, from, until) || !case.jobs.iter().any(is_ready);
        if !is_alive && is_excused() {
            continue;
        }
        tally
            .quiet_periods
            .add(next.unwrap_or(case.ended).saturating_sub(from));
        let since = |at: u64| at.saturating_sub(case.began) / 1_000;
        verdict.check(is_alive, || {
            let claimed = match next {
                Some(next) => format!("the first claim is at {} ms", since(next)),
                None => "there is no claim any more".into(),
            };
            format!(
                "nothing is broken from {} to {} ms of the round, and {claimed}",
                since(from),
                since(until)
            )
        });
        if !is_disturbed(case, from, until) {
            each_claims(case, from, until, verdict);
        }
    }
}

/// So many claims in a quiet period are more than one worker leaves to no other.
const SHARED: usize = 30;

/// Each that claimed before a quiet period and lives through it claims in it too, where there is
/// plenty: others would hide one that receives no wakeup any more.
fn each_claims(case: &Case, from: u64, until: u64, verdict: &mut Verdict) {
    let within = |claims: &[u64]| {
        let before = |end: u64| claims.partition_point(|at| *at < end);
        before(until) - before(from)
    };
    if within(&case.claims) < SHARED {
        return;
    }
    for (process, (claims, died)) in &case.claims_by {
        let was_there = claims.first().is_some_and(|first| *first < from);
        if was_there && died.is_none_or(|died| died > until) {
            verdict.check(within(claims) > 0, || {
                let [from, until] = [from, until].map(|at| at.saturating_sub(case.began) / 1_000);
                format!(
                    "others claim from {from} to {until} ms of the round, and {process} does not"
                )
            });
        }
    }
}

/// Whether something broke in a quiet period after all: sentinels may take a master for gone that
/// no fault touched.
fn is_disturbed(case: &Case, from: u64, until: u64) -> bool {
    let is_broken = |fault: &FaultSpan| fault.from < until && fault.until > from;
    case.faults.iter().any(is_broken)
}

/// D: of a round that was to have so many quiet periods it was seen in one at least whether
/// a worker claims, if sentinels did not disturb all of them.
pub(super) fn were_judged(quiet_periods: u64, case: &Case, tally: &Tally, verdict: &mut Verdict) {
    if quiet_periods > 0 {
        let disturbed = |(from, until): &(u64, u64)| is_disturbed(case, *from, *until);
        let excused = !case.quiet_periods.is_empty() && case.quiet_periods.iter().all(disturbed);
        verdict.check(tally.quiet_periods.count() > 0 || excused, || {
            format!("of {quiet_periods} quiet periods none was judged")
        });
    }
}

/// When a worker claimed, in order. A process that was answered that the data are gone has reached
/// the engine, and has nothing to claim.
pub(super) fn signs(case: &Case) -> Vec<u64> {
    let reported = case.answers.iter().filter(|answer| answer.missing);
    let mut signs: Vec<u64> = reported.map(|answer| answer.at).collect();
    signs.extend(&case.claims);
    signs.sort_unstable();
    signs
}

/// How long a producer goes on with one call.
const SENT_WITHIN_US: u64 = 15_000_000;
/// A job that is due so soon after a quiet period has begun is to be claimed in it.
const SOON_US: u64 = 1_000_000;

/// Whether a job is to be claimed in a quiet period: it is due soon, was not claimed before, and
/// no call cancelled it; or it is still being sent.
fn is_ready(case: &Case, id: &JobId, job: &JobTimeline, rest: u64) -> bool {
    let Some((at, _, sent)) = &job.sent else {
        return false;
    };
    let is_new = job
        .receipts
        .iter()
        .all(|it| it.received.verdict == "created");
    let is_stored = job.receipts.iter().any(|it| it.at <= rest + SOON_US);
    let is_wanted = || {
        let seen = case.snapshot.jobs.get(id);
        seen.is_some_and(|seen| seen.state != JobState::Cancelled)
    };
    let waits = match job.grants.iter().map(|grant| grant.at).min() {
        Some(first) => first >= rest,
        None if is_stored => is_wanted(),
        None => at + SENT_WITHIN_US >= rest,
    };
    at + sent.after <= rest + SOON_US && is_new && waits
}

/// How many faults were caused that do the same.
pub(super) fn kinds(case: &Case) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for fault in case.faults.iter().filter(|fault| fault.done) {
        *kinds.entry(fault.what.clone()).or_insert(0) += 1;
    }
    kinds
}

/// Of how many microseconds until the last job was asked for a fault held, whichever.
pub(super) fn held(case: &Case) -> (u64, u64) {
    let end = case.enough.unwrap_or(case.ended);
    let (mut at, mut held) = (case.began, 0);
    // They are in the order in which they began.
    for fault in case.faults.iter().filter(|fault| fault.done) {
        let (from, until) = (fault.from.max(at), fault.until.min(end));
        held += until.saturating_sub(from);
        at = at.max(until);
    }
    (held, end.saturating_sub(case.began))
}
