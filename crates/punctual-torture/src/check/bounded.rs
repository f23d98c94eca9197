//! L: where an engine says how much a power cut takes, it takes no more, and nothing else takes any.

use super::Verdict;
use super::kept::is_lost;
use super::stories::Case;

/// The verdict that what is lost was acknowledged shortly before a power cut.
pub(super) const BOUNDED: &str = "L no more is lost than said";

/// L: a job that is lost was acknowledged so shortly before a power cut, or while it was under way.
pub(super) fn loses_no_more(case: &Case) -> Verdict {
    let mut verdict = Verdict::new(BOUNDED);
    let Some(most) = case.loses_at_most else {
        return verdict;
    };
    let cuts = || case.faults.iter().filter(|fault| fault.id == "F05");
    for (id, story) in &case.jobs {
        let Some(receipt) = story.stored() else {
            continue;
        };
        let at = receipt.at;
        let taken = cuts().any(|cut| cut.from <= at + most && at <= cut.until);
        verdict.check(taken || !is_lost(case, id, story), || {
            let next = cuts().find(|cut| cut.from > at);
            let before = next.map_or("before no power cut".into(), |cut| {
                format!("{} ms before a power cut", (cut.from - at) / 1_000)
            });
            format!("{id} was acknowledged {before} and is lost")
        });
    }
    verdict
}
