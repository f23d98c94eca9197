//! PostgreSQL.

use sqlx::{PgPool, Postgres, Transaction};

use super::rows::{self, JOB_BYTES_MAX, Row};
use super::settings::failed;
use crate::host::{Host, Result};

const DELETE: &str = "DELETE FROM punctual_outbox WHERE id = ANY ($1::uuid[])";
const REFUSE: &str = "INSERT INTO punctual_outbox_refused (id, job, error) \
                      SELECT id, coalesce(job::text, ''), $2 FROM punctual_outbox WHERE id = $1::uuid";
/// The bytes of a job are read only if they are within the bound.
const COLUMNS: &str = "id::text, octet_length(job::text), \
                       CASE WHEN octet_length(job::text) <= $2 THEN job::text END";

pub(super) async fn check(pool: &PgPool) -> Result<(), sqlx::Error> {
    let mut tx = pool.begin().await?;
    read(&mut tx, 0, false).await?;
    let none = sqlx::query(REFUSE).bind("00000000-0000-0000-0000-000000000000");
    none.bind("").execute(&mut *tx).await?;
    let none: [&str; 0] = [];
    sqlx::query(DELETE).bind(none).execute(&mut *tx).await?;
    tx.rollback().await
}

/// Hands over and deletes in one transaction: rows that another relay has taken are skipped.
///
/// In order, rows are in that of their transactions, and in these in that of their inserts; none
/// comes before all transactions that began earlier have ended. One relay at a time does this.
pub(super) async fn hand_over(
    pool: &PgPool,
    host: &mut Host,
    batch: u32,
    in_order: bool,
) -> Result<usize> {
    let mut tx = pool.begin().await.map_err(failed)?;
    let rows = read(&mut tx, batch, in_order).await.map_err(failed)?;
    let refused = rows::hand_over(host, rows.iter()).await?;
    for (id, why) in &refused {
        let insert = sqlx::query(REFUSE).bind(id).bind(why);
        insert.execute(&mut *tx).await.map_err(failed)?;
    }
    let ids: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let delete = sqlx::query(DELETE).bind(&ids);
    delete.execute(&mut *tx).await.map_err(failed)?;
    tx.commit().await.map_err(failed)?;
    Ok(rows.len())
}

async fn read(
    tx: &mut Transaction<'_, Postgres>,
    batch: u32,
    in_order: bool,
) -> Result<Vec<Row>, sqlx::Error> {
    let take = match in_order {
        true => format!(
            "SELECT {COLUMNS} FROM punctual_outbox AS o \
             WHERE xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY xid, n LIMIT $1 FOR UPDATE"
        ),
        false => format!(
            "SELECT {COLUMNS} FROM punctual_outbox AS o ORDER BY n LIMIT $1 FOR UPDATE SKIP LOCKED"
        ),
    };
    type Columns = (Option<String>, Option<i32>, Option<String>);
    let rows: Vec<Columns> = sqlx::query_as(sqlx::AssertSqlSafe(take))
        .bind(i64::from(batch))
        .bind(JOB_BYTES_MAX as i32)
        .fetch_all(&mut **tx)
        .await?;
    let row = |(id, length, job): Columns| {
        let (id, job) = (id.map(String::into_bytes), job.map(String::into_bytes));
        Row::new(0, id, length.map(i64::from), job)
    };
    Ok(rows.into_iter().map(row).collect())
}
