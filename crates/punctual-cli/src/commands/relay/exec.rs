//! `punctual relay exec`: any other system, by a command that speaks in lines of JSON.

use std::sync::Arc;

use punctual::push::{self, AmqpTarget};
use punctual::{JobId, Limits, NewJob};
use punctual_gateway::JobJson;
use punctual_relay::lines::{LineSink, LineSource, ReadJob};

use super::{Common, Prepared, Reach};
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
has none. Names are those of the relay (--name), or else of the very command: give a relay a name
before you change its command.

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
    pub(super) fn prepare(self) -> Result<Prepared> {
        NewJob::new(self.into.clone(), "").check(&Limits::default())?;
        if let Some(command) = self.source {
            // Two relays without a name are two sources, unless they run the same command.
            let identity = self.common.name.as_ref().unwrap_or(&command);
            let source = LineSource::new(&command, identity, reads_into(&self.into));
            return Ok(Prepared {
                source: Some(Box::new(source)),
                reaches: vec![Reach::Command(command)],
                ..self.common.prepare("exec", &self.into)
            });
        }
        let command = self.sink.unwrap_or_default();
        let Some(queue) = self.queue else {
            let failure = Failure::usage("a sink needs the queue whose jobs it takes");
            return Err(failure.hint("name it by --queue QUEUE"));
        };
        let mut prepared = self.common.prepare("exec", &queue);
        let sink = LineSink::new(&command, writes()).health(prepared.health.clone());
        prepared.sink = Some((sink, self.concurrency));
        prepared.reaches = vec![Reach::Command(command)];
        Ok(prepared)
    }
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
        let job = line.into_new_job(&NewJob::with_id(id, queue.clone(), ""))?;
        // A target that nothing can reach is refused here, not at its delivery.
        if let Some(target) = push::target(&job.headers)
            && AmqpTarget::is(target)
        {
            let parsed = AmqpTarget::parse(target);
            parsed.map_err(|error| format!("has a target that is {}", error.message()))?;
        }
        Ok(job)
    })
}

/// Writes a job as `jobs show` does.
pub(super) fn writes() -> punctual_relay::lines::WriteJob {
    Arc::new(|job| serde_json::to_string(&JobJson::from(job)).unwrap_or_default())
}
