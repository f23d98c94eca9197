//! `punctual relay exec`: any other system, by a command that speaks in lines of JSON.

use std::sync::Arc;

use punctual::worker::shutdown_signal;
use punctual::{Context, JobId, JobRecord, Limits, NewJob, Worker};
use punctual_gateway::JobJson;
use punctual_relay::lines::{LineSink, LineSource, ReadJob};

use super::Common;
use crate::args::{Global, Session};
use crate::connect::Make;
use crate::failure::{Failure, Result};

/// Relay from a command that writes messages, or to one that takes jobs
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("way").required(true),
    after_help = "\
A source writes one line per message, and may forget it once it reads the answer:
  {\"name\":\"17\",\"job\":{\"queue\":\"mail\",\"payload\":{\"to\":\"ann\"},\"delay\":\"30m\"}}
  {\"name\":\"17\",\"stored\":\"04f9eeb6-3bf7-873f-92c6-5bfedc883a00\"}
  {\"name\":\"18\",\"refused\":\"why\"}
The same name again is the same job. `job` has the fields of POST /v1/jobs; --into is its queue if it
has none.

A sink reads one line per job, and answers each, in any order:
  {\"id\":\"ID\",\"job\":{\"queue\":\"mail\",\"payload\":{\"to\":\"ann\"}}}
  {\"id\":\"ID\",\"done\":true}  or  {\"id\":\"ID\",\"error\":\"why\",\"permanent\":true}
A job whose answer is missing when the sink ends runs again. See examples/relay-exec."
)]
pub(crate) struct Args {
    /// The command that writes messages, run by sh -c
    #[arg(long, value_name = "CMD", group = "way")]
    source: Option<String>,

    /// The command that takes jobs, run by sh -c
    #[arg(long, value_name = "CMD", group = "way")]
    sink: Option<String>,

    /// The queue of jobs whose line names none
    #[arg(long, value_name = "QUEUE", default_value = "relay")]
    into: String,

    /// The queue whose jobs go to the sink
    #[arg(long, value_name = "QUEUE", requires = "sink")]
    queue: Option<String>,

    /// Jobs that the sink has at the same time, at most
    #[arg(long, value_name = "N", default_value_t = 256)]
    concurrency: usize,

    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) async fn run(self, global: &Global) -> Result<()> {
        NewJob::new(self.into.clone(), "").check(&Limits::default())?;
        if let Some(command) = &self.source {
            let name = self.common.name("exec");
            let source = LineSource::new(command, name, reads_into(&self.into));
            return self.common.relay("exec", global, source).await;
        }
        let command = self.sink.unwrap_or_default();
        let Some(queue) = self.queue else {
            let failure = Failure::usage("a sink needs the queue whose jobs it takes");
            return Err(failure.hint("name it by --queue QUEUE"));
        };
        let session = global.shared_session(Make::IfMissing).await?;
        let worker = sinks(
            &session,
            LineSink::new(command, writes()),
            &queue,
            self.concurrency,
        );
        session
            .out
            .note("relaying; Ctrl-C stops it, and nothing is lost by that");
        match self.common.until_idle {
            true => drop(worker.run_until_idle().await?),
            false => worker.run_until(shutdown_signal()).await?,
        }
        session.close().await
    }
}

/// A worker that hands the jobs of a queue to a sink.
pub(super) fn sinks(session: &Session, sink: LineSink, queue: &str, slots: usize) -> Worker {
    Worker::new(&session.engine)
        .namespace(session.namespace.clone())
        .queues([queue])
        .concurrency(slots)
        .isolated()
        .version(concat!("punctual-relay ", env!("CARGO_PKG_VERSION")))
        .handle_any(move |job: JobRecord, _: Context| {
            let sink = sink.clone();
            async move { sink.put(&job).await }
        })
}

/// Reads the job of a line: a new one, or one with a past.
pub(super) fn reads_into(queue: &str) -> ReadJob {
    let queue = queue.to_owned();
    Arc::new(move |text: &str, id: JobId| {
        let mut line = JobJson::parse(text)?;
        if line.has_history() {
            line.queue.get_or_insert_with(|| queue.clone());
            line.id.get_or_insert_with(|| id.to_string());
            return line.into_import();
        }
        line.into_new_job(&NewJob::with_id(id, queue.clone(), ""))
    })
}

/// Writes a job as `jobs show` does.
pub(super) fn writes() -> punctual_relay::lines::WriteJob {
    Arc::new(|job| serde_json::to_string(&JobJson::from(job)).unwrap_or_default())
}
