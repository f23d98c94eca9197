//! Heartbeats: each lease is extended at a third of its length, every due lease in one call.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;

use super::ending::Cause;
use super::health::Loop;
use super::runtime::{Phase, Runtime};
use super::slots::{Beat, Board};
use crate::backoff::Backoff;
use crate::engine::{Extend, ExtendVerdict};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, Outcome, Stop};
use crate::time::{millis, within};

/// Calls at once, where each lease is extended by one of its own.
const CALLS_MAX: usize = 64;

pub(super) async fn run(rt: Arc<Runtime>) {
    let mut backoff = Backoff::new(millis(50), millis(1_000));
    let mut apart_until = Duration::ZERO;
    while rt.phase() < Phase::Over {
        rt.activity.beat(Loop::Leases);
        let now = rt.now();
        let beats = rt.board().due_beats(now, rt.lease_duration());
        if beats.is_empty() {
            let next = rt.board().next_beat();
            rt.sleep_until(next, &rt.beats).await;
            continue;
        }
        let apart = now < apart_until;
        let together = !apart && beats.len() > 1;
        let extended = match apart {
            true => extend_each(&rt, beats, now).await,
            false => extend(&rt, beats, now, rt.lease_duration() / 3).await,
        };
        if extended.is_err() {
            // Part of the engine may be away: the leases of the others are not to be lost with it.
            apart_until = rt.now() + rt.lease_duration();
        }
        match extended {
            Ok(()) => {
                backoff.reset();
                rt.activity.well(Loop::Leases);
            }
            Err(_) if together => {}
            Err(error) => {
                // The watch stops the handlers if this goes on for too long.
                tracing::warn!(%error, "leases are not extended; trying again");
                rt.trouble(Loop::Leases, &error);
                let pause = backoff.pause().min(rt.lease_duration() / 12);
                rt.pause(pause, Phase::Over).await;
            }
        }
    }
}

/// Prolongs each lease by a call of its own; the error of one that was not. A quarter of the lease
/// for that, and a twelfth for a pause, leave one that falls due meanwhile time enough.
async fn extend_each(rt: &Runtime, beats: Vec<(u64, Extend)>, sent: Duration) -> Result<()> {
    let limit = rt.lease_duration() / 4;
    let calls = beats
        .into_iter()
        .map(|beat| extend(rt, vec![beat], sent, limit));
    let mut calls = stream::iter(calls).buffer_unordered(CALLS_MAX);
    let mut all = Ok(());
    while let Some(one) = calls.next().await {
        all = all.and(one);
    }
    all
}

async fn extend(
    rt: &Runtime,
    beats: Vec<(u64, Extend)>,
    sent: Duration,
    limit: Duration,
) -> Result<()> {
    let (keys, leases): (Vec<u64>, Vec<Extend>) = beats.into_iter().unzip();
    let asked = rt.engine.extend(&rt.namespace, leases);
    let extended = match within(limit, asked).await {
        Some(extended) => extended,
        None => {
            let message = "engine did not answer within a part of the lease";
            Err(Error::new(ErrorKind::EngineUnavailable, message)
                .operation("extend")
                .with("waited", crate::time::exact_span(limit)))
        }
    };
    let extended = extended.inspect_err(|_| rt.board().repeat_progress(&keys))?;
    let mut lost = 0;
    {
        let mut board = rt.board();
        let beat = Beat::new(sent, rt.lease_duration());
        board.logs_arrived(&keys);
        for (key, verdict) in keys.iter().zip(&extended.verdicts) {
            lost += board.extended(*key, verdict, beat, rt.now());
        }
    }
    if lost > 0 {
        rt.metrics.lease_lost(lost);
        tracing::warn!(jobs = lost, "leases lost; their handlers are stopped");
    }
    rt.watch.notify_one();
    rt.settle.notify_one();
    rt.changed();
    Ok(())
}

