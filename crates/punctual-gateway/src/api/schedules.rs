//! `/v1/schedules`: reads, writes and removes schedules, and does something with their runs.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use punctual::ErrorKind;
use punctual::engine::{Control, Controlled, EnqueueVerdict, Receipt, RecordValue, ScheduleAct};
use punctual::schedule::{SCHEDULE_PREFIX, Schedule, ScheduleStatus};
use punctual::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Administering, Allowed, Reading};
use crate::http::{Caller, ErrorAnswer, Problem, Result};
use crate::job_json::InstantText;
use crate::json::schedule::{ScheduleAnswer, ScheduleLine};
use crate::request::{Answer, Asked, Read, if_match};
use crate::service;
use crate::shared::Shared;
use crate::words::{Id, Name};

/// Reads and writes after which a change that others disturb is given up.
const TRIES_MAX: usize = 10;
/// The most instants of a backfill.
const BACKFILL_MAX: usize = 1_000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only names after this one.
    after: String,
    /// 1 to 1,000; 100 if omitted.
    limit: Option<usize>,
}

/// Schedules by name.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ScheduleList {
    schedules: Vec<ScheduleAnswer>,
    /// For `after`, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists schedules, with how they stand
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "list_schedules", tag = "schedules", params(ListQuery),
    responses((status = 200, body = ScheduleList), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Asked(query): Asked<ListQuery>,
) -> Answer<ScheduleList> {
    let limit = query.limit.unwrap_or(100);
    let control = Control::Schedules {
        after: query.after,
        limit,
    };
    let found = shared.engine.control(&caller.namespace, control).await?;
    let Controlled::Schedules(found) = found else {
        return Err(strange());
    };
    let next = found.last().filter(|_| found.len() == limit);
    Ok(Json(ScheduleList {
        next: next.map(|last| last.name.clone()),
        schedules: found.iter().map(Into::into).collect(),
    }))
}

