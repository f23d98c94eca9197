//! `punctual bench footprint`: the bytes of a waiting job in the store.

use std::time::Duration;

use bytes::Bytes;
use punctual::time::{days, hours};
use punctual::{Due, NewJob, Queue};

use super::job::{Kind, QUEUE, Recipe};
use super::{Dice, Place, leftovers};
use crate::args::{Session, span_of};
use crate::failure::Result;
use crate::output::{count, object};
use crate::progress::Progress;

/// Bytes of the store per waiting job
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench footprint --jobs 1000000 --payload-bytes 100
  punctual bench footprint --jobs 1000000 --due-within 1h
  punctual bench footprint --job unique --batch 1

Half of the jobs are ready, half fall due within 30 days; with --due-within none is ready. Jobs of
another kind than plain are due at once, but for those whose kind has a due. Their kind has 16
bytes. Sizes include the payload; null where the engine reports none.")]
pub(crate) struct Args {
    /// What the jobs have besides their payload
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Plain)]
    job: Kind,

    /// Jobs
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: u64,

    /// Jobs per enqueue
    #[arg(long, value_name = "B", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1000))]
    batch: u64,

    /// Bytes of each payload
    #[arg(long, value_name = "P", default_value_t = 100)]
    payload_bytes: usize,

    /// All jobs fall due within this span
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    due_within: Option<Duration>,
}

const KIND: &str = "bench.sixteen_by";

impl Args {
    pub(super) async fn run(self, place: &Place) -> Result<()> {
        let session = &place.session;
        let before = session.engine.info().await?.store_bytes;
        self.fill(session).await?;
        let after = session.engine.info().await?.store_bytes;
        let per_job = before.zip(after).map(|(before, after)| {
            let bytes = after.saturating_sub(before) as f64 / self.jobs as f64;
            (bytes * 10.0).round() / 10.0
        });
        leftovers::remove(session, &[QUEUE.to_owned()]).await?;
        if session.out.is_json() {
            return session
                .out
                .json(&object!({"jobs": self.jobs, "bytes_per_job": per_job}));
        }
        let reported = per_job.map_or("not reported by the engine".into(), |bytes| {
            format!("{bytes} bytes")
        });
        session.out.card(&[
            ("engine", place.engine.clone()),
            (
                "jobs",
                format!(
                    "{} {} with {} bytes of payload",
                    count(self.jobs),
                    self.job.name(),
                    self.payload_bytes
                ),
            ),
            ("per job", reported),
        ])
    }

    async fn fill(&self, session: &Session) -> Result<()> {
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let recipe = Recipe {
            kind: self.job,
            jobs: self.jobs,
            payload: Bytes::from(vec![b'x'; self.payload_bytes]),
            ahead: hours(1),
            kept: hours(1),
            now: session.engine.info().await?.now,
        };
        let mut dice = Dice::new();
        let progress = Progress::new(session.out, self.jobs, "jobs");
        let mut sent = 0;
        while sent < self.jobs {
            let until = (sent + self.batch).min(self.jobs);
            let batch: Vec<NewJob> = (sent..until)
                .map(|nth| {
                    let mut job = recipe.job(nth, &mut dice).kind(KIND);
                    if let Some(due) = self.due(nth, &mut dice) {
                        job.due = due;
                    }
                    job
                })
                .collect();
            queue.enqueue_many(batch).await?;
            sent = until;
            progress.set(sent);
        }
        progress.finish();
        Ok(())
    }

    /// The due of the job of that number, if its kind does not say it.
    fn due(&self, nth: u64, dice: &mut Dice) -> Option<Due> {
        let within = match (self.due_within, self.job) {
            (Some(within), _) => within,
            (None, Kind::Plain) if nth.is_multiple_of(2) => return Some(Due::Now),
            (None, Kind::Plain) => days(30),
            (None, _) => return None,
        };
        let within = (within.as_micros() as u64).max(1);
        Some(Due::After(Duration::from_micros(dice.below(within))))
    }
}
