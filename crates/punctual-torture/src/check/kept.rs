//! I1, I4, I8, I9, I10: what must be there at the end, and what must not.

use punctual::{JobId, JobState};

use super::job_timelines::{Case, FaultSpan, Grant, Handed, JobTimeline};
use super::keys::{self, Gone};
use super::last::Causes;
use super::losses::LOSE;
use super::{Tally, Verdict, cancels, starts};
use crate::scripted_outcome::ScriptedOutcome;

/// The verdict that acknowledged jobs are kept.
pub(super) const KEPT: &str = "I1 nothing lost";

/// I1: an acknowledged job has one terminal state, which something caused: a handler, a cancel,
/// another job that took its place.
pub(super) fn nothing_lost(case: &Case, tally: &mut Tally) -> Verdict {
    let mut verdict = Verdict::new(KEPT);
    for what in &case.misfits {
        verdict.check(false, || what.clone());
    }
    let (causes, gone, holders) = (Causes::of(case), Gone::of(case), keys::holders(case));
    for (id, timeline) in &case.jobs {
        let seen = case.snapshot.jobs.get(id);
        let state = seen.map(|seen| seen.state);
        let is_terminal = !is_lost(case, id, timeline);
        if timeline.sent.is_none() {
            verdict.check(false, || {
                format!("{id} was never sent by this run, and appeared")
            });
            continue;
        }
        tally.second_tries += timeline.tried_again;
        let is_judged = is_judged(case, id);
        tally.acknowledged += u64::from(timeline.stored().is_some() && is_judged);
        tally.unjudged += u64::from(timeline.stored().is_some() && !is_judged);
        if timeline.stored().is_none() && holders.contains(id) {
            tally.acknowledged += u64::from(is_judged);
            tally.unjudged += u64::from(!is_judged);
            tally.lost += u64::from(!is_terminal);
            verdict.check(is_terminal, || {
                format!("{id} was answered to hold its key and is {}", named(state))
            });
        }
        starts::each_with_its_content(id, timeline, &mut verdict);
        if !case.may_lose {
            cancels::find(case, id, timeline, &mut verdict);
        }
        if !timeline.over_a_loss {
            if let Some(seen) = seen {
                causes.explain(id, timeline, seen, &mut verdict);
            }
            cancels::check(case, id, timeline, seen, &mut verdict);
            let replaced = gone.replaced(id);
            if let Some(at) = timeline.cancelled_at().into_iter().chain(replaced).min() {
                let claimed = timeline.grants.iter().any(|grant| grant.invoked > at);
                verdict.check(!claimed, || {
                    format!("{id} was cancelled, and claimed after that")
                });
            }
            // Instants of answers do not compare while a clock that was set back catches up.
            let asked = timeline.stop_asked.filter(|_| !case.has_wrong_clocks());
            if let Some(asked) = asked {
                let is_after = |grant: &Grant| grant.started.is_some_and(|at| at > asked);
                let claimed = timeline.grants.iter().any(is_after);
                verdict.check(!claimed, || {
                    format!("{id} was active and asked to stop, and claimed after that")
                });
            }
        }
        if timeline.stored().is_some() {
            if !is_terminal {
                let (fault, age) = taken_by(case, timeline);
                tally.lost += 1;
                tally.oldest_lost = tally.oldest_lost.max(age);
                *tally.lost_by.entry(fault.into()).or_insert(0) += 1;
            }
            verdict.check(is_terminal, || {
                format!("{id} was acknowledged and is {}", named(state))
            });
            let completed = state == Some(JobState::Completed);
            verdict.check(
                !completed || !timeline.starts.is_empty() || timeline.completed_late,
                || format!("{id} is completed and never started"),
            );
        } else if timeline.receipts.is_empty() && timeline.unknown > 0 {
            let appeared = state.is_some() || !timeline.grants.is_empty();
            tally.recovered += u64::from(appeared);
            // A power cut may take it again, unless something about it was acknowledged since.
            let is_forgotten = |claim| case.may_forget(claim, u64::MAX);
            let may_be_gone = timeline.over_a_loss
                || !timeline.is_acknowledged()
                    && !timeline.grants.is_empty()
                    && timeline.grants.iter().all(is_forgotten);
            verdict.check(!appeared || is_terminal || may_be_gone, || {
                format!("{id} was not answered and is {}", named(state))
            });
        } else {
            // Merged into another, or refused.
            verdict.check(timeline.grants.is_empty(), || {
                format!("{id} was refused or merged, and ran")
            });
        }
        let conflict = timeline
            .receipts
            .iter()
            .any(|receipt| receipt.received.verdict == "id_conflict");
        verdict.check(!conflict, || {
            format!("{id} was sent again and called another job's id")
        });
    }
    verdict
}

/// Whether it could be seen how a job ended.
fn is_judged(case: &Case, id: &JobId) -> bool {
    match case.snapshot.jobs.get(id) {
        Some(seen) => seen.state.is_settled() || case.drained,
        None => case.snapshot.blind.is_none(),
    }
}

/// Whether a job, if it was stored, has no terminal state at the end.
pub(super) fn is_lost(case: &Case, id: &JobId, timeline: &JobTimeline) -> bool {
    // What is still to be done when the harness waits no more is reported as W; what no snapshot
    // can show, as B.
    is_judged(case, id)
        && match case.snapshot.jobs.get(id) {
            Some(seen) => !seen.state.is_settled(),
            None => !case.may_be_gone(timeline, case.ended),
        }
}

