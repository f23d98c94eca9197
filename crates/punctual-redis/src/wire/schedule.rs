//! Schedules as the functions keep and answer them.

use std::time::Duration;

use punctual::engine::{Receipt, ScheduleAct};
use punctual::schedule::{
    Every, Fold, Form, Gap, Listed, Missed, MoreInstants, Overdue, Overlap, PatternText, Schedule,
    ScheduleStatus, SpecBuilder, Success, Template,
};
use punctual::time::Timestamp;
use punctual::{JobId, NewJob, Result};

use super::enqueue::verdict_of;
use super::mp::{MapWriter, Mp, instant, read_instant};
use super::numbers::{
    CONTROL_COUNT_SCHEDULES, CONTROL_REFILL, CONTROL_SCHEDULE, CONTROL_SCHEDULES,
    SCHEDULE_BACKFILL, SCHEDULE_READ, SCHEDULE_RESTORE, SCHEDULE_RUN, SCHEDULE_SKIP, SPEC_EXAMINED,
    SPEC_OPTS, VALUE_SCHEDULE,
};
use super::opts;
use super::record::number_32;
use super::spec::{content_hash, write_run};
use super::{Reader, Writer, damaged, inspect, micros};

/// Bits of `ow`: the template has a unique key, or a group, of its own.
const OWN_UNIQUE: u8 = 1;
const OWN_GROUP: u8 = 2;

const FORMS: [Form; 3] = [Form::Cron, Form::CronWithSeconds, Form::Quartz];
const GAPS: [Gap; 3] = [Gap::AtItsEnd, Gap::Shift, Gap::Skip];
const FOLDS: [Fold; 3] = [Fold::First, Fold::Last, Fold::Both];

/// `2 | map`
pub(crate) fn packed(name: &str, schedule: &Schedule) -> Vec<u8> {
    let template = &schedule.template;
    let own = if template.unique.is_some() {
        OWN_UNIQUE
    } else {
        0
    } + if template.group.is_some() {
        OWN_GROUP
    } else {
        0
    };
    let (missed, value) = match schedule.missed {
        Missed::All { max } => (1_u8, max.into()),
        Missed::Skip { grace } => (2, micros(grace)),
        Missed::Latest { grace } => (0, micros(grace)),
        // The contract and this crate are of one version.
        _ => (0, 0),
    };
    let mut map = MapWriter::default();
    let id = JobId::occurrence(name, Timestamp::ZERO);
    map.put("id", id.as_bytes().as_slice());
    map.put("sp", spec(&schedule.spec).packed().as_slice());
    map.put("jb", job(name, schedule).as_slice());
    map.put("mi", missed).put("mv", value);
    let overlap = Overlap::ALL.iter().position(|one| *one == schedule.overlap);
    for (key, number) in [
        ("ov", overlap.unwrap_or_default() as u8),
        ("ow", own),
        ("pa", schedule.paused.into()),
        ("pf", schedule.pause_on_failure.into()),
    ] {
        if number > 0 {
            map.put(key, number);
        }
    }
    if !schedule.note.is_empty() {
        map.put("no", &schedule.note);
    }
    map.put_some("xw", schedule.expect_within.map(micros));
    [vec![VALUE_SCHEDULE], map.packed()].concat()
}

/// The spec of the job of each run.
fn job(name: &str, schedule: &Schedule) -> Vec<u8> {
    let job = schedule.job(name, JobId::from_bytes([0; 16]));
    let mut out = Writer::default();
    out.u64(content_hash(&job)).u16(0);
    write_run(&mut out, name, &job);
    out.0
}

