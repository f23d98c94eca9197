//! `/v1/queues/{queue}/limits`: reads, sets and takes off the limits of a queue.

use axum::Json;
use axum::extract::{Path, State};
use punctual::engine::{Control, Controlled, QueueSettings, RecordValue, StatsRequest};
use punctual::{ErrorKind, JobState};
use serde::Serialize;
use utoipa::ToSchema;

use super::queues::{record_of, strange};
use crate::auth::{Administering, Allowed, Reading};
use crate::http::{Caller, ErrorAnswer, Result};
use crate::json::limits::{LimitsLine, LimitsRequest, SharesLine};
use crate::request::{Answer, Read};
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
    put, path = "/v1/queues/{queue}/limits", operation_id = "put_limits", tag = "queues", params(("queue" = Name, Path)),
    request_body = LimitsRequest,
    responses((status = 200, body = LimitsAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn put(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(queue): Path<String>,
    Read(request): Read<LimitsRequest>,
) -> Answer<LimitsAnswer> {
    write(&shared, &caller, &queue, &request).await?;
    answer(&shared, &caller, queue).await
}

/// Takes the limits of a queue off
#[utoipa::path(
    delete, path = "/v1/queues/{queue}/limits", operation_id = "delete_limits", tag = "queues", params(("queue" = Name, Path)),
    responses((status = 200, body = LimitsAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn delete(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(queue): Path<String>,
) -> Answer<LimitsAnswer> {
    write(&shared, &caller, &queue, &LimitsRequest::default()).await?;
    answer(&shared, &caller, queue).await
}

async fn answer(shared: &Shared, caller: &Caller, queue: String) -> Answer<LimitsAnswer> {
    punctual::job::check_name("queue", &queue)?;
    let request = StatsRequest::default().queues(vec![queue.clone()]);
    let stats = shared.engine.stats(&caller.namespace, request).await?;
    let of_queue = stats.queues.first();
    let limits = of_queue.and_then(|stats| stats.limits.as_ref());
    let (settings, _) = settings_of(shared, caller, &queue).await?;
    Ok(Json(LimitsAnswer {
        shares: settings.shares.as_deref().map(Into::into),
        queue,
        active: of_queue.map_or(0, |stats| stats.counts.of(JobState::Active)),
        limits: limits.map(Into::into).unwrap_or_default(),
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
    request: &LimitsRequest,
) -> Result<()> {
    let mut tries = 1;
    loop {
        let (before, expected) = settings_of(shared, caller, queue).await?;
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
            Err(error) if error.kind() == ErrorKind::VersionConflict && tries < TRIES_MAX => {
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
