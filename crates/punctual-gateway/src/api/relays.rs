//! `GET /v1/relays`: the relays of a namespace that this server runs.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::{Allowed, Reading};
use crate::http::ErrorAnswer;
use crate::relays::RelayReport;
use crate::request::Answer;
use crate::shared::Shared;
use crate::words::{Count, Name};

/// A relay and how it is, since this server started.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Relay)]
struct RelayLine {
    name: String,
    /// What it relays, such as `redis-list`.
    kind: String,
    /// The queue of its jobs; `amqp:*` for all queues of jobs with a target on RabbitMQ.
    queue: String,
    /// The queue of dead jobs with the messages that could not become jobs.
    #[schema(value_type = Name)]
    refused_queue: String,
    /// `connecting`, `running`, `engine_refuses` or `down`.
    state: &'static str,
    /// Messages and jobs a second, in about the last 10 s.
    #[schema(value_type = Count)]
    rate: u64,
    #[schema(value_type = Count)]
    received: u64,
    #[schema(value_type = Count)]
    enqueued: u64,
    /// Messages that were jobs already: they came again after a failure.
    #[schema(value_type = Count)]
    duplicates: u64,
    /// Messages that are no jobs, and jobs that the other system refused.
    #[schema(value_type = Count)]
    refused: u64,
    /// Jobs that the other system took.
    #[schema(value_type = Count)]
    emitted: u64,
    #[schema(value_type = Count)]
    restarts: u64,
    /// Messages that wait in the other system, if it reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Count>)]
    lag: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// How long ago it last made progress.
    #[schema(value_type = Count)]
    age_ms: u64,
}

impl From<RelayReport> for RelayLine {
    fn from(relay: RelayReport) -> Self {
        Self {
            refused_queue: format!("relay.{}.refused", relay.name),
            name: relay.name,
            kind: relay.kind,
            queue: relay.queue,
            state: relay.state,
            rate: relay.rate,
            received: relay.received,
            enqueued: relay.enqueued,
            duplicates: relay.duplicates,
            refused: relay.refused,
            emitted: relay.emitted,
            restarts: relay.restarts,
            lag: relay.lag,
            last_error: relay.last_error,
            age_ms: u64::try_from(relay.age.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Relays by name.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RelaysAnswer {
    relays: Vec<RelayLine>,
}

/// Lists the relays of this namespace that this server runs
#[utoipa::path(
    get, path = "/v1/relays", tag = "gateway",
    responses((status = 200, body = RelaysAnswer), (status = "4XX", body = ErrorAnswer))
)]
pub(super) async fn relays(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
) -> Answer<RelaysAnswer> {
    let relays = shared.relays.of(&caller.namespace);
    Ok(Json(RelaysAnswer {
        relays: relays.into_iter().map(Into::into).collect(),
    }))
}
