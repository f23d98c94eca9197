//! `punctual jobs explain`: why a job has not run yet, in words, with what to do about it.

use punctual::engine::{Got, Reason};
use punctual_gateway::in_words;

use super::select::Named;
use super::{lock_waiters, show_named};
use crate::args::Session;
use crate::commands::locks;
use crate::failure::Result;
use crate::output::{Object, ago, object};

const EXAMPLES: &str = "\
Examples:
  punctual jobs explain 01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a
  punctual jobs explain --queue orders --unique order:7";

/// Explain why jobs have not run yet, or how they ended
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    named: Named,
}

impl Args {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let waiters = lock_waiters(session).await;
        show_named(session, &self.named, true, |got, now| match got {
            Got::Job(job, explanation) => {
                let reasons = explanation.map(|e| e.reasons).unwrap_or_default();
                let lock = locks::of_job(&job, &waiters, now);
                if session.out.is_json() {
                    let reasons = reasons.iter().map(as_json).collect::<Vec<_>>();
                    let (id, state) = (job.id.to_string(), job.state.name());
                    let shown = match lock {
                        Some(lock) => {
                            object!({"id": id, "state": state, "reasons": reasons, "lock": lock})
                        }
                        None => object!({"id": id, "state": state, "reasons": reasons}),
                    };
                    return session.out.json(&shown);
                }
                session.out.line(format!("{}  {}", job.id, job.state))?;
                reasons.iter().try_for_each(|reason| {
                    let words = in_words(reason, &job.queue, now);
                    session.out.paragraph(&words)
                })?;
                lock.map_or(Ok(()), |text| session.out.paragraph(&text))
            }
            Got::Tombstone {
                id,
                state,
                finished_at,
                ..
            } => {
                if session.out.is_json() {
                    let reasons = [object!({"reason": state.name()})];
                    return session.out.json(&object!({
                        "id": id.to_string(),
                        "state": state.name(),
                        "reasons": reasons,
                    }));
                }
                let ended = ago(finished_at, now);
                session.out.line(format!("{id}  {state} {ended}"))
            }
            // Of an engine that knows more.
            _ => Ok(()),
        })
        .await
    }
}

fn as_json(reason: &Reason) -> Object {
    match reason {
        Reason::NotDue { due } => object!({"reason": "not_due", "due": due.to_string()}),
        Reason::WaitsForRetry { due, failures } => {
            object!({"reason": "waits_for_retry", "due": due.to_string(), "failures": failures})
        }
        Reason::WaitsForNames { names } => object!({"reason": "waits_for_names", "names": names}),
        Reason::WaitsForHolder { holder } => {
            object!({"reason": "waits_for_holder", "holder": holder.to_string()})
        }
        Reason::QueuePaused => object!({"reason": "queue_paused"}),
        Reason::GroupActive { by } => object!({"reason": "group_active", "by": by.to_string()}),
        Reason::GroupHeld { by, until } => {
            object!({"reason": "group_held", "by": by.to_string(), "until": until.to_string()})
        }
        Reason::Suspect { crashes } => object!({"reason": "suspect", "crashes": crashes}),
        Reason::NoWorker => object!({"reason": "no_worker"}),
        Reason::NoWorkerForKind { kind } => object!({"reason": "no_worker_for_kind", "kind": kind}),
        Reason::InLine { ahead } => object!({"reason": "in_line", "ahead": ahead}),
        Reason::Active {
            worker,
            since,
            until,
        } => object!({
            "reason": "active", "worker": worker.to_string(),
            "since": since.to_string(), "until": until.to_string(),
        }),
        Reason::Completed => object!({"reason": "completed"}),
        Reason::Cancelled { reason } => object!({"reason": "cancelled", "why": reason.name()}),
        Reason::Dead { reason, error } => {
            object!({"reason": "dead", "why": reason.name(), "error": error})
        }
        Reason::NeverReleased { by, state } => object!({
            "reason": "never_released", "by": by.to_string(), "state": state.name(),
        }),
        other => object!({"reason": format!("{other:?}")}),
    }
}
