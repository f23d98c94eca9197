//! Routes of the gateway itself: info, health, audit, and the calls of `punctual-client`.

use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual::engine::{Health, Info, NamespaceProblem};
use punctual::schedule::tz_database_version;
use punctual::time::{Timestamp, exact_span, seconds, within};
use punctual::wire::{self, Answer as WireAnswer, Call};
use punctual::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::audit;
use crate::auth::{Administering, Allowed, Anything, caller_of};
use crate::bounded::in_range;
use crate::http::{Caller, Scope};
use crate::http::{ErrorAnswer, Problem, RequestContext, Result};
use crate::job_json::InstantText;
use crate::process::ProcessLine;
use crate::relays::Relays;
use crate::request::{Answer, Asked, Read, body_bytes, expect_type};
use crate::service;
use crate::shared::Shared;

/// Who asks whether all is well gives up after some seconds.
pub(super) const ENGINE_ANSWERS_WITHIN: Duration = seconds(5);

/// What the engine is, and what the token may.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct InfoAnswer {
    engine: &'static str,
    version: &'static str,
    durability: String,
    capabilities: Vec<String>,
    limits: LimitsLine,
    settled_window: String,
    /// How long a resend is recognised now: less than `settled_window` while tombstones go early.
    resend_window: String,
    clock_jumps: u64,
    /// The version of the tz database by which schedules run.
    tz_database: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    store_bytes: Option<u64>,
    /// Shards of a namespace; only for a token of scope `operator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<u32>,
    /// Only for a token of scope `operator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<ProcessLine>,
    health: HealthLine,
    namespace: String,
    scopes: Vec<&'static str>,
    now: String,
}

/// Limits that concern senders.
#[derive(Debug, Serialize, ToSchema)]
struct LimitsLine {
    payload_bytes: usize,
    header_bytes: usize,
    result_bytes: usize,
    batch_items: usize,
    batch_bytes: usize,
    wait_for_names: usize,
    effects: usize,
}

/// Whether the engine is healthy.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HealthLine {
    ok: bool,
    /// The problems, with their remedies; only for a token of scope `read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    problems: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loops: Option<Vec<LoopLine>>,
    /// Relays of the namespace that fail, with the reason. They leave `ok` as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    relays: Option<Vec<String>>,
}

#[derive(Debug, Serialize, ToSchema)]
struct LoopLine {
    name: String,
    age_ms: u64,
    restarts: u64,
}

impl HealthLine {
    /// Of what the caller may see, if it may see anything.
    fn new(info: &Info, relays: &Relays, caller: Option<&Caller>) -> Self {
        let (health, whole) = (&info.health, caller.is_some());
        let loops = health.loops.iter().map(|one| LoopLine {
            name: one.name.clone(),
            age_ms: one.age.as_millis() as u64,
            restarts: one.restarts,
        });
        Self {
            ok: health.ok,
            problems: caller.map(|caller| problems_for(health, caller)),
            loops: whole.then(|| loops.collect()),
            relays: caller.and_then(|caller| failing(relays, caller)),
        }
    }
}

fn failing(relays: &Relays, caller: &Caller) -> Option<Vec<String>> {
    let failing = relays.failing(&caller.namespace);
    (!failing.is_empty() && caller.allows(Scope::Read)).then_some(failing)
}

/// Each problem in words; those of another namespace than the caller's under its name.
fn problems_for(health: &Health, caller: &Caller) -> Vec<String> {
    let of_namespaces = health.of_namespaces.iter().map(|it| {
        if it.namespace == caller.namespace {
            it.text.clone()
        } else {
            it.to_string()
        }
    });
    health
        .problems
        .iter()
        .cloned()
        .chain(of_namespaces)
        .collect()
}

