//! `punctual bench lifecycle`: enqueue by the public `Queue`, drain by the public `Worker`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use punctual::engine::{Action, Edit, EditVerdict, Select, Target};
use punctual::sync::Lock;
use punctual::time::{Clock, Stopwatch, SystemClock, format_span, millis, minutes, pause, seconds};
use punctual::worker::Shutdown;
use punctual::{
    Context, Error, ErrorKind, JobId, JobRecord, JobState, Namespace, NewJob, Queue, Worker,
};
use tokio::sync::Notify;

use super::job::{Kind, QUEUE, RELEASED_EACH, Recipe, handle, key, release};
use super::{Dice, Place, cpu, in_tasks, leftovers};
use crate::args::span_of;
use crate::failure::Result;
use crate::output::{count, object};

/// Jobs enqueued and run per second, and CPU per job
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench lifecycle
  punctual bench lifecycle --job order --jobs 20000 --engine $REDIS
  punctual bench lifecycle --jobs 1000000 --batch 100 --engine 'file:./bench?durability=os'

That many callers enqueue jobs in batches. Then one worker runs them; its handler does nothing. It
ends when maintenance has pruned all that the jobs left. Tombstones, kept and cancelled jobs stay
5 s for that, or as long as the address says (settled_window, retention); a gateway and a directory
with data keep their own spans. Jobs with a due ahead run once all are due, in calls of many as the
other kinds do.

CPU is user plus system, of this process with what maintenance in it takes to prune. On Redis that
of its servers is counted too, without what they use in an idle second. It is null where the engine
runs in this process, whose CPU includes it, and behind a gateway, where it is not known.")]
pub(crate) struct Args {
    /// What the jobs have besides their payload
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Plain)]
    job: Kind,

    /// Jobs
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: u64,

    /// Jobs per enqueue
    #[arg(long, value_name = "B", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    batch: u64,

    /// Bytes of each payload
    #[arg(long, value_name = "P", default_value_t = 100)]
    payload_bytes: usize,

    /// Callers that enqueue at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    callers: u64,

    /// Jobs that the worker runs at once; it claims jobs with limits or shares for its free slots
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    concurrency: u64,

    /// How far ahead dues lie, of kinds that have one: so far to twice as far
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = span_of)]
    ahead: Duration,
}

/// Pruning that would take longer is not waited for.
const PRUNE_MAX: Duration = minutes(5);
/// What is not pruned so long after its span is of others, or waits for something else.
const PRUNE_MARGIN: Duration = seconds(2);

impl Args {
    pub(super) async fn run(self, place: &Place) -> Result<()> {
        let load = Load::new(&self, place).await?;
        let meter = cpu::Meter::start(place).await?;
        let enqueued = load.enqueue().await?;
        let cancelled = load.cancel().await?;
        let runs = self.jobs - cancelled;
        let drained = load.drain(runs).await?;
        let lived = cpu::of_process();
        load.prune(place).await?;
        let pruning = cpu::us_each(cpu::of_process() - lived, self.jobs);
        let used = meter.end(place).await?;
        leftovers::remove(&place.session, &[QUEUE.to_owned()]).await?;

        let per_s = |jobs: u64, took: Duration| match took.is_zero() {
            true => 0.0,
            false => (jobs as f64 / took.as_secs_f64()).round(),
        };
        let (enqueued, drained) = (per_s(self.jobs, enqueued), per_s(runs, drained));
        let client = cpu::us_each(used.process, self.jobs);
        let store = used.store.map(|cpu| cpu::us_each(cpu, self.jobs));
        let out = place.session.out;
        if out.is_json() {
            return out.json(&object!({
                "engine": place.engine,
                "job": self.job.name(),
                "jobs": self.jobs,
                "enqueue_per_s": enqueued,
                "drain_per_s": drained,
                "client_cpu_us_per_job": client,
                "pruning_cpu_us_per_job": pruning,
                "store_cpu_us_per_job": store,
            }));
        }
        let of_store = match store {
            Some(store) => format!(", {store} µs in the store's"),
            None => String::new(),
        };
        out.card(&[
            ("engine", place.engine.clone()),
            (
                "jobs",
                format!(
                    "{} {} of {} bytes",
                    count(self.jobs),
                    self.job.name(),
                    self.payload_bytes
                ),
            ),
            ("enqueued", format!("{} per second", count(enqueued as u64))),
            ("drained", format!("{} per second", count(drained as u64))),
            (
                "CPU",
                format!("{client} µs per job in this process, {pruning} of it to prune{of_store}"),
            ),
        ])
    }
}

/// Jobs of one kind on their way through an engine.
struct Load {
    queue: Queue,
    namespace: Namespace,
    recipe: Recipe,
    batch: u64,
    callers: u64,
    concurrency: u64,
    /// Those that wait for a name.
    held: Arc<Mutex<Vec<JobId>>>,
    /// How long what they leave may stay.
    kept: Duration,
}

impl Load {
    async fn new(args: &Args, place: &Place) -> Result<Self> {
        let session = &place.session;
        let info = session.engine.info().await?;
        let window = info.settled_window;
        let kept = match args.job {
            Kind::Order => window.max(info.limits.cancelled_retention),
            _ => window,
        };
        Ok(Self {
            queue: Queue::new(&session.engine).namespace(session.namespace.clone()),
            namespace: session.namespace.clone(),
            recipe: Recipe {
                kind: args.job,
                jobs: args.jobs,
                payload: Bytes::from(vec![b'x'; args.payload_bytes]),
                ahead: args.ahead,
                kept: window,
                now: info.now,
            },
            batch: args.batch,
            callers: args.callers,
            concurrency: args.concurrency,
            held: Arc::default(),
            kept,
        })
    }

