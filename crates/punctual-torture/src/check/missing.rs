//! T: data that are gone are missed.

use std::collections::BTreeMap;

use super::Verdict;
use super::job_timelines::Case;

/// The verdict that every process that knew the data learns of the loss.
pub(super) const LOSS_IS_REPORTED: &str = "T total loss is reported";

/// How soon a producer gets that error, and no other answer from then on.
const REPORTED_WITHIN_US: u64 = 5_000_000;

/// An answer to an enqueue, as one process received it.
#[derive(Debug)]
pub(super) struct EnqueueAnswer {
    pub(super) process: usize,
    pub(super) invoked: u64,
    pub(super) at: u64,
    /// Whether the jobs are stored.
    pub(super) stored: bool,
    /// Whether it says that the data are gone.
    pub(super) missing: bool,
}

/// T: after the data were emptied, every process that had been answered before gets the error that
/// they are gone, soon, and never that another job is stored: that would be a new queue beside the
/// old one.
pub(super) fn loss_is_reported(case: &Case) -> Verdict {
    let mut verdict = Verdict::new(LOSS_IS_REPORTED);
    for fault in case.faults.iter().filter(|fault| fault.id == "F17") {
        let mut processes: BTreeMap<usize, Vec<&EnqueueAnswer>> = BTreeMap::new();
        for answer in &case.answers {
            processes.entry(answer.process).or_default().push(answer);
        }
        for answers in processes.into_values() {
            let knew = |answer: &&EnqueueAnswer| answer.stored && answer.at < fault.from;
            if !answers.iter().any(knew) {
                continue;
            }
            let later = || answers.iter().filter(|it| it.invoked > fault.until);
            for answer in later() {
                verdict.check(!answer.stored, || {
                    let span = (answer.at - fault.until) / 1_000;
                    format!("a job was stored {span} ms after {}", fault.what)
                });
            }
            // By a call that was under way, too, after which no call may follow.
            let reports = |answer: &&&EnqueueAnswer| answer.missing && answer.at > fault.from;
            let first = answers.iter().find(reports).map(|answer| answer.at);
            let since = later().next().map_or(fault.until, |answer| answer.invoked);
            let after = |at: u64| at.saturating_sub(since);
            verdict.check(
                first.is_some_and(|at| after(at) <= REPORTED_WITHIN_US),
                || {
                    let reported = first.map(|at| after(at) / 1_000);
                    format!("{}: reported after {reported:?} ms", fault.what)
                },
            );
        }
    }
    verdict
}
