//! The options of a job on the command line.

use std::time::Duration;

use punctual::flow::{After, On};
use punctual::time::{Timestamp, hours, parse_span};
use punctual::{Due, Group, Hold, JobId, NewJob, OnRetry, RetryPolicy, Unique, UniquePolicy, push};
use punctual_push::{Allow, Guard};

use clap::ValueEnum;

use crate::args::{id_of, instant_of, span_of, step_of};
use crate::failure::{Exit, Failure, Result};
use punctual_gateway::hold_of;

/// The options of a new job.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Job options")]
pub(super) struct Options {
    /// The name of the handler [default: the queue's name]
    #[arg(long, value_name = "NAME")]
    kind: Option<String>,

    /// The job's id, a UUID; the same id again is a duplicate [default: a new one]
    #[arg(long, value_name = "UUID", value_parser = id_of)]
    id: Option<JobId>,

    /// Run after this span, such as 30m, 1h30m or 250ms
    #[arg(long, short, value_name = "SPAN", value_parser = span_of, conflicts_with = "at", allow_hyphen_values = true)]
    delay: Option<Duration>,

    /// Run at this instant: 2026-12-01T08:00:00Z, or 2026-12-01 08:00 in local time
    #[arg(long, value_name = "INSTANT", value_parser = instant_of)]
    at: Option<Timestamp>,

    /// Cancel it unless it has started by then: a span from now, or an instant
    #[arg(long, value_name = "SPAN|INSTANT")]
    expires: Option<String>,

    /// 0 (first) to 9 (last) [default: 5]
    #[arg(long, short, value_name = "0..9", value_parser = priority_of, allow_negative_numbers = true)]
    priority: Option<u8>,

    /// At most one unsettled job of the queue holds this key
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,

    /// If the key is held: keep the holder, replace it, run after it, or refresh it [default: keep]
    #[arg(long, value_name = "POLICY", requires = "unique")]
    unique_policy: Option<Policy>,

    /// With the policy refresh: run at the latest that long after the first
    #[arg(long, value_name = "SPAN", requires = "unique_policy", value_parser = span_of)]
    max_wait: Option<Duration>,

    /// How long the key is held: settled, started, or a span [default: settled]
    #[arg(long, value_name = "HOLD", requires = "unique", value_parser = hold_of)]
    unique_hold: Option<Hold>,

    /// Jobs of a group run one after the other
    #[arg(long, value_name = "KEY")]
    group: Option<String>,

    /// Whether a job that waits for its retry holds back its group: hold or pass [default: hold]
    #[arg(long, value_name = "hold|pass", requires = "group")]
    group_on_retry: Option<GroupRetry>,

    /// Its share, such as a customer: shares take turns
    #[arg(long, value_name = "KEY")]
    share: Option<String>,

    /// A named limit that holds for it over all queues, up to 3 times
    #[arg(long = "limit", value_name = "NAME")]
    limits: Vec<String>,

    /// Units of the rates of its limits that it takes, 1 to 1000 [default: 1]
    #[arg(long, value_name = "N", requires = "limits")]
    cost: Option<u32>,

    /// Failures after which it is dead [default: 20]
    #[arg(long, value_name = "N", value_parser = attempts_of)]
    max_attempts: Option<u32>,

    /// Crashes after which it is dead; with 1 it runs alone, and its first crash is final [default:
    /// 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_crashes: Option<u32>,

    /// How long a resend of its id is recognised after it ended, up to 7d [default: 2m]
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    remember: Option<Duration>,

    /// When a failure is retried: fixed:10s, linear:10s..5m, exponential:1s..1h or list:1s,1m
    /// [default: exponential:1s..1h, with jitter]
    #[arg(long, value_name = "POLICY", value_parser = retry_of)]
    retry: Option<RetryPolicy>,

    /// How long one attempt may run; the worker enforces it
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    timeout: Option<Duration>,

    /// Retention: how long the job is kept once completed; 0s keeps none [default: 1h]
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    retention: Option<Duration>,

    /// Hold it until this name is cleared; may be given more than once
    #[arg(long, value_name = "NAME")]
    wait_for: Vec<String>,

    /// Run it once that job has completed: an ID, or STEP@FLOW. With =failed or =settled behind it,
    /// once it has ended so. May be given more than once
    #[arg(long, value_name = "ID|STEP@FLOW", value_parser = after_of, conflicts_with = "from")]
    pub(super) after: Vec<Awaited>,

