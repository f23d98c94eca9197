//! `/v1/flows`: sends, reads, seals, cancels and retries flows.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use punctual::engine::{Control, Controlled, Filter, FlowAct};
use punctual::flow::{FlowStatus, Retried, StepStatus};
use punctual::queue::{Flows, SentFlow};
use punctual::{Error, ErrorKind, Queue};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Administering, Allowed, Enqueuing, Reading};
use crate::decode::shown;
use crate::http::{Caller, ErrorAnswer, Problem, Result};
use crate::json::edit::FilterLine;
use crate::json::flow::{
    EdgeLine, FlowAnswer, FlowLine, GrowLine, OnFailureLine, RecountAnswer, RetriedAnswer,
    StepAnswer,
};
use crate::request::{Answer, Asked, Read};
use crate::service;
use crate::shared::Shared;
use crate::words::{Count, Id, Name};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only names after this one.
    after: String,
    /// 1 to 1,000; 100 if omitted.
    limit: Option<usize>,
}

/// Flows by name.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FlowList {
    flows: Vec<FlowAnswer>,
    /// For `after`, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists flows, with how they stand
#[utoipa::path(
    get, path = "/v1/flows", operation_id = "list_flows", tag = "flows", params(ListQuery),
    responses((status = 200, body = FlowList), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Asked(query): Asked<ListQuery>,
) -> Answer<FlowList> {
    let limit = query.limit.unwrap_or(100);
    let control = Control::Flows {
        after: query.after,
        limit,
    };
    let found = shared.engine.control(&caller.namespace, control).await?;
    let Controlled::Flows(found) = found else {
        return Err(strange());
    };
    let next = found.last().filter(|_| found.len() == limit);
    Ok(Json(FlowList {
        next: next.map(|last| last.name.clone()),
        flows: found.iter().map(Into::into).collect(),
    }))
}

/// A step that was sent.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SentStep {
    #[schema(value_type = Name)]
    name: String,
    #[schema(value_type = Id)]
    id: String,
}

/// A flow, or a part of one, that was sent.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SentAnswer {
    #[schema(value_type = Name)]
    name: String,
    /// Whether anything of it was new.
    created: bool,
    /// In the order in which they were sent.
    steps: Vec<SentStep>,
}

impl From<SentFlow> for SentAnswer {
    fn from(sent: SentFlow) -> Self {
        let step = |(name, id): (String, punctual::JobId)| SentStep {
            name,
            id: id.to_string(),
        };
        Self {
            name: sent.name,
            created: sent.is_new,
            steps: sent.steps.into_iter().map(step).collect(),
        }
    }
}

