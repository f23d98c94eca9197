//! `/v1/bulk`: streams NDJSON, one job per row in and one verdict per row out.

use std::fmt::Write as _;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::{Extension, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use punctual::engine::{CallSize, Receipt};
use punctual::time::Stopwatch;
use punctual::{JobId, Limits, NewJob};
use serde::Serialize;

use crate::auth::{Allowed, Enqueuing, may_go_on};
use crate::bodies::BodyPermit;
use crate::http::Caller;
use crate::http::{ErrorAnswer, Problem, RequestContext, Result};
use crate::json::job::ReceiptLine;
use crate::json::new_job::new_job;
use crate::request::{expect_type, next_part, parse};
use crate::shared::Shared;
use crate::trace::RequestTrace;

/// The longest line: a payload at its limit in base64, with all else beside it.
const ROW_BYTES_MAX: usize = 4 << 20;
/// Jobs that are taken in together at most, to be sent in one call or several; fewer if the sender
/// is slower than the engine.
const BATCH_JOBS_MAX: usize = 500;

/// The content type of NDJSON.
pub(super) const NDJSON: &str = "application/x-ndjson";

/// Enqueues a stream of jobs: one per line in, one verdict per line out
#[utoipa::path(
    post, path = "/v1/bulk", tag = "jobs",
    request_body(content = String, content_type = "application/x-ndjson"),
    responses(
        (status = 200, body = String, content_type = "application/x-ndjson"),
        (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer)
    )
)]
pub(super) async fn bulk(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Enqueuing>,
    Extension(context): Extension<RequestContext>,
    request: Request,
) -> Result<Response> {
    expect_type(request.headers(), &[NDJSON, "application/jsonl"])?;
    let limits = shared.engine.info().await?.limits;
    let limit = shared.limits.body;
    let permit = shared.bodies.begin(caller.owner());
    let trace = RequestTrace::of(request.headers(), &shared).await;
    let bulk = Bulk {
        shared,
        caller,
        context,
        trace,
        limits,
        lines: Rows::new(request.into_body().into_data_stream(), limit, permit),
        accepted: 0,
        refused: 0,
        is_done: false,
    };
    let answer = stream::unfold(bulk, async |mut bulk| {
        let text = bulk.next().await?;
        Some((Ok::<_, std::convert::Infallible>(text), bulk))
    });
    let content_type = [(header::CONTENT_TYPE, NDJSON)];
    Ok((content_type, Body::from_stream(answer)).into_response())
}

struct Bulk {
    shared: Shared,
    caller: Caller,
    context: RequestContext,
    trace: Option<RequestTrace>,
    limits: Limits,
    lines: Rows,
    accepted: u64,
    refused: u64,
    is_done: bool,
}

/// The verdict of one row.
#[derive(Serialize)]
struct Verdict<'a> {
    line: u64,
    #[serde(flatten)]
    receipt: Option<ReceiptLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RowError<'a>>,
}

#[derive(Serialize)]
struct RowError<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

