//! The contract: control of queues and named records.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::engine::{
    BlockedShare, Counts, Cursor, EnqueueVerdict, Filter, Guard, LimitSettings, NamedLimit,
    QueueSettings, Receipt,
};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{
    After, Edge, FlowStatus, LeftOut, OnFailure, Recount, RestoredFlow, Role, StepStatus,
};
use crate::job::{Effect, JobId, JobState};
use crate::schedule::{Schedule, ScheduleStatus, Success};
use crate::time::Timestamp;

/// A change to a queue or a named record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Control {
    /// Nothing of the queue is claimed until it is resumed; due jobs still become ready.
    Pause {
        /// The queue.
        queue: String,
    },
    /// Ends a pause.
    Resume {
        /// The queue.
        queue: String,
    },
    /// Cancels pending jobs of a queue (`cancelled: purged`), a bounded number per call.
    Purge {
        /// The queue.
        queue: String,
        /// Where the last call ended; a cursor of anything else is refused (`invalid_input`).
        cursor: Option<Cursor>,
        /// Jobs to examine, 1 to 1,000.
        limit: usize,
    },
    /// Deletes a queue that has no jobs: its pause, settings, history and the unique keys that its
    /// settled jobs held for a period go with it. Answers `Done(false)` if there is no such queue,
    /// and
    /// [`Conflict`](crate::ErrorKind::Conflict) while it has jobs, kept ones too. An enqueue makes
    /// the queue
    /// again, and so does a claim.
    DeleteQueue {
        /// The queue.
        queue: String,
    },
    /// Reads a record.
    Read {
        /// Its name.
        name: String,
    },
    /// Reads names of records that start with a prefix, a bounded number per call.
    Names {
        /// The prefix.
        prefix: String,
        /// Where the last call ended; a cursor of anything else is refused (`invalid_input`).
        cursor: Option<Cursor>,
        /// Records to examine, 1 to 1,000.
        limit: usize,
    },
    /// Writes a record if its version is still the one named (0: it must not exist).
    Write {
        /// Its name.
        name: String,
        /// The version that was read.
        expected: u64,
        /// Its value; `None` removes it.
        value: Option<RecordValue>,
    },
    /// Causes effects, and writes a record if asked, in one step: only if the record has a version
    /// still, else nothing happens and the answer is
    /// [`GuardConflict`](Controlled::GuardConflict). A job over `max_pending` is refused (`full`),
    /// unlike in a settle.
    Guarded {
        /// The record and its version.
        guard: Guard,
        /// What becomes of the record, under a new version; `None` leaves it as it is.
        value: Option<RecordValue>,
        /// What to cause, at most a batch.
        effects: Vec<Effect>,
    },
    /// Starts no job of a share for a while, without counting an attempt: the other side said that
    /// this customer asks too often (429). A call replaces the one before; a span of zero ends it.
    BlockShare {
        /// The queue.
        queue: String,
        /// The share.
        share: String,
        /// How long, at most 365 days.
        span: Duration,
    },
    /// Starts no job of a share until it is resumed, by a block of zero. It counts as a blocked
    /// share, and a block for a span does not end it.
    PauseShare {
        /// The queue.
        queue: String,
        /// The share.
        share: String,
    },
    /// Reads the shares of a queue that are blocked or paused; a bounded number of shares is
    /// examined per call.
    BlockedShares {
        /// The queue.
        queue: String,
        /// Where the last call ended; a cursor of anything else is refused (`invalid_input`).
        cursor: Option<Cursor>,
        /// Shares to examine, 1 to 1,000.
        limit: usize,
    },
    /// Starts no job with a named limit for a while, without counting an attempt: the other side
    /// said that it is asked too often (429). A call replaces the one before; a span of zero ends
    /// it. The limit needs no settings.
    BlockLimit {
        /// The name of the limit.
        name: String,
        /// How long, at most 365 days.
        span: Duration,
    },
    /// Reads named limits with how they stand, by name: those with settings, and those with active
    /// or waiting jobs, a block, or starts that count still. At most a batch.
    Limits {
        /// Only names after this one; empty for the first.
        after: String,
        /// How many, 1 to 1,000.
        limit: usize,
    },
    /// Reads a named limit; what its user set is a record.
    Limit {
        /// Its name.
        name: String,
    },
    /// Reads schedules with how they stand, by name; at most a batch.
    Schedules {
        /// Only names after this one; empty for the first.
        after: String,
        /// How many, 1 to 1,000.
        limit: usize,
    },
    /// Reads a schedule, or does something with its runs; what its user wrote is a record.
    Schedule {
        /// Its name.
        name: String,
        /// What to do.
        act: ScheduleAct,
    },
    /// Reads flows with how they stand, by name; at most a batch.
    Flows {
        /// Only names after this one; empty for the first.
        after: String,
        /// How many, 1 to 1,000.
        limit: usize,
    },
    /// Reads a flow, or does something with its steps.
    Flow {
        /// Its name.
        name: String,
        /// What to do.
        act: FlowAct,
    },
    /// Reads which jobs wait for these, of flows or of none.
    Dependants {
        /// The jobs that are waited for, at most a batch.
        of: Vec<JobId>,
        /// Only those after this one: the place of a job in `of`, and one that waits for it.
        after: Option<(u32, JobId)>,
        /// How many, 1 to 1,000.
        limit: usize,
    },
}

