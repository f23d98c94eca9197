//! The worker: reads files by range, stores results, and deletes what expires.

use punctual::time::{pause, seconds};
use punctual::worker::{BoxError, HandlerResult, State};
use punctual::{Context, NewJob, Outcome, Worker};
use serde_json::{Value, json};

use crate::app::{App, micros, micros_of, now};
use crate::csv::{self, Rows};
use crate::db::{Again, Attempt, File, Taken};
use crate::jobs::{ATTEMPTS_MAX, CleanUp, Expire, Process, Refresh};
use crate::store::Lacking;
use crate::thumbnail::{self, thumbnail};
use crate::view;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Rows that are stored at once, and their bytes.
const BATCH_ROWS: usize = 500;
const BATCH_BYTES: usize = 1 << 20;
/// Files that are processed at the same time.
const SLOTS: usize = 4;
/// Rows that the result shows, cells of each, and characters of a cell.
const SHOWN: (usize, usize, usize) = (5, 12, 80);

/// A worker that may run: one that dies is replaced after its lease.
pub(crate) fn worker(app: &App, lease: std::time::Duration) -> Worker {
    Worker::new(&app.engine)
        .state(app.clone())
        .handle(process)
        .handle(refresh)
        .handle(expire)
        .handle(clean_up)
        .concurrency(SLOTS)
        .lease_duration(lease)
        .drain_limit(seconds(5))
}

/// Why an attempt ended without a result.
enum Ended {
    /// What is in the file: no retry can mend it.
    Refused(String),
    /// A later lease has the file.
    Stale,
    Failed(BoxError),
}

impl<E: Into<BoxError>> From<E> for Ended {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The longest pause while the store or the database is away.
const AWAY_MAX: u32 = 60;

async fn process(job: Process, ctx: Context, State(app): State<App>) -> HandlerResult {
    match attempt(&job, &ctx, &app).await {
        // The store or the database is away, and the file is not to blame: no failure is counted.
        Err(error) if !error.is::<Stale>() && !error.is::<Lacking>() => {
            ctx.log(format!("{error}; it is tried again"));
            let after = seconds(u64::from((2 * ctx.attempt()).min(AWAY_MAX)));
            Ok(Outcome::Snooze { after })
        }
        ended => ended,
    }
}

async fn attempt(job: &Process, ctx: &Context, app: &App) -> HandlerResult {
    let (started, due) = (ctx.started_at(), ctx.job().due);
    let by = Attempt {
        fence: i64::try_from(ctx.token().fence)?,
        attempt: i64::from(ctx.attempt()),
        queued: micros(ctx.job().enqueued_at),
        started: micros(started),
        lateness: micros_of(started.since(due)),
    };
    let file = match app.database.take(&job.file, job.generation, by).await? {
        Taken::Ours(file) => *file,
        Taken::Done(file) => return after(&file, ctx, app).await,
        Taken::NotWanted => return Ok(Outcome::Completed),
        Taken::Stale => return Err(Stale.into()),
    };
    app.announce(&file.id);
    ctx.log(format!(
        "from byte {} of {}, row {}",
        file.byte_offset, file.size, file.row_total
    ));
    let worked = match file.kind.as_str() {
        "csv" => rows_of(&file, ctx, app).await.map(|result| (result, None)),
        _ => image_of(&file, app).await,
    };
    let stored = match worked {
        Ok((result, thumbnail)) => {
            app.database
                .store_result(&file, &result, thumbnail.as_deref(), now())
                .await?
        }
        Err(Ended::Refused(why)) => {
            ctx.log(&why);
            app.database
                .end_without_result(&file, "refused", &why, now())
                .await?
        }
        Err(Ended::Stale) => false,
        Err(Ended::Failed(error)) => {
            if error.is::<Lacking>() && ctx.failures() + 1 >= ATTEMPTS_MAX {
                let why = format!("failed {ATTEMPTS_MAX} times, at last: {error}");
                app.database
                    .end_without_result(&file, "failed", &why, now())
                    .await?;
                app.announce(&file.id);
            }
            return Err(error);
        }
    };
    if !stored {
        return Err(Stale.into());
    }
    after(&file, ctx, app).await
}

/// A later lease has the file: this attempt wrote nothing, and ends.
#[derive(Debug)]
struct Stale;

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a later lease has this file; nothing was written")
    }
}

impl std::error::Error for Stale {}

/// What follows a stored result; each part may be done twice. Removes rows of generations before,
/// renews the cache, and asks for its next renewal in the step that settles this job.
async fn after(file: &File, ctx: &Context, app: &App) -> HandlerResult {
    app.database.delete_rows(&file.id, file.generation).await?;
    app.announce(&file.id);
    let Some(file) = app.database.file(&file.id).await? else {
        return Ok(Outcome::Completed);
    };
    let left = std::time::Duration::from_micros((file.expires - now()).max(0).unsigned_abs());
    let span = app.settings.cache_for.min(left);
    if file.done == 0 {
        // It was dropped in between, and an entry may have been put after that.
        app.cache.remove(&file.id).await;
    }
    if file.done == 0 || span.is_zero() {
        return Ok(Outcome::Completed);
    }
    let text = view::of(&file, &[]).to_string();
    app.cache.put(&file, &text, span).await;
    if span < left {
        let refresh = Refresh {
            file: file.id.clone(),
            generation: file.generation,
        };
        // Before the entry expires: ten seconds, or a sixth of a short span.
        let ahead = seconds(10).min(span / 6);
        ctx.then(NewJob::of(&refresh)?.delay(span - ahead))?;
    }
    Ok(Outcome::Completed)
}