impl Bulk {
    /// The verdicts of the next lines; `None` after the end.
    async fn next(&mut self) -> Option<String> {
        if self.is_done {
            return None;
        }
        if !may_go_on(&self.shared, &self.caller) {
            self.is_done = true;
            let gone = Problem::new(
                axum::http::StatusCode::UNAUTHORIZED,
                "unauthorized",
                "the token has expired or was revoked; the lines from here on are not stored",
            );
            let error = serde_json::to_string(&gone.answer(None)).unwrap_or_default();
            return Some(error + "\n");
        }
        let mut verdicts: Vec<(u64, Result<JobId>)> = Vec::new();
        let mut jobs: Vec<NewJob> = Vec::new();
        let mut bytes = 0;
        let mut cut = None;
        // What has arrived goes together; no call waits for more to fill a batch.
        while jobs.len() < BATCH_JOBS_MAX && bytes < self.limits.batch_bytes / 2 {
            let wait = verdicts.is_empty();
            match self.lines.next(wait).await {
                Ok(Found::Row(number, line)) => {
                    let job = line.and_then(|line| self.job(&line));
                    verdicts.push((number, job.as_ref().map(|job| job.id).map_err(Clone::clone)));
                    if let Ok(job) = job {
                        bytes += job.payload.len();
                        jobs.push(job);
                        self.lines.batched = bytes;
                    }
                }
                Ok(Found::NotYet) => break,
                Ok(Found::End) => {
                    self.is_done = true;
                    break;
                }
                Err(problem) => {
                    self.is_done = true;
                    cut = Some(problem);
                    break;
                }
            }
        }
        let mut text = self.send(verdicts, jobs).await;
        self.lines.batched = 0;
        match (self.is_done, cut) {
            (true, None) => {
                let (accepted, refused) = (self.accepted, self.refused);
                let lines = accepted + refused;
                let _ = writeln!(
                    text,
                    "{{\"lines\":{lines},\"accepted\":{accepted},\"refused\":{refused},\"done\":true}}"
                );
            }
            (_, Some(problem)) => {
                let error = serde_json::to_string(&problem.answer(None)).unwrap_or_default();
                text += &error;
                text.push('\n');
            }
            _ => {}
        }
        Some(text)
    }

    fn job(&self, line: &Bytes) -> Result<NewJob> {
        let mut job = new_job(parse(line)?, &self.shared.guard)?;
        self.trace.iter().for_each(|trace| trace.give(&mut job));
        job.check(&self.limits)
            .map_err(|error| Problem::from(error).with_values_of(line))?;
        self.shared.notify(&self.caller.namespace, &job);
        Ok(job)
    }

    /// What became of jobs, in their order. Where the engine refuses a call because some of its
    /// jobs have named limits, the others go by themselves.
    async fn enqueue(&mut self, jobs: Vec<NewJob>) -> Vec<Result<Receipt>> {
        let has_limits = |job: &NewJob| !job.limits.is_empty();
        let again = jobs.iter().any(has_limits).then(|| jobs.clone());
        let mut reported = self.enqueue_part(jobs).await;
        let is_refused =
            |one: &Result<Receipt>| matches!(one, Err(problem) if problem.code() == "unsupported");
        let others = again.into_iter().flatten().zip(&mut reported);
        let (places, jobs): (Vec<_>, Vec<_>) = others
            .filter(|(job, one)| !has_limits(job) && is_refused(one))
            .map(|(job, one)| (one, job))
            .unzip();
        for (place, one) in places.into_iter().zip(self.enqueue_part(jobs).await) {
            *place = one;
        }
        reported
    }

    /// Stops at a call that fails: its problem is that of all jobs behind it, too.
    async fn enqueue_part(&mut self, jobs: Vec<NewJob>) -> Vec<Result<Receipt>> {
        let count = jobs.len();
        let mut reported = Vec::with_capacity(count);
        for jobs in CallSize::cut(jobs, &self.limits) {
            let sent = self.shared.engine.enqueue(&self.caller.namespace, jobs);
            match sent.await {
                Ok(enqueued) => reported.extend(enqueued.receipts.into_iter().map(Ok)),
                Err(error) => {
                    let problem = Problem::from(error);
                    problem.log(&self.context, &self.shared.log_throttle);
                    reported.resize(count, Err(problem));
                    break;
                }
            }
        }
        reported
    }

