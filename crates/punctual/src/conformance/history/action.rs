//! The actions of which random histories are made.

use std::fmt;
use std::time::Duration;

use crate::job::{Hold, JobId, JobState, OnRetry, Outcome, Stop, UniquePolicy};
use crate::retry::RetryPolicy;
use crate::time::format_span;

/// One step of a history: an action in one of the namespaces.
///
/// Nothing in it depends on what an engine answers: jobs have numbers, leases are counted back from
/// the last one answered. So a history keeps its sense when steps are taken out of it.
#[derive(Clone, PartialEq)]
pub(super) struct Step {
    pub(super) space: u8,
    pub(super) action: Action,
}

/// What one step does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Enqueue(Vec<JobPlan>),
    Claim(ClaimPlan),
    Extend(ExtendPlan),
    Settle(Vec<LeasePlan>),
    Edit {
        targets: Vec<TargetPlan>,
        edit: EditPlan,
        dry_run: bool,
    },
    EditWhere {
        filter: FilterPlan,
        edit: EditPlan,
        limit: usize,
        dry_run: bool,
    },
    Pause(u8),
    Resume(u8),
    Purge {
        queue: u8,
        limit: usize,
    },
    DeleteQueue(u8),
    Settings {
        queue: u8,
        max_pending: Option<u8>,
        dead_letter: bool,
        /// None, or one of a few.
        limits: u8,
        stale: bool,
    },
    /// The clock goes on: at once, or in steps short enough for the engine never to be silent.
    Advance {
        by: Duration,
        walk: bool,
    },
    /// The clock steps back.
    Back(Duration),
    /// The clock goes to the next moment of a kind, give or take a microsecond.
    Next {
        moment: Moment,
        off: i8,
        walk: bool,
    },
    /// Effects that happen while a record has a version; it may be written in the same step.
    Guarded {
        guard: GuardPlan,
        writes: bool,
        effects: Vec<EffectPlan>,
    },
    /// A subscription comes, in the place of one of that name, or goes.
    Subscribe {
        name: u8,
        pattern: u8,
        queue: u8,
        gone: bool,
    },
    /// A message is published, matched with the subscriptions as they are, or as they were once.
    Publish {
        job: Box<JobPlan>,
        subject: u8,
        stale: bool,
    },
    Maintain,
    List {
        by: ListPlan,
        filter: FilterPlan,
        limit: usize,
        payloads: bool,
    },
    GetKey(u8, u8),
    Reopen,
    Crash,
}

/// A record that is compared; with a version that it does not have if it is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GuardPlan {
    pub(super) record: u8,
    pub(super) stale: bool,
}

/// A moment at which something changes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Due,
    LeaseEnd,
    Expiry,
    KeyPeriodEnd,
    Forgetting,
}

/// A job to send; `no` is its id.
#[derive(Clone, PartialEq)]
pub(super) struct JobPlan {
    pub(super) no: u16,
    pub(super) queue: u8,
    pub(super) kind: u8,
    /// Which payload and header: another number is another content.
    pub(super) content: u8,
    pub(super) due: When,
    pub(super) expires: Option<When>,
    pub(super) priority: u8,
    pub(super) unique: Option<(u8, UniquePolicy, Hold)>,
    pub(super) group: Option<(u8, OnRetry)>,
    pub(super) max_attempts: u32,
    pub(super) max_crashes: Option<u8>,
    pub(super) retry: RetryPolicy,
    pub(super) retention: Duration,
    pub(super) remember: Option<Duration>,
    /// How many names it waits for; the first one twice.
    pub(super) names: u8,
    /// What an import knows of its past.
    pub(super) past: Option<PastPlan>,
}

/// What has become of a job before it is imported.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PastPlan {
    pub(super) state: JobState,
    pub(super) attempt: u8,
    pub(super) failures: u8,
    pub(super) crashes: u8,
    /// When it was enqueued, before the clock's reading at the step.
    pub(super) age: Duration,
    /// When it settled, if it has.
    pub(super) finished: When,
}

impl JobPlan {
    pub(super) fn plain(no: u16) -> Self {
        Self {
            no,
            queue: 0,
            kind: 0,
            content: 0,
            due: When::Now,
            expires: None,
            priority: 5,
            unique: None,
            group: None,
            max_attempts: 20,
            max_crashes: None,
            retry: RetryPolicy::fixed(Duration::ZERO),
            retention: Duration::ZERO,
            remember: None,
            names: 0,
            past: None,
        }
    }
}

/// An instant, relative to the clock's reading at the step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Now,
    After(Duration),
    At(Duration),
    Ago(Duration),
}

#[derive(Clone, PartialEq)]
pub(super) struct ClaimPlan {
    pub(super) worker: u8,
    pub(super) queues: Vec<u8>,
    pub(super) turns: bool,
    pub(super) limit: usize,
    pub(super) max_bytes: usize,
    pub(super) lease_duration: Duration,
    pub(super) alone: bool,
    pub(super) remote: bool,
    /// Two claims of one nonce are the same claim sent twice.
    pub(super) nonce: u16,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ExtendPlan {
    /// Counted back from the last lease answered.
    pub(super) lease: u8,
    pub(super) lease_duration: Duration,
    pub(super) forged: bool,
    pub(super) progress: Option<u8>,
    /// Jobs asked about that may be of any lease.
    pub(super) others: Vec<u16>,
}

/// A report of one lease, counted back from the last one answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LeasePlan {
    pub(super) lease: u8,
    pub(super) forged: bool,
    pub(super) settlements: Vec<SettlePlan>,
}

