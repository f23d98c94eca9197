//! I2, I3: one valid lease, and nothing for former holders.

use std::collections::HashMap;

use punctual::JobId;
use punctual::engine::Token;

use super::job_timelines::{Answer, Case, Extension, Grant, JobTimeline};
use super::{Tally, Verdict};
use super::{keys, overdue, spans, starts};
use crate::event::Verdict as Said;

/// I2: no lease of a job begins before the one before it was released or had ended, in engine time.
pub(super) fn one_valid(case: &Case, tally: &mut Tally) -> Verdict {
    let mut verdict = Verdict::new("I2 one valid lease");
    let starts = case
        .jobs
        .values()
        .map(|timeline| timeline.starts.len() as u64);
    tally.starts = starts.sum();
    for (id, timeline) in case
        .jobs
        .iter()
        .filter(|(_, timeline)| !timeline.over_a_loss)
    {
        let mut grants: Vec<&Grant> = timeline.grants.iter().collect();
        grants.sort_by_key(|grant| grant.now);
        for pair in grants.windows(2) {
            let &[before, after] = pair else { continue };
            if before.token == after.token {
                // The same lease, asked for again.
                continue;
            }
            let is_forgotten = case.may_forget(before, after.at);
            let is_next = before.attempt < after.attempt || is_forgotten;
            verdict.check(is_next && before.token.fence < after.token.fence, || {
                format!(
                    "{id}: attempt {} under {} after {} under {}",
                    after.attempt, after.token, before.attempt, before.token
                )
            });
            let over = ended(case, timeline, before, after, &AGAIN).filter(|_| !is_forgotten);
            let Some(over) = over else {
                continue;
            };
            verdict.check(after.now >= over, || {
                let early = over.saturating_sub(after.now);
                format!(
                    "{id}: attempt {} was claimed {early} us before the lease of {} was over",
                    after.attempt, before.attempt
                )
            });
        }
        for pair in timeline.starts.windows(2) {
            let [before, after] = pair else { continue };
            let ended = timeline
                .finishes
                .iter()
                .any(|(at, attempt)| *attempt == before.attempt && *at <= after.at);
            tally.overlaps += u64::from(!ended);
        }
        starts::each_under_its_lease(id, timeline, &mut verdict);
    }
    keys::one_at_a_time(case, &mut verdict);
    spans::each_as_asked(case, &mut verdict);
    verdict
}

/// Outcomes after which a job is claimed again.
const AGAIN: [&str; 3] = ["retry", "snooze", "released"];
/// Those and the others, after which what it held others back from is theirs.
const ALL: [&str; 6] = [
    "retry",
    "snooze",
    "released",
    "completed",
    "dead",
    "cancelled",
];

/// The engine time at which a lease was over for other jobs that wait for its end; `None` if what
/// is known does not say.
pub(super) fn over_for_others(
    case: &Case,
    timeline: &JobTimeline,
    grant: &Grant,
    after: &Grant,
) -> Option<u64> {
    ended(case, timeline, grant, after, &ALL)
}

/// The engine time at which a lease was over; `None` if what is known does not say, as an end with
/// one of these outcomes may have been taken unheard. What was sent once the next claim was
/// answered says nothing of it: whether it was accepted is I3.
fn ended(
    case: &Case,
    timeline: &JobTimeline,
    grant: &Grant,
    after: &Grant,
    unheard: &[&str],
) -> Option<u64> {
    let prolonged = case.prolonged.get(&grant.token).into_iter().flatten();
    let in_time = prolonged.filter(|(invoked, _)| *invoked < after.at);
    let mut over = in_time.fold(grant.deadline, |over, (_, until)| over.max(*until));
    if over <= after.now {
        return Some(over);
    }
    for end in timeline
        .ends
        .iter()
        .filter(|end| end.attempt == grant.attempt && end.token == grant.token)
        .filter(|end| end.invoked < after.at)
    {
        match &end.answer {
            Answer::Known(now, Said::Settled(..)) => over = over.min(*now),
            Answer::Known(_, Said::Repeated) | Answer::Unknown
                if unheard.contains(&&*end.outcome) =>
            {
                return None;
            }
            _ => {}
        }
    }
    let died_before = grant.died.is_some_and(|died| died <= after.at);
    (!died_before).then_some(over)
}

