//! A job as sent.

use bytes::Bytes;
use punctual::job::{LogLine, Memo, PastAttempt, content_headers};
use punctual::time::Timestamp;
use punctual::{Due, JobId, JobRecord, JobState, NewJob};

use super::mp::{MapWriter, Mp, instant};
use super::numbers::{DUE_AFTER, DUE_AT, DUE_NOW, SPEC_EXAMINED, SPEC_OPTS};
use super::{Writer, micros, opts};

/// `id | due kind | due | spec`
pub(crate) fn write_job(out: &mut Writer, index: usize, job: &NewJob) {
    let (kind, due) = due_of(job.due);
    out.id(job.id).u8(kind).u64(due);
    write_spec(out, index, job);
}

/// Which kind of due it is, and the number of microseconds that says it.
pub(super) fn due_of(due: Due) -> (u8, u64) {
    match due {
        Due::Now => (DUE_NOW, 0),
        Due::After(span) => (DUE_AFTER, micros(span)),
        Due::At(at) => (DUE_AT, at.as_micros()),
    }
}

/// Writes the spec of a run from its priority on: the functions read each.
pub(super) fn write_run(out: &mut Writer, schedule: &str, job: &NewJob) {
    let mut options = MapWriter::default();
    opts::put_own(&mut options, job);
    let flags = opts::put_first(&mut options, job);
    second_group(&mut options, job);
    options.put("sc", schedule);
    out.u8(job.priority).u8(flags | SPEC_OPTS | SPEC_EXAMINED);
    out.name(&job.queue);
    out.name(if job.kind == job.queue { "" } else { &job.kind });
    out.long(&options.packed());
    out.bytes(&job.payload);
}

/// Whether two jobs differ in nothing but what a bundle has of each: id, hash and payload.
pub(super) fn are_alike(one: &NewJob, other: &NewJob) -> bool {
    one.queue == other.queue
        && one.kind == other.kind
        && one.due == other.due
        && one.priority == other.priority
        && one.content_type == other.content_type
        && one.headers == other.headers
        && one.max_attempts == other.max_attempts
        && one.retry == other.retry
        && one.timeout == other.timeout
        && one.is_plain()
        && other.is_plain()
}

pub(super) fn write_spec(out: &mut Writer, index: usize, job: &NewJob) {
    out.u64(content_hash(job)).u16(index);
    write_front(out, job);
    out.bytes(&job.payload);
}

/// What stands of a job between its index and its payload.
pub(super) fn write_front(out: &mut Writer, job: &NewJob) {
    let mut options = MapWriter::default();
    opts::put_own(&mut options, job);
    let mut flags = opts::put_first(&mut options, job);
    if !job.is_plain() {
        second_group(&mut options, job);
        flags |= SPEC_EXAMINED;
    }
    if !options.is_empty() {
        flags |= SPEC_OPTS;
    }
    out.u8(job.priority).u8(flags);
    out.name(&job.queue);
    out.name(if job.kind == job.queue { "" } else { &job.kind });
    if !options.is_empty() {
        out.long(&options.packed());
    }
}

/// What the functions look into besides.
fn second_group(options: &mut MapWriter, job: &NewJob) {
    opts::put_second(options, job);
    options.put_some("hi", job.history.as_deref().map(history));
    let run = job.history.as_ref().and_then(|past| past.schedule.as_ref());
    if let Some(run) = run {
        options.put("sc", &run.name);
        // The id has the instant, unless an import says another one.
        if run_instant(job.id) != run.at {
            options.put("oc", instant(run.at));
        }
    }
}

/// The instant in the id of a run.
pub(super) fn run_instant(id: JobId) -> Timestamp {
    let low = id.as_bytes().iter().skip(8);
    let low = low.fold(0, |low: u64, byte| low << 8 | u64::from(*byte));
    Timestamp::from_micros(low & ((1 << 54) - 1))
}

