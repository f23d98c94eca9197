//! A memory engine that answers late, or fails, when a test says so.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use punctual::engine::*;
use punctual::sync::Lock;
use punctual::time::{ManualClock, Timestamp};
use punctual::{Engine, Error, ErrorKind, MemoryEngine, Namespace, NewJob, Result};
use tokio::sync::Semaphore;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Claim,
    List,
    Settle,
    Info,
    Stats,
}

#[derive(Debug)]
pub(crate) struct Standin {
    inner: MemoryEngine,
    holds: Option<Verb>,
    asked: Semaphore,
    answers: Semaphore,
    failure: Mutex<Option<(ErrorKind, &'static str)>>,
    health: Mutex<Option<Health>>,
    panics: AtomicBool,
    starves: AtomicBool,
}

impl Standin {
    pub(crate) fn new(clock: ManualClock) -> Self {
        Self {
            inner: MemoryEngine::with_clock(clock),
            holds: None,
            asked: Semaphore::new(0),
            answers: Semaphore::new(0),
            failure: Mutex::new(None),
            health: Mutex::new(None),
            panics: AtomicBool::new(false),
            starves: AtomicBool::new(false),
        }
    }

    /// Does what it is asked by that verb, and keeps the answer to itself.
    pub(crate) fn holds(mut self, verb: Verb) -> Self {
        self.holds = Some(verb);
        self
    }

    /// Ends once it was asked by that verb.
    pub(crate) async fn is_asked(&self) {
        self.asked.acquire().await.expect("it is open").forget();
    }

    /// Gives one of the answers that it kept, or the next.
    pub(crate) fn answer(&self) {
        self.answers.add_permits(1);
    }

    /// Gives all answers that it kept, and keeps no more.
    pub(crate) fn answer_all(&self) {
        self.answers.add_permits(1_000_000);
    }

    /// Panics instead of counting, or does no more.
    pub(crate) fn panics(&self, panics: bool) {
        self.panics.store(panics, Ordering::SeqCst);
    }

    /// Sees who claims, and gives them nothing of what they ask for, or does no more.
    pub(crate) fn starves(&self, starves: bool) {
        self.starves.store(starves, Ordering::SeqCst);
    }

    /// Refuses to enqueue, extend, list, count and wait for changes from now on.
    pub(crate) fn fail(&self, kind: ErrorKind, why: &'static str) {
        *self.failure.locked() = Some((kind, why));
    }

    /// Says that of its health from now on.
    pub(crate) fn feels(&self, health: Health) {
        *self.health.locked() = Some(health);
    }

    async fn held(&self, verb: Verb) {
        if self.holds == Some(verb) {
            self.asked.add_permits(1);
            self.answers.acquire().await.expect("it is open").forget();
        }
    }

    fn refused(&self) -> Result<()> {
        match *self.failure.locked() {
            Some((kind, why)) => Err(Error::new(kind, why)),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Engine for Standin {
    async fn claim(&self, namespace: &Namespace, mut claim: Claim) -> Result<Claimed> {
        if self.starves.load(Ordering::SeqCst) {
            claim.queues = vec!["none".to_owned()];
        }
        let claimed = self.inner.claim(namespace, claim).await;
        self.held(Verb::Claim).await;
        claimed
    }

    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        self.refused()?;
        self.inner.enqueue(namespace, jobs).await
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        self.refused()?;
        self.inner.extend(namespace, leases).await
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        let settled = self.inner.settle(namespace, settle).await;
        self.held(Verb::Settle).await;
        settled
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        if let WaitFor::Changes(_) = what {
            self.refused()?;
        }
        self.inner.wait(namespace, what, until).await
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        self.inner.get(namespace, targets, explain).await
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        self.refused()?;
        self.held(Verb::List).await;
        self.inner.list(namespace, list).await
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        self.inner.edit(namespace, edit).await
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        assert!(!self.panics.load(Ordering::SeqCst), "injected");
        self.held(Verb::Stats).await;
        self.refused()?;
        self.inner.stats(namespace, request).await
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        self.inner.control(namespace, control).await
    }

    async fn maintain(&self) -> Result<Maintained> {
        self.inner.maintain().await
    }

    async fn info(&self) -> Result<Info> {
        self.held(Verb::Info).await;
        let mut info = self.inner.info().await?;
        let health = self.health.locked();
        if let Some(health) = &*health {
            info.health = health.clone();
        }
        Ok(info)
    }
}
