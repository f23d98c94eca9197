//! What the plans of a history say, as requests of the contract.

use bytes::Bytes;

use super::action::*;
use crate::conformance::model::WINDOW;
use crate::engine::{
    Action as EditAction, Claim, ClaimMode, ClaimOrder, Filter, ListBy, QueueSettings, Rate,
    Target, WorkerId, WorkerPlace,
};
use crate::job::{
    CancelReason, DeadReason, Due, Group, JobRecord, JobState, LogLine, NewJob, PastAttempt,
    PastOutcome, Stop, Unique,
};
use crate::time::Timestamp;

pub(super) fn queue(queue: u8) -> String {
    format!("q{queue}")
}

fn kind(kind: u8) -> String {
    format!("k{kind}")
}

pub(super) fn key(key: u8) -> String {
    format!("key {key}")
}

fn group(group: u8) -> String {
    format!("group {group}")
}

pub(super) fn name(name: u8) -> String {
    format!("name {name}")
}

fn payload(content: u8) -> Bytes {
    Bytes::from(vec![b'a' + content; 20 * usize::from(content)])
}

pub(super) fn job(seed: u64, plan: &JobPlan, reading: Timestamp) -> NewJob {
    let n = plan.content;
    let mut job = NewJob::new(queue(plan.queue), payload(n));
    job.id = id_of(seed, plan.no);
    job.kind = kind(plan.kind);
    if n > 0 {
        job.headers.push(("content".into(), n.to_string()));
    }
    job.due = due(plan.due, reading);
    job.expires_at = plan.expires.map(|when| instant(when, reading));
    job.priority = plan.priority;
    job.unique = plan.unique.map(|(n, policy, hold)| Unique {
        key: key(n),
        policy,
        hold,
    });
    job.group = plan.group.map(|(n, on_retry)| Group {
        key: group(n),
        on_retry,
    });
    job.max_attempts = plan.max_attempts;
    job.max_crashes = plan.max_crashes.map(u32::from);
    job.retry = plan.retry.clone();
    job.retention = plan.retention;
    job.remember = plan.remember;
    job.wait_for = (0..plan.names).map(name).collect();
    if plan.names > 0 {
        job.wait_for.push(name(0));
    }
    if let Some(past) = &plan.past {
        let known = past_of(&job, past, plan.due, reading);
        job.wait_for = known.wait_for.clone();
        job.due = Due::At(known.due);
        job.history = Some(Box::new(known));
    }
    job
}

/// The record that an export of an engine would have of the job.
fn past_of(job: &NewJob, past: &PastPlan, due: When, reading: Timestamp) -> JobRecord {
    let is = |state| past.state == state;
    let tried = past.attempt > 0;
    let age = |span| instant(When::Ago(span), reading);
    JobRecord {
        id: job.id,
        queue: job.queue.clone(),
        kind: job.kind.clone(),
        payload: job.payload.clone(),
        content_type: job.content_type.clone(),
        headers: job.headers.clone(),
        expires_at: job.expires_at,
        priority: job.priority,
        unique: job.unique.clone(),
        group: job.group.clone(),
        share: job.share.clone(),
        limits: job.limits.clone(),
        cost: job.cost,
        max_attempts: job.max_attempts,
        max_crashes: job.max_crashes,
        retry: job.retry.clone(),
        timeout: job.timeout,
        retention: job.retention,
        remember: job.remember,
        wait_for: if is(JobState::Held) {
            job.wait_for.clone()
        } else {
            Vec::new()
        },
        schedule: None,
        flow: None,
        state: past.state,
        due: instant(due, reading),
        attempt: past.attempt.into(),
        failures: past.failures.into(),
        crashes: past.crashes.into(),
        enqueued_at: age(past.age),
        started_at: tried.then(|| age(past.age / 2)),
        finished_at: past
            .state
            .is_settled()
            .then(|| instant(past.finished, reading)),
        last_error: (past.failures > 0).then(|| "error before".into()),
        result: is(JobState::Completed).then(|| "result".into()),
        progress: tried.then(|| "half".into()),
        cancel_requested: false,
        cancelled: is(JobState::Cancelled).then_some(CancelReason::Requested),
        dead: is(JobState::Dead).then_some(DeadReason::Permanent),
        stopped: is(JobState::Cancelled).then_some(Stop::Token),
        worker: None,
        lease_until: None,
        memos: Vec::new(),
        log: (0..u32::from(past.attempt).min(3))
            .map(|nth| LogLine {
                at: Timestamp::from_micros(u64::from(nth)),
                attempt: nth + 1,
                text: "tried".into(),
            })
            .collect(),
        attempts: (1..=u32::from(past.attempt).min(10))
            .map(|attempt| attempt_before(attempt, past, age(past.age)))
            .collect(),
    }
}

