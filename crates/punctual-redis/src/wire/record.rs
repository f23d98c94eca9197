//! A job as stored, and the views that the functions answer.

use bytes::Bytes;
use punctual::engine::{Got, WorkerId};
use punctual::flow::StepOf;
use punctual::job::{
    CancelReason, DeadReason, LogLine, Memo, MemoSource, PastAttempt, PastOutcome, Stop,
};
use punctual::schedule::Occurrence;
use punctual::time::Timestamp;
use punctual::{JobId, JobRecord, JobState, NewJob, Result};

use super::mp::{Mp, read_instant};
use super::numbers::{SPEC_OPTS, TAG_DEAD, TAG_PLAIN, TAG_TOMBSTONE};
use super::spec::run_instant;
use super::{Reader, damaged, opts};

/// The holder of a job, and until when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder {
    pub(crate) worker: WorkerId,
    pub(crate) started: Timestamp,
    pub(crate) deadline: Timestamp,
}

/// What a view shows: nothing for an empty one.
pub(crate) fn read_view(bytes: &[u8]) -> Result<Option<Got>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader(bytes);
    let id = reader.id()?;
    let state = reader.u8()?;
    if state == TAG_TOMBSTONE {
        return read_tombstone(id, reader).map(Some);
    }
    let state = state_of(state.into())?;
    let holder = match state {
        JobState::Active => Some(Holder {
            worker: WorkerId(u128::from(reader.u64()?) << 64 | u128::from(reader.u64()?)),
            started: reader.instant()?,
            deadline: reader.instant()?,
        }),
        _ => None,
    };
    let job = read_record(id, state, holder, reader.0)?;
    Ok(Some(Got::Job(Box::new(job), None)))
}

/// The job of a view that must show one.
pub(crate) fn read_job_view(bytes: &[u8]) -> Result<JobRecord> {
    match read_view(bytes)? {
        Some(Got::Job(job, _)) => Ok(*job),
        _ => Err(damaged()),
    }
}

/// `7 | due | hash 8 | state + 8 * late + 16 * remembered | finished | attempt u32 | token 12 |
/// [until when] | result...`
fn read_tombstone(id: JobId, mut reader: Reader<'_>) -> Result<Got> {
    if reader.u8()? != TAG_TOMBSTONE {
        return Err(damaged());
    }
    reader.take(16)?;
    let bits = reader.u8()?;
    let state = state_of((bits & 7).into())?;
    let finished_at = reader.instant()?;
    reader.take(16)?;
    if bits & 16 != 0 {
        reader.instant()?;
    }
    let result = Some(Bytes::copy_from_slice(reader.0)).filter(|result| !result.is_empty());
    Ok(Got::Tombstone {
        id,
        state,
        result,
        finished_at,
    })
}

