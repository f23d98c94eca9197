//! Between a line and a job as the engine keeps it.

use punctual::engine::WorkerId;
use punctual::flow::{After, Role, StepPast};
use punctual::job::{CancelReason, DeadReason, LogLine, Memo, PastAttempt, Stop};
use punctual::schedule::{Occurrence, Template};
use punctual::time::Timestamp;
use punctual::{Due, JobRecord, JobState, NewJob};
use serde_json::value::RawValue;

use super::fields::{Headers, base64_of};
use super::imported_history::{LoggedLine, MemoLine, PastLine, RunLine};
use super::step_line::StepOfLine;
use super::{JobJson, LineError, RetryLine, either};

impl From<&JobRecord> for JobJson {
    /// Every field on one line, so that reading it back gives the same record.
    fn from(job: &JobRecord) -> Self {
        Self::of(job, |text| !text.chars().any(is_hostile))
    }
}

impl JobJson {
    /// Every field, inside a document that may have many lines: any JSON stays as it was sent.
    pub fn document(job: &JobRecord) -> Self {
        Self::of(job, |_| true)
    }

    /// A job with what it waits for, and its place in its flow, for an export.
    pub fn linked(job: &JobRecord, after: &[After], place: Option<(Role, StepPast)>) -> Self {
        let mut line = Self::from(job);
        line.after = (!after.is_empty()).then(|| after.iter().map(Into::into).collect());
        if let (Some(of), Some((role, past))) = (&mut line.flow, place) {
            of.set(role, past);
        }
        line
    }

    /// What a schedule's job has of its own; only that is written.
    pub(crate) fn of_template(template: &Template) -> Self {
        let job = template.clone().job(punctual::JobId::new());
        let line = Self::document(&JobRecord::new(job, Timestamp::ZERO, Timestamp::ZERO));
        Self {
            queue: line.queue,
            kind: line.kind,
            payload: line.payload,
            payload_base64: line.payload_base64,
            content_type: line.content_type,
            headers: line.headers,
            priority: line.priority,
            unique: line.unique,
            group: line.group,
            share: line.share,
            limits: line.limits,
            cost: line.cost,
            max_attempts: line.max_attempts,
            max_crashes: line.max_crashes,
            retry: line.retry,
            timeout: line.timeout,
            retention: line.retention,
            ..Self::default()
        }
    }

    /// Bytes that are JSON, and text that is fit to be shown as it is, are written so.
    fn of(job: &JobRecord, fit: fn(&str) -> bool) -> Self {
        let (payload, payload_base64) = json_or_base64(Some(&job.payload), fit);
        let (result, result_base64) = json_or_base64(job.result.as_deref(), fit);
        let (progress, progress_base64) = json_or_base64(job.progress.as_deref(), fit);
        let headers = (!job.headers.is_empty()).then(|| Headers(job.headers.clone()));
        Self {
            id: Some(job.id.to_string()),
            queue: Some(job.queue.clone()),
            kind: Some(job.kind.clone()),
            payload,
            payload_base64,
            content_type: Some(job.content_type.clone()),
            // They are among the headers.
            target: None,
            callback: None,
            headers,
            delay: None,
            at: None,
            expires_at: job.expires_at.map(Into::into),
            priority: Some(job.priority),
            unique: job.unique.as_ref().map(Into::into),
            group: job.group.as_ref().map(Into::into),
            share: job.share.clone(),
            limits: (!job.limits.is_empty()).then(|| job.limits.clone()),
            cost: (job.cost != 1).then_some(job.cost),
            max_attempts: Some(job.max_attempts),
            max_crashes: job.max_crashes,
            retry: RetryLine::of(&job.retry),
            timeout: job.timeout.map(Into::into),
            retention: Some(job.retention.into()),
            remember: job.remember.map(Into::into),
            wait_for: (!job.wait_for.is_empty()).then(|| job.wait_for.clone()),
            schedule: job.schedule.as_deref().map(Into::into),
            flow: job.flow.as_deref().map(Into::into),
            after: None,
            state: Some(job.state.name().into()),
            due: Some(job.due.into()),
            attempt: Some(job.attempt),
            failures: Some(job.failures),
            crashes: Some(job.crashes),
            enqueued_at: Some(job.enqueued_at.into()),
            started_at: job.started_at.map(Into::into),
            finished_at: job.finished_at.map(Into::into),
            last_error: job.last_error.clone(),
            result,
            result_base64,
            progress,
            progress_base64,
            cancel_requested: job.cancel_requested.then_some(true),
            cancelled: job.cancelled.map(|reason| reason.name().into()),
            dead: job.dead.map(|reason| reason.name().into()),
            stopped: job.stopped.map(|stop| stop.name().into()),
            worker: job.worker.map(|id| WorkerId(id).to_string()),
            lease_until: job.lease_until.map(Into::into),
            attempts: (!job.attempts.is_empty())
                .then(|| job.attempts.iter().map(Into::into).collect()),
            log: (!job.log.is_empty()).then(|| job.log.iter().map(Into::into).collect()),
            memos: (!job.memos.is_empty()).then(|| {
                let value = |memo: &Memo| {
                    let has = (!memo.value.is_empty()).then_some(&memo.value[..]);
                    json_or_base64(has, fit)
                };
                let line = |memo| MemoLine::of(memo, value(memo));
                job.memos.iter().map(line).collect()
            }),
        }
    }
}

