//! What an export has beside jobs, and what an import makes of it: settings, pauses, schedules,
//! subscriptions.

use std::collections::BTreeMap;
use std::io::{self, Write};

use punctual::Queue;
use punctual::engine::{
    Control, Controlled, NamedLimit, RecordValue, SETTINGS_PREFIX, StatsRequest, VersionedRecord,
};
use punctual::schedule::{SCHEDULE_PREFIX, ScheduleStatus};
use punctual::topic::Subscription;
use punctual_gateway::RecordJson;

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
    let of_schedules = schedules.iter();
    lines.extend(of_schedules.map(|one| RecordJson::schedule(&one.name, &one.schedule)));
    let subscriptions = subscriptions(session, queue).await?;
    lines.extend(subscriptions.iter().map(RecordJson::of_subscription));
    for line in &lines {
        serde_json::to_writer(&mut to, line).map_err(io::Error::from)?;
        to.write_all(b"\n")?;
    }
    Ok(lines.len() as u64)
}

async fn queues(session: &Session, queue: Option<&str>) -> Result<Vec<RecordJson>> {
    let mut request = StatsRequest::default();
    request.queues.extend(queue.map(str::to_owned));
    let stats = session.engine.stats(&session.namespace, request).await?;
    let paused = stats.queues.into_iter().filter(|queue| queue.paused);
    let mut queues: BTreeMap<String, bool> = paused.map(|queue| (queue.queue, true)).collect();
    let names = Control::Names {
        prefix: SETTINGS_PREFIX.into(),
    };
    match session.engine.control(&session.namespace, names).await {
        Ok(Controlled::Names(names)) => {
            let names = names
                .iter()
                .filter_map(|name| name.strip_prefix(SETTINGS_PREFIX));
            for name in names.filter(|name| queue.is_none_or(|queue| queue == *name)) {
                queues.entry(name.into()).or_default();
            }
        }
        Err(error) if is_unsupported(&error) => {}
        Err(error) => return Err(error.into()),
        Ok(_) => return Err(strange()),
    }
    let mut lines = Vec::new();
    for (name, paused) in queues {
        let value = match read(session, format!("{SETTINGS_PREFIX}{name}")).await? {
            Some(RecordValue::Queue(settings)) => Some(settings),
            _ => None,
        };
        lines.push(RecordJson::queue(&name, value.as_ref(), paused));
    }
    Ok(lines)
}

/// The settings of named limits.
async fn limits(session: &Session) -> Result<Vec<RecordJson>> {
    let handle = Queue::new(&session.engine).namespace(session.namespace.clone());
    let found = match handle.named_limits().await {
        Err(error) if is_unsupported(&error) => return Ok(Vec::new()),
        found => found?,
    };
    let own = found
        .into_iter()
        .filter(|limit| limit.set_by.as_ref() == Some(&limit.name));
    let line = |limit: NamedLimit| {
        let settings = limit.settings.as_ref()?;
        Some(RecordJson::limit(&limit.name, settings))
    };
    Ok(own.filter_map(line).collect())
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
    for line in lines {
        if let Some(subscription) = line.subscription() {
            let verdict = subscribe(session, subscription).await?;
            *counts.entry(verdict).or_default() += 1;
            continue;
        }
        let name = line.name().to_owned();
        let paused = match line.paused_queue().map(str::to_owned) {
            Some(queue) => Some(pause(session, queue).await?),
            None => None,
        };
        let value = line.into_value().map_err(|why| bad(&name, &why))?;
        let verdict = match value {
            None => paused.unwrap_or("unchanged"),
            Some(value) => create(session, &name, value).await?,
        };
        *counts.entry(verdict).or_default() += 1;
    }
    Ok(())
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

async fn create(session: &Session, name: &str, value: RecordValue) -> Result<&'static str> {
    if let (Some(schedule), RecordValue::Schedule(value)) =
        (name.strip_prefix(SCHEDULE_PREFIX), &value)
    {
        let handle = Queue::new(&session.engine).namespace(session.namespace.clone());
        return Ok(match handle.schedules().get(schedule).await? {
            None => {
                handle.schedules().set(schedule, (**value).clone()).await?;
                "created"
            }
            Some(known) if known.schedule == **value => "unchanged",
            Some(_) => "kept",
        });
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

fn bad(name: &str, why: &str) -> Failure {
    Failure::new(Exit::Usage, "bad_lines", format!("{name}: {why}"))
}

fn strange() -> Failure {
    punctual::Error::new(punctual::ErrorKind::Internal, "another kind of answer").into()
}
