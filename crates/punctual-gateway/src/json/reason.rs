//! Why a job has not run, as JSON and in words.

use punctual::engine::{Reason, WhenFull};
use punctual::job::{CancelReason, DeadReason};
use punctual::push::is_amqp_queue;
use punctual::time::{Timestamp, format_span, seconds};
use punctual::{JobId, JobState};
use serde::Serialize;
use utoipa::ToSchema;

/// One reason; which fields it has depends on which it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reason)]
pub(crate) struct ReasonLine {
    /// Its name, such as `not_due`.
    reason: &'static str,
    /// A sentence for a person.
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failures: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crashes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    /// Jobs that it waits for, or steps that are left of its flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<u64>,
    /// Some of the jobs that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<Vec<String>>,
    /// The state of each of these jobs, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    states: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<String>,
    /// The named limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// What becomes of new jobs while a named limit is full.
    #[serde(skip_serializing_if = "Option::is_none")]
    when_full: Option<&'static str>,
}

impl ReasonLine {
    pub(crate) fn new(reason: &Reason, queue: &str, now: Timestamp) -> Self {
        let mut line = Self {
            reason: name_of(reason),
            text: in_words(reason, queue, now),
            due: None,
            failures: None,
            names: None,
            holder: None,
            by: None,
            until: None,
            crashes: None,
            kind: None,
            ahead: None,
            worker: None,
            since: None,
            why: None,
            error: None,
            state: None,
            limit: None,
            active: None,
            rate: None,
            waits: None,
            jobs: None,
            states: None,
            flow: None,
            share: None,
            name: None,
            when_full: None,
        };
        match reason {
            Reason::NotDue { due } => line.due = Some(due.to_string()),
            Reason::WaitsForRetry { due, failures } => {
                line.due = Some(due.to_string());
                line.failures = Some(*failures);
            }
            Reason::WaitsForNames { names } => line.names = Some(names.clone()),
            Reason::WaitsForJobs { waits, some } => {
                line.waits = Some(u64::from(*waits));
                line.jobs = Some(some.iter().map(|(job, _)| job.to_string()).collect());
                line.states = Some(some.iter().map(|(_, state)| state.name()).collect());
            }
            Reason::FlowOpen { flow } => line.flow = Some(flow.clone()),
            Reason::WaitsForFlow { flow, open } => {
                line.flow = Some(flow.clone());
                line.waits = Some(*open);
            }
            Reason::WaitsForHolder { holder } => line.holder = Some(holder.to_string()),
            Reason::GroupActive { by } => line.by = Some(by.to_string()),
            Reason::GroupHeld { by, until } => {
                line.by = Some(by.to_string());
                line.until = Some(until.to_string());
            }
            Reason::Suspect { crashes } => line.crashes = Some(*crashes),
            Reason::NoWorkerForKind { kind } => line.kind = Some(kind.clone()),
            Reason::InLine { ahead } => line.ahead = Some(*ahead),
            Reason::Active {
                worker,
                since,
                until,
            } => {
                line.worker = Some(worker.to_string());
                line.since = Some(since.to_string());
                line.until = Some(until.to_string());
            }
            Reason::Cancelled { reason } => line.why = Some(reason.name()),
            Reason::Dead { reason, error } => {
                line.why = Some(reason.name());
                line.error.clone_from(error);
            }
            Reason::ConcurrencyReached { limit, active } => {
                line.limit = Some(*limit);
                line.active = Some(*active);
            }
            Reason::RateReached { rate, until } => {
                line.rate = Some(rate.to_string());
                line.until = Some(until.to_string());
            }
            Reason::NeverReleased { by, state } => {
                line.by = Some(by.to_string());
                line.state = Some(state.name());
            }
            other => {
                line.of_share(other);
                line.of_limit(other);
            }
        }
        line
    }

    /// What a named limit of a job says.
    fn of_limit(&mut self, reason: &Reason) {
        match reason {
            Reason::LimitBlocked { name, until } => {
                self.name = Some(name.clone());
                self.until = Some(until.to_string());
            }
            Reason::LimitConcurrencyReached {
                name,
                limit,
                active,
                when_full,
            } => {
                self.when_full = Some(when_full.name());
                self.name = Some(name.clone());
                self.limit = Some(*limit);
                self.active = Some(*active);
            }
            Reason::LimitRateReached { name, rate, until } => {
                self.name = Some(name.clone());
                self.rate = Some(rate.to_string());
                self.until = Some(until.to_string());
            }
            _ => {}
        }
    }

    /// What the share of a job says.
    fn of_share(&mut self, reason: &Reason) {
        match reason {
            Reason::SharePaused { share } => self.share = Some(share.clone()),
            Reason::ShareBlocked { share, until } => {
                self.share = Some(share.clone());
                self.until = Some(until.to_string());
            }
            Reason::ShareConcurrencyReached {
                share,
                limit,
                active,
            } => {
                self.share = Some(share.clone());
                self.limit = Some(*limit);
                self.active = Some(*active);
            }
            Reason::ShareRateReached { share, rate, until } => {
                self.share = Some(share.clone());
                self.rate = Some(rate.to_string());
                self.until = Some(until.to_string());
            }
            Reason::ShareTurn { share, ahead } => {
                self.share = Some(share.clone());
                self.ahead = Some(*ahead);
            }
            _ => {}
        }
    }
}

