//! Whose settle put a job in: a header of the job, as no engine keeps such a link.

use punctual::{JobId, JobRecord, NewJob, push};

/// The header that names the job whose settle put this one in.
pub(crate) const PARENT: &str = "punctual-parent";

/// Names the parent, unless the job names one itself or has no room for it: a job is worth more.
///
/// Not for a job whose id the sender chose. Several may bring that one about, and its headers are
/// part of what must be the same then.
pub(crate) fn name_parent(job: &mut NewJob, parent: JobId, header_bytes_max: usize) {
    if push::header(&job.headers, PARENT).is_some() {
        return;
    }
    let header = (PARENT.to_owned(), parent.to_string());
    let size = |(name, value): &(String, String)| name.len() + value.len();
    let bytes = size(&header) + job.headers.iter().map(size).sum::<usize>();
    if bytes <= header_bytes_max {
        job.headers.push(header);
    }
}

/// Whether a job names that parent.
pub(crate) fn is_of(job: &JobRecord, parent: JobId) -> bool {
    let named = push::header(&job.headers, PARENT);
    named.and_then(|text| text.parse().ok()) == Some(parent)
}