/// What an import knows of a job's past.
fn history(past: &JobRecord) -> Mp {
    let mut map = Vec::new();
    let mut put = |key: &str, value: Mp| map.push((Mp::from(key), value));
    put("st", (past.state as u8).into());
    put("du", instant(past.due));
    put("en", instant(past.enqueued_at));
    for (key, count) in [
        ("a", past.attempt),
        ("f", past.failures),
        ("c", past.crashes),
    ] {
        if count != 0 {
            put(key, count.into());
        }
    }
    for (key, at) in [("s", past.started_at), ("fi", past.finished_at)] {
        if let Some(at) = at {
            put(key, at.as_micros().into());
        }
    }
    if let Some(error) = &past.last_error {
        put("er", error.into());
    }
    let note = |bytes: &Bytes| Mp::from(bytes.as_ref());
    for (key, bytes) in [("re", &past.result), ("po", &past.progress)] {
        if let Some(bytes) = bytes {
            put(key, note(bytes));
        }
    }
    if past.cancel_requested {
        put("cr", Mp::Int(1));
    }
    if let Some(reason) = past.cancelled {
        put("cd", (reason as u8).into());
    }
    if let Some(reason) = past.dead {
        put("dr", (reason as u8).into());
    }
    if let Some(stopped) = past.stopped {
        put("sp", (stopped as u8).into());
    }
    if !past.log.is_empty() {
        let line = |line: &LogLine| {
            let at = line.at.as_micros();
            Mp::List(vec![at.into(), line.attempt.into(), (&line.text).into()])
        };
        put("lg", Mp::List(past.log.iter().map(line).collect()));
    }
    if !past.memos.is_empty() {
        let memo = |memo: &Memo| {
            let at = memo.at.as_micros();
            let source = Mp::from(memo.source as u8);
            Mp::List(vec![
                source,
                (&memo.name).into(),
                memo.value.as_ref().into(),
                at.into(),
            ])
        };
        put("me", Mp::List(past.memos.iter().map(memo).collect()));
    }
    if !past.attempts.is_empty() {
        put(
            "at",
            Mp::List(past.attempts.iter().map(past_attempt).collect()),
        );
    }
    if past.state == JobState::Held {
        let as_it_was = past.wait_for.iter().map(Mp::from);
        put("w", Mp::List(as_it_was.collect()));
    }
    Mp::Map(map)
}

fn past_attempt(past: &PastAttempt) -> Mp {
    let worker = past.worker.map(u128::to_be_bytes);
    let mut one = vec![
        past.attempt.into(),
        past.started_at.as_micros().into(),
        past.ended_at.as_micros().into(),
        (past.outcome as u8).into(),
        Mp::from(worker.as_ref().map_or(&[][..], <[u8; 16]>::as_slice)),
    ];
    one.extend(past.error.as_ref().map(Mp::from));
    Mp::List(one)
}

/// What distinguishes two jobs of one id: queue, kind, payload, content type and headers but trace
/// context, in 64 bits.
///
/// FNV-1a over words of eight bytes, little-endian, each multiplication followed by a rotation by
/// 29; each field is its length and then its bytes, filled up with zeros. The vectors are in
/// `docs/vectors/content_hash.tsv`.
pub(crate) fn content_hash(job: &NewJob) -> u64 {
    let headers = content_headers(&job.headers).flat_map(|(name, value)| [name, value]);
    let texts = [&job.queue, &job.kind];
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for text in texts {
        hash = field(hash, text.as_bytes());
    }
    hash = field(hash, &job.payload);
    for text in [&job.content_type].into_iter().chain(headers) {
        hash = field(hash, text.as_bytes());
    }
    hash
}

fn field(hash: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, word: u64| {
        let product = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
        product.rotate_left(29)
    };
    let mut words = bytes.chunks_exact(8);
    let mut hash = step(hash, bytes.len() as u64);
    for word in words.by_ref() {
        hash = step(
            hash,
            u64::from_le_bytes(word.try_into().unwrap_or_default()),
        );
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = step(hash, u64::from_le_bytes(word));
    }
    hash
}

#[cfg(test)]
mod tests;
