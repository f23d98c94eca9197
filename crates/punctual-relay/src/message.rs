//! A message of another system, and the id of its job.

use bytes::Bytes;
use punctual::{JobId, Limits, NewJob, Result};
use sha2::{Digest, Sha256};

use crate::injected::is_injected;

/// The form of an id of version 8, in its first byte: derived from the name of a foreign message.
const FORM_FOREIGN: u8 = 4;

/// A message that a source took.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// It is a job.
    Job(Box<NewJob>),
    /// It is no job, and the source knows why.
    Bad {
        /// The id that its job would have had.
        id: JobId,
        /// Its bytes.
        body: Bytes,
        /// What is wrong, and the remedy.
        why: String,
    },
}

impl Message {
    /// The id of its job.
    pub fn id(&self) -> JobId {
        match self {
            Self::Job(job) => job.id,
            Self::Bad { id, .. } => *id,
        }
    }
}

impl From<NewJob> for Message {
    fn from(job: NewJob) -> Self {
        Self::Job(Box::new(job))
    }
}

/// The id of the message with that name in a source: the same for the same two texts.
///
/// Version 8, from the SHA-256 of both: a sender who chooses names cannot meet the id of another's
/// message.
///
/// ```
/// use punctual_relay::foreign_id;
///
/// let id = foreign_id("stream orders", "1700000000000-0");
/// assert_eq!(id, foreign_id("stream orders", "1700000000000-0"));
/// assert_ne!(id, foreign_id("stream order", "s1700000000000-0"));
/// assert!(!id.is_reserved());
/// ```
pub fn foreign_id(source: &str, name: &str) -> JobId {
    if is_injected("NewIdEachTime") {
        return JobId::new();
    }
    let mut hash = Sha256::new();
    // The length in front, so that no two pairs of texts are the same bytes.
    hash.update((source.len() as u64).to_be_bytes());
    hash.update(source);
    hash.update(name);
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[0] = FORM_FOREIGN;
    JobId::from_uuid(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// Checks the name of a queue before the first message: else every message would be refused for it.
pub(crate) fn check_queue(queue: &str) -> Result<()> {
    NewJob::new(queue, "").check(&Limits::default())
}

/// What bytes without a type are: JSON, text, or bytes.
pub fn content_type_of(body: &[u8]) -> &'static str {
    match std::str::from_utf8(body) {
        Ok(text) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() => {
            "application/json"
        }
        Ok(_) => "text/plain",
        Err(_) => "application/octet-stream",
    }
}
