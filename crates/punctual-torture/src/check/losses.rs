//! What may be gone at the end: lost by a fault, where that is admitted, or forgotten in time.

use std::collections::BTreeSet;

use super::cancels::may_have_taken;
use super::job_timelines::{Answer, Case, FaultSpan, Grant, Handed, JobTimeline};
use crate::call_log::Account;
use crate::event::{Event, Received, Verdict};

/// Faults that may take what was acknowledged, in settings that admit it.
pub(super) const LOSE: [&str; 8] = ["F02", "F03", "F04", "F05", "F07", "F17", "F21", "F22"];
/// Tombstones of settled jobs are kept so long, in microseconds.
const MARKED: u64 = 120_000_000;

impl Case {
    /// Says whether what was acknowledged may be lost at all, which decides what is judged of each
    /// job. One that was never sent may be back then, from a round before.
    pub(crate) fn admit_losses(&mut self, may_lose: bool) {
        self.may_lose = may_lose;
        let losses = self.faults.iter().filter(|fault| self.takes(fault));
        let losses: Vec<u64> = losses.map(|fault| fault.until).collect();
        for timeline in self.jobs.values_mut() {
            let first = timeline.grants.iter().map(|grant| grant.invoked).min();
            let met = first.is_some_and(|first| losses.iter().any(|loss| *loss >= first));
            timeline.over_a_loss = met || may_lose && timeline.sent.is_none();
        }
    }

    /// Whether a fault may take anything that was acknowledged.
    fn takes(&self, fault: &FaultSpan) -> bool {
        fault.id == "F05" || self.may_lose && LOSE.contains(&&*fault.id)
    }

    /// Whether what was answered at a stamp may have been lost by another.
    pub(super) fn may_lose_between(&self, answered: u64, until: u64) -> bool {
        let mut losses = self.faults.iter().filter(|fault| self.takes(fault));
        losses.any(|loss| answered <= loss.until && loss.from <= until)
    }

    /// Whether a claim may have been forgotten by a stamp: a loss lies between; or a power cut, for
    /// claims are written and not synced, unless something that was acknowledged shows that it was
    /// synced before that. A claim may have been written at any time since it was sent: a
    /// worker that is stopped meanwhile reads the answer only after a cut that came behind it.
    pub(super) fn may_forget(&self, claim: &Grant, until: u64) -> bool {
        let cuts = || self.faults.iter().filter(|fault| fault.id == "F04");
        let takes = |cut: &FaultSpan| {
            let is_between = claim.invoked <= self.cut_at(cut) && cut.from <= until;
            is_between && self.synced.since(claim.now) >= cut.from
        };
        self.may_lose_between(claim.invoked, until) || self.forgets_claims && cuts().any(takes)
    }

    /// When a power cut had ended the process that has the embedded engine, the latest: what is
    /// sent after that is for the next one.
    fn cut_at(&self, cut: &FaultSpan) -> u64 {
        let ended = self.gateways_gone.range(cut.from..=cut.until);
        ended.last().copied().unwrap_or(cut.until)
    }

    /// Whether a job may be gone without a trace at a stamp: it was completed or cancelled, or may
    /// have been by a call that was not answered, so long before that its tombstone has lapsed.
    pub(super) fn may_be_gone(&self, timeline: &JobTimeline, at: u64) -> bool {
        // Tombstones go by the engine's clock: one that read an hour less at first, and then did
        // not, takes an hour's tombstones.
        let has_lapsed = |invoked: u64| self.may_lie_between(MARKED, invoked, at);
        let completes = |end: &Handed| {
            let taken = matches!(&end.answer, Answer::Known(_, Verdict::Settled(state, _)) if state.is_settled());
            end.outcome == "completed" && (taken || matches!(end.answer, Answer::Unknown))
        };
        let mut ends = timeline.ends.iter().filter(|end| completes(end));
        let mut cancels = (timeline.cancels.iter()).filter(|(_, answer)| may_have_taken(answer));
        ends.any(|end| has_lapsed(end.invoked)) || cancels.any(|(at, _)| has_lapsed(*at))
    }
}

/// Stamps at which gateways had ended.
pub(super) fn gateways_gone(accounts: &[Account]) -> BTreeSet<u64> {
    let lines = accounts.iter().flat_map(|account| &account.lines);
    let is_gone =
        |event: &Event| matches!(event, Event::Gone { process } if process.starts_with("gateway."));
    let gone = lines.filter(|line| is_gone(&line.event));
    gone.map(|line| line.at).collect()
}

/// Calls that changed something and were acknowledged: the log is one, and in the order of engine
/// time, so each has been synced with what was written before it.
#[derive(Debug, Default)]
pub(super) struct Synced {
    /// Engine time of such calls, in order, and when the first of it and those after it was
    /// answered.
    calls: Vec<(u64, u64)>,
}

impl Synced {
    pub(super) fn of(accounts: &[Account]) -> Self {
        let lines = accounts.iter().flat_map(|account| &account.lines);
        let calls = lines.filter_map(|line| Some((changed(&line.event)?, line.at)));
        let mut calls: Vec<(u64, u64)> = calls.collect();
        calls.sort_unstable();
        let mut first = u64::MAX;
        for (_, answered) in calls.iter_mut().rev() {
            first = first.min(*answered);
            *answered = first;
        }
        Self { calls }
    }

    /// When it was known for sure that what was written at an instant of engine time is synced;
    /// `u64::MAX` for never.
    fn since(&self, written: u64) -> u64 {
        let later = self.calls.partition_point(|(now, _)| *now <= written);
        let first = self.calls.get(later);
        first.map_or(u64::MAX, |(_, answered)| *answered)
    }
}

/// The engine time of an answer that something was changed.
fn changed(event: &Event) -> Option<u64> {
    match event {
        Event::EnqueueOk { now, receipts, .. } => {
            let stores = |it: &Received| matches!(&*it.verdict, "created" | "replaced");
            receipts.iter().any(stores).then_some(*now)
        }
        Event::SettleOk { now, verdicts, .. } => {
            let settles = |it: &Verdict| matches!(it, Verdict::Settled(..));
            verdicts.iter().any(settles).then_some(*now)
        }
        Event::CancelOk { now, verdicts, .. } => {
            let cancels = |it: &String| matches!(&**it, "done" | "cancel_requested");
            now.filter(|_| verdicts.iter().any(cancels))
        }
        _ => None,
    }
}
