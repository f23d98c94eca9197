//! SQLite, whose columns take values of every type.

use sqlx::SqlitePool;

use super::rows::{self, JOB_BYTES_MAX, Row};
use super::settings::failed;
use crate::host::{Host, Result};

/// Columns are read as bytes, beside their types.
const TAKE: &str = "SELECT rowid, typeof(id), CAST(id AS BLOB), typeof(job), length(CAST(job AS BLOB)), \
                    CASE WHEN length(CAST(job AS BLOB)) <= ? THEN CAST(job AS BLOB) END \
                    FROM punctual_outbox ORDER BY n LIMIT ?";
/// A number is given again once its row is gone, where a table is not `AUTOINCREMENT`: a row is the
/// one that was read only if its id is the same.
const REFUSE: &str = "INSERT INTO punctual_outbox_refused (id, job, error) \
                      SELECT coalesce(id, ''), coalesce(job, ''), ? FROM punctual_outbox \
                      WHERE rowid = ? AND CAST(id AS BLOB) IS ?";
const DELETE_ONE: &str = "DELETE FROM punctual_outbox WHERE rowid = ? AND CAST(id AS BLOB) IS ?";
const DELETE: &str = "DELETE FROM punctual_outbox WHERE id IN (SELECT value FROM json_each(?))";

type Columns = (
    i64,
    String,
    Option<Vec<u8>>,
    String,
    Option<i64>,
    Option<Vec<u8>>,
);

pub(super) async fn check(pool: &SqlitePool) -> Result<(), sqlx::Error> {
    read(pool, 0).await?;
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let none = sqlx::query(REFUSE).bind("").bind(-1).bind("");
    none.execute(&mut *tx).await?;
    sqlx::query(DELETE).bind("[]").execute(&mut *tx).await?;
    tx.rollback().await
}

async fn read(pool: &SqlitePool, batch: u32) -> Result<Vec<Columns>, sqlx::Error> {
    let take = sqlx::query_as(TAKE).bind(JOB_BYTES_MAX).bind(batch);
    take.fetch_all(pool).await
}

/// A file has one writer at a time: the relay reads, hands over, and only then writes. Two relays
/// may hand over the same row, which is one job by its id.
pub(super) async fn hand_over(pool: &SqlitePool, host: &mut Host, batch: u32) -> Result<usize> {
    let taken: Vec<(i64, Option<Vec<u8>>, Row)> = read(pool, batch)
        .await
        .map_err(failed)?
        .into_iter()
        .map(|(place, id_type, id, job_type, length, job)| {
            let text = id.clone().filter(|_| id_type == "text");
            let mut row = Row::new(place, text, length, job);
            if row.job.is_ok() && job_type != "text" {
                row.job = Err(format!("the job is a {job_type}; insert its JSON as TEXT"));
            }
            (place, id, row)
        })
        .collect();
    if taken.is_empty() {
        return Ok(0);
    }
    let refused = rows::hand_over(host, taken.iter().map(|(_, _, row)| row)).await?;
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    let mut stored = Vec::with_capacity(taken.len());
    for (place, id, row) in &taken {
        let Some(why) = refused.get(&row.name) else {
            stored.push(row.name.as_str());
            continue;
        };
        let insert = sqlx::query(REFUSE).bind(why).bind(place).bind(id);
        insert.execute(&mut *tx).await.map_err(failed)?;
        let delete = sqlx::query(DELETE_ONE).bind(place).bind(id);
        delete.execute(&mut *tx).await.map_err(failed)?;
    }
    let stored = serde_json::to_string(&stored).unwrap_or_default();
    let delete = sqlx::query(DELETE).bind(stored);
    delete.execute(&mut *tx).await.map_err(failed)?;
    tx.commit().await.map_err(failed)?;
    Ok(taken.len())
}