/// A record as it stands in a state; an active one under its holder.
pub(crate) fn read_record(
    id: JobId,
    state: JobState,
    holder: Option<Holder>,
    bytes: &[u8],
) -> Result<JobRecord> {
    let mut reader = Reader(bytes);
    let tag = reader.u8()?;
    let enqueued = reader.instant()?;
    // Which write of its microsecond it was, and after the due its hash and number in its call.
    reader.take(2)?;
    let due = reader.instant()?;
    reader.take(8 + 2)?;
    let priority = reader.u8()?;
    let flags = reader.u8()?;
    let ext = match tag {
        TAG_PLAIN => Mp::Nil,
        ..=TAG_DEAD => Mp::read(reader.long()?)?,
        _ => return Err(damaged()),
    };
    let queue = reader.name()?;
    let kind = reader.name()?;
    let options = match flags & SPEC_OPTS {
        0 => Mp::Nil,
        _ => Mp::read(reader.long()?)?,
    };
    let count = |key| ext.get(key).some(number_32);
    let active = holder.is_some();
    let mut job = NewJob::with_id(id, queue, Bytes::copy_from_slice(reader.0));
    job.priority = priority;
    job.wait_for = texts(ext.get("w"))?;
    job.expires_at = match ext.get("ex") {
        Mp::Nil => options.get("ex").some(read_instant)?,
        Mp::Bytes(none) if none.is_empty() => None,
        at => Some(read_instant(at)?),
    };
    if !kind.is_empty() {
        job.kind = kind;
    }
    opts::read(&mut job, flags, &options)?;
    let enqueued_at = ext.get("en").some(read_instant)?.unwrap_or(enqueued);
    let mut record = JobRecord::new(job, due, enqueued_at);
    record.state = state;
    record.attempt = count("a")?.unwrap_or(0) + u32::from(active);
    record.failures = count("f")?.unwrap_or(0);
    record.crashes = count("c")?.unwrap_or(0);
    record.started_at = match holder {
        Some(holder) => Some(holder.started),
        None => ext.get("s").some(read_instant)?,
    };
    record.finished_at = ext.get("fi").some(read_instant)?;
    record.last_error = ext.get("er").some(Mp::text)?;
    record.result = ext.get("re").some(note)?;
    record.progress = ext.get("po").some(note)?;
    record.cancel_requested = ext.get("cr").is_set();
    record.cancelled = ext.get("cd").some(|it| one_of(it, &CancelReason::ALL))?;
    record.dead = ext.get("dr").some(|it| one_of(it, &DeadReason::ALL))?;
    record.stopped = ext.get("sp").some(|it| one_of(it, &Stop::ALL))?;
    record.worker = holder.map(|holder| holder.worker.0);
    record.lease_until = holder.map(|holder| holder.deadline);
    record.attempts = past_attempts(ext.get("at"))?;
    record.log = log_lines(ext.get("lg"))?;
    record.memos = memos(ext.get("me"))?;
    if let Some(name) = options.get("sc").some(Mp::text)? {
        let at = options.get("oc").some(read_instant)?;
        let at = at.unwrap_or_else(|| run_instant(id));
        record.schedule = Some(Box::new(Occurrence::new(name, at)));
    }
    if let [flow, step] = options.get("fl").list()? {
        let (flow, step) = (flow.text()?, step.text()?);
        record.flow = Some(Box::new(StepOf::new(flow, step)));
    }
    Ok(record)
}

/// `[attempt, started, ended, outcome, worker (empty if it is not known), error?]` of each
fn past_attempts(value: &Mp) -> Result<Vec<PastAttempt>> {
    let attempts = value.list()?.iter().map(|one| {
        let [attempt, started_at, ended_at, outcome, worker, error @ ..] = one.list()? else {
            return Err(damaged());
        };
        let outcome = outcome.number()?;
        let worker = worker.bytes()?;
        let outcome = (PastOutcome::ALL.into_iter())
            .find(|one| *one as u64 == outcome)
            .ok_or_else(damaged)?;
        let (started_at, ended_at) = (read_instant(started_at)?, read_instant(ended_at)?);
        let past = PastAttempt::new(number_32(attempt)?, started_at, ended_at, outcome)
            .worker(<[u8; 16]>::try_from(worker).ok().map(u128::from_be_bytes))
            .error(error.first().map(Mp::text).transpose()?);
        Ok(past)
    });
    attempts.collect()
}

/// `[source, name, value, at]` of each
fn memos(value: &Mp) -> Result<Vec<Memo>> {
    let memos = value.list()?.iter().map(|memo| match memo.list()? {
        [source, name, value, at] => Ok(Memo::new(
            name.text()?,
            one_of(source, &MemoSource::ALL)?,
            note(value)?,
            read_instant(at)?,
        )),
        _ => Err(damaged()),
    });
    memos.collect()
}

/// `[at, attempt, text]` of each
fn log_lines(value: &Mp) -> Result<Vec<LogLine>> {
    let lines = value.list()?.iter().map(|line| match line.list()? {
        [at, attempt, text] => Ok(LogLine::new(
            read_instant(at)?,
            number_32(attempt)?,
            text.text()?,
        )),
        _ => Err(damaged()),
    });
    lines.collect()
}

pub(crate) fn state_of(number: usize) -> Result<JobState> {
    JobState::ALL.get(number).copied().ok_or_else(damaged)
}

fn one_of<T: Copy>(number: &Mp, all: &[T]) -> Result<T> {
    let index = number.number()? as usize;
    all.get(index).copied().ok_or_else(damaged)
}

pub(crate) fn number_32(value: &Mp) -> Result<u32> {
    u32::try_from(value.number()?).map_err(|_| damaged())
}

fn note(value: &Mp) -> Result<Bytes> {
    Ok(Bytes::copy_from_slice(value.bytes()?))
}

pub(crate) fn texts(value: &Mp) -> Result<Vec<String>> {
    value.list()?.iter().map(Mp::text).collect()
}
