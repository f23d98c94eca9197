//! `/v1/queues`: counts, pause, purge, settings.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::engine::{Control, Controlled, RecordValue, StatsRequest};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::limits::settings_of;
use super::list::{cursor_of, text_of_cursor};
use super::stats::page_of;
use crate::auth::{Administering, Allowed, Reading};
use crate::http::Caller;
use crate::http::{ErrorAnswer, Problem, Result};
use crate::json::queue::{OnFullLine, QueueList};
use crate::request::{Answer, Asked, Pairs, Read};
use crate::service;
use crate::shared::Shared;
use crate::words::{Count, Name};

/// Counts the jobs of queues by state
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "list_queues", tag = "queues",
    params(
        ("queue" = Option<Vec<String>>, Query, description = "only these; all if omitted"),
        ("limit" = Option<usize>, Query, description = "a page of so many by name; all in one answer if omitted", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "with `limit`: the `next` of the page before")
    ),
    responses((status = 200, body = QueueList), (status = 304, description = "the `ETag` of an earlier answer"), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    pairs: Pairs,
) -> Answer<QueueList> {
    pairs.only(&["queue", "limit", "after"])?;
    let request = StatsRequest::default()
        .queues(pairs.all("queue"))
        .limit(page_of(&pairs)?)
        .after(pairs.all("after").pop());
    let stats = shared.engine.stats(&caller.namespace, request).await?;
    Ok(Json(QueueList::from(&stats)))
}

/// A queue by name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueRequest {
    #[schema(value_type = Name)]
    pub(super) queue: String,
}

/// A queue, or one share of it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchRequest {
    #[schema(value_type = Name)]
    queue: String,
    /// Only this share of it.
    share: Option<String>,
}

/// Whether a queue is paused now.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Switched {
    queue: String,
    /// Only this share of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<String>,
    paused: bool,
    /// Whether it was otherwise before.
    changed: bool,
}

/// Pauses a queue, or a share of it: nothing more of it starts
#[utoipa::path(
    post, path = "/v1/queues/pause", tag = "queues", request_body = SwitchRequest,
    responses((status = 200, body = Switched), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn pause(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Read(request): Read<SwitchRequest>,
) -> Answer<Switched> {
    switch(&shared, &caller, request, true).await
}

/// Ends a pause
#[utoipa::path(
    post, path = "/v1/queues/resume", tag = "queues", request_body = SwitchRequest,
    responses((status = 200, body = Switched), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn resume(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Read(request): Read<SwitchRequest>,
) -> Answer<Switched> {
    switch(&shared, &caller, request, false).await
}

async fn switch(
    shared: &Shared,
    caller: &Caller,
    request: SwitchRequest,
    paused: bool,
) -> Answer<Switched> {
    let SwitchRequest { queue, share } = request;
    let name = queue.clone();
    let control = match (paused, share.clone()) {
        (true, None) => Control::Pause { queue: name },
        (false, None) => Control::Resume { queue: name },
        (true, Some(share)) => Control::PauseShare { queue: name, share },
        (false, Some(share)) => Control::BlockShare {
            queue: name,
            share,
            span: Duration::ZERO,
        },
    };
    let changed = service::control(shared, caller, control).await? == Controlled::Done(true);
    Ok(Json(Switched {
        queue,
        share,
        paused,
        changed,
    }))
}

/// A queue to empty.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PurgeRequest {
    #[schema(value_type = Name)]
    queue: String,
    /// Whether only to say what would be done.
    dry_run: bool,
    cursor: Option<String>,
}

/// What a purge did, or would.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Purged {
    queue: String,
    dry_run: bool,
    /// Jobs that would be cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    examined: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// Cancels the waiting jobs of a queue, a thousand per call
#[utoipa::path(
    post, path = "/v1/queues/purge", tag = "queues", request_body = PurgeRequest,
    responses((status = 200, body = Purged), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn purge(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Read(request): Read<PurgeRequest>,
) -> Answer<Purged> {
    let PurgeRequest {
        queue,
        dry_run,
        cursor,
    } = request;
    let mut answer = Purged {
        queue: queue.clone(),
        dry_run,
        pending: None,
        examined: None,
        cancelled: None,
        cursor: None,
    };
    if dry_run {
        let request = StatsRequest::default().queues(vec![queue]);
        let stats = shared.engine.stats(&caller.namespace, request).await?;
        answer.pending = Some(
            stats
                .queues
                .iter()
                .map(|queue| queue.counts.pending())
                .sum(),
        );
        return Ok(Json(answer));
    }
    let control = Control::Purge {
        queue,
        cursor: cursor.as_deref().map(cursor_of).transpose()?,
        limit: 1_000,
    };
    let controlled = service::control(&shared, &caller, control).await?;
    let Controlled::Purged {
        examined,
        matched,
        cursor,
    } = controlled
    else {
        return Err(strange());
    };
    answer.examined = Some(examined);
    answer.cancelled = Some(matched);
    answer.cursor = cursor.as_ref().map(text_of_cursor);
    Ok(Json(answer))
}

pub(super) fn strange() -> Problem {
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "the engine answered another call",
    )
}

/// The settings of a queue.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingsLine {
    #[schema(value_type = Name)]
    queue: String,
    /// Held, scheduled and ready jobs it may have; without it there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Count>)]
    max_pending: Option<u64>,
    #[serde(default)]
    on_full: OnFullLine,
    /// The version that was read; 0 if it was never set.
    #[schema(value_type = Count)]
    version: u64,
}

/// The version of the settings now.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SettingsWritten {
    queue: String,
    version: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct QueueQuery {
    #[param(value_type = Name)]
    queue: String,
}

pub(super) fn record_of(queue: &str) -> Result<String> {
    punctual::job::check_name("queue", queue)?;
    Ok(format!("queue/{queue}"))
}

/// Returns the settings of a queue
#[utoipa::path(
    get, path = "/v1/queues/settings", tag = "queues", params(QueueQuery),
    responses((status = 200, body = SettingsLine), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn settings(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Asked(query): Asked<QueueQuery>,
) -> Answer<SettingsLine> {
    let (settings, version) = settings_of(&shared, &caller, &query.queue).await?;
    Ok(Json(SettingsLine {
        queue: query.queue,
        max_pending: settings.max_pending,
        on_full: settings.on_full.into(),
        version,
    }))
}

/// Changes the settings of a queue, unless they changed since they were read
#[utoipa::path(
    put, path = "/v1/queues/settings", tag = "queues", request_body = SettingsLine,
    responses((status = 200, body = SettingsWritten), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn set_settings(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Read(line): Read<SettingsLine>,
) -> Answer<SettingsWritten> {
    // Its limits stay; if they change meanwhile, so does the version.
    let (mut settings, _) = settings_of(&shared, &caller, &line.queue).await?;
    settings.max_pending = line.max_pending;
    settings.on_full = line.on_full.into();
    let control = Control::Write {
        name: record_of(&line.queue)?,
        expected: line.version,
        value: Some(RecordValue::Queue(settings)),
    };
    match service::control(&shared, &caller, control).await? {
        Controlled::Written(version) => Ok(Json(SettingsWritten {
            queue: line.queue,
            version,
        })),
        _ => Err(strange()),
    }
}