/// What to do with a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FlowAct {
    /// Nothing: answers how it stands.
    Read,
    /// Ends the plan: its steps start. A plan that has another number of steps, or was sealed with
    /// another policy, is refused ([`Conflict`](crate::ErrorKind::Conflict)).
    Seal {
        /// How many steps were sent, without callbacks.
        steps: u64,
        /// What a failed step does to the others.
        on_failure: OnFailure,
        /// The callbacks that were sent: a plan with others is refused. `None` does not compare.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        callbacks: Option<Vec<Role>>,
    },
    /// Lets a step wait for more jobs than one call carries, before the flow is sealed.
    Wait {
        /// The step.
        step: JobId,
        /// The jobs.
        after: Vec<After>,
    },
    /// Cancels what has not settled; active jobs are asked to stop.
    Cancel,
    /// Runs steps again that are dead or cancelled, and lets what waited for them wait again; a
    /// bounded number per call. Answers which ones could not run again.
    Retry {
        /// A step to run again, however it ended; all that depends on it runs again too, as
        /// far as it is kept.
        from: Option<String>,
        /// Where the last call ended.
        next: Option<u32>,
        /// Only steps whose jobs it matches; without `from`. A step whose job is gone may match.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<Box<Filter>>,
    },
    /// Reads steps in the order in which they came.
    Steps {
        /// The place of the first.
        from: u32,
        /// How many, 1 to 1,000.
        limit: usize,
    },
    /// Reads steps by name, and callbacks by `@` and the name of their role.
    Named {
        /// Their names, at most a batch.
        steps: Vec<String>,
    },
    /// Reads which jobs wait for which.
    Edges {
        /// Only those after this one.
        after: Option<(u32, JobId)>,
        /// How many, 1 to 1,000.
        limit: usize,
    },
    /// Counts the steps anew by their jobs, a bounded number per call.
    Recount {
        /// Where the last call ended.
        from: u32,
    },
    /// Brings what an import knows of the flow besides its jobs. The same again changes nothing;
    /// another number of steps, or a new step of a flow that is sealed, is refused
    /// ([`Conflict`](crate::ErrorKind::Conflict)).
    Restore(
        /// What it knows.
        RestoredFlow,
    ),
}

