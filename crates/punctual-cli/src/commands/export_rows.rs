//! What an export has beside jobs, and what an import makes of it: settings, pauses, schedules,
//! subscriptions.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use punctual::engine::{
    BlockedShare, ClosedShare, Control, Controlled, NamedLimit, RecordValue, SETTINGS_PREFIX,
    StatsRequest, VersionedRecord,
};
use punctual::schedule::{SCHEDULE_PREFIX, Schedule, ScheduleStatus, Success};
use punctual::topic::Subscription;
use punctual::{Limits, Queue};
use punctual_gateway::{Block, RecordJson};

use super::topics::topics;
use crate::args::Session;
use crate::failure::{Exit, Failure, Result};

/// What an engine without a capability is not asked for.
fn is_unsupported(error: &punctual::Error) -> bool {
    error.kind() == punctual::ErrorKind::Unsupported
}

/// Writes the settings of queues, those that are paused, schedules and subscriptions; how many
/// lines.
pub(super) async fn write(
    session: &Session,
    queue: Option<&str>,
    schedules: &[ScheduleStatus],
    mut to: impl Write,
) -> Result<u64> {
    let mut lines = queues(session, queue).await?;
    if queue.is_none() {
        lines.extend(limits(session).await?);
    }
    lines.extend(schedules.iter().filter_map(schedule));
    let subscriptions = subscriptions(session, queue).await?;
    lines.extend(subscriptions.iter().map(RecordJson::of_subscription));
    for line in &lines {
        serde_json::to_writer(&mut to, line).map_err(io::Error::from)?;
        to.write_all(b"\n")?;
    }
    Ok(lines.len() as u64)
}

/// A schedule with the runs that it has left; none of one that has ended.
fn schedule(status: &ScheduleStatus) -> Option<RecordJson> {
    let mut schedule = status.schedule.clone();
    if let Some(most) = &mut schedule.spec.max_runs {
        *most = most.saturating_sub(status.fired);
    }
    let has_runs = !status.ended && schedule.spec.max_runs != Some(0);
    let success = status.last_success.as_ref();
    has_runs.then(|| RecordJson::schedule(&status.name, &schedule, success))
}

/// The shares of a queue that are blocked or paused.
async fn blocks(session: &Session, queue: &str) -> Result<Vec<RecordJson>> {
    let handle = Queue::new(&session.engine).namespace(session.namespace.clone());
    let blocked = match handle.limits(queue).blocked_shares().await {
        Err(error) if is_unsupported(&error) => return Ok(Vec::new()),
        blocked => blocked?,
    };
    let block = |one: BlockedShare| {
        RecordJson::of_block(&Block::Share {
            queue: queue.to_owned(),
            share: one.share,
            until: one.until,
        })
    };
    Ok(blocked.into_iter().map(block).collect())
}

/// Queues and settings that one call reads.
const PAGE: usize = 1_000;

async fn queues(session: &Session, queue: Option<&str>) -> Result<Vec<RecordJson>> {
    let mut queues = BTreeMap::new();
    let mut blocked = Vec::new();
    let mut request = match queue {
        Some(queue) => StatsRequest::default().queues(vec![queue.to_owned()]),
        None => StatsRequest::default().limit(PAGE),
    };
    loop {
        let stats = session.engine.stats(&session.namespace, request).await?;
        for found in stats.queues {
            blocked.extend(blocks(session, &found.queue).await?);
            if found.paused {
                queues.insert(found.queue, true);
            }
        }
        match stats.next {
            Some(next) => request = StatsRequest::default().limit(PAGE).after(Some(next)),
            None => break,
        }
    }
    for name in names(session, SETTINGS_PREFIX).await? {
        let name = name.strip_prefix(SETTINGS_PREFIX).unwrap_or(&name);
        if queue.is_none_or(|queue| queue == name) {
            queues.entry(name.to_owned()).or_default();
        }
    }
    let mut lines = Vec::new();
    for (name, paused) in queues {
        let value = match read(session, format!("{SETTINGS_PREFIX}{name}")).await? {
            Some(RecordValue::Queue(settings)) => Some(settings),
            _ => None,
        };
        lines.push(RecordJson::queue(&name, value.as_ref(), paused));
    }
    lines.extend(blocked);
    Ok(lines)
}

