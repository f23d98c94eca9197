//! Lists flows, and shows one with its steps.

use punctual::JobState;
use punctual::flow::{FlowCounts, FlowStatus, StepStatus};

use super::{missing, queue};
use crate::args::Session;
use crate::failure::Result;
use crate::output::{Columns, Object, ago, count, object, plain};

/// Steps that are shown to a person.
const SHOWN: usize = 200;

pub(super) async fn list(session: &Session) -> Result<()> {
    let found = queue(session).flows().list().await?;
    if session.out.is_json() {
        let all: Vec<Object> = found.iter().map(object_of).collect();
        return session.out.json(&object!({ "flows": all }));
    }
    if found.is_empty() {
        return session.out.line("no flows");
    }
    let now = session.engine.info().await?.now;
    let row = |status: &FlowStatus| {
        vec![
            status.name.clone(),
            status.state.to_string(),
            count(status.counts.steps),
            count(status.counts.open),
            count(status.counts.completed),
            count(status.counts.skipped),
            count(status.counts.cancelled + status.counts.dead),
            ago(status.created_at, now),
        ]
    };
    let columns = Columns {
        names: &[
            "name",
            "state",
            "steps",
            "open",
            "completed",
            "skipped",
            "failed",
            "sent",
        ],
        ..Columns::default()
    };
    session.out.table(columns, found.iter().map(row).collect())
}

pub(super) async fn one(session: &Session, name: &str) -> Result<()> {
    let flows = queue(session).flows();
    let status = flows.get(name).await?.ok_or_else(|| missing(name))?;
    let steps = flows.steps(name).await?;
    if session.out.is_json() {
        let mut flow = object_of(&status);
        let steps: Vec<Object> = steps.iter().map(step_object).collect();
        flow.0.push(("steps", crate::output::raw(&steps)));
        return session.out.json(&flow);
    }
    let now = session.engine.info().await?.now;
    let mut card = vec![
        ("state", status.state.to_string()),
        ("on failure", status.on_failure.to_string()),
        ("sent", ago(status.created_at, now)),
    ];
    if let Some(at) = status.settled_at {
        card.push(("settled", ago(at, now)));
    }
    for callback in &status.callbacks {
        let fired = match callback.fired {
            true => "runs or ran",
            false if status.settled_at.is_some() => "does not run",
            false => "waits",
        };
        card.push((callback.role.name(), format!("{}\n{fired}", callback.id)));
    }
    session.out.card(&card)?;
    let row = |step: &StepStatus| {
        let state = match step.skipped {
            true => "skipped",
            false => step.state.name(),
        };
        let waits = match step.waits {
            0 => String::new(),
            waits => count(u64::from(waits)),
        };
        vec![
            step.name.clone(),
            state.into(),
            waits,
            step.id.to_string(),
            short(step),
        ]
    };
    let columns = Columns {
        names: &["step", "state", "waits for", "job", "result"],
        cut: "result",
        optional: &["result"],
        ..Columns::default()
    };
    let rows = steps.iter().take(SHOWN).map(row).collect();
    session.out.table(columns, rows)?;
    if steps.len() > SHOWN {
        let more = steps.len() - SHOWN;
        session
            .out
            .note(format!("and {more} more; `-o json` has all"));
    }
    Ok(())
}

/// Characters of a result that the table shows.
const RESULT_SHOWN: usize = 40;

/// The result of a step in one line.
fn short(step: &StepStatus) -> String {
    let Some(result) = &step.result else {
        return String::new();
    };
    let Ok(text) = std::str::from_utf8(result) else {
        return format!("{} bytes", result.len());
    };
    let text = plain(text);
    match text.char_indices().nth(RESULT_SHOWN) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.into_owned(),
    }
}

/// A flow for programs.
pub(super) fn object_of(status: &FlowStatus) -> Object {
    let callbacks = status.callbacks.iter().map(
        |one| object!({ "on": one.role.name(), "id": one.id.to_string(), "fired": one.fired }),
    );
    let callbacks: Vec<Object> = callbacks.collect();
    object!({
        "name": status.name, "state": status.state.name(),
        "counts": counts_object(&status.counts), "on_failure": status.on_failure.name(),
        "created_at": status.created_at.to_string(),
        "sealed_at": status.sealed_at.map(|at| at.to_string()),
        "settled_at": status.settled_at.map(|at| at.to_string()),
        "until": status.until.map(|at| at.to_string()),
        "callbacks": callbacks,
    })
}

pub(super) fn counts_object(counts: &FlowCounts) -> Object {
    object!({
        "steps": counts.steps, "open": counts.open, "completed": counts.completed,
        "skipped": counts.skipped, "cancelled": counts.cancelled, "dead": counts.dead,
    })
}

fn step_object(step: &StepStatus) -> Object {
    let result = step.result.as_ref();
    let result = result.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let outside = step.outside.iter().map(|one| {
        object!({
            "job": one.job.to_string(), "on": one.on.name(), "met": one.met,
            "state": one.state.map(JobState::name),
        })
    });
    let outside: Vec<Object> = outside.collect();
    object!({
        "name": step.name, "id": step.id.to_string(), "state": step.state.name(),
        "skipped": step.skipped, "waits": step.waits, "outside": outside, "result": result,
    })
}
