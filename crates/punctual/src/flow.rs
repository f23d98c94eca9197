//! Flows: jobs that wait for other jobs, counted by the engine alone.
//!
//! A job may wait for others to settle ([`After`]). Such jobs may belong to a flow under a name:
//! its steps start once it is sealed, the engine counts how they end, and jobs may run when all of
//! it has settled. Everything that a flow needs to go on happens in the step in which a job ends,
//! whatever ended it. Producers use [`Queue::flow`](crate::Queue::flow).

mod left_out;
mod links;
mod plan;
mod restored;
mod sent;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::job::{JobId, JobState};
use crate::time::{Timestamp, hours};

pub use left_out::{LeftOut, Retried};
pub(crate) use links::{check_after, check_no_callback};
pub use plan::{Parts, Plan, Upstream};
pub use restored::{EndedStep, RestoredFlow, RestoredSeal, StepPast};
pub use sent::sent_hash;

/// The most jobs that one call may say others wait for; [`FlowAct::Wait`] adds more.
///
/// [`FlowAct::Wait`]: crate::engine::FlowAct::Wait
pub const EDGES_PER_CALL: usize = 10_000;

/// How long a plan may take to be sent; then what came of it is cancelled.
pub const SEND_TIMEOUT: Duration = hours(1);

/// How a job must end so that one that waits for it may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum On {
    /// It completes.
    #[default]
    Completed = 0,
    /// It is cancelled or dead.
    Failed = 1,
    /// Either.
    Settled = 2,
}

impl On {
    /// Every way, in the order of its number.
    pub const ALL: [Self; 3] = [Self::Completed, Self::Failed, Self::Settled];

    /// The name on the wire and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Settled => "settled",
        }
    }

    /// Whether a job that ended in that state ended as asked.
    pub fn is_met_by(self, state: JobState) -> bool {
        match self {
            Self::Completed => state == JobState::Completed,
            Self::Failed => state != JobState::Completed,
            Self::Settled => true,
        }
    }
}

/// A job that another one waits for, and how it must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct After {
    /// The job; it must be known to the engine, or sent before in the same call.
    pub job: JobId,
    /// How it must end. If it ends otherwise, the one that waits is `cancelled: upstream`.
    pub on: On,
}

impl After {
    /// That job, and how it must end.
    pub fn new(job: JobId, on: On) -> Self {
        Self { job, on }
    }

    /// Waits until that job completes.
    pub fn completed(job: JobId) -> Self {
        Self {
            job,
            on: On::Completed,
        }
    }
}

/// What a job is in its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Role {
    /// A step.
    #[default]
    Step = 0,
    /// It runs once every step has completed or was passed over.
    OnDone = 1,
    /// It runs once every step has settled and one of them is dead or cancelled.
    OnFailed = 2,
    /// It runs once every step has settled.
    OnSettled = 3,
}

impl Role {
    /// Every role, in the order of its number.
    pub const ALL: [Self; 4] = [Self::Step, Self::OnDone, Self::OnFailed, Self::OnSettled];

    /// The name on the wire, and that of the callback; a step has a name of its own.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::OnDone => "on_done",
            Self::OnFailed => "on_failed",
            Self::OnSettled => "on_settled",
        }
    }
}

/// The place of a new job in a flow.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FlowStep {
    /// The flow's name.
    pub flow: String,
    /// The step's name, for a callback that of its role.
    pub step: String,
    /// What it is in the flow.
    #[serde(default)]
    pub role: Role,
    /// Whether the flow may be sealed already and grows by it.
    #[serde(default)]
    pub grows: bool,
    /// What an import knows of it; `None` for a new job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub past: Option<StepPast>,
}

impl FlowStep {
    /// The place of a new step.
    pub fn new(flow: impl Into<String>, step: impl Into<String>) -> Self {
        Self {
            flow: flow.into(),
            step: step.into(),
            role: Role::Step,
            grows: false,
            past: None,
        }
    }

    /// The place of a new callback: its step has the name of its role.
    pub fn callback(flow: impl Into<String>, role: Role) -> Self {
        Self::new(flow, role.name()).role(role)
    }

    /// What it is in the flow.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// What an import knows of it.
    #[must_use]
    pub fn past(mut self, past: StepPast) -> Self {
        self.past = Some(past);
        self
    }

