//! `/v1/edits`: changes many jobs at once, or shows what would change.

use axum::Json;
use axum::extract::State;
use punctual::engine::{Edit, Select, Target};

use super::list::{cursor_of, text_of_cursor};
use crate::auth::{Allowed, Reading};
use crate::bounded::in_range;
use crate::http::Scope;
use crate::http::{ErrorAnswer, Problem};
use crate::json::edit::{EditAnswer, EditRequest};
use crate::request::{Answer, Read};
use crate::service;
use crate::shared::Shared;

/// Changes jobs by id, unique key or filter, or shows what would change
#[utoipa::path(
    post, path = "/v1/edits", tag = "jobs", request_body = EditRequest,
    responses((status = 200, body = EditAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn edit(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Read(request): Read<EditRequest>,
) -> Answer<EditAnswer> {
    let action = request.action.action()?;
    let is_filter = request.filter.is_some();
    let (select, dry_run) = match (request.ids, request.targets, request.filter) {
        (Some(ids), None, None) => {
            let ids = ids.iter().map(|id| Ok(Target::Id(id.parse()?)));
            let ids = ids.collect::<punctual::Result<_>>()?;
            (Select::Targets(ids), request.dry_run.unwrap_or(false))
        }
        (None, Some(targets), None) => {
            let targets = targets.into_iter().map(|target| target.target());
            let targets = targets.collect::<Result<_, Problem>>()?;
            (Select::Targets(targets), request.dry_run.unwrap_or(false))
        }
        (None, None, Some(filter)) => {
            let filter = filter.filter()?;
            if filter == Default::default() {
                return Err(
                    Problem::invalid("`filter` is empty and would match every job")
                        .hint("set a queue, state, kind, text or due"),
                );
            }
            let dry_run = request.dry_run.ok_or_else(|| {
                Problem::invalid("edit needs `dry_run` to be set when `filter` is used")
                    .hint("send \"dry_run\": true first, then false")
            })?;
            let select = Select::Filter {
                filter,
                cursor: request.cursor.as_deref().map(cursor_of).transpose()?,
                limit: in_range("limit", request.limit.unwrap_or(1_000), 1_000)?,
            };
            (select, dry_run)
        }
        _ => {
            return Err(Problem::invalid(
                "edit needs exactly one of `ids`, `targets` and `filter`",
            )
            .hint("send one of them"));
        }
    };
    if !dry_run {
        caller.need(Scope::Admin)?;
    }
    let edit = Edit::new(select, action).dry_run(dry_run);
    let edited = service::edit(&shared, &caller, edit).await?;
    let cursor = edited.cursor.as_ref().map(text_of_cursor);
    Ok(Json(EditAnswer::new(edited, dry_run, !is_filter, cursor)))
}
