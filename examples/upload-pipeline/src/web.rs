//! The routes: the page, files, and a WebSocket that follows a file.

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use punctual::engine::Got;
use punctual::time::{millis, pause, seconds, within};
use punctual::{JobId, JobState};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access;
use crate::app::{App, QUEUE_ANSWERS, micros_of, now};
use crate::db::{Again, File};
use crate::refusal::Refusal;
use crate::{upload, view};

const PAGE: &str = include_str!("page.html");
/// Nothing but what the page itself brings, and this server.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
     img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// A view waits that long for what the queue knows of a job.
const JOB_ANSWERS: std::time::Duration = seconds(1);
/// Rows of one answer.
const ROWS_MAX: i64 = 100;

pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/about", get(about))
        .route("/healthz", get(healthz))
        .route("/upload", post(upload::post))
        .route("/files/{id}", get(file).delete(delete_file))
        .route("/files/{id}/result", delete(delete_result))
        .route("/files/{id}/rows", get(rows))
        .route("/files/{id}/thumbnail", get(thumbnail))
        .route("/ws", get(follow))
        .fallback(async || Refusal::no_such_address())
        .method_not_allowed_fallback(async || Refusal::wrong_method())
        .with_state(app)
}

/// The id in a path; what is none names nothing, in the cache neither.
struct Id(String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(id) = path.map_err(|_| Refusal::no_such_file())?;
        is_id(&id)?;
        Ok(Self(id))
    }
}

async fn page() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, PAGE)
}

/// What the page says of this process.
async fn about(State(app): State<App>, headers: HeaderMap) -> Result<Json<Value>, Refusal> {
    access::is_from_here(&app, &headers)?;
    Ok(Json(json!({
        "pid": std::process::id(),
        "has_worker": app.settings.has_worker,
        "needs_token": app.settings.token.is_some(),
        "file_bytes_max": app.settings.file_bytes_max,
        "keep_s": app.settings.keep.as_secs(),
    })))
}

async fn healthz(State(app): State<App>) -> Result<Json<Value>, Refusal> {
    app.database.bytes_kept().await?;
    match within(QUEUE_ANSWERS, app.engine.info()).await {
        Some(answer) => drop(answer?),
        None => return Err(Refusal::queue_is_away("no answer")),
    }
    Ok(Json(json!({"ok": true})))
}

/// A file, from the cache if it is there.
async fn file(State(app): State<App>, Id(id): Id, headers: HeaderMap) -> Result<Response, Refusal> {
    access::is_from_here(&app, &headers)?;
    let answer = |hit: &'static str, text: String| {
        let cache = HeaderName::from_static("x-cache");
        let headers = [(header::CONTENT_TYPE, "application/json"), (cache, hit)];
        (headers, text).into_response()
    };
    if let Some(text) = app.cache.get(&id, &app.database).await {
        return Ok(answer("hit", text));
    }
    let file = found(&app, &id).await?;
    let view = read(&app, &file).await;
    if view["state"] == "processed" {
        renew(&app, &file).await?;
    }
    Ok(answer("miss", view.to_string()))
}

async fn found(app: &App, id: &str) -> Result<File, Refusal> {
    is_id(id)?;
    app.database
        .file(id)
        .await?
        .ok_or_else(Refusal::no_such_file)
}

/// A file whose record has not ended: its rows and its thumbnail end with it, and not only once a
/// job has removed them.
async fn lasting(app: &App, id: &str) -> Result<File, Refusal> {
    let file = found(app, id).await?;
    match view::state(&file) {
        "expired" => Err(Refusal::expired()),
        _ => Ok(file),
    }
}

/// The view of a file. A job that is dead, or was cancelled, ends its file.
async fn read(app: &App, file: &File) -> Value {
    let got = job_of(app, file).await;
    let past = got.as_ref().and_then(Got::job).map(view::past);
    let mut view = view::of(file, &past.unwrap_or_default());
    if let Some(ended) = got.filter(|got| is_end(file, got)) {
        view["state"] = json!("failed");
        view["reason"] = json!(format!("its job is {}; send the file again", ended.state()));
    }
    view
}

fn is_id(text: &str) -> Result<(), Refusal> {
    match uuid::Uuid::try_parse(text) {
        Ok(id) if id.to_string() == text => Ok(()),
        _ => Err(Refusal::no_such_file()),
    }
}

/// The job of a file. The record says all that matters, so a queue that is away answers nothing.
async fn job_of(app: &App, file: &File) -> Option<Got> {
    let id = file.job.parse::<JobId>().ok()?;
    let got = within(JOB_ANSWERS, app.queue.get(id)).await?;
    got.ok().flatten()
}

/// Whether the file waits for a job that will bring no result.
fn is_end(file: &File, got: &Got) -> bool {
    let waits = matches!(view::state(file), "queued" | "processing");
    waits && matches!(got.state(), JobState::Dead | JobState::Cancelled)
}

pub(crate) async fn is_dead(app: &App, file: &File) -> bool {
    let got = job_of(app, file).await;
    got.is_some_and(|got| is_end(file, &got))
}

