//! `/v1/jobs`: enqueue, read, change one.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use punctual::engine::{
    Action, Control, Controlled, Edit, EditVerdict, EnqueueVerdict, Select, Target, WaitFor,
};
use punctual::{JobId, NewJob};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::IntoParams;

use crate::auth::{Administering, Allowed, Asking, Enqueuing};
use crate::bounded::Bounded;
use crate::decode;
use crate::http::{Caller, Scope};
use crate::http::{ErrorAnswer, Problem, Result};
use crate::job_json::JobJson;
use crate::json::edit::{ClearRequest, Cleared, OneEdited, Patch, SignalRequest, state_of};
use crate::json::job::{JobAnswer, ManyEnqueued, OneEnqueued};
use crate::json::new_job::new_job;
use crate::request::{Answer, Asked, Read, json_bytes, parse, wait_until};
use crate::service;
use crate::shared::Shared;
use crate::trace::RequestTrace;
use crate::words::{Id, Name};

/// Enqueues one job, or an array of jobs
#[utoipa::path(
    post, path = "/v1/jobs", tag = "jobs", request_body = JobJson,
    responses(
        (status = 200, body = OneEnqueued), (status = 201, body = OneEnqueued),
        (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer)
    )
)]
pub(super) async fn enqueue(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Enqueuing>,
    request: Request,
) -> Result<Response> {
    let trace = RequestTrace::of(request.headers(), &shared).await;
    let bytes = json_bytes(&shared, request).await?;
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let new = |line: JobJson| {
        let mut job = new_job(line, &shared.guard)?;
        trace.iter().for_each(|trace| trace.give(&mut job));
        Ok(job)
    };
    if first != Some(&b'[') {
        let job = new(parse(&bytes)?)?;
        shared.notify(&caller.namespace, &job);
        return enqueue_one(&shared, &caller, job).await;
    }
    let lines: Bounded<&RawValue> = decode::read(&bytes)?;
    let jobs = lines.0.iter().enumerate().map(|(index, line)| {
        let job = parse(line.get().as_bytes()).and_then(new);
        job.map_err(|problem| problem.index(index))
    });
    let jobs = jobs.collect::<Result<Vec<_>>>()?;
    jobs.iter()
        .for_each(|job| shared.notify(&caller.namespace, job));
    let enqueued = shared.engine.enqueue(&caller.namespace, jobs).await?;
    let answer = ManyEnqueued {
        receipts: enqueued.receipts.iter().map(Into::into).collect(),
        durability: enqueued.durability.to_string(),
        now: enqueued.now.to_string(),
    };
    Ok(Json(answer).into_response())
}

async fn enqueue_one(shared: &Shared, caller: &Caller, job: NewJob) -> Result<Response> {
    let (queue, share, limits) = (job.queue.clone(), job.share.clone(), job.limits.clone());
    let enqueued = shared.engine.enqueue(&caller.namespace, vec![job]).await?;
    let Some(receipt) = enqueued.receipts.first() else {
        return Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the engine returned no receipt",
        ));
    };
    let status = match receipt.verdict {
        EnqueueVerdict::Created | EnqueueVerdict::Replaced(_) => StatusCode::CREATED,
        verdict if verdict.is_accepted() => StatusCode::OK,
        EnqueueVerdict::ShareFull(most) => return Err(share_full(&queue, share.as_deref(), most)),
        verdict => return Err(refused(verdict, &limits)),
    };
    let answer = OneEnqueued {
        receipt: receipt.into(),
        durability: enqueued.durability.to_string(),
        now: enqueued.now.to_string(),
    };
    Ok((status, Json(answer)).into_response())
}

fn share_full(queue: &str, share: Option<&str>, most: u64) -> Problem {
    let share = share.unwrap_or_default();
    let message = format!(
        "share \"{share}\" has the {most} pending jobs that each share of queue \"{queue}\" may \
         have; the job is not stored"
    );
    Problem::new(StatusCode::INSUFFICIENT_STORAGE, "share_full", message)
        .hint("wait for workers, or raise max_pending of the queue's shares")
}