/// What to do with a schedule's runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ScheduleAct {
    /// Nothing: answers how it stands.
    Read,
    /// Enqueues a run now, beside those that are to come; the overlap policy decides about it.
    Run,
    /// Cancels the next run, if one is to come.
    Skip,
    /// Enqueues runs of past instants, without regard to overlaps. An instant whose run is still
    /// known answers `duplicate`.
    Backfill {
        /// The instants, at most a batch.
        instants: Vec<Timestamp>,
    },
    /// Brings the last success of the schedule that an import makes: a schedule that has one keeps
    /// it. Answers how it stands.
    Restore {
        /// The last run that completed; its result is at most
        /// [`result_bytes`](crate::Limits::result_bytes).
        last_success: Success,
    },
}

/// What one call of a walk examines, if nothing else is said.
const PAGE: usize = 1_000;

/// The record that guards a [`Control::clear`]: it never exists.
const NO_RECORD: &str = "punctual/no-record";

impl Control {
    /// Reads the names of records that start with a prefix: the first call.
    pub fn names(prefix: impl Into<String>) -> Self {
        Self::Names {
            prefix: prefix.into(),
            cursor: None,
            limit: PAGE,
        }
    }

    /// Clears a name that a held job waits for, without a settle. If the job is not known, the
    /// clear is kept for an hour: see [`Effect::Clear`].
    pub fn clear(job: JobId, name: impl Into<String>) -> Self {
        let name = name.into();
        Self::Guarded {
            guard: Guard::new(NO_RECORD, 0),
            value: None,
            effects: vec![Effect::Clear { job, name }],
        }
    }
}

/// The answer to a control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Controlled {
    /// Done; whether it changed anything.
    Done(
        /// `false` if it was so before.
        bool,
    ),
    /// Purged a part.
    Purged {
        /// Jobs examined.
        examined: usize,
        /// Jobs cancelled.
        matched: usize,
        /// Where to go on; `None` at the end.
        cursor: Option<Cursor>,
    },
    /// The record, if it exists.
    Record(
        /// With its version.
        Option<VersionedRecord>,
    ),
    /// Names found.
    Names {
        /// In order within a call. On Redis a name may come in two calls.
        names: Vec<String>,
        /// Where to go on; `None` at the end.
        cursor: Option<Cursor>,
    },
    /// Shares found that are blocked or paused.
    BlockedShares {
        /// In order within a call. On Redis a share may come in two calls.
        shares: Vec<BlockedShare>,
        /// Where to go on; `None` at the end.
        cursor: Option<Cursor>,
    },
    /// Written; the new version.
    Written(
        /// Larger than any before.
        u64,
    ),
    /// The guarded effects were caused.
    Guarded {
        /// The version of the record after it.
        version: u64,
        /// One per effect, in order; `None` for a clear or a cancel, and for a job that is still on
        /// its way to another shard: it is kept and will arrive.
        verdicts: Vec<Option<EnqueueVerdict>>,
    },
    /// The record has another version than the guard names; nothing was changed.
    GuardConflict(
        /// The record as it is; `None` if there is none.
        Option<VersionedRecord>,
    ),
    /// The named limits found.
    Limits(
        /// In order of their names.
        Vec<NamedLimit>,
    ),
    /// The named limit.
    Limit(
        /// As it stands now.
        Box<NamedLimit>,
    ),
    /// The schedules found.
    Schedules(
        /// In order of their names.
        Vec<ScheduleStatus>,
    ),
    /// The schedule, if it exists.
    Schedule(
        /// As it stands now.
        Option<Box<ScheduleStatus>>,
    ),
    /// Runs that were enqueued at once.
    Runs(
        /// One receipt for each.
        Vec<Receipt>,
    ),
    /// The flows found.
    Flows(
        /// In order of their names.
        Vec<FlowStatus>,
    ),
    /// The flow, if it exists.
    Flow(
        /// As it stands now.
        Option<Box<FlowStatus>>,
    ),
    /// Steps found.
    Steps {
        /// In the order asked for; steps that are not there are left out.
        steps: Vec<StepStatus>,
        /// Where to go on; `None` at the end.
        next: Option<u32>,
    },
    /// Which jobs wait for which.
    Edges {
        /// In the order of the jobs that are waited for.
        edges: Vec<Edge>,
        /// Where to go on; `None` at the end.
        next: Option<(u32, JobId)>,
    },
    /// Steps that run again.
    Retried {
        /// How many of those examined.
        retried: u64,
        /// Those examined that were to run again and could not.
        #[serde(default)]
        left_out: LeftOut,
        /// Where to go on; `None` at the end.
        next: Option<u32>,
    },
    /// A part of a recount.
    Recounted(
        /// What the jobs say.
        Box<Recount>,
    ),
}

