//! The maps of stats, info and maintain.

use std::time::Duration;

use punctual::engine::{
    ClosedLimit, ClosedShare, Counts, DueBucket, LimitStats, Maintained, MinuteStats,
    NamespaceProblem, QueueStats, ShareStats, Stats, StatsRequest, WorkerId, WorkerSeen,
    resend_problem,
};
use punctual::time::{Timestamp, format_span, seconds};
use punctual::{Namespace, Result};

use super::claim::read_worker;
use super::control::rate;
use super::damaged;
use super::mp::{MapWriter, Mp, read_instant};
use super::record::{number_32, texts};

/// Queues of one call: about a millisecond of the server.
const PAGE: u32 = 100;

/// What a call asks for: the queues that are named, or a page of all of them after a name. A page
/// that is asked for may be smaller or larger than ours.
pub(crate) fn request(request: &StatsRequest, after: Option<&str>) -> MapWriter {
    let mut map = MapWriter::default();
    if !request.queues.is_empty() {
        map.put("q", request.queues.iter().map(Mp::from).collect::<Vec<_>>());
    } else {
        let asked = u32::try_from(request.limit).unwrap_or(PAGE);
        map.put("li", if asked == 0 { PAGE } else { asked });
    }
    if let Some(after) = after {
        map.put("af", after);
    }
    if request.history {
        map.put("h", 1_u8);
    }
    if request.due {
        map.put("du", 1_u8);
    }
    if request.ends {
        map.put("en", 1_u8);
    }
    if request.shares > 0 {
        map.put("sh", request.shares);
    }
    map
}

/// A page, and the queue after which the next one begins.
pub(crate) fn reply(reply: &Mp) -> Result<(Stats, Option<String>)> {
    let queues = reply.get("q").list()?.iter().map(queue);
    let workers = reply.get("w").list()?.iter().map(worker);
    let next = reply.get("cu").some(Mp::text)?;
    let mut stats = Stats::new(read_instant(reply.get("n"))?);
    stats.queues = queues.collect::<Result<_>>()?;
    stats.workers = workers.collect::<Result<_>>()?;
    stats.exact = reply.get("e").is_set();
    stats.overdue = super::schedule::overdue(reply.get("ov"))?;
    Ok((stats, next))
}

fn part(parts: &[Mp], index: usize) -> Result<&Mp> {
    parts.get(index).ok_or_else(damaged)
}

/// `[name, counts of 7, paused, oldest_due span or -1, due, history, ends, limits or none,
/// largest shares if asked for]`
fn queue(value: &Mp) -> Result<QueueStats> {
    let parts = value.list()?;
    let name = part(parts, 0)?.text()?;
    let counts = part(parts, 1)?.list()?.iter().map(Mp::number);
    let counts = counts.collect::<Result<Vec<_>>>()?;
    let oldest = part(parts, 3)?.int()?;
    let due = part(parts, 4)?.list()?.iter().map(bucket);
    let history = part(parts, 5)?.list()?.iter().map(minute);
    let mut stats = QueueStats::new(
        name.as_str(),
        Counts(counts.try_into().map_err(|_| damaged())?),
    );
    // Earlier functions answer none.
    stats.ends = match parts.get(6) {
        Some(ends) => super::ends::read(&name, ends.bytes()?)?,
        None => Default::default(),
    };
    stats.limits = match parts.get(7) {
        Some(limits) if !limits.list()?.is_empty() => Some(limit_stats(limits)?),
        _ => None,
    };
    if let Some(shares) = parts.get(8) {
        let shares = shares.list()?.iter().map(share_stats);
        stats.shares = shares.collect::<Result<_>>()?;
    }
    stats.paused = part(parts, 2)?.is_set();
    stats.oldest_due = u64::try_from(oldest).ok().map(Duration::from_micros);
    stats.due = due.collect::<Result<_>>()?;
    stats.history = history.collect::<Result<_>>()?;
    Ok(stats)
}