fn name_of(reason: &Reason) -> &'static str {
    match reason {
        Reason::NotDue { .. } => "not_due",
        Reason::WaitsForRetry { .. } => "waits_for_retry",
        Reason::WaitsForNames { .. } => "waits_for_names",
        Reason::WaitsForJobs { .. } => "waits_for_jobs",
        Reason::FlowOpen { .. } => "flow_open",
        Reason::WaitsForFlow { .. } => "waits_for_flow",
        Reason::WaitsForHolder { .. } => "waits_for_holder",
        Reason::QueuePaused => "queue_paused",
        Reason::GroupActive { .. } => "group_active",
        Reason::GroupHeld { .. } => "group_held",
        Reason::Suspect { .. } => "suspect",
        Reason::NoWorker => "no_worker",
        Reason::NoWorkerForKind { .. } => "no_worker_for_kind",
        Reason::ConcurrencyReached { .. } => "concurrency_reached",
        Reason::RateReached { .. } => "rate_reached",
        Reason::ShareBlocked { .. } => "share_blocked",
        Reason::SharePaused { .. } => "share_paused",
        Reason::ShareConcurrencyReached { .. } => "share_concurrency_reached",
        Reason::ShareRateReached { .. } => "share_rate_reached",
        Reason::ShareTurn { .. } => "share_turn",
        Reason::LimitBlocked { .. } => "limit_blocked",
        Reason::LimitConcurrencyReached { .. } => "limit_concurrency_reached",
        Reason::LimitRateReached { .. } => "limit_rate_reached",
        Reason::InLine { .. } => "in_line",
        Reason::Active { .. } => "active",
        Reason::Completed => "completed",
        Reason::Cancelled { .. } => "cancelled",
        Reason::Dead { .. } => "dead",
        Reason::NeverReleased { .. } => "never_released",
        _ => "other",
    }
}

/// A sentence for a person: why, and the remedy.
pub fn in_words(reason: &Reason, queue: &str, now: Timestamp) -> String {
    let when = |at: Timestamp| relative(at, now);
    match reason {
        Reason::NotDue { due } => format!("it is due {}, at {due}", when(*due)),
        Reason::WaitsForRetry { due, failures } => {
            format!(
                "it waits for its next attempt {}, after {failures} failures",
                when(*due)
            )
        }
        Reason::WaitsForNames { names } => {
            format!("it is held until these are cleared: {}", names.join(", "))
        }
        Reason::WaitsForJobs { waits, some } => {
            let jobs = if *waits == 1 { "job" } else { "jobs" };
            let name = |(job, state): &(JobId, JobState)| format!("{job} ({state})");
            let names: Vec<String> = some.iter().map(name).collect();
            match names.is_empty() {
                true => format!("it waits for {waits} {jobs} to settle"),
                false => format!(
                    "it waits for {waits} {jobs} to settle: {}",
                    names.join(", ")
                ),
            }
        }
        Reason::FlowOpen { flow } => format!(
            "its flow {flow} was not sent to its end, so nothing of it runs; send the rest and seal it"
        ),
        Reason::WaitsForFlow { flow, open } => {
            format!("it runs once flow {flow} has settled: {open} steps are left")
        }
        Reason::WaitsForHolder { holder } => {
            format!("it follows the active holder of its unique key, {holder}")
        }
        Reason::QueuePaused => {
            format!("its queue is paused; `punctual queues resume {queue}` ends that")
        }
        Reason::GroupActive { by } => format!("a job of its group is active: {by}"),
        Reason::GroupHeld { by, until } => {
            format!(
                "its group is held back by {by}, which is tried again {}",
                when(*until)
            )
        }
        Reason::Suspect { crashes } => format!(
            "it is suspect after {crashes} crashes and waits for a worker that runs nothing else"
        ),
        Reason::NoWorker if is_amqp_queue(queue) => format!(
            "no relay claimed from {queue} in the last minute; start one: `punctual relay amqp-emit`"
        ),
        Reason::NoWorker => format!(
            "no worker claimed from {queue} in the last minute; start one, such as `punctual work {queue} --exec CMD`"
        ),
        Reason::NoWorkerForKind { kind } => format!(
            "workers claim from {queue}, but none has a handler for {kind}; deploy one that has"
        ),
        Reason::ConcurrencyReached { limit, active } => format!(
            "{queue} may have {limit} active and has {active}; it starts when one ends, \
             `punctual queues limit {queue}` shows and changes that"
        ),
        Reason::RateReached { rate, until } => format!(
            "{queue} has used up its rate, {rate}; the next job may start {}, at {until}, \
             `punctual queues limit {queue}` shows and changes that",
            when(*until)
        ),
        Reason::InLine { ahead: 0 } => "it is the next in line".into(),
        Reason::InLine { ahead } => {
            let others = if *ahead == 1 { "other" } else { "others" };
            format!("it waits its turn behind {ahead} {others}; more workers shorten that")
        }
        Reason::Active {
            worker,
            since,
            until,
        } => format!(
            "it runs since {} on worker {worker}; its lease ends {}",
            when(*since),
            when(*until)
        ),
        Reason::Completed => "it is done".into(),
        Reason::Cancelled { reason } => cancelled_in_words(*reason),
        Reason::Dead { reason, error } => {
            let cause = match (cause_of(*reason), error) {
                (cause, Some(error)) => format!("{cause}; its last error: {error}"),
                (cause, None) => cause.to_owned(),
            };
            format!("it is dead ({reason}): {cause}; `punctual jobs redrive ID` sends it back")
        }
        Reason::NeverReleased { by, state } => format!(
            "nothing will release it: job {by}, for which it waits, is {state} and did not clear it; \
             `punctual jobs run-now ID` lets it run, `punctual jobs cancel ID` ends it"
        ),
        other => of_share_in_words(other, queue, now),
    }
}

