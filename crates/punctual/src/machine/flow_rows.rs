//! The rows of flows: how each stands, the links of jobs that wait, which jobs wait for which, and
//! what is left to do.

use std::time::Duration;

use bytes::Bytes;

use super::codec::{Reader, Writer, damaged};
use super::fields::{Field, key, row};
use super::rows::RandomBits;
use crate::error::Result;
use crate::flow::{After, FlowCounts, LeftOut, On, OnFailure, Role};
use crate::job::{CancelReason, JobId, JobState};
use crate::time::Timestamp;

row!(
    /// How a flow stands: only the engine writes it, in the steps in which its jobs end.
    FlowRow {
        created: Timestamp,
        sealed: Option<Timestamp>,
        settled: Option<Timestamp>,
        cancelled: bool,
        on_failure: OnFailure,
        counts: FlowCounts,
        /// The steps of the plan, once it is sealed; those by which it grew are not among them.
        planned: u64,
        callbacks: Vec<CallbackRow>,
        /// When it is cancelled because it was not sealed, or forgotten because it has settled.
        until: Option<Timestamp>,
        changes: u64,
    } then {
        /// What retries keep of it.
        again: Again
    }
);

/// What the retries of a flow keep.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Again {
    /// Steps that were to run again and could not, and are counted as cancelled.
    pub(super) lost: u64,
    /// While the flow was done, a step was to run again and could not: that counts once the flow
    /// goes on.
    pub(super) count_lost: bool,
    /// Steps before this number are not read by the retry that goes on; `None` if none does.
    pub(super) read: Option<u32>,
    /// Steps that this retry could not run again, without those that it reads itself.
    pub(super) left_out: LeftOut,
}

impl Again {
    /// A retry ends; the steps that it has noted.
    pub(super) fn end(&mut self) -> LeftOut {
        self.read = None;
        std::mem::take(&mut self.left_out)
    }
}

impl FlowRow {
    /// A flow whose first step comes, and which is to be sealed within that span.
    pub(super) fn new(now: Timestamp, timeout: Duration) -> Self {
        Self {
            created: now,
            sealed: None,
            settled: None,
            cancelled: false,
            on_failure: OnFailure::default(),
            counts: FlowCounts::default(),
            planned: 0,
            callbacks: Vec::new(),
            until: Some(now + timeout),
            changes: 0,
            again: Again::default(),
        }
    }

    /// Whether its steps may run.
    pub(super) fn runs(&self) -> bool {
        self.sealed.is_some() && !self.cancelled
    }

    /// Whether a step failed or was cancelled, not counting those that a retry could not run.
    pub(super) fn has_failed(&self) -> bool {
        self.counts.dead + self.counts.cancelled > self.again.lost
    }
}

/// A job that runs when the flow has settled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CallbackRow {
    pub(super) role: Role,
    pub(super) id: JobId,
    pub(super) fired: bool,
}

/// How a linked job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(super) state: JobState,
    /// A job that it waited for ended otherwise.
    pub(super) skipped: bool,
    /// It was passed over, was to run again, and could not.
    pub(super) lost: bool,
}

impl End {
    pub(super) fn new(state: JobState, skipped: bool) -> Self {
        let lost = false;
        Self {
            state,
            skipped,
            lost,
        }
    }
}

row!(
    /// What a job waits for, and what is kept of it as long as its flow.
    LinkRow {
        /// Its flow; empty if it has none.
        flow: String,
        step: String,
        role: Role,
        /// Its place in the order in which steps came.
        number: u32,
        /// Jobs that have not ended as asked.
        unmet: u32,
        /// Those of them that ended otherwise.
        broken: u32,
        /// Those that are not of its flow.
        outside: u32,
        /// Whether it waits for the failure of another job.
        on_failed: bool,
        /// The hash of what was sent, with what it waits for.
        sent: RandomBits,
        /// The due of its receipt.
        due: Timestamp,
        ended: Option<End>,
        result: Option<Bytes>,
    } then {
        /// The first of the jobs outside of its flow that it waits for.
        parents: Vec<Parent>
    }
);

/// A job outside of its flow that a link names, and what has become of the edge from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Parent {
    pub(super) after: After,
    pub(super) is: EdgeIs,
}

/// Jobs outside of its flow that a link names.
pub(super) const PARENTS: usize = 8;

key!(
    /// A step of a flow, by the order in which they came.
    StepKey { namespace: u32, flow: String, number: u32 }
);

key!(
    /// That one job waits for another.
    EdgeKey { namespace: u32, from: JobId, to: JobId }
);

row!(
    /// How the other one must end, and whether it has.
    EdgeRow { on: On, is: EdgeIs }
);

/// What has become of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EdgeIs {
    Waiting = 0,
    Met = 1,
    Broken = 2,
}

