//! A hash that differs for another job under the names of a step.

use crate::RetryPolicy;
use crate::job::{Due, Hold, NewJob, OnRetry, UniquePolicy, content_headers};

/// A hash of all that a plan says of a job: content, options, names and jobs that it waits for, in
/// any order. The instant of expiry does not count, as producers draw it anew.
pub fn sent_hash(job: &NewJob) -> u64 {
    // An import knows what was sent first.
    if let Some(past) = job.flow.as_ref().and_then(|place| place.past) {
        return past.sent;
    }
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for text in [&job.queue, &job.kind, &job.content_type] {
        hash.part(text.as_bytes());
    }
    hash.part(&job.payload);
    for (name, value) in content_headers(&job.headers) {
        hash.part(name.as_bytes());
        hash.part(value.as_bytes());
    }
    options(&mut hash, job);
    let mut names: Vec<&[u8]> = job.wait_for.iter().map(String::as_bytes).collect();
    names.sort_unstable();
    names.dedup();
    names.iter().for_each(|name| hash.part(name));
    let mut after: Vec<_> = (job.after.iter().map(|one| (one.job, one.on as u8))).collect();
    after.sort_unstable();
    for (id, on) in after {
        hash.part(id.as_bytes());
        hash.word(on.into());
    }
    hash.0
}

fn options(hash: &mut Fnv, job: &NewJob) {
    hash.word(job.priority.into());
    let (kind, micros) = match job.due {
        Due::Now => (0, 0),
        Due::After(span) => (1, span.as_micros() as u64),
        Due::At(at) => (2, at.as_micros()),
    };
    hash.word(kind);
    hash.word(micros);
    hash.word(job.max_attempts.into());
    hash.word(job.max_crashes.map_or(0, |most| u64::from(most) + 1));
    hash.word(job.timeout.map_or(0, |span| span.as_micros() as u64));
    hash.word(job.retention.as_micros() as u64);
    let (kind, spans, factor, jitter) = match &job.retry {
        RetryPolicy::Exponential {
            base,
            factor,
            cap,
            jitter,
        } => (1, &[*base, *cap][..], *factor, *jitter),
        RetryPolicy::Fixed { span, jitter } => (2, &[*span][..], 0.0, *jitter),
        RetryPolicy::Linear { base, cap, jitter } => (3, &[*base, *cap][..], 0.0, *jitter),
        RetryPolicy::List(spans) => (4, &spans[..], 0.0, false),
    };
    hash.word(kind);
    spans
        .iter()
        .for_each(|span| hash.word(span.as_millis() as u64));
    hash.word(factor.to_bits());
    hash.word(jitter.into());
    if let Some(unique) = &job.unique {
        hash.part(unique.key.as_bytes());
        let (policy, max_wait) = match unique.policy {
            UniquePolicy::Keep => (0, None),
            UniquePolicy::Replace => (1, None),
            UniquePolicy::After => (2, None),
            UniquePolicy::Refresh { max_wait } => (3, Some(max_wait)),
        };
        hash.word(policy);
        if let Some(span) = max_wait {
            hash.word(span.as_micros() as u64);
        }
        hash.word(match unique.hold {
            Hold::UntilSettled => 0,
            Hold::UntilStarted => 1,
            Hold::For(span) => 2 + span.as_micros() as u64,
        });
    }
    if let Some(share) = &job.share {
        hash.part(share.as_bytes());
    }
    if let Some(group) = &job.group {
        hash.part(group.key.as_bytes());
        hash.word(u64::from(group.on_retry == OnRetry::Pass));
    }
}

/// FNV-1a over bytes; each part comes behind its length.
struct Fnv(u64);

impl Fnv {
    fn part(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        bytes.iter().for_each(|byte| self.byte(*byte));
    }

    fn word(&mut self, word: u64) {
        word.to_le_bytes().iter().for_each(|byte| self.byte(*byte));
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}
