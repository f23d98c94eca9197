//! The checks of every call, the same for every engine: an engine checks a call before it acts.

use std::time::Duration;

use super::{
    Action, BLOCK_MAX, Claim, Control, Edit, Extend, FlowAct, Guard, LIMIT_PREFIX, LeaseReport,
    List, ListBy, RecordValue, STATS_PAGE_MAX, ScheduleAct, Select, Settle, Settlement,
    StatsRequest, TOP_SHARES_MAX, Target, check_signal,
};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{EDGES_PER_CALL, check_after};
use crate::job::bounds::{LEASE_MAX_MS, LEASE_MIN_MS, TEXT_LEASE_DURATION};
use crate::job::{
    CLAIM_QUEUES_MAX, Due, Effect, JobState, Limits, MAX_WAIT_MAX, NewJob, Outcome,
    RECORD_BYTES_MAX, check_held_names, check_key, check_limit_name, check_log, check_memos,
    check_name, check_priority, check_schedule_name,
};
use crate::schedule::SCHEDULE_PREFIX;
use crate::time::{Timestamp, exact_span, millis};
use crate::topic::{Subscriptions, TOPICS};

/// Records whose name begins so are the settings of a queue.
pub const SETTINGS_PREFIX: &str = "queue/";

/// Checks calls against the limits of one engine at its time.
///
/// ```
/// use punctual::engine::Checks;
/// use punctual::time::Timestamp;
/// use punctual::{Limits, NewJob};
///
/// let limits = Limits::default();
/// let checks = Checks::new(&limits, Timestamp::from_millis(1_790_000_000_000));
/// let job = NewJob::new("orders", "{}").priority(10);
/// let error = checks.jobs(&[job]).unwrap_err();
/// assert!(error.to_string().contains("priority is out of range"), "{error}");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Checks<'a> {
    limits: &'a Limits,
    now: Timestamp,
}

impl<'a> Checks<'a> {
    /// Checks against these limits; no delay may reach beyond the year 9999 from `now` on.
    pub fn new(limits: &'a Limits, now: Timestamp) -> Self {
        Self { limits, now }
    }

    /// Checks the jobs of an enqueue; the error names the `index` of the first that is refused.
    pub fn jobs(&self, jobs: &[NewJob]) -> Result<()> {
        self.batch(jobs.len())?;
        self.bytes(jobs.iter().map(|job| job.payload.len()).sum())?;
        self.edges(jobs.iter().map(|job| job.after.len()).sum())?;
        for (index, job) in jobs.iter().enumerate() {
            self.job(job).map_err(|error| error.with("index", index))?;
        }
        Ok(())
    }

    fn job(&self, job: &NewJob) -> Result<()> {
        job.check(self.limits)?;
        self.due(job.due).map_err(|error| error.with("id", job.id))
    }

    /// Checks a claim: 1 to 64 queues, 1 to 1,000 jobs, a lease of 1 ms to 1 day.
    pub fn claim(&self, claim: &Claim) -> Result<()> {
        if claim.queues.is_empty() || claim.queues.len() > CLAIM_QUEUES_MAX {
            return refuse("claim names no queue or too many; name 1 to 64");
        }
        queues(&claim.queues)?;
        self.batch(claim.limit)?;
        if claim.limit == 0 {
            return refuse("claim asks for no job; use a limit of 1 to 1,000");
        }
        lease_duration(claim.lease_duration)
    }

    /// Checks the extensions of leases, their progress and their log lines.
    pub fn extends(&self, leases: &[Extend]) -> Result<()> {
        self.batch(leases.len())?;
        for lease in leases {
            lease_duration(lease.lease_duration)?;
            let notes = lease.progress.len().max(lease.log.len());
            let notes = notes.max(lease.memos.len());
            check_memos_of(lease)?;
            self.batch(lease.jobs.len().max(notes))?;
            for (id, lines) in &lease.log {
                check_log(lines.iter().map(String::as_str)).map_err(|e| e.with("id", id))?;
            }
            for (id, progress) in &lease.progress {
                if progress.len() > self.limits.result_bytes {
                    let message = "progress is over the limit";
                    return Err(Error::new(ErrorKind::PayloadTooLarge, message)
                        .with("id", id)
                        .with("bytes", progress.len())
                        .with("limit", self.limits.result_bytes));
                }
            }
        }
        Ok(())
    }