/// The next fault that may have taken a job, after it was acknowledged; and for how many
/// microseconds it had been then.
fn taken_by<'a>(case: &'a Case, timeline: &JobTimeline) -> (&'a str, u64) {
    let at = timeline.stored().map_or(0, |receipt| receipt.at);
    let may_lose = |fault: &&FaultSpan| LOSE.contains(&&*fault.id) && fault.until > at;
    let next = case.faults.iter().find(may_lose);
    next.map_or(("none", 0), |fault| {
        (&*fault.id, fault.from.saturating_sub(at))
    })
}

fn named(state: Option<JobState>) -> String {
    state.map_or("gone".into(), |state| state.to_string())
}

/// I4: a completed job has exactly one effect, and no effect is without a job.
pub(super) fn effect_once(case: &Case, tally: &mut Tally) -> Verdict {
    let mut verdict = Verdict::new("I4 effect once");
    for (id, rows) in &case.snapshot.rows {
        tally.doubled += u64::from(rows.effects > 1 || rows.business > 1);
        verdict.check(rows.effects == 1 && rows.business == 1, || {
            format!(
                "{id} has {} effects and {} business rows",
                rows.effects, rows.business
            )
        });
        let sent = case
            .jobs
            .get(id)
            .is_some_and(|timeline| timeline.sent.is_some());
        verdict.check(sent || case.may_lose, || {
            format!("{id} has an effect and was never sent")
        });
    }
    for (id, timeline) in &case.jobs {
        let is_gone = case.snapshot.blind.is_none() && !case.snapshot.jobs.contains_key(id);
        let completes = |end: &Handed| timeline.settled_by(end) == Some(JobState::Completed);
        let completed = timeline.ends.iter().any(completes);
        if is_gone && completed && !timeline.over_a_loss {
            verdict.check(
                case.snapshot.rows.contains_key(id) || timeline.completed_late,
                || format!("{id} was completed, is gone, and has no effect"),
            );
        }
    }
    for (id, seen) in &case.snapshot.jobs {
        let Some(timeline) = case.jobs.get(id) else {
            continue;
        };
        if seen.state == JobState::Completed {
            verdict.check(
                case.snapshot.rows.contains_key(id) || timeline.completed_late,
                || format!("{id} is completed and has no effect"),
            );
        }
        if seen.poison {
            let ends_its_process = timeline
                .sent
                .as_ref()
                .is_some_and(|(.., sent)| sent.scripted == ScriptedOutcome::AbortsAlways);
            tally.buried += u64::from(!ends_its_process);
            // The answer to its last claim may have been cut off.
            let last = timeline
                .grants
                .last()
                .filter(|grant| seen.attempt == Some(grant.attempt));
            let was_alone = timeline.over_a_loss || last.is_none_or(|grant| grant.alone);
            verdict.check(was_alone, || {
                format!("{id} is dead as poison and did not run alone")
            });
        }
    }
    verdict
}

/// I8: nothing is left that belongs to no job.
pub(super) fn no_orphans(case: &Case) -> Verdict {
    let mut verdict = Verdict::new("I8 no orphans");
    verdict.checked = case.snapshot.keys + case.snapshot.counts;
    // What was deleted may be back, where that may be lost too.
    let rogue_clients = case
        .snapshot
        .rogue_clients
        .iter()
        .filter(|_| !case.may_lose);
    let unsettled = case.snapshot.unsettled.iter().filter(|_| case.drained);
    for left in case
        .snapshot
        .leftovers
        .iter()
        .chain(rogue_clients)
        .chain(unsettled)
    {
        verdict.check(false, || left.clone());
    }
    for (id, timeline) in &case.jobs {
        for receipt in &timeline.receipts {
            let Some(holder) = receipt.received.other.and_then(|id| case.jobs.get(&id)) else {
                continue;
            };
            if receipt.received.verdict != "merged" {
                continue;
            }
            let settled = holder.settled_at().map(|place| &holder.ends[place]);
            let over = settled.is_some_and(|end| {
                end.answered < receipt.invoked
                    && !(case.may_lose && case.may_lose_between(end.answered, receipt.at))
            });
            verdict.check(!over, || {
                format!("{id} was merged into a job that had settled before")
            });
        }
    }
    keys::merged_into_one_there(case, &mut verdict);
    verdict
}

/// The verdict that bytes go with the jobs.
pub(super) const BASE: &str = "I9 back to base";

/// What may remain besides: records of workers, and of each minute.
const REMAINS_BYTES: u64 = 64 << 10;
/// And the tombstone of a job for two minutes after it was settled or deleted, with what finds it.
const TOMBSTONE_BYTES: u64 = 256;

/// I9: what remains once every job is deleted does not grow from round to round.
pub(super) fn back_to_base(case: &Case) -> Verdict {
    let mut verdict = Verdict::new(BASE);
    if let Some((base, now)) = case.snapshot.remains {
        let tombstones =
            TOMBSTONE_BYTES * case.snapshot.tombstones.unwrap_or(case.jobs.len() as u64);
        verdict.check(now <= base + base / 20 + REMAINS_BYTES + tombstones, || {
            format!("{now} bytes of keys are left, {base} were after the first round")
        });
    }
    verdict
}

/// I10: counts are those of a walk.
pub(super) fn counts(case: &Case) -> Verdict {
    let mut verdict = Verdict::new("I10 counts are true");
    verdict.checked = case.snapshot.counts;
    for miscount in &case.snapshot.miscounts {
        verdict.check(false, || miscount.clone());
    }
    verdict
}
