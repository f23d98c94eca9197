//! What was accepted under a lease that had run out, though no claim had taken its jobs since:
//! every call first rescues, so the one that settles it finds no lease any more.

use std::collections::HashMap;

use punctual::engine::Token;

use super::job_timelines::{Answer, Case, Extension};
use super::{Tally, Verdict, bounded};
use crate::event::Verdict as Said;
use crate::setting;

/// Part of I3: ends and extensions that were accepted came while their lease lasted.
pub(super) fn judge(case: &Case, tally: &mut Tally, verdict: &mut Verdict) {
    let leases = Leases::of(case);
    let mut judge_one = |what: &str, token, call: Call, itself, accepted: bool| match leases
        .overdue(token, &call, itself)
    {
        None => {}
        Some(Came::Unknown) => tally.late_excused += u64::from(accepted),
        Some(Came::InTime) => verdict.checked += u64::from(accepted),
        Some(Came::Late(since)) => {
            tally.late_judged += 1;
            tally.stale_accepted += u64::from(accepted);
            verdict.check(!accepted, || {
                format!("{what} under {token} was accepted {since} us after that had run out")
            });
        }
    };
    for end in case.jobs.values().flat_map(|timeline| &timeline.ends) {
        if let Answer::Known(now, said) = &end.answer {
            let (invoked, answered, now) = (end.invoked, end.answered, *now);
            let call = Call {
                invoked,
                answered,
                now,
            };
            let accepted = matches!(said, Said::Settled(..));
            if *said != Said::Repeated {
                judge_one("an end", end.token, call, None, accepted);
            }
        }
    }
    for extension in &case.extends {
        let call = Call {
            invoked: extension.invoked,
            answered: extension.answered,
            now: extension.now,
        };
        let accepted = extension.deadline.is_some();
        judge_one(
            "an extension",
            extension.token,
            call,
            Some(extension),
            accepted,
        );
    }
}

/// How a call under a lease came.
enum Came {
    InTime,
    /// So many microseconds after that was over.
    Late(u64),
    /// It is unknown whether that was over.
    Unknown,
}

/// Every lease that some claim was answered.
struct Leases<'a> {
    case: &'a Case,
    prolonged: HashMap<Token, Vec<&'a Extension>>,
    held: HashMap<Token, Held>,
}

/// A lease: when it was answered, since when and until when it is in engine time, and for how long.
struct Held {
    at: u64,
    since: u64,
    until: u64,
    span: u64,
}

/// A call to the engine under a lease: the stamps of when it was made and answered, and its engine
/// time.
struct Call {
    invoked: u64,
    answered: u64,
    now: u64,
}

/// A call rescues a bounded number of jobs: after so many others it is this one's turn.
const CALLS: usize = 5;
/// How long bytes of a call that was given up may be on their way where nothing holds them up.
const ON_ITS_WAY: u64 = bounded::TURN;
/// The longest lease that a process asks for.
const LEASE_DURATION: u64 = setting::LEASE_DURATION.as_micros() as u64;
/// Faults that hold up no bytes on their way to the engine: one of workers, a job that ends its
/// process.
const OF_WORKERS: [&str; 4] = ["F01", "F08", "F29", "F31"];

impl<'a> Leases<'a> {
    fn of(case: &'a Case) -> Self {
        let mut held: HashMap<Token, Held> = HashMap::new();
        let timelines = case.jobs.values().filter(|timeline| !timeline.over_a_loss);
        for grant in timelines.flat_map(|timeline| &timeline.grants) {
            let span = grant.deadline.saturating_sub(grant.now);
            let lease = held.entry(grant.token).or_insert(Held {
                at: grant.at,
                since: grant.now,
                until: grant.deadline,
                span,
            });
            // The same lease may have been asked for again.
            lease.at = lease.at.min(grant.at);
            lease.since = lease.since.min(grant.now);
            lease.until = lease.until.max(grant.deadline);
            lease.span = lease.span.min(span);
        }
        let mut prolonged: HashMap<Token, Vec<&Extension>> = HashMap::new();
        for extension in &case.extends {
            prolonged
                .entry(extension.token)
                .or_default()
                .push(extension);
        }
        Self {
            case,
            prolonged,
            held,
        }
    }

    /// Whether a lease had been over when a call under it came. It may not have been: it may have
    /// been prolonged shortly before without an answer, or by bytes that were held up on their way;
    /// or extended, as the engine may not have answered for half of it; or not have been swept
    /// yet. An extension that is judged excuses others under way beside it, and never itself.
    /// `None` of what is no lease, or not judged.
    fn overdue(&self, token: Token, call: &Call, itself: Option<&Extension>) -> Option<Came> {
        let lease = self.held.get(&token)?;
        let prolonged = self.prolonged.get(&token).into_iter().flatten();
        let before = prolonged.filter(|it| {
            let is_itself = itself.is_some_and(|itself| std::ptr::eq(itself, **it));
            it.invoked < call.answered && it.now <= call.now && !is_itself
        });
        let until = before.filter_map(|it| it.deadline);
        let over = until.fold(lease.until, u64::max);
        if call.now <= over {
            return Some(Came::InTime);
        }
        // What stayed without an answer was done before it was given up, or by what was on its way
        // then, and lasts for a lease.
        let given_up = self.case.unsure.get(&token);
        if given_up.is_some_and(|at| call.invoked <= at + ON_ITS_WAY + LEASE_DURATION) {
            return Some(Came::Unknown);
        }
        let is_calm = !self.case.faults.iter().any(|fault| {
            !OF_WORKERS.contains(&&*fault.id)
                && fault.from <= call.answered
                && lease.at <= fault.until
        });
        let is_known = self.case.answered_at.range(over + 1..call.now).count() >= CALLS;
        let is_late = is_calm && is_known && !self.was_silent(lease, call.now);
        Some(match is_late {
            true => Came::Late(call.now - over),
            false => Came::Unknown,
        })
    }

    /// Whether the engine may not have answered for longer than half of a lease.
    fn was_silent(&self, lease: &Held, until: u64) -> bool {
        let mut last = lease.since;
        let mut answered = self.case.answered_at.range(lease.since..=until);
        answered.any(|now| {
            let gap = now - std::mem::replace(&mut last, *now);
            gap * 2 > lease.span
        })
    }
}
