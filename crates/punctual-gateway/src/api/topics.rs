//! `/v1/subscriptions` and `/v1/publish`: who receives what is published, and publishing.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use punctual::engine::{Control, Controlled, RecordValue};
use punctual::topic::{Matcher, Subscriptions, TOPICS};
use punctual::{ErrorKind, Queue};
use serde::Serialize;
use utoipa::ToSchema;

use super::queues::strange;
use crate::auth::{Administering, Allowed, Enqueuing, Reading};
use crate::http::{Caller, ErrorAnswer, Result};
use crate::json::topic::{
    MatchAnswer, MessageLine, PublishedAnswer, SubscriptionAnswer, SubscriptionLine, message_of,
};
use crate::request::{Answer, Read, if_match};
use crate::service;
use crate::shared::Shared;
use crate::trace::RequestTrace;
use crate::words::Count;

/// Reads and writes after which a change that others disturb is given up.
const TRIES_MAX: usize = 10;

/// The subscriptions of a namespace.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SubscriptionList {
    /// In order of their names.
    subscriptions: Vec<SubscriptionAnswer>,
    /// Of all of them together, for `If-Match`; 0 if there never were any.
    #[schema(value_type = Count)]
    version: u64,
}

/// Lists all subscriptions
#[utoipa::path(
    get, path = "/v1/subscriptions", operation_id = "list_subscriptions", tag = "topics",
    responses((status = 200, body = SubscriptionList), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
) -> Answer<SubscriptionList> {
    let known = known(&shared, &caller).await?;
    Ok(Json(SubscriptionList {
        subscriptions: known.subscriptions().iter().map(Into::into).collect(),
        version: known.version(),
    }))
}

/// Subscribes a queue to subjects, in the place of a subscription of the same name
#[utoipa::path(
    put, path = "/v1/subscriptions/{name}", operation_id = "put_subscription", tag = "topics",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "the version of all subscriptions that was read")),
    request_body = SubscriptionLine,
    responses((status = 200, body = SubscriptionAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn put(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Read(line): Read<SubscriptionLine>,
) -> Answer<SubscriptionAnswer> {
    let subscription = line.named(&name)?;
    subscription.check()?;
    let expected = if_match(&headers)?;
    change(&shared, &caller, expected, |all| {
        all.put(subscription.clone())
    })
    .await?;
    Ok(Json((&subscription).into()))
}

/// Whether a subscription was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Unsubscribed {
    name: String,
    removed: bool,
}

/// Removes a subscription; what lies in its queue stays
#[utoipa::path(
    delete, path = "/v1/subscriptions/{name}", operation_id = "delete_subscription", tag = "topics",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "the version of all subscriptions that was read")),
    responses((status = 200, body = Unsubscribed), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn delete(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Administering>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer<Unsubscribed> {
    let expected = if_match(&headers)?;
    let removed = change(&shared, &caller, expected, |all| all.remove(&name)).await?;
    Ok(Json(Unsubscribed { name, removed }))
}

/// Publishes a message: each subscription that matches has a copy enqueued
#[utoipa::path(
    post, path = "/v1/publish", operation_id = "publish", tag = "topics", request_body = MessageLine,
    responses((status = 200, body = PublishedAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn publish(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Enqueuing>,
    headers: HeaderMap,
    Read(line): Read<MessageLine>,
) -> Answer<PublishedAnswer> {
    let trace = RequestTrace::of(&headers, &shared).await;
    let (subject, mut job) = message_of(line, &shared.guard)?;
    trace.iter().for_each(|trace| trace.give(&mut job));
    let published = queue(&shared, &caller).publish_job(subject, job).await?;
    Ok(Json((&published).into()))
}

/// Returns who would receive a message, and why others would not; nothing is stored
#[utoipa::path(
    post, path = "/v1/publish/match", operation_id = "match_message", tag = "topics", request_body = MessageLine,
    responses((status = 200, body = MatchAnswer), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn matches(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Read(line): Read<MessageLine>,
) -> Answer<MatchAnswer> {
    let (subject, job) = message_of(line, &shared.guard)?;
    let topics = queue(&shared, &caller).topics();
    let lines = topics.explain(subject, job).await?;
    Ok(Json(lines.as_slice().into()))
}

fn queue(shared: &Shared, caller: &Caller) -> Queue {
    Queue::new(&shared.engine).namespace(caller.namespace.clone())
}

/// The subscriptions as they are now.
async fn known(shared: &Shared, caller: &Caller) -> Result<Matcher> {
    let name = TOPICS.to_owned();
    let read = Control::Read { name };
    match shared.engine.control(&caller.namespace, read).await? {
        Controlled::Record(record) => Ok(Matcher::of(record.as_ref())?),
        _ => Err(strange()),
    }
}

/// Reads the subscriptions and writes what becomes of them, again if another client wrote in
/// between; whether anything changed.
async fn change(
    shared: &Shared,
    caller: &Caller,
    expected: Option<u64>,
    change: impl Fn(&mut Subscriptions) -> bool,
) -> Result<bool> {
    for left in (0..TRIES_MAX).rev() {
        let known = known(shared, caller).await?;
        Control::expect_version(TOPICS, expected, known.version())?;
        let mut all = Subscriptions::default();
        all.subscriptions = known.subscriptions().to_vec();
        if !change(&mut all) {
            return Ok(false);
        }
        let write = Control::Write {
            name: TOPICS.to_owned(),
            expected: known.version(),
            value: Some(RecordValue::Opaque(all.write()?)),
        };
        match service::control(shared, caller, write).await {
            // With a version that was asked for, the next turn refuses.
            Err(error) if error.kind() == ErrorKind::VersionConflict && left > 0 => {}
            written => return written.map(|_| true).map_err(Into::into),
        }
    }
    Err(strange())
}