fn spec(spec: &SpecBuilder) -> MapWriter {
    let mut map = MapWriter::default();
    let patterns = |patterns: &[PatternText]| {
        let one = |pattern: &PatternText| {
            let form = FORMS.iter().position(|form| *form == pattern.form);
            Mp::List(vec![
                form.unwrap_or_default().into(),
                (&pattern.text).into(),
            ])
        };
        (!patterns.is_empty()).then(|| patterns.iter().map(one).collect::<Vec<_>>())
    };
    map.put_some("pt", patterns(&spec.patterns));
    map.put_some("ex", patterns(&spec.except));
    if !spec.every.is_empty() {
        let one =
            |every: &Every| Mp::List(vec![micros(every.span).into(), micros(every.phase).into()]);
        map.put("ev", spec.every.iter().map(one).collect::<Vec<_>>());
    }
    if !spec.at.is_empty() {
        map.put("at", instants(&spec.at).as_slice());
    }
    map.put("zo", &spec.zone);
    let gap = GAPS.iter().position(|gap| *gap == spec.gap);
    let fold = FOLDS.iter().position(|fold| *fold == spec.fold);
    for (key, number) in [
        ("be", micros(spec.before)),
        ("ga", gap.unwrap_or_default() as u64),
        ("fo", fold.unwrap_or_default() as u64),
        ("ji", micros(spec.jitter)),
    ] {
        if number > 0 {
            map.put(key, number);
        }
    }
    map.put_some("st", spec.start.map(Timestamp::as_micros));
    map.put_some("en", spec.end.map(Timestamp::as_micros));
    map.put_some("mr", spec.max_runs);
    map
}

/// Eight bytes of each.
fn instants(all: &[Timestamp]) -> Vec<u8> {
    let bytes = all.iter().map(|at| at.as_micros().to_be_bytes());
    bytes.flatten().collect()
}

fn read_instants(bytes: &[u8]) -> Result<Vec<Timestamp>> {
    let mut reader = Reader(bytes);
    let count = bytes.len() / 8;
    (0..count).map(|_| reader.instant()).collect()
}

fn number_or_0(map: &Mp, key: &str) -> Result<u64> {
    Ok(map.get(key).some(Mp::number)?.unwrap_or(0))
}

/// What a record's value says, without its first byte.
pub(crate) fn unpacked(bytes: &[u8]) -> Result<Schedule> {
    let map = Mp::read(bytes)?;
    let number = |key: &str| number_or_0(&map, key);
    let own = number("ow")? as u8;
    let mut job = read_job(map.get("jb").bytes()?)?;
    if own & OWN_UNIQUE == 0 {
        job.unique = None;
    }
    if own & OWN_GROUP == 0 {
        job.group = None;
    }
    let mut schedule = Schedule::new(read_spec(map.get("sp").bytes()?)?, Template::of(job)?);
    let value = number("mv")?;
    schedule.overlap = one_of(&Overlap::ALL, number("ov")?)?;
    schedule.missed = match number("mi")? {
        0 => Missed::Latest {
            grace: Duration::from_micros(value),
        },
        1 => Missed::All {
            max: number_32(map.get("mv"))?,
        },
        2 => Missed::Skip {
            grace: Duration::from_micros(value),
        },
        _ => return Err(damaged()),
    };
    schedule.paused = map.get("pa").is_set();
    schedule.pause_on_failure = map.get("pf").is_set();
    schedule.note = map.get("no").some(Mp::text)?.unwrap_or_default();
    let within = map.get("xw").some(Mp::number)?;
    schedule.expect_within = within.map(Duration::from_micros);
    Ok(schedule)
}

fn read_job(bytes: &[u8]) -> Result<NewJob> {
    let mut reader = Reader(bytes);
    // Its hash and its number in a call.
    reader.take(8 + 2)?;
    let (priority, flags) = (reader.u8()?, reader.u8()?);
    let (queue, kind) = (reader.name()?, reader.name()?);
    let options = match flags & SPEC_OPTS {
        0 => Mp::Nil,
        _ => Mp::read(reader.long()?)?,
    };
    let payload = bytes::Bytes::copy_from_slice(reader.0);
    let mut job = NewJob::with_id(JobId::from_bytes([0; 16]), queue, payload);
    job.priority = priority;
    if !kind.is_empty() {
        job.kind = kind;
    }
    opts::read(&mut job, flags, &options)?;
    debug_assert!(flags & SPEC_EXAMINED != 0, "the functions look at a run");
    Ok(job)
}

