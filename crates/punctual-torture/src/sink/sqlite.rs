//! Effects in an SQLite file.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use punctual::JobId;
use punctual::time::seconds;
use rusqlite::{Connection, TransactionBehavior, params};

use super::grouped::Store;
use super::{Effect, Rows};

/// A file, shared by the workers of a round.
pub(super) struct Sqlite(Connection);

/// Without syncs: it survives kills, which is all that is done to its processes.
const SCHEMA: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
    CREATE TABLE IF NOT EXISTS effect (job_id BLOB, step INTEGER, fence INTEGER, nonce INTEGER,
        PRIMARY KEY (job_id, step)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS business (job_id BLOB, step INTEGER);";

const EFFECT: &str = "INSERT OR IGNORE INTO effect VALUES (?1, ?2, ?3, ?4)";
const BUSINESS: &str = "INSERT INTO business VALUES (?1, ?2)";

impl Sqlite {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let connection = Connection::open(path).map_err(io::Error::other)?;
        connection
            .busy_timeout(seconds(20))
            .map_err(io::Error::other)?;
        connection.execute_batch(SCHEMA).map_err(io::Error::other)?;
        Ok(Self(connection))
    }

    fn insert(&mut self, effects: &[Effect]) -> rusqlite::Result<Vec<bool>> {
        let change = (self.0).transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut all_new = Vec::with_capacity(effects.len());
        for effect in effects {
            let (id, step) = (effect.job.as_bytes(), effect.step);
            let keys = params![id, step, effect.fence as i64, effect.nonce as i64];
            let new = change.prepare_cached(EFFECT)?.execute(keys)? == 1;
            if new {
                change
                    .prepare_cached(BUSINESS)?
                    .execute(params![id, step])?;
            }
            all_new.push(new);
        }
        change.commit()?;
        Ok(all_new)
    }
}

impl Store for Sqlite {
    fn write(&mut self, effects: &[Effect]) -> io::Result<Vec<bool>> {
        self.insert(effects).map_err(io::Error::other)
    }

    fn rows(&mut self) -> io::Result<BTreeMap<JobId, Rows>> {
        let mut rows: BTreeMap<JobId, Rows> = BTreeMap::new();
        let mut count = |table: &str, add: fn(&mut Rows)| -> rusqlite::Result<()> {
            let mut ids = self.0.prepare(&format!("SELECT job_id FROM {table}"))?;
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
