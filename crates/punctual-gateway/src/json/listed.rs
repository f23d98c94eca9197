//! A job as lists show it: with the first characters of its payload, if they were asked for.

use punctual::JobRecord;
use serde::Serialize;
use utoipa::ToSchema;

use crate::job_json::JobJson;

/// One job of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedJob {
    #[serde(flatten)]
    job: JobJson,
    /// The first characters of the payload, with `preview`; missing if the payload is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<String>,
    /// How long the payload is, with `preview`.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_bytes: Option<usize>,
}

impl ListedJob {
    /// The whole job.
    pub(crate) fn whole(job: &JobRecord) -> Self {
        Self {
            job: JobJson::document(job),
            preview: None,
            payload_bytes: None,
        }
    }

    /// The job, and that many characters in place of its payload.
    pub(crate) fn with_preview(job: &JobRecord, characters: usize) -> Self {
        let mut line = JobJson::document(job);
        line.payload = None;
        line.payload_base64 = None;
        Self {
            job: line,
            preview: preview(&job.payload, characters),
            payload_bytes: Some(job.payload.len()),
        }
    }
}

/// The first characters of bytes that are text; a character that the bytes end within is left out.
fn preview(payload: &[u8], characters: usize) -> Option<String> {
    // No character has more than four bytes.
    let first = &payload[..payload.len().min(characters * 4)];
    let text = match std::str::from_utf8(first) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && first.len() < payload.len() => {
            std::str::from_utf8(&first[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    Some(text.chars().take(characters).collect())
}

#[cfg(test)]
mod tests;
