//! `punctual queues purge --older-than|--settled`: what is old or has ended goes, by edits with a
//! filter.

use std::time::Duration;

use punctual::JobState;
use punctual::engine::{Action, Edit, Filter, Select};

use crate::args::Session;
use crate::failure::Result;
use crate::output::{counted, object};
use crate::progress::Progress;

/// Held jobs first, so that no follower starts because its holder goes.
const WAITING: [JobState; 3] = [JobState::Held, JobState::Scheduled, JobState::Ready];
const SETTLED: [JobState; 3] = [JobState::Completed, JobState::Cancelled, JobState::Dead];

/// Cancels the waiting jobs of a queue, or deletes its settled ones; says how many.
pub(super) async fn run(
    session: &Session,
    queue: &str,
    older_than: Option<Duration>,
    settled: bool,
    yes: bool,
) -> Result<()> {
    let (states, action, verb) = match settled {
        true => (SETTLED, Action::Delete, "delete"),
        false => (WAITING, Action::Cancel, "cancel"),
    };
    let mut changed = 0;
    let progress = Progress::new(session.out, 0, "jobs");
    for state in states {
        let filter = Filter::default()
            .queue(queue.to_owned())
            .state(Some(state))
            .older_than(older_than);
        let report = |done| progress.set(changed + done);
        changed += edit_all(session, filter, &action, !yes, report).await?;
    }
    progress.finish();
    let durability = session.durability().await?;
    if session.out.is_json() {
        return session.out.json(&object!({
            "queue": queue, "dry_run": !yes, "settled": settled, "changed": changed,
            "durability": durability.to_string(),
        }));
    }
    let jobs = counted(changed, "job");
    if yes {
        let done = if settled { "deleted" } else { "cancelled" };
        session.out.line(format!("{done} {jobs} of {queue}"))?;
        session.announce_durability(durability);
        return Ok(());
    }
    session
        .out
        .line(format!("would {verb} {jobs} of {queue}"))?;
    session.out.note("nothing was changed; add --yes to do it");
    Ok(())
}

/// Cancels every waiting job of a queue, and deletes every settled one.
pub(super) async fn all(session: &Session, queue: &str) -> Result<()> {
    let waiting = WAITING.map(|state| (state, Action::Cancel));
    let settled = SETTLED.map(|state| (state, Action::Delete));
    let mut changed = 0;
    let progress = Progress::new(session.out, 0, "jobs");
    for (state, action) in waiting.into_iter().chain(settled) {
        let filter = Filter::default().queue(queue.to_owned()).state(Some(state));
        let report = |done| progress.set(changed + done);
        changed += edit_all(session, filter, &action, false, report).await?;
    }
    progress.finish();
    Ok(())
}

/// Walks to the end of what a filter finds; answers how many jobs it changed, or would.
async fn edit_all(
    session: &Session,
    filter: Filter,
    action: &Action,
    dry_run: bool,
    report: impl Fn(u64),
) -> Result<u64> {
    let mut changed = 0;
    let mut cursor = None;
    loop {
        let select = Select::Filter {
            filter: filter.clone(),
            cursor,
            limit: 1_000,
        };
        let edit = Edit::new(select, action.clone()).dry_run(dry_run);
        let edited = session.engine.edit(&session.namespace, edit).await?;
        let changes = edited.verdicts.iter().filter(|(_, v)| v.is_change());
        changed += changes.count() as u64;
        report(changed);
        cursor = edited.cursor;
        if cursor.is_none() {
            return Ok(changed);
        }
    }
}