    /// Checks the settlements of a call with their effects and samples.
    pub fn settle(&self, settle: &Settle) -> Result<()> {
        self.batch(settle.leases.len())?;
        let all = settle.leases.iter().flat_map(|lease| &lease.settlements);
        self.batch(all.clone().count())?;
        self.samples("lateness", settle, |lease| &lease.lateness_us)?;
        self.samples("run time", settle, |lease| &lease.run_time_us)?;
        let effects = all.clone().flat_map(|one| &one.effects);
        self.bytes(effects.clone().map(payload_bytes).sum())?;
        self.edges(effects.map(edges_of).sum())?;
        for (index, one) in all.enumerate() {
            self.settlement(one)
                .map_err(|error| error.with("index", index))?;
        }
        Ok(())
    }

    fn samples(
        &self,
        what: &str,
        settle: &Settle,
        of: impl Fn(&LeaseReport) -> &Vec<u64>,
    ) -> Result<()> {
        let samples: usize = settle.leases.iter().map(|lease| of(lease).len()).sum();
        if samples <= self.limits.batch_items {
            return Ok(());
        }
        let message = format!("settle carries too many samples of {what}; send smaller batches");
        Err(Error::new(ErrorKind::BatchTooLarge, message)
            .with("samples", samples)
            .with("limit", self.limits.batch_items))
    }

    fn settlement(&self, settlement: &Settlement) -> Result<()> {
        let bytes = settlement.result.as_ref().map_or(0, |result| result.len());
        if bytes > self.limits.result_bytes {
            let message = "result is over the limit; store it elsewhere and keep a reference";
            return Err(Error::new(ErrorKind::PayloadTooLarge, message)
                .with("bytes", bytes)
                .with("limit", self.limits.result_bytes));
        }
        check_log(settlement.log.iter().map(String::as_str))?;
        if let Outcome::Retry { after: Some(span) } | Outcome::Snooze { after: span } =
            settlement.outcome
        {
            self.span("after", span)?;
        }
        if let Outcome::Hold { names, limit } = &settlement.outcome {
            check_held_names(names, self.limits)?;
            if names.is_empty() {
                return refuse("hold waits for nothing; name 1 to 64 signals");
            }
            if limit.is_zero() || *limit > MAX_WAIT_MAX {
                return refuse("limit of a hold is out of range; use over 0 to 365 days");
            }
            self.span("limit", *limit)?;
        }
        if settlement.effects.len() > self.limits.effects {
            let message = "settlement carries too many effects; enqueue a job that causes the rest";
            return Err(Error::new(ErrorKind::BatchTooLarge, message)
                .with("effects", settlement.effects.len())
                .with("limit", self.limits.effects));
        }
        settlement.guard.as_ref().map_or(Ok(()), Guard::check)?;
        (settlement.effects.iter()).try_for_each(|effect| self.effect(effect))
    }

    fn effect(&self, effect: &Effect) -> Result<()> {
        match effect {
            Effect::Enqueue(job) => self.job(job),
            Effect::Clear { name, .. } => check_key("name to clear", name),
            Effect::Cancel { queue, key } => {
                check_name("queue", queue).and_then(|()| check_key("unique key", key))
            }
            Effect::Signal { name, payload, .. } => check_signal(name, payload),
        }
    }

    fn guarded(
        &self,
        guard: &Guard,
        value: Option<&RecordValue>,
        effects: &[Effect],
    ) -> Result<()> {
        guard.check()?;
        if value.is_some() {
            self.record(&guard.record, value)?;
        }
        self.batch(effects.len())?;
        self.bytes(effects.iter().map(payload_bytes).sum())?;
        self.edges(effects.iter().map(edges_of).sum())?;
        for (index, effect) in effects.iter().enumerate() {
            self.effect(effect)
                .map_err(|error| error.with("index", index))?;
        }
        Ok(())
    }

