//! Lists schedules, and shows one.

use punctual::schedule::{Form, Missed, Overlap, Schedule, ScheduleStatus, Spec, Success};
use punctual::time::{Timestamp, exact_span, format_span};
use punctual_gateway::RecordJson;
use serde_json::{Value, json};

use super::{missing, schedules};
use crate::args::Session;
use crate::failure::Result;
use crate::output::{Columns, Object, ago, count, cut, object};

pub(super) async fn list(session: &Session) -> Result<()> {
    let found = schedules(session).list().await?;
    if session.out.is_json() {
        let all: Vec<Object> = found.iter().map(object_of).collect();
        return session.out.json(&object!({ "schedules": all }));
    }
    if found.is_empty() {
        return session.out.line("no schedules");
    }
    let now = session.engine.info().await?.now;
    let row = |status: &ScheduleStatus| {
        let next = status.next.first();
        vec![
            status.name.clone(),
            times(&status.schedule),
            next.map_or_else(|| state(status).into(), |at| ago(*at, now)),
            match status.lasts_until {
                Some(until) => ago(until, now),
                None if status.ended || status.dry => String::new(),
                // Spans and fixed instants are sums, which need no list.
                None => "always".into(),
            },
            count(status.fired),
            count(status.skipped),
            count(status.missed),
            match (status.schedule.paused, status.overdue_since) {
                (true, _) if status.schedule.note.is_empty() => "paused".into(),
                (true, _) => format!("paused: {}", status.schedule.note),
                (_, Some(since)) => format!("overdue for {}", format_span(now - since)),
                _ => String::new(),
            },
        ]
    };
    let columns = Columns {
        names: &[
            "name",
            "times",
            "next",
            "known until",
            "fired",
            "skipped",
            "missed",
            "state",
        ],
        ..Columns::default()
    };
    session.out.table(columns, found.iter().map(row).collect())
}

pub(super) async fn one(session: &Session, name: &str) -> Result<()> {
    let status = schedules(session).get(name).await?;
    let status = status.ok_or_else(|| missing(name))?;
    if session.out.is_json() {
        return session.out.json(&object_of(&status));
    }
    let now = session.engine.info().await?.now;
    let schedule = &status.schedule;
    let template = &schedule.template;
    let spec = schedule.spec.clone().build()?;
    let mut card = vec![
        ("times", times(schedule)),
        ("zone", schedule.spec.zone.clone()),
        ("queue", template.queue.clone()),
        ("kind", template.kind.clone()),
        ("overlap", overlap_name(schedule.overlap).into()),
        ("missed", missed_text(schedule.missed)),
        ("fired", count(status.fired)),
        ("skipped", count(status.skipped)),
        ("missed runs", count(status.missed)),
    ];
    if schedule.paused {
        card.push(("paused", schedule.note.clone()));
    }
    if let Some((at, id)) = status.last {
        card.push(("last run", format!("{}\n{id}", local(&spec, at))));
    }
    if let Some(success) = &status.last_success {
        let result = success.result.as_deref().map(String::from_utf8_lossy);
        let result = result.map_or_else(String::new, |result| format!("\n{result}"));
        let (at, took) = (local(&spec, success.at), ago(success.finished_at, now));
        card.push(("last success", format!("{at}\ncompleted {took}{result}")));
    }
    let document = document(&status);
    let (options, job) = (options(&document), of_job(&document["job"]));
    card.extend((!options.is_empty()).then_some(("options", options)));
    card.extend((!job.is_empty()).then_some(("job", job)));
    if let Some(span) = schedule.expect_within {
        let state = match status.overdue_since {
            Some(since) => format!("\noverdue since {}", spec.local_text(since)),
            None => String::new(),
        };
        card.push(("expected within", format!("{}{state}", exact_span(span))));
    }
    if let Some(id) = status.pending {
        card.push(("next job", id.to_string()));
    }
    card.push(match status.next.is_empty() {
        true => ("next runs", state(&status).into()),
        false => {
            let next = &status.next[..status.next.len().min(5)];
            ("next runs", next_runs(&spec, next, now))
        }
    });
    if let Some(until) = status.lasts_until {
        card.push(("known until", format!("{until} (refilled by itself)")));
    }
    session.out.card(&card)
}

/// Columns of a card's values, beside the longest name, on a terminal of 80.
const VALUE_COLUMNS: usize = 63;

/// An instant in the zone and in UTC, on two lines if they are too long for one.
fn local(spec: &Spec, at: Timestamp) -> String {
    let line = format!("{}  {at}", spec.local_text(at));
    match line.len() > VALUE_COLUMNS {
        true => format!("{}\n{at}", spec.local_text(at)),
        false => line,
    }
}