    async fn enqueue(&self) -> Result<Duration> {
        let next = Arc::new(AtomicU64::new(0));
        let (jobs, batch) = (self.recipe.jobs, self.batch);
        let watch = Stopwatch::start();
        in_tasks(self.callers, || {
            let (queue, recipe) = (self.queue.clone(), self.recipe.clone());
            let (next, held) = (next.clone(), self.held.clone());
            async move {
                let mut dice = Dice::new();
                while let Some(numbers) = take(&next, batch, jobs) {
                    let batch: Vec<_> = numbers.map(|nth| recipe.job(nth, &mut dice)).collect();
                    let ids: Vec<JobId> = batch.iter().map(|job| job.id).collect();
                    send(&queue, batch).await?;
                    if recipe.kind == Kind::Held {
                        let mut held = held.locked();
                        held.extend(ids);
                    }
                }
                Ok(())
            }
        })
        .await?;
        Ok(watch.elapsed())
    }

    /// Cancels by key what is not to run, in batches; how many.
    async fn cancel(&self) -> Result<u64> {
        let (jobs, batch) = (self.recipe.jobs, self.batch);
        let numbers: Vec<u64> = (0..jobs)
            .filter(|nth| self.recipe.is_cancelled(*nth))
            .collect();
        let (numbers, next) = (Arc::new(numbers), Arc::new(AtomicU64::new(0)));
        let count = numbers.len() as u64;
        in_tasks(self.callers.min(count), || {
            let (engine, namespace) = (self.queue.engine().clone(), self.namespace.clone());
            let (numbers, next) = (numbers.clone(), next.clone());
            async move {
                while let Some(places) = take(&next, batch, count) {
                    let target = |nth: &u64| Target::Unique {
                        queue: QUEUE.into(),
                        key: key(*nth),
                    };
                    let places = places.start as usize..places.end as usize;
                    let edit = Edit::new(
                        Select::Targets(numbers[places].iter().map(target).collect()),
                        Action::Cancel,
                    );
                    let edited = engine.edit(&namespace, edit).await?;
                    let is_done = |(_, verdict): &(Option<JobId>, EditVerdict)| {
                        *verdict == EditVerdict::Done(JobState::Cancelled)
                    };
                    if !edited.verdicts.iter().all(is_done) {
                        let message = "the engine did not cancel every job of the bench";
                        return Err(Error::new(ErrorKind::Conflict, message));
                    }
                }
                Ok(())
            }
        })
        .await?;
        Ok(count)
    }

    /// Releases what is held, and runs that many jobs.
    async fn drain(&self, runs: u64) -> Result<Duration> {
        if runs == 0 {
            return Ok(Duration::ZERO);
        }
        if matches!(self.recipe.kind, Kind::Scheduled | Kind::Order) {
            pause(self.recipe.ahead * 2).await;
        }
        let watch = Stopwatch::start();
        let held = std::mem::take(&mut *self.held.locked());
        let releases: Vec<NewJob> = held.chunks(RELEASED_EACH).map(release).collect();
        for batch in releases.chunks(self.batch as usize) {
            send(&self.queue, batch.to_vec()).await?;
        }
        let (kind, done) = (self.recipe.kind, AtomicU64::new(0));
        let all = Arc::new(Notify::new());
        let last = all.clone();
        Worker::new(self.queue.engine())
            .namespace(self.namespace.clone())
            .concurrency(self.concurrency as usize)
            .handle_any(move |job: JobRecord, ctx: Context| {
                let (verdict, ends) = handle(kind, &job, &ctx);
                if ends && done.fetch_add(1, Ordering::Relaxed) + 1 == runs {
                    last.notify_one();
                }
                std::future::ready(verdict)
            })
            .queues([QUEUE])
            .run_until(Shutdown::from(async move { all.notified().await }))
            .await?;
        Ok(watch.elapsed())
    }

    /// Maintains the store until nothing of the jobs is left to prune.
    async fn prune(&self, place: &Place) -> Result<()> {
        let out = place.session.out;
        if self.kept > PRUNE_MAX {
            let span = format_span(self.kept);
            out.note(format!(
                "pruning is not counted: this engine keeps settled jobs for {span}"
            ));
            return Ok(());
        }
        let watch = Stopwatch::start();
        loop {
            let done = match place.maintainer.maintain().await {
                Ok(done) => done,
                Err(error) if !error.is_retryable() => {
                    out.note(format!("pruning is not counted: {error}"));
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
            if done.moved + done.expired + done.rescued + done.pruned > 0 {
                continue;
            }
            let left = (self.kept + PRUNE_MARGIN).saturating_sub(watch.elapsed());
            let Some(next) = done.next.filter(|_| !left.is_zero()) else {
                return Ok(());
            };
            let wait = next.since(SystemClock.now());
            pause(wait.clamp(millis(5), left.max(millis(5)))).await;
        }
    }
}

/// The next numbers of a batch, below `end`; none at the end.
fn take(next: &AtomicU64, batch: u64, end: u64) -> Option<std::ops::Range<u64>> {
    let first = next.fetch_add(batch, Ordering::Relaxed);
    (first < end).then(|| first..(first + batch).min(end))
}

async fn send(queue: &Queue, jobs: Vec<NewJob>) -> punctual::Result<()> {
    let receipts = queue.enqueue_many(jobs).await?;
    match receipts.iter().all(|receipt| receipt.verdict.is_accepted()) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::EngineFull,
            "the engine refused jobs of the bench",
        )),
    }
}
