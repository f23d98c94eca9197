//! `GET /v1/dead-groups`: dead letters by queue, kind and error.

use axum::Json;
use axum::extract::State;
use punctual::job::check_name;
use punctual::queue::dead_letters::{DeadGroup, DeadGroups, DeadSearch, GROUPS_MAX, dead_groups};
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::{Allowed, Reading};
use crate::bounded::in_range;
use crate::decode::shown;
use crate::http::{ErrorAnswer, Problem};
use crate::request::{Answer, Pairs};
use crate::shared::Shared;

/// Dead letters that ended with the same error, but for numbers and ids in it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadGroup)]
struct DeadGroupLine {
    queue: String,
    kind: String,
    /// The first line of the error, `#` for each number and id; the reason of the death if there is
    /// none.
    error: String,
    /// Text that the error of each contains: the parameter `error` of `/v1/jobs` finds them by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<String>,
    jobs: usize,
    first: String,
    last: String,
    /// The id of the last of them.
    example: String,
}

impl From<DeadGroup> for DeadGroupLine {
    fn from(group: DeadGroup) -> Self {
        Self {
            queue: group.queue,
            kind: group.kind,
            error: group.error,
            search: group.search,
            jobs: group.jobs,
            first: group.first.to_string(),
            last: group.last.to_string(),
            example: group.example.to_string(),
        }
    }
}

/// Groups of dead letters, the largest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeadAnswer {
    groups: Vec<DeadGroupLine>,
    /// How many groups there are beyond those.
    others: usize,
    /// Dead letters that were examined, at most 10,000.
    examined: usize,
    /// Whether those were all.
    complete: bool,
    now: String,
}

impl From<DeadGroups> for DeadAnswer {
    fn from(found: DeadGroups) -> Self {
        Self {
            groups: found.groups.into_iter().map(Into::into).collect(),
            others: found.others,
            examined: found.examined,
            complete: found.complete,
            now: found.now.to_string(),
        }
    }
}

/// Groups dead letters by queue, kind and error
#[utoipa::path(
    get, path = "/v1/dead-groups", tag = "jobs",
    params(
        ("queue" = Option<Vec<String>>, Query, description = "only these; all if omitted"),
        ("kind" = Option<String>, Query),
        ("error" = Option<String>, Query, description = "text that the last error contains"),
        ("limit" = Option<u64>, Query, description = "groups, 50 by default", minimum = 1, maximum = 200)
    ),
    responses((status = 200, body = DeadAnswer), (status = 304, description = "the `ETag` of an earlier answer"), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn groups(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    pairs: Pairs,
) -> Answer<DeadAnswer> {
    pairs.only(&["queue", "kind", "error", "limit"])?;
    let limit = match pairs.one("limit")? {
        None => 50,
        Some(text) => text.parse().map_err(|_| {
            Problem::invalid(format!("limit is \"{}\"", shown(&text))).hint("use 1 to 200")
        })?,
    };
    let search = DeadSearch::default()
        .queues(pairs.all("queue"))
        .kind(pairs.one("kind")?)
        .error(pairs.one("error")?)
        .groups(in_range("limit", limit, GROUPS_MAX)?);
    search
        .kind
        .iter()
        .try_for_each(|kind| check_name("kind", kind))?;
    let found = dead_groups(&*shared.engine, &caller.namespace, &search).await?;
    Ok(Json(found.into()))
}
