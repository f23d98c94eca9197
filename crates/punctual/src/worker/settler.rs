//! Hands in how jobs ended: one call in flight, whatever ends meanwhile goes with the next, no timer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::health::Loop;
use super::runtime::{HURRIED_PAUSE, Phase, Runtime};
use super::slots::Ended;
use crate::backoff::Backoff;
use crate::engine::{Extend, PageReport, Settle, SettleVerdict, Settlement};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Effect, Outcome};

/// Batches that are to be answered before anything else is sent: kept outside of the loop, so
/// that a loop that is started again sends the same content.
#[derive(Default)]
pub(super) struct Outbox(VecDeque<Batch>);

struct Batch {
    ended: Vec<Ended>,
    /// Whether what the engine refused was taken out of it.
    plain: bool,
    /// Whether the engine did not answer: such ones stand behind those that were not sent yet.
    unanswered: bool,
}

impl Batch {
    fn new(ended: Vec<Ended>) -> Self {
        Self {
            ended,
            plain: false,
            unanswered: false,
        }
    }

    /// One batch per page.
    fn apart(self) -> Vec<Self> {
        let plain = self.plain;
        let mut pages: Vec<Self> = Vec::new();
        for ended in self.ended {
            let token = ended.lease.token;
            match pages.last_mut() {
                Some(page) if page.ended[0].lease.token == token => page.ended.push(ended),
                _ => pages.push(Self {
                    plain,
                    ..Self::new(vec![ended])
                }),
            }
        }
        pages
    }
}

pub(super) async fn run(rt: Arc<Runtime>) {
    let mut backoff = Backoff::engine();
    loop {
        rt.vitals.beat(Loop::Settler);
        let mut outbox = rt.outbox.lock().await;
        if outbox.0.front().is_none_or(|batch| batch.unanswered) {
            let ended = rt.board().take_ended();
            if !ended.is_empty() {
                outbox.0.push_front(Batch::new(ended));
            }
        }
        let Some(batch) = outbox.0.front() else {
            drop(outbox);
            if rt.phase() == Phase::Over {
                return;
            }
            rt.sleep_until(None, &rt.settle).await;
            continue;
        };
        match send(&rt, batch).await {
            Ok(verdicts) => {
                backoff.reset();
                rt.vitals.well(Loop::Settler);
                if let Some(batch) = outbox.0.pop_front() {
                    note(&rt, &batch.ended, &verdicts);
                    rt.board().settled(&batch.ended);
                }
                rt.changed();
            }
            Err(error) if is_refusal(&error) => {
                if let Some(batch) = outbox.0.pop_front() {
                    divide(&rt, &mut outbox.0, batch, &error);
                }
            }
            Err(error) => {
                tracing::warn!(%error, jobs = batch.ended.len(), "settle is sent again");
                rt.vitals.trouble(Loop::Settler, &error);
                if !set_back(&mut outbox.0) {
                    continue;
                }
                drop(outbox);
                match rt.phase() {
                    Phase::Over => return,
                    Phase::Releasing => rt.pause(HURRIED_PAUSE, Phase::Over).await,
                    _ => rt.pause(backoff.pause(), Phase::Releasing).await,
                }
            }
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
    let (settle, places) = pages(&batch.ended);
    let call = rt.engine.settle(&rt.namespace, settle);
    let settled = rt.answer("settle", SETTLE_SECONDS_MAX, call).await?;
    let verdict = |(page, at): (usize, usize)| settled.verdicts.get(page)?.get(at).cloned();
    places
        .into_iter()
        .map(|place| verdict(place).ok_or_else(missing_verdict))
        .collect()
}

/// Sends the notes that came after the last heartbeat by one of their own: a settlement has none.
async fn send_notes(rt: &Runtime, ended: &[Ended]) -> Result<()> {
    let mut beats: Vec<Extend> = Vec::new();
    for ended in ended {
        let Some(note) = &ended.note else { continue };
        let token = ended.lease.token;
        let note = (ended.settlement.id, note.clone());
        match beats.iter_mut().find(|beat| beat.token == token) {
            Some(beat) => beat.progress.push(note),
            None => beats.push(Extend {
                token,
                lease: rt.lease(),
                progress: vec![note],
                jobs: Vec::new(),
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

/// One report per page, as they come page by page, and where in them each job is.
fn pages(ended: &[Ended]) -> (Settle, Vec<(usize, usize)>) {
    let mut settle = Settle::default();
    let mut places = Vec::with_capacity(ended.len());
    for ended in ended {
        let token = ended.lease.token;
        if settle.pages.last().is_none_or(|page| page.token != token) {
            settle.pages.push(PageReport::new(token, Vec::new()));
        }
        let page = settle.pages.len() - 1;
        let report = &mut settle.pages[page];
        places.push((page, report.settlements.len()));
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
    for (ended, verdict) in ended.iter().zip(verdicts) {
        let settlement = &ended.settlement;
        match verdict {
            SettleVerdict::LeaseLost => {
                rt.meters.lease_lost(1);
                tracing::warn!(
                    id = %settlement.id,
                    attempt = settlement.attempt,
                    token = %ended.lease.token,
                    "lease lost before its outcome was handed in; the job runs again"
                );
            }
            _ => {
                warn_of_effects(settlement, verdict);
                rt.meters.settled(ended.labels, &settlement.outcome);
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

/// What was not put in although it was sent: the handler is over, and cannot be told.
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

/// Sets back the batch that was not answered, so that it does not hold up others: part of the engine may be away. One
/// of several pages comes apart first, page by page, each to be sent at once. Whether there is nothing to be sent at once.
fn set_back(outbox: &mut VecDeque<Batch>) -> bool {
    let Some(batch) = outbox.pop_front() else {
        return true;
    };
    let mut pages = batch.apart();
    if let [page] = &mut pages[..] {
        page.unanswered = true;
        outbox.extend(pages);
        return true;
    }
    for page in pages.into_iter().rev() {
        outbox.push_front(page);
    }
    false
}

/// A refused batch is cut in half until the one that is refused stands alone; that one is handed
/// in as a failure without what it brought along, so that it cannot hold up the others.
fn divide(rt: &Runtime, outbox: &mut VecDeque<Batch>, mut batch: Batch, error: &Error) {
    if batch.ended.len() > 1 {
        let second = batch.ended.split_off(batch.ended.len() / 2);
        outbox.push_front(Batch {
            plain: batch.plain,
            ..Batch::new(second)
        });
        outbox.push_front(batch);
        return;
    }
    let job = batch.ended.first().map(|ended| ended.settlement.id);
    if batch.plain {
        tracing::error!(%error, ?job, "engine refuses even a plain failure; the lease runs out");
        rt.board().settled(&batch.ended);
        return;
    }
    tracing::error!(%error, ?job, "engine refuses how the job ended; it is handed in as a failure");
    for ended in &mut batch.ended {
        let settlement = &mut ended.settlement;
        settlement.outcome = Outcome::Retry { after: None };
        settlement.error = Some(format!("engine refused how it ended: {error}"));
        settlement.result = None;
        settlement.effects.clear();
        settlement.stopped = None;
    }
    batch.plain = true;
    outbox.push_front(batch);
}

#[cfg(test)]
mod tests;