/// `[concurrency or 0, rate, closed, opens at, waits or -1]`
fn limit_stats(value: &Mp) -> Result<LimitStats> {
    let parts = value.list()?;
    let mut stats = LimitStats::default();
    stats.concurrency = Some(part(parts, 0)?.number()?).filter(|most| *most > 0);
    let limits = part(parts, 1)?;
    if !limits.list()?.is_empty() {
        stats.rate = Some(rate(limits)?);
    }
    stats.closed = match part(parts, 2)?.number()? {
        1 => Some(ClosedLimit::Concurrency),
        2 => Some(ClosedLimit::Rate),
        _ => None,
    };
    if stats.closed == Some(ClosedLimit::Rate) {
        stats.opens_at = Some(read_instant(part(parts, 3)?)?);
    }
    let waits = part(parts, 4)?.int()?;
    stats.waits = u64::try_from(waits).ok().map(Duration::from_micros);
    Ok(stats)
}

/// `[share, ready, active, weight, closed, opens at]`
fn share_stats(value: &Mp) -> Result<ShareStats> {
    let parts = value.list()?;
    let (ready, active) = (part(parts, 1)?.number()?, part(parts, 2)?.number()?);
    let mut stats = ShareStats::new(part(parts, 0)?.text()?, ready, active);
    stats.weight = number_32(part(parts, 3)?)?;
    stats.closed = match part(parts, 4)?.number()? {
        0 => None,
        1 => Some(ClosedShare::Concurrency),
        2 => Some(ClosedShare::Rate),
        4 => Some(ClosedShare::Paused),
        _ => Some(ClosedShare::Blocked),
    };
    stats.opens_at = match part(parts, 5)? {
        Mp::Bytes(none) if none.is_empty() => None,
        at => Some(read_instant(at)?),
    };
    Ok(stats)
}

fn bucket(value: &Mp) -> Result<DueBucket> {
    let parts = value.list()?;
    Ok(DueBucket::new(
        read_instant(part(parts, 0)?)?,
        read_instant(part(parts, 1)?)?,
        part(parts, 2)?.number()?,
    ))
}

/// `[minute, six counts, lateness at 50 and 99, run time at 50 and 99]`
fn minute(value: &Mp) -> Result<MinuteStats> {
    let parts = value.list()?;
    let count = |index| part(parts, index)?.number();
    let measured = |index| {
        let (median, most) = (part(parts, index)?.int()?, part(parts, index + 1)?.int()?);
        let (median, most) = (u64::try_from(median).ok(), u64::try_from(most).ok());
        Ok::<_, punctual::Error>(median.zip(most))
    };
    let mut minute = MinuteStats::new(read_instant(part(parts, 0)?)?);
    minute.enqueued = count(1)?;
    minute.claimed = count(2)?;
    minute.completed = count(3)?;
    minute.failed = count(4)?;
    minute.dead = count(5)?;
    minute.cancelled = count(6)?;
    minute.lateness_us = measured(7)?;
    minute.run_time_us = measured(9)?;
    Ok(minute)
}

/// `[id 16, seen_at, leased, worker record]`
fn worker(value: &Mp) -> Result<WorkerSeen> {
    let parts = value.list()?;
    let id = part(parts, 0)?.bytes()?.try_into().map_err(|_| damaged())?;
    let id = WorkerId(u128::from_be_bytes(id));
    Ok(WorkerSeen::new(
        read_worker(id, part(parts, 3)?.bytes()?)?,
        read_instant(part(parts, 1)?)?,
        part(parts, 2)?.number()? as usize,
    ))
}

pub(crate) fn maintained(reply: &Mp) -> Result<Maintained> {
    let count = |key| {
        reply
            .get(key)
            .some(Mp::number)
            .map(|n| n.unwrap_or(0) as usize)
    };
    let mut done = Maintained::default();
    done.moved = count("mo")?;
    done.expired = count("xp")?;
    done.rescued = count("rs")?;
    done.pruned = count("pr")?;
    done.next = reply.get("nx").some(read_instant)?;
    Ok(done)
}

/// What a shard says of itself.
#[derive(Debug)]
pub(crate) struct ShardInfo {
    pub(crate) clock_jumps: u64,
    pub(crate) problems: Vec<NamespaceProblem>,
    pub(crate) late: Vec<Late>,
    /// How long a resend is recognised there now.
    pub(crate) resend_window: Duration,
    pub(crate) now: punctual::time::Timestamp,
}