    /// Checks the targets of a get or an edit.
    pub fn targets(&self, targets: &[Target]) -> Result<()> {
        self.batch(targets.len())?;
        for (index, target) in targets.iter().enumerate() {
            if let Target::Unique { queue, key } = target {
                check_name("queue", queue)
                    .and_then(|()| check_key("unique key", key))
                    .map_err(|error| error.with("index", index))?;
            }
        }
        Ok(())
    }

    /// Checks a list.
    pub fn list(&self, list: &List) -> Result<()> {
        self.limit(list.limit)?;
        match &list.by {
            ListBy::State { queue, .. } => check_name("queue", queue),
            ListBy::Unique { queue, key } | ListBy::Group { queue, key } => {
                check_name("queue", queue)?;
                check_key("key", key)
            }
            ListBy::Limit { name } => check_limit_name(name),
            ListBy::All => Ok(()),
        }
    }

    /// Checks an edit: its action and what it selects.
    pub fn edit(&self, edit: &Edit) -> Result<()> {
        edit.check_payload(self.limits)?;
        edit.check_signal()?;
        match &edit.action {
            Action::Reprioritise(priority) => check_priority(*priority)?,
            Action::Reschedule(due) => self.due(*due)?,
            _ => {}
        }
        match &edit.select {
            Select::Targets(targets) => self.targets(targets),
            Select::Filter { limit, .. } => self.limit(*limit),
        }
    }

    /// Checks a request of statistics.
    pub fn stats(&self, request: &StatsRequest) -> Result<()> {
        self.batch(request.queues.len())?;
        if request.shares > TOP_SHARES_MAX {
            return refuse("too many shares are asked for; use at most 100");
        }
        if request.limit > STATS_PAGE_MAX {
            return refuse("limit of a page of queues is too large; use at most 1000");
        }
        let is_page = request.limit > 0;
        if is_page && !request.queues.is_empty() {
            return refuse("a page has all queues; name queues, or give a limit");
        }
        if let Some(after) = &request.after {
            if !is_page {
                return refuse("after is of pages; give a limit too");
            }
            check_name("queue", after)?;
        }
        queues(&request.queues)
    }

    /// Checks a control of a queue or a record.
    pub fn control(&self, control: &Control) -> Result<()> {
        match control {
            Control::Pause { queue }
            | Control::Resume { queue }
            | Control::DeleteQueue { queue } => check_name("queue", queue),
            Control::Purge { queue, limit, .. } | Control::BlockedShares { queue, limit, .. } => {
                check_name("queue", queue)?;
                self.limit(*limit)
            }
            Control::BlockShare { queue, share, span } => {
                check_name("queue", queue)?;
                check_key("share", share)?;
                block(*span)
            }
            Control::PauseShare { queue, share } => {
                check_name("queue", queue)?;
                check_key("share", share)
            }
            Control::BlockLimit { name, span } => {
                check_limit_name(name)?;
                block(*span)
            }
            Control::Limits { after, limit } => {
                self.limit(*limit)?;
                match after.is_empty() {
                    true => Ok(()),
                    false => check_name("limit", after),
                }
            }
            Control::Limit { name } => check_limit_name(name),
            Control::Read { name } => record_name(name),
            Control::Names { prefix, limit, .. } => {
                self.limit(*limit)?;
                match prefix.is_empty() {
                    true => Ok(()),
                    false => check_name("record", prefix),
                }
            }
            Control::Write { name, value, .. } => self.record(name, value.as_ref()),
            Control::Guarded {
                guard,
                value,
                effects,
            } => self.guarded(guard, value.as_ref(), effects),
            Control::Schedules { after, limit } => {
                self.limit(*limit)?;
                match after.is_empty() {
                    true => Ok(()),
                    false => check_schedule_name(after),
                }
            }
            Control::Schedule { name, act } => {
                check_schedule_name(name)?;
                match act {
                    ScheduleAct::Backfill { instants } => self.backfill(instants),
                    ScheduleAct::Restore { last_success } => last_success.check(self.limits),
                    _ => Ok(()),
                }
            }
            Control::Flows { after, limit } => {
                self.limit(*limit)?;
                match after.is_empty() {
                    true => Ok(()),
                    false => check_name("flow", after),
                }
            }
            Control::Flow { name, act } => {
                check_name("flow", name)?;
                self.flow_act(act)
            }
            Control::Dependants { of, limit, .. } => {
                self.batch(of.len())?;
                self.limit(*limit)
            }
        }
    }

