//! The routes, and their description for machines.

mod bulk;
mod claims;
mod dead;
mod delete;
mod edits;
mod flows;
mod jobs;
mod kinds;
mod limits;
mod list;
mod locks;
mod metrics;
mod named;
mod others;
mod preview;
mod queues;
mod relays;
mod schedules;
mod shares;
mod stats;
mod surplus;
mod topics;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use utoipa::OpenApi as _;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{OpenApi, RefOr, Schema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::surplus::Routes;
use crate::http::{ErrorAnswer, Problem};
use crate::shared::Shared;
use crate::{etag, events, guard, page};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Punctual",
        description = "Durable delayed jobs, on time. docs/http-api.md describes every answer."
    ),
    components(schemas(ErrorAnswer)),
    security(("token" = [])),
    tags(
        (name = "jobs", description = "Enqueue, read and change jobs"),
        (name = "work", description = "Claim, extend, settle"),
        (name = "queues", description = "Counts, pause, purge, delete, settings"),
        (name = "schedules", description = "Jobs at given times"),
        (name = "flows", description = "Jobs that wait for each other"),
        (name = "topics", description = "One message to several queues"),
        (name = "gateway", description = "The gateway itself")
    )
)]
struct Description;

/// What no derive can say: the token that every route but one wants; and that answers have a job's
/// fields beside others, although a job that is sent may have no others.
fn complete(mut description: OpenApi) -> OpenApi {
    let components = description.components.get_or_insert_default();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme("token", bearer);
    if let Some(RefOr::T(Schema::Object(job))) = components.schemas.get_mut("Job") {
        job.additional_properties = None;
    }
    description
}

/// Every route that is described; the others are the page and what is for ourselves.
fn described() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(jobs::enqueue, list::list))
        .routes(routes!(
            jobs::get_by_unique,
            jobs::patch_by_unique,
            jobs::delete_by_unique
        ))
        .routes(routes!(jobs::get, jobs::patch, jobs::delete))
        .routes(routes!(bulk::bulk))
        .routes(routes!(dead::groups))
        .routes(routes!(edits::edit))
        .routes(routes!(jobs::signal))
        .routes(routes!(jobs::clear))
        .routes(routes!(claims::claim))
        .routes(routes!(claims::extend))
        .routes(routes!(claims::settle))
        .routes(routes!(locks::take, locks::list))
        .routes(routes!(locks::release))
        .routes(routes!(queues::list))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(queues::purge))
        .routes(routes!(delete::delete))
        .routes(routes!(queues::settings, queues::set_settings))
        .routes(routes!(limits::get, limits::put, limits::delete))
        .routes(routes!(shares::get))
        .routes(routes!(shares::blocks))
        .routes(routes!(shares::block))
        .routes(routes!(named::list))
        .routes(routes!(named::get, named::put, named::delete))
        .routes(routes!(named::block))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::get, schedules::put, schedules::delete))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(schedules::run))
        .routes(routes!(schedules::skip))
        .routes(routes!(schedules::backfill))
        .routes(routes!(preview::preview))
        .routes(routes!(flows::send, flows::list))
        .routes(routes!(flows::get))
        .routes(routes!(flows::steps, flows::grow))
        .routes(routes!(flows::graph))
        .routes(routes!(flows::seal))
        .routes(routes!(flows::cancel))
        .routes(routes!(flows::retry))
        .routes(routes!(flows::recount))
        .routes(routes!(topics::list))
        .routes(routes!(topics::put, topics::delete))
        .routes(routes!(topics::publish))
        .routes(routes!(topics::matches))
        .routes(routes!(kinds::kinds))
        .routes(routes!(stats::stats))
        .routes(routes!(relays::relays))
        .routes(routes!(others::info))
        .routes(routes!(others::audit_record))
        .routes(routes!(others::healthz))
        .routes(routes!(others::readyz))
        .routes(routes!(metrics::metrics))
        .routes(routes!(events::events))
}

/// The description of every route, as `/openapi.json` answers it.
pub fn open_api() -> OpenApi {
    complete(described().into_openapi())
}

pub(crate) fn router(shared: &Shared) -> Router {
    let (router, description) = described().split_for_parts();
    let description = complete(description);
    let routes = Routes::of(&description);
    let description = bytes::Bytes::from(description.to_json().unwrap_or_default());
    let describe =
        axum::routing::get(
            move || async move { ([("content-type", "application/json")], description) },
        );
    let mut router = router
        .route("/openapi.json", describe)
        .route("/v1/calls", axum::routing::post(others::calls))
        .merge(page::routes());
    if shared.clock.is_some() {
        router = router.route("/v1/test-clock", axum::routing::post(others::set_clock));
    }
    router
        .fallback(async || nowhere())
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "this route does not support the method",
            )
            .hint("use a method from the Allow header; GET /openapi.json lists all routes")
        })
        .layer(from_fn_with_state(routes, surplus::refuse))
        .layer(from_fn(etag::unless_known))
        .layer(from_fn_with_state(shared.clone(), guard::guard))
        .layer(compressed())
        .with_state(shared.clone())
}

/// Files of the page and long lists, for clients that accept gzip. What is streamed line by line is
/// not held up for it, nor what is for `punctual-client`.
fn compressed() -> CompressionLayer<impl Predicate> {
    let worth_it = SizeAbove::new(1_024)
        .and(NotForContentType::new(bulk::NDJSON))
        .and(NotForContentType::new(punctual::wire::CONTENT_TYPE));
    CompressionLayer::new().compress_when(worth_it)
}

/// No such route.
pub(crate) fn nowhere() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no such route")
        .hint("GET /openapi.json lists them")
}

#[cfg(test)]
mod tests;