    /// The id that the job must have: the same for the same names in every process.
    pub fn id(&self) -> JobId {
        step_id(&self.flow, &self.step, self.role)
    }
}

/// The id of a step, or of a callback.
pub fn step_id(flow: &str, step: &str, role: Role) -> JobId {
    match role {
        Role::Step => JobId::step(flow, step),
        // No step can have such a name.
        role => JobId::step(flow, &format!("@{}", role.name())),
    }
}

/// Which step of which flow a stored job is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepOf {
    /// The flow's name.
    pub flow: String,
    /// The step's name.
    pub step: String,
}

impl StepOf {
    /// That step of that flow.
    pub fn new(flow: impl Into<String>, step: impl Into<String>) -> Self {
        Self {
            flow: flow.into(),
            step: step.into(),
        }
    }
}

/// What happens to a flow when a step is dead or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum OnFailure {
    /// What waits for its completion is `cancelled: upstream`; the rest goes on.
    #[default]
    CancelDependants = 0,
    /// Every step that has not settled is cancelled, but those that wait for a failure.
    CancelRest = 1,
    /// What waits for its completion runs as if it had completed.
    Continue = 2,
}

impl OnFailure {
    /// Every policy, in the order of its number.
    pub const ALL: [Self; 3] = [Self::CancelDependants, Self::CancelRest, Self::Continue];

    /// The name on the wire and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CancelDependants => "cancel_dependants",
            Self::CancelRest => "cancel_rest",
            Self::Continue => "continue",
        }
    }
}

/// How a flow stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
    /// It is being sent: nothing of it runs.
    Open,
    /// It is sealed, and steps are left.
    Running,
    /// Every step completed or was passed over.
    Done,
    /// Every step has settled, and one of them is dead or cancelled.
    Failed,
    /// It was cancelled, and every step has settled.
    Cancelled,
}

impl FlowState {
    /// The name on the wire and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// How a flow with these counts stands.
    pub fn of(status: &FlowStatus) -> Self {
        let failed = status.counts.dead + status.counts.cancelled > 0;
        match (status.settled_at.is_some(), status.cancelled) {
            (false, false) if status.sealed_at.is_none() => Self::Open,
            (false, _) => Self::Running,
            (true, true) => Self::Cancelled,
            (true, false) if failed => Self::Failed,
            (true, false) => Self::Done,
        }
    }

    /// Whether nothing of it is left to run.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// Steps of a flow by how they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FlowCounts {
    /// All steps.
    pub steps: u64,
    /// Those that have not settled.
    pub open: u64,
    /// Those that completed.
    pub completed: u64,
    /// Those that were passed over: a job that they waited for ended otherwise.
    pub skipped: u64,
    /// Those that were cancelled for another reason.
    pub cancelled: u64,
    /// Those that are dead.
    pub dead: u64,
}

impl std::ops::AddAssign for FlowCounts {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.open += other.open;
        self.completed += other.completed;
        self.skipped += other.skipped;
        self.cancelled += other.cancelled;
        self.dead += other.dead;
    }
}

/// A flow with how it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FlowStatus {
    /// Its name.
    pub name: String,
    /// How it stands.
    pub state: FlowState,
    /// Its steps by how they ended.
    pub counts: FlowCounts,
    /// What a failed step does to the others.
    pub on_failure: OnFailure,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// When its first step came.
    pub created_at: Timestamp,
    /// When it was sealed.
    pub sealed_at: Option<Timestamp>,
    /// When its last step settled.
    pub settled_at: Option<Timestamp>,
    /// When it is forgotten, once it has settled; before it is sealed, when it is cancelled.
    pub until: Option<Timestamp>,
    /// Its callbacks.
    pub callbacks: Vec<Callback>,
    /// Grows with each change of the counts.
    pub changes: u64,
    /// The steps of its plan, once it is sealed; those by which it grew are not among them.
    #[serde(default)]
    pub planned: u64,
}

