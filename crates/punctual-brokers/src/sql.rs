//! The outbox of a database: rows are deleted once their jobs are stored.

use std::collections::HashMap;
use std::time::Duration;

use punctual::time::{millis, pause, seconds, within};
use serde_json::value::RawValue;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{MySqlPool, PgPool, SqlitePool};

use crate::host::{Failure, Host, Line, Result};

pub(crate) struct Options {
    pub(crate) poll: Duration,
    pub(crate) batch: u32,
    pub(crate) until_idle: bool,
    pub(crate) notify: bool,
    pub(crate) ordered: bool,
}

/// The channel on which the trigger of `ddl --notify` notifies of rows.
const CHANNEL: &str = "punctual_outbox";
/// The lock that one ordered relay holds: "punctual" as a number.
const ORDERED_LOCK: i64 = 0x7075_6e63_7475_616c;
/// The pause of an ordered relay while another one works.
const STANDBY: Duration = seconds(1);

/// The first pause between two polls of an empty outbox.
const POLL_FIRST: Duration = millis(20);
/// A row with more is refused here: a line of the relay has a bound.
const JOB_BYTES_MAX: usize = 1 << 20;
/// The lag is counted up to that, so that a count costs no more.
const LAG_MAX: i64 = 100_000;

enum Database {
    Postgres(PgPool),
    Mysql(MySqlPool),
    Sqlite(SqlitePool),
}

/// A row: its id, and its job as it was inserted.
type Row = (String, String);

pub(crate) async fn run(address: &str, options: &Options) -> Result<()> {
    let database = Database::open(address).await?;
    database.lag().await?;
    let mut listener = match (options.notify, &database) {
        (false, _) => None,
        (true, Database::Postgres(pool)) => Some(listener(pool).await?),
        (true, _) => {
            return Err(Failure::new(
                "only PostgreSQL has NOTIFY; leave --notify out",
            ));
        }
    };
    let mut turn = match (options.ordered, &database) {
        (true, Database::Mysql(_)) => {
            let text = "rows of MySQL and MariaDB have no order that holds; leave --ordered out";
            return Err(Failure::new(text));
        }
        // Rows of SQLite are in the order of their commits: it has one writer.
        (true, Database::Postgres(pool)) => Some(pool.acquire().await.map_err(failed)?),
        _ => None,
    };
    let mut host = Host::start();
    host.say(serde_json::json!({"keeps_refused": true})).await?;
    let mut span = POLL_FIRST;
    loop {
        if let Some(turn) = &mut turn {
            // The session holds it: a relay that dies gives it back.
            let has = sqlx::query_scalar::<_, bool>(
                "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) \
                 OR pg_try_advisory_lock($1)",
            );
            let has = has.bind(ORDERED_LOCK).fetch_one(&mut **turn).await;
            if !has.map_err(failed)? {
                host.say(serde_json::json!({"lag": database.lag().await?}))
                    .await?;
                pause(STANDBY).await;
                continue;
            }
        }
        let taken = match &database {
            Database::Postgres(pool) if options.ordered => {
                ordered(pool, &mut host, options.batch).await?
            }
            Database::Postgres(pool) => postgres(pool, &mut host, options.batch).await?,
            Database::Mysql(pool) => mysql(pool, &mut host, options.batch).await?,
            Database::Sqlite(pool) => sqlite(pool, &mut host, options.batch).await?,
        };
        if taken > 0 {
            span = POLL_FIRST;
            continue;
        }
        let lag = database.lag().await?;
        host.say(serde_json::json!({"lag": lag})).await?;
        if options.until_idle && lag == 0 {
            return Ok(());
        }
        match &mut listener {
            // Polls find rows without a NOTIFY: poolers drop the session that listens.
            Some(listener) => {
                let notified = within(options.poll.max(seconds(1)), listener.recv()).await;
                notified.transpose().map_err(failed)?;
            }
            None => {
                pause(span).await;
                span = (span * 2).min(options.poll.max(POLL_FIRST));
            }
        }
    }
}

async fn listener(pool: &PgPool) -> Result<PgListener> {
    let has = "SELECT EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'punctual_outbox_notify')";
    let has: bool = sqlx::query_scalar(has)
        .fetch_one(pool)
        .await
        .map_err(failed)?;
    if !has {
        let text =
            "the table has no trigger for --notify; make it by `punctual outbox ddl --notify`";
        return Err(Failure::new(text));
    }
    let mut listener = PgListener::connect_with(pool).await.map_err(failed)?;
    listener.listen(CHANNEL).await.map_err(failed)?;
    Ok(listener)
}

