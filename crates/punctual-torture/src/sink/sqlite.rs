use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use punctual::JobId;
use punctual::time::seconds;
use rusqlite::{Connection, TransactionBehavior, params};

use super::{Rows, Sink};

/// A file, shared by the workers of a round.
pub(super) struct Sqlite(Mutex<Connection>);

/// It survives kills, which is all that is done to its processes.
const SCHEMA: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS effect (job_id BLOB, step INTEGER, fence INTEGER, nonce INTEGER,
        PRIMARY KEY (job_id, step)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS business (job_id BLOB, step INTEGER);";

impl Sqlite {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let connection = Connection::open(path).map_err(io::Error::other)?;
        connection
            .busy_timeout(seconds(20))
            .map_err(io::Error::other)?;
        connection.execute_batch(SCHEMA).map_err(io::Error::other)?;
        Ok(Self(Mutex::new(connection)))
    }
}

impl Sink for Sqlite {
    fn write(&self, job: JobId, step: u32, fence: u64, nonce: u64) -> io::Result<bool> {
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut write = || {
            let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let effect = "INSERT OR IGNORE INTO effect VALUES (?1, ?2, ?3, ?4)";
            let keys = params![job.as_bytes(), step, fence as i64, nonce as i64];
            let new = change.prepare_cached(effect)?.execute(keys)? == 1;
            if new {
                let business = "INSERT INTO business VALUES (?1, ?2)";
                change
                    .prepare_cached(business)?
                    .execute(params![job.as_bytes(), step])?;
            }
            change.commit()?;
            Ok(new)
        };
        write().map_err(|error: rusqlite::Error| io::Error::other(error))
    }

    fn rows(&self) -> io::Result<BTreeMap<JobId, Rows>> {
        let connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows: BTreeMap<JobId, Rows> = BTreeMap::new();
        let mut count = |table: &str, add: fn(&mut Rows)| -> rusqlite::Result<()> {
            let mut ids = connection.prepare(&format!("SELECT job_id FROM {table}"))?;
            let ids = ids.query_map([], |row| row.get::<_, [u8; 16]>(0))?;
            for id in ids {
                add(rows.entry(JobId::from_bytes(id?)).or_default());
            }
            Ok(())
        };
        count("effect", |rows| rows.effects += 1).map_err(io::Error::other)?;
        count("business", |rows| rows.business += 1).map_err(io::Error::other)?;
        Ok(rows)
    }
}