impl FlowStatus {
    /// An open flow without steps; engines fill in the rest.
    pub fn new(name: impl Into<String>, created_at: Timestamp) -> Self {
        Self {
            name: name.into(),
            state: FlowState::Open,
            counts: FlowCounts::default(),
            on_failure: OnFailure::default(),
            cancelled: false,
            created_at,
            sealed_at: None,
            settled_at: None,
            until: None,
            callbacks: Vec::new(),
            changes: 0,
            planned: 0,
        }
    }
}

/// A job that runs when a flow has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Callback {
    /// When it runs.
    pub role: Role,
    /// The job.
    pub id: JobId,
    /// Whether it was released: that happens once.
    pub fired: bool,
}

impl Callback {
    /// A callback that was not released yet.
    pub fn new(role: Role, id: JobId) -> Self {
        Self {
            role,
            id,
            fired: false,
        }
    }

    /// Whether it was released.
    #[must_use]
    pub fn fired(mut self, fired: bool) -> Self {
        self.fired = fired;
        self
    }
}

/// A step with how it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepStatus {
    /// Its name.
    pub name: String,
    /// Its job.
    pub id: JobId,
    /// The state of its job.
    pub state: JobState,
    /// Whether it was passed over, because a job that it waited for ended otherwise.
    pub skipped: bool,
    /// Jobs that it still waits for.
    pub waits: u32,
    /// Jobs outside of its flow that it waits for or waited for, eight at most.
    #[serde(default)]
    pub outside: Vec<Outside>,
    /// The result of its job, kept as long as the flow.
    pub result: Option<Bytes>,
    /// Its place in the order in which steps came.
    pub number: u32,
    /// The [hash](sent_hash) of what was sent of it.
    #[serde(default)]
    pub sent: u64,
}

impl StepStatus {
    /// A step that waits for nothing; engines fill in the rest.
    pub fn new(name: impl Into<String>, id: JobId, state: JobState, number: u32) -> Self {
        Self {
            name: name.into(),
            id,
            state,
            skipped: false,
            waits: 0,
            outside: Vec::new(),
            result: None,
            number,
            sent: 0,
        }
    }
}

/// A job outside of a flow that a step of it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outside {
    /// The job.
    pub job: JobId,
    /// How it must end.
    pub on: On,
    /// Whether that has happened.
    pub met: bool,
    /// The state of the job; `None` if it is not known any more.
    pub state: Option<JobState>,
}

impl Outside {
    /// A job that is to end so, which has not happened yet, and whose state is not known.
    pub fn new(job: JobId, on: On) -> Self {
        Self {
            job,
            on,
            met: false,
            state: None,
        }
    }

    /// Whether it has ended so.
    #[must_use]
    pub fn met(mut self, met: bool) -> Self {
        self.met = met;
        self
    }

    /// The state of the job.
    #[must_use]
    pub fn state(mut self, state: Option<JobState>) -> Self {
        self.state = state;
        self
    }
}

/// That a job waits for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Edge {
    /// The job that is waited for.
    pub from: JobId,
    /// The job that waits.
    pub to: JobId,
    /// How the first one must end.
    pub on: On,
    /// Whether that has happened.
    pub met: bool,
}

impl Edge {
    /// That `to` waits for `from` to end so, which has not happened yet.
    pub fn new(from: JobId, to: JobId, on: On) -> Self {
        Self {
            from,
            to,
            on,
            met: false,
        }
    }

    /// Whether that has happened.
    #[must_use]
    pub fn met(mut self, met: bool) -> Self {
        self.met = met;
        self
    }
}

/// A part of a recount: what the jobs say, beside what the flow has counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recount {
    /// The counts of the steps that were examined, by their jobs.
    pub counts: FlowCounts,
    /// Steps whose own counts differ from what their jobs say, ten at most.
    pub differ: Vec<String>,
    /// Where to go on; `None` at the end.
    pub next: Option<u32>,
    /// The flow, as it stands now: if its `changes` differ from those of an earlier part, steps
    /// ended in the meantime.
    pub flow: FlowStatus,
}

impl Recount {
    /// A part that has examined nothing; engines fill in the rest.
    pub fn new(flow: FlowStatus) -> Self {
        Self {
            counts: FlowCounts::default(),
            differ: Vec::new(),
            next: None,
            flow,
        }
    }
}

macro_rules! display_by_name {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    )*};
}
display_by_name!(On, Role, OnFailure, FlowState);
