//! How an attempt's end becomes a settlement: plain decisions, no time, no engine.

use bytes::Bytes;

use crate::engine::Settlement;
use crate::job::{Effect, JobRecord, Outcome, Stop};
use crate::push;
use crate::time::format_span;
use crate::worker::Verdict;
use crate::worker::context::{Attempt, Interrupt};

/// Why a run is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its cancel was requested.
    Requested,
    /// Its timeout has passed.
    TimedOut,
    /// Its lease could not be extended in time; the engine may still hold it for us.
    Unsure,
    /// Its lease has ended, and another worker may have the job: nothing is settled.
    Lost,
    /// The worker shuts down.
    Shutdown,
}

impl Cause {
    pub(super) fn interrupt(self) -> Interrupt {
        match self {
            Self::Requested => Interrupt::CancelRequested,
            Self::TimedOut => Interrupt::TimedOut,
            Self::Unsure | Self::Lost => Interrupt::LeaseLost,
            Self::Shutdown => Interrupt::ShuttingDown,
        }
    }
}

/// What to settle for an attempt that ended with a verdict of its own, or (`None`) was aborted.
pub(super) fn settlement(
    attempt: &Attempt,
    verdict: Option<Verdict>,
    cause: Option<Cause>,
) -> Option<Settlement> {
    // What is cut short or failed brings nothing along: the next attempt does it again.
    let is_whole = verdict.as_ref().is_some_and(|own| own.error.is_none());
    let verdict = match cause {
        None => verdict.unwrap_or_else(|| Verdict::retry("handler's task was aborted")),
        Some(Cause::Lost) => return None,
        Some(Cause::Requested) => stopped_on_request(verdict),
        Some(Cause::TimedOut) => timed_out(&attempt.job, verdict),
        // An attempt that we cut short is no failure of the job, unless it is one for good.
        Some(Cause::Unsure | Cause::Shutdown) => verdict
            .filter(|verdict| verdict.error.is_none() || verdict.outcome == Outcome::Dead)
            .unwrap_or_else(|| Verdict::new(Outcome::Released)),
    };
    let mut settlement =
        Settlement::new(attempt.job.id, attempt.job.attempt, verdict.outcome.clone());
    let error_bytes_max = attempt.limits().result_bytes;
    settlement.error = verdict.error_text().map(|text| cut(text, error_bytes_max));
    settlement.stopped = verdict.stopped;
    // An attempt that waits brings nothing along either: the next one runs through that again.
    let waits = matches!(verdict.outcome, Outcome::Hold { .. });
    if is_whole && !waits {
        let output = attempt.take_output();
        settlement.effects = output.effects;
        attempt.send_messages(output.messages);
        if verdict.outcome == Outcome::Completed {
            let result = verdict.result.or(output.result);
            settlement.result = result.filter(|bytes| fits(attempt, bytes.len()));
        }
    }
    // A waiter for the end receives every one, errors too.
    let callback = push::callback(&attempt.job, &settlement);
    let callback = callback.map(|job| Effect::Enqueue(Box::new(job)));
    settlement.effects.extend(callback);
    Some(settlement)
}

/// Completed and dead stay; whatever else it said, the job was asked to stop and did.
fn stopped_on_request(verdict: Option<Verdict>) -> Verdict {
    let Some(mut verdict) = verdict else {
        return Verdict::new(Outcome::Cancelled).stopped(Stop::Aborted);
    };
    if !matches!(verdict.outcome, Outcome::Completed | Outcome::Dead) {
        verdict.outcome = Outcome::Cancelled;
        verdict.stopped = verdict.stopped.or(Some(Stop::Token));
    }
    verdict
}

fn timed_out(job: &JobRecord, verdict: Option<Verdict>) -> Verdict {
    let after = job.timeout.map(format_span).unwrap_or_default();
    match verdict {
        None => Verdict::retry(format!(
            "timed out after {after}; its handler ignored that and was aborted"
        )),
        Some(verdict) if verdict.outcome == Outcome::Dead => verdict,
        Some(verdict) => match verdict.error_text() {
            None => verdict,
            Some(text) => Verdict {
                error: Some(format!("timed out after {after}: {text}").into()),
                ..verdict
            },
        },
    }
}

/// A result that is too large is no reason to do the job again.
fn fits(attempt: &Attempt, bytes: usize) -> bool {
    let fits = bytes <= attempt.limits().result_bytes;
    if !fits {
        tracing::warn!(
            id = %attempt.job.id,
            bytes,
            limit = attempt.limits().result_bytes,
            "result is over the limit and left out; store it elsewhere and keep a reference"
        );
    }
    fits
}

/// At most that many bytes, whole characters.
fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rfind(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
    text
}

/// Bytes that a settlement adds to its call.
pub(super) fn size(settlement: &Settlement) -> usize {
    let effects = settlement.effects.iter().map(|effect| match effect {
        Effect::Enqueue(job) => job.payload.len(),
        Effect::Clear { name, .. } => name.len(),
        Effect::Cancel { queue, key } => queue.len() + key.len(),
        Effect::Signal { name, payload, .. } => name.len() + payload.len(),
    });
    let result = settlement.result.as_ref().map_or(0, Bytes::len);
    let log: usize = settlement.log.iter().map(String::len).sum();
    result + settlement.error.as_ref().map_or(0, String::len) + log + effects.sum::<usize>()
}

#[cfg(test)]
mod tests;
