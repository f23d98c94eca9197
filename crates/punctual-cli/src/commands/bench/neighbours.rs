//! `punctual bench neighbours`: what a call costs beside other people's queues and leases.

use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use punctual::engine::{
    Action, Claim, Edit, Lease, LeaseReport, Select, Settle, Settlement, StatsRequest, Target,
    WorkerId,
};
use punctual::sync::Lock;
use punctual::time::hours;
use punctual::{Engine, Error, ErrorKind, JobId, JobRecord, Namespace, NewJob, Outcome};

use super::{Place, at_once, cpu, leftovers};
use crate::args::Session;
use crate::failure::Result;
use crate::output::object;

/// CPU of one call beside many queues and leases
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench neighbours --queues 10000 --leases 10000 --engine $REDIS
  punctual bench neighbours --queues 0 --leases 0 --engine $REDIS

Fills a namespace of its own with queues of one job each, and with leases of one job and an hour
each. Then measures single calls: statistics of a page of 100 queues, a claim of one job from one
more queue, and a cancel of one job there. Medians in ms of CPU, user plus system: of the servers on Redis, of
this process where the engine runs in it; null behind a gateway. Everything is removed at the end.")]
pub(crate) struct Args {
    /// Queues with a job each
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    queues: u64,

    /// Leases of one job and an hour
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    leases: u64,
}

const BATCH: u64 = 500;
const LEASE: Duration = hours(1);
/// The queue whose jobs are leased, and the one that is called for.
const LEASED: &str = "leased";
const OWN: &str = "own";
/// Queues of a page of statistics.
const PAGE: usize = 100;
/// Calls of each kind.
const CALLS: usize = 21;

impl Args {
    pub(super) async fn run(self, place: &Place) -> Result<()> {
        let neighbours = Neighbours {
            engine: &*place.session.engine,
            namespace: &place.session.namespace,
            worker: WorkerId::random(),
            leases: Mutex::default(),
        };
        let measured = match neighbours.fill(&self).await {
            Ok(()) => neighbours.measure(place).await,
            Err(error) => Err(error),
        };
        // Whatever came of it, an engine that others use is left as it was.
        let removed = neighbours.remove(&self, &place.session).await;
        let measured = measured?;
        removed?;
        let out = place.session.out;
        if out.is_json() {
            return out.json(&object!({
                "stats_ms": measured.stats,
                "claim_ms": measured.claim,
                "cancel_ms": measured.cancel,
            }));
        }
        let cell = |ms: Option<f64>| ms.map_or("not known".into(), |ms| format!("{ms} ms"));
        out.card(&[
            ("engine", place.engine.clone()),
            (
                "beside",
                format!("{} queues, {} leases", self.queues, self.leases),
            ),
            ("stats", cell(measured.stats)),
            ("claim", cell(measured.claim)),
            ("cancel", cell(measured.cancel)),
        ])
    }
}

/// Medians of the CPU of one call, in ms.
#[derive(Default)]
struct Measured {
    stats: Option<f64>,
    claim: Option<f64>,
    cancel: Option<f64>,
}

/// What fills the namespace.
struct Neighbours<'a> {
    engine: &'a dyn Engine,
    namespace: &'a Namespace,
    worker: WorkerId,
    /// How the leases are to be ended.
    leases: Mutex<Vec<LeaseReport>>,
}

