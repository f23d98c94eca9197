//! The SQL database: what connects to it, and the statements of uploads.

mod files;

use punctual::NewJob;
use punctual::time::{Timestamp, millis, pause, seconds};
use punctual::worker::BoxError;
use punctual_outbox::{Dialect, ddl};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{MySqlPool, SqlitePool};

pub(crate) use files::{Again, Attempt, File, Taken, Version};

use crate::jobs;

/// A pool of connections.
#[derive(Clone)]
pub(crate) enum Database {
    Sqlite(SqlitePool),
    Mysql(MySqlPool),
}

/// Does the same to the pool of either database; `$begin` is how it begins a transaction that
/// writes.
macro_rules! on_any {
    ($database:expr, $pool:ident, $begin:ident => $done:expr) => {
        match $database {
            $crate::db::Database::Sqlite($pool) => {
                let $begin = "BEGIN IMMEDIATE";
                $done
            }
            $crate::db::Database::Mysql($pool) => {
                let $begin = "BEGIN";
                $done
            }
        }
    };
    ($database:expr, $pool:ident => $done:expr) => {
        match $database {
            $crate::db::Database::Sqlite($pool) => $done,
            $crate::db::Database::Mysql($pool) => $done,
        }
    };
}
pub(crate) use on_any;

/// What an upload is, once all of it is in the store.
pub(crate) struct NewFile<'a> {
    pub(crate) upload: &'a str,
    pub(crate) name: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) header: i64,
    pub(crate) size: i64,
    pub(crate) sha256: &'a str,
    pub(crate) now: i64,
    pub(crate) expires: i64,
    pub(crate) quota: i64,
    /// Whether its bytes are in the store: those that did not fit are only hashed.
    pub(crate) is_stored: bool,
}

/// A transaction that another one stood in the way of is tried again, up to this.
const TRIES_MAX: usize = 8;

/// What became of an upload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// A file of that id, with its jobs.
    Stored(String),
    /// The same bytes are there already, under that id.
    Duplicate(String),
    /// The upload was given up in between: its bytes may be gone.
    Gone,
    /// It does not fit any more.
    OverQuota,
}

impl Database {
    /// Connects, and makes the tables that are missing.
    pub(crate) async fn open(address: &str) -> Result<Self, BoxError> {
        let database = match address.split_once(':') {
            Some(("sqlite", _)) => {
                let options: SqliteConnectOptions = address.parse()?;
                let options = options
                    .create_if_missing(true)
                    .busy_timeout(seconds(30))
                    .journal_mode(SqliteJournalMode::Wal)
                    // A commit is on disk when it returns, as the answer to an upload says.
                    .synchronous(SqliteSynchronous::Full);
                let pool = SqlitePoolOptions::new().max_connections(4);
                Self::Sqlite(pool.connect_with(options).await?)
            }
            Some(("mysql" | "mariadb", _)) => {
                let pool = MySqlPoolOptions::new()
                    .max_connections(8)
                    .acquire_timeout(seconds(10));
                // The usual level locks gaps between rows, into which others could not insert.
                let pool = pool.after_connect(|connection, _| {
                    Box::pin(async move {
                        let level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
                        sqlx::query(level).execute(connection).await.map(drop)
                    })
                });
                let address = address.replacen("mariadb", "mysql", 1);
                Self::Mysql(pool.connect(&address).await?)
            }
            _ => {
                return Err(
                    "--sql must be sqlite:FILE or mysql://USER:PASSWORD@HOST/DATABASE".into(),
                );
            }
        };
        database.create_tables().await?;
        Ok(database)
    }

    /// Two processes may start at once: the one that comes second finds the tables.
    async fn create_tables(&self) -> Result<(), BoxError> {
        let (ours, outbox) = match self {
            Self::Sqlite(_) => (include_str!("../ddl/sqlite.sql"), ddl(Dialect::Sqlite)),
            Self::Mysql(_) => (include_str!("../ddl/mysql.sql"), ddl(Dialect::Mysql)),
        };
        let mut tries = 0;
        loop {
            let made = async {
                on_any!(self, pool => sqlx::raw_sql(ours).execute(pool).await.map(drop))?;
                let has_outbox = on_any!(self, pool => {
                    sqlx::query("SELECT 1 FROM punctual_outbox LIMIT 1").fetch_optional(pool).await.is_ok()
                });
                match has_outbox {
                    true => Ok(()),
                    false => {
                        on_any!(self, pool => sqlx::raw_sql(outbox).execute(pool).await.map(drop))
                    }
                }
            };
            match made.await {
                Ok(()) => return Ok(()),
                Err(error) if tries == 20 => return Err(error.into()),
                Err(_) => tries += 1,
            }
            pause(millis(100)).await;
        }
    }

    /// Notes an upload before its first byte is in the store.
    pub(crate) async fn open_upload(&self, id: &str, now: i64) -> Result<(), sqlx::Error> {
        let insert = "INSERT INTO uploads (id, state, created) VALUES (?, 'open', ?)";
        on_any!(self, pool => sqlx::query(insert).bind(id).bind(now).execute(pool).await.map(drop))
    }

