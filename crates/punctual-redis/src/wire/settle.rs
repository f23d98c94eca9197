//! The packed form of a settle.

use std::collections::BTreeMap;

use punctual::engine::{
    EnqueueVerdict, LeaseReport, SAMPLE_US_MAX, SettleVerdict, Settled, Settlement,
};
use punctual::{Effect, JobState, Outcome, Result};

use super::enqueue::verdict_of;
use super::extend::packed_lines;
use super::numbers::{
    EFFECT_CANCEL, EFFECT_CLEAR, EFFECT_CLEAR_ANYWHERE, EFFECT_JOB, EFFECT_LINKED, EFFECT_POST,
    EFFECT_SIGNAL, FORM_COMPLETED, FORM_CORES, FORM_CORES_KINDS, FORM_EACH, FORM_HOLDS, FORM_KINDS,
    HAS_EFFECTS, HAS_ERROR, HAS_GUARD, HAS_LOG, HAS_NAMES, HAS_RESULT, HAS_SPAN, HAS_STOPPED,
    VERDICT_CLEARED, VERDICT_POSTED,
};
use super::outbox::EntryId;
use super::record::state_of;
use super::spec::write_job;
use super::{CALL_US, Instance, Reader, Writer, damaged, flow, micros};

/// Where an effect goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Whither {
    Here,
    /// That other one, as `NAMESPACE/SHARD`.
    Shard(String),
    /// The shard that knows the job.
    WhereItIs,
}

/// An effect that is on its way: its place in the call, and its entry in the outbox.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) lease: usize,
    pub(crate) settlement: usize,
    pub(crate) effect: usize,
    pub(crate) entry: EntryId,
}

/// What was remembered of the jobs of a report when they were claimed, where all of it is known.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) cores: Option<Vec<[u8; 16]>>,
    pub(crate) kinds: Option<Vec<(usize, String)>>,
    /// Whether some may expire, and their unique keys in order, empty where there is none.
    pub(crate) holds: Option<(bool, Vec<String>)>,
}

pub(crate) fn request(
    instance: Instance,
    leases: &[&LeaseReport],
    error_bytes: usize,
    whither: impl Fn(&Effect) -> Whither,
    known: impl Fn(&LeaseReport) -> Known,
) -> Vec<u8> {
    let mut out = Writer::default();
    let mut effects = 0;
    out.bytes(&instance).u16(leases.len());
    for lease in leases {
        out.token(lease.token);
        histogram(&mut out, &lease.lateness_us);
        histogram(&mut out, &lease.run_time_us);
        match plain_attempt(&lease.settlements) {
            Some(attempt) => {
                let Known {
                    cores,
                    kinds,
                    holds,
                } = known(lease);
                let kinds = kinds.filter(|kinds| kinds.len() <= usize::from(u8::MAX));
                let form = match (&cores, &kinds, &holds) {
                    (None, None, _) => FORM_COMPLETED,
                    (Some(_), None, _) => FORM_CORES,
                    (None, Some(_), _) => FORM_KINDS,
                    (Some(_), Some(_), None) => FORM_CORES_KINDS,
                    (Some(_), Some(_), Some(_)) => FORM_HOLDS,
                };
                out.u8(form);
                out.u32(attempt as usize).u16(lease.settlements.len());
                for settlement in &lease.settlements {
                    out.id(settlement.id);
                }
                for core in cores.into_iter().flatten() {
                    out.bytes(&core);
                }
                if let Some(kinds) = kinds {
                    out.u8(kinds.len() as u8);
                    for (count, kind) in kinds {
                        out.u16(count).name(&kind);
                    }
                }
                if let Some((expires, keys)) = holds.filter(|_| form == FORM_HOLDS) {
                    let with_keys = keys.iter().any(|key| !key.is_empty());
                    out.u8(u8::from(expires)).u8(u8::from(with_keys));
                    for key in keys.iter().filter(|_| with_keys) {
                        out.u16(key.len()).bytes(key.as_bytes());
                    }
                }
            }
            None => {
                out.u8(FORM_EACH).u16(lease.settlements.len());
                for settlement in &lease.settlements {
                    write_settlement(&mut out, settlement, error_bytes, &whither, &mut effects);
                }
            }
        }
    }
    out.0
}

