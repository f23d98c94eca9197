//! Says where an engine and the model differ.

use std::fmt::Debug;

use crate::engine::{Claimed, Explanation, Got, Reason};
use crate::job::JobRecord;

/// Where an engine and the model differ, in words.
pub(super) type Difference = String;

/// Equal, or a difference that shows both.
pub(super) fn same<T: PartialEq + Debug>(
    what: &str,
    expected: &T,
    answered: &T,
) -> Result<(), Difference> {
    if expected == answered {
        return Ok(());
    }
    Err(format!(
        "{what}\n    expected {expected:?}\n    answered {answered:?}"
    ))
}

/// Equal item by item, or the first difference.
pub(super) fn same_items<T: PartialEq + Debug>(
    what: &str,
    expected: &[T],
    answered: &[T],
) -> Result<(), Difference> {
    for (nth, (expected, answered)) in expected.iter().zip(answered).enumerate() {
        same(&format!("{what} {nth}"), expected, answered)?;
    }
    same(
        &format!("number of: {what}"),
        &expected.len(),
        &answered.len(),
    )
}

/// Equal in every field, or the fields that differ.
pub(super) fn same_job(
    what: &str,
    expected: &JobRecord,
    answered: &JobRecord,
) -> Result<(), Difference> {
    if expected == answered {
        return Ok(());
    }
    let mut differences = format!("{what}: job {}", expected.id);
    macro_rules! fields {
        ($($field:ident)*) => {$(
            if expected.$field != answered.$field {
                differences += &format!(
                    "\n    {} expected {:?}\n    {} answered {:?}",
                    stringify!($field), expected.$field, stringify!($field), answered.$field,
                );
            }
        )*};
    }
    fields!(
        id queue kind payload content_type headers expires_at priority unique group max_attempts
        max_crashes retry timeout retention remember wait_for state due attempt failures crashes enqueued_at started_at
        finished_at last_error result progress cancel_requested cancelled dead stopped worker
        lease_until attempts log
    );
    Err(differences)
}

/// The same jobs in the same order, each equal in every field.
pub(super) fn same_jobs(
    what: &str,
    expected: &[JobRecord],
    answered: &[JobRecord],
) -> Result<(), Difference> {
    let ids = |jobs: &[JobRecord]| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
    same(what, &ids(expected), &ids(answered))?;
    (expected.iter().zip(answered))
        .try_for_each(|(expected, answered)| same_job(what, expected, answered))
}

pub(super) fn same_got(expected: Option<&Got>, answered: Option<&Got>) -> Result<(), Difference> {
    match (expected, answered) {
        (Some(Got::Job(expected, _)), Some(Got::Job(answered, _))) => {
            same_job("get", expected, answered)
        }
        _ => same("get", &expected, &answered),
    }
}

/// The same reasons, the weightiest first. A place in line may come last; where it stands alone it
/// must, and how many are ahead is not compared.
pub(super) fn same_reasons(
    job: &JobRecord,
    expected: Option<&Explanation>,
    answered: Option<&Explanation>,
) -> Result<(), Difference> {
    let plain = |explanation: Option<&Explanation>| {
        let mut reasons = explanation?.reasons.clone();
        if let Some(Reason::InLine { ahead }) = reasons.last_mut() {
            *ahead = 0;
            if reasons.len() > 1 {
                reasons.pop();
            }
        }
        Some(reasons)
    };
    let what = format!("explain of job {} ({})", job.id, job.state);
    same(&what, &plain(expected), &plain(answered))
}

pub(super) fn same_claimed(expected: &Claimed, answered: &Claimed) -> Result<(), Difference> {
    let leases = |claimed: &Claimed| {
        (claimed.leases.iter())
            .map(|lease| (lease.token, lease.deadline))
            .collect::<Vec<_>>()
    };
    let jobs = |claimed: &Claimed| {
        (claimed.leases.iter())
            .flat_map(|lease| lease.jobs.clone())
            .collect::<Vec<_>>()
    };
    same_jobs("claimed jobs", &jobs(expected), &jobs(answered))?;
    same("claimed leases", &leases(expected), &leases(answered))?;
    same("claim's wake_at", &expected.wake_at, &answered.wake_at)?;
    same(
        "claim's suspects_wait",
        &expected.suspects_wait,
        &answered.suspects_wait,
    )
}
