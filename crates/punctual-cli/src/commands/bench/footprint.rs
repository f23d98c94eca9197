//! `punctual bench footprint`: the bytes of a waiting job in the store.

use bytes::Bytes;
use punctual::engine::{Action, Control, Controlled, Edit, Filter, Select};
use punctual::time::days;
use punctual::{Due, NewJob, Queue};

use super::{Dice, Place};
use crate::args::Session;
use crate::failure::Result;
use crate::output::{count, object};
use crate::progress::Progress;

/// Bytes of the store per waiting job
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench footprint --jobs 1000000 --payload-bytes 100

Half of the jobs are ready, half fall due within 30 days; their kind has 16 bytes. Sizes include the payload; null where the engine reports none.")]
pub(crate) struct Args {
    /// Jobs
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: u64,

    /// Bytes of each payload
    #[arg(long, value_name = "P", default_value_t = 100)]
    payload_bytes: usize,
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
        empty(session).await?;
        if session.out.is_json() {
            return session
                .out
                .json(&object!({"jobs": self.jobs, "bytes_per_job": per_job}));
        }
        let told = per_job.map_or("not reported by the engine".into(), |bytes| {
            format!("{bytes} bytes")
        });
        session.out.card(&[
            ("engine", place.engine.clone()),
            (
                "jobs",
                format!(
                    "{} with {} bytes of payload",
                    count(self.jobs),
                    self.payload_bytes
                ),
            ),
            ("per job", told),
        ])
    }

    async fn fill(&self, session: &Session) -> Result<()> {
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let payload = Bytes::from(vec![b'x'; self.payload_bytes]);
        let month = days(30).as_micros() as u64;
        let mut dice = Dice::new();
        let progress = Progress::new(session.out, self.jobs, "jobs");
        let mut sent = 0;
        while sent < self.jobs {
            let until = (sent + 1_000).min(self.jobs);
            let batch: Vec<NewJob> = (sent..until)
                .map(|nth| NewJob {
                    kind: KIND.into(),
                    content_type: "text/plain".into(),
                    due: match nth % 2 {
                        0 => Due::Now,
                        _ => Due::After(std::time::Duration::from_micros(dice.below(month))),
                    },
                    ..NewJob::new("bench", payload.clone())
                })
                .collect();
            queue.enqueue_many(batch).await?;
            sent = until;
            progress.set(sent);
        }
        progress.finish();
        Ok(())
    }
}

/// Leaves nothing behind in an engine that is somebody's.
async fn empty(session: &Session) -> Result<()> {
    let mut cursor = None;
    loop {
        let purge = Control::Purge {
            queue: "bench".into(),
            cursor,
            limit: 1_000,
        };
        match session.engine.control(&session.namespace, purge).await? {
            Controlled::Purged {
                cursor: Some(next), ..
            } => cursor = Some(next),
            _ => break,
        }
    }
    let mut cursor = None;
    loop {
        let select = Select::Filter {
            filter: Filter::default(),
            cursor,
            limit: 1_000,
        };
        let edit = Edit {
            select,
            action: Action::Delete,
            dry_run: false,
        };
        cursor = session.engine.edit(&session.namespace, edit).await?.cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}
