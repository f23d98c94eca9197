//! MySQL and MariaDB, where no deletion answers rows.

use sqlx::{MySql, MySqlPool, Transaction};

use super::rows::{self, JOB_BYTES_MAX, Row};
use super::settings::failed;
use crate::host::{Host, Result};

/// Columns are read as bytes: an older table may have others than text.
const TAKE: &str = "SELECT CAST(n AS SIGNED), CAST(id AS BINARY), CAST(LENGTH(job) AS SIGNED), \
                    CASE WHEN LENGTH(job) <= ? THEN CAST(job AS BINARY) END \
                    FROM punctual_outbox ORDER BY n LIMIT ? FOR UPDATE SKIP LOCKED";
const REFUSE: &str = "INSERT INTO punctual_outbox_refused (id, job, error) \
                      SELECT left(coalesce(id, ''), 36), coalesce(job, ''), ? FROM punctual_outbox WHERE n = ?";
/// Of bytes that are no text, what the column takes.
const REFUSE_BYTES: &str = "INSERT INTO punctual_outbox_refused (id, job, error) \
                            SELECT left(coalesce(hex(id), ''), 36), coalesce(hex(job), ''), ? FROM punctual_outbox WHERE n = ?";

pub(super) async fn check(pool: &MySqlPool) -> Result<(), sqlx::Error> {
    let mut tx = pool.begin().await?;
    read(&mut tx, 0).await?;
    let none = sqlx::query(REFUSE).bind("").bind(-1);
    none.execute(&mut *tx).await?;
    delete(&mut tx, &[-1]).await?;
    tx.rollback().await
}

pub(super) async fn hand_over(pool: &MySqlPool, host: &mut Host, batch: u32) -> Result<usize> {
    let mut tx = pool.begin().await.map_err(failed)?;
    let taken = read(&mut tx, batch).await.map_err(failed)?;
    let refused = rows::hand_over(host, taken.iter().map(|(_, row)| row)).await?;
    for (n, row) in &taken {
        let Some(why) = refused.get(&row.name) else {
            continue;
        };
        let insert = sqlx::query(match row.is_text {
            true => REFUSE,
            false => REFUSE_BYTES,
        });
        let insert = insert.bind(why).bind(n);
        insert.execute(&mut *tx).await.map_err(failed)?;
    }
    let places: Vec<i64> = taken.iter().map(|(n, _)| *n).collect();
    delete(&mut tx, &places).await.map_err(failed)?;
    tx.commit().await.map_err(failed)?;
    Ok(taken.len())
}

async fn read(tx: &mut Transaction<'_, MySql>, batch: u32) -> Result<Vec<(i64, Row)>, sqlx::Error> {
    type Columns = (i64, Option<Vec<u8>>, Option<i64>, Option<Vec<u8>>);
    let rows: Vec<Columns> = sqlx::query_as(TAKE)
        .bind(JOB_BYTES_MAX)
        .bind(batch)
        .fetch_all(&mut **tx)
        .await?;
    let row = |(n, id, length, job): Columns| (n, Row::new(n, id, length, job));
    Ok(rows.into_iter().map(row).collect())
}

async fn delete(tx: &mut Transaction<'_, MySql>, places: &[i64]) -> Result<(), sqlx::Error> {
    if places.is_empty() {
        return Ok(());
    }
    let marks = vec!["?"; places.len()].join(",");
    let delete = format!("DELETE FROM punctual_outbox WHERE n IN ({marks})");
    let delete = sqlx::query(sqlx::AssertSqlSafe(delete));
    let delete = places.iter().fold(delete, |delete, n| delete.bind(n));
    delete.execute(&mut **tx).await.map(drop)
}