/// Sends a flow; with `seal` false a part of one, of which nothing runs yet
#[utoipa::path(
    post, path = "/v1/flows", operation_id = "send_flow", tag = "flows", request_body = FlowLine,
    responses((status = 200, body = SentAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn send(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Enqueuing>,
    Read(line): Read<FlowLine>,
) -> Answer<SentAnswer> {
    let (seals, name) = (line.seal.unwrap_or(true), line.name.clone());
    let plan = line.into_plan(&shared.guard)?;
    let queue = queue_of(&shared, &caller);
    let sent = match seals {
        true => queue.send_flow(plan).await,
        false => queue.send_part(plan).await,
    };
    let sent = sent.map_err(|error| problem_of(error, &name))?;
    Ok(Json(sent.into()))
}

/// Answers one flow
#[utoipa::path(
    get, path = "/v1/flows/{name}", operation_id = "get_flow", tag = "flows", params(("name" = Name, Path)),
    responses((status = 200, body = FlowAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Path(name): Path<String>,
) -> Answer<FlowAnswer> {
    let status = flows_of(&shared, &caller).get(&name).await?;
    Ok(Json((&status.ok_or_else(|| missing(&name))?).into()))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct StepsQuery {
    /// The place of the first, from 0 on.
    from: u32,
    /// 1 to 1,000; 100 if omitted.
    limit: Option<usize>,
    /// Only steps whose job is in that state; they are still looked at, `limit` of them.
    state: Option<String>,
}

/// Steps in the order in which they came.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StepList {
    steps: Vec<StepAnswer>,
    /// For `from`, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u32>,
}

/// Lists the steps of a flow
#[utoipa::path(
    get, path = "/v1/flows/{name}/steps", operation_id = "list_steps", tag = "flows", params(("name" = Name, Path), StepsQuery),
    responses((status = 200, body = StepList), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn steps(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Path(name): Path<String>,
    Asked(query): Asked<StepsQuery>,
) -> Answer<StepList> {
    let state = query.state.map(|state| state.parse::<punctual::JobState>());
    let state = state.transpose()?;
    let read = FlowAct::Steps {
        from: query.from,
        limit: query.limit.unwrap_or(100),
    };
    let Controlled::Steps { steps, next } = act(&shared, &caller, &name, read).await? else {
        return Err(strange());
    };
    let is_meant = |step: &&StepStatus| state.is_none_or(|state| step.state == state);
    let steps = steps.iter().filter(is_meant).map(Into::into).collect();
    Ok(Json(StepList { steps, next }))
}

/// Adds steps to a flow that runs
#[utoipa::path(
    post, path = "/v1/flows/{name}/steps", operation_id = "grow_flow", tag = "flows", params(("name" = Name, Path)),
    request_body = GrowLine,
    responses((status = 200, body = SentAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn grow(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Enqueuing>,
    Path(name): Path<String>,
    Read(line): Read<GrowLine>,
) -> Answer<SentAnswer> {
    let plan = line.into_plan(name.clone(), &shared.guard)?;
    let sent = flows_of(&shared, &caller).grow(plan).await;
    Ok(Json(sent.map_err(|error| problem_of(error, &name))?.into()))
}

/// Who waits for whom.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Graph {
    edges: Vec<EdgeLine>,
}

/// Answers who waits for whom in a flow
#[utoipa::path(
    get, path = "/v1/flows/{name}/graph", operation_id = "get_graph", tag = "flows", params(("name" = Name, Path)),
    responses((status = 200, body = Graph), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn graph(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Path(name): Path<String>,
) -> Answer<Graph> {
    let flows = flows_of(&shared, &caller);
    let status = flows.get(&name).await?;
    let status = status.ok_or_else(|| missing(&name))?;
    if status.counts.steps > GRAPH_STEPS_MAX {
        let message = format!(
            "the flow has {} steps, too many for a graph",
            status.counts.steps
        );
        return Err(
            Problem::invalid(message).hint("GET /v1/flows/{name}/steps lists them in pages")
        );
    }
    let steps = flows.steps(&name).await?;
    let from_outside: Vec<_> = steps.iter().flat_map(EdgeLine::from_outside).collect();
    let names = steps.into_iter().map(|step| (step.id, step.name)).collect();
    let edges = flows.edges(&name).await?;
    let edges = edges.iter().map(|edge| EdgeLine::new(edge, &names));
    let edges = edges.chain(from_outside).collect();
    Ok(Json(Graph { edges }))
}

/// Steps of a flow whose graph is answered as a whole.
const GRAPH_STEPS_MAX: u64 = 1_000;

/// The end of a plan.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SealRequest {
    /// How many steps were sent, without callbacks.
    #[schema(value_type = Count)]
    steps: u64,
    #[serde(default)]
    on_failure: OnFailureLine,
}

/// Seals a flow that was sent in parts: its steps start
#[utoipa::path(
    post, path = "/v1/flows/{name}/seal", operation_id = "seal_flow", tag = "flows", params(("name" = Name, Path)),
    request_body = SealRequest,
    responses((status = 200, body = FlowAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn seal(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Enqueuing>,
    Path(name): Path<String>,
    Read(request): Read<SealRequest>,
) -> Answer<FlowAnswer> {
    let seal = FlowAct::Seal {
        steps: request.steps,
        on_failure: request.on_failure.into(),
        callbacks: None,
    };
    status_of(&name, act(&shared, &caller, &name, seal).await?)
}

/// Cancels what has not settled of a flow
#[utoipa::path(
    post, path = "/v1/flows/{name}/cancel", operation_id = "cancel_flow", tag = "flows", params(("name" = Name, Path)),
    responses((status = 200, body = FlowAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn cancel(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
) -> Answer<FlowAnswer> {
    let cancelled = act(&shared, &caller, &name, FlowAct::Cancel).await?;
    status_of(&name, cancelled)
}

/// Which steps run again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryRequest {
    /// One step, however it ended, and all that depends on it; every dead or cancelled one if
    /// omitted.
    #[schema(value_type = Option<Name>)]
    from: Option<String>,
    /// Only dead or cancelled steps whose jobs it matches; without `from`.
    filter: Option<FilterLine>,
}

/// Runs failed steps of a flow again
#[utoipa::path(
    post, path = "/v1/flows/{name}/retry", operation_id = "retry_flow", tag = "flows", params(("name" = Name, Path)),
    request_body = RetryRequest,
    responses((status = 200, body = RetriedAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn retry(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
    Read(request): Read<RetryRequest>,
) -> Answer<RetriedAnswer> {
    let filter = request.filter.map(FilterLine::filter).transpose()?;
    if filter == Some(Filter::default()) {
        let message = "filter is empty; leave it out to run every failed step again";
        return Err(Error::new(ErrorKind::InvalidInput, message).into());
    }
    let filter = filter.map(Box::new);
    let (mut sum, mut next) = (Retried::default(), None);
    loop {
        let (from, filter) = (request.from.clone(), filter.clone());
        let retry = FlowAct::Retry { from, next, filter };
        let answer = act(&shared, &caller, &name, retry).await?;
        let Controlled::Retried {
            retried,
            left_out,
            next: more,
        } = answer
        else {
            return Err(strange());
        };
        sum.retried += retried;
        sum.left_out.add(left_out);
        if more.is_none() {
            return Ok(Json(sum.into()));
        }
        next = more;
    }
}

/// Counts the steps of a flow anew by their jobs
#[utoipa::path(
    get, path = "/v1/flows/{name}/recount", operation_id = "recount_flow", tag = "flows", params(("name" = Name, Path)),
    responses((status = 200, body = RecountAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn recount(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Path(name): Path<String>,
) -> Answer<RecountAnswer> {
    let recounted = flows_of(&shared, &caller).recount(&name).await;
    let recounted = recounted.map_err(|error| problem_of(error, &name))?;
    Ok(Json(recounted.into()))
}

fn queue_of(shared: &Shared, caller: &Caller) -> Queue {
    Queue::new(&shared.engine).namespace(caller.namespace.clone())
}

fn flows_of(shared: &Shared, caller: &Caller) -> Flows {
    queue_of(shared, caller).flows()
}

async fn act(shared: &Shared, caller: &Caller, name: &str, act: FlowAct) -> Result<Controlled> {
    let control = Control::Flow {
        name: name.to_owned(),
        act,
    };
    let acted = service::control(shared, caller, control).await;
    acted.map_err(|error| problem_of(error, name))
}

fn status_of(name: &str, answer: Controlled) -> Answer<FlowAnswer> {
    let status: Option<FlowStatus> = match answer {
        Controlled::Flow(status) => status.map(|status| *status),
        _ => return Err(strange()),
    };
    Ok(Json((&status.ok_or_else(|| missing(name))?).into()))
}

/// An error that names a step is about that step, any other that finds nothing about the flow.
fn problem_of(error: Error, name: &str) -> Problem {
    let names = |what| error.context().any(|(name, _)| name == what);
    match (error.kind(), names("step")) {
        (ErrorKind::NotFound, false) => missing(name),
        // Not the engine is full, but the queue of a step or a share of it.
        (ErrorKind::EngineFull, true) => {
            let code = if names("max_pending") {
                "share_full"
            } else {
                "full"
            };
            Problem::of_error(StatusCode::INSUFFICIENT_STORAGE, code, error)
        }
        _ => error.into(),
    }
}

fn missing(name: &str) -> Problem {
    let message = format!("there is no flow {}", shown(name));
    Problem::new(StatusCode::NOT_FOUND, "not_found", message).hint("GET /v1/flows lists them")
}

fn strange() -> Problem {
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "the engine answered another call",
    )
}
