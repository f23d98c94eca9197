//! An engine that measures every call to the engine under it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use metrics::Histogram;
use punctual::engine::{
    Claim, Claimed, Control, Controlled, Edit, Edited, Enqueued, Extend, ExtendVerdict, Extended,
    Got, Info, List, Listing, Maintained, Settle, Settled, Stats, StatsRequest, Target, WaitFor,
    Waited,
};
use punctual::time::{Stopwatch, Timestamp};
use punctual::{Engine, Namespace, NewJob, Outcome, Result};
use punctual_push::MaintenanceHealth;

use super::GatewayMetrics;
use crate::health;

/// An engine whose round trips and work are counted, whichever route they came by, and whose health
/// is that of this process too.
///
/// Waits are not timed: they last as long as they were asked to.
pub(crate) struct MeasuredEngine {
    engine: Arc<dyn Engine>,
    metrics: Arc<GatewayMetrics>,
    maintenance: MaintenanceHealth,
    round: Duration,
    trips: [Histogram; VERBS.len()],
}

const VERBS: [&str; 11] = [
    "enqueue", "claim", "extend", "settle", "get", "list", "edit", "stats", "control", "maintain",
    "info",
];

impl MeasuredEngine {
    /// Whose loops take no longer than that for a round.
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        metrics: Arc<GatewayMetrics>,
        maintenance: MaintenanceHealth,
        round: Duration,
    ) -> Self {
        let trips = VERBS.map(|verb| {
            metrics
                .registry
                .spans("punctual_engine_seconds", &[("verb", verb)])
        });
        Self {
            engine,
            metrics,
            maintenance,
            round,
            trips,
        }
    }

    async fn timed<T>(&self, verb: usize, call: impl Future<Output = Result<T>>) -> Result<T> {
        let watch = Stopwatch::start();
        let answer = call.await;
        self.trips[verb].record(watch.elapsed());
        answer
    }
}

#[async_trait]
impl Engine for MeasuredEngine {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        let enqueued = self.timed(0, self.engine.enqueue(namespace, jobs)).await?;
        for work in self.metrics.work(namespace) {
            work.enqueued(&enqueued.receipts);
        }
        Ok(enqueued)
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        let claimed = self.timed(1, self.engine.claim(namespace, claim)).await?;
        for job in claimed.leases.iter().flat_map(|lease| &lease.jobs) {
            self.metrics.claimed(namespace, &job.queue);
        }
        Ok(claimed)
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        let extended = self.timed(2, self.engine.extend(namespace, leases)).await?;
        for verdict in &extended.verdicts {
            let lost = match verdict {
                ExtendVerdict::LeaseLost => 1,
                ExtendVerdict::Extended { lost, .. } => lost.len() as u64,
                _ => 0,
            };
            for work in self.metrics.work(namespace) {
                work.lease_lost(lost);
            }
        }
        Ok(extended)
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        let outcomes: Vec<Outcome> = settle
            .leases
            .iter()
            .flat_map(|lease| lease.settlements.iter().map(|one| one.outcome.clone()))
            .collect();
        let measured: Vec<_> = settle
            .leases
            .iter()
            .map(|lease| (lease.lateness_us.clone(), lease.run_time_us.clone()))
            .collect();
        let settled = self.timed(3, self.engine.settle(namespace, settle)).await?;
        for work in self.metrics.work(namespace) {
            for (outcome, verdict) in outcomes.iter().zip(settled.verdicts.iter().flatten()) {
                work.settled(outcome, verdict);
            }
            for (lateness, run_time) in &measured {
                work.measured(lateness, run_time);
            }
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
        let got = self.engine.get(namespace, targets, explain);
        self.timed(4, got).await
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        self.timed(5, self.engine.list(namespace, list)).await
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        self.timed(6, self.engine.edit(namespace, edit)).await
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        self.timed(7, self.engine.stats(namespace, request)).await
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        self.timed(8, self.engine.control(namespace, control)).await
    }

    async fn maintain(&self) -> Result<Maintained> {
        self.timed(9, self.engine.maintain()).await
    }

    async fn info(&self) -> Result<Info> {
        let mut info = self.timed(10, self.engine.info()).await?;
        info.health = health::seen(info.health, &self.maintenance, self.round);
        Ok(info)
    }
}

impl fmt::Debug for MeasuredEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MeasuredEngine({:?})", self.engine)
    }
}