    /// Sends the good ones and writes a verdict for every line.
    async fn send(&mut self, verdicts: Vec<(u64, Result<JobId>)>, jobs: Vec<NewJob>) -> String {
        let mut sent = self.enqueue(jobs).await.into_iter();
        let mut text = String::with_capacity(verdicts.len() * 160);
        for (line, verdict) in verdicts {
            let (receipt, problem) = match verdict {
                Ok(_) => match sent.next() {
                    Some(Ok(receipt)) => (Some(receipt), None),
                    other => (None, other.and_then(Result::err)),
                },
                Err(problem) => (None, Some(problem)),
            };
            let accepted = receipt.is_some_and(|receipt| receipt.verdict.is_accepted());
            *(if accepted {
                &mut self.accepted
            } else {
                &mut self.refused
            }) += 1;
            let verdict = Verdict {
                line,
                receipt: receipt.as_ref().map(Into::into),
                error: problem.as_ref().map(|problem| RowError {
                    code: problem.code(),
                    message: problem.message(),
                    hint: problem.shown_hint(),
                    cause: problem.cause_for(&self.context),
                }),
            };
            text += &serde_json::to_string(&verdict).unwrap_or_default();
            text.push('\n');
        }
        text
    }
}

/// The NDJSON rows of a body.
struct Rows {
    stream: BodyDataStream,
    /// How long the sender may take for a line.
    limit: Duration,
    /// Of the line that comes.
    watch: Stopwatch,
    permit: BodyPermit,
    /// Bytes of lines that are not sent yet.
    batched: usize,
    buffer: BytesMut,
    /// Bytes of the buffer in which no line feed was found.
    searched: usize,
    number: u64,
    ended: bool,
    /// Whether the rest of a line that was too long is being left out.
    skipping: bool,
}

enum Found {
    /// Its number from 1, and its text.
    Row(u64, Result<Bytes>),
    /// None has arrived as a whole.
    NotYet,
    End,
}

impl Rows {
    fn new(stream: BodyDataStream, limit: Duration, permit: BodyPermit) -> Self {
        Self {
            stream,
            limit,
            watch: Stopwatch::start(),
            permit,
            batched: 0,
            buffer: BytesMut::new(),
            searched: 0,
            number: 0,
            ended: false,
            skipping: false,
        }
    }

    /// The next line that is not empty; waits for one only if `wait` is set.
    async fn next(&mut self, wait: bool) -> Result<Found> {
        loop {
            let feed = self.buffer[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n');
            let line = match feed {
                Some(at) => {
                    let line = self.buffer.split_to(self.searched + at + 1).freeze();
                    self.searched = 0;
                    Some(line)
                }
                None if self.ended && !self.buffer.is_empty() => {
                    self.searched = 0;
                    Some(self.buffer.split().freeze())
                }
                None => None,
            };
            if let Some(line) = line {
                self.number += 1;
                self.watch = Stopwatch::start();
                if std::mem::take(&mut self.skipping) {
                    return Ok(Found::Row(self.number, Err(too_long())));
                }
                if !line.iter().all(u8::is_ascii_whitespace) {
                    return Ok(Found::Row(self.number, Ok(line)));
                }
                continue;
            }
            self.searched = self.buffer.len();
            if self.searched > ROW_BYTES_MAX {
                self.skipping = true;
            }
            if self.skipping {
                self.buffer.clear();
                self.searched = 0;
            }
            if self.ended {
                return Ok(Found::End);
            }
            if !wait {
                return Ok(Found::NotYet);
            }
            if self.buffer.is_empty() && !self.skipping {
                // Between two lines it may be silent for as long as one may take.
                self.watch = Stopwatch::start();
            }
            let left = self.limit.saturating_sub(self.watch.elapsed());
            match next_part(&mut self.stream, self.limit, left).await? {
                Some(part) => {
                    let length = self.buffer.len() + part.len();
                    self.permit
                        .takes(self.batched + length.next_power_of_two())?;
                    self.buffer.extend_from_slice(&part);
                }
                None => self.ended = true,
            }
        }
    }
}

fn too_long() -> Problem {
    Problem::new(
        axum::http::StatusCode::PAYLOAD_TOO_LARGE,
        "payload_too_large",
        format!("the line is over {ROW_BYTES_MAX} bytes"),
    )
}