    /// Gives an upload up, unless it is a file; answers whether its object is to be deleted.
    ///
    /// One row decides between this and [`finish_upload`](Self::finish_upload): whichever comes
    /// second finds the state changed.
    pub(crate) async fn abandon_upload(&self, id: &str) -> Result<bool, sqlx::Error> {
        let update = "UPDATE uploads SET state = 'aborted' WHERE id = ? AND state = 'open'";
        let select = "SELECT state FROM uploads WHERE id = ?";
        on_any!(self, pool => {
            sqlx::query(update).bind(id).execute(pool).await?;
            let state: Option<String> = sqlx::query_scalar(select).bind(id).fetch_optional(pool).await?;
            Ok(state.is_none_or(|state| state != "stored"))
        })
    }

    /// The row of an upload whose object is gone.
    pub(crate) async fn forget_upload(&self, id: &str) -> Result<(), sqlx::Error> {
        let delete = "DELETE FROM uploads WHERE id = ? AND state <> 'stored'";
        on_any!(self, pool => sqlx::query(delete).bind(id).execute(pool).await.map(drop))
    }

    /// The bytes of all files that are kept.
    pub(crate) async fn bytes_kept(&self) -> Result<i64, sqlx::Error> {
        let select = "SELECT bytes FROM totals WHERE id = 1";
        on_any!(self, pool => sqlx::query_scalar(select).fetch_one(pool).await)
    }

    /// Whether there is a file of so many bytes, at least and at most, that another upload may be
    /// the same as.
    pub(crate) async fn has_size(&self, sizes: (u64, u64), now: i64) -> Result<bool, sqlx::Error> {
        let select = "SELECT 1 FROM files WHERE size >= ? AND size <= ? AND hash IS NOT NULL \
             AND expires > ? LIMIT 1";
        let limit = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let (least, most) = (limit(sizes.0), limit(sizes.1));
        on_any!(self, pool => {
            let found = sqlx::query(select).bind(least).bind(most).bind(now).fetch_optional(pool);
            Ok(found.await?.is_some())
        })
    }

    /// Makes a file of an upload: its record and its jobs in one transaction, or none of it.
    pub(crate) async fn finish_upload(&self, new: &NewFile<'_>) -> Result<Finished, BoxError> {
        let mut tries = 1;
        loop {
            match self.try_finish(new).await {
                // The same bytes came twice at once: the next try finds the other's file.
                Err(error) if tries < TRIES_MAX && is_conflict(&error) => tries += 1,
                ended => return ended,
            }
        }
    }

    async fn try_finish(&self, new: &NewFile<'_>) -> Result<Finished, BoxError> {
        let close = "UPDATE uploads SET state = ? WHERE id = ? AND state = 'open'";
        // A record whose time is over stands for no new bytes, even if no job has ended it.
        let overdue = "UPDATE files SET hash = NULL WHERE hash = ? AND expires <= ?";
        let same = "SELECT id FROM files WHERE hash = ?";
        let reserve = "UPDATE totals SET bytes = bytes + ? WHERE id = 1 AND bytes + ? <= ?";
        let insert = "INSERT INTO files (id, name, kind, header, size, sha256, hash, object, state, generation, done, \
             fence, byte_offset, row_total, job, attempt, created, expires) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'queued', 1, 0, 0, 0, 0, ?, 0, ?, ?)";
        let id = uuid::Uuid::new_v4().to_string();
        let process = jobs::process(&id, 1)?;
        let expire = NewJob::of(&jobs::Expire { file: id.clone() })?
            .at(Timestamp::from_micros(new.expires.unsigned_abs()));
        on_any!(self, pool, begin => {
            let mut tx = pool.begin_with(begin).await?;
            sqlx::query(overdue).bind(new.sha256).bind(new.now).execute(&mut *tx).await?;
            let there: Option<String> =
                sqlx::query_scalar(same).bind(new.sha256).fetch_optional(&mut *tx).await?;
            let state = if there.is_some() { "duplicate" } else { "stored" };
            let closed = sqlx::query(close).bind(state).bind(new.upload).execute(&mut *tx).await?;
            if closed.rows_affected() == 0 {
                return Ok(Finished::Gone);
            }
            if let Some(there) = there {
                tx.commit().await?;
                return Ok(Finished::Duplicate(there));
            }
            if !new.is_stored {
                return Ok(Finished::OverQuota);
            }
            let reserved = sqlx::query(reserve).bind(new.size).bind(new.size).bind(new.quota);
            if reserved.execute(&mut *tx).await?.rows_affected() == 0 {
                return Ok(Finished::OverQuota);
            }
            sqlx::query(insert)
                .bind(&id).bind(new.name).bind(new.kind).bind(new.header).bind(new.size)
                .bind(new.sha256).bind(new.sha256).bind(new.upload).bind(process.id.to_string())
                .bind(new.now).bind(new.expires)
                .execute(&mut *tx)
                .await?;
            punctual_outbox::enqueue(&mut *tx, process).await?;
            punctual_outbox::enqueue(&mut *tx, expire).await?;
            tx.commit().await?;
        });
        Ok(Finished::Stored(id))
    }
}

/// Whether another transaction stood in the way: a key is taken, or the server ended a deadlock.
fn is_conflict(error: &BoxError) -> bool {
    let error = error.downcast_ref::<sqlx::Error>();
    let error = error.and_then(sqlx::Error::as_database_error);
    error.is_some_and(|error| {
        error.is_unique_violation() || error.code().as_deref() == Some("40001")
    })
}

#[cfg(test)]
mod tests;
