//! The words of a history: what a process did, before it acted on the answer.

use punctual::engine::Token;
use punctual::{JobId, JobState, UniquePolicy};
use serde::{Deserialize, Serialize};

use crate::flows::{FlowPlan, Place};
use crate::relayed::System;
use crate::scripted_outcome::ScriptedOutcome;

/// One line of a history.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Microseconds of the machine's monotonic clock, one for all processes.
    pub(crate) at: u64,
    /// What happened.
    #[serde(flatten)]
    pub(crate) event: Event,
}

/// What happened. Calls have a number that is their process's own. Instants `now`, `due` and
/// `deadline` are microseconds of engine time; `wall` is the machine's wall clock.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "e", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A process began; `solo` if the engine lives and dies with it.
    Began { solo: bool },
    /// Jobs are sent, for the first time or again.
    EnqueueInvoke {
        call: u64,
        wall: u64,
        jobs: Vec<Sent>,
    },
    /// They were answered: what, by which other job, and when each is due.
    EnqueueOk {
        call: u64,
        now: u64,
        receipts: Vec<Received>,
    },
    /// It is not known whether they are stored.
    EnqueueUnknown { call: u64, error: String },
    /// They are not stored.
    EnqueueFail { call: u64, error: String },
    /// A claim answered jobs; `invoked` is the stamp of its call.
    ClaimOk {
        invoked: u64,
        now: u64,
        alone: bool,
        /// The span that was asked for, in microseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease_duration: Option<u64>,
        leases: Vec<Granted>,
    },
    /// Leases were to be prolonged: the answer per lease, `None` for a lost one.
    ExtendOk {
        invoked: u64,
        now: u64,
        leases: Vec<Extended>,
    },
    /// It is not known whether leases were prolonged.
    ExtendUnknown { invoked: u64, tokens: Vec<Token> },
    /// Ends of attempts are settled.
    SettleInvoke { call: u64, ends: Vec<End> },
    /// They were answered, in the order sent.
    SettleOk {
        call: u64,
        now: u64,
        verdicts: Vec<Verdict>,
    },
    /// It is not known whether they took effect.
    SettleUnknown { call: u64, error: String },
    /// They took no effect.
    SettleFail { call: u64, error: String },
    /// Jobs are asked to be cancelled.
    CancelInvoke { call: u64, ids: Vec<JobId> },
    /// The names of the verdicts.
    CancelOk {
        call: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        now: Option<u64>,
        verdicts: Vec<String>,
    },
    /// It is not known whether they were cancelled.
    CancelUnknown { call: u64, error: String },
    /// A handler begins.
    Start {
        id: JobId,
        attempt: u32,
        token: Token,
        wall: u64,
        due: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<u64>,
    },
    /// A handler ends: `new` if its effect was written now, `None` if it had none to write.
    Finish {
        id: JobId,
        attempt: u32,
        new: Option<bool>,
        how: String,
    },
    /// A handler ends its process.
    Abort { id: JobId, attempt: u32 },
    /// A flow is sent.
    FlowInvoke { plan: FlowPlan },
    /// All of it is stored.
    FlowOk { flow: String },
    /// A step is asked to be cancelled.
    StepCancel { place: Place },
    /// An attempt of a step or callback begins.
    StepStart { place: Place, attempt: u32 },
    /// It ends; whether it is to complete the job.
    StepFinish {
        place: Place,
        attempt: u32,
        completes: bool,
    },
    /// Jobs are sent to queues with limits, for the first time or again.
    LimitSend { ids: Vec<JobId> },
    /// An attempt of one begins; `started` is the engine time of the step that claimed it.
    LimitStart {
        id: JobId,
        attempt: u32,
        queue: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        share: Option<String>,
        is_narrow: bool,
        due: u64,
        started: u64,
        wall: u64,
    },
    /// Its handler has ended, and nothing of it is settled yet.
    LimitFinish { id: JobId, attempt: u32, wall: u64 },
    /// A message is sent to a system that relays take from; `due` if it is not due at once.
    MessageSend {
        name: String,
        system: System,
        is_bad: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<u64>,
    },
    /// That system has it.
    MessageOk { name: String },
    /// It was rolled back.
    MessageNone { name: String },
    /// The job of a message begins to run.
    MessageStart {
        id: JobId,
        attempt: u32,
        name: String,
        due: u64,
        enqueued: u64,
        started: u64,
        wall: u64,
    },
    /// A schedule is there.
    ScheduleSet { name: String, wall: u64 },
    /// Its removal was asked for at that instant, and is done.
    ScheduleRemove { name: String, wall: u64 },
    /// An attempt of a run begins; `instant` is what the run stands for.
    ScheduleRun {
        id: JobId,
        name: String,
        instant: u64,
        attempt: u32,
        wall: u64,
    },
    /// An answer does not fit its call: it has too few parts, or those of others.
    Misfit { what: String },
    /// A call was given up by its caller before its answer.
    Dropped,
    /// A latecomer holds this lease: no worker, and it may come late with everything, on purpose.
    Late { token: Token },
    /// A claim, or a wait for work, came to nothing; `invoked` is the stamp of its call.
    Failed { invoked: u64, what: String },
    /// A fault begins; `on` names the processes that it hits, where it hits some and not what all
    /// share.
    Fault {
        number: u64,
        id: String,
        what: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        on: Vec<String>,
    },
    /// Sentinels named another master since a stamp, and no fault had them do so.
    FailedOver { since: u64 },
    /// At a kill of Redis: bytes that it had answered and not written yet, and how many writes it
    /// had delayed for a sync that was under way.
    Unwritten { bytes: u64, delayed: u64 },
    /// At a power cut: when each sync of the engine's log since the one before began, and was over.
    Syncs { spans: Vec<(u64, Option<u64>)> },
    /// A fault is over, and what it hit runs again. `done` is false if it could not be caused,
    /// `met` true if it was counted that it met something.
    Healed {
        number: u64,
        done: bool,
        #[serde(default)]
        met: bool,
    },
    /// All faults are healed, and none comes until `Rested`.
    Rest,
    /// Faults come again, if the round goes on.
    Rested,
    /// A process ended without a kill, or did not end well when it was asked to: how, as
    /// the system says it.
    Ended { process: String, how: String },
    /// A process is gone, by whatever cause.
    Gone { process: String },
    /// A wait of the harness itself ran out: for what.
    Stuck { what: String },
    /// No more faults; `Drained` follows when nothing is left to do.
    Enough,
    /// Nothing is held, scheduled, ready or active.
    Drained,
    /// The snapshot is made.
    #[serde(rename = "snapshot_made")]
    Snapshot,
}

