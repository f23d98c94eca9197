//! The last ends of queues: how jobs ended that are no longer kept.

use std::cmp::Reverse;
use std::collections::HashSet;

use punctual::JobId;
use punctual::engine::{Capability, JobEnd, StatsRequest};
use punctual::time::Timestamp;

use crate::args::Session;
use crate::failure::{Failure, Result};
use crate::output::{Columns, ago, object};

/// Ends that a list of jobs shows below its own.
pub(super) const BELOW_A_LIST: usize = 5;

/// The last ends of a queue, or of all queues, the newest first; none where the engine keeps none.
async fn last(
    session: &Session,
    queue: Option<&str>,
) -> Result<(Vec<(String, JobEnd)>, Timestamp)> {
    let info = session.engine.info().await?;
    if !info.capabilities.contains(&Capability::Ends) {
        return Ok((Vec::new(), info.now));
    }
    let request = StatsRequest::default()
        .queues(queue.map(str::to_owned).into_iter().collect())
        .ends(true);
    let stats = session.engine.stats(&session.namespace, request).await?;
    let each = stats.queues.into_iter();
    let mut ends: Vec<_> = each
        .flat_map(|queue| {
            let name = queue.queue;
            queue.ends.into_iter().map(move |end| (name.clone(), end))
        })
        .collect();
    ends.sort_by_key(|(_, end)| Reverse(end.at));
    Ok((ends, stats.now))
}

/// Shows the last ends alone: as JSON one document each.
pub(super) async fn list(session: &Session, queue: Option<&str>, limit: usize) -> Result<()> {
    let (mut ends, now) = last(session, queue).await?;
    ends.truncate(limit);
    if session.out.is_json() {
        return ends.iter().try_for_each(|(queue, end)| {
            session.out.json(&object!({
                "id": end.id.to_string(),
                "queue": queue,
                "kind": end.kind,
                "state": end.state.name(),
                "at": end.at.to_string(),
            }))
        });
    }
    if ends.is_empty() {
        session.out.note("no job has settled");
        return Ok(());
    }
    table(session, &ends, now)
}

/// Shows those of the last ends that a list has not shown.
pub(super) async fn below(
    session: &Session,
    queue: Option<&str>,
    shown: &HashSet<JobId>,
) -> Result<()> {
    let (mut ends, now) = last(session, queue).await?;
    ends.retain(|(_, end)| !shown.contains(&end.id));
    let more = ends.len() > BELOW_A_LIST;
    ends.truncate(BELOW_A_LIST);
    if ends.is_empty() {
        return Ok(());
    }
    session.out.line("\nsettled and no longer kept:")?;
    table(session, &ends, now)?;
    if more {
        session.out.note("there are more; show them with --ended");
    }
    Ok(())
}

fn table(session: &Session, ends: &[(String, JobEnd)], now: Timestamp) -> Result<(), Failure> {
    let columns = Columns {
        names: &["id", "queue", "kind", "state", "ended"],
        optional: &["kind"],
        ..Columns::default()
    };
    let row = |(queue, end): &(String, JobEnd)| {
        vec![
            end.id.to_string(),
            queue.clone(),
            end.kind.clone(),
            end.state.name().into(),
            ago(end.at, now),
        ]
    };
    session.out.table(columns, ends.iter().map(row).collect())
}
