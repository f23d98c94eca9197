//! Removes what a bench leaves in an engine that others use.

use punctual::engine::{Action, Control, Controlled, Edit, Filter, Select};

use super::at_once;
use crate::args::Session;
use crate::failure::Result;

/// Jobs that one call cancels or deletes.
const LIMIT: usize = 1_000;

/// Cancels and deletes every job of the namespace that is not active, then its queues.
pub(super) async fn remove(session: &Session, queues: &[String]) -> Result<()> {
    let count = queues.len() as u64;
    at_once(count, async |nth| {
        purge(session, &queues[nth as usize]).await
    })
    .await?;
    delete_jobs(session).await?;
    at_once(count, async |nth| {
        let queue = queues[nth as usize].clone();
        let delete = Control::DeleteQueue { queue };
        let deleted = session.engine.control(&session.namespace, delete).await;
        deleted.map(drop)
    })
    .await
}

async fn purge(session: &Session, queue: &str) -> punctual::Result<()> {
    let mut cursor = None;
    loop {
        let purge = Control::Purge {
            queue: queue.to_owned(),
            cursor,
            limit: LIMIT,
        };
        match session.engine.control(&session.namespace, purge).await? {
            Controlled::Purged {
                cursor: Some(next), ..
            } => cursor = Some(next),
            _ => return Ok(()),
        }
    }
}

async fn delete_jobs(session: &Session) -> Result<()> {
    let mut cursor = None;
    loop {
        let select = Select::Filter {
            filter: Filter::default(),
            cursor,
            limit: LIMIT,
        };
        let edit = Edit::new(select, Action::Delete);
        cursor = session.engine.edit(&session.namespace, edit).await?.cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}
