//! `/v1/queues/{queue}/shares`: the largest shares of a queue, and blocks of some.

use axum::Json;
use axum::extract::{Path, State};
use punctual::engine::{BlockedShare, Control, Controlled, StatsRequest, TOP_SHARES_MAX};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::list::{cursor_of, text_of_cursor};
use super::queues::strange;
use crate::auth::{Allowed, Blocking, Reading};
use crate::http::{ErrorAnswer, Problem};
use crate::job_json::{InstantText, SpanText};
use crate::json::limits::ShareLine;
use crate::request::{Answer, Pairs, Read};
use crate::service;
use crate::shared::Shared;
use crate::words::Name;

/// The largest shares of a queue.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SharesAnswer {
    queue: String,
    /// Those with the most ready jobs first, then those with the most active ones.
    shares: Vec<ShareLine>,
}

/// Returns the shares of a queue with the most ready jobs
#[utoipa::path(
    get, path = "/v1/queues/{queue}/shares", operation_id = "get_shares", tag = "queues",
    params(("queue" = Name, Path), ("top" = Option<u64>, Query, description = "how many, 1 to 100; 20 by default")),
    responses((status = 200, body = SharesAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Path(queue): Path<String>,
    pairs: Pairs,
) -> Answer<SharesAnswer> {
    pairs.only(&["top"])?;
    punctual::job::check_name("queue", &queue)?;
    let top = match pairs.one("top")? {
        None => 20,
        Some(text) => text
            .parse()
            .ok()
            .filter(|top| (1..=TOP_SHARES_MAX).contains(top))
            .ok_or_else(|| Problem::invalid("top is out of range").hint("use 1 to 100"))?,
    };
    let request = StatsRequest::default()
        .queues(vec![queue.clone()])
        .shares(top);
    let stats = shared.engine.stats(&caller.namespace, request).await?;
    let shares = stats.queues.first().map(|queue| &queue.shares);
    Ok(Json(SharesAnswer {
        queue,
        shares: shares.into_iter().flatten().map(Into::into).collect(),
    }))
}

/// A share of which no job starts.
#[derive(Debug, Serialize, ToSchema)]
struct BlockedShareLine {
    share: String,
    /// When time opens it; absent while it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<InstantText>,
}

/// Shares that are blocked or paused.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BlocksAnswer {
    queue: String,
    /// In order within an answer; on Redis one may come in two answers.
    blocks: Vec<BlockedShareLine>,
    /// Go on with it as `cursor`; omitted at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// Shares that one answer examines, unless it is asked for fewer.
const EXAMINED_MAX: usize = 1_000;

/// Returns the shares of a queue that are blocked or paused
#[utoipa::path(
    get, path = "/v1/queues/{queue}/blocks", operation_id = "get_blocks", tag = "queues",
    params(("queue" = Name, Path), ("cursor" = Option<String>, Query, description = "where the last answer ended"), ("limit" = Option<u64>, Query, description = "how many shares to examine, 1 to 1,000; 1,000 by default")),
    responses((status = 200, body = BlocksAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn blocks(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Path(queue): Path<String>,
    pairs: Pairs,
) -> Answer<BlocksAnswer> {
    pairs.only(&["cursor", "limit"])?;
    let limit = match pairs.one("limit")? {
        None => EXAMINED_MAX,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=EXAMINED_MAX).contains(limit))
            .ok_or_else(|| Problem::invalid("limit is out of range").hint("use 1 to 1,000"))?,
    };
    let cursor = pairs.one("cursor")?;
    let read = Control::BlockedShares {
        queue: queue.clone(),
        cursor: cursor.as_deref().map(cursor_of).transpose()?,
        limit,
    };
    let found = shared.engine.control(&caller.namespace, read).await?;
    let Controlled::BlockedShares { shares, cursor } = found else {
        return Err(strange());
    };
    let line = |one: BlockedShare| BlockedShareLine {
        share: one.share,
        until: one.until.map(Into::into),
    };
    Ok(Json(BlocksAnswer {
        queue,
        blocks: shares.into_iter().map(line).collect(),
        cursor: cursor.as_ref().map(text_of_cursor),
    }))
}

/// A share to block for a while.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockRequest {
    /// The share.
    #[schema(min_length = 1, max_length = 256)]
    share: String,
    /// How long, up to 365d; `0s` ends a block.
    span: SpanText,
}

/// What a block changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BlockAnswer {
    queue: String,
    share: String,
    /// Whether that changed anything.
    changed: bool,
}

/// Starts no job of a share for a while; no attempt is counted
#[utoipa::path(
    post, path = "/v1/queues/{queue}/block", operation_id = "block_share", tag = "queues", params(("queue" = Name, Path)),
    request_body = BlockRequest,
    responses((status = 200, body = BlockAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn block(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Blocking>,
    Path(queue): Path<String>,
    Read(request): Read<BlockRequest>,
) -> Answer<BlockAnswer> {
    let block = Control::BlockShare {
        queue: queue.clone(),
        share: request.share.clone(),
        span: request.span.0,
    };
    let Controlled::Done(changed) = service::control(&shared, &caller, block).await? else {
        return Err(strange());
    };
    Ok(Json(BlockAnswer {
        queue,
        share: request.share,
        changed,
    }))
}
