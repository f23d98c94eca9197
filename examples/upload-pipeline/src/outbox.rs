//! The outbox as a source of a relay in this process: what an upload committed becomes jobs.

use std::sync::Arc;

use async_trait::async_trait;
use punctual::time::{millis, within};
use punctual::{Error, ErrorKind, JobId, NewJob, Result};
use punctual_gateway::JobJson;
use punctual_relay::{Message, Open, Refused, Source, foreign_id};
use tokio::sync::Notify;

use crate::db::Database;

/// The outbox of a database. `committed` says that this process has committed a row; those of other
/// processes, and of one that was killed, are found by a poll.
pub(crate) struct Outbox {
    pub(crate) database: Database,
    pub(crate) committed: Arc<Notify>,
}

/// An empty outbox is read again after that.
const POLL: std::time::Duration = millis(250);

#[async_trait]
impl Open for Outbox {
    async fn open(&self) -> Result<Box<dyn Source>> {
        Ok(Box::new(Reading {
            database: self.database.clone(),
            committed: self.committed.clone(),
            taken: Vec::new(),
        }))
    }
}

struct Reading {
    database: Database,
    committed: Arc<Notify>,
    taken: Vec<(String, String)>,
}

#[async_trait]
impl Source for Reading {
    async fn next(&mut self, at_most: usize) -> Result<Vec<Message>> {
        let at_most = i64::try_from(at_most).unwrap_or(i64::MAX);
        self.taken = self.database.outbox(at_most).await.map_err(failed)?;
        if self.taken.is_empty() {
            // A commit between the read and here has left its permit.
            let _ = within(POLL, self.committed.notified()).await;
            self.taken = self.database.outbox(at_most).await.map_err(failed)?;
        }
        Ok(self.taken.iter().map(message).collect())
    }

    /// Another process may hand over the same rows: by their ids they are one job each.
    async fn accept(&mut self, refused: &[Refused]) -> Result<()> {
        let row_of = |refused: &Refused| {
            let row = self.taken.iter().find(|(id, _)| id_of(id) == refused.id)?;
            Some((row.0.clone(), refused.why.clone()))
        };
        let refused: Vec<_> = refused.iter().filter_map(row_of).collect();
        let taken = std::mem::take(&mut self.taken);
        self.database.accept(&taken, &refused).await.map_err(failed)
    }

    fn keeps_refused(&self) -> bool {
        true
    }
}

fn message((id, job): &(String, String)) -> Message {
    let id = id_of(id);
    let parsed =
        JobJson::parse(job).and_then(|json| json.into_new_job(&NewJob::with_id(id, "", "")));
    match parsed {
        Ok(job) => job.into(),
        Err(error) => Message::Bad {
            id,
            body: job.clone().into_bytes().into(),
            why: error.to_string(),
        },
    }
}

/// The id of a job is that of its row; a row that names no id was written by another hand.
fn id_of(row: &str) -> JobId {
    row.parse().unwrap_or_else(|_| foreign_id("outbox", row))
}

fn failed(error: sqlx::Error) -> Error {
    Error::new(ErrorKind::Io, "the outbox cannot be read or written").source(error)
}
