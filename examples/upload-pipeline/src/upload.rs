//! POST /upload: one file, streamed into the store.

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::BytesMut;
use multer::{Constraints, Field, Multipart, SizeLimit};
use punctual::NewJob;
use punctual::time::{Stopwatch, within};
use ring::digest;
use serde::Deserialize;
use serde_json::json;

use crate::access;
use crate::app::{App, QUEUE_ANSWERS, micros_of, now};
use crate::db::{Again, Finished, NewFile};
use crate::jobs::{self, CleanUp};
use crate::refusal::Refusal;
use crate::s3::hex;
use crate::slots::{Beside, Client, FORM_BYTES_MAX};
use crate::sniff::{self, HEAD_BYTES};
use crate::web;

/// Options of an upload.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    /// Whether the first row of a CSV names its columns; found out if it is not said.
    header: Option<Header>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Header {
    Yes,
    No,
    Auto,
}

impl Header {
    /// As the database keeps it.
    fn number(self) -> i64 {
        match self {
            Self::Yes => 1,
            Self::No => 0,
            Self::Auto => -1,
        }
    }
}

/// What a part was, once all of it has come.
struct Received {
    name: String,
    kind: &'static str,
    size: u64,
    sha256: String,
    /// It did not fit, so it is not in the store: only the same bytes may be there already.
    is_stored: bool,
}

pub(crate) async fn post(
    State(app): State<App>,
    Extension(client): Extension<Client>,
    options: Result<Query<Options>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    access::may_write(&app, &headers)?;
    let Query(options) =
        options.map_err(|_| Refusal::bad("bad_query", "the one option is header=yes|no|auto"))?;
    let Some(slot) = app.uploads.take(client) else {
        let message = "too many uploads at the moment; try again in a second";
        return Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            message,
        ));
    };
    let boundary = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let boundary = boundary.and_then(|kind| multer::parse_boundary(kind).ok());
    let boundary = boundary.ok_or_else(|| {
        Refusal::bad(
            "not_a_form",
            "send multipart/form-data with one part `file`: curl -F file=@some.csv",
        )
    })?;
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|len| len.to_str().ok()?.parse::<u64>().ok());
    let room = room_left(&app).await?;
    if declared.is_some_and(|bytes| bytes > app.settings.file_bytes_max + FORM_BYTES_MAX) {
        return Err(too_large(&app));
    }
    if let Some(bytes) = declared.filter(|bytes| *bytes > room + FORM_BYTES_MAX) {
        let sizes = (bytes - FORM_BYTES_MAX, bytes);
        if !app.database.has_size(sizes, now()).await? {
            return Err(over_quota());
        }
    }
    let constraints = Constraints::new()
        .size_limit(SizeLimit::new().whole_stream(app.settings.file_bytes_max + FORM_BYTES_MAX));
    let beside = Beside::default();
    let stream = slot.paced(body, app.settings.idle, beside.clone());
    let form = Multipart::with_constraints(stream, boundary, constraints);
    let mut form = Form {
        parts: form,
        beside,
    };
    let upload = Open::begin(&app).await?;
    let received = receive(&app, &mut form, &upload.id, room).await?;
    finish(&app, upload, received, options.header).await
}

async fn room_left(app: &App) -> Result<u64, Refusal> {
    let kept = app.database.bytes_kept().await?.max(0).unsigned_abs();
    Ok(app.settings.quota.saturating_sub(kept))
}

fn too_large(app: &App) -> Refusal {
    let message = format!("a file has at most {} bytes", app.settings.file_bytes_max);
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
}

fn over_quota() -> Refusal {
    let message = "the quota of all files is used up; delete some, or wait until they expire";
    Refusal::new(StatusCode::INSUFFICIENT_STORAGE, "quota", message)
}

/// An upload that has begun. Dropped before its end, as when its client goes away, it is cleaned
/// up; if the process dies, the delayed job does it.
struct Open {
    app: App,
    id: String,
    is_ended: bool,
}

impl Open {
    /// The clean-up is durable before the first byte is stored: no kill leaves bytes for good.
    async fn begin(app: &App) -> Result<Self, Refusal> {
        let id = uuid::Uuid::new_v4().to_string();
        let clean_up = NewJob::of(&CleanUp { upload: id.clone() })?
            .delay(app.settings.abandon_after)
            .unique(jobs::upload_key(&id));
        let stored = app.queue.enqueue_job(clean_up);
        match within(QUEUE_ANSWERS, stored.into_future()).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(Refusal::queue_is_away(&error.to_string())),
            None => return Err(Refusal::queue_is_away("no answer")),
        }
        let open = Self {
            app: app.clone(),
            id,
            is_ended: false,
        };
        app.database.open_upload(&open.id, now()).await?;
        Ok(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let (app, id) = (self.app.clone(), std::mem::take(&mut self.id));
        let is_ended = self.is_ended;
        tokio::spawn(async move {
            match app.clean_up(&id).await {
                Ok(()) => app.cancel_clean_up(&id).await,
                Err(error) if is_ended => eprintln!("upload {id} is cleaned up later: {error}"),
                Err(error) => {
                    eprintln!("upload {id} ended early, and is cleaned up later: {error}")
                }
            }
        });
    }
}

