//! Whose settle enqueued a job: a header of the job, as no engine keeps such a link.

use punctual::job::PARENT_HEADER;
use punctual::{JobId, JobRecord, push};

/// Whether a job names that parent.
pub(crate) fn is_of(job: &JobRecord, parent: JobId) -> bool {
    let named = push::header(&job.headers, PARENT_HEADER);
    named.and_then(|text| text.parse().ok()) == Some(parent)
}
