//! `punctual schedules set`: writes a schedule.

use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use punctual::job::COST_MAX;
use punctual::schedule::{GRACE_DEFAULT, MISSED_MAX, Missed, Overlap, Schedule, Template};
use punctual::time::{format_local, hours};
use punctual::{Group, NewJob, RetryPolicy, Unique};

use super::at_version;
use super::options::Options;
use crate::args::{Session, span_of};
use crate::commands::enqueue::{
    attempts_of, content_type_of, header_of, not_json, payload, priority_of, retry_of,
};
use crate::failure::{Failure, Result};
use crate::numbers::whole;
use crate::output::ago;

/// Write a schedule: when to enqueue which job
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual schedules set weekly-report --cron '0 9 * * MON' --zone Europe/Berlin reports '{\"kind\":\"weekly\"}'
  punctual schedules set beat --every 1s --overlap allow beats '{}'
  punctual schedules set cleanup --cron '30 2 * * *' --missed skip --grace 1h cleanup

The same again changes nothing. Another one counts from now: no instant before this one runs because
of it. A pause stays. `punctual schedules preview` takes the same times and shows when they are.")]
pub(crate) struct Set {
    #[command(flatten)]
    args: Args,

    /// Write only if the schedule has this version, which `schedules show` says; 0: there is none
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

/// What a schedule consists of: the keys of a file of schedules, too.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The schedule's name
    name: String,

    /// The queue of its jobs
    queue: String,

    /// The payload of its jobs: JSON or text, or - for standard input; empty if omitted
    #[arg(allow_hyphen_values = true)]
    pub(super) payload: Option<String>,

    #[command(flatten)]
    options: Options,

    #[command(flatten)]
    policies: Policies,

    #[command(flatten)]
    job: JobOptions,
}

/// What happens to runs that meet others, or come late.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policies")]
struct Policies {
    /// While a run is on its way: skip the next, buffer one or all, cancel the other, or allow both
    /// [default: skip]
    #[arg(long, value_name = "POLICY", hide_possible_values = true)]
    overlap: Option<OverlapPolicy>,

    /// Runs that an outage made late: the latest, all (up to --missed-max), or skip [default:
    /// latest]
    #[arg(long, value_name = "latest|all|skip", hide_possible_values = true)]
    missed: Option<MissedPolicy>,

    /// With --missed all: how many run, at most 100 [default: 100]
    #[arg(long, value_name = "N", value_parser = |text: &str| whole::<u32>(text, 1..=MISSED_MAX.into()))]
    missed_max: Option<u32>,

    /// Runs that are late by no more than this run anyway [default: 1m]
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    grace: Option<Duration>,

    /// Pause the schedule when a job of it is dead
    #[arg(long)]
    pause_on_failure: bool,