/// The option that names a share, as a shell reads it: a share is any printable text, and a person
/// may copy the command.
fn share_option(share: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/@-".contains(c);
    if share.chars().all(is_plain) && !share.starts_with('-') {
        return format!("--share {share}");
    }
    format!("--share='{}'", share.replace('\'', r"'\''"))
}

fn cancelled_in_words(reason: CancelReason) -> String {
    match reason {
        CancelReason::Upstream => {
            "it was cancelled: a job that it was to run after ended otherwise (upstream)".into()
        }
        CancelReason::Skipped => {
            "it was cancelled: a run of its schedule was on its way, or the schedule was paused"
                .into()
        }
        reason => format!("it was cancelled: {reason}"),
    }
}

/// What the share of a job says, for a person.
fn of_share_in_words(reason: &Reason, queue: &str, now: Timestamp) -> String {
    let when = |at: Timestamp| relative(at, now);
    match reason {
        Reason::SharePaused { share } => format!(
            "its share {share} is paused; `punctual queues resume {queue} {}` lets it go on",
            share_option(share)
        ),
        Reason::ShareBlocked { share, until } => format!(
            "its share {share} is blocked and opens {}, at {until}; \
             `punctual queues block {queue} {} 0s` opens it now",
            when(*until),
            share_option(share)
        ),
        Reason::ShareConcurrencyReached {
            share,
            limit,
            active,
        } => format!(
            "its share {share} may have {limit} active and has {active}; it starts when one ends, \
             `punctual queues limit {queue}` shows and changes that"
        ),
        Reason::ShareRateReached { share, rate, until } => format!(
            "its share {share} has used up its rate, {rate}; the next job may start {}, at {until}, \
             `punctual queues limit {queue}` shows and changes that",
            when(*until)
        ),
        Reason::ShareTurn { share, ahead } => {
            let others = if *ahead == 1 {
                "other share has"
            } else {
                "other shares have"
            };
            format!("{ahead} {others} a turn before the next one of its share {share}")
        }
        other => of_limit_in_words(other, now),
    }
}

/// What a named limit of a job says, for a person.
fn of_limit_in_words(reason: &Reason, now: Timestamp) -> String {
    let when = |at: Timestamp| relative(at, now);
    match reason {
        Reason::LimitBlocked { name, until } => format!(
            "its limit {name} is blocked and opens {}, at {until}; \
             `punctual limits block {name} 0s` opens it now",
            when(*until)
        ),
        Reason::LimitConcurrencyReached {
            name,
            limit,
            active,
            when_full,
        } => format!(
            "its limit {name} may have {limit} active and has {active}; it starts when one ends{}, `punctual limits show {name}` shows that",
            match when_full {
                WhenFull::Refuse => "; new jobs are refused meanwhile",
                WhenFull::CancelRunning => "; each new job asks the oldest of them to stop",
                _ => "",
            }
        ),
        Reason::LimitRateReached { name, rate, until } => format!(
            "its limit {name} has used up its rate, {rate}; it may start {}, at {until}, \
             `punctual limits show {name}` shows that",
            when(*until)
        ),
        other => format!("{other:?}"),
    }
}

/// Why a job is dead, for a person.
fn cause_of(reason: DeadReason) -> &'static str {
    match reason {
        DeadReason::Exhausted => "it failed as often as max_attempts allows",
        DeadReason::Permanent => "its worker reported an error that no retry can fix",
        DeadReason::Poison => "its worker crashed while it ran alone",
        DeadReason::Overflow => "its queue was full, and it was the oldest job",
        _ => "its engine gives no cause",
    }
}

/// An instant against now: `in 1h30m`, `5s ago`, `now`.
fn relative(at: Timestamp, now: Timestamp) -> String {
    let tidy = |span: std::time::Duration| {
        let whole = seconds(span.as_secs());
        format_span(if span >= seconds(10) { whole } else { span })
    };
    match at.cmp(&now) {
        std::cmp::Ordering::Less => format!("{} ago", tidy(now - at)),
        std::cmp::Ordering::Equal => "now".into(),
        std::cmp::Ordering::Greater => format!("in {}", tidy(at - now)),
    }
}
