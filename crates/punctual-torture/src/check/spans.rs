//! Part of I2: a lease lasts as long as was asked for, in engine time, whatever the clock of its
//! holder reads.

use super::Verdict;
use super::job_timelines::{Case, Extension, Grant};

/// Each lease that a claim or an extend was answered ends as long after its step as was asked for;
/// those of histories without it are not judged.
pub(super) fn each_as_asked(case: &Case, verdict: &mut Verdict) {
    for (id, timeline) in &case.jobs {
        for grant in &timeline.grants {
            let Some((earliest, latest, span)) = of_claim(grant) else {
                continue;
            };
            verdict.check((earliest..=latest).contains(&grant.deadline), || {
                let lasts = grant.deadline.saturating_sub(earliest - span);
                let attempt = grant.attempt;
                format!("{id}: attempt {attempt} was claimed for {span} us and leased for {lasts}")
            });
        }
    }
    for extension in &case.extends {
        let Some((deadline, earliest, latest, span)) = of_extension(case, extension) else {
            continue;
        };
        verdict.check((earliest..=latest).contains(&deadline), || {
            let (token, lasts) = (extension.token, deadline.saturating_sub(extension.now));
            format!("{token} was to be prolonged by {span} us and was by {lasts}")
        });
    }
}

/// When a lease that was claimed is to end, at the earliest and at the latest, and the span that
/// was asked for. A claim that is sent again is answered the lease that it has, which may have been
/// extended since.
fn of_claim(grant: &Grant) -> Option<(u64, u64, u64)> {
    let (span, started) = (grant.lease_duration?, grant.started?);
    Some((started + span, grant.now.max(started) + span, span))
}

/// The end that was answered, and the same of it. Of several shards the latest step is answered,
/// and the others were within the call, too; clocks of several machines do not compare.
fn of_extension(case: &Case, extension: &Extension) -> Option<(u64, u64, u64, u64)> {
    let (span, deadline) = (extension.lease_duration?, extension.deadline?);
    let took = match case.is_elsewhere {
        true => extension.now,
        false => extension.answered.saturating_sub(extension.invoked),
    };
    let earliest = extension.now.saturating_sub(took) + span;
    Some((deadline, earliest, extension.now + span, span))
}