/// About how long the call keeps the server, in microseconds.
pub(crate) fn cost_us(leases: &[&LeaseReport]) -> usize {
    let cost = |lease: &&LeaseReport| match plain_attempt(&lease.settlements) {
        Some(_) => CALL_US + lease.settlements.len(),
        None => {
            let effects = lease.settlements.iter().map(|one| one.effects.len());
            CALL_US + 20 * (lease.settlements.len() + effects.sum::<usize>())
        }
    };
    leases.iter().map(cost).sum()
}

/// The attempt of all, if all are completed with nothing else to say.
fn plain_attempt(settlements: &[Settlement]) -> Option<u32> {
    let attempt = settlements.first()?.attempt;
    let plain = |one: &Settlement| {
        one.attempt == attempt
            && one.outcome == Outcome::Completed
            && one.result.is_none()
            && one.error.is_none()
            && one.stopped.is_none()
            && one.effects.is_empty()
            && one.log.is_empty()
            && one.guard.is_none()
    };
    settlements.iter().all(plain).then_some(attempt)
}

fn write_settlement(
    out: &mut Writer,
    one: &Settlement,
    error_bytes: usize,
    whither: impl Fn(&Effect) -> Whither,
    effects: &mut usize,
) {
    let (outcome, span) = match &one.outcome {
        Outcome::Completed => (0, None),
        Outcome::Retry { after } => (1, *after),
        Outcome::Snooze { after } => (2, Some(*after)),
        Outcome::Hold { limit, .. } => (6, Some(*limit)),
        Outcome::Cancelled => (3, None),
        Outcome::Dead => (4, None),
        // The last that there is: the contract and this crate are of one version.
        _ => (5, None),
    };
    let names = match &one.outcome {
        Outcome::Hold { names, .. } => names.as_slice(),
        _ => &[],
    };
    let has = [
        (!names.is_empty(), HAS_NAMES),
        (span.is_some(), HAS_SPAN),
        (one.result.is_some(), HAS_RESULT),
        (one.error.is_some(), HAS_ERROR),
        (one.stopped.is_some(), HAS_STOPPED),
        (!one.effects.is_empty(), HAS_EFFECTS),
        (!one.log.is_empty(), HAS_LOG),
        (one.guard.is_some(), HAS_GUARD),
    ];
    let has = has.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum();
    out.id(one.id).u32(one.attempt as usize).u8(outcome).u8(has);
    if let Some(span) = span {
        out.u64(micros(span));
    }
    if let Some(result) = &one.result {
        out.long(result);
    }
    if let Some(error) = &one.error {
        out.long(bounded(error, error_bytes).as_bytes());
    }
    if let Some(stopped) = one.stopped {
        out.u8(stopped as u8);
    }
    if !one.effects.is_empty() {
        out.u16(one.effects.len());
        for effect in &one.effects {
            let (kind, body) = packed_effect(effect, &whither(effect), *effects);
            out.u8(kind).long(&body);
            *effects += 1;
        }
    }
    if !one.log.is_empty() {
        out.long(&packed_lines(&one.log));
    }
    if !names.is_empty() {
        out.long(&packed_lines(names));
    }
    if let Some(guard) = &one.guard {
        out.name(&guard.record).u64(guard.version);
    }
}

