//! What a job carries, in one number: so that histories show whether it came out as it went in.

use punctual::{JobRecord, NewJob};
use sha2::{Digest, Sha256};

/// That of a job as it is sent.
pub(crate) fn of_new(job: &NewJob) -> u64 {
    of(
        [&job.queue, &job.kind, &job.content_type],
        &job.headers,
        &job.payload,
    )
}

/// That of a job as it is claimed and given to its handler.
pub(crate) fn of_record(job: &JobRecord) -> u64 {
    of(
        [&job.queue, &job.kind, &job.content_type],
        &job.headers,
        &job.payload,
    )
}

fn of(names: [&String; 3], headers: &[(String, String)], payload: &[u8]) -> u64 {
    let mut sum = Sha256::new();
    let mut add = |part: &[u8]| {
        sum.update((part.len() as u64).to_be_bytes());
        sum.update(part);
    };
    names.into_iter().for_each(|name| add(name.as_bytes()));
    for (name, value) in headers {
        add(name.as_bytes());
        add(value.as_bytes());
    }
    add(payload);
    let hash = sum.finalize();
    hash.iter()
        .take(8)
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests;