/// A spec as the functions keep it.
pub(crate) fn read_spec(bytes: &[u8]) -> Result<SpecBuilder> {
    let map = Mp::read(bytes)?;
    let number = |key: &str| number_or_0(&map, key);
    let span = |key: &str| number(key).map(Duration::from_micros);
    let at = |key: &str| map.get(key).some(read_instant);
    let mut spec = SpecBuilder::default();
    spec.patterns = patterns(map.get("pt"))?;
    spec.except = patterns(map.get("ex"))?;
    let every = map.get("ev").list()?.iter().map(|one| match one.list()? {
        [span, phase] => Ok(Every::new(
            Duration::from_micros(span.number()?),
            Duration::from_micros(phase.number()?),
        )),
        _ => Err(damaged()),
    });
    spec.every = every.collect::<Result<_>>()?;
    spec.at = match map.get("at") {
        Mp::Nil => Vec::new(),
        instants => read_instants(instants.bytes()?)?,
    };
    spec.zone = map.get("zo").text()?;
    spec.before = span("be")?;
    spec.gap = one_of(&GAPS, number("ga")?)?;
    spec.fold = one_of(&FOLDS, number("fo")?)?;
    spec.jitter = span("ji")?;
    spec.start = at("st")?;
    spec.end = at("en")?;
    spec.max_runs = map.get("mr").some(Mp::number)?;
    Ok(spec)
}

fn patterns(value: &Mp) -> Result<Vec<PatternText>> {
    let patterns = value.list()?.iter().map(|one| match one.list()? {
        [form, text] => Ok(PatternText::new(
            one_of(&FORMS, form.number()?)?,
            text.text()?,
        )),
        _ => Err(damaged()),
    });
    patterns.collect()
}

fn one_of<T: Copy>(all: &[T], number: u64) -> Result<T> {
    all.get(number as usize).copied().ok_or_else(damaged)
}

/// Adds the first instants of a calendar to the write of its schedule.
pub(crate) fn put_list(map: &mut MapWriter, more: &MoreInstants, tz_database: &str) {
    map.put("ne", instants(&more.instants).as_slice());
    map.put("se", instant(more.searched));
    map.put("co", u8::from(more.is_complete));
    map.put("tz", tz_database);
}

pub(crate) fn list(after: &str, limit: usize) -> MapWriter {
    let mut map = MapWriter::default();
    map.put("c", CONTROL_SCHEDULES)
        .put("af", after)
        .put("li", limit);
    map
}

/// Schedules of one reply, and behind which name there may be more.
pub(crate) fn listed(reply: &Mp) -> Result<(Vec<ScheduleStatus>, Option<String>)> {
    let mut found = Vec::new();
    for one in reply.get("l").list()? {
        if !one.get("v").is_nil() {
            found.push(status(one)?);
            continue;
        }
        let name = one.get("na").text()?;
        tracing::warn!(%name, "the record of this schedule is gone or rubbish; set it again");
    }
    Ok((found, reply.get("mo").some(Mp::text)?))
}

pub(crate) fn act(name: &str, act: &ScheduleAct) -> MapWriter {
    let mut map = MapWriter::default();
    map.put("c", CONTROL_SCHEDULE).put("na", name);
    let number: u8 = match act {
        ScheduleAct::Run => SCHEDULE_RUN,
        ScheduleAct::Skip => SCHEDULE_SKIP,
        ScheduleAct::Backfill { instants: all } => {
            map.put("at", instants(all).as_slice());
            SCHEDULE_BACKFILL
        }
        ScheduleAct::Restore { last_success } => {
            map.put("su", packed_success(last_success).as_slice());
            SCHEDULE_RESTORE
        }
        _ => SCHEDULE_READ,
    };
    map.put("ac", number);
    map
}

/// Asks how many schedules a shard has.
pub(crate) fn count() -> MapWriter {
    let mut map = MapWriter::default();
    map.put("c", CONTROL_COUNT_SCHEDULES);
    map
}

/// How a schedule stands, if there is one.
pub(crate) fn acted(reply: &Mp) -> Result<Option<ScheduleStatus>> {
    reply.get("s").some(status)
}

/// `[id, verdict, due, other?]` of each run.
pub(crate) fn runs(reply: &Mp) -> Result<Vec<Receipt>> {
    let runs = reply.get("r").list()?.iter().map(|run| {
        let [id, verdict, due, other @ ..] = run.list()? else {
            return Err(damaged());
        };
        let id = inspect::id(id)?;
        let other = other.first().map(inspect::id).transpose()?;
        Ok(Receipt::new(
            id,
            verdict_of(verdict.number()? as u8, other.unwrap_or(id))?,
            read_instant(due)?,
        ))
    });
    runs.collect()
}