/// A queue whose oldest due job waits in a shard although workers that claim from it say that they
/// have free slots. What they have leased, in all shards, is not counted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) namespace: Namespace,
    pub(crate) queue: String,
    pub(crate) waits: Duration,
}

impl Late {
    /// The problem, as so many workers are free indeed.
    pub(crate) fn problem(self, free: usize) -> NamespaceProblem {
        let (name, waits) = (&self.queue, format_span(self.waits));
        let text = format!(
            "queue {name}: the oldest due job has waited {waits} while {free} workers are free; \
             restart the workers, and ask `punctual jobs explain` about the job"
        );
        let namespace = self.namespace;
        NamespaceProblem::new(namespace, text)
    }
}

/// Reads what the shard of that number says, whose tombstones stay for that window.
pub(crate) fn info(
    reply: &Mp,
    namespace: &Namespace,
    shard: u16,
    window: Duration,
) -> Result<ShardInfo> {
    let late = reply.get("pr").list()?.iter();
    let late = late.map(|value| late_queue(value, namespace));
    let of_namespace = |text: String| NamespaceProblem::new(namespace.clone(), text);
    let outbox = outbox_problem(reply.get("ob"), shard)?;
    let now = read_instant(reply.get("n"))?;
    let gone_early = reply.get("te").some(read_instant)?;
    let held = gone_early.map_or(Duration::MAX, |at| now - at);
    let resend_window = held.min(window);
    let resends = resend_problem(resend_window, window);
    Ok(ShardInfo {
        clock_jumps: reply.get("ju").some(Mp::number)?.unwrap_or(0),
        problems: outbox
            .into_iter()
            .chain(resends)
            .chain(dry_problem(reply.get("dr"))?)
            .chain(ending_problem(reply.get("ru"))?)
            .map(of_namespace)
            .collect(),
        late: late.collect::<Result<_>>()?,
        resend_window,
        now,
    })
}

/// Names of schedules that have no run to come, although they have not ended.
fn dry_problem(names: &Mp) -> Result<Option<String>> {
    let names = texts(names)?;
    let Some(first) = names.first() else {
        return Ok(None);
    };
    let more = and_more(names.len());
    Ok(Some(format!(
        "schedule {first}{more}: no run to come, as no process has named the next instants of its \
         calendar; keep a worker or `punctual serve` running"
    )))
}

/// `[name, last known instant]` of schedules whose list nothing refills.
fn ending_problem(ending: &Mp) -> Result<Option<String>> {
    let mut first: Option<(Timestamp, String)> = None;
    let ending = ending.list()?;
    for one in ending {
        let [name, until] = one.list()? else {
            return Err(damaged());
        };
        let one = (read_instant(until)?, name.text()?);
        first = Some(match first {
            Some(first) => first.min(one),
            None => one,
        });
    }
    Ok(first.map(|(until, name)| {
        let more = and_more(ending.len());
        format!(
            "schedule {name}{more}: runs are known until {until} only, as no process has named later \
             instants of its calendar for over a minute; keep a worker or `punctual serve` running"
        )
    }))
}

fn and_more(count: usize) -> String {
    match count {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    }
}

/// `[entries, the longest wait]`; maintenance runs more often than that.
fn outbox_problem(waiting: &Mp, shard: u16) -> Result<Option<String>> {
    let [count, longest] = waiting.list()? else {
        return Ok(None);
    };
    let (count, longest) = (count.number()?, Duration::from_micros(longest.number()?));
    Ok((count > 0 && longest > OUTBOX_WAITS).then(|| {
        format!(
            "shard {shard}: {count} effects wait for other shards, the oldest {}; see whether the \
             servers of all shards answer",
            format_span(longest)
        )
    }))
}

/// How long an effect may be on its way before it is a problem.
const OUTBOX_WAITS: Duration = seconds(15);

/// `[queue, span, workers that say they are free]`
fn late_queue(value: &Mp, namespace: &Namespace) -> Result<Late> {
    let parts = value.list()?;
    Ok(Late {
        namespace: namespace.clone(),
        queue: part(parts, 0)?.text()?,
        waits: Duration::from_micros(part(parts, 1)?.number()?),
    })
}
