//! `punctual bench flows`: a flow of many steps, sent, run to its end, with one callback.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use punctual::flow::{FlowCounts, On, Plan, Role, Upstream};
use punctual::time::{Stopwatch, millis, pause, seconds, within};
use punctual::worker::{Shutdown, Verdict};
use punctual::{Context, JobId, JobRecord, NewJob, Queue, Worker};
use tokio::sync::Notify;

use super::{Place, cpu, leftovers};
use crate::args::Session;
use crate::failure::Result;
use crate::output::{count, object};

/// Steps of a flow per second, and whether its callback runs once
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench flows
  punctual bench flows --steps 20000 --shape chain --engine memory: -o json

A batch has one level, a chain one step after the other. A diamond has one root, layers of 100 that
each wait for all of the layer before, and one join. The flow is sent and sealed, then a worker
with its defaults runs it; the handler does nothing. Time counts from the first call to the run of
the flow's one callback, on_settled. A flow that comes no further for 30 s has stalled; `stalled` are
its steps that have not settled then.")]
pub(crate) struct Args {
    /// Steps
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(3..=1_000_000))]
    steps: u64,

    /// Which steps wait for which
    #[arg(long, value_name = "SHAPE", value_enum, default_value_t = Shape::Batch)]
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// No step waits for another one
    Batch,
    /// One after the other
    Chain,
    /// Layers of 100 between a root and a join
    Diamond,
}

const QUEUE: &str = "bench";
const LAYER: u64 = 100;
/// A flow that comes no further for so long has stalled.
const STALLED_AFTER: Duration = seconds(30);
/// A second run of a callback would come within this span.
const AGAIN_WITHIN: Duration = millis(300);

impl Args {
    pub(super) async fn run(self, place: &Place) -> Result<()> {
        let session = &place.session;
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let name = JobId::new().to_string();
        let plan = self.plan(&name);
        let meter = cpu::Meter::start(place).await?;
        let watch = Stopwatch::start();
        queue.send_flow(plan).await?;
        let (callbacks, took) = run(&queue, session, &name, &watch).await?;
        let used = meter.end(place).await?;
        let counts = queue.flows().get(&name).await?;
        let counts = counts.map_or_else(FlowCounts::default, |flow| flow.counts);
        leftovers::remove(session, &[QUEUE.to_owned()]).await?;

        let per_s = (self.steps as f64 / took.as_secs_f64()).round();
        let store = used.store.map(|cpu| cpu::us_each(cpu, self.steps));
        let out = session.out;
        if out.is_json() {
            return out.json(&object!({
                "engine": place.engine,
                "shape": self.shape.to_possible_value().map(|one| one.get_name().to_owned()),
                "steps": self.steps,
                "steps_per_s": per_s,
                "callbacks": callbacks,
                "stalled": counts.open,
                "client_cpu_us_per_step": cpu::us_each(used.process, self.steps),
                "store_cpu_us_per_step": store,
            }));
        }
        out.card(&[
            ("engine", place.engine.clone()),
            ("steps", count(self.steps)),
            ("run", format!("{} per second", count(per_s as u64))),
            ("callbacks", count(callbacks)),
            ("stalled", count(counts.open)),
        ])
    }

    fn plan(&self, name: &str) -> Plan {
        let mut plan = Plan::new(name);
        let job = || NewJob::new(QUEUE, "{}");
        let after = |nth: u64| (Upstream::Step(nth.to_string()), On::Completed);
        let last = self.steps - 1;
        for nth in 0..self.steps {
            let waits = match self.shape {
                _ if nth == 0 => Vec::new(),
                Shape::Batch => Vec::new(),
                Shape::Chain => vec![after(nth - 1)],
                Shape::Diamond => layer_before(nth, last).map(after).collect(),
            };
            plan.step(nth.to_string(), job(), waits);
        }
        plan.callback(Role::OnSettled, job().kind("bench.settled"));
        plan
    }
}

/// The steps that one of a diamond waits for: step 0 is the root, `last` the join.
fn layer_before(nth: u64, last: u64) -> std::ops::Range<u64> {
    let first_of = |layer: u64| 1 + layer * LAYER;
    // The join waits for the last layer, also if that is not full.
    let layer = match nth == last {
        true => (last - 1).div_ceil(LAYER),
        false => (nth - 1) / LAYER,
    };
    match layer {
        0 => 0..1,
        layer => first_of(layer - 1)..first_of(layer).min(last),
    }
}

/// Runs the flow until its callback has run; how often that was, and how long it took.
async fn run(
    queue: &Queue,
    session: &Session,
    name: &str,
    watch: &Stopwatch,
) -> Result<(u64, Duration)> {
    let (steps, callbacks) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let all = Arc::new(Notify::new());
    let (ran, fired, last) = (steps.clone(), callbacks.clone(), all.clone());
    let took = Arc::new(AtomicU64::new(0));
    let (ended, since) = (took.clone(), *watch);
    let ends = async move {
        let mut seen = 0;
        loop {
            let received = within(STALLED_AFTER, all.notified()).await;
            let now = steps.load(Ordering::Relaxed);
            if received.is_some() || now == seen {
                break;
            }
            seen = now;
        }
        pause(AGAIN_WITHIN).await;
    };
    Worker::new(&session.engine)
        .namespace(session.namespace.clone())
        .handle_any(move |job: JobRecord, _: Context| {
            ran.fetch_add(1, Ordering::Relaxed);
            if job.kind == "bench.settled" {
                let us = since.elapsed().as_micros() as u64;
                let _ = ended.compare_exchange(0, us, Ordering::Relaxed, Ordering::Relaxed);
                fired.fetch_add(1, Ordering::Relaxed);
                last.notify_one();
            }
            std::future::ready(Verdict::completed())
        })
        .queues([QUEUE])
        .run_until(Shutdown::from(ends))
        .await?;
    let took = match took.load(Ordering::Relaxed) {
        0 => watch.elapsed(),
        us => Duration::from_micros(us),
    };
    // What the last settlement caused is done by the sweep at the latest.
    for _ in 0..100 {
        let flow = queue.flows().get(name).await?;
        if flow.is_none_or(|flow| flow.state.is_settled()) {
            break;
        }
        queue.engine().maintain().await?;
    }
    Ok((callbacks.load(Ordering::Relaxed), took))
}