/// The parts of a body, and the bound of what is beside its file.
struct Form {
    parts: Multipart<'static>,
    beside: Beside,
}

impl Form {
    async fn next(&mut self, app: &App) -> Result<Option<Field<'static>>, Refusal> {
        self.beside.goes_on();
        let next = self.parts.next_field().await;
        self.beside.pauses();
        next.map_err(|error| form_error(app, &error))
    }
}

/// Reads the form; its one file is in the store afterwards.
async fn receive(app: &App, form: &mut Form, upload: &str, room: u64) -> Result<Received, Refusal> {
    let mut received = None;
    let (mut has_other, mut passed) = (false, 0);
    while let Some(mut field) = form.next(app).await? {
        let is_named = field.name() == Some("file");
        if !is_named && received.is_none() {
            // Perhaps a part `file` comes later: which of the two is wrong is not known yet.
            has_other = true;
            passed += pass(app, &mut field).await?;
            if passed <= FORM_BYTES_MAX {
                continue;
            }
        }
        let name = sniff::sent_name(&field).filter(|_| is_named && !has_other);
        let Some(name) = name else {
            let message =
                "the form has a part that is no file; send one part `file` with a file name";
            return Err(Refusal::bad("unexpected_part", message));
        };
        if received.is_some() {
            return Err(Refusal::bad(
                "two_files",
                "the form has two files; send each in a request of its own",
            ));
        }
        received = Some(store(app, field, &name, upload, room).await?);
        form.beside.starts_again();
    }
    received.ok_or_else(|| {
        Refusal::bad(
            "no_file",
            "the form has no part `file`: curl -F file=@some.csv",
        )
    })
}

/// Reads past a part that is not kept, or until it is longer than what is read past; its bytes.
async fn pass(app: &App, field: &mut Field<'_>) -> Result<u64, Refusal> {
    let mut bytes = 0;
    while let Some(chunk) = field
        .chunk()
        .await
        .map_err(|error| form_error(app, &error))?
    {
        bytes += chunk.len() as u64;
        if bytes > FORM_BYTES_MAX {
            break;
        }
    }
    Ok(bytes)
}

/// Streams a part into the store, and computes its hash on the way. What does not fit is only
/// hashed, as long as it may be the bytes of a file that is there.
async fn store(
    app: &App,
    mut field: Field<'_>,
    name: &str,
    upload: &str,
    room: u64,
) -> Result<Received, Refusal> {
    let name = sniff::shown_name(name)?;
    let claimed = field
        .content_type()
        .map(|kind| kind.essence_str().to_owned());
    let mut writer = Some(app.store.create(upload).await?);
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut size = 0_u64;
    // The first bytes are kept back until there are enough of them to see what the file is.
    let mut head = BytesMut::new();
    let mut kind = None;
    let mut renewed = Stopwatch::start();
    while let Some(chunk) = field
        .chunk()
        .await
        .map_err(|error| form_error(app, &error))?
    {
        size += chunk.len() as u64;
        if size > app.settings.file_bytes_max {
            return Err(too_large(app));
        }
        if size > room && writer.is_some() {
            let sizes = (size, app.settings.file_bytes_max);
            if !app.database.has_size(sizes, now()).await? {
                return Err(over_quota());
            }
            writer = None;
        }
        if renewed.elapsed() > app.settings.abandon_after / 2 {
            app.put_off_clean_up(upload).await;
            renewed = Stopwatch::start();
        }
        hash.update(&chunk);
        let ready = match kind {
            Some(_) => chunk,
            None => {
                head.extend_from_slice(&chunk);
                if head.len() < HEAD_BYTES {
                    continue;
                }
                kind = Some(sniff::kind_of(&head, &name, claimed.as_deref())?);
                head.split().freeze()
            }
        };
        if let Some(writer) = &mut writer {
            writer.write(ready).await?;
        }
    }
    if size == 0 {
        return Err(Refusal::bad("empty_file", "the file has no bytes"));
    }
    let kind = match kind {
        Some(kind) => kind,
        None => sniff::kind_of(&head, &name, claimed.as_deref())?,
    };
    let is_stored = writer.is_some();
    if let Some(mut writer) = writer {
        writer.write(head.freeze()).await?;
        writer.finish().await?;
    }
    let sha256 = hex(hash.finish().as_ref());
    Ok(Received {
        name,
        kind,
        size,
        sha256,
        is_stored,
    })
}

