//! The map of a control.

use std::time::Duration;

use bytes::Bytes;
use punctual::engine::{
    BlockedShare, ClosedShare, Control, Controlled, Counts, Cursor, LimitSettings, NamedLimit,
    OnFull, QueueSettings, Rate, RecordValue, ShareSettings, VersionedRecord, WhenFull,
};
use punctual::schedule::SCHEDULE_PREFIX;
use punctual::{Limits, Result};

use super::mp::{MapWriter, Mp, read_instant};
use super::numbers::{
    CONTROL_BLOCK_LIMIT, CONTROL_BLOCK_SHARE, CONTROL_BLOCKED_SHARES, CONTROL_BOUNDS,
    CONTROL_CLOCK, CONTROL_DELETE, CONTROL_LIMIT, CONTROL_LIMITS, CONTROL_NAMES, CONTROL_PAUSE,
    CONTROL_PURGE, CONTROL_READ, CONTROL_RESUME, CONTROL_WRITE, RATE_SMOOTH, RATE_WINDOW,
    VALUE_LIMIT, VALUE_OPAQUE, VALUE_SCHEDULE, VALUE_SETTINGS,
};
use super::record::{number_32, texts};
use super::{damaged, inspect, micros, schedule};

pub(crate) fn request(control: &Control) -> MapWriter {
    let mut map = MapWriter::default();
    match control {
        Control::Pause { queue } => map.put("c", CONTROL_PAUSE).put("q", queue),
        Control::Resume { queue } => map.put("c", CONTROL_RESUME).put("q", queue),
        Control::Purge {
            queue,
            cursor,
            limit,
        } => {
            let cursor = cursor.as_ref().map(|cursor| cursor.0.as_ref());
            map.put("c", CONTROL_PURGE)
                .put("q", queue)
                .put("li", *limit);
            map.put_some("cu", cursor)
        }
        Control::Read { name } => map.put("c", CONTROL_READ).put("na", name),
        Control::Names {
            prefix,
            cursor,
            limit,
        } => {
            let cursor = cursor.as_ref().map(|cursor| cursor.0.as_ref());
            map.put("c", CONTROL_NAMES)
                .put("na", prefix)
                .put("li", *limit);
            map.put_some("cu", cursor)
        }
        Control::BlockedShares {
            queue,
            cursor,
            limit,
        } => {
            let cursor = cursor.as_ref().map(|cursor| cursor.0.as_ref());
            map.put("c", CONTROL_BLOCKED_SHARES)
                .put("q", queue)
                .put("li", *limit);
            map.put_some("cu", cursor)
        }
        Control::Write {
            name,
            expected,
            value,
        } => {
            map.put("c", CONTROL_WRITE)
                .put("na", name)
                .put("ex", *expected);
            map.put_some("v", value.as_ref().map(|value| packed(name, value)))
        }
        Control::BlockShare { queue, share, span } => {
            map.put("c", CONTROL_BLOCK_SHARE)
                .put("q", queue)
                .put("sk", share);
            map.put("sp", micros(*span))
        }
        Control::PauseShare { queue, share } => map
            .put("c", CONTROL_BLOCK_SHARE)
            .put("q", queue)
            .put("sk", share),
        Control::BlockLimit { name, span } => map
            .put("c", CONTROL_BLOCK_LIMIT)
            .put("na", name)
            .put("sp", micros(*span)),
        Control::Limit { name } => map.put("c", CONTROL_LIMIT).put("na", name),
        Control::Limits { after, limit } => map
            .put("c", CONTROL_LIMITS)
            .put("af", after)
            .put("li", *limit),
        // The contract and this crate are of one version.
        _ => &mut map,
    };
    map
}

/// The bounds that the functions obey.
pub(crate) fn limits(limits: &Limits) -> MapWriter {
    let pair = |(name, bound): (&str, u64)| (Mp::from(name), Mp::from(bound));
    let mut map = MapWriter::default();
    map.put("c", CONTROL_BOUNDS);
    map.put("v", Mp::Map(bounds(limits).map(pair).into()));
    map
}

