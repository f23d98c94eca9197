//! The engine in a directory, wherever it is: in this process, or in another one that holds the
//! directory and answers on a socket in it. When that one ends, this process takes its place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use punctual::engine::{
    Claim, Claimed, Control, Controlled, Edit, Edited, Enqueued, Extend, Extended, Got, Info, List,
    Listing, Maintained, Settle, Settled, Stats, StatsRequest, Target, WaitFor, Waited,
};
use punctual::time::{Stopwatch, Timestamp, millis, pause, seconds, within};
use punctual::{Engine, Error, ErrorKind, Namespace, NewJob, Result};
use punctual_client::HttpEngine;
use punctual_embedded::{EmbeddedEngine, Options};
use punctual_gateway::{Audit, Gateway, Sharer, Sharing, Tokens};
use tokio::sync::{Notify, OnceCell};

use super::{AUDIT, Manner};

/// How long whoever holds the directory may take to end, or to answer.
const PATIENCE: Duration = seconds(5);
/// How long calls of others may take to end before the engine is closed.
const DRAIN: Duration = seconds(5);

/// A directory that is open, here or elsewhere.
#[derive(Debug)]
pub(super) struct Directory {
    dir: PathBuf,
    options: Options,
    manner: Manner,
    /// By whom others are answered, if not by a gateway of our own.
    sharer: OnceLock<Sharer>,
    present: Mutex<Present>,
    /// The directory is held here now.
    came: Notify,
    /// Where changes made here are written down, by who answers nobody else.
    record: OnceCell<Option<Audit>>,
    /// Whoever changes `present` has it; counts the attempts.
    attempts: tokio::sync::Mutex<u64>,
}

#[derive(Debug)]
enum Present {
    Here(Arc<EmbeddedEngine>, Option<Sharing>),
    Elsewhere(HttpEngine),
}

impl Directory {
    pub(super) async fn open(dir: PathBuf, options: Options, manner: Manner) -> Result<Self> {
        let sharer = OnceLock::new();
        let present = find(&dir, &options, manner, &sharer).await?;
        Ok(Self {
            dir,
            // Once it is there, one that is missing was taken away by somebody.
            options: options.create(false),
            manner,
            sharer,
            present: Mutex::new(present),
            came: Notify::new(),
            record: OnceCell::new(),
            attempts: tokio::sync::Mutex::default(),
        })
    }

    /// Lets others be answered by this one whenever the directory is held here.
    pub(super) fn share_by(&self, sharer: Sharer) {
        let sharer = self.sharer.get_or_init(|| sharer);
        if let Present::Here(_, sharing) = &mut *self.present() {
            *sharing = warned(sharer.share_in(&self.dir));
        }
    }

    /// Answers others no more.
    pub(super) async fn unshare(&self) {
        let sharing = match &mut *self.present() {
            Present::Here(_, sharing) => sharing.take(),
            Present::Elsewhere(_) => None,
        };
        if let Some(sharing) = sharing {
            sharing.drain(DRAIN).await;
        }
    }

    /// Completes when the engine stops itself while it is held here.
    pub(super) async fn stopped(&self) -> Error {
        loop {
            let came = self.came.notified();
            match self.here() {
                Some(engine) => return engine.stopped().await,
                None => came.await,
            }
        }
    }