fn status(value: &Mp) -> Result<ScheduleStatus> {
    let schedule = match value.get("v").bytes()?.split_first() {
        Some((&VALUE_SCHEDULE, rest)) => unpacked(rest)?,
        _ => return Err(damaged()),
    };
    let number = |key: &str| value.get(key).number();
    let at = |key: &str| value.get(key).some(read_instant);
    let mut status = ScheduleStatus::new(value.get("na").text()?, number("ve")?, schedule);
    status.pending = value.get("pe").some(inspect::id)?;
    status.next = read_instants(value.get("ne").bytes()?)?;
    status.lasts_until = at("lu")?;
    status.dry = value.get("dr").is_set();
    status.ended = value.get("en").is_set();
    status.fired = number("fi")?;
    status.skipped = number("sk")?;
    status.missed = number("mi")?;
    status.last = at("la")?.zip(value.get("li").some(inspect::id)?);
    status.last_success = value.get("su").some(success)?;
    status.overdue_since = at("ov")?;
    status.tz_database = value.get("tz").text()?;
    Ok(status)
}

/// instant 8 | finished 8 | result
fn packed_success(success: &Success) -> Vec<u8> {
    let mut packed = instants(&[success.at, success.finished_at]);
    packed.extend_from_slice(success.result.as_deref().unwrap_or_default());
    packed
}

/// As [`packed_success`] writes it.
fn success(value: &Mp) -> Result<Success> {
    let mut reader = Reader(value.bytes()?);
    let (at, finished_at) = (reader.instant()?, reader.instant()?);
    let result = Some(reader.0).filter(|result| !result.is_empty());
    Ok(Success::new(
        at,
        finished_at,
        result.map(bytes::Bytes::copy_from_slice),
    ))
}

/// Schedules of a shard that are overdue: `[name, since]` of each.
pub(crate) fn overdue(names: &Mp) -> Result<Vec<Overdue>> {
    let all = names.list()?.iter().map(|one| match one.list()? {
        [name, since] => Ok(Overdue::new(name.text()?, read_instant(since)?)),
        _ => Err(damaged()),
    });
    all.collect()
}

/// A schedule whose list is short, as `maintain` returns it.
#[derive(Debug)]
pub(crate) struct Short {
    name: String,
    version: u64,
    pub(crate) spec: SpecBuilder,
    pub(crate) listed: Listed,
    pub(crate) tz_database: String,
}

impl Short {
    /// `[name, version, spec, searched, left, last, missed ones that are looked at, tz database]`
    pub(crate) fn read(value: &Mp) -> Result<Self> {
        let [name, version, spec, searched, left, last, missed, tz] = value.list()? else {
            return Err(damaged());
        };
        let last = read_instant(last)?;
        Ok(Self {
            name: name.text()?,
            version: version.number()?,
            spec: read_spec(spec.bytes()?)?,
            listed: Listed::new(
                read_instant(searched)?,
                left.number()? as usize,
                Some(last).filter(|last| *last != Timestamp::ZERO),
                missed.number()? as usize * 2,
            ),
            tz_database: tz.text()?,
        })
    }

    /// The instants for it; `anew` if they take the place of those of an older tz database.
    pub(crate) fn refill(&self, more: &MoreInstants, anew: bool, tz_database: &str) -> Mp {
        let pair = |name: &str, value: Mp| (Mp::from(name), value);
        Mp::Map(vec![
            pair("na", (&self.name).into()),
            pair("ve", self.version.into()),
            pair("se", instant(self.listed.searched)),
            pair("ne", instants(&more.instants).as_slice().into()),
            pair("sn", instant(more.searched)),
            pair("co", u8::from(more.is_complete).into()),
            pair("an", u8::from(anew).into()),
            pair("tz", tz_database.into()),
        ])
    }
}

pub(crate) fn refills(lists: Vec<Mp>) -> MapWriter {
    let mut map = MapWriter::default();
    map.put("c", CONTROL_REFILL).put("rf", lists);
    map
}