    /// A header for the handler; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", value_parser = header_of)]
    header: Vec<(String, String)>,

    /// Post it to this URL when it is due, its queue is then http:QUEUE; or publish it to RabbitMQ,
    /// by amqp:EXCHANGE/KEY, its queue is then amqp:QUEUE
    #[arg(long, value_name = "TARGET", conflicts_with = "from")]
    target: Option<String>,

    /// Post its outcome to this URL
    #[arg(long, value_name = "URL", conflicts_with = "from")]
    callback: Option<String>,

    /// Allow --target and --callback to use this place, as `serve` or `work` allows it:
    /// HOST, HOST:PORT, CIDR or CIDR:PORT
    #[arg(long, value_name = "PLACE")]
    push_allow: Vec<Allow>,

    /// Send the payload as text, even if it is not JSON but resembles it
    #[arg(long, conflicts_with = "content_type")]
    pub(super) text: bool,

    /// The content type of the payload [default: detected]
    #[arg(long, value_name = "TYPE")]
    pub(super) content_type: Option<String>,
}

/// How long a job that a person sent is kept once completed: it can still be shown then. Libraries
/// and HTTP keep none by default.
const RETENTION: Duration = hours(1);

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Policy {
    Keep,
    Replace,
    After,
    Refresh,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum GroupRetry {
    Hold,
    Pass,
}

impl Options {
    /// What happens if the unique key is held.
    fn policy(&self) -> Result<UniquePolicy> {
        let wrong = |text: &str| Err(Failure::new(Exit::Usage, "usage", text));
        match (self.unique_policy, self.max_wait) {
            (Some(Policy::Refresh), Some(max_wait)) => Ok(UniquePolicy::Refresh { max_wait }),
            (Some(Policy::Refresh), None) => {
                wrong("--unique-policy refresh needs --max-wait, such as --max-wait 1m")
            }
            (_, Some(_)) => wrong("--max-wait is for --unique-policy refresh only"),
            (None | Some(Policy::Keep), None) => Ok(UniquePolicy::Keep),
            (Some(Policy::Replace), None) => Ok(UniquePolicy::Replace),
            (Some(Policy::After), None) => Ok(UniquePolicy::After),
        }
    }

    /// Writes what was given into a job.
    pub(super) fn apply(&self, job: &mut NewJob, now: Timestamp) -> Result<()> {
        if let Some(kind) = &self.kind {
            job.kind.clone_from(kind);
        }
        if let Some(id) = self.id {
            job.id = id;
        }
        match (self.delay, self.at) {
            (Some(delay), _) => job.due = Due::After(delay),
            (None, Some(at)) => job.due = Due::At(at),
            (None, None) => {}
        }
        if let Some(expires) = &self.expires {
            job.expires_at = Some(expiry(expires, now)?);
        }
        job.priority = self.priority.unwrap_or(job.priority);
        let policy = self.policy()?;
        job.unique = self.unique.clone().map(|key| {
            Unique::new(key)
                .policy(policy)
                .hold(self.unique_hold.unwrap_or_default())
        });
        job.group = self.group.clone().map(|key| {
            Group::new(key).on_retry(match self.group_on_retry {
                None | Some(GroupRetry::Hold) => OnRetry::Hold,
                Some(GroupRetry::Pass) => OnRetry::Pass,
            })
        });
        job.share.clone_from(&self.share);
        job.limits.clone_from(&self.limits);
        job.cost = self.cost.unwrap_or(job.cost);
        job.max_attempts = self.max_attempts.unwrap_or(job.max_attempts);
        job.max_crashes = self.max_crashes;
        if let Some(retry) = &self.retry {
            job.retry = retry.clone();
        }
        job.timeout = self.timeout;
        job.retention = self.retention.unwrap_or(RETENTION);
        job.remember = self.remember;
        job.wait_for.clone_from(&self.wait_for);
        job.after = self.after.iter().map(|one| one.after).collect();
        job.headers.clone_from(&self.header);
        if let Some(url) = &self.target {
            push::aim(job, url);
        }
        if let Some(url) = &self.callback {
            push::set(job, push::CALLBACK, url);
        }
        if let Some(target) = push::target(&job.headers) {
            let checked = self.guard().check_target(target);
            checked.map_err(|error| target_refused("--target", target, &error))?;
        }
        if let Some(url) = push::header(&job.headers, push::CALLBACK) {
            let checked = self.guard().check(url);
            checked.map_err(|error| target_refused("--callback", url, &error))?;
        }
        if let Some(content_type) = &self.content_type {
            job.content_type.clone_from(content_type);
        }
        Ok(())
    }
}

impl Options {
    /// Where jobs may be posted to, as far as their URLs say.
    pub(super) fn guard(&self) -> Guard {
        Guard::new().allow(self.push_allow.iter().cloned())
    }
}

/// The same answer as over HTTP, with the two commands that open the place.
fn target_refused(option: &str, url: &str, error: &punctual::Error) -> Failure {
    let text = error.message();
    let text = text.split_once(": ").map_or(text, |(_, text)| text);
    let (what, remedy) = text.split_once("; ").unwrap_or((text, ""));
    let message = format!("{option} {url} is refused: {what}");
    let failure = Failure::new(Exit::Usage, "target_refused", message);
    match remedy.strip_suffix(" to open it") {
        Some(open) => failure.hint(format!(
            "{open}: `punctual serve`, which posts the job, and this command take that option"
        )),
        None if remedy.is_empty() => failure,
        None => failure.hint(remedy),
    }
}

fn expiry(text: &str, now: Timestamp) -> Result<Timestamp> {
    if let Ok(at) = instant_of(text) {
        return Ok(at);
    }
    let span = parse_span(text).map_err(|_| {
        Failure::usage(format!(
            "--expires {text:?} is neither a span nor an instant"
        ))
        .hint("write a span from now such as 2h, or an instant such as 2026-12-01T08:00:00Z")
    })?;
    now.checked_add(span)
        .ok_or_else(|| Failure::usage("--expires reaches beyond the year 9999"))
}

/// Reads `fixed:10s`, `linear:10s..5m`, `exponential:1s..1h` or `list:1s,10s,1m`.
pub(in crate::commands) fn retry_of(text: &str) -> std::result::Result<RetryPolicy, String> {
    let unknown =
        || "write fixed:10s, linear:10s..5m, exponential:1s..1h or list:1s,10s,1m".to_owned();
    let (name, rest) = text.split_once(':').ok_or_else(unknown)?;
    let range = || -> std::result::Result<(Duration, Duration), String> {
        let (base, cap) = rest.split_once("..").ok_or_else(unknown)?;
        Ok((span_of(base)?, span_of(cap)?))
    };
    match name {
        "fixed" => Ok(RetryPolicy::fixed(span_of(rest)?)),
        "exponential" => range().map(|(base, cap)| RetryPolicy::exponential(base, cap)),
        "linear" => range().map(|(base, cap)| RetryPolicy::Linear {
            base,
            cap,
            jitter: false,
        }),
        "list" => rest
            .split(',')
            .map(span_of)
            .collect::<std::result::Result<_, _>>()
            .map(RetryPolicy::List),
        _ => Err(unknown()),
    }
}

/// A job to wait for, and how it was written.
#[derive(Debug, Clone)]
pub(super) struct Awaited {
    pub(super) after: After,
    pub(super) written: String,
}

/// Reads `ID` or `STEP@FLOW`, with `=failed` or `=settled`.
fn after_of(text: &str) -> std::result::Result<Awaited, String> {
    let (job, on) = text.split_once('=').unwrap_or((text, On::Completed.name()));
    let on = On::ALL.into_iter().find(|one| one.name() == on);
    let on = on.ok_or("write =completed, =failed or =settled behind the job")?;
    let id = match job.split_once('@') {
        Some((step, flow)) => step_of(flow, step).map_err(|error| error.message().to_owned())?,
        None => job
            .parse()
            .map_err(|_| "write the whole id of a job, or STEP@FLOW, such as pack@order-7")?,
    };
    Ok(Awaited {
        after: After::new(id, on),
        written: job.to_owned(),
    })
}

pub(in crate::commands) fn priority_of(text: &str) -> std::result::Result<u8, String> {
    let read = text.parse().ok().filter(|priority| *priority <= 9);
    read.ok_or_else(|| "write a number from 0, which runs first, to 9, which runs last".into())
}

pub(in crate::commands) fn attempts_of(text: &str) -> std::result::Result<u32, String> {
    let read = text.parse().ok().filter(|attempts| *attempts > 0);
    read.ok_or_else(|| "write a number from 1 on".into())
}

pub(in crate::commands) fn header_of(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("write it as NAME=VALUE, such as trace=42")?;
    Ok((name.to_owned(), value.to_owned()))
}
