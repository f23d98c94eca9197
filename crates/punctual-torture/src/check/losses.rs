//! What may be gone at the end: lost by a fault, where that is admitted, or forgotten in time.

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

    /// Whether what was answered at a stamp may have been forgotten by another: a loss lies between; or a power cut, of
    /// claims, which are written and not synced.
    pub(super) fn may_forget(&self, answered: u64, until: u64) -> bool {
        let of_claims = |cut: &FaultSpan| self.forgets_claims && cut.id == "F04";
        let losses = self.faults.iter();
        let mut losses = losses.filter(|fault| of_claims(fault) || self.takes(fault));
        losses.any(|loss| answered <= loss.until && loss.from <= until)
    }

    /// Whether a job may be gone without a trace at the last look: it was completed or cancelled, or may have been by a
    /// call that was not answered, so long ago that its mark has lapsed.
    pub(super) fn may_be_gone(&self, story: &Story) -> bool {
        // Marks go by the engine's clock: one that read an hour less at first, and then did not, takes an hour's marks.
        let wrong_clocks = self.has_wrong_clocks();
        let has_lapsed = |invoked: u64| wrong_clocks || invoked + MARKED <= self.ended;
        let completes = |end: &Handed| {
            let taken = matches!(&end.answer, Answer::Known(_, Verdict::Settled(state, _)) if state.is_settled());
            end.outcome == "completed" && (taken || matches!(end.answer, Answer::Unknown))
        };
        let mut ends = story.ends.iter().filter(|end| completes(end));
        let mut cancels = story.cancels.iter();
        ends.any(|end| has_lapsed(end.invoked)) || cancels.any(|(at, _)| has_lapsed(*at))
    }
}
