//! An engine between a test and the one below.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use punctual::engine::*;
use punctual::time::Timestamp;
use punctual::{Engine, Namespace, NewJob, Result};
use tokio::sync::Semaphore;

use crate::support::Under;

/// An engine some of whose verbs panic while a test says so, and that counts what it is asked.
#[derive(Debug)]
pub(crate) struct Injected {
    inner: Arc<dyn Engine>,
    pub(crate) stats: AtomicBool,
    pub(crate) info: AtomicBool,
    /// How often it was asked what it is: each worker does when it starts.
    pub(crate) infos: AtomicUsize,
    /// Notified of each call of stats, and asked for each answer.
    pub(crate) gate: OnceLock<(Arc<Semaphore>, Arc<Semaphore>)>,
    pub(crate) lists: AtomicUsize,
    /// Jobs that lists answered.
    pub(crate) listed: AtomicUsize,
    pub(crate) enqueued: AtomicUsize,
    /// Lists answer no page the latest first, as if there were several shards.
    pub(crate) is_sharded: AtomicBool,
}

impl Injected {
    pub(crate) fn over(under: &Under) -> Arc<Self> {
        Arc::new(Self {
            inner: under.engine.clone(),
            stats: AtomicBool::new(false),
            info: AtomicBool::new(false),
            infos: AtomicUsize::new(0),
            gate: OnceLock::new(),
            lists: AtomicUsize::new(0),
            listed: AtomicUsize::new(0),
            enqueued: AtomicUsize::new(0),
            is_sharded: AtomicBool::new(false),
        })
    }
}

#[async_trait]
impl Engine for Injected {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        self.enqueued.fetch_add(jobs.len(), Ordering::SeqCst);
        self.inner.enqueue(namespace, jobs).await
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        self.inner.claim(namespace, claim).await
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        self.inner.extend(namespace, leases).await
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        self.inner.settle(namespace, settle).await
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
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
        let mut listing = self.inner.list(namespace, list).await?;
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.listed.fetch_add(listing.jobs.len(), Ordering::SeqCst);
        if self.is_sharded.load(Ordering::SeqCst) {
            listing.jobs.reverse();
        }
        Ok(listing)
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        self.inner.edit(namespace, edit).await
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        assert!(!self.stats.load(Ordering::SeqCst), "injected");
        if let Some((asked, answers)) = self.gate.get() {
            asked.add_permits(1);
            answers.acquire().await.expect("it is open").forget();
        }
        self.inner.stats(namespace, request).await
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        self.inner.control(namespace, control).await
    }

    async fn maintain(&self) -> Result<Maintained> {
        self.inner.maintain().await
    }

    async fn info(&self) -> Result<Info> {
        self.infos.fetch_add(1, Ordering::SeqCst);
        assert!(!self.info.load(Ordering::SeqCst), "injected");
        self.inner.info().await
    }
}
