//! An engine in a directory that this process holds, or that another process serves on a socket.
//! When that process ends, this one opens the directory and continues.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use punctual::engine::{
    Claim, Claimed, Control, Controlled, Edit, Edited, Enqueued, Extend, Extended, Got, Info, List,
    Listing, Maintained, Settle, Settled, Stats, StatsRequest, Target, WaitFor, Waited,
};
use punctual::sync::Lock;
use punctual::time::{Stopwatch, Timestamp, millis, pause, seconds, within};
use punctual::{Engine, Error, ErrorKind, Namespace, NewJob, Result};
use punctual_client::HttpEngine;
use punctual_embedded::{EmbeddedEngine, Options};
use punctual_gateway::{Audit, Gateway, Sharer, Sharing, Tokens};
use tokio::sync::{Notify, OnceCell};

/// The file in the directory that records changes and who made them.
pub const AUDIT: &str = "audit.jsonl";

/// How a process shares a directory with other processes of its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Joins a process that holds the directory. Serves others only after
    /// [`share_by`](SharedDirectory::share_by).
    Join,
    /// Joins a process that holds the directory; serves others while this process holds it.
    Share,
    /// Fails while another process holds the directory; serves others from then on.
    Hold,
}

/// How long the process that holds the directory may take to end, or to answer.
const JOIN_TIMEOUT: Duration = seconds(5);
/// How long calls of other processes may take to end before the engine closes.
const DRAIN_TIMEOUT: Duration = seconds(5);

/// An engine whose directory is open in this process or in another one.
///
/// Dropping it closes a directory that this process holds.
#[derive(Debug)]
pub struct SharedDirectory {
    dir: PathBuf,
    options: Options,
    mode: Mode,
    /// The gateway that serves other processes, if the caller has one.
    sharer: OnceLock<Sharer>,
    place: Mutex<Place>,
    /// Wakes up `stopped` when this process has opened the directory.
    opened: Notify,
    /// The audit file, opened when this process makes a change and serves no others.
    audit: OnceCell<Option<Audit>>,
    /// Counts attempts to find the directory; its guard allows a change of `place`.
    attempts: tokio::sync::Mutex<u64>,
}

#[derive(Debug)]
enum Place {
    Here(Arc<EmbeddedEngine>, Option<Sharing>),
    Elsewhere(HttpEngine),
}

impl SharedDirectory {
    /// Opens the directory, or joins the process that holds it, as the mode allows.
    pub async fn open(dir: PathBuf, options: Options, mode: Mode) -> Result<Self> {
        let sharer = OnceLock::new();
        let place = find(&dir, &options, mode, &sharer).await?;
        Ok(Self {
            dir,
            // A directory that is missing later was removed: do not make an empty one.
            options: options.create(false),
            mode,
            sharer,
            place: Mutex::new(place),
            opened: Notify::new(),
            audit: OnceCell::new(),
            attempts: tokio::sync::Mutex::default(),
        })
    }

    /// Whether this process holds the directory.
    pub fn is_holder(&self) -> bool {
        self.here().is_some()
    }

    /// Serves other processes by this gateway while this process holds the directory.
    pub fn share_by(&self, sharer: Sharer) {
        let sharer = self.sharer.get_or_init(|| sharer);
        if let Place::Here(_, sharing) = &mut *self.place() {
            *sharing = warned(sharer.share_in(&self.dir));
        }
    }

    /// Stops serving other processes.
    pub async fn unshare(&self) {
        let sharing = match &mut *self.place() {
            Place::Here(_, sharing) => sharing.take(),
            Place::Elsewhere(_) => None,
        };
        if let Some(sharing) = sharing {
            sharing.drain(DRAIN_TIMEOUT).await;
        }
    }

    /// Completes when the engine of this process stops itself, with the reason.
    pub async fn stopped(&self) -> Error {
        loop {
            let opened = self.opened.notified();
            match self.here() {
                Some(engine) => return engine.stopped().await,
                None => opened.await,
            }
        }
    }

    /// Stops serving others and closes the engine, if this process holds the directory.
    pub async fn close(&self) -> Result<()> {
        self.unshare().await;
        match self.here() {
            Some(engine) => engine.close().await,
            None => Ok(()),
        }
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.locked()
    }

    fn here(&self) -> Option<Arc<EmbeddedEngine>> {
        match &*self.place() {
            Place::Here(engine, _) => Some(engine.clone()),
            Place::Elsewhere(_) => None,
        }
    }

    fn engine(&self) -> Arc<dyn Engine> {
        match &*self.place() {
            Place::Here(engine, _) => engine.clone(),
            Place::Elsewhere(engine) => Arc::new(engine.clone()),
        }
    }

    /// The audit file, if this process writes it: a gateway records the changes made through it,
    /// and a process that has a gateway makes no change for a person by itself.
    async fn audit(&self) -> Option<&Audit> {
        if self.mode != Mode::Join || self.sharer.get().is_some() {
            return None;
        }
        let path = self.dir.join(AUDIT);
        let open = async move || {
            let audit = Audit::in_file(&path);
            // A person must be able to delete jobs while the disk is full.
            let warn =
                |error: &Error| tracing::warn!(%error, "this change is not in the audit file");
            audit.inspect_err(warn).ok()
        };
        self.audit.get_or_init(open).await.as_ref()
    }

