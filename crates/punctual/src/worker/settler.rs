//! Settles jobs: one call in flight; jobs that end meanwhile go with the next call, without a
//! timer. An unanswered part is sent again lease by lease, with backoff, beside what else has
//! ended.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use self::outbox::Batch;
pub(super) use self::outbox::Outbox;
use super::health::Loop;
use super::publish;
use super::runtime::{HURRIED_PAUSE, Phase, Runtime};
use super::slots::Ended;
use crate::engine::{Extend, LeaseReport, Settle, SettleVerdict, Settlement};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Effect, Outcome};

mod outbox;

pub(super) async fn run(rt: Arc<Runtime>) {
    loop {
        rt.activity.beat(Loop::Settler);
        let mut outbox = rt.outbox.lock().await;
        let ended = rt.board().take_ended();
        outbox.take_in(ended);
        let phase = rt.phase();
        let most = match phase {
            Phase::Dropped => return,
            Phase::Over => Duration::ZERO,
            Phase::Releasing => HURRIED_PAUSE,
            _ => Duration::MAX,
        };
        let due = outbox.due(rt.now(), most);
        if due.is_empty() {
            let next = outbox.next();
            drop(outbox);
            if phase == Phase::Over {
                return;
            }
            rt.sleep_until(next, &rt.settle).await;
            continue;
        }
        let sent = due.iter().map(|place| send(&rt, outbox.at(*place)));
        let answers = join_all(sent).await;
        let unknown = |answer: &Result<_>| matches!(answer, Err(error) if !is_refusal(error));
        let unanswered = answers.iter().any(unknown);
        // From the last one on: places before it stay what they are.
        for (place, answer) in due.into_iter().zip(answers).rev() {
            take(&rt, &mut outbox, place, answer);
        }
        if outbox.is_empty() {
            rt.activity.well(Loop::Settler);
        }
        rt.changed();
        if unanswered && phase == Phase::Over {
            return;
        }
    }
}

/// Takes in the answer to a batch.
fn take(rt: &Runtime, outbox: &mut Outbox, place: usize, answer: Result<Vec<SettleVerdict>>) {
    match answer {
        Ok(verdicts) => {
            let mut batch = outbox.remove(place);
            let again = batch.take_conflicts(&verdicts, rt.now());
            note(rt, &batch.ended, &verdicts);
            rt.board().settled(&batch.ended);
            outbox.put(again);
        }
        Err(error) if is_refusal(&error) => {
            let batch = outbox.remove(place);
            divide(rt, outbox, batch, &error);
        }
        Err(error) => {
            let jobs = outbox.at(place).ended.len();
            tracing::warn!(%error, jobs, "settle is sent again");
            rt.trouble(Loop::Settler, &error);
            outbox.unanswered(place, rt.now());
        }
    }
}

/// Longer than any engine takes; the same content again is `repeated`.
const SETTLE_SECONDS_MAX: u64 = 30;
/// Together they stay below the span after which `health` calls the settler stuck.
const NOTES_SECONDS_MAX: u64 = 10;

/// Sends one batch; answers a verdict per job, in its order.
async fn send(rt: &Runtime, batch: &Batch) -> Result<Vec<SettleVerdict>> {
    send_notes(rt, &batch.ended).await?;
    let (mut settle, places) = leases(&batch.ended);
    publish::add_copies(&batch.ended, &mut settle, &places).await?;
    let call = rt.engine.settle(&rt.namespace, settle);
    let settled = rt.answer("settle", SETTLE_SECONDS_MAX, call).await?;
    let verdict = |(lease, at): (usize, usize)| settled.verdicts.get(lease)?.get(at).cloned();
    let verdicts = places.into_iter();
    let verdicts = verdicts.map(|place| verdict(place).ok_or_else(missing_verdict));
    let verdicts: Vec<_> = verdicts.collect::<Result<_>>()?;
    for (ended, verdict) in batch.ended.iter().zip(&verdicts) {
        publish::count(ended, verdict);
    }
    Ok(verdicts)
}

/// Sends the notes that came after the last heartbeat by one of their own: a settlement has none.
async fn send_notes(rt: &Runtime, ended: &[Ended]) -> Result<()> {
    let mut beats: Vec<Extend> = Vec::new();
    for ended in ended {
        let Some(note) = &ended.note else { continue };
        let token = ended.held.token;
        let note = (ended.settlement.id, note.clone());
        match beats.iter_mut().find(|beat| beat.token == token) {
            Some(beat) => beat.progress.push(note),
            None => beats.push(Extend {
                token,
                lease_duration: rt.lease_duration(),
                progress: vec![note],
                jobs: Vec::new(),
                log: Vec::new(),
                memos: Vec::new(),
            }),
        }
    }
    if beats.is_empty() {
        return Ok(());
    }
    let call = rt.engine.extend(&rt.namespace, beats);
    match rt.answer("extend", NOTES_SECONDS_MAX, call).await {
        // An outcome weighs more than a note.
        Err(error) if is_refusal(&error) => {
            tracing::warn!(%error, "engine refuses a note of progress");
            Ok(())
        }
        sent => sent.map(drop),
    }
}