impl EdgeIs {
    const ALL: [Self; 3] = [Self::Waiting, Self::Met, Self::Broken];
}

key!(
    /// Something that is left to do for a flow, in this order.
    TodoKey { namespace: u32, flow: String, task: u8, id: JobId }
);

/// The tasks of a flow: a step that runs again comes before what its new end causes.
pub(super) mod task {
    /// What depends on a step that runs again waits again.
    pub(crate) const REOPEN: u8 = 0;
    /// Every step is cancelled.
    pub(crate) const CANCEL: u8 = 1;
    /// Steps start because the flow is sealed.
    pub(crate) const START: u8 = 2;
    /// A job has ended.
    pub(crate) const FIRE: u8 = 3;
    /// A job is passed over.
    pub(crate) const SKIP: u8 = 4;
    /// The flow is forgotten.
    pub(crate) const FORGET: u8 = 5;
}

row!(
    /// How far a task has come.
    TodoRow {
        /// The last job that was handled.
        after: Option<JobId>,
        /// The number of the next step.
        number: u32,
        /// How the job ended; of one that was to run again and is not kept, how it ended before.
        end: Option<End>,
        /// The reason of a cancel.
        reason: Option<CancelReason>,
        /// Whether steps that completed run again too.
        all: bool,
    }
);

impl TodoRow {
    pub(super) fn begin() -> Self {
        Self {
            after: None,
            number: 0,
            end: None,
            reason: None,
            all: false,
        }
    }
}

macro_rules! numbered {
    ($($type:ident: $what:literal),*) => {$(
        impl Field for $type {
            fn write(&self, to: &mut Writer) { to.u8(*self as u8) }
            fn read(from: &mut Reader<'_>) -> Result<Self> {
                let number = from.u8()?;
                Self::ALL.into_iter().find(|one| *one as u8 == number).ok_or_else(|| damaged($what))
            }
        }
    )*};
}
numbered!(On: "condition", OnFailure: "failure policy", Role: "role", EdgeIs: "edge");

/// How a job must end and what has become of that are one byte.
const EDGES: u8 = On::ALL.len() as u8;

impl Field for Parent {
    fn write(&self, to: &mut Writer) {
        to.id(self.after.job);
        to.u8(self.after.on as u8 + EDGES * self.is as u8);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let (job, byte) = (from.id()?, from.u8()?);
        let on = On::ALL.into_iter().find(|one| *one as u8 == byte % EDGES);
        let is = EdgeIs::ALL
            .into_iter()
            .find(|one| *one as u8 == byte / EDGES);
        let (Some(on), Some(is)) = (on, is) else {
            return Err(damaged("parent"));
        };
        let after = After::new(job, on);
        Ok(Self { after, is })
    }
}

impl Field for Again {
    fn write(&self, to: &mut Writer) {
        to.varint(self.lost);
        to.bool(self.count_lost);
        self.read.map(u64::from).write(to);
        let out = &self.left_out;
        to.varint(out.gone);
        out.gone_steps.write(to);
        to.varint(out.unique_held);
        to.list(&out.unique_held_steps, |to, (step, holder)| {
            step.write(to);
            to.id(*holder);
        });
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let (lost, count_lost) = (from.varint()?, from.bool()?);
        let read: Option<u64> = Field::read(from)?;
        let left_out = LeftOut {
            gone: from.varint()?,
            gone_steps: Field::read(from)?,
            unique_held: from.varint()?,
            unique_held_steps: from.list(|from| Ok((Field::read(from)?, from.id()?)))?,
        };
        Ok(Self {
            lost,
            count_lost,
            read: read.map(|number| number as u32),
            left_out,
        })
    }
}

impl Field for CallbackRow {
    fn write(&self, to: &mut Writer) {
        self.role.write(to);
        to.id(self.id);
        to.bool(self.fired);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            role: Field::read(from)?,
            id: from.id()?,
            fired: from.bool()?,
        })
    }
}

/// How an end was not the job's own: 1 if it was passed over.
const LOST: u8 = 2;

impl Field for End {
    fn write(&self, to: &mut Writer) {
        self.state.write(to);
        to.u8(match self.lost {
            true => LOST,
            false => self.skipped.into(),
        });
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let (state, how) = (Field::read(from)?, from.u8()?);
        let (skipped, lost) = (how == 1, how == LOST);
        Ok(Self {
            state,
            skipped,
            lost,
        })
    }
}

impl Field for FlowCounts {
    fn write(&self, to: &mut Writer) {
        let counts = [
            self.steps,
            self.open,
            self.completed,
            self.skipped,
            self.cancelled,
            self.dead,
        ];
        for count in counts {
            to.varint(count);
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            steps: from.varint()?,
            open: from.varint()?,
            completed: from.varint()?,
            skipped: from.varint()?,
            cancelled: from.varint()?,
            dead: from.varint()?,
        })
    }
}
