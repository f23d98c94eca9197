//! The rows of every table: what is stored of jobs, queues, keys, groups, leases and records.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::codec::{Reader, Writer, damaged};
use super::fields::{Field, key, row};
use super::rare::Rare;
use super::table::Value;
use crate::engine::Token;
use crate::error::Result;
use crate::job::{
    CancelReason, DeadReason, Group, JobId, JobState, LogLine, Memo, PastAttempt, Stop, Unique,
};
use crate::retry::RetryPolicy;
use crate::schedule::{PlannedRun, Success};
use crate::time::Timestamp;

/// The first byte of values that have no rare fields.
pub(super) const NO_RARE: u8 = 1;

key!(
    /// A job of a namespace.
    JobKey { namespace: u32, id: JobId }
);

row!(
    /// What was sent, and what the engine made of it once: only an edit of the payload changes it.
    Spec {
        queue: u32,
        /// Grows with each enqueue; the tie-break of order.
        seq: u64,
        enqueued_at: Timestamp,
        /// The due of the receipt.
        due: Timestamp,
        late: bool,
        kind: String,
        payload: Bytes,
        content_type: String,
        headers: Vec<(String, String)>,
        expires_at: Option<Timestamp>,
        priority: u8,
        unique: Option<Unique>,
        group: Option<Group>,
        max_attempts: u32,
        retry: RetryPolicy,
        timeout: Option<Duration>,
        retention: Duration,
        wait_for: Vec<String>,
    }
    then {
        /// What few jobs have; not there in rows of the others.
        rare: Rare
    }
);

row!(
    /// What has become of a job; a job without this row stands as it was enqueued.
    Status {
        /// Held, active or settled; scheduled stands for both scheduled and ready.
        place: JobState,
        due: Timestamp,
        priority: u8,
        /// In front of its line, because it was rescued or released.
        front: bool,
        attempt: u32,
        failures: u32,
        crashes: u32,
        expires_at: Option<Timestamp>,
        started_at: Option<Timestamp>,
        finished_at: Option<Timestamp>,
        last_error: Option<String>,
        result: Option<Bytes>,
        progress: Option<Bytes>,
        cancel_requested: bool,
        cancelled: Option<CancelReason>,
        dead: Option<DeadReason>,
        stopped: Option<Stop>,
        wait_for: Vec<String>,
        /// The active holder of its key that it follows.
        follows: Option<JobId>,
        /// The lease, while active.
        fence: u64,
        /// The attempt and fence of its last settlement, to know a repetition.
        settled: Option<(u32, u64)>,
    }
    then {
        /// Past attempts, the oldest first.
        attempts: Vec<PastAttempt>
    }
    then {
        /// The last lines logged.
        log: Vec<LogLine>
    }
    then {
        /// Whether other jobs wait for it.
        watched: bool
    }
    then {
        /// What its steps kept, its signals and the waits that timed out.
        memos: Vec<Memo>
    }
);

impl Status {
    pub(crate) fn of(spec: &Spec) -> Self {
        Self {
            place: if spec.wait_for.is_empty() && !spec.rare.is_linked() {
                JobState::Scheduled
            } else {
                JobState::Held
            },
            due: spec.due,
            priority: spec.priority,
            front: false,
            attempt: 0,
            failures: 0,
            crashes: 0,
            expires_at: spec.expires_at,
            started_at: None,
            finished_at: None,
            last_error: None,
            result: None,
            progress: None,
            cancel_requested: false,
            cancelled: None,
            dead: None,
            stopped: None,
            wait_for: spec.wait_for.clone(),
            follows: None,
            fence: 0,
            settled: None,
            attempts: Vec::new(),
            log: Vec::new(),
            watched: false,
            memos: Vec::new(),
        }
    }

