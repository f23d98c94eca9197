//! T: data that are gone are missed.

use std::collections::BTreeMap;

use super::Verdict;
use super::job_timelines::Case;

/// The verdict that nobody who knew the data goes on as if nothing had been.
pub(super) const TOLD: &str = "T loss of all is told";

/// How soon whoever sends is told, and told nothing else from then on.
const TOLD_AFTER_US: u64 = 5_000_000;

/// An answer to an enqueue, as one process heard it.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) process: usize,
    pub(super) invoked: u64,
    pub(super) at: u64,
    /// Whether the jobs are stored.
    pub(super) stored: bool,
    /// Whether it says that the data are gone.
    pub(super) missing: bool,
}

/// T: after the data were emptied, whoever had been answered before is told that they are gone,
/// soon, and never that another job is stored: that would be a new queue beside the old one.
pub(super) fn told(case: &Case) -> Verdict {
    let mut verdict = Verdict::new(TOLD);
    for fault in case.faults.iter().filter(|fault| fault.id == "F17") {
        let mut processes: BTreeMap<usize, Vec<&Heard>> = BTreeMap::new();
        for answer in &case.answers {
            processes.entry(answer.process).or_default().push(answer);
        }
        for answers in processes.into_values() {
            let knew = |answer: &&Heard| answer.stored && answer.at < fault.from;
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
            // By a call that was under way, too, after which nobody may call any more.
            let tells = |answer: &&&Heard| answer.missing && answer.at > fault.from;
            let first = answers.iter().find(tells).map(|answer| answer.at);
            let since = later().next().map_or(fault.until, |answer| answer.invoked);
            let after = |at: u64| at.saturating_sub(since);
            verdict.check(first.is_some_and(|at| after(at) <= TOLD_AFTER_US), || {
                let told = first.map(|at| after(at) / 1_000);
                format!("{}: told after {told:?} ms", fault.what)
            });
        }
    }
    verdict
}
