//! Pauses, resumes, runs, skips, backfills and removes schedules.

use punctual::engine::{EnqueueVerdict, Receipt};
use punctual::schedule::ScheduleStatus;
use punctual::time::{Timestamp, format_local};

use super::{at_version, missing, schedules, show};
use crate::args::Session;
use crate::failure::Result;
use crate::output::{Columns, Object, counted, object};

pub(super) async fn pause(session: &Session, name: &str, note: &str) -> Result<()> {
    let status = schedules(session).pause(name, note).await?;
    say(session, &status, format!("{name} is paused")).await
}

pub(super) async fn resume(session: &Session, name: &str) -> Result<()> {
    let status = schedules(session).resume(name).await?;
    say(session, &status, format!("{name} goes on")).await
}

pub(super) async fn skip(session: &Session, name: &str) -> Result<()> {
    let status = schedules(session).skip_next(name).await?;
    let next = match status.next.first() {
        Some(at) => format!(
            "skipped one run of {name}; the next is {}",
            format_local(*at)
        ),
        None => format!("skipped the last run of {name}"),
    };
    say(session, &status, next).await
}

async fn say(session: &Session, status: &ScheduleStatus, text: String) -> Result<()> {
    if session.out.is_json() {
        return session.out.json(&show::object_of(status));
    }
    session.out.line(text)?;
    session.announce_durability(session.durability().await?);
    Ok(())
}

pub(super) async fn run(session: &Session, name: &str) -> Result<()> {
    let receipt = schedules(session).run_now(name).await?;
    if session.out.is_json() {
        return session.out.json(&receipt_object(&receipt));
    }
    match receipt.verdict {
        EnqueueVerdict::Merged(other) => {
            let text = format!("not run: {other} is on its way, and {name} lets no two overlap");
            session.out.line(text)
        }
        _ => {
            session.out.line(format!("{} runs now", receipt.id))?;
            session.announce_durability(session.durability().await?);
            Ok(())
        }
    }
}

fn receipt_object(receipt: &Receipt) -> Object {
    let holder = match receipt.verdict {
        EnqueueVerdict::Merged(id) => Some(id.to_string()),
        _ => None,
    };
    object!({
        "id": receipt.id.to_string(), "verdict": receipt.verdict.name(), "holder": holder,
        "due": receipt.due.to_string(),
    })
}

pub(super) async fn backfill(
    session: &Session,
    name: &str,
    from: Timestamp,
    to: Timestamp,
    dry_run: bool,
) -> Result<()> {
    let schedules = schedules(session);
    let runs: Vec<(Timestamp, Option<Receipt>)> = match dry_run {
        true => {
            let instants = schedules.instants(name, from, to).await?;
            instants.into_iter().map(|at| (at, None)).collect()
        }
        false => {
            let runs = schedules.backfill(name, from, to).await?;
            let runs = runs.into_iter();
            runs.map(|(at, receipt)| (at, Some(receipt))).collect()
        }
    };
    let verdict =
        |receipt: &Option<Receipt>| receipt.map_or("would run", |receipt| receipt.verdict.name());
    if session.out.is_json() {
        let run = |(at, receipt): &(Timestamp, Option<Receipt>)| {
            object!({
                "at": at.to_string(), "id": receipt.map(|receipt| receipt.id.to_string()),
                "verdict": receipt.map(|receipt| receipt.verdict.name()),
            })
        };
        let runs: Vec<Object> = runs.iter().map(run).collect();
        return session
            .out
            .json(&object!({ "name": name, "dry_run": dry_run, "runs": runs }));
    }
    let columns = Columns {
        names: &["instant", "verdict"],
        ..Columns::default()
    };
    let count = runs.len() as u64;
    let rows = runs.iter();
    let rows = rows.map(|(at, receipt)| vec![at.to_string(), verdict(receipt).to_owned()]);
    session.out.table(columns, rows.collect())?;
    if dry_run {
        let text = match count {
            0 => "no past instant of it is in that span; only past ones run".to_owned(),
            _ => format!(
                "at most {} would be enqueued, as a run that is known is not enqueued again; leave out --dry-run",
                counted(count, "job")
            ),
        };
        session.out.note(text);
    }
    Ok(())
}

pub(super) async fn remove(session: &Session, name: &str, if_version: Option<u64>) -> Result<()> {
    if !at_version(session, if_version).remove(name).await? {
        return Err(missing(name));
    }
    if session.out.is_json() {
        return session
            .out
            .json(&object!({ "name": name, "removed": true }));
    }
    session.out.line(format!("removed {name}"))?;
    session.announce_durability(session.durability().await?);
    Ok(())
}