impl JobJson {
    /// The job with its past, for an import.
    pub fn into_import(mut self) -> Result<NewJob, LineError> {
        let missing = |name: &str| format!("has no {name}; is it a line of an export?");
        let state: JobState = self
            .state
            .as_deref()
            .ok_or_else(|| missing("state"))?
            .parse()
            .map_err(|error: punctual::Error| error.to_string())?;
        let due = self.due.ok_or_else(|| missing("due"))?.0;
        let enqueued_at = self.enqueued_at.ok_or_else(|| missing("enqueued_at"))?.0;
        let attempts = self.attempts.take().unwrap_or_default();
        let log = self.log.take().unwrap_or_default();
        let memos = self.memos.take().unwrap_or_default();
        let past = Past {
            schedule: self.schedule.take().map(RunLine::into_occurrence),
            state,
            due,
            enqueued_at,
            result: either(&self.result, &self.result_base64, "result")?,
            progress: either(&self.progress, &self.progress_base64, "progress")?,
            cancelled: named(
                &CancelReason::ALL,
                CancelReason::name,
                &self.cancelled,
                "cancelled",
            )?,
            dead: named(&DeadReason::ALL, DeadReason::name, &self.dead, "dead")?,
            stopped: named(&Stop::ALL, Stop::name, &self.stopped, "stopped")?,
            attempt: self.attempt.unwrap_or(0),
            failures: self.failures.unwrap_or(0),
            crashes: self.crashes.unwrap_or(0),
            started_at: self.started_at.map(|at| at.0),
            finished_at: self.finished_at.map(|at| at.0),
            last_error: self.last_error.clone(),
            cancel_requested: self.cancel_requested.unwrap_or(false),
            attempts: (attempts.into_iter())
                .map(PastLine::into_past)
                .collect::<Result<_, _>>()?,
            log: log.into_iter().map(LoggedLine::into_line).collect(),
            memos: (memos.into_iter())
                .map(MemoLine::into_memo)
                .collect::<Result<_, _>>()?,
        };
        let follows = self.unique.is_some();
        let waits_for_names = self
            .wait_for
            .as_ref()
            .is_some_and(|names| !names.is_empty());
        let waits_for_jobs = self.after.is_some() || self.flow.is_some();
        if state == JobState::Held && !waits_for_names && !follows && !waits_for_jobs {
            let message = "waits for other jobs, which are not among its fields; export all \
                           queues together, without --queue";
            return Err(message.into());
        }
        let place = self.flow.take().map(StepOfLine::into_place).transpose()?;
        let (Some(queue), Some(_)) = (self.queue.clone(), &self.id) else {
            return Err(missing("id or queue"));
        };
        let sent = Self {
            state: None,
            ..self
        };
        let mut job = sent.into_new_job(&NewJob::new(queue, ""))?;
        job.due = Due::At(due);
        job.flow = place.map(Box::new);
        job.history = Some(Box::new(past.of(&job)));
        Ok(job)
    }
}

/// What a line knows of a job's past.
struct Past {
    schedule: Option<Occurrence>,
    state: JobState,
    due: Timestamp,
    attempt: u32,
    failures: u32,
    crashes: u32,
    enqueued_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    last_error: Option<String>,
    result: Option<bytes::Bytes>,
    progress: Option<bytes::Bytes>,
    cancel_requested: bool,
    cancelled: Option<CancelReason>,
    dead: Option<DeadReason>,
    stopped: Option<Stop>,
    attempts: Vec<PastAttempt>,
    log: Vec<LogLine>,
    memos: Vec<Memo>,
}

impl Past {
    fn of(self, job: &NewJob) -> JobRecord {
        let mut record = JobRecord::new(job.clone(), self.due, self.enqueued_at);
        record.schedule = self.schedule.map(Box::new);
        record.state = self.state;
        record.attempt = self.attempt;
        record.failures = self.failures;
        record.crashes = self.crashes;
        record.started_at = self.started_at;
        record.finished_at = self.finished_at;
        record.last_error = self.last_error;
        record.result = self.result;
        record.progress = self.progress;
        record.cancel_requested = self.cancel_requested;
        record.cancelled = self.cancelled;
        record.dead = self.dead;
        record.stopped = self.stopped;
        record.attempts = self.attempts;
        record.log = self.log;
        record.memos = self.memos;
        // A lease does not travel: an active job arrives ready.
        record
    }
}

fn named<T: Copy>(
    all: &[T],
    name: impl Fn(T) -> &'static str,
    text: &Option<String>,
    field: &str,
) -> Result<Option<T>, LineError> {
    let Some(text) = text else { return Ok(None) };
    all.iter()
        .copied()
        .find(|value| name(*value) == text)
        .map(Some)
        .ok_or_else(|| format!("{field} {text:?} is not known"))
}

/// Bytes as the JSON they are, if that is fit; else as base64.
pub(crate) fn json_or_base64(
    bytes: Option<&[u8]>,
    fit: impl Fn(&str) -> bool,
) -> (Option<Box<RawValue>>, Option<String>) {
    let Some(bytes) = bytes else {
        return (None, None);
    };
    let raw = std::str::from_utf8(bytes)
        .ok()
        .filter(|text| fit(text))
        .and_then(|text| {
            let raw = RawValue::from_string(text.to_owned()).ok()?;
            // White space around the value would not survive.
            (raw.get() == text).then_some(raw)
        });
    match raw {
        Some(raw) => (Some(raw), None),
        None => (None, Some(base64_of(bytes))),
    }
}

/// Control characters, and the marks that reverse text or break lines.
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{feff}'
        )
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
