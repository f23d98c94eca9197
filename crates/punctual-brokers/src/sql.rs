//! The outbox of a database: rows are deleted once their jobs are stored.

mod mysql;
mod postgres;
mod rows;
mod settings;
mod sqlite;

use std::time::Duration;

use punctual::time::{millis, pause, seconds, within};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{MySqlPool, PgPool, SqlitePool};

use self::settings::{at_start, failed};
use crate::host::{Failure, Host, Result};

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
/// The lag is counted up to that, so that a count costs no more.
const LAG_MAX: i64 = 100_000;

enum Database {
    Postgres(PgPool),
    Mysql(MySqlPool),
    Sqlite(SqlitePool),
}

pub(crate) async fn run(address: &str, options: &Options) -> Result<()> {
    let database = Database::open(address).await?;
    database.check().await.map_err(at_start)?;
    let mut listener = match (options.notify, &database) {
        (false, _) => None,
        (true, Database::Postgres(pool)) => Some(listener(pool).await?),
        (true, _) => {
            return Err(Failure::setting(
                "only PostgreSQL has NOTIFY; leave --notify out",
            ));
        }
    };
    let mut turn = match (options.ordered, &database) {
        (true, Database::Mysql(_)) => {
            let text = "rows of MySQL and MariaDB have no order that holds; leave --ordered out";
            return Err(Failure::setting(text));
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
            Database::Postgres(pool) => {
                postgres::hand_over(pool, &mut host, options.batch, options.ordered).await?
            }
            Database::Mysql(pool) => mysql::hand_over(pool, &mut host, options.batch).await?,
            Database::Sqlite(pool) => sqlite::hand_over(pool, &mut host, options.batch).await?,
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
        return Err(Failure::setting(text));
    }
    let mut listener = PgListener::connect_with(pool).await.map_err(failed)?;
    listener.listen(CHANNEL).await.map_err(failed)?;
    Ok(listener)
}

impl Database {
    async fn open(address: &str) -> Result<Self> {
        let (scheme, _) = address.split_once(':').unwrap_or((address, ""));
        match scheme {
            "postgres" | "postgresql" => {
                let options = PgPoolOptions::new()
                    .max_connections(4)
                    .acquire_timeout(seconds(10));
                Ok(Self::Postgres(
                    options.connect(address).await.map_err(at_start)?,
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
                    options.connect(&address).await.map_err(at_start)?,
                ))
            }
            "sqlite" => {
                let options: SqliteConnectOptions = address.parse().map_err(at_start)?;
                let options = options.busy_timeout(seconds(10));
                let pool = SqlitePoolOptions::new().max_connections(1);
                Ok(Self::Sqlite(
                    pool.connect_with(options).await.map_err(at_start)?,
                ))
            }
            _ => Err(Failure::setting(
                "not an address of a database; use postgres:, mysql: or sqlite:",
            )),
        }
    }

    /// Prepares every statement that writes, on no rows: a table, a column or a right that lacks is
    /// an error now, not at the first row.
    async fn check(&self) -> Result<(), sqlx::Error> {
        match self {
            Self::Postgres(pool) => postgres::check(pool).await,
            Self::Mysql(pool) => mysql::check(pool).await,
            Self::Sqlite(pool) => sqlite::check(pool).await,
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
