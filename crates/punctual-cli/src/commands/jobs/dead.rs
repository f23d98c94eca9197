//! `punctual jobs dead`: dead letters in groups.

use punctual::queue::dead_letters::{DeadSearch, EXAMINED_MAX, dead_groups};

use super::endings::CHARS_MIN;
use crate::args::Session;
use crate::failure::Result;
use crate::output::{Columns, ago, cut, object};

const EXAMPLES: &str = "\
Examples:
  punctual jobs dead                              every queue
  punctual jobs dead --queue mail --error timeout
  punctual jobs list --state dead --error 'timeout after'       the jobs of a group
  punctual jobs redrive --state dead --error 'timeout after' --yes

Numbers and ids in errors are shown as #, so errors that differ only in these form one group. The
command examines the latest 10,000 dead letters.";

/// Show dead letters, grouped by kind and error
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only dead letters of this queue; may be given again
    #[arg(long, value_name = "NAME")]
    queue: Vec<String>,

    /// Only jobs of this kind
    #[arg(long, value_name = "NAME")]
    kind: Option<String>,

    /// Only jobs whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,

    /// At most this many groups
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=200))]
    limit: u64,
}

impl Args {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let search = DeadSearch::default()
            .queues(self.queue)
            .kind(self.kind)
            .error(self.error)
            .groups(self.limit as usize);
        let found = dead_groups(&*session.engine, &session.namespace, &search).await?;
        if session.out.is_json() {
            return found.groups.iter().try_for_each(|group| {
                session.out.json(&object!({
                    "queue": group.queue, "kind": group.kind, "error": group.error, "search": group.search,
                    "jobs": group.jobs, "first": group.first.to_string(), "last": group.last.to_string(),
                    "example": group.example.to_string(),
                }))
            });
        }
        if found.groups.is_empty() {
            session.out.note("no dead letters");
            return Ok(());
        }
        let rows = found.groups.iter().map(|group| {
            vec![
                group.jobs.to_string(),
                group.queue.clone(),
                group.kind.clone(),
                cut(&group.error, 60),
                ago(group.last, found.now),
                end_of(&group.example.to_string()),
            ]
        });
        let columns = Columns {
            names: &["jobs", "queue", "kind", "error", "last", "example"],
            numbers: &["jobs"],
            cut: "error",
            ..Columns::default()
        };
        session.out.table(columns, rows.collect())?;
        if found.others > 0 {
            let others = found.others;
            session.out.note(format!(
                "{others} more groups; narrow the search, or raise --limit"
            ));
        }
        if !found.complete {
            session.out.note(format!(
                "the latest {EXAMINED_MAX} dead letters were examined, and there are more; name a --queue"
            ));
        }
        Ok(())
    }
}

/// The last characters of an id, which every command accepts: a whole one leaves the error no room.
fn end_of(id: &str) -> String {
    let from = id.len().saturating_sub(CHARS_MIN);
    id.get(from..).unwrap_or(id).to_owned()
}