/// Returns facts of the engine, and the scopes of the token
#[utoipa::path(
    get, path = "/v1/info", tag = "gateway",
    responses((status = 200, body = InfoAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn info(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Anything>,
) -> Answer<InfoAnswer> {
    let info = seen_by(&caller, shared.engine.info().await?);
    let limits = &info.limits;
    Ok(Json(InfoAnswer {
        engine: info.engine,
        version: info.version,
        durability: info.durability.to_string(),
        capabilities: info
            .capabilities
            .iter()
            .map(|one| snake(&format!("{one:?}")))
            .collect(),
        limits: LimitsLine {
            payload_bytes: limits.payload_bytes,
            header_bytes: limits.header_bytes,
            result_bytes: limits.result_bytes,
            batch_items: limits.batch_items,
            batch_bytes: limits.batch_bytes,
            wait_for_names: limits.wait_for_names,
            effects: limits.effects,
        },
        settled_window: exact_span(info.settled_window),
        resend_window: exact_span(info.resend_window),
        clock_jumps: info.clock_jumps,
        tz_database: tz_database_version(),
        store_bytes: info.store_bytes,
        shards: caller.sees_engine().then_some(info.shards),
        process: caller
            .sees_engine()
            .then(|| ProcessLine::new(&shared.started)),
        health: HealthLine::new(&info, &shared.relays, Some(&caller)),
        namespace: caller.namespace.to_string(),
        scopes: caller.scopes(),
        now: info.now.to_string(),
    }))
}

/// What a caller may know of an engine that it shares: of queues what is wrong in its own
/// namespace, of the whole what its token has the scope for; and that there is something else.
pub(super) fn seen_by(caller: &Caller, mut info: Info) -> Info {
    if caller.sees_all() {
        return info;
    }
    let health = &mut info.health;
    let is_own = |it: &NamespaceProblem| it.namespace == caller.namespace;
    health.of_namespaces.retain(is_own);
    if !caller.sees_engine() {
        info.store_bytes = None;
        health.problems.clear();
    }
    // What is wrong elsewhere, and leaves the engine as it is, concerns this caller in nothing.
    if !health.ok && health.problems.is_empty() && health.of_namespaces.is_empty() {
        health.problems.push(UNSEEN.to_owned());
    }
    info
}

/// Instead of what a token may not see.
const UNSEEN: &str =
    "the engine or the server is unhealthy; run `punctual doctor` on the server for details";

fn snake(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// Liveness: the process, its loops and the engine work. Late queues do not change it
#[utoipa::path(
    get, path = "/healthz", tag = "gateway", security(()),
    responses((status = 200, body = HealthLine), (status = 503, body = HealthLine))
)]
pub(super) async fn healthz(State(shared): State<Shared>, request: Request) -> Response {
    let health = health_of(&shared, request).await;
    (status_of(&health), Json(health)).into_response()
}

/// Readiness: it is alive and accepts new work; false while it shuts down
#[utoipa::path(
    get, path = "/readyz", tag = "gateway", security(()),
    responses((status = 200, body = HealthLine), (status = 503, body = HealthLine))
)]
pub(super) async fn readyz(State(shared): State<Shared>, request: Request) -> Response {
    let mut health = health_of(&shared, request).await;
    if shared.is_ending() {
        health.ok = false;
        if let Some(problems) = &mut health.problems {
            problems.push(
                "the server is shutting down and accepts no new work; use another one".to_owned(),
            );
        }
    }
    (status_of(&health), Json(health)).into_response()
}

fn status_of(health: &HealthLine) -> StatusCode {
    match health.ok {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn health_of(shared: &Shared, request: Request) -> HealthLine {
    let (parts, _) = request.into_parts();
    let shows = parts.headers.contains_key(header::AUTHORIZATION) || shared.tokens.is_open();
    let caller = shows.then(|| caller_of(&parts, shared).ok()).flatten();
    let reader = caller.filter(|caller| caller.allows(Scope::Read));
    let silent = || {
        let message = "the engine does not answer; check its log and that its server runs";
        Err(Error::new(ErrorKind::EngineUnavailable, message))
    };
    let answered = within(ENGINE_ANSWERS_WITHIN, shared.engine.info()).await;
    match answered.unwrap_or_else(silent) {
        Ok(info) => match &reader {
            Some(reader) => HealthLine::new(&seen_by(reader, info), &shared.relays, Some(reader)),
            None => HealthLine::new(&info, &shared.relays, None),
        },
        Err(error) => HealthLine {
            ok: false,
            problems: reader.as_ref().map(|reader| match reader.sees_engine() {
                true => vec![error.to_string()],
                false => vec![UNSEEN.to_owned()],
            }),
            loops: None,
            relays: reader.and_then(|reader| failing(&shared.relays, &reader)),
        },
    }
}

/// What was changed, the latest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditAnswer {
    entries: Vec<audit::Entry>,
}

/// How many entries to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// 1 to 1,000; 100 by default.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<usize>,
}