impl Neighbours<'_> {
    async fn fill(&self, args: &Args) -> Result<()> {
        self.enqueue(args.queues, name).await?;
        self.enqueue(args.leases, |_| LEASED.into()).await?;
        at_once(args.leases, async |_| {
            let mut claim = Claim::new(self.worker, LEASED, 1);
            claim.lease_duration = LEASE;
            let claimed = self.claim(claim).await?;
            let mut leases = self.leases.locked();
            leases.extend(claimed);
            Ok(())
        })
        .await
    }

    async fn enqueue(&self, jobs: u64, queue: fn(u64) -> String) -> Result<()> {
        at_once(jobs.div_ceil(BATCH), async |batch| {
            let numbers = batch * BATCH..((batch + 1) * BATCH).min(jobs);
            let jobs = numbers.map(|nth| NewJob::new(queue(nth), "{}")).collect();
            let sent = self.engine.enqueue(self.namespace, jobs).await?;
            match sent.receipts.iter().all(|it| it.verdict.is_accepted()) {
                true => Ok(()),
                false => Err(Error::new(
                    ErrorKind::EngineFull,
                    "the engine refused jobs of the bench",
                )),
            }
        })
        .await
    }

    /// Claims, and answers how the leases are to be ended.
    async fn claim(&self, claim: Claim) -> punctual::Result<Vec<LeaseReport>> {
        let claimed = self.engine.claim(self.namespace, claim).await?;
        if claimed.leases.is_empty() {
            let message = "a claim of the bench brought no job";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let end = |job: &JobRecord| Settlement::new(job.id, job.attempt, Outcome::Completed);
        let report = |lease: Lease| {
            let settlements = lease.jobs.iter().map(end).collect();
            LeaseReport::new(lease.token, settlements)
        };
        Ok(claimed.leases.into_iter().map(report).collect())
    }

    async fn settle(&self, leases: &[LeaseReport]) -> punctual::Result<()> {
        let settle = Settle::new(leases.to_vec());
        self.engine.settle(self.namespace, settle).await.map(drop)
    }

    /// Ends the leases, deletes the jobs and the queues.
    async fn remove(&self, args: &Args, session: &Session) -> Result<()> {
        let leases = std::mem::take(&mut *self.leases.locked());
        for leases in leases.chunks(BATCH as usize) {
            self.settle(leases).await?;
        }
        let queues = [OWN, LEASED].map(String::from);
        let queues: Vec<String> = queues
            .into_iter()
            .chain((0..args.queues).map(name))
            .collect();
        leftovers::remove(session, &queues).await
    }

    /// Measures single calls.
    async fn measure(&self, place: &Place) -> Result<Measured> {
        let Some(cpu) = CallCpu::new(place).await? else {
            return Ok(Measured::default());
        };
        let own: Vec<NewJob> = (0..2 * CALLS).map(|_| NewJob::new(OWN, "{}")).collect();
        // The last ones are cancelled, the first ones claimed.
        let ids: Vec<JobId> = own.iter().rev().map(|job| job.id).collect();
        self.engine.enqueue(self.namespace, own).await?;
        let mut measured = [const { Vec::new() }; 3];
        for id in ids.into_iter().take(CALLS) {
            let page = StatsRequest::default().limit(PAGE);
            let stats = self.engine.stats(self.namespace, page);
            measured[0].push(cpu.of(stats).await?.0);
            let cancel = Edit::new(Select::Targets(vec![Target::Id(id)]), Action::Cancel);
            let cancel = self.engine.edit(self.namespace, cancel);
            measured[2].push(cpu.of(cancel).await?.0);
            let claim = self.claim(Claim::new(self.worker, OWN, 1));
            let (used, claimed) = cpu.of(claim).await?;
            measured[1].push(used);
            self.settle(&claimed).await?;
        }
        let [stats, claim, cancel] = measured.map(median_ms);
        Ok(Measured {
            stats,
            claim,
            cancel,
        })
    }
}

/// The name of a neighbour's queue.
fn name(nth: u64) -> String {
    format!("neighbour-{nth}")
}

/// Counts the CPU of single calls.
struct CallCpu<'a> {
    place: &'a Place,
    /// What it takes to ask for it.
    asking: Duration,
}

impl<'a> CallCpu<'a> {
    /// None where it cannot be known.
    async fn new(place: &'a Place) -> Result<Option<Self>> {
        let zero = Self {
            place,
            asking: Duration::ZERO,
        };
        if zero.now().await?.is_none() {
            return Ok(None);
        }
        let mut asking = Vec::new();
        for _ in 0..CALLS {
            asking.push(zero.of(async { Ok(()) }).await?.0);
        }
        asking.sort_unstable();
        Ok(Some(Self {
            asking: asking[asking.len() / 2],
            place,
        }))
    }

    async fn now(&self) -> Result<Option<Duration>> {
        let connection = &self.place.connection;
        match connection.is_here() {
            true => Ok(Some(cpu::of_process())),
            false => connection.store_cpu().await,
        }
    }

    /// The CPU of a call, and its answer.
    async fn of<T>(
        &self,
        call: impl Future<Output = punctual::Result<T>>,
    ) -> Result<(Duration, T)> {
        let before = self.now().await?.unwrap_or_default();
        let answer = call.await?;
        let after = self.now().await?.unwrap_or_default();
        Ok((
            after.saturating_sub(before).saturating_sub(self.asking),
            answer,
        ))
    }
}

/// The median in ms, with three decimals.
fn median_ms(mut spans: Vec<Duration>) -> Option<f64> {
    spans.sort_unstable();
    let median = spans.get(spans.len() / 2)?;
    Some((median.as_secs_f64() * 1e6).round() / 1e3)
}
