//! `punctual jobs list`.

use punctual::engine::{Filter, List, ListBy};
use punctual::time::Timestamp;
use punctual::{JobRecord, JobState};

use super::ends;
use super::select::Where;
use crate::args::Session;
use crate::failure::Result;
use crate::output::{Columns, ago, cut};
use punctual_gateway::JobJson;

const EXAMPLES: &str = "\
Examples:
  punctual jobs list                              every job
  punctual jobs list --queue mail --state dead    the dead letters of a queue
  punctual jobs list --queue orders --unique order:7
  punctual jobs list --limit-name smtp:gmail.com  who holds a named limit, and who waits at it
  punctual jobs list --text '\"order\":7' --limit 5
  punctual jobs list --queue mail --ended         how the last jobs ended
  punctual jobs list -o json | jq .id

Scheduled jobs of a queue are sorted by due, settled ones newest first. A search without --queue
reads every job.";

/// The order in which a person wants to see the jobs of a queue.
const STATES: [JobState; 7] = [
    JobState::Active,
    JobState::Ready,
    JobState::Scheduled,
    JobState::Held,
    JobState::Dead,
    JobState::Cancelled,
    JobState::Completed,
];

/// List jobs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,

    #[command(flatten)]
    filter: Where,

    /// Only the holder of this unique key of --queue, and its follower
    #[arg(long, value_name = "KEY", requires = "queue", conflicts_with = "group")]
    unique: Option<String>,

    /// Only unsettled jobs of this group of --queue
    #[arg(long, value_name = "KEY", requires = "queue")]
    group: Option<String>,

    /// Only jobs that hold this named limit or wait at it, of all queues or of --queue
    #[arg(long, value_name = "NAME", conflicts_with_all = ["unique", "group"])]
    limit_name: Option<String>,

    /// At most this many jobs
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = limit_of)]
    limit: usize,

    /// Every job
    #[arg(long, conflicts_with = "limit")]
    all: bool,

    /// The last settled jobs of each queue, at most 100, also those no longer kept
    #[arg(long, conflicts_with_all = ["state", "kind", "text", "due_from", "due_before", "unique", "group", "limit_name"])]
    ended: bool,
}

fn limit_of(text: &str) -> std::result::Result<usize, String> {
    let read = text.parse().ok().filter(|limit| *limit > 0);
    read.ok_or_else(|| "write a number from 1 on, or --all for every job".into())
}

impl Args {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let limit = if self.all { usize::MAX } else { self.limit };
        if self.ended {
            return ends::list(session, self.queue.as_deref(), limit).await;
        }
        let (jobs, now, more) = self.find(session, limit).await?;
        if session.out.is_json() {
            return jobs
                .iter()
                .try_for_each(|job| session.out.json(&JobJson::from(job)));
        }
        if jobs.is_empty() {
            session.out.note("no jobs");
            return self.ends_below(session, &jobs).await;
        }
        let columns = Columns {
            names: &["id", "queue", "kind", "state", "due", "attempt", "about"],
            numbers: &["attempt"],
            cut: "about",
            optional: &["kind", "attempt"],
        };
        session
            .out
            .table(columns, jobs.iter().map(|job| row(job, now)).collect())?;
        if more {
            session.out.note(format!(
                "there are more; show them with --limit {} or --all",
                limit * 4
            ));
            return Ok(());
        }
        self.ends_below(session, &jobs).await
    }

    /// Jobs that ended and are no longer kept, below a list of every job.
    async fn ends_below(&self, session: &Session, jobs: &[JobRecord]) -> Result<()> {
        let is_whole = self.filter.filter(None) == Filter::default();
        if !is_whole || self.unique.is_some() || self.group.is_some() || self.limit_name.is_some() {
            return Ok(());
        }
        let shown = jobs.iter().map(|job| job.id).collect();
        ends::below(session, self.queue.as_deref(), &shown).await
    }

    async fn find(
        &self,
        session: &Session,
        limit: usize,
    ) -> Result<(Vec<JobRecord>, Timestamp, bool)> {
        let mut jobs = Vec::new();
        let mut now = Timestamp::ZERO;
        for by in self.indexes() {
            let mut cursor = None;
            loop {
                let list = List::new(by.clone())
                    .filter(self.filter.filter(self.queue.as_deref()))
                    .cursor(cursor)
                    .limit(1_000.min(limit.saturating_add(1)))
                    .payloads(true);
                let listing = session.engine.list(&session.namespace, list).await?;
                now = listing.now;
                jobs.extend(listing.jobs);
                if jobs.len() > limit {
                    jobs.truncate(limit);
                    return Ok((jobs, now, true));
                }
                cursor = listing.cursor;
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok((jobs, now, false))
    }

    fn indexes(&self) -> Vec<ListBy> {
        if let Some(name) = self.limit_name.clone() {
            return vec![ListBy::Limit { name }];
        }
        let Some(queue) = self.queue.clone() else {
            return vec![ListBy::All];
        };
        match (&self.unique, &self.group, self.filter.state) {
            (Some(key), _, _) => vec![ListBy::Unique {
                queue,
                key: key.clone(),
            }],
            (_, Some(key), _) => vec![ListBy::Group {
                queue,
                key: key.clone(),
            }],
            (_, _, Some(state)) => vec![ListBy::State { queue, state }],
            _ => STATES
                .map(|state| ListBy::State {
                    queue: queue.clone(),
                    state,
                })
                .into(),
        }
    }
}

fn row(job: &JobRecord, now: Timestamp) -> Vec<String> {
    let when = job.finished_at.map_or_else(
        || ago(job.due, now),
        |finished| format!("ended {}", ago(finished, now)),
    );
    vec![
        job.id.to_string(),
        job.queue.clone(),
        job.kind.clone(),
        job.state.name().into(),
        when,
        format!("{}", job.attempt),
        about(job),
    ]
}

/// The one thing that is most worth knowing.
fn about(job: &JobRecord) -> String {
    if let Some(reason) = job.cancelled {
        return reason.name().into();
    }
    if let Some(error) = &job.last_error {
        let dead = job
            .dead
            .map(|reason| format!("{reason}: "))
            .unwrap_or_default();
        return cut(&format!("{dead}{error}"), 40);
    }
    if let Some(reason) = job.dead {
        return reason.name().into();
    }
    cut(&String::from_utf8_lossy(&job.payload), 40)
}
