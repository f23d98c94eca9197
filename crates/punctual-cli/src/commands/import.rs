//! `punctual import`: the jobs of an export with their past, its flows, settings and schedules.

use std::path::PathBuf;

use punctual::engine::{Capability, Durability};
use punctual::{NewJob, Queue};
use std::collections::{BTreeMap, BTreeSet};

use super::{export_rows, links};
use crate::args::{Global, Session};
use crate::connect::Make;
use crate::failure::{Exit, Failure, Result};
use crate::lines::{lines_of, open_twice};
use crate::output::{count, counted, object};
use crate::progress::Progress;
use punctual_gateway::{FlowPart, JobJson, RecordJson};

/// Read the jobs of an export with their past, flows, settings of queues and schedules
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual import jobs.jsonl
  gunzip < mail.jsonl.gz | punctual --namespace copy import -

Ids stay the same, so importing twice changes nothing. All lines are checked before the first is
sent. Settings and schedules that are here already stay as they are (kept). Steps of a flow run once
all of it has come. Exit code 4 if a job was refused, for example because its unique key is held here.")]
pub(crate) struct Args {
    /// The file to read; - is standard input
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let session = global.shared_session(Make::IfMissing).await?;
        let info = session.engine.info().await?;
        let limits = info.limits;
        let has_limits = info.capabilities.contains(&Capability::NamedLimits);
        let file = open_twice(&self.file)?;
        let unreadable = |error: std::io::Error| Failure::file("read", &self.file, &error);
        let read = |line: &crate::lines::Line| -> Result<Read, String> {
            if line.text.as_deref().is_ok_and(RecordJson::is_one) {
                let value = line.read(|text| RecordJson::parse(text)?.into_value())?;
                let mut record = line.read(RecordJson::parse)?;
                let success = record.take_last_success()?;
                let checked = value.map_or(Ok(()), |value| {
                    export_rows::check(record.name(), &value, success.as_ref(), &limits)
                });
                checked.map_err(|error| error.to_string())?;
                if record.is_of_limit() && !has_limits {
                    return Err(NO_LIMITS.into());
                }
                if let Some((flow, part)) = record.into_flow()? {
                    return Ok(Read::Flow(flow, part));
                }
                return Ok(Read::Record(Box::new(line.read(RecordJson::parse)?)));
            }
            let job = line.read(|text| JobJson::parse(text)?.into_import())?;
            if !job.limits.is_empty() && !has_limits {
                return Err(NO_LIMITS.into());
            }
            job.check(&limits).map_err(|error| error.to_string())?;
            Ok(Read::Job(Box::new(job)))
        };

