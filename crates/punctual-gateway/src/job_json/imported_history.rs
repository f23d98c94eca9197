//! How an attempt ended, as JSON.

use punctual::engine::WorkerId;
use punctual::job::{LogLine, Memo, MemoSource, PastAttempt, PastOutcome};
use punctual::schedule::Occurrence;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::fields::Instant;
use super::{LineError, either, raw};

/// Which run of which schedule a job is.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Run)]
#[serde(deny_unknown_fields)]
pub(super) struct RunLine {
    /// The schedule's name.
    name: String,
    /// The instant that it stands for, however late it runs.
    at: Instant,
}

impl From<&Occurrence> for RunLine {
    fn from(run: &Occurrence) -> Self {
        Self {
            name: run.name.clone(),
            at: run.at.into(),
        }
    }
}

impl RunLine {
    pub(super) fn into_occurrence(self) -> Occurrence {
        Occurrence::new(self.name, self.at.0)
    }
}

/// An attempt that did not complete its job.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = PastAttempt)]
#[serde(deny_unknown_fields)]
pub(super) struct PastLine {
    /// Its number, counted from 1.
    #[schema(value_type = u64, maximum = 4294967295i64)]
    attempt: u32,
    started_at: Instant,
    ended_at: Instant,
    /// `retry`, `snooze`, `cancelled`, `dead` or `released` as its worker settled it, `crashed`
    /// if its lease ran out.
    outcome: String,
    /// The worker that ran it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    /// The beginning of its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<&PastAttempt> for PastLine {
    fn from(past: &PastAttempt) -> Self {
        Self {
            attempt: past.attempt,
            started_at: past.started_at.into(),
            ended_at: past.ended_at.into(),
            outcome: past.outcome.name().into(),
            worker: past.worker.map(|id| WorkerId(id).to_string()),
            error: past.error.clone(),
        }
    }
}

impl PastLine {
    pub(super) fn into_past(self) -> Result<PastAttempt, LineError> {
        let outcome = PastOutcome::ALL
            .into_iter()
            .find(|one| one.name() == self.outcome)
            .ok_or_else(|| format!("outcome {:?} of an attempt is not known", self.outcome))?;
        let worker = match self.worker {
            None => None,
            Some(text) => Some(
                u128_of(&text)
                    .ok_or_else(|| format!("worker {text:?} of an attempt is not a UUID"))?,
            ),
        };
        let past = PastAttempt::new(self.attempt, self.started_at.0, self.ended_at.0, outcome);
        Ok(past.worker(worker).error(self.error))
    }
}

/// A result of a step, a signal, or a wait that timed out.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Memo)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoLine {
    name: String,
    /// `step`, `signal` or `timed_out`.
    source: String,
    at: Instant,
    /// If it is JSON, byte for byte.
    #[serde(
        default,
        deserialize_with = "raw",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = serde_json::Value, required = false)]
    value: Option<Box<RawValue>>,
    /// If it is no JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

impl MemoLine {
    /// A memo with its value as JSON or base64; neither if it is empty.
    pub(super) fn of(memo: &Memo, value: (Option<Box<RawValue>>, Option<String>)) -> Self {
        let (value, value_base64) = value;
        Self {
            name: memo.name.clone(),
            source: memo.source.name().into(),
            at: memo.at.into(),
            value,
            value_base64,
        }
    }

    pub(super) fn into_memo(self) -> Result<Memo, LineError> {
        let known = MemoSource::ALL.into_iter();
        let source = (known.clone().find(|one| one.name() == self.source)).ok_or_else(|| {
            let names: Vec<_> = known.map(MemoSource::name).collect();
            format!("has a memo whose source is not one of {}", names.join(", "))
        })?;
        Ok(Memo::new(
            self.name,
            source,
            either(&self.value, &self.value_base64, "value")?.unwrap_or_default(),
            self.at.0,
        ))
    }
}

/// A line that an attempt logged.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = LogLine)]
#[serde(deny_unknown_fields)]
pub(super) struct LoggedLine {
    at: Instant,
    /// The attempt that logged it.
    #[schema(value_type = u64, maximum = 4294967295i64)]
    attempt: u32,
    text: String,
}

impl From<&LogLine> for LoggedLine {
    fn from(line: &LogLine) -> Self {
        Self {
            at: line.at.into(),
            attempt: line.attempt,
            text: line.text.clone(),
        }
    }
}

impl LoggedLine {
    pub(super) fn into_line(self) -> LogLine {
        LogLine::new(self.at.0, self.attempt, self.text)
    }
}

fn u128_of(uuid: &str) -> Option<u128> {
    let id: punctual::JobId = uuid.parse().ok()?;
    Some(u128::from_be_bytes(*id.as_bytes()))
}