/// Lists who changed what in this namespace
#[utoipa::path(
    get, path = "/v1/audit", tag = "gateway", params(AuditQuery),
    responses((status = 200, body = AuditAnswer), (status = "4XX", body = ErrorAnswer))
)]
pub(super) async fn audit_record(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Asked(query): Asked<AuditQuery>,
) -> Answer<AuditAnswer> {
    let limit = in_range("limit", query.limit.unwrap_or(100), 1_000)?;
    let entries = shared.audit.of(&caller.namespace, limit);
    Ok(Json(AuditAnswer { entries }))
}

/// One verb as bytes, for `punctual-client`.
pub(super) async fn calls(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Extension(context): Extension<RequestContext>,
    request: Request,
) -> Result<Response> {
    expect_type(request.headers(), &[wire::CONTENT_TYPE])?;
    let bytes = body_bytes(&shared, request).await?;
    let call: Call = wire::decode(&bytes).map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, "invalid_request", error.message())
    })?;
    if let Call::Enqueue(jobs) = &call {
        jobs.iter()
            .for_each(|job| shared.notify(&caller.namespace, job));
    }
    let silence = match &call {
        Call::Wait(what, _) => Some(wire::silence_of_wait(what)),
        _ => None,
    };
    let answering = async {
        let failed = |error: punctual::Error| WireAnswer::Failed((&error).into());
        Ok::<WireAnswer, Problem>(match call {
            Call::Edit(edit) => {
                let edited = service::edit(&shared, &caller, edit).await;
                edited.map_or_else(failed, WireAnswer::Edit)
            }
            Call::Control(control) => {
                let controlled = service::control(&shared, &caller, control).await;
                controlled.map_or_else(failed, WireAnswer::Control)
            }
            Call::Info => {
                let info = shared.engine.info().await;
                let seen = info.map(|info| seen_by(&caller, info));
                seen.map(Box::new).map_or_else(failed, WireAnswer::Info)
            }
            call => call.run(&*shared.engine, &caller.namespace).await,
        })
    };
    let answer = match silence {
        None => answering.await?,
        Some(span) => match within(span, shared.unless_ending(answering)).await {
            Some(answer) => answer?,
            // A waiting client learns that the gateway is there, and asks again.
            None => return Ok(StatusCode::NO_CONTENT.into_response()),
        },
    };
    let answer = match answer {
        WireAnswer::Failed(failed) => {
            WireAnswer::Failed(reported_failure(&shared, &caller, &context, failed))
        }
        answer => answer,
    };
    let content_type = [(header::CONTENT_TYPE, wire::CONTENT_TYPE)];
    Ok((content_type, wire::encode(&answer)?).into_response())
}

/// A failure as a route of JSON reports it: what only operators may read goes to the log, for every
/// caller.
fn reported_failure(
    shared: &Shared,
    caller: &Caller,
    context: &RequestContext,
    failed: wire::Failed,
) -> wire::Failed {
    let error: Error = failed.clone().into();
    let (kind, operation) = (error.kind(), error.operation_name());
    let problem = Problem::from(error);
    if !problem.is_outward() {
        return failed;
    }
    problem.log(context, &shared.log_throttle);
    if caller.sees_engine() {
        return failed;
    }
    let hint = problem.shown_hint().unwrap_or_default();
    let error = Error::new(kind, format!("{}; {hint}", problem.message()))
        .operation(operation)
        .with("request_id", &context.id);
    (&error).into()
}

/// An instant to set a clock to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClockRequest {
    now: InstantText,
}

#[derive(Debug, Serialize)]
pub(super) struct ClockAnswer {
    now: String,
}

/// Moves the clock of the engine; there is such a route only in tests.
pub(super) async fn set_clock(
    State(shared): State<Shared>,
    Allowed(..): Allowed<Administering>,
    Read(request): Read<ClockRequest>,
) -> Answer<ClockAnswer> {
    let now: Timestamp = request.now.0;
    let clock = shared.clock.as_ref().ok_or_else(super::nowhere)?;
    clock.set(now);
    Ok(Json(ClockAnswer {
        now: now.to_string(),
    }))
}
