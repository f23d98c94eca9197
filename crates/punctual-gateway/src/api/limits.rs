//! `/v1/queues/{queue}/limits`: reads, sets and takes off the limits of a queue.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use punctual::engine::{Control, Controlled, QueueSettings, RecordValue, StatsRequest};
use punctual::{ErrorKind, JobState};
use serde::Serialize;
use utoipa::ToSchema;

use super::queues::{record_of, strange};
use crate::auth::{Administering, Allowed, Reading};
use crate::http::{Caller, ErrorAnswer, Result};
use crate::json::limits::{LimitsLine, LimitsRequest, SharesLine};
use crate::request::{Answer, Read, if_match};
use crate::service;
use crate::shared::Shared;
use crate::words::{Count, Name};

/// Reads and writes after which a change that others disturb is given up.
const TRIES_MAX: usize = 10;

/// A queue with its limits; without `concurrency` and `rate` it has none.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LimitsAnswer {
    queue: String,
    /// Jobs that are active now.
    #[schema(value_type = Count)]
    active: u64,
    #[serde(flatten)]
    limits: LimitsLine,
    /// Limits of each share, and weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    shares: Option<SharesLine>,
    /// Of the queue's settings, for `If-Match`; 0 if they were never set.
    #[schema(value_type = Count)]
    version: u64,
}

/// Returns the limits of a queue and how they stand
#[utoipa::path(
    get, path = "/v1/queues/{queue}/limits", operation_id = "get_limits", tag = "queues", params(("queue" = Name, Path)),
    responses((status = 200, body = LimitsAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Path(queue): Path<String>,
) -> Answer<LimitsAnswer> {
    answer(&shared, &caller, queue).await
}

/// Sets the limits of a queue, instead of those that it has
#[utoipa::path(
    put, path = "/v1/queues/{queue}/limits", operation_id = "put_limits", tag = "queues",
    params(("queue" = Name, Path), ("If-Match" = Option<String>, Header, description = "the version that was read; 0 if it was never set")),
    request_body = LimitsRequest,
    responses((status = 200, body = LimitsAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn put(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(queue): Path<String>,
    headers: HeaderMap,
    Read(request): Read<LimitsRequest>,
) -> Answer<LimitsAnswer> {
    let expected = if_match(&headers)?;
    write(&shared, &caller, &queue, expected, &request).await?;
    answer(&shared, &caller, queue).await
}

/// Takes the limits of a queue off; with `If-Match` only if its settings still have that version
#[utoipa::path(
    delete, path = "/v1/queues/{queue}/limits", operation_id = "delete_limits", tag = "queues",
    params(("queue" = Name, Path), ("If-Match" = Option<String>, Header, description = "the version that was read")),
    responses((status = 200, body = LimitsAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn delete(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(queue): Path<String>,
    headers: HeaderMap,
) -> Answer<LimitsAnswer> {
    let expected = if_match(&headers)?;
    write(
        &shared,
        &caller,
        &queue,
        expected,
        &LimitsRequest::default(),
    )
    .await?;
    answer(&shared, &caller, queue).await
}

async fn answer(shared: &Shared, caller: &Caller, queue: String) -> Answer<LimitsAnswer> {
    punctual::job::check_name("queue", &queue)?;
    // Before the limits: a version that is older than they are is refused, and a later one would
    // let a change of another caller be lost.
    let (settings, version) = settings_of(shared, caller, &queue).await?;
    let request = StatsRequest::default().queues(vec![queue.clone()]);
    let stats = shared.engine.stats(&caller.namespace, request).await?;
    let of_queue = stats.queues.first();
    let limits = of_queue.and_then(|stats| stats.limits.as_ref());
    Ok(Json(LimitsAnswer {
        shares: settings.shares.as_deref().map(Into::into),
        queue,
        active: of_queue.map_or(0, |stats| stats.counts.of(JobState::Active)),
        limits: limits.map(Into::into).unwrap_or_default(),
        version,
    }))
}

/// The settings of a queue with their version.
pub(super) async fn settings_of(
    shared: &Shared,
    caller: &Caller,
    queue: &str,
) -> Result<(QueueSettings, u64)> {
    let name = record_of(queue)?;
    let read = Control::Read { name };
    let Controlled::Record(record) = shared.engine.control(&caller.namespace, read).await? else {
        return Err(strange());
    };
    let version = record.as_ref().map_or(0, |record| record.version);
    let settings = match record.map(|record| record.value) {
        Some(RecordValue::Queue(settings)) => settings,
        _ => QueueSettings::new(),
    };
    Ok((settings, version))
}

/// Writes the settings with other limits, again if another caller wrote in between.
async fn write(
    shared: &Shared,
    caller: &Caller,
    queue: &str,
    wanted: Option<u64>,
    request: &LimitsRequest,
) -> Result<()> {
    let mut tries = 1;
    loop {
        let (before, expected) = settings_of(shared, caller, queue).await?;
        Control::expect_version(&record_of(queue)?, wanted, expected)?;
        let after = request.set(before.clone())?;
        if after == before {
            return Ok(());
        }
        let write = Control::Write {
            name: record_of(queue)?,
            expected,
            value: (after != QueueSettings::new()).then_some(RecordValue::Queue(after)),
        };
        match service::control(shared, caller, write).await {
            Ok(_) => return Ok(()),
            // With a version that was asked for, the next turn refuses.
            Err(error) if error.kind() == ErrorKind::VersionConflict && tries < TRIES_MAX => {
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
