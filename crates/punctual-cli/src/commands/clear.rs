//! `punctual clear`: clears a name that a job waits for, now or when it comes.

use punctual::{JobId, Queue};
use serde_json::json;

use crate::args::{Global, id_of, step_of};
use crate::connect::Make;
use crate::failure::Result;

/// Clear a name that a job waits for; kept for an hour if the job has not come
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual enqueue orders '{}' --id 0198c0de-0000-7000-8000-000000000007 --wait-for paid
  punctual clear paid 0198c0de-0000-7000-8000-000000000007
  punctual clear paid --flow order-7 --step ship

The clear is kept where its job will come: the engine has to be there. A directory that is missing is
not made; `punctual enqueue` and `punctual serve` make one.")]
pub(crate) struct Args {
    /// What the job waits for
    #[arg(value_name = "NAME")]
    name: String,

    /// The whole id of the job
    #[arg(value_name = "ID", value_parser = id_of, required_unless_present = "flow")]
    id: Option<JobId>,

    /// The step of a flow, instead of an id
    #[arg(long, value_name = "FLOW", requires = "step", conflicts_with = "id")]
    flow: Option<String>,

    /// The name of the step
    #[arg(long, value_name = "STEP", requires = "flow")]
    step: Option<String>,
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let session = &global.session(Make::Never).await?;
        let id = match (self.id, &self.flow, &self.step) {
            (None, Some(flow), Some(step)) => step_of(flow, step)?,
            (id, ..) => id.unwrap_or_else(JobId::new),
        };
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        queue.clear(id, &self.name).await?;
        if session.out.is_json() {
            return session.out.json(&json!({"id": id, "name": self.name}));
        }
        let of = match (&self.flow, &self.step) {
            (Some(flow), Some(step)) => format!("step {step} of flow {flow}"),
            _ => format!("job {id}"),
        };
        let text = format!("{} of {of} is cleared", self.name);
        session.out.line(text)
    }
}