    fn flow_act(&self, act: &FlowAct) -> Result<()> {
        match act {
            FlowAct::Wait { step, after } => check_after(*step, after),
            FlowAct::Retry {
                from: Some(_),
                filter: Some(_),
                ..
            } => {
                let message = "retry names a step and a filter; use one of them";
                Err(Error::new(ErrorKind::InvalidInput, message))
            }
            FlowAct::Retry {
                from: Some(step), ..
            } => check_name("step", step),
            FlowAct::Retry {
                filter: Some(filter),
                ..
            } => match filter.state {
                None | Some(JobState::Dead | JobState::Cancelled) => Ok(()),
                Some(state) => {
                    let message = "a retry runs steps that failed; filter by dead or cancelled";
                    Err(Error::new(ErrorKind::InvalidInput, message).with("state", state))
                }
            },
            FlowAct::Steps { limit, .. } | FlowAct::Edges { limit, .. } => self.limit(*limit),
            FlowAct::Named { steps } => {
                self.batch(steps.len())?;
                let mut names = steps
                    .iter()
                    .map(|step| step.strip_prefix('@').unwrap_or(step));
                names.try_for_each(|step| check_name("step", step))
            }
            FlowAct::Restore(restored) => {
                if !restored.ended.is_empty() {
                    self.batch(restored.ended.len())?;
                }
                restored.check(self.limits)
            }
            _ => Ok(()),
        }
    }

    fn backfill(&self, instants: &[Timestamp]) -> Result<()> {
        self.batch(instants.len())?;
        match instants.iter().find(|at| **at > self.now) {
            Some(at) => {
                let message = "backfill: an instant is yet to come; name past ones only";
                Err(Error::new(ErrorKind::InvalidInput, message).with("instant", at))
            }
            None => Ok(()),
        }
    }

    fn record(&self, name: &str, value: Option<&RecordValue>) -> Result<()> {
        record_name(name)?;
        let queue = name.strip_prefix(SETTINGS_PREFIX);
        let schedule = name.strip_prefix(SCHEDULE_PREFIX);
        if name.starts_with(LIMIT_PREFIX) {
            return match value {
                None => Ok(()),
                Some(RecordValue::Limit(settings)) => settings.check(),
                Some(_) => refuse("records under limit/ are settings of named limits"),
            };
        }
        match (queue, schedule, value) {
            (_, _, Some(RecordValue::Limit(_))) => {
                refuse("settings of named limits are kept under limit/NAME")
            }
            _ if name == TOPICS => match value {
                Some(RecordValue::Opaque(bytes)) => Subscriptions::read(bytes).map(drop),
                _ => refuse("record topics holds subscriptions; write an empty list to remove all"),
            },
            (_, _, Some(RecordValue::Opaque(bytes))) if bytes.len() > RECORD_BYTES_MAX => {
                let message = "record is over the limit of 64 KiB";
                Err(Error::new(ErrorKind::PayloadTooLarge, message).with("bytes", bytes.len()))
            }
            (None, _, Some(RecordValue::Queue(_))) => {
                refuse("queue settings are kept under queue/NAME")
            }
            (Some(_), _, Some(RecordValue::Queue(settings))) => settings.check(),
            (Some(_), _, Some(RecordValue::Opaque(_) | RecordValue::Schedule(_))) => {
                refuse("records under queue/ are queue settings")
            }
            (_, Some(name), Some(RecordValue::Schedule(schedule))) => {
                schedule.check(name, self.limits)
            }
            (_, Some(name), None) => check_schedule_name(name),
            (_, Some(_), Some(_)) => refuse("records under schedule/ are schedules"),
            (_, None, Some(RecordValue::Schedule(_))) => {
                refuse("schedules are kept under schedule/NAME")
            }
            _ => Ok(()),
        }
    }

