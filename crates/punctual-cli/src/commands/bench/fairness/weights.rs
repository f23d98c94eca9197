//! `punctual bench fairness --weights`: how exactly shares get turns by their weights.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual::engine::ShareSettings;
use punctual::time::pause;
use punctual::worker::Shutdown;
use punctual::{Context, JobRecord, NewJob, Outcome, Queue, Worker};
use tokio::sync::oneshot;

use super::QUEUE;
use crate::commands::bench::Place;
use crate::failure::{Exit, Failure, Result};
use crate::output::{count, object};

/// Weights of shares such as `1:2:5`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Weights(Vec<u32>);

/// Reads weights such as `1:2:5`.
pub(super) fn weights_of(text: &str) -> std::result::Result<Weights, String> {
    let wrong = || "use 2 to 100 weights from 1 to 1000, such as 1:2:5".to_owned();
    let read = text.split(':').map(|one| {
        let weight = one.parse().ok();
        weight.filter(|weight| (1..=1_000).contains(weight))
    });
    let weights: Vec<u32> = read.collect::<Option<_>>().ok_or_else(wrong)?;
    match (2..=100).contains(&weights.len()) {
        true => Ok(Weights(weights)),
        false => Err(wrong()),
    }
}

fn share(nth: usize) -> String {
    format!("share {nth}")
}

impl Weights {
    /// Runs jobs of a share for each weight, all of which always have some waiting, for that long.
    pub(super) async fn run(
        &self,
        place: &Place,
        jobs: u64,
        slots: u64,
        run: Duration,
        span: Duration,
    ) -> Result<()> {
        let session = &place.session;
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let of = |settings: ShareSettings, (nth, weight): (usize, &u32)| {
            settings.weight(share(nth), *weight)
        };
        let shares = self.0.iter().enumerate().fold(ShareSettings::new(), of);
        queue.limits(QUEUE).per_share(shares).set().await?;
        let all: u64 = self.0.iter().copied().map(u64::from).sum();
        for (nth, weight) in self.0.iter().enumerate() {
            let mut left = jobs * u64::from(*weight) / all + 1;
            while left > 0 {
                let part = left.min(5_000);
                let jobs = (0..part).map(|_| NewJob::new(QUEUE, "{}").share(share(nth)));
                queue.enqueue_many(jobs).await?;
                left -= part;
            }
        }
        let counters = (0..self.0.len()).map(|_| AtomicU64::new(0));
        let starts: Arc<Vec<AtomicU64>> = Arc::new(counters.collect());
        let (stop, stopped) = oneshot::channel::<()>();
        let counting = starts.clone();
        let worker = Worker::new(&session.engine)
            .namespace(session.namespace.clone())
            .queues([QUEUE])
            .concurrency(slots as usize)
            .handle_any(move |job: JobRecord, _: Context| {
                let nth = job
                    .share
                    .as_deref()
                    .and_then(|one| one.strip_prefix("share "));
                let nth = nth.and_then(|nth| nth.parse::<usize>().ok());
                if let Some(counter) = nth.and_then(|nth| counting.get(nth)) {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                async move {
                    pause(run).await;
                    Outcome::Completed
                }
            });
        let running = tokio::spawn(worker.run_until(Shutdown::from(async move {
            let _ = stopped.await;
        })));
        pause(span).await;
        let starts: Vec<u64> = starts
            .iter()
            .map(|one| one.load(Ordering::Relaxed))
            .collect();
        let _ = stop.send(());
        running
            .await
            .map_err(|error| Failure::new(Exit::Failed, "internal", error.to_string()))??;
        self.report(place, &starts, jobs, all)
    }

    fn report(&self, place: &Place, starts: &[u64], jobs: u64, all: u64) -> Result<()> {
        let sum: u64 = starts.iter().sum();
        let parts = self
            .0
            .iter()
            .map(|weight| u64::from(*weight) as f64 / all as f64);
        let errors = starts.iter().zip(parts).map(|(starts, part)| {
            let expected = sum as f64 * part;
            (*starts as f64 - expected).abs() / expected.max(1.0)
        });
        let worst = errors.fold(0.0, f64::max);
        let worst = (worst * 1e5).round() / 1e5;
        if sum >= jobs {
            let what = "all jobs ran before the end; name more with --flood";
            return Err(Failure::new(Exit::Failed, "too_short", what));
        }
        let out = place.session.out;
        if out.is_json() {
            return out.json(&object!({
                "weights": self.0,
                "starts": starts,
                "worst_error": worst,
            }));
        }
        let mut card = vec![("engine", place.engine.clone())];
        for (weight, starts) in self.0.iter().zip(starts) {
            card.push(("starts", format!("{} of weight {weight}", count(*starts))));
        }
        card.push(("worst error", format!("{} %", worst * 100.0)));
        out.card(&card)
    }
}
