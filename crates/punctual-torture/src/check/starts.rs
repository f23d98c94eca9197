//! Part of I2: handlers run under leases; and of I1: with what was sent.

use std::collections::HashSet;

use punctual::JobId;

use super::Verdict;
use super::job_timelines::JobTimeline;

/// Each handler starts under a lease that a claim was answered, once.
pub(super) fn each_under_its_lease(id: &JobId, timeline: &JobTimeline, verdict: &mut Verdict) {
    let leases = timeline.grants.iter();
    let leases: HashSet<_> = leases.map(|grant| (grant.attempt, grant.token)).collect();
    let mut begun = HashSet::new();
    for start in &timeline.starts {
        let lease = (start.attempt, start.token);
        verdict.check(leases.contains(&lease), || {
            format!(
                "{id}: attempt {} began under {}, which is no lease of it",
                lease.0, lease.1
            )
        });
        verdict.check(begun.insert(lease), || {
            format!("{id}: attempt {} began twice under {}", lease.0, lease.1)
        });
    }
}

/// What is claimed, and what a handler gets, is what was sent.
pub(super) fn each_with_its_content(id: &JobId, timeline: &JobTimeline, verdict: &mut Verdict) {
    let Some(sent) = timeline.sent.as_ref().and_then(|(.., sent)| sent.content) else {
        return;
    };
    let claimed = timeline.grants.iter().filter_map(|grant| grant.content);
    let begun = timeline.starts.iter().filter_map(|start| start.content);
    for content in claimed.chain(begun) {
        verdict.check(content == sent, || {
            format!(
                "{id} was sent with another queue, kind, payload or header than it was claimed with"
            )
        });
    }
}