/// Answers one schedule
#[utoipa::path(
    get, path = "/v1/schedules/{name}", operation_id = "get_schedule", tag = "schedules", params(("name" = Name, Path)),
    responses((status = 200, body = ScheduleAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Path(name): Path<String>,
) -> Answer<ScheduleAnswer> {
    let status = find(&shared, &caller, &name)
        .await?
        .ok_or_else(|| missing(&name))?;
    Ok(Json((&status).into()))
}

/// Writes a schedule; with `If-Match` only if it still has that version
#[utoipa::path(
    put, path = "/v1/schedules/{name}", operation_id = "put_schedule", tag = "schedules",
    params(("name" = Name, Path), ("If-Match" = Option<String>, Header, description = "the version that was read; 0 if there must be none")),
    request_body = ScheduleLine,
    responses((status = 200, body = ScheduleAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn put(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Read(line): Read<ScheduleLine>,
) -> Answer<ScheduleAnswer> {
    let keeps_pause = line.keeps_pause();
    let schedule = line.into_schedule(&shared.guard)?;
    let expected = if_match(&headers)?;
    change(&shared, &caller, &name, expected, |known| {
        let mut schedule = schedule.clone();
        if let Some(known) = known.filter(|_| keeps_pause) {
            schedule.paused = known.schedule.paused;
            schedule.note.clone_from(&known.schedule.note);
        }
        Ok(Some(schedule))
    })
    .await?;
    answer(&shared, &caller, &name).await
}

/// Whether a schedule was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Removed {
    name: String,
    removed: bool,
}

/// Removes a schedule; jobs that wait already run
#[utoipa::path(
    delete, path = "/v1/schedules/{name}", operation_id = "delete_schedule", tag = "schedules",
    params(("name" = Name, Path), ("If-Match" = Option<String>, Header, description = "the version that was read")),
    responses((status = 200, body = Removed), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn delete(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer<Removed> {
    let expected = if_match(&headers)?;
    change(&shared, &caller, &name, expected, |known| {
        known.ok_or_else(|| missing(&name)).map(|_| None)
    })
    .await?;
    let removed = true;
    Ok(Json(Removed { name, removed }))
}

/// Why a schedule is paused.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PauseRequest {
    note: String,
}

/// Skips the runs of a schedule until it is resumed
#[utoipa::path(
    post, path = "/v1/schedules/{name}/pause", operation_id = "pause_schedule", tag = "schedules", params(("name" = Name, Path)),
    request_body = PauseRequest,
    responses((status = 200, body = ScheduleAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn pause(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
    Read(request): Read<PauseRequest>,
) -> Answer<ScheduleAnswer> {
    switch(&shared, &caller, &name, true, request.note).await
}

/// Ends the pause of a schedule
#[utoipa::path(
    post, path = "/v1/schedules/{name}/resume", operation_id = "resume_schedule", tag = "schedules", params(("name" = Name, Path)),
    responses((status = 200, body = ScheduleAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn resume(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
) -> Answer<ScheduleAnswer> {
    switch(&shared, &caller, &name, false, String::new()).await
}

async fn switch(
    shared: &Shared,
    caller: &Caller,
    name: &str,
    paused: bool,
    note: String,
) -> Answer<ScheduleAnswer> {
    change(shared, caller, name, None, |known| {
        let mut schedule = known.ok_or_else(|| missing(name))?.schedule.clone();
        schedule.paused = paused;
        schedule.note.clone_from(&note);
        Ok(Some(schedule))
    })
    .await?;
    answer(shared, caller, name).await
}

/// A run that was enqueued on request.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RunAnswer {
    #[schema(value_type = Id)]
    id: String,
    /// `created`; `merged` if a run is on its way and no two may overlap; `duplicate` if it was
    /// enqueued before.
    verdict: &'static str,
    /// With `merged`, the run that is on its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    holder: Option<String>,
    /// The instant, in a backfill.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<InstantText>,
}

impl RunAnswer {
    fn of(receipt: &Receipt, at: Option<Timestamp>) -> Self {
        Self {
            id: receipt.id.to_string(),
            verdict: receipt.verdict.name(),
            holder: match receipt.verdict {
                EnqueueVerdict::Merged(id) => Some(id.to_string()),
                _ => None,
            },
            at: at.map(Into::into),
        }
    }
}

/// Runs a schedule now, beside its runs to come
#[utoipa::path(
    post, path = "/v1/schedules/{name}/run", operation_id = "run_schedule", tag = "schedules", params(("name" = Name, Path)),
    responses((status = 200, body = RunAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn run(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
) -> Answer<RunAnswer> {
    let runs = act(&shared, &caller, &name, ScheduleAct::Run).await?;
    match runs {
        Controlled::Runs(runs) if runs.len() == 1 => Ok(Json(RunAnswer::of(&runs[0], None))),
        _ => Err(strange()),
    }
}

/// Skips the next run of a schedule
#[utoipa::path(
    post, path = "/v1/schedules/{name}/skip", operation_id = "skip_schedule", tag = "schedules", params(("name" = Name, Path)),
    responses((status = 200, body = ScheduleAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn skip(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
) -> Answer<ScheduleAnswer> {
    match act(&shared, &caller, &name, ScheduleAct::Skip).await? {
        Controlled::Schedule(Some(status)) => Ok(Json((&*status).into())),
        _ => Err(strange()),
    }
}

/// Past instants to run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BackfillRequest {
    /// The first instant that counts.
    from: InstantText,
    /// The first instant that does not count any more.
    to: InstantText,
    /// Whether only to say what would be done.
    dry_run: bool,
}

/// What a backfill did, or would.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Backfilled {
    dry_run: bool,
    instants: Vec<InstantText>,
    /// One for each instant; none for a dry run.
    runs: Vec<RunAnswer>,
}

/// Runs a schedule for past instants, at most a thousand
#[utoipa::path(
    post, path = "/v1/schedules/{name}/backfill", operation_id = "backfill_schedule", tag = "schedules", params(("name" = Name, Path)),
    request_body = BackfillRequest,
    responses((status = 200, body = Backfilled), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn backfill(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
    Read(request): Read<BackfillRequest>,
) -> Answer<Backfilled> {
    let status = find(&shared, &caller, &name)
        .await?
        .ok_or_else(|| missing(&name))?;
    let now = shared.engine.info().await?.now;
    let (from, to) = (request.from.0, request.to.0);
    let spec = status.schedule.spec.build()?;
    let instants = spec.past(from, to, now, BACKFILL_MAX)?;
    let listed = instants.iter().map(|at| (*at).into()).collect();
    let mut answer = Backfilled {
        dry_run: request.dry_run,
        instants: listed,
        runs: Vec::new(),
    };
    if request.dry_run {
        return Ok(Json(answer));
    }
    let backfill = ScheduleAct::Backfill {
        instants: instants.clone(),
    };
    let Controlled::Runs(runs) = act(&shared, &caller, &name, backfill).await? else {
        return Err(strange());
    };
    let runs = runs.iter().zip(instants);
    answer.runs = runs
        .map(|(receipt, at)| RunAnswer::of(receipt, Some(at)))
        .collect();
    Ok(Json(answer))
}

async fn act(shared: &Shared, caller: &Caller, name: &str, act: ScheduleAct) -> Result<Controlled> {
    let control = Control::Schedule {
        name: name.to_owned(),
        act,
    };
    let acted = service::control(shared, caller, control).await;
    acted.map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(name),
        _ => error.into(),
    })
}

async fn find(shared: &Shared, caller: &Caller, name: &str) -> Result<Option<ScheduleStatus>> {
    let read = Control::Schedule {
        name: name.to_owned(),
        act: ScheduleAct::Read,
    };
    match shared.engine.control(&caller.namespace, read).await? {
        Controlled::Schedule(status) => Ok(status.map(|status| *status)),
        _ => Err(strange()),
    }
}

async fn answer(shared: &Shared, caller: &Caller, name: &str) -> Answer<ScheduleAnswer> {
    let status = find(shared, caller, name)
        .await?
        .ok_or_else(|| missing(name))?;
    Ok(Json((&status).into()))
}

/// Writes what becomes of a schedule; without an expected version again, if another caller wrote in
/// between.
async fn change(
    shared: &Shared,
    caller: &Caller,
    name: &str,
    expected: Option<u64>,
    change: impl Fn(Option<&ScheduleStatus>) -> Result<Option<Schedule>>,
) -> Result<()> {
    let mut tries = 1;
    loop {
        let known = find(shared, caller, name).await?;
        let schedule = change(known.as_ref())?;
        let version = known.as_ref().map_or(0, |known| known.version);
        if known.map(|known| known.schedule) == schedule && expected.is_none() {
            return Ok(());
        }
        let write = Control::Write {
            name: format!("{SCHEDULE_PREFIX}{name}"),
            expected: expected.unwrap_or(version),
            value: schedule.map(Box::new).map(RecordValue::Schedule),
        };
        match service::control(shared, caller, write).await {
            Ok(_) => return Ok(()),
            Err(error)
                if error.kind() == ErrorKind::VersionConflict
                    && expected.is_none()
                    && tries < TRIES_MAX =>
            {
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn missing(name: &str) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "not_found",
        format!("there is no schedule {name}"),
    )
    .hint("GET /v1/schedules lists them")
}

fn strange() -> Problem {
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "the engine answered another call",
    )
}
