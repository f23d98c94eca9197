//! The contract: edits of jobs.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::engine::{Cursor, Filter, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Due, JobId, JobState, Limits, MEMO_BYTES_MAX, check_key, check_payload};
use crate::time::Timestamp;

/// A change to jobs that are named or found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Edit {
    /// Which jobs.
    pub select: Select,
    /// What to do to each.
    pub action: Action,
    /// Whether only to say what would be done.
    pub dry_run: bool,
}

/// Which jobs to edit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Select {
    /// These, each with a verdict in order.
    Targets(
        /// At most a batch.
        Vec<Target>,
    ),
    /// Those that a filter finds, a bounded number per call; call again with the answer's cursor.
    Filter {
        /// What to match.
        filter: Filter,
        /// Where the last call ended.
        cursor: Option<Cursor>,
        /// Jobs to examine in this call, 1 to 1,000.
        limit: usize,
    },
}

/// What to do to a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Action {
    /// Cancel it; an active one is asked to stop (`cancel_requested`).
    Cancel,
    /// Give a held, scheduled or ready one another due.
    Reschedule(
        /// The new due, counted from now.
        Due,
    ),
    /// Make a held or scheduled one due now; a held one waits for nothing any more.
    RunNow,
    /// Give a held, scheduled or ready one another priority.
    Reprioritise(
        /// 0 to 9.
        u8,
    ),
    /// Send a settled one that is still kept back to its queue: ready, failures and crashes zero.
    Redrive,
    /// Remove a settled one and its tombstone.
    Delete,
    /// Give a held, scheduled or ready one another payload; it keeps its place in line. For jobs
    /// that are named, not for a filter. The call carries the payload once for each of them, so
    /// that
    /// [`Limits::batch_bytes`](crate::job::Limits::batch_bytes) bounds both together.
    ///
    /// A resend of the job is compared with what was sent first, not with this payload.
    UpdatePayload(
        /// The new payload, bounded as in an enqueue.
        Bytes,
    ),
    /// Signal a job that has not settled: the signal is kept with it, and ends its wait for that
    /// name, now or when it comes to it. For jobs that are named, not for a filter.
    Signal {
        /// What it may wait for: 1 to 256 bytes of printable text, once per job.
        name: String,
        /// What comes with the signal: 8 KiB at most.
        payload: Bytes,
    },
}

/// The answer to an edit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Edited {
    /// For `Targets`: one per target in order. For a filter: one per match, with its id.
    pub verdicts: Vec<(Option<JobId>, EditVerdict)>,
    /// Jobs examined.
    pub examined: usize,
    /// Jobs that the filter matched (or targets that exist).
    pub matched: usize,
    /// Where to go on; `None` at the end.
    pub cursor: Option<Cursor>,
    /// Engine time.
    pub now: Timestamp,
}

impl Edited {
    /// No verdict yet, at that instant of engine time.
    pub fn new(now: Timestamp) -> Self {
        Self {
            verdicts: Vec::new(),
            examined: 0,
            matched: 0,
            cursor: None,
            now,
        }
    }
}

/// What became of one job (or would, in a dry run).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EditVerdict {
    /// Done; its state now.
    Done(
        /// The state after.
        JobState,
    ),
    /// The cancel of an active job is requested.
    CancelRequested,
    /// No such job.
    NotFound,
    /// It is active; this action cannot be done to an active job.
    JobActive,
    /// It is in a state this action does not apply to.
    WrongState(
        /// The state it is in.
        JobState,
    ),
    /// Redrive: that job holds its unique key now.
    UniqueHeld(
        /// The holder.
        JobId,
    ),
    /// Cancel: it was settled as cancelled before.
    AlreadyCancelled,
    /// Signal: a wait for that name has ended before, by an earlier signal (this one, if it is sent
    /// again) or by its limit.
    WaitEnded,
    /// Signal: the job has 64 signals, or 64 KiB of them.
    SignalsFull,
}

impl Action {
    /// The name on the wire, in the shell and in logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Reschedule(_) => "reschedule",
            Self::RunNow => "run_now",
            Self::Reprioritise(_) => "reprioritise",
            Self::Redrive => "redrive",
            Self::Delete => "delete",
            Self::UpdatePayload(_) => "update_payload",
            Self::Signal { .. } => "signal",
        }
    }
}

impl Edit {
    /// This action to each of these jobs.
    pub fn new(select: Select, action: Action) -> Self {
        Self {
            select,
            action,
            dry_run: false,
        }
    }

    /// Whether only to say what would be done.
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Checks a new payload against the limits; engines call it for each edit.
    pub fn check_payload(&self, limits: &Limits) -> Result<()> {
        let Action::UpdatePayload(payload) = &self.action else {
            return Ok(());
        };
        check_payload(payload, limits)?;
        let Select::Targets(targets) = &self.select else {
            let message = "a filter cannot update payloads; name the jobs by id or unique key";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        };
        let bytes = payload.len().saturating_mul(targets.len());
        if bytes > limits.batch_bytes {
            let message = "the jobs would take too many bytes of payload; name fewer jobs";
            return Err(Error::new(ErrorKind::BatchTooLarge, message)
                .with("bytes", bytes)
                .with("limit", limits.batch_bytes));
        }
        Ok(())
    }
}

impl Edit {
    /// Checks a signal; engines call it for each edit.
    pub fn check_signal(&self) -> Result<()> {
        let Action::Signal { name, payload } = &self.action else {
            return Ok(());
        };
        check_signal(name, payload)?;
        match &self.select {
            Select::Targets(_) => Ok(()),
            Select::Filter { .. } => {
                let message = "a filter cannot signal; name the jobs by id or unique key";
                Err(Error::new(ErrorKind::InvalidInput, message))
            }
        }
    }
}

/// Checks a signal, of an edit or an effect.
pub(crate) fn check_signal(name: &str, payload: &Bytes) -> Result<()> {
    check_key("name of the signal", name)?;
    if payload.len() > MEMO_BYTES_MAX {
        let message = "payload of the signal is over the limit; send a reference";
        return Err(Error::new(ErrorKind::PayloadTooLarge, message)
            .with("bytes", payload.len())
            .with("limit", MEMO_BYTES_MAX));
    }
    Ok(())
}

impl EditVerdict {
    /// The name on the wire, in the shell and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::CancelRequested => "cancel_requested",
            Self::NotFound => "not_found",
            Self::JobActive => "job_active",
            Self::WrongState(_) => "wrong_state",
            Self::UniqueHeld(_) => "unique_held",
            Self::AlreadyCancelled => "already_cancelled",
            Self::WaitEnded => "wait_ended",
            Self::SignalsFull => "signals_full",
        }
    }

    /// Whether something was (or would be) changed.
    pub const fn is_change(self) -> bool {
        matches!(self, Self::Done(_) | Self::CancelRequested)
    }
}