/// The names of records that begin so.
async fn names(session: &Session, prefix: &str) -> Result<BTreeSet<String>> {
    let (mut found, mut cursor) = (BTreeSet::new(), None);
    loop {
        let page = Control::Names {
            prefix: prefix.to_owned(),
            cursor,
            limit: PAGE,
        };
        match session.engine.control(&session.namespace, page).await {
            Ok(Controlled::Names {
                names,
                cursor: next,
            }) => {
                found.extend(names);
                cursor = next;
            }
            Err(error) if is_unsupported(&error) => return Ok(found),
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(strange()),
        }
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

/// The settings of named limits, and those that are blocked.
async fn limits(session: &Session) -> Result<Vec<RecordJson>> {
    let handle = Queue::new(&session.engine).namespace(session.namespace.clone());
    let found = match handle.named_limits().await {
        Err(error) if is_unsupported(&error) => return Ok(Vec::new()),
        found => found?,
    };
    let blocked: Vec<RecordJson> = (found.iter())
        .filter(|limit| limit.closed == Some(ClosedShare::Blocked))
        .filter_map(|limit| {
            let name = limit.name.clone();
            limit.opens_at.map(|until| Block::Limit { name, until })
        })
        .map(|block| RecordJson::of_block(&block))
        .collect();
    let own = found
        .into_iter()
        .filter(|limit| limit.set_by.as_ref() == Some(&limit.name));
    let line = |limit: NamedLimit| {
        let settings = limit.settings.as_ref()?;
        Some(RecordJson::limit(&limit.name, settings))
    };
    Ok(own.filter_map(line).chain(blocked).collect())
}

/// The schedules of a namespace, or those whose jobs are of a queue.
pub(super) async fn schedules(
    session: &Session,
    queue: Option<&str>,
) -> Result<Vec<ScheduleStatus>> {
    let handle = Queue::new(&session.engine).namespace(session.namespace.clone());
    let found = match handle.schedules().list().await {
        Err(error) if is_unsupported(&error) => return Ok(Vec::new()),
        found => found?,
    };
    let of_queue = found.into_iter().filter(|status| {
        let of = &status.schedule.template.queue;
        queue.is_none_or(|queue| queue == of)
    });
    Ok(of_queue.collect())
}

/// The subscriptions of a namespace, or those that a queue has.
async fn subscriptions(session: &Session, queue: Option<&str>) -> Result<Vec<Subscription>> {
    let found = match topics(session).list().await {
        Err(error) if is_unsupported(&error) => return Ok(Vec::new()),
        found => found?,
    };
    let of_queue = |one: &Subscription| queue.is_none_or(|queue| queue == one.queue);
    Ok(found.into_iter().filter(of_queue).collect())
}

/// Adds a subscription, unless there is one of that name.
async fn subscribe(session: &Session, new: &Subscription) -> Result<&'static str> {
    let found = topics(session).list().await?;
    Ok(match found.iter().find(|one| one.name == new.name) {
        Some(known) if known == new => "unchanged",
        Some(_) => "kept",
        None => {
            let topics = topics(session);
            topics.subscribe(new.pattern.clone(), new.clone()).await?;
            "created"
        }
    })
}

/// Whether the engine takes a value, and the last success of a schedule.
pub(super) fn check(
    name: &str,
    value: &RecordValue,
    last_success: Option<&Success>,
    limits: &Limits,
) -> punctual::Result<()> {
    if let Some(success) = last_success {
        success.check(limits)?;
    }
    match value {
        RecordValue::Queue(settings) => settings.check(),
        RecordValue::Limit(settings) => settings.check(),
        RecordValue::Schedule(schedule) => {
            schedule.check(name.strip_prefix(SCHEDULE_PREFIX).unwrap_or(name), limits)
        }
        _ => Ok(()),
    }
}

async fn read(session: &Session, name: String) -> Result<Option<RecordValue>> {
    let read = Control::Read { name };
    match session.engine.control(&session.namespace, read).await {
        Ok(Controlled::Record(record)) => Ok(record.map(|VersionedRecord { value, .. }| value)),
        Err(error) if is_unsupported(&error) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(_) => Err(strange()),
    }
}

/// Writes lines of an export; counts how many were `created`, were `unchanged`, or stayed as they
/// are here (`kept`).
pub(super) async fn import(
    session: &Session,
    lines: Vec<RecordJson>,
    counts: &mut BTreeMap<&'static str, u64>,
) -> Result<()> {
    for mut line in lines {
        if let Some(subscription) = line.subscription() {
            let verdict = subscribe(session, subscription).await?;
            *counts.entry(verdict).or_default() += 1;
            continue;
        }
        let name = line.name().to_owned();
        let named = |failure: Failure| failure.of(&name);
        if let Some(block) = line.block().map_err(|why| bad(&name, &why))? {
            let verdict = start_block(session, block).await.map_err(named)?;
            *counts.entry(verdict).or_default() += 1;
            continue;
        }
        let paused = match line.paused_queue().map(str::to_owned) {
            Some(queue) => Some(pause(session, queue).await?),
            None => None,
        };
        let success = line.take_last_success().map_err(|why| bad(&name, &why))?;
        let value = line.into_value().map_err(|why| bad(&name, &why))?;
        let verdict = match value {
            None => paused.unwrap_or("unchanged"),
            Some(value) => create(session, &name, value, success)
                .await
                .map_err(named)?,
        };
        *counts.entry(verdict).or_default() += 1;
    }
    Ok(())
}

/// Starts no job of a share or limit for as long as the export says, from now on.
async fn start_block(session: &Session, block: Block) -> Result<&'static str> {
    let now = session.engine.info().await?.now;
    let control = match block {
        Block::Share {
            queue,
            share,
            until: None,
        } => Control::PauseShare { queue, share },
        Block::Share {
            queue,
            share,
            until: Some(until),
        } if until > now => Control::BlockShare {
            queue,
            share,
            span: until - now,
        },
        Block::Limit { name, until } if until > now => Control::BlockLimit {
            name,
            span: until - now,
        },
        _ => return Ok("unchanged"),
    };
    let answer = session.engine.control(&session.namespace, control).await?;
    Ok(match answer {
        Controlled::Done(true) => "created",
        _ => "unchanged",
    })
}

