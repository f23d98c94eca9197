//! What the roles share: the database, the store, the queue, the cache, and what is allowed.

use std::sync::Arc;
use std::time::Duration;

use punctual::time::{Clock, SystemClock, seconds, within};
use punctual::worker::BoxError;
use punctual::{Engine, Queue};
use tokio::sync::{Notify, Semaphore, broadcast};

use crate::cache::Cache;
use crate::db::Database;
use crate::jobs::{self, CleanUp};
use crate::slots::Slots;
use crate::store::Store;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) database: Database,
    pub(crate) store: Store,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) queue: Queue,
    pub(crate) cache: Cache,
    pub(crate) settings: Settings,
    /// The relay of the outbox has something to do.
    pub(crate) committed: Arc<Notify>,
    /// Ids of files that this process changed.
    pub(crate) changed: broadcast::Sender<String>,
    pub(crate) uploads: Arc<Slots>,
    pub(crate) sockets: Arc<Semaphore>,
}

/// What is allowed, and how long things last.
pub(crate) struct Settings {
    pub(crate) token: Option<String>,
    /// Made at the start, so it is to be shown.
    pub(crate) is_token_random: bool,
    /// Whether only names of this machine are answered to.
    pub(crate) is_local: bool,
    pub(crate) has_worker: bool,
    pub(crate) file_bytes_max: u64,
    pub(crate) quota: u64,
    pub(crate) idle: Duration,
    pub(crate) keep: Duration,
    pub(crate) cache_for: Duration,
    pub(crate) abandon_after: Duration,
    pub(crate) pace: Duration,
}

/// Pages that follow a file at the same time.
const SOCKETS_MAX: usize = 256;
/// A request waits that long for the queue, which may be away for longer.
pub(crate) const QUEUE_ANSWERS: Duration = seconds(3);

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(
        database: Database,
        store: Store,
        engine: Arc<dyn Engine>,
        cache: Cache,
        settings: Settings,
    ) -> Self {
        Self(Arc::new(Inner {
            database,
            store,
            queue: Queue::new(&engine),
            engine,
            cache,
            settings,
            committed: Arc::new(Notify::new()),
            changed: broadcast::channel(256).0,
            uploads: Arc::default(),
            sockets: Arc::new(Semaphore::new(SOCKETS_MAX)),
        }))
    }

    /// Says that a file has changed, to its followers in this process.
    pub(crate) fn announce(&self, file: &str) {
        // No file has a follower: fine.
        let _ = self.changed.send(file.to_owned());
    }

    /// Removes what an upload left that is no file, then the job that would have done so.
    pub(crate) async fn clean_up(&self, upload: &str) -> Result<(), BoxError> {
        if self.database.abandon_upload(upload).await? {
            self.store.delete(upload).await?;
            self.database.forget_upload(upload).await?;
        }
        Ok(())
    }

    /// Delays the clean-up of an upload that goes on. If that fails, the upload may be given up.
    pub(crate) async fn put_off_clean_up(&self, upload: &str) {
        let key = jobs::upload_key(upload);
        let target = punctual::engine::Target::unique::<CleanUp>(key);
        let delayed = self.queue.reschedule(target, self.settings.abandon_after);
        match within(QUEUE_ANSWERS, delayed.into_future()).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                eprintln!("the clean-up of upload {upload} was not delayed: {error}");
            }
            None => eprintln!("the clean-up of upload {upload} was not delayed: the queue is away"),
        }
    }

    /// Cancels the delayed clean-up of an upload that has ended. If that is lost, the clean-up runs
    /// and finds nothing to do.
    pub(crate) async fn cancel_clean_up(&self, upload: &str) {
        let key = jobs::upload_key(upload);
        let target = punctual::engine::Target::unique::<CleanUp>(key);
        if let Err(error) = self.queue.cancel(target).await {
            eprintln!("the clean-up of upload {upload} was not cancelled: {error}");
        }
    }
}

/// Now, in microseconds since 1970.
pub(crate) fn now() -> i64 {
    micros(SystemClock.now())
}

/// An instant as the database keeps it.
pub(crate) fn micros(at: punctual::time::Timestamp) -> i64 {
    i64::try_from(at.as_micros()).unwrap_or(i64::MAX)
}

/// A span as the database adds it.
pub(crate) fn micros_of(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX / 4)
}
