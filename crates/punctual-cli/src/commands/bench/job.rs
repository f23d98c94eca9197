//! The kinds of jobs whose lives a bench measures.

use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use punctual::time::{Timestamp, hours, millis};
use punctual::worker::Verdict;
use punctual::{Context, Due, Group, JobId, JobRecord, NewJob, RetryPolicy, Unique};

use super::Dice;

/// The queue of every bench.
pub(super) const QUEUE: &str = "bench";
/// The kind of the jobs that release held ones.
const RELEASE: &str = "bench.release";
/// The name that a held job waits for.
const NAME: &str = "go";
/// Held jobs that one job releases: a settlement has 64 effects at most.
pub(super) const RELEASED_EACH: usize = 50;
/// Jobs of a group of `group-100`, and of a share of `share-100`.
const MEMBERS: u64 = 100;

/// What the jobs of a bench have besides their payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Nothing: due at once
    Plain,
    /// A due ahead
    Scheduled,
    /// A unique key
    Unique,
    /// An expiry in an hour
    Expiry,
    /// Kept for a while once completed
    Retention,
    /// Fails once, and is due again 10 ms later
    Retry,
    /// A due ahead and a unique key; 70 % are cancelled by key, 30 % run
    Order,
    /// A serial group of its own
    Group,
    /// A serial group of 100
    #[value(name = "group-100")]
    Group100,
    /// A share of its own
    Share,
    /// A share of 100 jobs
    #[value(name = "share-100")]
    Share100,
    /// Waits for a name, which another job releases
    Held,
}

/// What jobs of a kind are made of.
#[derive(Clone)]
pub(super) struct Recipe {
    pub(super) kind: Kind,
    pub(super) jobs: u64,
    pub(super) payload: Bytes,
    /// Dues lie at least this span ahead, and at most twice as far.
    pub(super) ahead: Duration,
    /// How long a completed job is kept.
    pub(super) kept: Duration,
    /// Engine time at the start.
    pub(super) now: Timestamp,
}

impl Kind {
    /// Its name on the command line.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(super) fn has_dues(self) -> bool {
        matches!(self, Self::Scheduled | Self::Order)
    }
}

impl Recipe {
    /// The job of that number.
    pub(super) fn job(&self, nth: u64, dice: &mut Dice) -> NewJob {
        let mut job = NewJob::new(QUEUE, self.payload.clone()).content_type("text/plain");
        if self.kind.has_dues() {
            let ahead = self.ahead.as_micros() as u64;
            job.due = Due::After(Duration::from_micros(ahead + dice.below(ahead.max(1))));
        }
        match self.kind {
            Kind::Plain | Kind::Scheduled => {}
            Kind::Unique | Kind::Order => job.unique = Some(unique(key(nth))),
            Kind::Expiry => job.expires_at = Some(self.now + hours(1)),
            Kind::Retention => job.retention = self.kept,
            Kind::Retry => job.retry = RetryPolicy::fixed(millis(10)),
            Kind::Group => job.group = Some(group(nth)),
            Kind::Group100 => {
                let groups = self.jobs.div_ceil(MEMBERS);
                job.group = Some(group(nth % groups));
            }
            Kind::Share => job.share = Some(format!("s{nth}")),
            Kind::Share100 => {
                let shares = self.jobs.div_ceil(MEMBERS);
                job.share = Some(format!("s{}", nth % shares));
            }
            Kind::Held => job.wait_for = vec![NAME.into()],
        }
        job
    }

    /// Whether the job of that number is cancelled before it is due: 70 of 100 orders.
    pub(super) fn is_cancelled(&self, nth: u64) -> bool {
        self.kind == Kind::Order && nth % 10 < 7
    }
}

fn unique(key: String) -> Unique {
    Unique::new(key)
}

fn group(number: u64) -> Group {
    Group::new(format!("g{number}"))
}

/// The unique key of the job of that number.
pub(super) fn key(nth: u64) -> String {
    format!("k{nth}")
}

/// A job that releases held ones, whose ids are its payload.
pub(super) fn release(held: &[JobId]) -> NewJob {
    let ids: Vec<u8> = held.iter().flat_map(|id| *id.as_bytes()).collect();
    NewJob::new(QUEUE, ids)
        .kind(RELEASE)
        .content_type("application/octet-stream")
}

/// What a handler does with a job of that kind, and whether the job ends with it.
pub(super) fn handle(kind: Kind, job: &JobRecord, ctx: &Context) -> (Verdict, bool) {
    if job.kind == RELEASE {
        for id in job.payload.chunks_exact(16) {
            let id = <[u8; 16]>::try_from(id).unwrap_or_default();
            if let Err(error) = ctx.clear(JobId::from_bytes(id), NAME) {
                return (Verdict::failed(error), false);
            }
        }
        return (Verdict::completed(), false);
    }
    if kind == Kind::Retry && job.failures == 0 {
        return (Verdict::retry("the first attempt fails"), false);
    }
    (Verdict::completed(), true)
}