/// Pauses a queue that is not here yet: one that is goes on as it is.
async fn pause(session: &Session, queue: String) -> Result<&'static str> {
    let request = StatsRequest::default().queues(vec![queue.clone()]);
    let stats = session.engine.stats(&session.namespace, request).await?;
    match stats.queues.first() {
        Some(known) if known.paused => return Ok("unchanged"),
        Some(_) => return Ok("kept"),
        None => {}
    }
    let pause = Control::Pause { queue };
    session.engine.control(&session.namespace, pause).await?;
    Ok("created")
}

async fn create(
    session: &Session,
    name: &str,
    value: RecordValue,
    last_success: Option<Success>,
) -> Result<&'static str> {
    if let (Some(schedule), RecordValue::Schedule(value)) =
        (name.strip_prefix(SCHEDULE_PREFIX), &value)
    {
        return create_schedule(session, schedule, value, last_success).await;
    }
    match read(session, name.to_owned()).await? {
        Some(known) if known == value => return Ok("unchanged"),
        Some(_) => return Ok("kept"),
        None => {}
    }
    let write = Control::Write {
        name: name.into(),
        expected: 0,
        value: Some(value),
    };
    session.engine.control(&session.namespace, write).await?;
    Ok("created")
}

/// A schedule that was here keeps its own last success; an import that was cut off between the two
/// writes goes on here.
async fn create_schedule(
    session: &Session,
    name: &str,
    schedule: &Schedule,
    last_success: Option<Success>,
) -> Result<&'static str> {
    let handle = Queue::new(&session.engine).namespace(session.namespace.clone());
    let schedules = handle.schedules();
    let verdict = match schedules.get(name).await? {
        None => {
            schedules.set(name, schedule.clone()).await?;
            "created"
        }
        Some(known) if known.schedule == *schedule => "unchanged",
        Some(_) => return Ok("kept"),
    };
    if let Some(success) = last_success {
        schedules.restore(name, success).await?;
    }
    Ok(verdict)
}

fn bad(name: &str, why: &str) -> Failure {
    Failure::new(Exit::Usage, "bad_lines", format!("{name}: {why}"))
}

fn strange() -> Failure {
    punctual::Error::new(punctual::ErrorKind::Internal, "another kind of answer").into()
}