fn missing_verdict() -> Error {
    let message = "engine answered fewer verdicts than it was sent; please report it";
    Error::new(ErrorKind::Internal, message).operation("settle")
}

/// One report per lease, as they come lease by lease, and where in them each job is.
fn leases(ended: &[Ended]) -> (Settle, Vec<(usize, usize)>) {
    let mut settle = Settle::default();
    let mut places = Vec::with_capacity(ended.len());
    for ended in ended {
        let token = ended.held.token;
        if settle
            .leases
            .last()
            .is_none_or(|lease| lease.token != token)
        {
            settle.leases.push(LeaseReport::new(token, Vec::new()));
        }
        let lease = settle.leases.len() - 1;
        let report = &mut settle.leases[lease];
        places.push((lease, report.settlements.len()));
        report.settlements.push(ended.settlement.clone());
        if let Some((lateness, run_time)) = ended.measured {
            report.lateness_us.push(micros(lateness));
            report.run_time_us.push(micros(run_time));
        }
    }
    (settle, places)
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn note(rt: &Runtime, ended: &[Ended], verdicts: &[SettleVerdict]) {
    let verdicts = verdicts
        .iter()
        .filter(|verdict| !matches!(verdict, SettleVerdict::GuardConflict { .. }));
    for (ended, verdict) in ended.iter().zip(verdicts) {
        let settlement = &ended.settlement;
        match verdict {
            SettleVerdict::LeaseLost => {
                rt.metrics.lease_lost(1);
                tracing::warn!(
                    id = %settlement.id,
                    attempt = settlement.attempt,
                    token = %ended.held.token,
                    "lease lost before its outcome was settled; the job runs again"
                );
            }
            _ => {
                warn_of_effects(settlement, verdict);
                rt.metrics.settled(ended.labels, &settlement.outcome);
                tracing::debug!(
                    id = %settlement.id,
                    attempt = settlement.attempt,
                    outcome = ?settlement.outcome,
                    "settled"
                );
            }
        }
    }
}

/// Logs the effects that the engine refused: the handler has ended, so it cannot get the error.
fn warn_of_effects(settlement: &Settlement, verdict: &SettleVerdict) {
    let SettleVerdict::Settled { effects, .. } = verdict else {
        return;
    };
    for (effect, verdict) in settlement.effects.iter().zip(effects) {
        if let (Effect::Enqueue(job), Some(verdict)) = (effect, verdict)
            && !verdict.is_accepted()
        {
            tracing::warn!(
                id = %settlement.id,
                follow_up = %job.id,
                verdict = verdict.name(),
                "a follow-up was not taken"
            );
        }
    }
}

/// Whether the engine refuses what was sent, as it would again and again.
fn is_refusal(error: &Error) -> bool {
    use ErrorKind::*;
    matches!(
        error.kind(),
        InvalidInput | InvalidName | InvalidDelay | PayloadTooLarge | BatchTooLarge | Unsupported
    )
}

/// A refused batch is cut in half until the one that is refused stands alone; that one is handed
/// in as a failure without what it brought along, so that it cannot hold up the others.
fn divide(rt: &Runtime, outbox: &mut Outbox, mut batch: Batch, error: &Error) {
    if batch.ended.len() > 1 {
        let second = batch.ended.split_off(batch.ended.len() / 2);
        let mut second = Batch::new(second);
        second.plain = batch.plain;
        outbox.put([batch, second]);
        return;
    }
    let job = batch.ended.first().map(|ended| ended.settlement.id);
    if batch.plain {
        tracing::error!(%error, ?job, "engine refuses even a plain failure; the lease runs out");
        rt.board().settled(&batch.ended);
        return;
    }
    tracing::error!(%error, ?job, "engine refuses how the job ended; it is settled as a failure");
    for ended in &mut batch.ended {
        let settlement = &mut ended.settlement;
        settlement.outcome = Outcome::Retry { after: None };
        settlement.error = Some(format!("engine refused how it ended: {error}"));
        settlement.result = None;
        settlement.effects.clear();
        settlement.stopped = None;
        ended.messages.clear();
    }
    batch.plain = true;
    outbox.put([batch]);
}

#[cfg(test)]
mod tests;