fn form_error(app: &App, error: &multer::Error) -> Refusal {
    // What `Slot::paced` has made of a body.
    let is_of = |error: &multer::Error, kind: std::io::ErrorKind| {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = cause {
            let io = error.downcast_ref::<std::io::Error>();
            if io.is_some_and(|io| io.kind() == kind) {
                return true;
            }
            cause = error.source();
        }
        false
    };
    match error {
        multer::Error::StreamSizeExceeded { .. } | multer::Error::FieldSizeExceeded { .. } => {
            too_large(app)
        }
        error if is_of(error, std::io::ErrorKind::FileTooLarge) => {
            let message = format!(
                "the form has over {FORM_BYTES_MAX} bytes beside its file; send one part `file`"
            );
            Refusal::bad("form_too_large", message)
        }
        error if is_of(error, std::io::ErrorKind::TimedOut) => {
            let message = "the body comes too slowly; send at least 1 KiB a second, and 16 KiB while others wait";
            Refusal::new(StatusCode::REQUEST_TIMEOUT, "too_slow", message)
        }
        multer::Error::StreamReadFailed(_) => Refusal::bad(
            "body_ended",
            "the body ended early: it is shorter than its headers say, or sent in bad chunks",
        ),
        multer::Error::IncompleteStream | multer::Error::IncompleteFieldData { .. } => {
            Refusal::bad(
                "form_ended",
                "the form ended without its last boundary; nothing was stored",
            )
        }
        multer::Error::IncompleteHeaders => Refusal::bad(
            "no_file",
            "the form has no part `file`: curl -F file=@some.csv",
        ),
        _ => Refusal::bad("bad_form", format!("the form cannot be read: {error}")),
    }
}

/// The bytes are durable, or may be those of a file that is: makes a file of them.
async fn finish(
    app: &App,
    mut upload: Open,
    received: Received,
    header: Option<Header>,
) -> Result<Response, Refusal> {
    let now = now();
    let limit = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let file = NewFile {
        upload: &upload.id,
        name: &received.name,
        kind: received.kind,
        header: header.unwrap_or(Header::Auto).number(),
        size: limit(received.size),
        sha256: &received.sha256,
        now,
        expires: now.saturating_add(micros_of(app.settings.keep)),
        quota: limit(app.settings.quota),
        is_stored: received.is_stored,
    };
    let (id, is_duplicate, is_reprocessed) = match app.database.finish_upload(&file).await? {
        Finished::Stored(id) => {
            app.committed.notify_one();
            (id, false, false)
        }
        Finished::Duplicate(id) => {
            let is_reprocessed = match header {
                Some(header) => choose(app, &id, header).await?,
                None => false,
            };
            ask_again_if_dead(app, &id).await?;
            (id, true, is_reprocessed)
        }
        Finished::OverQuota => return Err(over_quota()),
        Finished::Gone => {
            let message = "the upload took so long that it was given up; send it again";
            return Err(Refusal::new(StatusCode::GONE, "gone", message));
        }
    };
    // The answer does not wait for this: it removes what a duplicate stored, and the clean-up job.
    upload.is_ended = true;
    drop(upload);
    let body = json!({
        "id": id, "sha256": received.sha256, "size": received.size,
        "duplicate": is_duplicate, "reprocessed": is_reprocessed,
        "file": format!("/files/{id}"), "events": format!("/ws?file={id}"),
    });
    let status = match is_duplicate && !is_reprocessed {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    Ok((status, Json(body)).into_response())
}

/// The same bytes were there, and their sender says whether they have a header: with another choice
/// than the stored one they are processed again. Of two who say the same at once, one asks.
async fn choose(app: &App, id: &str, header: Header) -> Result<bool, Refusal> {
    let header = header.number();
    loop {
        let file = app.database.file(id).await?;
        let Some(file) = file.filter(|file| file.kind == "csv" && file.header != header) else {
            return Ok(false);
        };
        // Its record ended in between.
        if file.state == "expired" || file.state == "failed" {
            return Ok(false);
        }
        let why = Again::HeaderIs(header);
        if app.database.ask_again(id, file.generation, why).await? {
            app.cache.remove(id).await;
            app.committed.notify_one();
            app.announce(id);
            return Ok(true);
        }
    }
}

/// The same bytes were there and their job is dead, as after a panic: it gets another.
async fn ask_again_if_dead(app: &App, id: &str) -> Result<(), Refusal> {
    let Some(file) = app.database.file(id).await? else {
        return Ok(());
    };
    if web::is_dead(app, &file).await
        && app
            .database
            .ask_again(id, file.generation, Again::JobIsDead)
            .await?
    {
        app.committed.notify_one();
    }
    Ok(())
}
