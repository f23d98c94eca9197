//! A schedule that an engine keeps: what its user wrote, and what the engine says of it.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::parts::SpecBuilder;
use super::refuse;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Due, Group, JobId, Limits, NewJob, Unique, UniquePolicy, check_schedule_name};
use crate::retry::RetryPolicy;
use crate::time::{Timestamp, days, exact_span, minutes, seconds};

/// Records whose name begins so are schedules.
pub const SCHEDULE_PREFIX: &str = "schedule/";
/// A run that is late by no more than that starts, unless the schedule says otherwise.
pub const GRACE_DEFAULT: Duration = minutes(1);
/// The most missed runs that a schedule can catch up on.
pub const MISSED_MAX: u32 = 100;
/// The longest [`expect_within`](Schedule::expect_within).
pub const EXPECT_WITHIN_MAX: Duration = days(400);
/// The longest note of a pause, in bytes.
const NOTE_MAX: usize = 256;

/// A schedule as its user writes it, under the record `schedule/NAME`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Schedule {
    /// Which instants it names.
    pub spec: SpecBuilder,
    /// The job of each run.
    pub template: Template,
    /// What happens to a run while another one is on its way.
    #[serde(default)]
    pub overlap: Overlap,
    /// What happens to runs that an outage made late.
    #[serde(default)]
    pub missed: Missed,
    /// Whether runs are skipped.
    #[serde(default)]
    pub paused: bool,
    /// Why it is paused, at most 256 bytes.
    #[serde(default)]
    pub note: String,
    /// Whether it pauses itself when a run is dead.
    #[serde(default)]
    pub pause_on_failure: bool,
    /// After that long without a run that completed it is overdue, 1 s to 400 days: an alert says
    /// so. While it is paused, and once it has ended, nothing is expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_within: Option<Duration>,
}

/// What happens to a run while another run of the schedule waits, is active or is to be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overlap {
    /// It is skipped.
    #[default]
    Skip,
    /// One run waits until the other has settled; more are skipped.
    BufferOne,
    /// All wait, and run one after the other.
    BufferAll,
    /// The other is cancelled.
    CancelOther,
    /// Both run.
    Allow,
}

impl Overlap {
    /// Every policy, in the order of its number.
    pub const ALL: [Self; 5] = [
        Self::Skip,
        Self::BufferOne,
        Self::BufferAll,
        Self::CancelOther,
        Self::Allow,
    ];
}

/// What happens to runs that are due although nothing could move them, because the store was off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missed {
    /// The latest one starts, and those that are late by at most the grace.
    Latest {
        /// How late is not too late.
        grace: Duration,
    },
    /// The last so many that are due start, at most [`MISSED_MAX`].
    All {
        /// How many.
        max: u32,
    },
    /// Only those that are late by at most the grace start.
    Skip {
        /// How late is not too late.
        grace: Duration,
    },
}

impl Default for Missed {
    /// The latest, with a grace of [`GRACE_DEFAULT`].
    fn default() -> Self {
        Self::Latest {
            grace: GRACE_DEFAULT,
        }
    }
}

/// The job that a schedule enqueues at each of its instants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Template {
    /// Its queue.
    pub queue: String,
    /// The name of its handler.
    pub kind: String,
    /// Opaque bytes.
    pub payload: Bytes,
    /// What the payload is.
    pub content_type: String,
    /// Names and values for the handler.
    pub headers: Vec<(String, String)>,
    /// 0 (first) to 9 (last).
    pub priority: u8,
    /// A unique key of its own, which then decides about overlaps.
    pub unique: Option<Unique>,
    /// A serial group.
    pub group: Option<Group>,
    /// The share of the queue for which runs take turns.
    pub share: Option<String>,
    /// Named limits.
    pub limits: Vec<String>,
    /// Units of the rates of its limits that one run takes.
    pub cost: u32,
    /// Failures after which a run is dead.
    pub max_attempts: u32,
    /// Crashes after which a run is dead, if it has a limit of its own.
    pub max_crashes: Option<u32>,
    /// When a failed attempt runs again.
    pub retry: RetryPolicy,
    /// How long one attempt may run.
    pub timeout: Option<Duration>,
    /// How long a completed run is kept.
    pub retention: Duration,
}