        let mut good = 0;
        let mut records = Vec::new();
        let mut parts = Vec::new();
        let mut bad = Vec::new();
        let mut flows = BTreeSet::new();
        for line in lines_of(&file).map_err(unreadable)? {
            let line = line.map_err(unreadable)?;
            match read(&line) {
                Ok(Read::Job(job)) => {
                    flows.extend(job.flow.map(|step| step.flow));
                    good += 1;
                }
                Ok(Read::Record(record)) => records.push(*record),
                Ok(Read::Flow(flow, part)) => {
                    flows.insert(flow.clone());
                    parts.push((flow, part));
                }
                Err(why) => bad.push((line.number, why)),
            }
        }
        if !bad.is_empty() {
            let message = format!(
                "{} of {} lines are bad; nothing was imported",
                count(bad.len() as u64),
                count(good + (records.len() + parts.len() + bad.len()) as u64)
            );
            bad.truncate(10);
            return Err(Failure::new(Exit::Usage, "bad_lines", message)
                .hint("only complete lines from `punctual export` can be imported; enqueue other jobs with `punctual enqueue --from`")
                .lines(bad));
        }
        check_whole(&parts, flows)?;
        // Settings, limits and pauses before the jobs, which must not start without them; schedules
        // behind them.
        let (of_queues, of_schedules): (Vec<_>, Vec<_>) =
            (records.into_iter()).partition(|record| record.is_of_queue() || record.is_of_limit());
        let mut records = BTreeMap::new();
        export_rows::import(&session, of_queues, &mut records).await?;
        // Steps whose jobs are gone come before those that wait for them, seals behind all.
        let (ended, ends): (Vec<_>, Vec<_>) = parts.into_iter().partition(
            |(_, part)| matches!(part, FlowPart::Restored(flow) if !flow.ended.is_empty()),
        );
        links::import(&session, ended, &mut records).await?;
        let counts = self
            .send(
                &session,
                lines_of(&file)
                    .map_err(unreadable)?
                    .filter_map(|line| match read(&line.ok()?) {
                        Ok(Read::Job(job)) => Some(*job),
                        _ => None,
                    }),
                good,
            )
            .await?;
        links::import(&session, ends, &mut records).await?;
        export_rows::import(&session, of_schedules, &mut records).await?;
        let durability = session.durability().await?;
        announce(&session, &counts, &records, durability)
    }

    async fn send(
        &self,
        session: &Session,
        jobs: impl Iterator<Item = NewJob>,
        total: u64,
    ) -> Result<BTreeMap<&'static str, u64>> {
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let progress = Progress::new(session.out, total, "jobs");
        let mut counts = BTreeMap::new();
        let mut done = 0;
        let mut jobs = jobs.peekable();
        while jobs.peek().is_some() {
            let batch: Vec<NewJob> = jobs.by_ref().take(1_000).collect();
            for receipt in queue.enqueue_many(batch).await? {
                *counts.entry(receipt.verdict.name()).or_default() += 1;
                done += 1;
            }
            progress.set(done);
        }
        progress.finish();
        Ok(counts)
    }
}

/// The last line of each flow has no steps: without it the flow would stay open, and be cancelled.
fn check_whole(parts: &[(String, FlowPart)], mut flows: BTreeSet<String>) -> Result<()> {
    for (flow, part) in parts {
        if matches!(part, FlowPart::Restored(end) if end.ended.is_empty()) {
            flows.remove(flow);
        }
    }
    let Some(flow) = flows.first() else {
        return Ok(());
    };
    let message = format!("the file ends before the flow {flow} does; nothing was imported");
    Err(Failure::new(Exit::Usage, "bad_lines", message)
        .hint("a part of the export is missing; export again"))
}

const NO_LIMITS: &str = "is of a named limit, which this engine does not have (named_limits); \
                         import it into memory: or file:";

/// What a line of an export is.
enum Read {
    Job(Box<NewJob>),
    Record(Box<RecordJson>),
    Flow(String, FlowPart),
}

fn announce(
    session: &Session,
    counts: &BTreeMap<&'static str, u64>,
    records: &BTreeMap<&'static str, u64>,
    durability: Durability,
) -> Result<()> {
    if session.out.is_json() {
        session.out.json(&object!({
            "jobs": counts.values().sum::<u64>(), "verdicts": counts, "records": records,
            "durability": durability.to_string(),
        }))?;
    } else {
        let jobs = counts.iter();
        let jobs = jobs.map(|(verdict, n)| format!("{} {verdict}", count(*n)));
        let of_records = records.iter();
        let of_records =
            of_records.map(|(verdict, n)| format!("{} {verdict}", counted(*n, "record")));
        let parts: Vec<String> = jobs.chain(of_records).collect();
        let parts = if parts.is_empty() {
            "nothing to import".into()
        } else {
            parts.join(", ")
        };
        session.out.line(parts)?;
        if !(counts.is_empty() && records.is_empty()) {
            session.announce_durability(durability);
        }
    }
    let taken = ["created", "duplicate"];
    if counts.keys().all(|verdict| taken.contains(verdict)) {
        Ok(())
    } else {
        Err(Failure::reported(Exit::Refused))
    }
}
