//! The insert, in the transaction of the caller.

use std::future::Future;

use punctual::queue::IntoNewJob;
use punctual::{Error, ErrorKind, JobId, Limits, Result};

use crate::job_json::job_json;

/// A connection to a database that has the tables; `&mut *tx` of a transaction is one.
pub trait OutboxConnection {
    /// Inserts a row.
    fn insert(
        &mut self,
        id: &str,
        job: &str,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// Enqueues a job once the transaction commits, and answers its id.
///
/// The job is checked here, by the same rules as engines check it. Jobs of flows and jobs that wait
/// for others have no place in an outbox.
pub async fn enqueue(
    connection: &mut impl OutboxConnection,
    job: impl IntoNewJob,
) -> Result<JobId> {
    let job = job.into_new_job()?;
    job.check(&Limits::default())?;
    let id = job.id;
    let inserted = connection.insert(&id.to_string(), &job_json(&job)?).await;
    inserted.map_err(|error| {
        let message = "the row was not inserted; has the database the tables of the outbox?";
        Error::new(ErrorKind::Io, message).source(error)
    })?;
    Ok(id)
}

#[cfg(feature = "postgres")]
impl OutboxConnection for sqlx::PgConnection {
    async fn insert(&mut self, id: &str, job: &str) -> Result<(), sqlx::Error> {
        let insert = "INSERT INTO punctual_outbox (id, job) VALUES ($1::uuid, $2)";
        sqlx::query(insert)
            .bind(id)
            .bind(job)
            .execute(self)
            .await
            .map(drop)
    }
}

#[cfg(feature = "mysql")]
impl OutboxConnection for sqlx::MySqlConnection {
    async fn insert(&mut self, id: &str, job: &str) -> Result<(), sqlx::Error> {
        let insert = "INSERT INTO punctual_outbox (id, job) VALUES (?, ?)";
        sqlx::query(insert)
            .bind(id)
            .bind(job)
            .execute(self)
            .await
            .map(drop)
    }
}

#[cfg(feature = "sqlite")]
impl OutboxConnection for sqlx::SqliteConnection {
    async fn insert(&mut self, id: &str, job: &str) -> Result<(), sqlx::Error> {
        let insert = "INSERT INTO punctual_outbox (id, job) VALUES (?, ?)";
        sqlx::query(insert)
            .bind(id)
            .bind(job)
            .execute(self)
            .await
            .map(drop)
    }
}
