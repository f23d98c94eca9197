//! `punctual export`: every job with its past, flows, then settings, schedules and subscriptions,
//! one JSON document per line.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use punctual::engine::{Filter, List, ListBy};
use punctual::{JobId, JobRecord, JobState};

use super::export_rows;
use super::links::Links;
use crate::args::{Global, Session};
use crate::connect::Make;
use crate::failure::{Failure, Result};
use crate::output::{counted, object};
use crate::progress::Progress;
use punctual_gateway::JobJson;

/// Write every job with its history, flows, settings, schedules and subscriptions for `import`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual export jobs.jsonl
  punctual export --queue mail - | gzip > mail.jsonl.gz
  punctual export - | punctual --engine file:./other import -

Jobs are in the order of their ids; those that wait for others, and jobs of flows, come after what
they wait for. An active job is imported as ready. Tombstones of completed jobs are not exported, nor
are clears that came before their jobs.
Behind the jobs are flows, the settings and limits of queues, their pauses, blocks of shares and
limits, schedules with the runs that they have left and their last success, subscriptions and named
limits. How many runs a schedule has had stays behind. With --queue, named limits, jobs of flows and
jobs that wait for others are left out. Stop workers and producers first: what runs meanwhile may run
again after the import.")]
pub(crate) struct Args {
    /// The file to write; - is standard output
    #[arg(value_name = "FILE.jsonl", default_value = "-")]
    file: PathBuf,

    /// Only this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let session = global.session(Make::Never).await?;
        let to_stdout = self.file.as_os_str() == "-";
        let written = if to_stdout {
            self.write(&session, BufWriter::new(io::stdout())).await?
        } else {
            // Whole or not there: a cut export must not look like a good one.
            let part = PathBuf::from(format!("{}.part", self.file.display()));
            let written = self.write_whole(&session, &part).await;
            if written.is_err() {
                // It may be that it was never made.
                let _ = std::fs::remove_file(&part);
            }
            written?
        };
        if !to_stdout && session.out.is_json() {
            return session
                .out
                .json(&object!({"jobs": written.jobs, "records": written.records}));
        }
        let records = match written.records {
            0 => String::new(),
            n => format!(" and {}", counted(n, "record")),
        };
        let jobs = counted(written.jobs, "job");
        session.out.note(format!("{jobs}{records} exported"));
        Ok(())
    }

    /// Writes a part file and, once it is whole, gives it its name.
    async fn write_whole(&self, session: &Session, part: &Path) -> Result<Written> {
        let file = File::create(part).map_err(|error| Failure::file("write", part, &error))?;
        let written = self.write(session, BufWriter::new(&file)).await?;
        file.sync_all()
            .and_then(|()| std::fs::rename(part, &self.file))
            .map_err(|error| Failure::file("write", &self.file, &error))?;
        Ok(written)
    }

    async fn write(&self, session: &Session, mut to: impl Write) -> Result<Written> {
        // The next run of a schedule comes with the schedule, which an import writes.
        let found = export_rows::schedules(session, self.queue.as_deref()).await?;
        let next: BTreeSet<JobId> = found.iter().filter_map(|one| one.pending).collect();
        let progress = Progress::new(session.out, 0, "jobs");
        let (mut jobs, mut left_out) = (0, 0);
        let mut links = Links::default();
        let mut cursor = None;
        loop {
            let list = List::new(ListBy::All)
                .filter(Filter::default().queue(self.queue.clone()))
                .cursor(cursor)
                .limit(1_000)
                .payloads(true);
            let listing = session.engine.list(&session.namespace, list).await?;
            for job in listing.jobs.iter().filter(|job| !next.contains(&job.id)) {
                if self.queue.is_some() && waits_for_others(job) {
                    left_out += 1;
                    continue;
                }
                if self.queue.is_none() && links.takes(job) {
                    continue;
                }
                serde_json::to_writer(&mut to, &JobJson::from(job)).map_err(io::Error::from)?;
                to.write_all(b"\n")?;
                jobs += 1;
            }
            progress.set(jobs);
            cursor = listing.cursor;
            if cursor.is_none() {
                break;
            }
        }
        let mut records = 0;
        if self.queue.is_none() {
            let (linked, parts) = links.write(session, &mut to).await?;
            (jobs, records) = (jobs + linked, parts);
        }
        records += export_rows::write(session, self.queue.as_deref(), &found, &mut to).await?;
        to.flush()?;
        progress.finish();
        if left_out > 0 {
            session.out.note(format!(
                "{} left out that belong to flows or wait for others; export without --queue for them",
                counted(left_out, "job")
            ));
        }
        Ok(Written { jobs, records })
    }
}

/// Whether a job cannot be imported by itself: it may wait for jobs of other queues.
fn waits_for_others(job: &JobRecord) -> bool {
    let waits = job.state == JobState::Held && job.wait_for.is_empty() && job.unique.is_none();
    job.flow.is_some() || waits
}

/// Lines of a file.
struct Written {
    jobs: u64,
    /// Parts of flows, settings and pauses of queues, schedules and subscriptions.
    records: u64,
}