    /// After a call to the other process failed: the engine as it is now, if the call may be
    /// repeated there.
    async fn after(&self, error: Error, may_repeat: bool, before: u64) -> Result<Arc<dyn Engine>> {
        if error.kind() != ErrorKind::EngineUnavailable {
            return Err(error);
        }
        let mut attempts = self.attempts.lock().await;
        if *attempts == before && self.here().is_none() {
            *attempts += 1;
            let shown = self.dir.display();
            tracing::info!(directory = %shown, "the process that held the directory has ended");
            let found = find(&self.dir, &self.options, self.mode, &self.sharer).await;
            match found {
                Ok(place) => {
                    *self.place() = place;
                    self.opened.notify_waiters();
                }
                Err(_) => return Err(error),
            }
        }
        if may_repeat || was_not_sent(&error) {
            return Ok(self.engine());
        }
        Err(error)
    }
}

/// Opens the directory, or finds the process that holds it; waits for one that is about to end.
async fn find(
    dir: &Path,
    options: &Options,
    mode: Mode,
    sharer: &OnceLock<Sharer>,
) -> Result<Place> {
    let waited = Stopwatch::start();
    loop {
        let held = match EmbeddedEngine::open(dir, options.clone()) {
            Ok(engine) => {
                let engine = Arc::new(engine);
                let shared = match sharer.get() {
                    Some(sharer) => Some(sharer.share_in(dir)),
                    None if mode == Mode::Join => None,
                    None => Some(share(engine.clone(), dir)),
                };
                return Ok(Place::Here(engine, shared.and_then(warned)));
            }
            Err(error) if error.kind() == ErrorKind::DataLocked && mode != Mode::Hold => error,
            Err(error) => return Err(error),
        };
        let elsewhere = HttpEngine::in_directory(dir);
        match within(JOIN_TIMEOUT, elsewhere.info()).await {
            Some(Ok(_)) => {
                let shown = dir.display();
                tracing::info!(directory = %shown, "another process holds the directory; calls go to it");
                return Ok(Place::Elsewhere(elsewhere));
            }
            Some(Err(error)) if error.kind() != ErrorKind::EngineUnavailable => return Err(error),
            _ if waited.elapsed() > JOIN_TIMEOUT => return Err(held),
            _ => pause(millis(25)).await,
        }
    }
}

fn share(engine: Arc<EmbeddedEngine>, dir: &Path) -> Result<Sharing> {
    let audit = Audit::in_file(&dir.join(AUDIT))?;
    let gateway = Gateway::new(engine, Tokens::open()).audit(audit);
    gateway.share_in(dir)
}

/// Uses a directory even if no socket can be made in it.
fn warned(shared: Result<Sharing>) -> Option<Sharing> {
    let warn = |error: &Error| tracing::warn!(%error, "other processes cannot join: the directory has no socket");
    shared.inspect_err(warn).ok()
}

/// Whether the call failed before it was sent.
fn was_not_sent(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.is::<io::Error>())
}

/// Makes a call, and repeats it if the other process has ended: the same ids change nothing twice.
/// An edit has no id, so it is repeated only if it was not sent.
macro_rules! through {
    ($self:ident, $may_repeat:literal, $verb:ident($($namespace:ident)?; $($argument:ident),*)) => {{
        if let Some(engine) = $self.here() {
            return engine.$verb($($namespace,)? $($argument),*).await;
        }
        // Read before the engine is: a failure from here on belongs to that attempt.
        let before = *$self.attempts.lock().await;
        let engine = $self.engine();
        match engine.$verb($($namespace,)? $($argument.clone()),*).await {
            Err(error) => {
                let engine = $self.after(error, $may_repeat, before).await?;
                engine.$verb($($namespace,)? $($argument),*).await
            }
            answer => answer,
        }
    }};
}

#[async_trait]
impl Engine for SharedDirectory {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        through!(self, true, enqueue(namespace; jobs))
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        through!(self, true, claim(namespace; claim))
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        through!(self, true, extend(namespace; leases))
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        through!(self, true, settle(namespace; settle))
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        through!(self, true, wait(namespace; what, until))
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        through!(self, true, get(namespace; targets, explain))
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        through!(self, true, list(namespace; list))
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        if let Some(engine) = self.here()
            && let Some(audit) = self.audit().await
        {
            return audit.edit(&*engine, namespace, edit).await;
        }
        through!(self, false, edit(namespace; edit))
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        through!(self, true, stats(namespace; request))
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        if let Some(engine) = self.here()
            && let Some(audit) = self.audit().await
        {
            return audit.control(&*engine, namespace, control).await;
        }
        through!(self, false, control(namespace; control))
    }

    async fn maintain(&self) -> Result<Maintained> {
        through!(self, true, maintain(;))
    }

    async fn info(&self) -> Result<Info> {
        through!(self, true, info(;))
    }
}
