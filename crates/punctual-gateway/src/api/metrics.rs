//! `/metrics`: numbers for Prometheus, with bounded labels.

use std::cmp::Reverse;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use punctual::engine::{
    Capability, Control, Controlled, Info, NamedLimit, QueueStats, Stats, StatsRequest,
    free_workers,
};
use punctual::flow::{FlowState, FlowStatus};
use punctual::lock::LockWaiter;
use punctual::time::{seconds, within};
use punctual::{Engine, ErrorKind, JobState, Namespace};

use super::others::{ENGINE_ANSWERS_WITHIN, seen_by};
use crate::auth::{Allowed, Reading};
use crate::http::Scope;
use crate::http::{ErrorAnswer, Result};
use crate::metrics::{Exposition, OTHER, Shown};
use crate::shared::Shared;

/// A queue is late if its oldest due job waits longer although a worker has a free slot.
const LATE: Duration = seconds(5);

/// Queues that have rows by name, those with most jobs; the rest are added up.
const QUEUES_NAMED: usize = 100;

/// Flows that are counted, and how many one call reads.
const FLOWS_COUNTED: usize = 10_000;
const FLOWS_PER_CALL: usize = 1_000;

/// Named limits of a page.
const LIMITS_REPORTED: usize = 100;

/// Numbers for Prometheus
#[utoipa::path(
    get, path = "/metrics", tag = "gateway",
    responses((status = 200, body = String, content_type = "text/plain"), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn metrics(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
) -> Result<Response> {
    let asked = async {
        let request = StatsRequest::default();
        let stats = shared.engine.stats(&caller.namespace, request).await?;
        let flows = read_flows(&*shared.engine, &caller.namespace).await?;
        let info = shared.engine.info().await?;
        let limits = read_limits(&*shared.engine, &caller.namespace, &info).await?;
        punctual::Result::Ok((stats, info, flows, limits))
    };
    let mut page = Exposition::default();
    match within(ENGINE_ANSWERS_WITHIN, asked).await {
        Some(Ok((stats, info, flows, limits))) => {
            if let Some(flows) = flows {
                let still = &shared.metrics.flows;
                write_flows(
                    &mut page,
                    &flows,
                    still.still(&caller.namespace, &flows, stats.now),
                );
            }
            write_limits(&mut page, &limits);
            write_engine(&mut page, stats, &seen_by(&caller, info));
        }
        // What this process counts is answered all the same, then most of all.
        without => {
            let error = without.and_then(|answer| answer.err());
            let error = error.map_or_else(
                || "it does not answer".to_owned(),
                |error: punctual::Error| error.to_string(),
            );
            tracing::warn!(error, "/metrics omits the engine's figures");
            page.gauge("punctual_healthy", 0);
        }
    }
    let sees_process = caller.allows(Scope::Operator) || !shared.tokens.are_of_many();
    let shown = Shown {
        process: sees_process,
        // Workers in this process may run jobs of any namespace.
        queues: caller.sees_all() || caller.allows(Scope::Operator) && !shared.tokens.are_of_many(),
        engine: caller.allows(Scope::Operator),
    };
    shared.metrics.write(&mut page, &caller.namespace, shown);
    shared.relays.write(&mut page, &caller.namespace);
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((content_type, page.into_text()).into_response())
}

/// The first named limits; none where the engine has no such limits.
async fn read_limits(
    engine: &dyn Engine,
    namespace: &Namespace,
    info: &Info,
) -> punctual::Result<Vec<NamedLimit>> {
    if !info.capabilities.contains(&Capability::NamedLimits) {
        return Ok(Vec::new());
    }
    let (after, limit) = (String::new(), LIMITS_REPORTED);
    let read = Control::Limits { after, limit };
    match engine.control(namespace, read).await? {
        Controlled::Limits(found) => Ok(found),
        _ => Ok(Vec::new()),
    }
}

/// The first flows of a namespace by name; `None` of an engine without flows.
async fn read_flows(
    engine: &dyn Engine,
    namespace: &Namespace,
) -> punctual::Result<Option<Vec<FlowStatus>>> {
    let mut found: Vec<FlowStatus> = Vec::new();
    while found.len() < FLOWS_COUNTED {
        let after = found.last().map_or(String::new(), |flow| flow.name.clone());
        let limit = FLOWS_PER_CALL;
        match engine
            .control(namespace, Control::Flows { after, limit })
            .await
        {
            Ok(Controlled::Flows(flows)) => {
                let is_last = flows.len() < limit;
                found.extend(flows);
                if is_last {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    Ok(Some(found))
}

fn write_flows(page: &mut Exposition, flows: &[FlowStatus], still: Duration) {
    page.family("punctual_flows", "gauge");
    for state in FLOW_STATES {
        let count = flows.iter().filter(|flow| flow.state == state).count();
        page.sample("punctual_flows", &format!("state=\"{state}\""), count);
    }
    page.gauge("punctual_flow_still_seconds", still.as_secs_f64());
}

const FLOW_STATES: [FlowState; 5] = [
    FlowState::Open,
    FlowState::Running,
    FlowState::Done,
    FlowState::Failed,
    FlowState::Cancelled,
];

fn write_engine(page: &mut Exposition, stats: Stats, info: &Info) {
    let workers = stats.workers.iter().filter(|seen| !LockWaiter::is(seen));
    page.gauge("punctual_workers", workers.count());
    page.gauge("punctual_schedules_overdue", stats.overdue.len());
    write_queues(page, stats);
    page.gauge("punctual_healthy", u8::from(info.health.ok));
    page.family("punctual_clock_jumps_total", "counter");
    page.sample("punctual_clock_jumps_total", "", info.clock_jumps);
    if let Some(bytes) = info.store_bytes {
        page.gauge("punctual_store_bytes", bytes);
    }
}

/// Named limits, the first ones by name.
fn write_limits(page: &mut Exposition, limits: &[NamedLimit]) {
    let mut family = |name: &str, value: fn(&NamedLimit) -> u64| {
        page.family(name, "gauge");
        for limit in limits {
            page.sample(name, &format!("limit=\"{}\"", limit.name), value(limit));
        }
    };
    if !limits.is_empty() {
        family("punctual_limit_active", |limit| limit.active);
        family("punctual_limit_waiting", |limit| limit.waiting);
        family("punctual_limit_closed", |limit| {
            u64::from(limit.closed.is_some())
        });
    }
}

fn write_queues(page: &mut Exposition, stats: Stats) {
    let free = free_workers(&stats.workers, stats.now);
    let mut queues = stats.queues;
    let waits = |queue: &QueueStats| queue.counts.pending() + queue.counts.of(JobState::Active);
    queues.sort_by(|a, b| (Reverse(waits(a)), &a.queue).cmp(&(Reverse(waits(b)), &b.queue)));
    // A queue of that name would otherwise stand there twice.
    let (mut rest, mut apart): (Vec<_>, Vec<_>) =
        queues.into_iter().partition(|queue| queue.queue == OTHER);
    if apart.len() > QUEUES_NAMED {
        rest.extend(apart.split_off(QUEUES_NAMED));
    }
    let names = apart
        .iter()
        .map(|queue| (&*queue.queue, std::slice::from_ref(queue)));
    let rest = (!rest.is_empty()).then_some((OTHER, &*rest));
    let reported: Vec<(&str, &[QueueStats])> = names.chain(rest).collect();

    page.family("punctual_jobs", "gauge");
    for (name, queues) in &reported {
        for state in JobState::ALL {
            let jobs: u64 = queues.iter().map(|queue| queue.counts.of(state)).sum();
            let labels = format!("queue=\"{name}\",state=\"{state}\"");
            page.sample("punctual_jobs", &labels, jobs);
        }
    }
    page.family("punctual_oldest_due_seconds", "gauge");
    for (name, queues) in &reported {
        let oldest = queues.iter().filter_map(|queue| queue.oldest_due).max();
        let seconds = oldest.unwrap_or_default().as_secs_f64();
        page.sample(
            "punctual_oldest_due_seconds",
            &format!("queue=\"{name}\""),
            seconds,
        );
    }
    page.family("punctual_queue_paused", "gauge");
    for (name, queues) in &reported {
        let paused = queues.iter().filter(|queue| queue.paused).count();
        page.sample(
            "punctual_queue_paused",
            &format!("queue=\"{name}\""),
            paused,
        );
    }
    let limited: Vec<_> = (reported.iter())
        .filter(|(_, queues)| queues.iter().any(|queue| queue.limits.is_some()))
        .collect();
    if !limited.is_empty() {
        page.family("punctual_queue_limited", "gauge");
    }
    for (name, queues) in &limited {
        let closed = |queue: &&QueueStats| queue.limits.is_some_and(|it| it.closed.is_some());
        let closed = queues.iter().filter(closed).count();
        page.sample(
            "punctual_queue_limited",
            &format!("queue=\"{name}\""),
            closed,
        );
    }
    if !limited.is_empty() {
        page.family("punctual_queue_limit_wait_seconds", "gauge");
    }
    for (name, queues) in &limited {
        let waits = queues.iter().filter_map(|queue| queue.limits?.waits).max();
        let seconds = waits.unwrap_or_default().as_secs_f64();
        page.sample(
            "punctual_queue_limit_wait_seconds",
            &format!("queue=\"{name}\""),
            seconds,
        );
    }
    page.family("punctual_queue_late", "gauge");
    for (name, queues) in &reported {
        let is_late = |queue: &&QueueStats| {
            let waits = queue.oldest_due.filter(|_| !queue.paused);
            waits.is_some_and(|span| span > LATE) && free.contains_key(&queue.queue)
        };
        let late = queues.iter().filter(is_late).count();
        page.sample("punctual_queue_late", &format!("queue=\"{name}\""), late);
    }
}