    pub(crate) fn state(&self, now: Timestamp) -> JobState {
        match self.place {
            JobState::Scheduled if self.due <= now => JobState::Ready,
            place => place,
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.place == JobState::Scheduled
    }
}

impl<V: Value> Value for Arc<V> {
    fn write(&self, to: &mut Writer) {
        V::write(self, to);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        V::read(from).map(Arc::new)
    }
    fn weight(&self) -> usize {
        V::weight(self)
    }
}

key!(
    /// A job that is to become due.
    DueKey { queue: u32, due: Timestamp, seq: u64 }
);

impl DueKey {
    /// At or before every due of a queue.
    pub(crate) fn start_of(queue: u32) -> Self {
        Self {
            queue,
            due: Timestamp::ZERO,
            seq: 0,
        }
    }
}

impl Value for JobId {
    fn write(&self, to: &mut Writer) {
        to.u8(NO_RARE);
        to.id(*self);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.first_byte(NO_RARE)?;
        from.id()
    }
}

impl Value for () {
    fn write(&self, to: &mut Writer) {
        to.u8(NO_RARE);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.first_byte(NO_RARE)
    }
}

key!(
    /// A place in a lane: an ungrouped ready job, or a group that may be claimed from.
    PlaceKey {
        queue: u32,
        /// The priority, plus ten for suspects.
        lane: u8,
        /// 0 in front, 1 otherwise.
        behind: u8,
        /// A job's due, or the instant at which its group came round.
        at: Timestamp,
        seq: u64,
    }
);

impl PlaceKey {
    /// At or before every place of a lane.
    pub(crate) fn start_of(queue: u32, lane: u8) -> Self {
        Self {
            queue,
            lane,
            behind: 0,
            at: Timestamp::ZERO,
            seq: 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    Job(JobId),
    Group(String),
}

impl Place {
    pub(crate) fn job(self) -> Option<JobId> {
        match self {
            Self::Job(id) => Some(id),
            Self::Group(_) => None,
        }
    }
}

impl Value for Place {
    fn write(&self, to: &mut Writer) {
        to.u8(NO_RARE);
        match self {
            Self::Job(id) => {
                to.u8(0);
                to.id(*id);
            }
            Self::Group(key) => {
                to.u8(1);
                to.text(key);
            }
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.first_byte(NO_RARE)?;
        match from.u8()? {
            0 => from.id().map(Self::Job),
            1 => from.text().map(Self::Group),
            _ => Err(damaged("place")),
        }
    }
}

key!(
    /// A ready job in its group's line.
    LineKey { queue: u32, group: String, priority: u8, behind: u8, due: Timestamp, seq: u64 }
);

impl LineKey {
    /// At or before every place of a priority of a group; no group comes before all of a queue.
    pub(crate) fn start_of(queue: u32, group: &str, priority: u8) -> Self {
        Self {
            queue,
            group: group.to_owned(),
            priority,
            behind: 0,
            due: Timestamp::ZERO,
            seq: 0,
        }
    }
}

row!(
    /// What stands in a line.
    LineEntry { id: JobId, suspect: bool }
    then {
        /// Its share, if it has one.
        share: Option<String>
    }
);

key!(
    /// A key of a queue: unique or group.
    QueueText { queue: u32, text: String }
);

row!(
    /// What a serial group does now.
    GroupRow {
        active: Option<JobId>,
        /// The job that waits for its next attempt and holds the others back.
        holding: Option<JobId>,
        /// Ready jobs by priority, zeros left out.
        ready: Vec<(u8, u32)>,
        /// Unsettled jobs; the row goes with the last one.
        members: u32,
        /// The places in lanes, by lane.
        places: Vec<(u8, (Timestamp, u64))>,
    }
    then {
        /// The shares whose places they are, by lane; none of a job without a share.
        shares: Vec<(u8, String)>
    }
);

key!(
    /// A job in an order of its own: by seq.
    SeqKey { queue: u32, seq: u64 }
);

key!(
    /// An unsettled member of a group.
    MemberKey { queue: u32, group: String, seq: u64 }
);

row!(
    /// The holder of a unique key.
    Holder {
        id: JobId,
        /// The end of a period, for `Hold::For`.
        until: Option<Timestamp>,
        follower: Option<JobId>,
    }
);

key!(
    /// The end of a unique key's period.
    PeriodKey { until: Timestamp, queue: u32, key: String }
);

key!(
    /// A name that was cleared before its job came.
    EarlyKey { namespace: u32, id: JobId, name: String }
);

row!(
    /// Until when the clear counts.
    EarlyRow { until: Timestamp }
);

key!(
    /// The same, by when it is forgotten.
    EarlyEndKey { namespace: u32, until: Timestamp, id: JobId, name: String }
);

key!(
    /// An instant at which a job expires.
    ExpiryKey { at: Timestamp, namespace: u32, id: JobId }
);

key!(
    /// A lease.
    FenceKey { fence: u64 }
);

row!(
    /// What a lease was given out with: never changes.
    LeaseRow {
        namespace: u32,
        nonce: RandomBits,
        worker: u128,
        alone: bool,
        with_engine: bool,
        jobs: Vec<JobId>,
    }
);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RandomBits(pub(crate) u64);

impl Field for RandomBits {
    fn write(&self, to: &mut Writer) {
        to.u64(self.0);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.u64().map(Self)
    }
}

row!(
    /// When a lease ends.
    DeadlineRow {
        deadline: Timestamp,
        lease_duration: Duration,
        /// It was extended once because the engine had been silent.
        extended_after_pause: bool,
    }
);

impl LeaseRow {
    pub(crate) fn token(&self, fence: u64) -> Token {
        Token {
            fence,
            nonce: self.nonce.0,
        }
    }
}

row!(
    /// What is left of a settled job whose record is gone.
    Tombstone {
        state: JobState,
        content: RandomBits,
        due: Timestamp,
        late: bool,
        finished_at: Timestamp,
        result: Option<Bytes>,
        settled: Option<(u32, u64)>,
    }
    then {
        /// Until when it stays, if its job was sent with a `remember` over the settled window.
        remembered: Option<Timestamp>
    }
);

key!(
    /// A kept settled job of a queue, in the order of settling.
    KeptKey { queue: u32, state: u8, finished_at: Timestamp, seq: u64 }
);

row!(
    /// The job, and when it is removed.
    Kept { id: JobId, until: Timestamp, bytes: u64 }
);

key!(
    /// The instant at which a kept job goes.
    PruneKey { until: Timestamp, queue: u32, state: u8, finished_at: Timestamp, seq: u64 }
);

key!(
    /// A queue's name.
    QueueName { namespace: u32, queue: String }
);

row!(
    /// A queue.
    QueueRow {
        id: u32,
        paused: bool,
        counts: Vec<u64>,
        kept_bytes: Vec<u64>,
        /// Places by lane.
        lanes: Vec<u32>,
        /// The last number that the queue gave out.
        seq: u64,
    }
);

key!(
    /// A name.
    NameKey { name: String }
);

key!(
    /// A record of a namespace.
    RecordKey { namespace: u32, name: String }
);

row!(
    /// What a rate has counted.
    RateRow {
        /// Until when a smooth rate is used up.
        next: Timestamp,
        /// The first start of the last part of a window.
        since: Timestamp,
        /// The starts that a window counts: the last instant of each part, and how many.
        starts: Vec<(Timestamp, u64)>,
    }
);

row!(
    /// How the limits of a queue stand: only the engine writes it.
    GateRow {
        /// Since when they let jobs start, or will.
        open_since: Timestamp,
        rate: RateRow,
    }
);

row!(
    /// How a schedule stands: only the engine writes it, under the name of its record.
    ScheduleRow {
        /// The instants to come after the pending one, as far as they are known.
        next: Vec<PlannedRun>,
        /// Where the search for more of them goes on.
        searched: Timestamp,
        /// Whether there are no more.
        is_complete: bool,
        /// The run that is enqueued and has not moved yet.
        pending: Option<(JobId, PlannedRun)>,
        fired: u64,
        skipped: u64,
        missed: u64,
        /// The last run that fired.
        last: Option<(Timestamp, JobId)>,
        /// The last run that completed.
        success: Option<Success>,
        /// From when on a success is expected, if it is.
        expected_from: Timestamp,
        /// The tz database that the instants were computed with.
        tz_database: String,
    }
);

key!(
    /// A place for the last ends of a queue.
    EndKey { queue: u32, slot: u8 }
);

row!(
    /// Jobs of a queue that ended in one step.
    EndRow {
        /// Grows with each row of the queue.
        seq: u64,
        at: Timestamp,
        runs: Vec<EndRun>,
    }
);

/// Jobs of one kind that ended the same way.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndRun {
    pub(crate) state: JobState,
    /// Empty if it is the queue's name.
    pub(crate) kind: String,
    pub(crate) ids: Vec<JobId>,
}

row!(
    /// What only grows: one row.
    Counters {
        fence: u64,
        version: u64,
        names: u32,
        now: Timestamp,
        /// The last orderly close, if nothing came after it.
        closed: bool,
    }
);

impl Value for u32 {
    fn write(&self, to: &mut Writer) {
        to.u8(NO_RARE);
        to.u32(*self);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.first_byte(NO_RARE)?;
        from.u32()
    }
}