/// I3: what is settled under an old lease is refused and changes nothing.
pub(super) fn stale_are_powerless(case: &Case, tally: &mut Tally) -> Verdict {
    let mut verdict = Verdict::new("I3 stale holders are powerless");
    for (id, timeline) in case
        .jobs
        .iter()
        .filter(|(_, timeline)| !timeline.over_a_loss)
    {
        let mut settled: HashMap<u32, u64> = HashMap::new();
        for end in &timeline.ends {
            let accepted = matches!(&end.answer, Answer::Known(_, Said::Settled(..)));
            let until = if accepted { end.answered } else { end.invoked };
            let is_stale = timeline.grants.iter().any(|grant| {
                grant.token.fence > end.token.fence
                    && grant.at < end.invoked
                    && !case.may_forget(grant, until)
            });
            if is_stale {
                tally.stale_accepted += u64::from(accepted);
                tally.stale_refused += u64::from(!accepted);
                verdict.check(!accepted, || {
                    format!(
                        "{id}: the end of attempt {} was accepted after a later claim",
                        end.attempt
                    )
                });
            }
            let is_forged = !case.granted.contains(&end.token);
            verdict.check(!(accepted && is_forged), || {
                format!(
                    "{id} was settled under {}, which is the lease of no claim",
                    end.token
                )
            });
            tally.stale_accepted += u64::from(accepted && is_forged);
            tally.stale_refused += u64::from(is_forged && !accepted);
            if accepted {
                let before = settled.insert(end.attempt, end.invoked);
                verdict.check(before.is_none(), || {
                    format!("{id}: attempt {} was settled twice", end.attempt)
                });
            }
        }
        if let Some(place) = timeline.settled_at() {
            let last = &timeline.ends[place];
            let again = timeline
                .grants
                .iter()
                .find(|grant| grant.invoked > last.answered && grant.token != last.token);
            verdict.check(again.is_none(), || {
                format!("{id} was settled for good and claimed again")
            });
        }
    }
    for extension in &case.extends {
        let forged = extension.deadline.is_some() && !case.granted.contains(&extension.token);
        tally.stale_accepted += u64::from(forged);
        verdict.check(!forged, || {
            format!(
                "{} was prolonged and is the lease of no claim",
                extension.token
            )
        });
    }
    let later = later_claims(case);
    for extension in case
        .extends
        .iter()
        .filter(|extension| extension.deadline.is_some())
    {
        for id in extension
            .asked
            .iter()
            .filter(|id| !extension.lost.contains(id))
        {
            let later = later.get(&(*id, extension.token));
            let is_stale = later
                .into_iter()
                .flatten()
                .filter(|grant| grant.at < extension.invoked)
                .any(|grant| !case.may_forget(grant, extension.answered));
            tally.stale_accepted += u64::from(is_stale);
            verdict.check(!is_stale, || {
                format!("{id}: an old lease was prolonged after a later claim")
            });
        }
    }
    over_a_loss(case, tally, &mut verdict);
    overdue::judge(case, tally, &mut verdict);
    verdict
}

/// Part of I3, for jobs that a loss came over: whatever was forgotten, once a later claim is
/// answered, and nothing was lost since, nothing is accepted under the lease before. Attempts are
/// counted anew then; nonces are not.
fn over_a_loss(case: &Case, tally: &mut Tally, verdict: &mut Verdict) {
    let accepted = case.extends.iter().filter(|it| it.deadline.is_some());
    let mut prolonged: HashMap<JobId, Vec<&Extension>> = HashMap::new();
    for extension in accepted {
        let kept = extension.asked.iter();
        for id in kept.filter(|id| !extension.lost.contains(id)) {
            prolonged.entry(*id).or_default().push(extension);
        }
    }
    let is_sent = |timeline: &&JobTimeline| timeline.over_a_loss && timeline.sent.is_some();
    for (id, timeline) in case.jobs.iter().filter(|(_, timeline)| is_sent(timeline)) {
        let is_over = |token: Token, invoked: u64, answered: u64| {
            let own = timeline.grants.iter().filter(|grant| grant.token == token);
            let Some(own) = own.map(|grant| grant.at).max() else {
                return false;
            };
            timeline.grants.iter().any(|grant| {
                let is_next = grant.token != token && grant.invoked > own && grant.at < invoked;
                is_next && !case.may_forget(grant, answered)
            })
        };
        for end in &timeline.ends {
            let accepted = matches!(&end.answer, Answer::Known(_, Said::Settled(..)));
            let until = if accepted { end.answered } else { end.invoked };
            let is_forged = !case.granted.contains(&end.token);
            if is_forged || is_over(end.token, end.invoked, until) {
                tally.stale_accepted += u64::from(accepted);
                tally.stale_refused += u64::from(!accepted);
                verdict.check(!accepted, || {
                    let (attempt, token) = (end.attempt, end.token);
                    format!("{id}: attempt {attempt} was ended under {token}, which was over")
                });
            }
        }
        for extension in prolonged.get(id).into_iter().flatten() {
            let token = extension.token;
            let is_stale = is_over(token, extension.invoked, extension.answered);
            tally.stale_accepted += u64::from(is_stale);
            verdict.check(!is_stale, || {
                format!("{id}: {token} was prolonged, which was over")
            });
        }
    }
}

/// Claims of a job under other leases after a given one.
fn later_claims(case: &Case) -> HashMap<(JobId, Token), Vec<&Grant>> {
    let mut later = HashMap::new();
    for (id, timeline) in case
        .jobs
        .iter()
        .filter(|(_, timeline)| !timeline.over_a_loss)
    {
        for grant in &timeline.grants {
            // After a power cut another lease may be of the same attempt.
            let is_later = |other: &&Grant| other.token.fence > grant.token.fence;
            let others = timeline.grants.iter().filter(is_later);
            later.insert((*id, grant.token), others.collect());
        }
    }
    later
}