impl Board {
    /// The leases to extend by that instant, each with the jobs still worked on.
    fn due_beats(&self, now: Duration, lease_duration: Duration) -> Vec<(u64, Extend)> {
        let due = self.leases.iter().filter(|(_, lease)| lease.beat_at <= now);
        // In their order: they are searched below.
        let keys: Vec<u64> = due.map(|(key, _)| *key).take(self.batch_items()).collect();
        let mut extends: Vec<Extend> = keys
            .iter()
            .map(|key| Extend {
                token: self.leases[key].held.token,
                lease_duration,
                progress: Vec::new(),
                jobs: Vec::new(),
                log: Vec::new(),
                memos: Vec::new(),
            })
            .collect();
        for waiting in &self.ahead {
            if let Ok(at) = keys.binary_search(&waiting.lease) {
                extends[at].jobs.push(waiting.ctx.id());
            }
        }
        for run in self.runs.values() {
            if let Ok(at) = keys.binary_search(&run.lease) {
                let attempt = run.ctx.shared();
                extends[at].jobs.push(attempt.job.id);
                let note = attempt.progress_to_send();
                extends[at]
                    .progress
                    .extend(note.map(|note| (attempt.job.id, note)));
                let lines = attempt.log_to_send();
                extends[at]
                    .log
                    .extend(lines.map(|lines| (attempt.job.id, lines)));
            }
        }
        keys.into_iter().zip(extends).collect()
    }

    /// The notes of these leases did not arrive: they go with the next beat.
    fn repeat_progress(&self, leases: &[u64]) {
        for run in self.runs.values().filter(|run| leases.contains(&run.lease)) {
            run.ctx.shared().repeat_progress();
        }
    }

    /// The lines that these leases' heartbeat carried are with the engine.
    fn logs_arrived(&mut self, leases: &[u64]) {
        for run in self.runs.values().filter(|run| leases.contains(&run.lease)) {
            run.ctx.shared().log_arrived();
        }
    }

    fn next_beat(&self) -> Option<Duration> {
        self.leases.values().map(|lease| lease.beat_at).min()
    }

    /// Takes in the answer for one lease; answers how many jobs were lost.
    fn extended(&mut self, key: u64, verdict: &ExtendVerdict, beat: Beat, now: Duration) -> usize {
        match verdict {
            ExtendVerdict::Extended {
                deadline,
                lost,
                cancel_requested,
            } => {
                if let Some(lease) = self.leases.get_mut(&key) {
                    lease.held.extend(*deadline);
                    lease.beat_at = beat.beat_at;
                    lease.trip_at = beat.trip_at;
                    lease.abort_at = beat.abort_at;
                }
                self.stop_jobs(key, cancel_requested, Cause::Requested, now);
                self.stop_jobs(key, lost, Cause::Lost, now)
            }
            ExtendVerdict::LeaseLost => {
                let jobs: Vec<JobId> = self.jobs_of(key).collect();
                let lost = self.stop_jobs(key, &jobs, Cause::Lost, now);
                self.leases.remove(&key);
                lost
            }
        }
    }

    fn jobs_of(&self, lease: u64) -> impl Iterator<Item = JobId> {
        let ahead = self.ahead.iter().filter(move |job| job.lease == lease);
        let runs = self.runs.values().filter(move |run| run.lease == lease);
        ahead
            .map(|waiting| waiting.ctx.id())
            .chain(runs.map(|run| run.ctx.id()))
    }

    /// Stops those of the jobs that run or wait; answers how many.
    fn stop_jobs(&mut self, lease: u64, jobs: &[JobId], cause: Cause, now: Duration) -> usize {
        if jobs.is_empty() {
            return 0;
        }
        let waiting =
            self.take_ahead(|waiting| waiting.lease == lease && jobs.contains(&waiting.ctx.id()));
        for job in &waiting {
            match cause {
                Cause::Lost => self.drop_ahead(job),
                _ => self.end_ahead(job, Outcome::Cancelled, Some(Stop::BeforeStart)),
            }
        }
        let abort_at = now + self.grace();
        let running: Vec<u64> = self
            .runs
            .iter()
            .filter(|(_, run)| run.lease == lease && jobs.contains(&run.ctx.id()))
            .map(|(key, _)| *key)
            .collect();
        let stopped = running
            .iter()
            .filter(|key| self.stop(**key, cause, abort_at))
            .count();
        waiting.len() + stopped
    }
}

#[cfg(test)]
mod tests;