impl Database {
    async fn open(address: &str) -> Result<Self> {
        let (scheme, _) = address.split_once(':').unwrap_or((address, ""));
        // An error may show no password.
        let failed = |error: sqlx::Error| Failure::of("the database does not answer", error);
        match scheme {
            "postgres" | "postgresql" => {
                let options = PgPoolOptions::new()
                    .max_connections(4)
                    .acquire_timeout(seconds(10));
                Ok(Self::Postgres(
                    options.connect(address).await.map_err(failed)?,
                ))
            }
            "mysql" | "mariadb" => {
                let options = MySqlPoolOptions::new()
                    .max_connections(2)
                    .acquire_timeout(seconds(10));
                // The usual level locks gaps between rows, into which others could not insert.
                let options = options.after_connect(|connection, _| {
                    Box::pin(async move {
                        let level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
                        sqlx::query(level).execute(connection).await.map(drop)
                    })
                });
                let address = address.replacen("mariadb", "mysql", 1);
                Ok(Self::Mysql(
                    options.connect(&address).await.map_err(failed)?,
                ))
            }
            "sqlite" => {
                let options: SqliteConnectOptions = address.parse().map_err(failed)?;
                let options = options.busy_timeout(seconds(10));
                let pool = SqlitePoolOptions::new().max_connections(1);
                Ok(Self::Sqlite(
                    pool.connect_with(options).await.map_err(failed)?,
                ))
            }
            _ => Err(Failure::new(
                "not an address of a database; use postgres:, mysql: or sqlite:",
            )),
        }
    }

    /// How many rows wait, up to a bound.
    async fn lag(&self) -> Result<i64> {
        let count = format!(
            "SELECT count(*) FROM (SELECT 1 FROM punctual_outbox LIMIT {LAG_MAX}) AS waiting"
        );
        let count = sqlx::AssertSqlSafe(count);
        let counted = match self {
            Self::Postgres(pool) => sqlx::query_scalar(count).fetch_one(pool).await,
            Self::Mysql(pool) => sqlx::query_scalar(count).fetch_one(pool).await,
            Self::Sqlite(pool) => sqlx::query_scalar(count).fetch_one(pool).await,
        };
        counted.map_err(failed)
    }
}

fn failed(error: sqlx::Error) -> Failure {
    Failure::of(
        "the outbox (has the database its tables? `punctual outbox ddl`)",
        error,
    )
}

/// Hands rows over; answers those that are refused, with the reason.
async fn hand_over(host: &mut Host, rows: &[Row]) -> Result<HashMap<String, String>> {
    let mut refused = HashMap::new();
    let mut lines = Vec::with_capacity(rows.len());
    for (id, job) in rows {
        if job.len() > JOB_BYTES_MAX {
            let why = format!("the job has {} bytes; at most 1 MiB is read", job.len());
            refused.insert(id.clone(), why);
            continue;
        }
        let job = with_id(job, id);
        lines.push(Line {
            name: id.clone(),
            job,
            bad: None,
        });
    }
    refused.extend(host.hand_over(&lines).await?);
    Ok(refused)
}

/// The job with the id of its row; what is no object stays as it is, and is refused by the relay.
fn with_id(job: &str, id: &str) -> String {
    let fields = serde_json::from_str::<std::collections::BTreeMap<String, &RawValue>>(job);
    let raw = serde_json::value::to_raw_value(id);
    match (fields, raw) {
        (Ok(mut fields), Ok(raw)) => {
            fields.insert("id".into(), &raw);
            serde_json::to_string(&fields).unwrap_or_default()
        }
        _ => job.to_owned(),
    }
}

/// Deletes and hands over in one transaction: rows that another relay has taken are skipped.
async fn postgres(pool: &PgPool, host: &mut Host, batch: u32) -> Result<usize> {
    let mut tx = pool.begin().await.map_err(failed)?;
    let rows: Vec<Row> = sqlx::query_as(
        "WITH taken AS (SELECT id FROM punctual_outbox ORDER BY n LIMIT $1 FOR UPDATE SKIP LOCKED) \
         DELETE FROM punctual_outbox AS o USING taken WHERE o.id = taken.id RETURNING o.id::text, o.job",
    )
    .bind(i64::from(batch))
    .fetch_all(&mut *tx)
    .await
    .map_err(failed)?;
    let refused = hand_over(host, &rows).await?;
    refuse(&mut tx, &rows, &refused).await?;
    tx.commit().await.map_err(failed)?;
    Ok(rows.len())
}

