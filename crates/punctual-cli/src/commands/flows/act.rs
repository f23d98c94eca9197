//! Cancels, retries and recounts flows.

use punctual::engine::Filter;
use punctual::flow::Retried;
use punctual::{ErrorKind, JobState};

use super::show::{counts_object, object_of};
use super::{missing, queue};
use crate::args::Session;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Object, count, counted, object};

pub(super) async fn cancel(session: &Session, name: &str) -> Result<()> {
    let cancelled = queue(session).flows().cancel(name).await;
    let status = cancelled.map_err(|error| with_flow(error, name))?;
    if session.out.is_json() {
        return session.out.json(&object_of(&status));
    }
    let open = status.counts.open;
    session.out.line(match open {
        0 => format!("{name} is {}", status.state),
        _ => format!("{name} is asked to stop: {} to end", counted(open, "step")),
    })?;
    session.announce_durability(session.durability().await?);
    Ok(())
}

/// Run steps again that are dead or cancelled
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual flows retry order-7
  punctual flows retry order-7 --from pack
  punctual flows retry nightly --failed-with 'no route'

What was passed over because of them waits for them again. With --from one step runs again however
it ended, and so does all that depends on it, as far as it is kept: give such steps a retention.
Exits with 4 if steps or callbacks could not run again: their jobs are not kept any more, or another
job holds their unique key. A flow without such a step ends as failed, one without a callback as its
steps do. With --kind and the like, steps that are gone are left out: nothing of them is known.")]
pub(crate) struct Retry {
    /// The name of the flow; `flows list` shows it
    #[arg(value_name = "NAME")]
    name: String,

    /// Run this step again, and what depends on it
    #[arg(long, value_name = "STEP")]
    from: Option<String>,

    /// Only steps whose last error contains this text
    #[arg(long, value_name = "TEXT", conflicts_with = "from")]
    failed_with: Option<String>,

    /// Only steps of this kind
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    kind: Option<String>,

    /// Only steps in this state: dead or cancelled
    #[arg(long, value_name = "STATE", value_parser = ["dead", "cancelled"], conflicts_with = "from")]
    state: Option<String>,
}

impl Retry {
    pub(crate) async fn run(self, session: &Session) -> Result<()> {
        let name = &self.name;
        let flows = queue(session).flows();
        let retried = match self.filter() {
            Some(filter) => flows.retry_matching(name, filter).await,
            None => flows.retry(name, self.from.as_deref()).await,
        };
        let retried = retried.map_err(|error| with_flow(error, name))?;
        if session.out.is_json() {
            session.out.json(&retried_object(name, &retried))?;
        } else {
            self.say(session, &retried)?;
            if retried.retried > 0 {
                session.announce_durability(session.durability().await?);
            }
        }
        match retried.left_out.is_empty() {
            true => Ok(()),
            false => Err(Failure::reported(Exit::Refused)),
        }
    }

    fn filter(&self) -> Option<Filter> {
        let state = self.state.as_deref();
        let filter = Filter::default()
            .error(self.failed_with.clone())
            .kind(self.kind.clone())
            .state(state.and_then(|state| state.parse::<JobState>().ok()));
        (filter != Filter::default()).then_some(filter)
    }

    fn say(&self, session: &Session, retried: &Retried) -> Result<()> {
        let (name, left_out) = (&self.name, &retried.left_out);
        if retried.retried > 0 {
            let again = counted(retried.retried, "step");
            session.out.line(format!("{again} again"))?;
        } else if left_out.is_empty() {
            session.out.line(match (self.filter(), &self.from) {
                (Some(_), _) => format!("no failed step of {name} matches"),
                (None, Some(step)) => format!(
                    "step {step} of {name} does not run again: it has not ended, or what it waits \
                     for ended otherwise"
                ),
                (None, None) => format!("no step of {name} failed"),
            })?;
        }
        if left_out.gone > 0 {
            let steps = some_of(left_out.gone, &left_out.gone_steps);
            session
                .out
                .line(format!("not again, as their jobs are gone: {steps}"))?;
            session.out.note(
                "hint: send these steps as a flow under another name; a longer retention of the engine \
                 or of the steps keeps them",
            );
        }
        if left_out.unique_held > 0 {
            let held = left_out.unique_held_steps.iter();
            let held: Vec<String> = held
                .map(|(step, holder)| format!("{step} (by {holder})"))
                .collect();
            let steps = some_of(left_out.unique_held, &held);
            session.out.line(format!(
                "not again, as another job holds their unique key: {steps}"
            ))?;
            session
                .out
                .note("hint: retry the flow once those jobs have settled");
        }
        Ok(())
    }
}

/// Names, and how many more there are.
fn some_of(all: u64, names: &[String]) -> String {
    let more = all.saturating_sub(names.len() as u64);
    let shown = names.join(", ");
    match more {
        0 => shown,
        more => format!("{shown} and {} more", count(more)),
    }
}

fn retried_object(name: &str, retried: &Retried) -> Object {
    let left_out = &retried.left_out;
    let held = left_out.unique_held_steps.iter();
    let held = held.map(|(step, holder)| object!({ "step": step, "holder": holder.to_string() }));
    let held: Vec<Object> = held.collect();
    object!({
        "name": name, "retried": retried.retried,
        "gone": left_out.gone, "gone_steps": left_out.gone_steps,
        "unique_held": left_out.unique_held, "unique_held_steps": held,
    })
}

pub(super) async fn recount(session: &Session, name: &str) -> Result<()> {
    let recounted = queue(session).flows().recount(name).await;
    let recounted = recounted.map_err(|error| with_flow(error, name))?;
    let agrees = recounted.agrees();
    if session.out.is_json() {
        session.out.json(&object!({
            "name": name, "agrees": agrees, "counted": counts_object(&recounted.counted),
            "kept": counts_object(&recounted.kept), "differ": recounted.differ,
            "moved": recounted.moved,
        }))?;
    } else if agrees {
        let steps = counted(recounted.counted.steps, "step");
        session
            .out
            .line(format!("{name} has counted right: {steps}"))?;
    }
    match agrees {
        true => Ok(()),
        false => {
            let (counted, kept) = (recounted.counted, recounted.kept);
            let message = format!("{name} has counted {kept:?}, its jobs say {counted:?}");
            Err(Failure::new(Exit::Failed, "internal", message).hint("report it"))
        }
    }
}

/// An error that names a step is about that step, any other that finds nothing about the flow.
fn with_flow(error: punctual::Error, name: &str) -> Failure {
    let names_step = error.context().any(|(what, _)| what == "step");
    match (error.kind(), names_step) {
        (ErrorKind::NotFound, false) => missing(name),
        (ErrorKind::NotFound, true) => {
            Failure::from(error).hint(format!("`punctual flows show {name}` lists its steps"))
        }
        _ => error.into(),
    }
}