/// These bounds by their names in the functions; spans in microseconds.
pub(crate) fn bounds(limits: &Limits) -> [(&'static str, u64); 11] {
    let us = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    [
        ("sweep", limits.sweep as u64),
        ("tombstone_bytes", limits.tombstone_bytes as u64),
        ("retained", limits.retained as u64),
        ("retained_bytes", limits.retained_bytes as u64),
        (
            "namespace_retained_bytes",
            limits.namespace_retained_bytes as u64,
        ),
        ("feed", limits.feed as u64),
        ("schedules", limits.schedules as u64),
        ("early_clears", limits.early_clears as u64),
        ("settled_window", us(limits.settled_window)),
        ("cancelled_retention", us(limits.cancelled_retention)),
        ("dead_retention", us(limits.dead_retention)),
    ]
}

/// A step of the delete of a queue.
pub(crate) enum DeleteStep {
    /// Whether it has jobs.
    Check,
    /// Frees unique keys, from a cursor on.
    FreeKeys(Option<Vec<u8>>),
    /// Deletes it.
    Delete,
}

/// What a step of the delete of a queue answered.
pub(crate) struct Deleted {
    /// The jobs that the queue still has: then the step did nothing.
    pub(crate) jobs: Counts,
    pub(crate) cursor: Option<Vec<u8>>,
    pub(crate) deleted: bool,
    /// A schedule that enqueues into the queue.
    pub(crate) schedule: Option<String>,
}

pub(crate) fn delete(queue: &str, step: &DeleteStep) -> MapWriter {
    let mut map = MapWriter::default();
    map.put("c", CONTROL_DELETE).put("q", queue);
    match step {
        DeleteStep::Check => map.put("st", 0_u8),
        DeleteStep::FreeKeys(cursor) => {
            map.put("st", 1_u8);
            map.put_some("cu", cursor.as_deref())
        }
        DeleteStep::Delete => map.put("st", 2_u8),
    };
    map
}

pub(crate) fn deleted(reply: &Mp) -> Result<Deleted> {
    let mut jobs = Counts::default();
    for (count, value) in jobs.0.iter_mut().zip(reply.get("c").list()?) {
        *count = value.number()?;
    }
    Ok(Deleted {
        jobs,
        cursor: reply.get("cu").some(|at| at.bytes().map(<[u8]>::to_vec))?,
        deleted: reply.get("d").is_set(),
        schedule: reply.get("sc").some(Mp::text)?,
    })
}

/// Sets engine time back, or says only what would be done.
pub(crate) fn set_clock_back(dry_run: bool, force: bool) -> MapWriter {
    let mut map = MapWriter::default();
    map.put("c", CONTROL_CLOCK);
    map.put("dy", u8::from(dry_run)).put("fo", u8::from(force));
    map
}

pub(super) fn packed(name: &str, value: &RecordValue) -> Mp {
    let mut bytes = Vec::new();
    match value {
        RecordValue::Queue(settings) => {
            let mut map = MapWriter::default();
            map.put_some("mp", settings.max_pending);
            if settings.on_full == OnFull::DeadLetterOldest {
                map.put("of", 1_u8);
            }
            map.put_some("lc", settings.concurrency);
            if let Some(rate) = &settings.rate {
                map.put("lr", packed_rate(rate));
            }
            if let Some(shares) = &settings.shares {
                pack_shares(&mut map, shares);
            }
            bytes.push(VALUE_SETTINGS);
            bytes.extend(map.packed());
        }
        RecordValue::Limit(settings) => {
            let mut map = MapWriter::default();
            map.put_some("lc", settings.concurrency);
            map.put_some("lr", settings.rate.as_ref().map(packed_rate));
            if settings.when_full != WhenFull::Wait {
                map.put("wf", settings.when_full as u8);
            }
            bytes.push(VALUE_LIMIT);
            bytes.extend(map.packed());
        }
        RecordValue::Opaque(opaque) => {
            bytes.push(VALUE_OPAQUE);
            bytes.extend_from_slice(opaque);
        }
        RecordValue::Schedule(written) => {
            let name = name.strip_prefix(SCHEDULE_PREFIX).unwrap_or(name);
            bytes = schedule::packed(name, written);
        }
        _ => {}
    }
    Mp::Bytes(bytes)
}

fn pack_shares(map: &mut MapWriter, shares: &ShareSettings) {
    map.put_some("sc", shares.concurrency);
    map.put_some("sr", shares.rate.as_ref().map(packed_rate));
    map.put_some("sm", shares.max_pending);
    if !shares.weights.is_empty() {
        let weights = shares.weights.iter();
        let pair = |(share, weight): &(String, u32)| [Mp::from(share), Mp::from(*weight)];
        map.put("sw", Mp::List(weights.flat_map(pair).collect()));
    }
}

fn unpacked_shares(map: &Mp) -> Result<ShareSettings> {
    let mut shares = ShareSettings::new();
    shares.concurrency = map.get("sc").some(Mp::number)?;
    shares.rate = map.get("sr").some(rate)?;
    shares.max_pending = map.get("sm").some(Mp::number)?;
    for pair in map.get("sw").list()?.chunks_exact(2) {
        shares = shares.weight(pair[0].text()?, number_32(&pair[1])?);
    }
    Ok(shares)
}

/// Kind, starts, microseconds, and the burst of a smooth one.
fn packed_rate(rate: &Rate) -> Mp {
    let per = u64::try_from(rate.per().as_micros()).unwrap_or(u64::MAX);
    let (kind, burst) = match rate {
        Rate::Smooth { burst, .. } => (RATE_SMOOTH, *burst),
        _ => (RATE_WINDOW, 0),
    };
    let numbers = [kind, rate.starts(), per, burst];
    Mp::List(numbers.into_iter().map(Mp::from).collect())
}

pub(super) fn rate(value: &Mp) -> Result<Rate> {
    let numbers: Vec<u64> = (value.list()?.iter().map(Mp::number)).collect::<Result<_>>()?;
    match numbers[..] {
        [RATE_SMOOTH, starts, per, burst] => {
            Ok(Rate::smooth(starts, Duration::from_micros(per)).burst(burst))
        }
        [RATE_WINDOW, starts, per, _] => Ok(Rate::window(starts, Duration::from_micros(per))),
        _ => Err(damaged()),
    }
}

pub(super) fn unpacked(bytes: &[u8]) -> Result<RecordValue> {
    match bytes.split_first() {
        Some((&VALUE_SETTINGS, rest)) => {
            let map = Mp::read(rest)?;
            let mut settings = QueueSettings::new();
            settings.max_pending = map.get("mp").some(Mp::number)?;
            if map.get("of").is_set() {
                settings.on_full = OnFull::DeadLetterOldest;
            }
            settings.concurrency = map.get("lc").some(Mp::number)?;
            settings.rate = map.get("lr").some(rate)?;
            settings = settings.shares(unpacked_shares(&map)?);
            Ok(RecordValue::Queue(settings))
        }
        Some((&VALUE_SCHEDULE, rest)) => {
            Ok(RecordValue::Schedule(Box::new(schedule::unpacked(rest)?)))
        }
        Some((&VALUE_LIMIT, rest)) => {
            let map = Mp::read(rest)?;
            let mut settings = LimitSettings::new();
            settings.concurrency = map.get("lc").some(Mp::number)?;
            settings.rate = map.get("lr").some(rate)?;
            settings.when_full = map.get("wf").some(when_full)?.unwrap_or_default();
            Ok(RecordValue::Limit(settings))
        }
        Some((&VALUE_OPAQUE, rest)) => Ok(RecordValue::Opaque(Bytes::copy_from_slice(rest))),
        _ => Err(damaged()),
    }
}

pub(crate) fn reply(control: &Control, reply: &Mp) -> Result<Controlled> {
    Ok(match control {
        Control::Pause { .. }
        | Control::Resume { .. }
        | Control::BlockShare { .. }
        | Control::PauseShare { .. }
        | Control::BlockLimit { .. } => Controlled::Done(reply.get("d").is_set()),
        Control::Limit { .. } => Controlled::Limit(Box::new(limit(reply.get("l"))?)),
        Control::Limits { .. } => {
            let limits = reply.get("l").list()?.iter().map(limit);
            Controlled::Limits(limits.collect::<Result<_>>()?)
        }
        Control::Purge { .. } => Controlled::Purged {
            examined: reply.get("ex").number()? as usize,
            matched: reply.get("ma").number()? as usize,
            cursor: cursor(reply)?,
        },
        Control::Read { .. } => {
            let version = reply.get("ve").some(Mp::number)?;
            let value = reply.get("v").some(|value| unpacked(value.bytes()?))?;
            let record = version.zip(value);
            Controlled::Record(record.map(|(version, value)| VersionedRecord::new(version, value)))
        }
        Control::Names { .. } => Controlled::Names {
            names: texts(reply.get("na"))?,
            cursor: cursor(reply)?,
        },
        Control::BlockedShares { .. } => {
            let shares = reply.get("l").list()?.iter().map(blocked_share);
            Controlled::BlockedShares {
                shares: shares.collect::<Result<_>>()?,
                cursor: cursor(reply)?,
            }
        }
        _ => Controlled::Written(reply.get("ve").number()?),
    })
}

/// `[share, opens at]`; a paused one has no instant.
fn blocked_share(value: &Mp) -> Result<BlockedShare> {
    match value.list()? {
        [share] => Ok(BlockedShare::new(share.text()?, None)),
        [share, until] => Ok(BlockedShare::new(share.text()?, Some(read_instant(until)?))),
        _ => Err(damaged()),
    }
}

/// What becomes of a new job while a limit is full, by its number.
pub(crate) fn when_full(value: &Mp) -> Result<WhenFull> {
    let number = usize::try_from(value.number()?).unwrap_or(usize::MAX);
    WhenFull::ALL.get(number).copied().ok_or_else(damaged)
}

/// `[name, [concurrency, rate, what becomes of new jobs while it is full] if it has settings, whose
/// they are, active, waiting, what is closed, when time opens it]`
fn limit(value: &Mp) -> Result<NamedLimit> {
    let [name, settings, set_by, active, waiting, closed, opens_at] = value.list()? else {
        return Err(damaged());
    };
    let mut limit = NamedLimit::new(name.text()?);
    if let [most, by, decides] = settings.list()? {
        let mut settings = LimitSettings::new();
        settings.concurrency = Some(most.number()?).filter(|most| *most > 0);
        if !by.list()?.is_empty() {
            settings.rate = Some(rate(by)?);
        }
        settings.when_full = when_full(decides)?;
        limit.settings = Some(settings);
        limit.set_by = Some(set_by.text()?);
    }
    limit.active = active.number()?;
    limit.waiting = waiting.number()?;
    limit.closed = match closed.number()? {
        1 => Some(ClosedShare::Concurrency),
        2 => Some(ClosedShare::Rate),
        3 => Some(ClosedShare::Blocked),
        _ => None,
    };
    if !opens_at.bytes()?.is_empty() {
        limit.opens_at = Some(read_instant(opens_at)?);
    }
    Ok(limit)
}

fn cursor(reply: &Mp) -> Result<Option<Cursor>> {
    inspect::cursor(reply)
}
