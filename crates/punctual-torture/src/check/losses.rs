//! What may be gone at the end: lost by a fault, where that is admitted, or forgotten in time.

use super::cancels::may_have_taken;
use super::stories::{Answer, Case, FaultSpan, Handed, Story};
use crate::event::Verdict;

/// Faults that may take what was acknowledged, in settings that admit it.
pub(super) const LOSE: [&str; 8] = ["F02", "F03", "F04", "F05", "F07", "F17", "F21", "F22"];
/// Marks of settled jobs are kept so long, in microseconds.
const MARKED: u64 = 120_000_000;

impl Case {
    /// Says whether what was acknowledged may be lost at all, which tells what is judged of each job. One that was never
    /// sent may be back then, from a round before.
    pub(crate) fn admit_losses(&mut self, may_lose: bool) {
        self.may_lose = may_lose;
        let losses = self.faults.iter().filter(|fault| self.takes(fault));
        let losses: Vec<u64> = losses.map(|fault| fault.until).collect();
        for story in self.jobs.values_mut() {
            let first = story.grants.iter().map(|grant| grant.at).min();
            let met = first.is_some_and(|first| losses.iter().any(|loss| *loss >= first));
            story.over_a_loss = met || may_lose && story.sent.is_none();
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

    /// Whether a claim that was answered at a stamp may have been forgotten by another: a loss lies between; or a power cut, for
    /// claims are written and not synced, unless something that was acknowledged later shows that it was synced before that.
    pub(super) fn may_forget(&self, claimed: u64, until: u64) -> bool {
        let cuts = || self.faults.iter().filter(|fault| fault.id == "F04");
        let takes = |cut: &FaultSpan| {
            claimed <= cut.until && cut.from <= until && self.synced.since(claimed) >= cut.from
        };
        self.may_lose_between(claimed, until) || self.forgets_claims && cuts().any(takes)
    }

    /// Whether a job may be gone without a trace at a stamp: it was completed or cancelled, or may have been by a
    /// call that was not answered, so long before that its mark has lapsed.
    pub(super) fn may_be_gone(&self, story: &Story, at: u64) -> bool {
        // Marks go by the engine's clock: one that read an hour less at first, and then did not, takes an hour's marks.
        let has_lapsed = |invoked: u64| self.may_lie_between(MARKED, invoked, at);
        let completes = |end: &Handed| {
            let taken = matches!(&end.answer, Answer::Known(_, Verdict::Settled(state, _)) if state.is_settled());
            end.outcome == "completed" && (taken || matches!(end.answer, Answer::Unknown))
        };
        let mut ends = story.ends.iter().filter(|end| completes(end));
        let mut cancels = (story.cancels.iter()).filter(|(_, answer)| may_have_taken(answer));
        ends.any(|end| has_lapsed(end.invoked)) || cancels.any(|(at, _)| has_lapsed(*at))
    }
}

/// Calls that changed something and were acknowledged: the log is one, so each has been synced with what was written
/// before it.
#[derive(Debug, Default)]
pub(super) struct Synced {
    /// Stamps of when such a call was sent, in order, and when the first of it and those after it was answered.
    calls: Vec<(u64, u64)>,
}

impl Synced {
    pub(super) fn of(case: &Case) -> Self {
        let mut calls = Vec::new();
        for story in case.jobs.values() {
            let receipts = story.receipts.iter();
            let stored =
                receipts.filter(|it| matches!(&*it.received.verdict, "created" | "replaced"));
            calls.extend(stored.map(|receipt| (receipt.invoked, receipt.at)));
            let ends = story.ends.iter().filter(|end| end.is_taken());
            calls.extend(ends.map(|end| (end.invoked, end.answered)));
            calls.extend(story.cancels.iter().filter_map(|(invoked, answer)| {
                let (at, said) = answer.as_ref()?;
                let changes = matches!(&**said, "done" | "cancel_requested");
                changes.then_some((*invoked, *at))
            }));
        }
        calls.sort_unstable();
        let mut first = u64::MAX;
        for (_, answered) in calls.iter_mut().rev() {
            first = first.min(*answered);
            *answered = first;
        }
        Self { calls }
    }

    /// When it was known for sure that what was written at a stamp is synced; `u64::MAX` for never.
    fn since(&self, written: u64) -> u64 {
        let later = self
            .calls
            .partition_point(|(invoked, _)| *invoked <= written);
        self.calls
            .get(later)
            .map_or(u64::MAX, |(_, answered)| *answered)
    }
}