/// Reads a CSV from where the attempt before came to, and stores its rows.
async fn rows_of(file: &File, ctx: &Context, app: &App) -> Result<Value, Ended> {
    let mut rows = Rows::from(file.byte_offset, file.row_total);
    let mut written = Written {
        total: file.row_total,
        offset: file.byte_offset,
    };
    let mut batch = Vec::new();
    let mut batch_bytes = 0;
    let mut position = file.byte_offset.unsigned_abs();
    loop {
        let chunk = app.store.read(&file.object, position, CHUNK_BYTES).await?;
        position += chunk.len() as u64;
        let mut input = &chunk[..];
        while let Some(cells) = rows.next(&mut input).map_err(Ended::Refused)? {
            batch_bytes += cells.iter().map(String::len).sum::<usize>();
            batch.push(cells);
            if batch.len() >= BATCH_ROWS || batch_bytes >= BATCH_BYTES {
                written.add(file, &mut batch, rows.offset(), app).await?;
                batch_bytes = 0;
                note(file, &written, ctx, app)?;
                if !app.settings.pace.is_zero() {
                    pause(app.settings.pace).await;
                }
            }
        }
        if chunk.is_empty() {
            break;
        }
    }
    if position < file.size.unsigned_abs() {
        return Err(Ended::Failed(
            Lacking("the store has only a part of the file").into(),
        ));
    }
    written.add(file, &mut batch, rows.offset(), app).await?;
    let shown = app
        .database
        .rows(&file.id, file.generation, 0, SHOWN.0 as i64 + 1)
        .await?;
    let cut = |cells: &String| {
        let cells: Vec<String> = serde_json::from_str(cells).unwrap_or_default();
        let columns = cells.len();
        let cut = |cell: &String| cell.chars().take(SHOWN.2).collect::<String>();
        (
            columns,
            cells.iter().take(SHOWN.1).map(cut).collect::<Vec<_>>(),
        )
    };
    let header = shown
        .first()
        .filter(|(n, _)| *n == 0)
        .map(|(_, cells)| cut(cells).1);
    let preview: Vec<_> = shown
        .iter()
        .filter(|(n, _)| *n > 0)
        .take(SHOWN.0)
        .map(|(_, cells)| cut(cells).1)
        .collect();
    let columns = shown.first().map_or(0, |(_, cells)| cut(cells).0);
    Ok(json!({"rows": written.total, "columns": columns, "header": header, "preview": preview}))
}

/// How far the rows of a file are stored.
struct Written {
    /// Rows, without the header.
    total: i64,
    offset: i64,
}

impl Written {
    async fn add(
        &mut self,
        file: &File,
        batch: &mut Vec<Vec<String>>,
        offset: i64,
        app: &App,
    ) -> Result<(), Ended> {
        let has_header = match (self.offset, file.header) {
            (0, -1) => batch
                .first()
                .is_some_and(|first| csv::is_header(first, batch.get(1))),
            (0, header) => header == 1,
            _ => false,
        };
        // The header is row 0.
        let first = self.total + 1 - i64::from(has_header);
        let count = batch.len() as i64 - i64::from(has_header);
        let cells: Vec<String> = batch
            .drain(..)
            .map(|cells| json!(cells).to_string())
            .collect();
        self.total += count.max(0);
        self.offset = offset;
        match app
            .database
            .add_rows(file, first, &cells, offset, self.total)
            .await?
        {
            true => Ok(()),
            false => Err(Ended::Stale),
        }
    }
}

fn note(file: &File, written: &Written, ctx: &Context, app: &App) -> Result<(), BoxError> {
    ctx.progress(format!(
        "{} rows, {} of {} bytes",
        written.total, written.offset, file.size
    ))?;
    app.announce(&file.id);
    Ok(())
}

/// Reads an image whole, and scales it apart from the threads that wait for others.
async fn image_of(file: &File, app: &App) -> Result<(Value, Option<Vec<u8>>), Ended> {
    if file.size > thumbnail::FILE_BYTES_MAX {
        let mib = thumbnail::FILE_BYTES_MAX >> 20;
        return Err(Ended::Refused(format!("an image has at most {mib} MiB")));
    }
    let size = usize::try_from(file.size)?;
    let bytes = app.store.read(&file.object, 0, size).await?;
    if bytes.len() < size {
        return Err(Ended::Failed(
            Lacking("the store has only a part of the file").into(),
        ));
    }
    let kind = file.kind.clone();
    let made = tokio::task::spawn_blocking(move || thumbnail(&bytes, &kind)).await?;
    let made = made.map_err(Ended::Refused)?;
    let result = json!({
        "width": made.width, "height": made.height,
        "thumbnail": format!("/files/{}/thumbnail", file.id),
    });
    Ok((result, Some(made.bytes)))
}

/// The cache entry of a result expires soon: a new generation of it is processed.
async fn refresh(job: Refresh, State(app): State<App>) -> HandlerResult<()> {
    if app
        .database
        .ask_again(&job.file, job.generation, Again::ResultIsOld)
        .await?
    {
        app.committed.notify_one();
    }
    Ok(())
}

/// The record of a file ends: first for readers, then its rows and its bytes.
async fn expire(job: Expire, State(app): State<App>) -> HandlerResult<()> {
    let Some(file) = app.database.file(&job.file).await? else {
        return Ok(());
    };
    app.database.expire(&file.id).await?;
    app.cache.remove(&file.id).await;
    app.announce(&file.id);
    app.database.delete_rows(&file.id, i64::MAX).await?;
    app.store.delete(&file.object).await?;
    Ok(())
}

/// An upload never ended: its process died, and this job was not cancelled.
async fn clean_up(job: CleanUp, State(app): State<App>) -> HandlerResult<()> {
    app.clean_up(&job.upload).await
}