impl Template {
    /// The template of runs like this job, whose id does not matter.
    ///
    /// # Errors
    /// `invalid_input` if it has a due, an expiry, names to wait for or a history: those of a run
    /// are the schedule's business.
    pub fn of(job: NewJob) -> Result<Self> {
        let cannot = |what: &str| {
            let message = format!("schedule: its job has no {what}; leave it out");
            Err(refuse(message))
        };
        match &job {
            job if job.due != Due::Now => {
                return cannot("delay and no instant; the times are of the schedule");
            }
            job if job.expires_at.is_some() => return cannot("expires_at"),
            job if !job.wait_for.is_empty() => return cannot("wait_for"),
            job if job.history.is_some() => return cannot("history"),
            _ => {}
        }
        Ok(Self {
            queue: job.queue,
            kind: job.kind,
            payload: job.payload,
            content_type: job.content_type,
            headers: job.headers,
            priority: job.priority,
            unique: job.unique,
            group: job.group,
            share: job.share,
            limits: job.limits,
            cost: job.cost,
            max_attempts: job.max_attempts,
            max_crashes: job.max_crashes,
            retry: job.retry,
            timeout: job.timeout,
            retention: job.retention,
        })
    }

    /// A job made from it.
    pub fn job(self, id: JobId) -> NewJob {
        let mut job = NewJob::with_id(id, self.queue, self.payload);
        job.kind = self.kind;
        job.content_type = self.content_type;
        job.headers = self.headers;
        job.priority = self.priority;
        job.unique = self.unique;
        job.group = self.group;
        job.share = self.share;
        job.limits = self.limits;
        job.cost = self.cost;
        job.max_attempts = self.max_attempts;
        job.max_crashes = self.max_crashes;
        job.retry = self.retry;
        job.timeout = self.timeout;
        job.retention = self.retention;
        job
    }
}

impl Schedule {
    /// A schedule of these instants and that job, with the default policies.
    ///
    /// ```
    /// use punctual::NewJob;
    /// use punctual::schedule::{Overlap, Schedule, Spec, Template};
    ///
    /// let spec = Spec::cron("0 9 * * MON").zone("Europe/Berlin").build()?;
    /// let template = Template::of(NewJob::new("reports", "{}"))?;
    /// let schedule = Schedule::new(spec.parts().clone(), template);
    /// assert_eq!(schedule.overlap, Overlap::Skip);
    /// schedule.check("weekly-report", &Default::default())?;
    /// # Ok::<(), punctual::Error>(())
    /// ```
    pub fn new(spec: SpecBuilder, template: Template) -> Self {
        Self {
            spec,
            template,
            overlap: Overlap::default(),
            missed: Missed::default(),
            paused: false,
            note: String::new(),
            pause_on_failure: false,
            expect_within: None,
        }
    }

    /// The job of a run, with the key or the group that the overlap policy needs; engines enqueue
    /// it.
    pub fn job(&self, name: &str, id: JobId) -> NewJob {
        let mut job = self.template.clone().job(id);
        let policy = match self.overlap {
            Overlap::Skip => UniquePolicy::Keep,
            Overlap::BufferOne => UniquePolicy::After,
            Overlap::CancelOther => UniquePolicy::Replace,
            Overlap::BufferAll => {
                job.group.get_or_insert_with(|| Group::new(run_key(name)));
                return job;
            }
            Overlap::Allow => return job,
        };
        job.unique
            .get_or_insert_with(|| Unique::new(run_key(name)).policy(policy));
        job
    }

    /// Checks every part; engines call it when a schedule is written.
    ///
    /// # Errors
    /// With the part, its value and the remedy. `unsupported` in a build without the feature
    /// `schedules`.
    pub fn check(&self, name: &str, limits: &Limits) -> Result<()> {
        check_schedule_name(name)?;
        self.check_spec()?;
        self.template.clone().job(JobId::new()).check(limits)?;
        if self.note.len() > NOTE_MAX || self.note.contains(char::is_control) {
            let message = "note: use at most 256 bytes without control characters";
            return Err(refuse(message).with("bytes", self.note.len()));
        }
        let allowed = seconds(1)..=EXPECT_WITHIN_MAX;
        if let Some(span) = self.expect_within.filter(|span| !allowed.contains(span)) {
            let message = "expect_within: use 1s to 400d";
            return Err(refuse(message).with("expect_within", exact_span(span)));
        }
        match self.missed {
            Missed::All { max } if max == 0 || max > MISSED_MAX => {
                let message = format!("missed: {max} is out of range; use 1 to {MISSED_MAX}");
                Err(refuse(message))
            }
            _ => Ok(()),
        }
    }

