//! `punctual queues delete`: a queue goes, with `--purge` its jobs before it.

use punctual::engine::{Control, Controlled, Counts};

use super::{clean, stats};
use crate::args::Session;
use crate::failure::{Exit, Failure, Result};
use crate::output::{counted, object};

/// Deletes a queue, or shows what it would do.
pub(super) async fn run(session: &Session, queue: &str, purge: bool, yes: bool) -> Result<()> {
    let found = stats(session, vec![queue.to_owned()]).await?;
    let Some(counts) = found.first().map(|queue| queue.counts) else {
        let message = format!("no queue {queue}");
        return Err(Failure::new(Exit::NotFound, "not_found", message)
            .hint("`punctual queues list` shows the queues"));
    };
    let jobs: u64 = counts.0.iter().sum();
    if !yes {
        return say(session, queue, purge, &counts);
    }
    if purge && jobs > 0 {
        clean::all(session, queue).await?;
    }
    let control = Control::DeleteQueue {
        queue: queue.to_owned(),
    };
    let deleted = session.engine.control(&session.namespace, control).await?;
    let deleted = deleted == Controlled::Done(true);
    let durability = session.durability().await?;
    if session.out.is_json() {
        return session.out.json(&object!({
            "queue": queue, "dry_run": false, "deleted": deleted, "jobs": jobs,
            "durability": durability.to_string(),
        }));
    }
    session.out.line(match (deleted, jobs) {
        (false, _) => format!("{queue} was deleted before"),
        (true, 0) => format!("deleted {queue}"),
        (true, jobs) => format!("deleted {queue} and {} of it", counted(jobs, "job")),
    })?;
    session.announce_durability(durability);
    Ok(())
}

fn say(session: &Session, queue: &str, purge: bool, counts: &Counts) -> Result<()> {
    let jobs: u64 = counts.0.iter().sum();
    if jobs > 0 && !purge {
        return Err(Failure::from(Control::queue_has_jobs(queue, counts))
            .hint("add --purge to cancel waiting jobs and delete kept ones"));
    }
    if session.out.is_json() {
        return session.out.json(&object!({
            "queue": queue, "dry_run": true, "deleted": false, "jobs": jobs,
        }));
    }
    let with = match jobs {
        0 => String::new(),
        jobs => format!(" and {} of it", counted(jobs, "job")),
    };
    session.out.line(format!("would delete {queue}{with}"))?;
    session.out.note("nothing was changed; add --yes to do it");
    Ok(())
}