    /// Alert when no run has completed for that long, such as 25h for a daily one
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    expect_within: Option<Duration>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OverlapPolicy {
    Skip,
    BufferOne,
    BufferAll,
    CancelOther,
    Allow,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MissedPolicy {
    Latest,
    All,
    Skip,
}

/// The options of each job.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Job options")]
struct JobOptions {
    /// The name of the handler [default: the queue's name]
    #[arg(long, value_name = "NAME")]
    kind: Option<String>,

    /// 0 (first) to 9 (last) [default: 5]
    #[arg(long, short, value_name = "0..9", value_parser = priority_of, allow_negative_numbers = true)]
    priority: Option<u8>,

    /// A unique key of its own, which then decides about overlaps
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,

    /// Jobs of a group run one after the other
    #[arg(long, value_name = "KEY")]
    group: Option<String>,

    /// The share of the queue for which it runs: shares take turns
    #[arg(long, value_name = "KEY")]
    share: Option<String>,

    /// A named limit; may be given three times
    #[arg(long = "limit", value_name = "NAME")]
    limits: Vec<String>,

    /// Units of the rates of its limits that a run takes [default: 1]
    #[arg(long, value_name = "N", requires = "limits", value_parser = |text: &str| whole::<u32>(text, 1..=COST_MAX.into()))]
    cost: Option<u32>,

    /// Failures after which it is dead [default: 20]
    #[arg(long, value_name = "N", value_parser = attempts_of)]
    max_attempts: Option<u32>,

    /// When a failure is retried, as for `punctual enqueue`
    #[arg(long, value_name = "POLICY", value_parser = retry_of)]
    retry: Option<RetryPolicy>,

    /// How long one attempt may run; the worker enforces it
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    timeout: Option<Duration>,

    /// Retention: how long a job is kept once completed; 0s keeps none [default: 1h]
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    retention: Option<Duration>,

    /// A header for the handler; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", value_parser = header_of)]
    header: Vec<(String, String)>,

    /// Send the payload as text, even if it is not JSON but resembles it
    #[arg(long, conflicts_with = "content_type")]
    text: bool,

    /// The content type of the payload [default: detected]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
}

impl Args {
    /// The schedule, and its name.
    fn schedule(mut self) -> Result<(String, Schedule)> {
        let payload = payload(self.payload.take())?;
        self.schedule_with(payload)
    }

    /// The schedule with that payload, whatever the argument says.
    pub(super) fn schedule_with(self, payload: Bytes) -> Result<(String, Schedule)> {
        let spec = self.options.spec()?;
        let mut job = NewJob::new(self.queue, payload);
        self.job.apply(&mut job)?;
        let template = Template::of(job)?;
        let mut schedule = Schedule::new(spec.parts().clone(), template);
        self.policies.apply(&mut schedule)?;
        Ok((self.name, schedule))
    }
}

impl Set {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let schedules = at_version(session, self.if_version);
        let (name, schedule) = self.args.schedule()?;
        let status = schedules.set(&name, schedule).await?;
        let info = session.engine.info().await?;
        if session.out.is_json() {
            return session.out.json(&super::show::object_of(&status));
        }
        let first = match status.next.first() {
            Some(at) => format!("next run {}, {}", format_local(*at), ago(*at, info.now)),
            None => "no run to come".into(),
        };
        let paused = match status.schedule.paused {
            true => "; it is paused",
            false => "",
        };
        session
            .out
            .line(format!("{}: {first}{paused}", status.name))?;
        session.announce_durability(info.durability);
        Ok(())
    }
}

impl Policies {
    fn apply(&self, schedule: &mut Schedule) -> Result<()> {
        if self.missed_max.is_some() && !matches!(self.missed, Some(MissedPolicy::All)) {
            return Err(Failure::usage("missed_max: it needs missed to be all"));
        }
        if self.grace.is_some() && matches!(self.missed, Some(MissedPolicy::All)) {
            return Err(Failure::usage("grace: all missed runs run, however late")
                .hint("leave it out, or use missed latest or skip"));
        }
        schedule.overlap = match self.overlap {
            None | Some(OverlapPolicy::Skip) => Overlap::Skip,
            Some(OverlapPolicy::BufferOne) => Overlap::BufferOne,
            Some(OverlapPolicy::BufferAll) => Overlap::BufferAll,
            Some(OverlapPolicy::CancelOther) => Overlap::CancelOther,
            Some(OverlapPolicy::Allow) => Overlap::Allow,
        };
        let grace = self.grace.unwrap_or(GRACE_DEFAULT);
        schedule.missed = match self.missed {
            None | Some(MissedPolicy::Latest) => Missed::Latest { grace },
            Some(MissedPolicy::Skip) => Missed::Skip { grace },
            Some(MissedPolicy::All) => Missed::All {
                max: self.missed_max.unwrap_or(MISSED_MAX),
            },
        };
        schedule.pause_on_failure = self.pause_on_failure;
        schedule.expect_within = self.expect_within;
        Ok(())
    }
}

impl JobOptions {
    fn apply(self, job: &mut NewJob) -> Result<()> {
        job.content_type = match self.content_type {
            Some(content_type) => content_type,
            None => content_type_of(&job.payload, self.text)
                .map_err(not_json)?
                .into(),
        };
        job.kind = self.kind.unwrap_or_else(|| job.queue.clone());
        job.priority = self.priority.unwrap_or(job.priority);
        job.unique = self.unique.map(Unique::new);
        job.group = self.group.map(Group::new);
        job.share = self.share;
        job.limits = self.limits;
        job.cost = self.cost.unwrap_or(job.cost);
        job.max_attempts = self.max_attempts.unwrap_or(job.max_attempts);
        if let Some(retry) = self.retry {
            job.retry = retry;
        }
        job.timeout = self.timeout;
        // As long as a job that a person enqueues.
        job.retention = self.retention.unwrap_or(hours(1));
        job.headers = self.header;
        Ok(())
    }
}
