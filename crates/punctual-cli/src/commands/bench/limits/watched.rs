//! An engine whose claims and settlements are noted with the engine's own instants.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use punctual::engine::{
    Claim, Claimed, Control, Controlled, Edit, Edited, Enqueued, Extend, Extended, Got, Info, List,
    Listing, Maintained, Settle, SettleVerdict, Settled, Stats, StatsRequest, Target, WaitFor,
    Waited,
};
use punctual::sync::Lock;
use punctual::time::Timestamp;
use punctual::{Engine, Namespace, NewJob, Result};

/// Jobs that a claim started, or a settle ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    Started {
        at: Timestamp,
        jobs: u64,
        /// Of these, jobs that were not due.
        early: u64,
    },
    Ended {
        at: Timestamp,
        jobs: u64,
    },
}

impl Event {
    fn order(&self) -> (Timestamp, bool) {
        match self {
            // Two steps of one microsecond: what ends made room.
            Self::Ended { at, .. } => (*at, false),
            Self::Started { at, .. } => (*at, true),
        }
    }
}

/// Every start by a claim, in order.
pub(super) fn starts(events: &[Event]) -> Vec<Timestamp> {
    let of = |event: &Event| match event {
        Event::Started { at, jobs, .. } => vec![*at; *jobs as usize],
        Event::Ended { .. } => Vec::new(),
    };
    events.iter().flat_map(of).collect()
}

/// Starts before their due.
pub(super) fn before_due(events: &[Event]) -> u64 {
    let of = |event: &Event| match event {
        Event::Started { early, .. } => *early,
        Event::Ended { .. } => 0,
    };
    events.iter().map(of).sum()
}

/// The most jobs that were leased at once, but for those whose lease ran out.
pub(super) fn most_active(events: &[Event]) -> u64 {
    let (mut active, mut most) = (0_i64, 0);
    for event in events {
        match event {
            Event::Started { jobs, .. } => active += *jobs as i64,
            Event::Ended { jobs, .. } => active -= *jobs as i64,
        }
        most = most.max(active);
    }
    most as u64
}

/// The engine of every worker of the bench.
pub(super) struct Watched {
    engine: Arc<dyn Engine>,
    events: Mutex<Vec<Event>>,
}

impl Watched {
    pub(super) fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            events: Mutex::default(),
        }
    }

    /// Jobs started and ended so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        let (mut started, mut ended) = (0, 0);
        for event in self.events.locked().iter() {
            match event {
                Event::Started { jobs, .. } => started += jobs,
                Event::Ended { jobs, .. } => ended += jobs,
            }
        }
        (started, ended)
    }

    /// All of them, by the engine's clock.
    pub(super) fn events(&self) -> Vec<Event> {
        let mut events = self.events.locked().clone();
        events.sort_by_key(Event::order);
        events
    }
}

#[async_trait]
impl Engine for Watched {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        self.engine.enqueue(namespace, jobs).await
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        let claimed = self.engine.claim(namespace, claim).await?;
        let jobs = claimed.leases.iter().flat_map(|lease| &lease.jobs);
        let started = jobs.clone().count() as u64;
        if started > 0 {
            let at = claimed.now;
            let early = jobs.filter(|job| job.due > at).count() as u64;
            self.events.locked().push(Event::Started {
                at,
                jobs: started,
                early,
            });
        }
        Ok(claimed)
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        self.engine.extend(namespace, leases).await
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        let settled = self.engine.settle(namespace, settle).await?;
        let is_new = |verdict: &&SettleVerdict| matches!(verdict, SettleVerdict::Settled { .. });
        let jobs = settled.verdicts.iter().flatten().filter(is_new).count() as u64;
        if jobs > 0 {
            let at = settled.now;
            self.events.locked().push(Event::Ended { at, jobs });
        }
        Ok(settled)
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        self.engine.wait(namespace, what, until).await
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        self.engine.get(namespace, targets, explain).await
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        self.engine.list(namespace, list).await
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        self.engine.edit(namespace, edit).await
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        self.engine.stats(namespace, request).await
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        self.engine.control(namespace, control).await
    }

    async fn maintain(&self) -> Result<Maintained> {
        self.engine.maintain().await
    }

    async fn info(&self) -> Result<Info> {
        self.engine.info().await
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watched({:?})", self.engine)
    }
}