    #[cfg(feature = "schedules")]
    fn check_spec(&self) -> Result<()> {
        self.spec.clone().build().map(drop)
    }

    #[cfg(not(feature = "schedules"))]
    fn check_spec(&self) -> Result<()> {
        let message = "this build has no calendars; build with the feature `schedules`";
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

/// The unique key of a schedule's runs, where the overlap policy needs one.
pub(crate) fn run_key(name: &str) -> String {
    format!("{SCHEDULE_PREFIX}{name}")
}

/// Which run of which schedule a job is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Occurrence {
    /// The schedule's name.
    pub name: String,
    /// The instant that it stands for, however late it runs.
    pub at: Timestamp,
}

impl Occurrence {
    /// The run of that schedule for that instant.
    pub fn new(name: impl Into<String>, at: Timestamp) -> Self {
        Self {
            name: name.into(),
            at,
        }
    }
}

/// A run that completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Success {
    /// The instant that the run stands for.
    pub at: Timestamp,
    /// When it completed.
    pub finished_at: Timestamp,
    /// Its small result.
    pub result: Option<Bytes>,
}

impl Success {
    /// The run of the instant `at`, which completed with that result.
    pub fn new(at: Timestamp, finished_at: Timestamp, result: Option<Bytes>) -> Self {
        Self {
            at,
            finished_at,
            result,
        }
    }

    /// Checks what an import brings.
    ///
    /// # Errors
    /// `payload_too_large` if the result is over [`Limits::result_bytes`].
    pub fn check(&self, limits: &Limits) -> Result<()> {
        let bytes = self.result.as_ref().map_or(0, Bytes::len);
        if bytes <= limits.result_bytes {
            return Ok(());
        }
        let message = "last_success: its result is too large; import it without the result";
        Err(Error::new(ErrorKind::PayloadTooLarge, message)
            .with("bytes", bytes)
            .with("limit", limits.result_bytes))
    }
}

/// A schedule that has had no run that completed for longer than it is expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Overdue {
    /// The schedule's name.
    pub schedule: String,
    /// When one should have completed at the latest.
    pub since: Timestamp,
}

impl Overdue {
    /// A schedule without success for too long.
    pub fn new(schedule: impl Into<String>, since: Timestamp) -> Self {
        Self {
            schedule: schedule.into(),
            since,
        }
    }
}

/// Schedules that are overdue which one [`Stats`](crate::engine::Stats) names at most.
pub const OVERDUE_MAX: usize = 100;

/// A schedule, and how it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScheduleStatus {
    /// Its name.
    pub name: String,
    /// The version of what its user wrote.
    pub version: u64,
    /// What its user wrote.
    pub schedule: Schedule,
    /// The job of the next run.
    pub pending: Option<JobId>,
    /// The next instants, in order, as far as the store knows them; at most 16.
    pub next: Vec<Timestamp>,
    /// The last instant that the store knows: until then it needs no process with calendars.
    /// `None` if that never ends, as for spans, or if the schedule has ended.
    pub lasts_until: Option<Timestamp>,
    /// Whether it has no run to come although it has not ended: a process with calendars must do
    /// its maintenance.
    pub dry: bool,
    /// Whether it names no instant any more, or has had its `max_runs`.
    pub ended: bool,
    /// Runs that started, or wait for the run before.
    pub fired: u64,
    /// Runs that were skipped: by a pause, an overlap or a cancel.
    pub skipped: u64,
    /// Runs that came too late.
    pub missed: u64,
    /// The instant of the last run that fired, and its job.
    pub last: Option<(Timestamp, JobId)>,
    /// The last run that completed, with its result.
    #[serde(default)]
    pub last_success: Option<Success>,
    /// Since when a run that completes is overdue.
    #[serde(default)]
    pub overdue_since: Option<Timestamp>,
    /// The version of the tz database that the known instants come from; empty if none was used.
    pub tz_database: String,
}

impl ScheduleStatus {
    /// A schedule that has named nothing yet; engines fill in the rest.
    pub fn new(name: impl Into<String>, version: u64, schedule: Schedule) -> Self {
        Self {
            name: name.into(),
            version,
            schedule,
            pending: None,
            next: Vec::new(),
            lasts_until: None,
            dry: false,
            ended: false,
            fired: 0,
            skipped: 0,
            missed: 0,
            last: None,
            last_success: None,
            overdue_since: None,
            tz_database: String::new(),
        }
    }
}
