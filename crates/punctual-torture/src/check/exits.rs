//! E: no process ends for an unknown reason.

use super::Verdict;
use super::job_timelines::Case;
use crate::recorder::BEGINS_ANEW;
use crate::relayed::PROCESS;

/// E: a process that no fault has killed ends by a handler that ends its process, or, where
/// acknowledged jobs may be lost, to begin anew; one that is asked to end does so in good order. A
/// process that has claimed nothing yet may be asked before it listens, or find the engine away as
/// it opens it and say so. Any other end is a bug: the process would be started again, lose
/// nothing, and no one would notice.
pub(super) fn as_asked(case: &Case) -> Verdict {
    let mut verdict = Verdict::new("E processes end as asked");
    let begins_anew = format!("exit status: {BEGINS_ANEW}");
    for (process, how) in &case.ended_oddly {
        let by_a_handler = how.starts_with(ABORTED) && case.aborted.contains(process);
        let to_begin_anew = case.may_lose && *how == begins_anew;
        let held_something = case.claims_by.contains_key(process);
        let said_why = match process.starts_with(PROCESS) {
            true => RELAY_SAID_WHY,
            false => SAID_WHY,
        };
        let before_it_began = !held_something && (how.starts_with(ASKED) || how == said_why);
        verdict.check(by_a_handler || to_begin_anew || before_it_began, || {
            format!("{process} ended by itself, processes.log may say why: {how}")
        });
    }
    verdict
}

/// How the system says that a process has aborted itself.
const ABORTED: &str = "signal: 6";
/// How it says that one was asked to end, and knew nothing better.
const ASKED: &str = "signal: 15";
/// One that could not begin has said why, and is started again.
const SAID_WHY: &str = "exit status: 2";
/// The same of a relay: the engine could not be reached when it started.
const RELAY_SAID_WHY: &str = "exit status: 5";
