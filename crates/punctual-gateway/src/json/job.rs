//! Jobs in answers, and receipts.

use punctual::engine::{EnqueueVerdict, Got, Receipt};
use punctual::time::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::listed::ListedJob;
use super::reason::ReasonLine;
use crate::job_json::{JobJson, json_or_base64};

/// A job or its tombstone, with the requested explanation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum JobAnswer {
    /// Every field.
    Job {
        #[serde(flatten)]
        job: Box<JobJson>,
        /// The reasons, the weightiest first, if they were asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        explain: Option<Vec<ReasonLine>>,
        /// Engine time.
        #[schema(value_type = String)]
        now: String,
    },
    /// What is left of a settled job.
    Tombstone {
        id: String,
        state: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = serde_json::Value, required = false)]
        result: Option<Box<RawValue>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result_base64: Option<String>,
        finished_at: String,
        /// Always true.
        tombstone: bool,
        now: String,
    },
}

impl JobAnswer {
    /// Without its payload and headers, for a caller without the scope `read`.
    pub(crate) fn without_payload(mut self) -> Self {
        if let Self::Job { job, .. } = &mut self {
            job.without_payload();
        }
        self
    }

    /// `None` for something of an engine that knows more.
    pub(crate) fn new(got: Got, now: Timestamp) -> Option<Self> {
        let at = now;
        let now = now.to_string();
        Some(match got {
            Got::Job(job, explanation) => {
                let reasons = explanation.map(|explanation| {
                    let line = |reason| ReasonLine::new(reason, &job.queue, at);
                    explanation.reasons.iter().map(line).collect()
                });
                Self::Job {
                    job: Box::new(JobJson::document(&job)),
                    explain: reasons,
                    now,
                }
            }
            Got::Tombstone {
                id,
                state,
                result,
                finished_at,
            } => {
                let (result, result_base64) = json_or_base64(result.as_deref(), |_| true);
                Self::Tombstone {
                    id: id.to_string(),
                    state: state.name(),
                    result,
                    result_base64,
                    finished_at: finished_at.to_string(),
                    tombstone: true,
                    now,
                }
            }
            _ => return None,
        })
    }
}

/// What became of one job that was sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReceiptLine {
    pub(crate) id: String,
    /// `created`, `duplicate`, `merged`, `replaced`, `refreshed`, `id_conflict`, `unique_active`,
    /// `full`, `parent_unknown`, `flow_closed`, `limit_full` or `share_full`. A first send is a
    /// `duplicate` too if its answer was lost on the way and the client sent it again by itself.
    pub(crate) verdict: &'static str,
    /// The other job that a verdict names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<String>,
    /// With `limit_full`, which of the job's limits refused it, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u8>,
    pub(crate) due: String,
    /// Whether the instant asked for had passed already.
    pub(crate) late: bool,
}

impl From<&Receipt> for ReceiptLine {
    fn from(receipt: &Receipt) -> Self {
        Self {
            id: receipt.id.to_string(),
            verdict: receipt.verdict.name(),
            holder: holder(receipt.verdict),
            limit: match receipt.verdict {
                EnqueueVerdict::LimitFull(nth) => Some(nth),
                _ => None,
            },
            due: receipt.due.to_string(),
            late: receipt.late,
        }
    }
}

/// The job that a verdict names beside the one that was sent.
pub(crate) fn holder(verdict: EnqueueVerdict) -> Option<String> {
    match verdict {
        EnqueueVerdict::Merged(id)
        | EnqueueVerdict::Replaced(id)
        | EnqueueVerdict::Refreshed(id)
        | EnqueueVerdict::UniqueActive(id) => Some(id.to_string()),
        _ => None,
    }
}

/// The answer to one job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OneEnqueued {
    #[serde(flatten)]
    pub(crate) receipt: ReceiptLine,
    /// What the change has survived.
    pub(crate) durability: String,
    pub(crate) now: String,
}

/// The answer to an array of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ManyEnqueued {
    /// One per job, in order.
    pub(crate) receipts: Vec<ReceiptLine>,
    pub(crate) durability: String,
    pub(crate) now: String,
}

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobList {
    pub(crate) jobs: Vec<ListedJob>,
    /// Jobs that were looked at.
    pub(crate) examined: usize,
    /// What to ask on with; missing at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<String>,
    pub(crate) now: String,
}