impl Event {
    /// The engine time of an answer.
    pub(crate) fn engine_time(&self) -> Option<u64> {
        match self {
            Self::EnqueueOk { now, .. }
            | Self::ClaimOk { now, .. }
            | Self::ExtendOk { now, .. }
            | Self::SettleOk { now, .. } => Some(*now),
            _ => None,
        }
    }
}

/// A job as sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) id: JobId,
    pub(crate) queue: String,
    pub(crate) after: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unique: Option<String>,
    /// What becomes of others under its unique key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<UniquePolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
    /// How long it waits after a failure, in microseconds, where that is always the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) backoff: Option<u64>,
    /// What it carries, in one number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<u64>,
    pub(crate) scripted: ScriptedOutcome,
}

/// A receipt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Received {
    pub(crate) verdict: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) other: Option<JobId>,
    pub(crate) due: u64,
}

/// A lease.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Granted {
    pub(crate) token: Token,
    pub(crate) deadline: u64,
    pub(crate) jobs: Vec<Claimed>,
}

/// A job of a lease.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Claimed {
    pub(crate) id: JobId,
    pub(crate) attempt: u32,
    pub(crate) failures: u32,
    pub(crate) crashes: u32,
    pub(crate) due: u64,
    /// The engine time of the step that claimed it, which is earlier than the answer's if the lease
    /// was asked for again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<u64>,
    /// What it carries, in one number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<u64>,
}

/// The answer to an extend of one lease.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Extended {
    pub(crate) token: Token,
    /// The span that was asked for, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease_duration: Option<u64>,
    pub(crate) deadline: Option<u64>,
    /// The jobs asked about, and those of them that are lost.
    pub(crate) asked: Vec<JobId>,
    pub(crate) lost: Vec<JobId>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) id: JobId,
    pub(crate) attempt: u32,
    pub(crate) token: Token,
    pub(crate) outcome: String,
    /// The span that a retry or a snooze asks for, in microseconds; `None` for the job's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<u64>,
}

/// The answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Settled(JobState, Option<u64>),
    Repeated,
    LeaseLost,
}
