//! I5, I6: never early, and alive again.

use super::job_timelines::{Answer, Case, FaultSpan, Grant, Handed, JobTimeline};
use super::{Tally, Verdict, heal};
use crate::event::Verdict as Said;
use crate::plan::Kind;

/// I5: no job is due before it was asked to be, none is claimed or started before it is due, nor,
/// whatever was answered, before its delay is over since it was first sent.
pub(super) fn not_early(case: &Case, tally: &mut Tally) -> Verdict {
    let mut verdict = Verdict::new("I5 not early");
    let wrong_clocks = case.keeps_other_time();
    for (id, timeline) in &case.jobs {
        let earliest = case.earliest(timeline);
        let mut is_early = false;
        if let (Some((.., sent)), Some(receipt)) = (&timeline.sent, timeline.stored()) {
            let due = receipt.received.due;
            let least = match (wrong_clocks, &*receipt.received.verdict) {
                (false, _) | (true, "duplicate") => earliest,
                (true, _) => receipt.now + sent.after,
            };
            verdict.check(due >= least, || {
                let early = least - due;
                format!("{id} is due {early} us before the delay that was asked for")
            });
            if &*receipt.received.verdict == "created" {
                let most = receipt.now + sent.after;
                verdict.check(due <= most, || {
                    format!(
                        "{id} is due {} us after the delay that was asked for",
                        due - most
                    )
                });
            }
            let at = receipt.at;
            let is_judged = |grant: &&Grant| {
                grant.attempt == 1 && !timeline.over_a_loss && !case.may_forget(grant, at)
            };
            let first = timeline.grants.iter().find(is_judged);
            verdict.check(first.is_none_or(|grant| grant.due == due), || {
                format!("{id} is due at another instant than its receipt says")
            });
        }
        for end in &timeline.ends {
            if let Some((asked, due)) = asked_again(timeline, end) {
                verdict.check(due >= asked, || {
                    format!(
                        "{id}: after attempt {} it is due {} us before the span that was asked for",
                        end.attempt,
                        asked - due
                    )
                });
            }
        }
        for grant in &timeline.grants {
            let due = grant.due.max(earliest);
            is_early |= grant.now < due;
            verdict.check(grant.now >= due, || {
                format!(
                    "{id}: attempt {} was claimed {} us early",
                    grant.attempt,
                    due - grant.now
                )
            });
            let asked = timeline
                .ends
                .iter()
                .filter(|end| end.token.fence < grant.token.fence && !timeline.over_a_loss);
            for end in asked {
                if let Answer::Known(now, Said::Settled(_, Some(due))) = end.answer {
                    if now > grant.now && case.may_forget(grant, end.answered) {
                        continue;
                    }
                    verdict.check(grant.now >= due, || {
                        format!(
                            "{id}: attempt {} came before its retry was due",
                            grant.attempt
                        )
                    });
                }
            }
        }
        for start in timeline.starts.iter().filter(|_| !wrong_clocks) {
            let due = start.due.max(earliest);
            let early = start.wall < due;
            is_early |= early;
            verdict.check(!early, || {
                format!("{id}: a handler started {} us early", due - start.wall)
            });
        }
        tally.early += u64::from(is_early);
    }
    verdict
}

/// When a job that was retried or delayed is due at the earliest, by the span that was asked for,
/// and when it is, by the answer.
fn asked_again(timeline: &JobTimeline, end: &Handed) -> Option<(u64, u64)> {
    let Answer::Known(now, Said::Settled(_, Some(due))) = end.answer else {
        return None;
    };
    let span = match &*end.outcome {
        "retry" => end.after.or(timeline.sent.as_ref()?.2.backoff),
        "snooze" => end.after,
        _ => None,
    };
    Some((now + span?, due))
}

/// W: every fault was over in time, and whatever else the harness waited for came.
pub(super) fn ended(case: &Case) -> Verdict {
    let mut verdict = Verdict::new(WAITS);
    for fault in &case.faults {
        verdict.check(fault.until < u64::MAX, || {
            format!("{} ({}) was never over", fault.id, fault.what)
        });
    }
    verdict.check(case.drained, || "the backlog did not drain".into());
    if let Some(why) = &case.snapshot.uncleared {
        verdict.check(false, || {
            format!("jobs of the round could not be deleted: {why}")
        });
    }
    for what in &case.stuck {
        verdict.check(false, || what.clone());
    }
    verdict
}