fn refused(verdict: EnqueueVerdict, limits: &[String]) -> Problem {
    let (status, message, hint) = match verdict {
        EnqueueVerdict::IdConflict => (
            StatusCode::CONFLICT,
            "the id belongs to a job with other content".into(),
            "use another id",
        ),
        EnqueueVerdict::UniqueActive(holder) => (
            StatusCode::CONFLICT,
            format!("{holder} holds the unique key and is running"),
            "send it again once that one has ended",
        ),
        EnqueueVerdict::Full => (
            StatusCode::INSUFFICIENT_STORAGE,
            "the queue has reached max_pending; the job is not stored".into(),
            "wait for workers, or raise max_pending of the queue",
        ),
        EnqueueVerdict::ParentUnknown(job) => (
            StatusCode::CONFLICT,
            format!("the job waits for {job}, which is not known"),
            "send that one first",
        ),
        EnqueueVerdict::LimitFull(nth) => (
            StatusCode::CONFLICT,
            format!(
                "as many jobs with the limit {} are active as may be, and it refuses more",
                limits.get(usize::from(nth)).map_or("", String::as_str)
            ),
            "send it again once one of them has ended",
        ),
        _ => (
            StatusCode::CONFLICT,
            "the job is not stored".into(),
            "see the error code",
        ),
    };
    Problem::new(status, verdict.name(), message).hint(hint)
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct GetQuery {
    /// Whether to explain why it has not run.
    explain: bool,
    /// Answer once it is settled, or after that span, at most 60s.
    wait: Option<String>,
}

/// Answers one job
#[utoipa::path(
    get, path = "/v1/jobs/{id}", tag = "jobs", params(("id" = Id, Path), GetQuery),
    responses((status = 200, body = JobAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Asking>,
    Path(id): Path<String>,
    Asked(query): Asked<GetQuery>,
) -> Answer<JobAnswer> {
    get_target(
        &shared,
        &caller,
        id_of(&id)?.into(),
        query.explain,
        query.wait.as_deref(),
    )
    .await
}

fn id_of(text: &str) -> Result<JobId> {
    let hint = "send the id of its receipt, or ask /v1/jobs/by-unique?queue=QUEUE&key=KEY";
    text.parse::<JobId>()
        .map_err(|error| Problem::from(error).hint(hint))
}

async fn get_target(
    shared: &Shared,
    caller: &Caller,
    target: Target,
    explain: bool,
    wait: Option<&str>,
) -> Answer<JobAnswer> {
    let engine = &shared.engine;
    let get = async |target: Target| -> Result<_> {
        let got = engine.get(&caller.namespace, vec![target], explain).await?;
        got.into_iter()
            .flatten()
            .next()
            .ok_or_else(Problem::not_found)
    };
    let mut got = get(target).await?;
    let mut now = engine.info().await?.now;
    if let (Some(wait), false) = (wait, got.state().is_settled()) {
        let until = wait_until(now, Some(wait))?;
        if let Some(id) = got.job().map(|job| job.id) {
            let settled = engine.wait(&caller.namespace, WaitFor::Settled(vec![id]), until);
            // As it stands is an answer too, when the gateway ends.
            tokio::select! {
                waited = settled => { waited?; }
                () = shared.ending() => {}
            }
            got = get(id.into()).await?;
            now = engine.info().await?.now;
        }
    }
    let answer = JobAnswer::new(got, now).ok_or_else(Problem::not_found)?;
    Ok(Json(match caller.allows(Scope::Read) {
        true => answer,
        false => answer.without_payload(),
    }))
}

/// Changes one job
#[utoipa::path(
    patch, path = "/v1/jobs/{id}", tag = "jobs", params(("id" = Id, Path)), request_body = Patch,
    responses((status = 200, body = OneEdited), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn patch(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(id): Path<String>,
    Read(patch): Read<Patch>,
) -> Answer<OneEdited> {
    edit_target(&shared, &caller, id_of(&id)?.into(), patch.action()?).await
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct DeleteQuery {
    /// Whether to remove a settled one and its tombstone, instead of cancelling.
    forget: bool,
}

impl DeleteQuery {
    fn action(forget: bool) -> Action {
        if forget {
            Action::Delete
        } else {
            Action::Cancel
        }
    }
}

/// Cancels a job, or forgets a settled one
#[utoipa::path(
    delete, path = "/v1/jobs/{id}", tag = "jobs", params(("id" = Id, Path), DeleteQuery),
    responses((status = 200, body = OneEdited), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn delete(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(id): Path<String>,
    Asked(query): Asked<DeleteQuery>,
) -> Answer<OneEdited> {
    let action = DeleteQuery::action(query.forget);
    edit_target(&shared, &caller, id_of(&id)?.into(), action).await
}

/// Signals a job that waits, or will
#[utoipa::path(
    post, path = "/v1/signals", tag = "jobs", request_body = SignalRequest,
    responses((status = 200, body = OneEdited), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn signal(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Read(request): Read<SignalRequest>,
) -> Answer<OneEdited> {
    let (target, step) = (request.target()?, request.step());
    let signalled = edit_target(&shared, &caller, target, request.action()?).await;
    signalled.map_err(|problem| match step {
        Some((flow, step)) if problem.code() == "not_found" => problem
            .saying(format!("flow {flow} has no step {step} that is kept"))
            .hint(format!("GET /v1/flows/{flow}/steps lists its steps")),
        _ => problem,
    })
}

/// Clears a name that a held job waits for, or will
#[utoipa::path(
    post, path = "/v1/clears", tag = "jobs", request_body = ClearRequest,
    responses((status = 200, body = Cleared), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn clear(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Read(request): Read<ClearRequest>,
) -> Answer<Cleared> {
    let (id, name) = request.read()?;
    let control = Control::clear(id, name.clone());
    match service::control(&shared, &caller, control).await? {
        Controlled::Guarded { .. } => Ok(Json(Cleared {
            id: id.to_string(),
            name,
        })),
        _ => Err(Problem::new(
            StatusCode::CONFLICT,
            "conflict",
            "record `punctual/no-record` is there and hinders every clear",
        )
        .hint("remove that record")),
    }
}

async fn edit_target(
    shared: &Shared,
    caller: &Caller,
    target: Target,
    action: Action,
) -> Answer<OneEdited> {
    let edit = Edit::new(Select::Targets(vec![target]), action);
    let edited = service::edit(shared, caller, edit).await?;
    let now = edited.now;
    let unknown = || Problem::not_found().at(now);
    let (id, verdict) = *edited.verdicts.first().ok_or_else(unknown)?;
    let conflict = |message: &str, hint: &str| {
        let problem = Problem::new(StatusCode::CONFLICT, verdict.name(), message);
        Err(problem.hint(hint).at(now))
    };
    match verdict {
        EditVerdict::Done(_) | EditVerdict::CancelRequested | EditVerdict::AlreadyCancelled => {
            Ok(Json(OneEdited {
                id: id.map(|id| id.to_string()).unwrap_or_default(),
                verdict: verdict.name(),
                state: state_of(verdict),
                now: edited.now.to_string(),
            }))
        }
        EditVerdict::JobActive => conflict(
            "the job is running",
            "until it settles it accepts only cancel",
        ),
        EditVerdict::WrongState(state) => {
            let message = format!("a job that is {state} does not accept this change");
            conflict(&message, what_can_be_done(state))
        }
        EditVerdict::UniqueHeld(holder) => {
            let message = format!("{holder} holds the job's unique key now");
            conflict(&message, "cancel that one, or wait until it is settled")
        }
        EditVerdict::WaitEnded => conflict(
            "a wait of the job for that name has ended before",
            "an earlier signal ended it, this one if you send it again, or its limit passed",
        ),
        EditVerdict::SignalsFull => conflict(
            "the job has 64 signals, or 64 KiB of them",
            "signal a job that it enqueues",
        ),
        _ => Err(unknown()),
    }
}

/// What goes in a state where something else did not.
fn what_can_be_done(state: punctual::JobState) -> &'static str {
    use punctual::JobState::{Dead, Held, Ready, Scheduled};
    match state {
        Held | Scheduled | Ready => {
            "cancel, reschedule, reprioritise, update or run it now; a follower runs once its holder is settled"
        }
        Dead => "redrive it, or delete it with DELETE and forget=true",
        _ => {
            "redrive it while it is kept, or delete it with DELETE and forget=true and enqueue a new one"
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UniqueQuery {
    #[param(value_type = Name)]
    queue: String,
    key: String,
    #[serde(default)]
    explain: bool,
    wait: Option<String>,
    #[serde(default)]
    forget: bool,
}

impl UniqueQuery {
    fn target(&self) -> Target {
        Target::Unique {
            queue: self.queue.clone(),
            key: self.key.clone(),
        }
    }
}

/// Answers the holder of a unique key
#[utoipa::path(
    get, path = "/v1/jobs/by-unique", tag = "jobs", params(UniqueQuery),
    responses((status = 200, body = JobAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn get_by_unique(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Asking>,
    Asked(query): Asked<UniqueQuery>,
) -> Answer<JobAnswer> {
    get_target(
        &shared,
        &caller,
        query.target(),
        query.explain,
        query.wait.as_deref(),
    )
    .await
}

/// Changes the holder of a unique key
#[utoipa::path(
    patch, path = "/v1/jobs/by-unique", tag = "jobs", params(UniqueQuery), request_body = Patch,
    responses((status = 200, body = OneEdited), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn patch_by_unique(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Asked(query): Asked<UniqueQuery>,
    Read(patch): Read<Patch>,
) -> Answer<OneEdited> {
    edit_target(&shared, &caller, query.target(), patch.action()?).await
}

/// Cancels the holder of a unique key, or forgets it
#[utoipa::path(
    delete, path = "/v1/jobs/by-unique", tag = "jobs", params(UniqueQuery),
    responses((status = 200, body = OneEdited), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn delete_by_unique(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Asked(query): Asked<UniqueQuery>,
) -> Answer<OneEdited> {
    let action = DeleteQuery::action(query.forget);
    edit_target(&shared, &caller, query.target(), action).await
}
