//! `/v1/locks`: lists, takes and releases locks; `/v1/extensions` keeps them.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use punctual::engine::{Got, LeaseReport, Settle, SettleVerdict, Settlement, Target};
use punctual::lock::{LOCK_PREFIX, LOCK_UNIQUE, LockStatus};
use punctual::{ErrorKind, Outcome, Queue};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::{Allowed, Reading, Working};
use crate::http::{ErrorAnswer, Problem, Result};
use crate::job_json::{InstantText, SpanText};
use crate::json::lease::token_of;
use crate::request::{Answer, Read, wait_until};
use crate::shared::Shared;
use crate::words::{Count, Id, LeaseToken, Name};

/// A lock to take.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LockRequest {
    /// 1 to 123 characters of a name.
    name: String,
    /// How long the lock lasts unless it is extended; 10s by default.
    lease_duration: Option<SpanText>,
    /// How long to wait for it, at most 60s; not at all if omitted.
    wait: Option<String>,
}

/// A lock that was taken: extend it by its token.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LockAnswer {
    name: String,
    /// Larger than that of every holder before.
    #[schema(value_type = Count)]
    fence: u64,
    #[schema(value_type = LeaseToken)]
    token: String,
    /// The job that stands for the lock while it is held.
    #[schema(value_type = Id)]
    id: String,
}

/// Takes a lock, or waits for it
#[utoipa::path(
    post, path = "/v1/locks", operation_id = "take_lock", tag = "work", request_body = LockRequest,
    responses((status = 200, body = LockAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn take(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Working>,
    Read(request): Read<LockRequest>,
) -> Answer<LockAnswer> {
    let wait = match request.wait.as_deref() {
        None => Duration::ZERO,
        Some(wait) => {
            let now = shared.engine.info().await?.now;
            wait_until(now, Some(wait))? - now
        }
    };
    let queue = Queue::new(&shared.engine).namespace(caller.namespace);
    let mut lock = queue.lock(request.name).elsewhere();
    if let Some(lease) = request.lease_duration {
        lock = lock.lease(lease.0);
    }
    let taking = async {
        match wait.is_zero() {
            true => lock.try_now().await,
            false => lock.wait(wait).await,
        }
    };
    let taken = tokio::select! {
        biased;
        taken = taking => taken?,
        () = shared.ending() => return Err(Problem::shutting_down()),
    };
    let (name, fence) = (taken.name().to_owned(), taken.fence());
    let (id, token) = taken.detach();
    Ok(Json(LockAnswer {
        name,
        fence,
        token: token.to_string(),
        id: id.to_string(),
    }))
}

/// A lock that is held or waited for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lock)]
struct LockLine {
    name: String,
    /// None while nothing holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<HolderLine>,
    /// Those that tried in the last two seconds.
    waiters: Vec<WaiterLine>,
}

/// The holder of a lock.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LockHolder)]
struct HolderLine {
    /// The job that stands for the lock.
    #[schema(value_type = Id)]
    ticket: String,
    /// The job whose handler took it, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    job: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<InstantText>,
    /// When its lease ends, unless it is extended.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<InstantText>,
}

/// One that waits for a lock.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LockWaiter)]
struct WaiterLine {
    /// Its host; that of the gateway for one that waits over HTTP.
    host: String,
    /// The job whose handler waits, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    job: Option<String>,
    seen_at: InstantText,
}

impl From<LockStatus> for LockLine {
    fn from(lock: LockStatus) -> Self {
        let text = |id: punctual::JobId| id.to_string();
        let holder = lock.holder.map(|holder| HolderLine {
            ticket: text(holder.ticket),
            job: holder.job.map(text),
            since: holder.since.map(Into::into),
            until: holder.until.map(Into::into),
        });
        let waiters = lock.waiters.into_iter().map(|one| WaiterLine {
            host: one.host,
            job: one.job.map(text),
            seen_at: one.seen_at.into(),
        });
        Self {
            name: lock.name,
            holder,
            waiters: waiters.collect(),
        }
    }
}

/// Locks by name.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LocksAnswer {
    locks: Vec<LockLine>,
}

/// Lists the locks of this namespace that are held or waited for
#[utoipa::path(
    get, path = "/v1/locks", operation_id = "list_locks", tag = "work",
    responses((status = 200, body = LocksAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
) -> Answer<LocksAnswer> {
    let queue = Queue::new(&shared.engine).namespace(caller.namespace);
    let locks = queue.locks().await?;
    Ok(Json(LocksAnswer {
        locks: locks.into_iter().map(Into::into).collect(),
    }))
}

/// Whose lock to release.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseRequest {
    #[schema(value_type = LeaseToken)]
    token: String,
}

/// Releases a lock
#[utoipa::path(
    post, path = "/v1/locks/{name}/release", operation_id = "release_lock", tag = "work", params(("name" = Name, Path)),
    request_body = ReleaseRequest,
    responses((status = 204), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn release(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Working>,
    Path(name): Path<String>,
    Read(request): Read<ReleaseRequest>,
) -> Result<axum::http::StatusCode> {
    punctual::lock::check_name(&name)?;
    let token = token_of(&request.token)?;
    let ticket = Target::Unique {
        queue: format!("{LOCK_PREFIX}{name}"),
        key: LOCK_UNIQUE.into(),
    };
    let got = shared
        .engine
        .get(&caller.namespace, vec![ticket], false)
        .await?;
    let Some(Some(Got::Job(ticket, _))) = got.into_iter().next() else {
        return Err(lost(&name));
    };
    let settlement = Settlement::new(ticket.id, ticket.attempt, Outcome::Completed);
    let leases = vec![LeaseReport::new(token, vec![settlement])];
    let settled = shared
        .engine
        .settle(&caller.namespace, Settle::new(leases))
        .await?;
    match settled
        .verdicts
        .first()
        .and_then(|of_lease| of_lease.first())
    {
        Some(SettleVerdict::LeaseLost) | None => Err(lost(&name)),
        Some(_) => Ok(axum::http::StatusCode::NO_CONTENT),
    }
}

fn lost(name: &str) -> Problem {
    let message = "lock is not held under that token: its lease ended, or it was released";
    punctual::Error::new(ErrorKind::LeaseLost, message)
        .with("lock", name)
        .into()
}