/// Rows in the order of their transactions, and in them that of their inserts; none before all
/// transactions that began earlier have ended. One relay at a time does this.
async fn ordered(pool: &PgPool, host: &mut Host, batch: u32) -> Result<usize> {
    let mut tx = pool.begin().await.map_err(failed)?;
    let take = "SELECT id::text, job FROM punctual_outbox \
                WHERE xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY xid, n LIMIT $1 FOR UPDATE";
    let rows: Vec<Row> = sqlx::query_as(take)
        .bind(i64::from(batch))
        .fetch_all(&mut *tx)
        .await
        .map_err(failed)?;
    let refused = hand_over(host, &rows).await?;
    refuse(&mut tx, &rows, &refused).await?;
    let ids: Vec<&str> = rows.iter().map(|(id, _)| id.as_str()).collect();
    let delete = "DELETE FROM punctual_outbox WHERE id = ANY ($1::uuid[])";
    let delete = sqlx::query(delete).bind(&ids);
    delete.execute(&mut *tx).await.map_err(failed)?;
    tx.commit().await.map_err(failed)?;
    Ok(rows.len())
}

/// Rows that are no jobs move beside, with the reason.
async fn refuse(
    tx: &mut sqlx::Transaction<'_, sqlx::Postgres>,
    rows: &[Row],
    refused: &HashMap<String, String>,
) -> Result<()> {
    for (id, why) in refused {
        let job = rows
            .iter()
            .find(|(of, _)| of == id)
            .map(|(_, job)| job.as_str());
        let insert =
            "INSERT INTO punctual_outbox_refused (id, job, error) VALUES ($1::uuid, $2, $3)";
        let insert = sqlx::query(insert).bind(id).bind(job).bind(why);
        insert.execute(&mut **tx).await.map_err(failed)?;
    }
    Ok(())
}

/// The same where no deletion answers rows.
async fn mysql(pool: &MySqlPool, host: &mut Host, batch: u32) -> Result<usize> {
    let mut tx = pool.begin().await.map_err(failed)?;
    let take = "SELECT id, job FROM punctual_outbox ORDER BY n LIMIT ? FOR UPDATE SKIP LOCKED";
    let rows: Vec<Row> = sqlx::query_as(take)
        .bind(batch)
        .fetch_all(&mut *tx)
        .await
        .map_err(failed)?;
    let refused = hand_over(host, &rows).await?;
    for (id, why) in &refused {
        let job = rows
            .iter()
            .find(|(of, _)| of == id)
            .map(|(_, job)| job.as_str());
        let insert = "INSERT INTO punctual_outbox_refused (id, job, error) VALUES (?, ?, ?)";
        let insert = sqlx::query(insert).bind(id).bind(job).bind(why);
        insert.execute(&mut *tx).await.map_err(failed)?;
    }
    if !rows.is_empty() {
        let places = vec!["?"; rows.len()].join(",");
        let delete = format!("DELETE FROM punctual_outbox WHERE id IN ({places})");
        let delete = sqlx::query(sqlx::AssertSqlSafe(delete));
        let delete = rows.iter().fold(delete, |delete, (id, _)| delete.bind(id));
        delete.execute(&mut *tx).await.map_err(failed)?;
    }
    tx.commit().await.map_err(failed)?;
    Ok(rows.len())
}

/// A file has one writer at a time: the relay reads, hands over, and only then writes. Two relays
/// may hand over the same row, which is one job by its id.
async fn sqlite(pool: &SqlitePool, host: &mut Host, batch: u32) -> Result<usize> {
    let take = "SELECT id, job FROM punctual_outbox ORDER BY n LIMIT ?";
    let rows: Vec<Row> = sqlx::query_as(take)
        .bind(batch)
        .fetch_all(pool)
        .await
        .map_err(failed)?;
    if rows.is_empty() {
        return Ok(0);
    }
    let refused = hand_over(host, &rows).await?;
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    for (id, job) in &rows {
        let deleted = sqlx::query("DELETE FROM punctual_outbox WHERE id = ?").bind(id);
        let deleted = deleted.execute(&mut *tx).await.map_err(failed)?;
        if let Some(why) = refused.get(id)
            && deleted.rows_affected() > 0
        {
            let insert = "INSERT INTO punctual_outbox_refused (id, job, error) VALUES (?, ?, ?)";
            let insert = sqlx::query(insert).bind(id).bind(job).bind(why);
            insert.execute(&mut *tx).await.map_err(failed)?;
        }
    }
    tx.commit().await.map_err(failed)?;
    Ok(rows.len())
}