/// Runs line by line; without UTC, which follows from the offset, if one would be too long.
fn next_runs(spec: &Spec, runs: &[Timestamp], now: Timestamp) -> String {
    let line = |at: &Timestamp| {
        let (zoned, ahead) = (spec.local_text(*at), ago(*at, now));
        (
            format!("{zoned}  {at}  {ahead}"),
            format!("{zoned}  {ahead}"),
        )
    };
    let (full, short): (Vec<_>, Vec<_>) = runs.iter().map(line).unzip();
    match full.iter().any(|line| line.len() > VALUE_COLUMNS) {
        true => short.join("\n"),
        false => full.join("\n"),
    }
}

fn state(status: &ScheduleStatus) -> &'static str {
    match (status.ended, status.dry) {
        (true, _) => "ended",
        (_, true) => "catching up",
        _ => "",
    }
}

/// When it runs, as the options of `set` say it.
fn times(schedule: &Schedule) -> String {
    let spec = &schedule.spec;
    let patterns = spec.patterns.iter().map(|pattern| match pattern.form {
        Form::Cron => pattern.text.clone(),
        Form::CronWithSeconds => format!("seconds {}", pattern.text),
        _ => format!("quartz {}", pattern.text),
    });
    let every = spec.every.iter().map(|every| match every.phase.is_zero() {
        true => format!("every {}", exact_span(every.span)),
        false => format!(
            "every {}+{}",
            exact_span(every.span),
            exact_span(every.phase)
        ),
    });
    let at = spec.at.iter().map(|at| format!("at {at}"));
    let all: Vec<String> = patterns.chain(every).chain(at).collect();
    match all.len() {
        0..4 => all.join(", "),
        more => format!("{}, and {} more", all[..2].join(", "), more - 2),
    }
}

/// What its user wrote, as `PUT /v1/schedules/NAME` takes it.
fn document(status: &ScheduleStatus) -> Value {
    let record = RecordJson::schedule(&status.name, &status.schedule, None);
    let mut document = serde_json::to_value(record).unwrap_or_default();
    document["schedule"].take()
}

/// What else was set, by the names of the options.
fn options(document: &Value) -> String {
    let names = [
        ("except", json!([])),
        ("except_seconds", json!([])),
        ("except_quartz", json!([])),
        ("before", Value::Null),
        ("gap", json!("end")),
        ("fold", json!("first")),
        ("jitter", Value::Null),
        ("start", Value::Null),
        ("end", Value::Null),
        ("max_runs", Value::Null),
        ("pause_on_failure", json!(false)),
    ];
    let line = |(name, usual): (&str, Value)| {
        let value = document.get(name).filter(|value| **value != usual)?;
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        Some(format!("{name} {text}"))
    };
    let lines: Vec<String> = names.into_iter().filter_map(line).collect();
    lines.join("\n")
}

/// What a job of a schedule has beside its queue and kind.
fn of_job(job: &Value) -> String {
    let fields = job.as_object().into_iter().flatten();
    let lines = fields
        .filter(|(name, _)| !["queue", "kind"].contains(&name.as_str()))
        .map(|(name, value)| cut(&format!("{name} {value}"), VALUE_COLUMNS));
    lines.collect::<Vec<_>>().join("\n")
}

fn overlap_name(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Skip => "skip",
        Overlap::BufferOne => "buffer_one",
        Overlap::BufferAll => "buffer_all",
        Overlap::CancelOther => "cancel_other",
        Overlap::Allow => "allow",
        _ => "other",
    }
}

fn missed_text(missed: Missed) -> String {
    match missed {
        Missed::Latest { grace } => format!("latest, and within {}", exact_span(grace)),
        Missed::All { max } => format!("all, at most {max}"),
        Missed::Skip { grace } => format!("skip, but for {}", exact_span(grace)),
        _ => "other".into(),
    }
}

fn success_of(success: &Success) -> Object {
    object!({
        "at": success.at.to_string(),
        "finished_at": success.finished_at.to_string(),
        "result": success.result.as_deref().map(String::from_utf8_lossy),
    })
}

/// A schedule for programs.
pub(super) fn object_of(status: &ScheduleStatus) -> Object {
    let next: Vec<String> = status.next.iter().map(ToString::to_string).collect();
    let last = status
        .last
        .map(|(at, id)| object!({ "at": at.to_string(), "id": id.to_string() }));
    let schedule = &status.schedule;
    object!({
        "name": status.name, "version": status.version,
        "times": times(schedule), "zone": schedule.spec.zone,
        "queue": schedule.template.queue, "kind": schedule.template.kind,
        "overlap": overlap_name(schedule.overlap), "missed_policy": missed_text(schedule.missed),
        "paused": schedule.paused, "note": schedule.note,
        "pending": status.pending.map(|id| id.to_string()), "next": next, "last": last,
        "lasts_until": status.lasts_until.map(|at| at.to_string()),
        "last_success": status.last_success.as_ref().map(success_of),
        "expect_within": schedule.expect_within.map(exact_span),
        "overdue_since": status.overdue_since.map(|at| at.to_string()),
        "schedule": document(status),
        "dry": status.dry, "ended": status.ended,
        "fired": status.fired, "skipped": status.skipped, "missed": status.missed,
        "tz_database": status.tz_database,
    })
}