#[derive(Clone, PartialEq)]
pub(super) struct SettlePlan {
    /// Which job of the lease.
    pub(super) nth: u8,
    pub(super) wrong_attempt: bool,
    pub(super) outcome: Outcome,
    pub(super) result: bool,
    pub(super) error: bool,
    pub(super) stopped: Option<Stop>,
    pub(super) effects: Vec<EffectPlan>,
    pub(super) guard: Option<GuardPlan>,
}

// A history has few of them, and each lives as long as its history.
#[expect(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EffectPlan {
    Enqueue(JobPlan),
    Clear { no: u16, name: u8 },
    Cancel { queue: u8, key: u8 },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TargetPlan {
    Job(u16),
    Key { queue: u8, key: u8 },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum EditPlan {
    Cancel,
    Reschedule(When),
    RunNow,
    Reprioritise(u8),
    Redrive,
    Delete,
    /// To the payload of another content.
    UpdatePayload(u8),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct FilterPlan {
    pub(super) queue: Option<u8>,
    pub(super) state: Option<JobState>,
    pub(super) kind: Option<u8>,
    pub(super) content: Option<u8>,
    pub(super) older_than: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ListPlan {
    State(u8, JobState),
    Unique(u8, u8),
    Group(u8, u8),
    All,
}

/// The id of a job's number; another one for each seed, as retries are drawn from it.
pub(super) fn id_of(seed: u64, no: u16) -> JobId {
    JobId::derived("punctual history", &format!("{seed}/{no}"))
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.space > 0 {
            write!(f, "in namespace {}: ", self.space)?;
        }
        self.action.fmt(f)
    }
}

/// Names what is not plain.
impl fmt::Debug for JobPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::plain(self.no);
        write!(f, "job {} to queue {}", self.no, self.queue)?;
        if self.kind != plain.kind {
            write!(f, " kind {}", self.kind)?;
        }
        if self.content != plain.content {
            write!(f, " content {}", self.content)?;
        }
        if self.due != plain.due {
            write!(f, " due {:?}", self.due)?;
        }
        if let Some(expires) = self.expires {
            write!(f, " expires {expires:?}")?;
        }
        if self.priority != plain.priority {
            write!(f, " priority {}", self.priority)?;
        }
        if let Some((key, policy, hold)) = self.unique {
            write!(f, " unique {key} {policy:?} {hold:?}")?;
        }
        if let Some((key, on_retry)) = self.group {
            write!(f, " group {key} {on_retry:?}")?;
        }
        if self.max_attempts != plain.max_attempts {
            write!(f, " max_attempts {}", self.max_attempts)?;
        }
        if let Some(max) = self.max_crashes {
            write!(f, " max_crashes {max}")?;
        }
        if self.retry != plain.retry {
            write!(f, " retry {:?}", self.retry)?;
        }
        if self.retention != plain.retention {
            write!(f, " retention {}", format_span(self.retention))?;
        }
        if let Some(span) = self.remember {
            write!(f, " remember {}", format_span(span))?;
        }
        if self.names > 0 {
            write!(f, " waits for {} names", self.names)?;
        }
        if let Some(past) = &self.past {
            write!(f, " imported with {past:?}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ClaimPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (worker, queues, limit, nonce) = (self.worker, &self.queues, self.limit, self.nonce);
        write!(
            f,
            "worker {worker}, {limit} of queues {queues:?}, nonce {nonce}, lease "
        )?;
        f.write_str(&format_span(self.lease_duration))?;
        for (said, word) in [
            (self.turns, ", in turns"),
            (self.alone, ", alone"),
            (self.remote, ", remote"),
        ] {
            f.write_str(if said { word } else { "" })?;
        }
        if self.max_bytes < 4 << 20 {
            write!(f, ", at most {} bytes", self.max_bytes)?;
        }
        Ok(())
    }
}

impl fmt::Debug for SettlePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {:?}", self.nth, self.outcome)?;
        if self.wrong_attempt {
            f.write_str(" wrong attempt")?;
        }
        if self.result {
            f.write_str(" result")?;
        }
        if self.error {
            f.write_str(" error")?;
        }
        if let Some(stopped) = self.stopped {
            write!(f, " stopped {stopped}")?;
        }
        if !self.effects.is_empty() {
            write!(f, " effects {:?}", self.effects)?;
        }
        if let Some(guard) = self.guard {
            write!(f, " {guard:?}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::After(span) => write!(f, "after {}", format_span(*span)),
            Self::At(span) => write!(f, "at now + {}", format_span(*span)),
            Self::Ago(span) => write!(f, "at now - {}", format_span(*span)),
        }
    }
}