impl Control {
    /// The error for a write of a record that has another version; engines answer it.
    pub fn version_conflict(record: &str, expected: u64, version: u64) -> Error {
        let message = "record was changed since it was read; read it again";
        Error::new(ErrorKind::VersionConflict, message)
            .with("record", record)
            .with("expected", expected)
            .with("version", version)
    }

    /// Refuses a write of a record that does not have the version that the writer named.
    ///
    /// # Errors
    /// [`version_conflict`](Self::version_conflict); none if no version was named.
    pub fn expect_version(record: &str, expected: Option<u64>, version: u64) -> Result<()> {
        match expected.filter(|expected| *expected != version) {
            Some(expected) => Err(Self::version_conflict(record, expected, version)),
            None => Ok(()),
        }
    }

    /// The error for a delete of a queue that a schedule enqueues into; engines answer it.
    pub fn queue_has_schedule(queue: &str, schedule: &str) -> Error {
        let message = format!(
            "schedule \"{schedule}\" enqueues into queue \"{queue}\"; remove the schedule first"
        );
        Error::new(ErrorKind::Conflict, message)
    }

    /// The error for a delete of a queue that still has jobs; engines answer it.
    ///
    /// ```
    /// use punctual::engine::{Control, Counts};
    ///
    /// let error = Control::queue_has_jobs("mail", &Counts([0, 2, 0, 1, 0, 0, 3]));
    /// assert!(error.to_string().contains("2 wait, 1 is active, 3 are kept"), "{error}");
    /// ```
    pub fn queue_has_jobs(queue: &str, counts: &Counts) -> Error {
        let active = counts.of(JobState::Active);
        let kept = [JobState::Completed, JobState::Cancelled, JobState::Dead];
        let kept: u64 = kept.map(|state| counts.of(state)).iter().sum();
        let count = |n: u64, one: &str, many: &str| match n {
            0 => None,
            1 => Some(format!("1 {one}")),
            n => Some(format!("{n} {many}")),
        };
        let parts = [
            count(counts.pending(), "waits", "wait"),
            count(active, "is active", "are active"),
            count(kept, "is kept", "are kept"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let message = format!(
            "queue \"{queue}\" still has jobs: {}; purge it, delete the kept ones, wait for the active ones",
            parts.join(", ")
        );
        Error::new(ErrorKind::Conflict, message)
    }
}

/// A record with its version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VersionedRecord {
    /// Grows with each write.
    pub version: u64,
    /// Its value.
    pub value: RecordValue,
}

impl VersionedRecord {
    /// The value of a record, and its version.
    pub fn new(version: u64, value: RecordValue) -> Self {
        Self { version, value }
    }
}

/// What a record holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RecordValue {
    /// The settings of a queue, under the name `queue/NAME`; the engine obeys them.
    Queue(
        /// The settings.
        QueueSettings,
    ),
    /// A schedule, under the name `schedule/NAME`; the engine enqueues its runs.
    Schedule(
        /// What its user wrote.
        Box<Schedule>,
    ),
    /// What a named limit lets start, under the name `limit/NAME`; the engine obeys it.
    Limit(
        /// The settings.
        LimitSettings,
    ),
    /// Anything else, opaque to the engine, at most 64 KiB.
    Opaque(
        /// The bytes.
        Bytes,
    ),
}