/// An attempt that the history of an import has.
fn attempt_before(attempt: u32, past: &PastPlan, started_at: Timestamp) -> PastAttempt {
    let crashed = attempt <= past.crashes.into();
    PastAttempt {
        attempt,
        started_at,
        ended_at: started_at + past.age / 2,
        outcome: if crashed {
            PastOutcome::Crashed
        } else {
            PastOutcome::Retry
        },
        worker: crashed.then_some(attempt.into()),
        error: (!crashed).then(|| "error before".into()),
    }
}

pub(super) fn due(when: When, reading: Timestamp) -> Due {
    match when {
        When::Now => Due::Now,
        When::After(span) => Due::After(span),
        When::At(_) | When::Ago(_) => Due::At(instant(when, reading)),
    }
}

fn instant(when: When, reading: Timestamp) -> Timestamp {
    match when {
        When::Now => reading,
        When::After(span) | When::At(span) => reading + span,
        When::Ago(span) => {
            Timestamp::from_micros(reading.as_micros().saturating_sub(span.as_micros() as u64))
        }
    }
}

pub(super) fn claim(plan: &ClaimPlan) -> Claim {
    let mut claim = Claim::new(WorkerId(100 + u128::from(plan.worker)), "", plan.limit);
    claim.queues = plan.queues.iter().map(|n| queue(*n)).collect();
    claim.worker.queues = claim.queues.clone();
    claim.worker.host = format!("host {}", plan.worker);
    // The last worker has a handler for one kind only.
    claim.worker.kinds = if plan.worker == 2 {
        vec![kind(0)]
    } else {
        Vec::new()
    };
    claim.worker.busy = u32::from(plan.nonce);
    claim.order = if plan.turns {
        ClaimOrder::Turns
    } else {
        ClaimOrder::Strict
    };
    claim.max_bytes = plan.max_bytes;
    claim.lease_duration = plan.lease_duration;
    claim.nonce = u64::from(plan.nonce) + 1;
    if plan.alone {
        claim.mode = ClaimMode::Alone;
    }
    if plan.remote {
        claim.place = WorkerPlace::Elsewhere;
    }
    claim
}

/// Settings with limits that a history has.
pub(super) fn limited(settings: QueueSettings, limits: u8) -> QueueSettings {
    match limits {
        0 => settings,
        1 => settings.concurrency(1),
        2 => settings.concurrency(2),
        3 => settings.rate(Rate::window(1, WINDOW)),
        4 => settings.rate(Rate::window(3, WINDOW)),
        _ => settings.concurrency(2).rate(Rate::window(3, WINDOW)),
    }
}

pub(super) fn target(seed: u64, plan: &TargetPlan) -> Target {
    match plan {
        TargetPlan::Job(no) => Target::Id(id_of(seed, *no)),
        TargetPlan::Key { queue: q, key: k } => unique(*q, *k),
    }
}

pub(super) fn unique(q: u8, k: u8) -> Target {
    Target::Unique {
        queue: queue(q),
        key: key(k),
    }
}

pub(super) fn edit(plan: EditPlan, reading: Timestamp) -> EditAction {
    match plan {
        EditPlan::Cancel => EditAction::Cancel,
        EditPlan::Reschedule(when) => EditAction::Reschedule(due(when, reading)),
        EditPlan::RunNow => EditAction::RunNow,
        EditPlan::Reprioritise(priority) => EditAction::Reprioritise(priority),
        EditPlan::Redrive => EditAction::Redrive,
        EditPlan::Delete => EditAction::Delete,
        EditPlan::UpdatePayload(n) => EditAction::UpdatePayload(payload(n)),
    }
}

pub(super) fn filter(plan: &FilterPlan) -> Filter {
    Filter {
        queue: plan.queue.map(queue),
        state: plan.state,
        kind: plan.kind.map(kind),
        older_than: plan.older_than,
        text: (plan.content).map(|n| char::from(b'a' + n).to_string()),
        ..Filter::default()
    }
}

pub(super) fn list(plan: &ListPlan) -> ListBy {
    match plan {
        ListPlan::State(q, state) => ListBy::State {
            queue: queue(*q),
            state: *state,
        },
        ListPlan::Unique(q, k) => ListBy::Unique {
            queue: queue(*q),
            key: key(*k),
        },
        ListPlan::Group(q, g) => ListBy::Group {
            queue: queue(*q),
            key: group(*g),
        },
        ListPlan::All => ListBy::All,
    }
}