    /// Ends it in good order, if it is held here.
    pub(super) async fn close(&self) -> Result<()> {
        self.unshare().await;
        match self.here() {
            Some(engine) => engine.close().await,
            None => Ok(()),
        }
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn here(&self) -> Option<Arc<EmbeddedEngine>> {
        match &*self.present() {
            Present::Here(engine, _) => Some(engine.clone()),
            Present::Elsewhere(_) => None,
        }
    }

    fn engine(&self) -> Arc<dyn Engine> {
        match &*self.present() {
            Present::Here(engine, _) => engine.clone(),
            Present::Elsewhere(engine) => Arc::new(engine.clone()),
        }
    }

    /// The record of changes, if it is for us to write: a gateway writes down those made through it,
    /// and a process that has one changes nothing by itself that a person asked for.
    async fn record(&self) -> Option<&Audit> {
        if self.manner != Manner::Join || self.sharer.get().is_some() {
            return None;
        }
        let path = self.dir.join(AUDIT);
        let open = async move || {
            let audit = Audit::in_file(&path);
            // A full disk shall not keep a person from deleting.
            let warn = |error: &Error| tracing::warn!(%error, "this change is not on record");
            audit.inspect_err(warn).ok()
        };
        self.record.get_or_init(open).await.as_ref()
    }

    /// After a call of another process failed: where the engine is now, if the call may be made
    /// again there.
    async fn after(&self, error: Error, may_repeat: bool, before: u64) -> Result<Arc<dyn Engine>> {
        if error.kind() != ErrorKind::EngineUnavailable {
            return Err(error);
        }
        let mut attempts = self.attempts.lock().await;
        if *attempts == before && self.here().is_none() {
            *attempts += 1;
            let shown = self.dir.display();
            tracing::info!(directory = %shown, "the process that held the directory is gone");
            let found = find(&self.dir, &self.options, self.manner, &self.sharer).await;
            match found {
                Ok(present) => {
                    *self.present() = present;
                    self.came.notify_waiters();
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

/// Opens the directory, or finds who has it; waits a while for one that is about to end.
async fn find(
    dir: &Path,
    options: &Options,
    manner: Manner,
    sharer: &OnceLock<Sharer>,
) -> Result<Present> {
    let waited = Stopwatch::start();
    loop {
        let held = match EmbeddedEngine::open(dir, options.clone()) {
            Ok(engine) => {
                let engine = Arc::new(engine);
                let shared = match sharer.get() {
                    Some(sharer) => Some(sharer.share_in(dir)),
                    None if manner == Manner::Join => None,
                    None => Some(share(engine.clone(), dir)),
                };
                return Ok(Present::Here(engine, shared.and_then(warned)));
            }
            Err(error) if error.kind() == ErrorKind::DataLocked && manner != Manner::Hold => error,
            Err(error) => return Err(error),
        };
        let elsewhere = HttpEngine::in_directory(dir);
        match within(PATIENCE, elsewhere.info()).await {
            Some(Ok(_)) => {
                let shown = dir.display();
                tracing::info!(directory = %shown, "held by another process, which is asked");
                return Ok(Present::Elsewhere(elsewhere));
            }
            Some(Err(error)) if error.kind() != ErrorKind::EngineUnavailable => return Err(error),
            _ if waited.elapsed() > PATIENCE => return Err(held),
            _ => pause(millis(25)).await,
        }
    }
}

fn share(engine: Arc<EmbeddedEngine>, dir: &Path) -> Result<Sharing> {
    let audit = Audit::in_file(&dir.join(AUDIT))?;
    let gateway = Gateway::new(engine, Tokens::open()).audit(audit);
    gateway.share_in(dir)
}

/// A directory in which no socket can be made is used all the same.
fn warned(shared: Result<Sharing>) -> Option<Sharing> {
    let warn = |error: &Error| tracing::warn!(%error, "other processes find no way in here");
    shared.inspect_err(warn).ok()
}

/// Whether nobody was there to send it to.
fn was_not_sent(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.is::<io::Error>())
}

/// Makes a call, once more if whoever was asked is gone: the same ids change nothing twice. An edit
/// has none, so it is made again only if it was not sent.
macro_rules! through {
    ($self:ident, $may_repeat:literal, $verb:ident($($namespace:ident)?; $($argument:ident),*)) => {{
        if let Some(engine) = $self.here() {
            return engine.$verb($($namespace,)? $($argument),*).await;
        }
        // Read before the engine is looked up: whatever fails now counts as that attempt's.
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
impl Engine for Directory {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        through!(self, true, enqueue(namespace; jobs))
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        through!(self, true, claim(namespace; claim))
    }

    async fn extend(&self, namespace: &Namespace, pages: Vec<Extend>) -> Result<Extended> {
        through!(self, true, extend(namespace; pages))
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
            && let Some(audit) = self.record().await
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
            && let Some(audit) = self.record().await
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