    fn due(&self, due: Due) -> Result<()> {
        match due {
            Due::After(span) => self.span("delay", span),
            Due::Now | Due::At(_) => Ok(()),
        }
    }

    fn span(&self, what: &'static str, span: Duration) -> Result<()> {
        if self.now.checked_add(span).is_some() {
            return Ok(());
        }
        let message = format!("{what} reaches beyond the year 9999");
        Err(Error::new(ErrorKind::InvalidDelay, message).with(what, exact_span(span)))
    }

    fn limit(&self, limit: usize) -> Result<()> {
        match limit {
            0 => refuse("limit is out of range; use 1 to 1,000"),
            limit => self.batch(limit),
        }
    }

    fn bytes(&self, bytes: usize) -> Result<()> {
        if bytes <= self.limits.batch_bytes {
            return Ok(());
        }
        let message = "call carries too many bytes of payload; send smaller batches";
        Err(Error::new(ErrorKind::BatchTooLarge, message)
            .with("bytes", bytes)
            .with("limit", self.limits.batch_bytes))
    }

    fn edges(&self, edges: usize) -> Result<()> {
        if edges <= EDGES_PER_CALL {
            return Ok(());
        }
        let message = "jobs of the call wait for too many others; send smaller batches";
        Err(Error::new(ErrorKind::BatchTooLarge, message)
            .with("after", edges)
            .with("limit", EDGES_PER_CALL))
    }

    fn batch(&self, items: usize) -> Result<()> {
        if items <= self.limits.batch_items {
            return Ok(());
        }
        let message = "call carries too many items; send smaller batches";
        Err(Error::new(ErrorKind::BatchTooLarge, message)
            .with("items", items)
            .with("limit", self.limits.batch_items))
    }
}

/// Checks what an extend keeps of each job.
fn check_memos_of(lease: &Extend) -> Result<()> {
    for (id, ..) in &lease.memos {
        let own = lease.memos.iter().filter(|(other, ..)| other == id);
        check_memos(own.map(|(_, name, value)| (name.as_str(), value)))
            .map_err(|error| error.with("id", id))?;
    }
    Ok(())
}

fn payload_bytes(effect: &Effect) -> usize {
    match effect {
        Effect::Enqueue(job) => job.payload.len(),
        Effect::Signal { payload, .. } => payload.len(),
        Effect::Clear { .. } | Effect::Cancel { .. } => 0,
    }
}

fn edges_of(effect: &Effect) -> usize {
    match effect {
        Effect::Enqueue(job) => job.after.len(),
        Effect::Clear { .. } | Effect::Cancel { .. } | Effect::Signal { .. } => 0,
    }
}

fn queues(queues: &[String]) -> Result<()> {
    queues
        .iter()
        .try_for_each(|queue| check_name("queue", queue))
}

/// Checks the name of a record: first the part that a person knows.
fn record_name(name: &str) -> Result<()> {
    if let Some(limit) = name.strip_prefix(LIMIT_PREFIX) {
        check_limit_name(limit)?;
    } else if let Some(schedule) = name.strip_prefix(SCHEDULE_PREFIX) {
        check_schedule_name(schedule)?;
    } else if let Some(queue) = name.strip_prefix(SETTINGS_PREFIX) {
        check_name("queue", queue)?;
    }
    check_name("record", name)
}

fn lease_duration(lease_duration: Duration) -> Result<()> {
    if (millis(LEASE_MIN_MS)..=millis(LEASE_MAX_MS)).contains(&lease_duration) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidInput, TEXT_LEASE_DURATION)
        .with("lease_duration", exact_span(lease_duration)))
}

fn block(span: Duration) -> Result<()> {
    if span <= BLOCK_MAX {
        return Ok(());
    }
    let message = "block is too long; use at most 365 days";
    Err(Error::new(ErrorKind::InvalidInput, message).with("span", exact_span(span)))
}

fn refuse<T>(message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidInput, message))
}
