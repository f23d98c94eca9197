//! `/v1/queues/delete`: a queue without jobs goes, and nothing of it is left.

use axum::Json;
use axum::extract::State;
use punctual::engine::{Control, Controlled};
use serde::Serialize;
use utoipa::ToSchema;

use super::queues::QueueRequest;
use crate::auth::{Administering, Allowed};
use crate::http::{ErrorAnswer, Problem};
use crate::request::{Answer, Read};
use crate::service;
use crate::shared::Shared;

/// Whether there was such a queue.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct QueueDeleted {
    queue: String,
    deleted: bool,
}

/// Deletes a queue that has no jobs, with its pause, settings and history
#[utoipa::path(
    post, path = "/v1/queues/delete", operation_id = "delete_queue", tag = "queues", request_body = QueueRequest,
    responses((status = 200, body = QueueDeleted), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn delete(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Read(request): Read<QueueRequest>,
) -> Answer<QueueDeleted> {
    let queue = request.queue;
    let control = Control::DeleteQueue {
        queue: queue.clone(),
    };
    let deleted = service::control(&shared, &caller, control).await;
    let deleted = deleted.map_err(|error| match error.kind() {
        punctual::ErrorKind::Conflict => Problem::from(error).hint(
            "purge it with POST /v1/queues/purge, delete kept jobs with POST /v1/edits, wait for active ones",
        ),
        _ => error.into(),
    })?;
    Ok(Json(QueueDeleted {
        queue,
        deleted: deleted == Controlled::Done(true),
    }))
}
