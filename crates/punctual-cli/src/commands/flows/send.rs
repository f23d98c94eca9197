//! Sends a flow from a file.

use std::io::Read;
use std::path::{Path, PathBuf};

use punctual_gateway::plan_of;

use super::queue;
use crate::args::Session;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Object, counted, object};

/// Send a flow from a file: its steps, what each waits for, and what runs when it has settled
#[derive(Debug, clap::Args)]
#[command(after_help = r#"Examples:
  punctual flows send order-7.json
  punctual flows send - < order-7.json

The file is what POST /v1/flows takes:
  {"name": "order-7",
   "steps": [
     {"name": "charge", "job": {"queue": "orders", "payload": {"order": 7}}},
     {"name": "pack", "job": {"queue": "orders"}, "after": ["charge"]},
     {"name": "refund", "job": {"queue": "orders"}, "after": [{"step": "pack", "on": "failed"}]}],
   "on_settled": {"queue": "reports"}}

Steps may come in any order. The same flow again changes nothing; another one under its name is
refused."#)]
pub(crate) struct Args {
    /// The file; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Args {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let text = read(&self.file)?;
        let (plan, is_whole) = plan_of(&text).map_err(|why| {
            let help = "`punctual flows send --help` shows a file";
            let (what, remedy) = why.rsplit_once("; ").unwrap_or((&why, help));
            let message = format!("{}: {what}", self.file.display());
            Failure::new(Exit::Usage, "invalid_input", message).hint(remedy)
        })?;
        let queue = queue(session);
        let sent = match is_whole {
            true => queue.send_flow(plan).await?,
            false => queue.send_part(plan).await?,
        };
        if session.out.is_json() {
            let step = |(name, id): &(String, punctual::JobId)| object!({ "name": name, "id": id.to_string() });
            let steps: Vec<Object> = sent.steps.iter().map(step).collect();
            return session.out.json(&object!({
                "name": sent.name, "created": sent.is_new, "steps": steps,
            }));
        }
        let steps = counted(sent.steps.len() as u64, "step");
        session.out.line(match sent.is_new {
            true if is_whole => format!("{} runs, with {steps}", sent.name),
            true => format!(
                "{} got {steps} and is open: the whole plan, sent again, or POST /v1/flows/{}/seal lets it run, \
                 within an hour",
                sent.name, sent.name
            ),
            false => format!("{} was sent before: nothing has changed", sent.name),
        })?;
        session.announce_durability(session.durability().await?);
        Ok(())
    }
}

fn read(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().lock().read_to_string(&mut text);
        read.map_err(|error| Failure::file("read", file, &error))?;
        return Ok(text);
    }
    std::fs::read_to_string(file).map_err(|error| Failure::file("read", file, &error))
}
