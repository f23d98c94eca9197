//! The reference model: a job and its tombstone.

use std::time::Duration;

use bytes::Bytes;

use crate::engine::{Got, Token};
use crate::job::{
    Hold, JobId, JobRecord, JobState, NewJob, OnRetry, PastAttempt, PastOutcome, content_headers,
};
use crate::time::{Timestamp, days, minutes};

/// How long the tombstone of a settled job lasts, and a kept one at the least.
const SETTLED_WINDOW: Duration = minutes(2);
const CANCELLED_KEPT: Duration = days(1);
const DEAD_KEPT: Duration = days(30);

/// A job of the model: its record, and what the record does not have.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Its record, with `Scheduled` for ready too: [`Entry::state`] distinguishes them.
    pub(crate) record: JobRecord,
    /// Its place among all enqueues.
    pub(crate) seq: u64,
    /// What stands in the record's way.
    pub(crate) turn: Turn,
    /// What is left of it.
    pub(crate) left: Left,
    /// Whether it holds its unique key (for a period, maybe not any more).
    pub(crate) holds_key: bool,
    /// The active job that it follows.
    pub(crate) follows: Option<JobId>,
    /// The due of its first receipt.
    pub(crate) first_due: Timestamp,
    /// Whether the instant asked for had passed when it was enqueued.
    pub(crate) late: bool,
    /// The last token and attempt under which it was settled.
    pub(crate) settled_under: Option<(Token, u32)>,
    /// Queue, kind, payload, content type and headers as sent.
    pub(crate) content: Content,
    /// The last jobs that refreshed it.
    pub(crate) refreshed: Vec<JobId>,
}

/// Where a waiting job stands in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Turn {
    /// By its due.
    #[default]
    ByDue,
    /// By its due, after a retry or snooze: it may hold its group back.
    Again,
    /// In front, after a rescue or release.
    Front,
}

/// What is left of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Every field.
    Whole,
    /// Its id, outcome and small result.
    Tombstone,
    /// Nothing but, maybe, a key held for a period.
    Nothing,
}

/// What makes two jobs of one id the same job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Content {
    queue: String,
    kind: String,
    payload: Bytes,
    content_type: String,
    headers: Vec<(String, String)>,
}

impl Content {
    pub(crate) fn of(job: &NewJob) -> Self {
        Self {
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            payload: job.payload.clone(),
            content_type: job.content_type.clone(),
            headers: content_headers(&job.headers).cloned().collect(),
        }
    }
}

impl Entry {
    /// Its state at an instant.
    pub(crate) fn state(&self, now: Timestamp) -> JobState {
        match self.record.state {
            JobState::Scheduled if self.record.due <= now => JobState::Ready,
            state => state,
        }
    }

    /// Its record at an instant.
    pub(crate) fn seen(&self, now: Timestamp) -> JobRecord {
        JobRecord {
            state: self.state(now),
            ..self.record.clone()
        }
    }

    /// What `get` answers for it, without explanation.
    pub(crate) fn got(&self, now: Timestamp) -> Option<Got> {
        match self.left {
            Left::Whole => Some(Got::Job(Box::new(self.seen(now)), None)),
            Left::Tombstone => Some(Got::Tombstone {
                id: self.record.id,
                state: self.record.state,
                result: self.record.result.clone(),
                finished_at: self.record.finished_at.unwrap_or_default(),
            }),
            Left::Nothing => None,
        }
    }

    /// Its attempt has ended. The first on record stays, and the nine before the next one.
    pub(crate) fn announce_attempt(
        &mut self,
        ended_at: Timestamp,
        outcome: PastOutcome,
        error: Option<String>,
    ) {
        let record = &mut self.record;
        let mut reported = std::mem::take(&mut record.attempts);
        let repeats = [PastOutcome::Snooze, PastOutcome::Released].contains(&outcome);
        reported.push(PastAttempt {
            attempt: record.attempt,
            started_at: record.started_at.unwrap_or_default(),
            ended_at,
            outcome,
            worker: record.worker,
            error: error.map(|text| text.chars().take(1_024).collect()),
        });
        let n = reported.len();
        if repeats && n > 1 && reported[n - 2].outcome == outcome {
            reported.swap_remove(n - 2);
        } else if n > 10 {
            reported.drain(1..n - 9);
        }
        record.attempts = reported;
    }

    /// Whether it is whole and of that queue.
    pub(crate) fn is_in(&self, queue: &str) -> bool {
        self.left == Left::Whole && self.record.queue == queue
    }

    /// Whether it waits: held, scheduled or ready.
    pub(crate) fn is_pending(&self) -> bool {
        self.left == Left::Whole && self.record.state.is_pending()
    }

    pub(crate) fn is_active(&self) -> bool {
        self.left == Left::Whole && self.record.state == JobState::Active
    }

    /// Its place in its line.
    pub(crate) fn place(&self) -> (bool, Timestamp, u64) {
        (self.turn != Turn::Front, self.record.due, self.seq)
    }

    pub(crate) fn group_key(&self) -> Option<&str> {
        self.record.group.as_ref().map(|group| group.key.as_str())
    }

    /// Whether it waits after a retry or snooze and lets no job of its group pass.
    pub(crate) fn holds_group_back(&self) -> bool {
        let holds = |group: &crate::job::Group| group.on_retry == OnRetry::Hold;
        self.is_pending()
            && self.turn == Turn::Again
            && self.record.group.as_ref().is_some_and(holds)
    }

    /// The end of the period for which it holds its key, if there is one.
    pub(crate) fn key_period_end(&self) -> Option<Timestamp> {
        match self.record.unique.as_ref()?.hold {
            Hold::For(span) => Some(self.record.enqueued_at + span),
            Hold::UntilSettled | Hold::UntilStarted => None,
        }
    }

    /// How long its tombstone lasts.
    fn remembered(&self) -> Duration {
        let remember = self.record.remember.unwrap_or_default();
        remember.max(SETTLED_WINDOW)
    }

    /// Becomes its tombstone, while that is worth anything.
    pub(crate) fn reduce(&mut self, now: Timestamp) {
        self.left = Left::Tombstone;
        if self.kept_until().is_none_or(|until| until <= now) {
            self.left = Left::Nothing;
        }
    }

    /// The instant from which on it is not kept as it is, if it has settled.
    pub(crate) fn kept_until(&self) -> Option<Timestamp> {
        let finished = self.record.finished_at?;
        let kept = match self.record.state {
            _ if self.left == Left::Tombstone => self.remembered(),
            JobState::Completed => self.record.retention.max(SETTLED_WINDOW),
            JobState::Cancelled => CANCELLED_KEPT,
            JobState::Dead => DEAD_KEPT,
            _ => return None,
        };
        Some(finished + kept)
    }
}