/// The verdict that is on the harness itself.
pub(super) const WAITS: &str = "W every wait ended";

/// B: the engine could be read in the end; else nothing is known of what it holds.
pub(super) fn engine_answered(case: &Case) -> Verdict {
    let mut verdict = Verdict::new(ENGINE_ANSWERED);
    let blind = &case.snapshot.blind;
    if let Some(why) = &case.snapshot.unmeasured {
        verdict.check(false, || {
            format!("it is unknown what remains once every job is deleted: {why}")
        });
    }
    verdict.check(blind.is_none(), || {
        let why = blind.as_deref().unwrap_or_default();
        format!("the engine cannot be read, processes.log may say why: {why}")
    });
    verdict
}

const ALIVE_AGAIN: &str = "I6 alive again";

/// Whether a verdict of that name says that something came too late, which a machine that stood
/// still may cause.
pub(crate) fn is_of_time(verdict: &str) -> bool {
    [WAITS, ALIVE_AGAIN].contains(&verdict)
}

/// The verdict that there was something to be judged.
pub(super) const ENGINE_ANSWERED: &str = "B engine answered";

/// The longest that a first claim may take once what was broken runs again.
pub(super) const ALIVE_AFTER_US: u64 = 5_000_000;

/// The longest delay of a job.
const DELAY_MAX_US: u64 = 5_000_000;
/// Faults that keep everybody from claiming as long as they hold: of all workers, the engine, the
/// gateway, the whole network.
const HOLD_UP_ALL: [&str; 16] = [
    "F02", "F03", "F04", "F05", "F06", "F07", "F09", "F10", "F12", "F13", "F18", "F20", "F21",
    "F22", "F23", "F29",
];
/// Of others only some kinds do so: the engine's clock, but not those of clients; all replies, but
/// not one.
const KINDS_THAT_DO: [Kind; 3] = [Kind::ClockAhead, Kind::ClockBack, Kind::NoReplies];

fn holds_up_all(fault: &FaultSpan) -> bool {
    HOLD_UP_ALL.contains(&&*fault.id) || KINDS_THAT_DO.iter().any(|kind| fault.what == kind.what())
}

/// I6: after every fault the first claim of a worker comes within five seconds; time in which
/// another fault keeps everybody from claiming is not counted. One of one worker does not, nor one
/// of a connection. In quiet periods nothing is left out.
pub(super) fn alive_again(case: &Case, tally: &mut Tally) -> Verdict {
    let mut verdict = Verdict::new(ALIVE_AGAIN);
    heal::in_quiet_periods(case, tally, &mut verdict);
    let end = case.enough.unwrap_or(case.ended);
    // Where the data are gone, there is nothing to claim.
    let heals = |fault: &&FaultSpan| fault.until < end && fault.id != "F17";
    let signs = heal::signs(case);
    for fault in case.faults.iter().filter(heals) {
        let next = signs.partition_point(|at| *at < fault.until);
        let next = signs.get(next).copied();
        // Once no more jobs are sent the next one may be due as late as a delay is long; without
        // any there is nothing more to be seen than that it was quiet before.
        let (until, most) = match next {
            Some(next) if next > end => (next, ALIVE_AFTER_US + DELAY_MAX_US),
            Some(next) => (next, ALIVE_AFTER_US),
            None => (end, ALIVE_AFTER_US),
        };
        let quiet = quiet(case, fault.until, until);
        if next.is_some() || quiet > most {
            verdict.check(quiet <= most, || {
                format!(
                    "{} ({}): {} ms until the first claim",
                    fault.id,
                    fault.what,
                    quiet / 1_000
                )
            });
        }
    }
    verdict
}

/// Microseconds between two stamps in which no fault holds that keeps everybody from claiming.
fn quiet(case: &Case, from: u64, until: u64) -> u64 {
    let (mut at, mut quiet) = (from, 0);
    for fault in case.faults.iter().filter(|fault| holds_up_all(fault)) {
        if fault.until <= at || fault.from >= until {
            continue;
        }
        quiet += fault.from.saturating_sub(at);
        at = at.max(fault.until.min(until));
    }
    quiet + until.saturating_sub(at)
}
