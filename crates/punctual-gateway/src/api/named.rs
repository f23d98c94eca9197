//! `/v1/limits`: named limits, which hold over all queues: how they stand, their settings, blocks.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use punctual::ErrorKind;
use punctual::engine::{Control, Controlled, LIMIT_PREFIX, RecordValue};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::queues::strange;
use crate::auth::{Administering, Allowed, Blocking, Reading};
use crate::http::{Caller, ErrorAnswer, Problem, Result};
use crate::job_json::SpanText;
use crate::json::named::{NamedLimitLine, NamedLimitRequest};
use crate::request::{Answer, Pairs, Read, if_match};
use crate::service;
use crate::shared::Shared;
use crate::words::{Count, Name};

/// Reads and writes after which a change that others disturb is given up.
const TRIES_MAX: usize = 10;
/// Limits of one answer, unless it is asked for fewer.
const PART: usize = 1_000;

/// Named limits, by name.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NamedLimitsAnswer {
    limits: Vec<NamedLimitLine>,
    /// The name to go on after; omitted at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists named limits with settings, active or waiting jobs, a block, or starts that count still
#[utoipa::path(
    get, path = "/v1/limits", operation_id = "list_limits", tag = "limits",
    params(("after" = Option<String>, Query, description = "only names after this one"), ("limit" = Option<u64>, Query, description = "how many, 1 to 1,000; 1,000 by default")),
    responses((status = 200, body = NamedLimitsAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    pairs: Pairs,
) -> Answer<NamedLimitsAnswer> {
    pairs.only(&["after", "limit"])?;
    let after = pairs.one("after")?.unwrap_or_default().to_owned();
    let limit = match pairs.one("limit")? {
        None => PART,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=PART).contains(limit))
            .ok_or_else(|| Problem::invalid("limit is out of range").hint("use 1 to 1,000"))?,
    };
    let read = Control::Limits { after, limit };
    let Controlled::Limits(found) = shared.engine.control(&caller.namespace, read).await? else {
        return Err(strange());
    };
    let is_full = found.len() == limit;
    let next = found.last().filter(|_| is_full);
    Ok(Json(NamedLimitsAnswer {
        next: next.map(|last| last.name.clone()),
        limits: found.iter().map(Into::into).collect(),
    }))
}

/// A named limit, how it stands, and the version of its own settings.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NamedLimitAnswer {
    #[serde(flatten)]
    limit: NamedLimitLine,
    /// For `If-Match`; 0 if it has no settings of its own.
    #[schema(value_type = Count)]
    version: u64,
}

/// Returns a named limit and how it stands
#[utoipa::path(
    get, path = "/v1/limits/{name}", operation_id = "get_limit", tag = "limits", params(("name" = Name, Path)),
    responses((status = 200, body = NamedLimitAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Path(name): Path<String>,
) -> Answer<NamedLimitAnswer> {
    answer(&shared, &caller, name).await
}

/// Sets a named limit, instead of the settings that it has
#[utoipa::path(
    put, path = "/v1/limits/{name}", operation_id = "put_limit", tag = "limits",
    params(("name" = Name, Path), ("If-Match" = Option<String>, Header, description = "the version that was read; 0 if there must be none")),
    request_body = NamedLimitRequest,
    responses((status = 200, body = NamedLimitAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn put(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Read(request): Read<NamedLimitRequest>,
) -> Answer<NamedLimitAnswer> {
    let value = RecordValue::Limit(request.settings()?);
    let expected = if_match(&headers)?;
    write(&shared, &caller, &name, expected, Some(value)).await?;
    answer(&shared, &caller, name).await
}

/// Takes the settings of a named limit off; with `If-Match` only if they still have that version
#[utoipa::path(
    delete, path = "/v1/limits/{name}", operation_id = "delete_limit", tag = "limits",
    params(("name" = Name, Path), ("If-Match" = Option<String>, Header, description = "the version that was read")),
    responses((status = 200, body = NamedLimitAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn delete(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer<NamedLimitAnswer> {
    let expected = if_match(&headers)?;
    write(&shared, &caller, &name, expected, None).await?;
    answer(&shared, &caller, name).await
}

/// For how long to block a limit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockLimitRequest {
    /// How long, up to 365d; `0s` ends a block.
    span: SpanText,
}

/// What a block of a limit changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BlockLimitAnswer {
    name: String,
    /// Whether that changed anything.
    changed: bool,
}

/// Starts no job with a named limit for a while; no attempt is counted
#[utoipa::path(
    post, path = "/v1/limits/{name}/block", operation_id = "block_limit", tag = "limits", params(("name" = Name, Path)),
    request_body = BlockLimitRequest,
    responses((status = 200, body = BlockLimitAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn block(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Blocking>,
    Path(name): Path<String>,
    Read(request): Read<BlockLimitRequest>,
) -> Answer<BlockLimitAnswer> {
    let block = Control::BlockLimit {
        name: name.clone(),
        span: request.span.0,
    };
    let Controlled::Done(changed) = service::control(&shared, &caller, block).await? else {
        return Err(strange());
    };
    Ok(Json(BlockLimitAnswer { name, changed }))
}

async fn answer(shared: &Shared, caller: &Caller, name: String) -> Answer<NamedLimitAnswer> {
    // Before the limit: a version that is older than its settings is refused, and a later one would
    // let a change of another caller be lost.
    let (_, version) = settings_of(shared, caller, format!("{LIMIT_PREFIX}{name}")).await?;
    let read = Control::Limit { name };
    match shared.engine.control(&caller.namespace, read).await? {
        Controlled::Limit(limit) => Ok(Json(NamedLimitAnswer {
            limit: (&*limit).into(),
            version,
        })),
        _ => Err(strange()),
    }
}

/// The settings of a limit, with the version of their record.
async fn settings_of(
    shared: &Shared,
    caller: &Caller,
    name: String,
) -> Result<(Option<RecordValue>, u64)> {
    let read = Control::Read { name };
    let Controlled::Record(known) = shared.engine.control(&caller.namespace, read).await? else {
        return Err(strange());
    };
    let version = known.as_ref().map_or(0, |known| known.version);
    Ok((known.map(|known| known.value), version))
}

/// Writes the settings, again if another caller wrote in between.
async fn write(
    shared: &Shared,
    caller: &Caller,
    limit: &str,
    wanted: Option<u64>,
    value: Option<RecordValue>,
) -> Result<()> {
    let name = format!("{LIMIT_PREFIX}{limit}");
    let mut tries = 1;
    loop {
        let (known, expected) = settings_of(shared, caller, name.clone()).await?;
        Control::expect_version(&name, wanted, expected)?;
        if known == value {
            return Ok(());
        }
        let write = Control::Write {
            name: name.clone(),
            expected,
            value: value.clone(),
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
