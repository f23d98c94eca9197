//! Which jobs a command means: ids, a unique key, or a filter.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use punctual::JobState;
use punctual::engine::{Filter, Target};
use punctual::time::Timestamp;

use super::endings::{IdOrEnd, id_or_end, resolve};
use crate::args::{Session, instant_of, span_of};
use crate::failure::{Failure, Result};

/// Jobs by name.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Named {
    /// Ids of jobs, whole or their last 8 or more characters
    #[arg(value_name = "ID", value_parser = id_or_end)]
    pub(super) ids: Vec<IdOrEnd>,

    /// The job that holds this unique key of --queue
    #[arg(long, value_name = "KEY", requires = "queue")]
    pub(super) unique: Option<String>,

    /// The queue
    #[arg(long, value_name = "QUEUE")]
    pub(super) queue: Option<String>,
}

impl Named {
    /// The jobs named; at least one.
    pub(super) async fn targets(&self, session: &Session) -> Result<Vec<Target>> {
        let ids = resolve(session, &self.ids).await?;
        let mut targets: Vec<Target> = ids.into_iter().map(Target::Id).collect();
        if let (Some(queue), Some(key)) = (&self.queue, &self.unique) {
            targets.push(Target::Unique {
                queue: queue.clone(),
                key: key.clone(),
            });
        }
        if targets.is_empty() {
            return Err(Failure::usage("no job was named").hint(
                "name jobs by ID, or by --queue NAME --unique KEY; `punctual jobs list` shows ids",
            ));
        }
        Ok(targets)
    }
}

/// What else must hold for a job.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Where {
    /// Only jobs in this state
    #[arg(long, value_name = "STATE", value_parser = states())]
    pub(super) state: Option<JobState>,

    /// Only jobs of this kind
    #[arg(long, value_name = "NAME")]
    pub(super) kind: Option<String>,

    /// Only jobs whose payload contains this text
    #[arg(long, value_name = "TEXT")]
    pub(super) text: Option<String>,

    /// Only jobs whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    pub(super) error: Option<String>,

    /// Only jobs due at or after this instant
    #[arg(long, value_name = "INSTANT", value_parser = instant_of)]
    pub(super) due_from: Option<Timestamp>,

    /// Only jobs due before this instant
    #[arg(long, value_name = "INSTANT", value_parser = instant_of)]
    pub(super) due_before: Option<Timestamp>,

    /// Only jobs of at least this age, such as 7d: settled ones count from their end, others from
    /// their enqueue
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    pub(super) older_than: Option<Duration>,
}

impl Where {
    pub(super) fn filter(&self, queue: Option<&str>) -> Filter {
        Filter::default()
            .queue(queue.map(str::to_owned))
            .state(self.state)
            .kind(self.kind.clone())
            .text(self.text.clone())
            .due_from(self.due_from)
            .due_before(self.due_before)
            .error(self.error.clone())
            .older_than(self.older_than)
    }
}

/// The states by name, which completions of a shell know too.
fn states() -> impl TypedValueParser<Value = JobState> {
    let parser = PossibleValuesParser::new(JobState::ALL.map(JobState::name));
    parser.try_map(|name| name.parse::<JobState>())
}