/// The kind of an effect and its bytes.
pub(super) fn packed_effect(effect: &Effect, whither: &Whither, index: usize) -> (u8, Vec<u8>) {
    let mut body = Writer::default();
    let kind = match effect {
        Effect::Enqueue(job) => {
            let kind = match whither {
                Whither::Shard(target) => {
                    body.name(target);
                    EFFECT_POST
                }
                _ if flow::is_linked(job) => {
                    let mut link = Writer::default();
                    flow::write_link(&mut link, job);
                    body.long(&link.0);
                    EFFECT_LINKED
                }
                _ => EFFECT_JOB,
            };
            write_job(&mut body, index, job);
            kind
        }
        Effect::Clear { job, name } => {
            body.id(*job).bytes(name.as_bytes());
            match whither {
                Whither::Here => EFFECT_CLEAR,
                _ => EFFECT_CLEAR_ANYWHERE,
            }
        }
        Effect::Cancel { queue, key } => {
            body.u8(u8::from(*whither != Whither::Here));
            body.name(queue).bytes(key.as_bytes());
            EFFECT_CANCEL
        }
        Effect::Signal { job, name, payload } => {
            body.u8(u8::from(*whither != Whither::Here));
            body.id(*job).long(name.as_bytes()).bytes(payload);
            EFFECT_SIGNAL
        }
        // The contract and this crate are of one version.
        _ => EFFECT_CANCEL,
    };
    (kind, body.0)
}

/// A text cut to the limit, at a character.
fn bounded(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Measurements, counted in buckets that are at most 1/64 wide.
fn histogram(out: &mut Writer, measured: &[u64]) {
    let mut buckets = BTreeMap::<u16, u32>::new();
    for value in measured {
        let value = (*value).min(SAMPLE_US_MAX);
        *buckets.entry(bucket(value)).or_default() += 1;
    }
    out.u16(buckets.len());
    for (bucket, times) in buckets {
        out.u16(bucket.into()).u32(times as usize);
    }
}

/// The bucket of a value: itself below 64, else by its highest bit and the six after it.
pub(super) fn bucket(value: u64) -> u16 {
    if value < 64 {
        return value as u16;
    }
    let highest = value.ilog2();
    let within = (value >> (highest - 6)) - 64;
    (64 * u64::from(highest - 5) + within) as u16
}

/// The verdicts, and which effects are on their way.
pub(crate) fn reply(bytes: &[u8], leases: &[&LeaseReport]) -> Result<(Settled, Vec<Posted>)> {
    let mut reader = Reader(bytes);
    let now = reader.instant()?;
    let mut verdicts = Vec::with_capacity(leases.len());
    let mut posted = Vec::new();
    for (nth, lease) in leases.iter().enumerate() {
        let count = lease.settlements.len();
        verdicts.push(match reader.u8()? {
            0 => vec![all_completed(); count],
            1 => {
                let verdicts = (0..count).map(|settlement| {
                    let post = |effect, entry| {
                        posted.push(Posted {
                            lease: nth,
                            settlement,
                            effect,
                            entry,
                        });
                    };
                    verdict(&mut reader, post)
                });
                verdicts.collect::<Result<_>>()?
            }
            _ => return Err(damaged()),
        });
    }
    reader.end()?;
    Ok((Settled::new(verdicts, now), posted))
}

fn all_completed() -> SettleVerdict {
    SettleVerdict::Settled {
        state: JobState::Completed,
        due: None,
        effects: Vec::new(),
    }
}

fn verdict(reader: &mut Reader<'_>, mut post: impl FnMut(usize, EntryId)) -> Result<SettleVerdict> {
    match reader.u8()? {
        0 => {
            let state = state_of(reader.u8()?.into())?;
            let due = reader.some_instant()?;
            let count = reader.u16()?;
            let effects = (0..count).map(|nth| effect_verdict(reader, |id| post(nth, id)));
            let effects = effects.collect::<Result<_>>()?;
            Ok(SettleVerdict::Settled {
                state,
                due,
                effects,
            })
        }
        1 => Ok(SettleVerdict::Repeated),
        2 => Ok(SettleVerdict::LeaseLost),
        3 => Ok(SettleVerdict::GuardConflict {
            version: reader.u64()?,
        }),
        _ => Err(damaged()),
    }
}

pub(super) fn effect_verdict(
    reader: &mut Reader<'_>,
    post: impl FnOnce(EntryId),
) -> Result<Option<EnqueueVerdict>> {
    let number = reader.u8()?;
    let other = reader.id()?;
    match number {
        VERDICT_CLEARED => Ok(None),
        VERDICT_POSTED => {
            post(*other.as_bytes());
            Ok(None)
        }
        number => verdict_of(number, other).map(Some),
    }
}
