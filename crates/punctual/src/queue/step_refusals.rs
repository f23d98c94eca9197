//! Why steps of a flow were not stored, in the names of its plan.

use std::collections::HashMap;

use crate::engine::{EnqueueVerdict, Receipt};
use crate::error::{Error, ErrorKind, Result};
use crate::job::JobId;

/// The error of a step that was not stored.
pub(super) fn taken(receipt: Receipt) -> Result<()> {
    let refused = |kind, message: &str| Error::new(kind, message).operation("enqueue");
    let conflict = |message: &str| refused(ErrorKind::Conflict, message);
    let full = |message: &str| refused(ErrorKind::EngineFull, message);
    Err(match receipt.verdict {
        EnqueueVerdict::Created | EnqueueVerdict::Duplicate | EnqueueVerdict::Replaced(_) => {
            return Ok(());
        }
        EnqueueVerdict::IdConflict => {
            conflict("flow has this step with other content; send the plan under another name")
        }
        EnqueueVerdict::FlowClosed => conflict(
            "flow takes no more steps: it is sealed, cancelled or has settled; send the plan under \
             another name",
        ),
        EnqueueVerdict::ParentUnknown(job) => refused(
            ErrorKind::NotFound,
            "step waits for a job that is not known; send that one first, or correct its name",
        )
        .with("job", job),
        EnqueueVerdict::Full => {
            full("queue has as many pending jobs as it may; raise max_pending or add workers")
        }
        EnqueueVerdict::ShareFull(most) => full(
            "share has as many pending jobs as it may; raise max_pending of the queue's shares or \
             add workers",
        )
        .with("max_pending", most),
        EnqueueVerdict::LimitFull(_) => conflict(
            "step was not stored, as a named limit of its job is full; send the flow again once a \
             job of that limit has ended",
        ),
        EnqueueVerdict::Merged(holder)
        | EnqueueVerdict::Refreshed(holder)
        | EnqueueVerdict::UniqueActive(holder) => conflict(
            "step was not stored, as another job holds its unique key; use another key, or send the \
             flow again once that job has settled",
        )
        .with("holder", holder),
    })
}

/// The same error with the names of steps in the place of their jobs' ids, where a plan has them:
/// steps of earlier parts, and its own.
pub(super) fn with_names(
    error: Error,
    earlier: &HashMap<JobId, String>,
    own: &[(String, JobId)],
) -> Error {
    let kinds = [ErrorKind::NotFound, ErrorKind::InvalidInput];
    if !kinds.contains(&error.kind()) {
        return error;
    }
    let name_of = |value: &str| {
        let id: JobId = value.parse().ok()?;
        let own = || own.iter().find(|(_, step)| *step == id);
        let found = earlier.get(&id);
        found.or_else(|| own().map(|(name, _)| name)).cloned()
    };
    let same = Error::new(error.kind(), error.message()).operation(error.operation_name());
    error
        .context()
        .fold(same, |same, (what, value)| match (what, name_of(value)) {
            ("job", Some(name)) => same.with("after", name),
            (what, Some(name)) => same.with(what, name),
            (what, None) => same.with(what, value),
        })
}
