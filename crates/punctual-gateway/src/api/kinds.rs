//! `GET /v1/kinds`: the jobs of a queue by kind.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use punctual::engine::{List, ListBy};
use punctual::time::Timestamp;
use punctual::{JobRecord, JobState};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Allowed, Reading};
use crate::http::ErrorAnswer;
use crate::request::{Answer, Asked};
use crate::shared::Shared;
use crate::words::Name;

/// Jobs of one state that one answer counts.
const COUNTED_MAX: usize = 1_000;
/// Kinds that one answer has apart; the jobs of others are counted under no kind.
const KINDS_MAX: usize = 200;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct KindsQuery {
    #[param(value_type = Name)]
    queue: String,
}

/// The jobs of one kind.
#[derive(Debug, Default, Serialize, ToSchema)]
struct KindLine {
    /// Missing for the jobs of every kind after the first 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    held: u64,
    scheduled: u64,
    ready: u64,
    active: u64,
    completed: u64,
    cancelled: u64,
    dead: u64,
    /// Failed attempts of these jobs.
    failures: u64,
    /// Attempts that ended with their lease.
    crashes: u64,
    /// How long the job that has been due for the longest time waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_due_ms: Option<u64>,
}

/// The jobs of a queue by kind.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KindsAnswer {
    queue: String,
    /// By name.
    kinds: Vec<KindLine>,
    /// Whether every job was counted; else the first 1,000 of each state were.
    exact: bool,
    now: String,
}

/// Counts the jobs of a queue by kind
#[utoipa::path(
    get, path = "/v1/kinds", tag = "queues", params(KindsQuery),
    responses((status = 200, body = KindsAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn kinds(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Asked(query): Asked<KindsQuery>,
) -> Answer<KindsAnswer> {
    punctual::job::check_name("queue", &query.queue)?;
    let mut kinds = BTreeMap::new();
    let mut rest = KindLine::default();
    let (mut exact, mut latest) = (true, None);
    for state in JobState::ALL {
        let list = List::new(ListBy::State {
            queue: query.queue.clone(),
            state,
        })
        .limit(COUNTED_MAX);
        let listing = shared.engine.list(&caller.namespace, list).await?;
        for job in &listing.jobs {
            line_of(&mut kinds, &mut rest, &job.kind).count(job, listing.now);
        }
        exact &= listing.cursor.is_none();
        latest = latest.max(Some(listing.now));
    }
    let mut kinds: Vec<_> = kinds.into_values().collect();
    if rest.jobs() > 0 {
        kinds.push(rest);
    }
    Ok(Json(KindsAnswer {
        queue: query.queue,
        kinds,
        exact,
        now: latest.unwrap_or(Timestamp::from_micros(0)).to_string(),
    }))
}

fn line_of<'a>(
    kinds: &'a mut BTreeMap<String, KindLine>,
    rest: &'a mut KindLine,
    kind: &str,
) -> &'a mut KindLine {
    if kinds.len() >= KINDS_MAX && !kinds.contains_key(kind) {
        return rest;
    }
    kinds.entry(kind.to_owned()).or_insert_with(|| KindLine {
        kind: Some(kind.to_owned()),
        ..KindLine::default()
    })
}

impl KindLine {
    fn count(&mut self, job: &JobRecord, now: Timestamp) {
        *match job.state {
            JobState::Held => &mut self.held,
            JobState::Scheduled => &mut self.scheduled,
            JobState::Ready => &mut self.ready,
            JobState::Active => &mut self.active,
            JobState::Completed => &mut self.completed,
            JobState::Cancelled => &mut self.cancelled,
            JobState::Dead => &mut self.dead,
        } += 1;
        self.failures += u64::from(job.failures);
        self.crashes += u64::from(job.crashes);
        if job.state == JobState::Ready {
            let waits = now.since(job.due).as_millis() as u64;
            self.oldest_due_ms = self.oldest_due_ms.max(Some(waits));
        }
    }

    fn jobs(&self) -> u64 {
        let waiting = self.held + self.scheduled + self.ready + self.active;
        waiting + self.completed + self.cancelled + self.dead
    }
}