/// A result that was not cached is, unless its time is over: then it is processed again, and the
/// present one is answered meanwhile.
async fn renew(app: &App, file: &File) -> Result<(), Refusal> {
    let age = now() - file.ended.unwrap_or_default();
    let left = micros_of(app.settings.cache_for) - age;
    let left = left.min(file.expires - now());
    if left > 0 {
        let span = std::time::Duration::from_micros(left.unsigned_abs());
        app.cache
            .put(file, &view::of(file, &[]).to_string(), span)
            .await;
    } else if file.done == file.generation
        && app
            .database
            .ask_again(&file.id, file.generation, Again::ResultIsOld)
            .await?
    {
        app.committed.notify_one();
    }
    Ok(())
}

/// Ends a record before its time. Its rows and its bytes go with a job, as if it had expired.
async fn delete_file(
    State(app): State<App>,
    Id(id): Id,
    headers: HeaderMap,
) -> Result<StatusCode, Refusal> {
    access::may_write(&app, &headers)?;
    let file = found(&app, &id).await?;
    app.database.delete(&file.id).await?;
    app.cache.remove(&file.id).await;
    app.committed.notify_one();
    app.announce(&file.id);
    Ok(StatusCode::NO_CONTENT)
}

/// Removes a result; the file is processed again.
async fn delete_result(
    State(app): State<App>,
    Id(id): Id,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    access::may_write(&app, &headers)?;
    let file = found(&app, &id).await?;
    let is_asked = app
        .database
        .ask_again(&file.id, file.generation, Again::ResultIsDropped)
        .await?;
    if !is_asked {
        let message = "there is no result to remove: the file is being processed, or has expired";
        return Err(Refusal::new(StatusCode::CONFLICT, "no_result", message));
    }
    app.cache.remove(&file.id).await;
    app.committed.notify_one();
    app.announce(&file.id);
    Ok((
        StatusCode::ACCEPTED,
        Json(json!({"id": file.id, "state": "queued"})),
    ))
}

#[derive(Debug, Deserialize)]
struct From {
    #[serde(default)]
    from: i64,
}

/// Rows of a processed CSV; the header is row 0.
async fn rows(
    State(app): State<App>,
    Id(id): Id,
    from: Result<Query<From>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Result<Json<Value>, Refusal> {
    access::is_from_here(&app, &headers)?;
    let Query(from) = from.map_err(|_| Refusal::bad("bad_query", "the one option is from=N"))?;
    let file = lasting(&app, &id).await?;
    let rows = app
        .database
        .rows(&file.id, file.done, from.from, ROWS_MAX)
        .await?;
    let rows = rows.into_iter().map(|(n, cells)| {
        let cells: Value = serde_json::from_str(&cells).unwrap_or_default();
        json!({"n": n, "cells": cells})
    });
    Ok(Json(json!({"rows": rows.collect::<Vec<_>>()})))
}

async fn thumbnail(
    State(app): State<App>,
    Id(id): Id,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    access::is_from_here(&app, &headers)?;
    let file = lasting(&app, &id).await?;
    let bytes = app
        .database
        .thumbnail(&id)
        .await?
        .ok_or_else(Refusal::no_such_file)?;
    let kind = if file.kind == "png" {
        "image/png"
    } else {
        "image/jpeg"
    };
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, bytes).into_response())
}

#[derive(Debug, Deserialize)]
struct Which {
    file: String,
}

/// Follows a file until it has ended. A page that comes again gets its present state at once, so
/// no notice is lost with a connection.
async fn follow(
    State(app): State<App>,
    which: Result<Query<Which>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    access::is_from_here(&app, &headers)?;
    let Query(which) = which.map_err(|_| Refusal::bad("bad_query", "name a file: /ws?file=ID"))?;
    let upgrade =
        upgrade.map_err(|_| Refusal::bad("no_websocket", "open this address as a WebSocket"))?;
    found(&app, &which.file).await?;
    let Ok(permit) = app.sockets.clone().try_acquire_owned() else {
        let message = "too many pages follow files at the moment; try again in a second";
        return Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            message,
        ));
    };
    let upgrade = upgrade.max_message_size(1_024).max_frame_size(1_024);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let _permit = permit;
        send_changes(socket, &app, &which.file).await;
    }))
}

/// Two messages are so far apart at least.
const BETWEEN: std::time::Duration = millis(50);
/// A client may take that long to accept a message.
const SEND: std::time::Duration = seconds(10);

async fn send_changes(mut socket: WebSocket, app: &App, id: &str) {
    let mut changed = app.changed.subscribe();
    // What another process changes is not announced here: it is read again.
    let read_again = if app.settings.has_worker {
        seconds(1)
    } else {
        millis(250)
    };
    let mut last = String::new();
    loop {
        let Ok(file) = found(app, id).await else {
            return;
        };
        let view = read(app, &file).await;
        let text = view.to_string();
        if text != last {
            let sent = within(SEND, socket.send(Message::Text(text.clone().into()))).await;
            if !matches!(sent, Some(Ok(()))) {
                return;
            }
            last = text;
        }
        let has_ended = !matches!(view["state"].as_str(), Some("queued" | "processing"));
        if has_ended {
            let _ = within(SEND, socket.send(Message::Close(None))).await;
            return;
        }
        pause(BETWEEN).await;
        tokio::select! {
            () = wait_for(&mut changed, id) => {}
            () = pause(read_again) => {}
            message = socket.recv() => match message {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}

/// Waits until this process has changed the file, or may have.
async fn wait_for(changed: &mut tokio::sync::broadcast::Receiver<String>, id: &str) {
    use tokio::sync::broadcast::error::RecvError;
    loop {
        match changed.recv().await {
            Ok(file) if file != id => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
