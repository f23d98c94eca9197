//! The dead job that a refused message becomes.

use bytes::Bytes;
use punctual::job::{DeadReason, PastAttempt, PastOutcome};
use punctual::time::{Timestamp, days};
use punctual::{JobId, JobRecord, JobState, Limits, NewJob};

use crate::message::{content_type_of, foreign_id};

/// The queue of messages that a relay could not store.
pub(crate) fn queue_of(relay: &str) -> String {
    format!("relay.{relay}.refused")
}

/// The dead job: as much of the body as a payload may have, and the reason.
pub(crate) fn dead_job(
    relay: &str,
    (id, body, why): (JobId, Bytes, &str),
    limits: &Limits,
    now: Timestamp,
) -> NewJob {
    let is_cut = body.len() > limits.payload_bytes;
    let body = body.slice(..body.len().min(limits.payload_bytes));
    let why = match is_cut {
        true => format!("{why}; the body is cut"),
        false => why.to_owned(),
    };
    // The id of another job may be the reason, and a message may be refused twice for two reasons.
    let id = foreign_id(&format!("refused {why}"), &id.to_string());
    let mut job = NewJob::with_id(id, queue_of(relay), body);
    job.content_type = content_type_of(&job.payload).into();
    job.remember = Some(days(1));
    let mut record = JobRecord::new(job.clone(), now, now);
    record.state = JobState::Dead;
    record.dead = Some(DeadReason::Permanent);
    record.finished_at = Some(now);
    record.attempt = 1;
    record.failures = 1;
    record.started_at = Some(now);
    let past = PastAttempt::new(1, now, now, PastOutcome::Dead).error(why.clone());
    record.attempts = vec![past];
    record.last_error = Some(why);
    job.history(record)
}
