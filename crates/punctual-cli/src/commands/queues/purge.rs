//! `punctual queues purge`: cancels what waits in a queue, and reports how far it is.

use punctual::engine::{Control, Controlled};
use punctual::{Engine, Namespace};

use crate::args::Session;
use crate::failure::{Exit, Failure, Result};
use crate::output::{counted, object};
use crate::progress::Progress;

/// The most jobs that one call cancels.
const STEP: usize = 1_000;

/// Cancels every waiting job of a queue, or counts them.
pub(super) async fn run(session: &Session, queue: String, yes: bool) -> Result<()> {
    let pending: u64 = super::stats(session, vec![queue.clone()])
        .await?
        .iter()
        .map(|queue| queue.counts.pending())
        .sum();
    if !yes {
        if session.out.is_json() {
            return session
                .out
                .json(&object!({"queue": queue, "dry_run": true, "pending": pending}));
        }
        session.out.line(format!(
            "would cancel {} of {queue}",
            counted(pending, "job")
        ))?;
        session.out.note("nothing was changed; add --yes to do it");
        return Ok(());
    }
    let durability = session.durability().await?;
    let progress = Progress::new(session.out, pending, "jobs cancelled");
    let reported = |done| progress.set(done);
    let cancelled = cancel_all(&*session.engine, &session.namespace, &queue, reported).await?;
    progress.finish();
    if session.out.is_json() {
        return session.out.json(&object!({
            "queue": queue, "dry_run": false, "cancelled": cancelled,
            "durability": durability.to_string(),
        }));
    }
    session.out.line(format!(
        "cancelled {} of {queue}",
        counted(cancelled, "job")
    ))?;
    if cancelled > 0 {
        session.announce_durability(durability);
    }
    Ok(())
}

/// Cancels every waiting job; reports after each call how many are cancelled so far.
async fn cancel_all(
    engine: &dyn Engine,
    namespace: &Namespace,
    queue: &str,
    report: impl Fn(u64),
) -> Result<u64> {
    let (mut cursor, mut cancelled) = (None, 0);
    loop {
        let control = Control::Purge {
            queue: queue.to_owned(),
            cursor,
            limit: STEP,
        };
        let Controlled::Purged {
            matched,
            cursor: next,
            ..
        } = engine.control(namespace, control).await?
        else {
            let message = "the engine answered another call";
            return Err(Failure::new(Exit::Failed, "internal", message));
        };
        cancelled += matched as u64;
        report(cancelled);
        cursor = next;
        if cursor.is_none() {
            return Ok(cancelled);
        }
    }
}

#[cfg(test)]
mod tests;
