//! The statements of files, their rows, and the outbox.

use punctual::NewJob;
use punctual::worker::BoxError;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Row};

use super::{Database, on_any};
use crate::jobs;

/// The record of a file.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) header: i64,
    pub(crate) size: i64,
    pub(crate) sha256: String,
    pub(crate) object: String,
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
    pub(crate) generation: i64,
    pub(crate) done: i64,
    pub(crate) fence: i64,
    pub(crate) byte_offset: i64,
    pub(crate) row_total: i64,
    pub(crate) result: Option<String>,
    pub(crate) job: String,
    pub(crate) attempt: i64,
    pub(crate) created: i64,
    pub(crate) expires: i64,
    pub(crate) queued: Option<i64>,
    pub(crate) started: Option<i64>,
    pub(crate) lateness: Option<i64>,
    pub(crate) ended: Option<i64>,
}

/// What a reader sees of a file changes with this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version(i64, String);

impl File {
    pub(crate) fn version(&self) -> Version {
        Version(self.done, self.state.clone())
    }
}

/// Reads a [`File`] from a row of either database.
macro_rules! file_of {
    ($row:expr) => {{
        let row = &$row;
        Ok::<_, sqlx::Error>(File {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            kind: row.try_get("kind")?,
            header: row.try_get("header")?,
            size: row.try_get("size")?,
            sha256: row.try_get("sha256")?,
            object: row.try_get("object")?,
            state: row.try_get("state")?,
            reason: row.try_get("reason")?,
            generation: row.try_get("generation")?,
            done: row.try_get("done")?,
            fence: row.try_get("fence")?,
            byte_offset: row.try_get("byte_offset")?,
            row_total: row.try_get("row_total")?,
            result: row.try_get("result")?,
            job: row.try_get("job")?,
            attempt: row.try_get("attempt")?,
            created: row.try_get("created")?,
            expires: row.try_get("expires")?,
            queued: row.try_get("queued")?,
            started: row.try_get("started")?,
            lateness: row.try_get("lateness")?,
            ended: row.try_get("ended")?,
        })
    }};
}

/// An attempt at a file: which lease holds it, and how late it started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) fence: i64,
    pub(crate) attempt: i64,
    pub(crate) queued: i64,
    pub(crate) started: i64,
    pub(crate) lateness: i64,
}

/// What an attempt found.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It may write under its fence, from where the attempt before it came to.
    Ours(Box<File>),
    /// The result is there: an attempt before this one stored it, and died before it settled.
    Done(Box<File>),
    /// The record has expired, or another generation is wanted.
    NotWanted,
    /// A later lease has the file.
    Stale,
}

/// Why a result is asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// It is old. It stays until the new one is there.
    ResultIsOld,
    /// A user deleted it.
    ResultIsDropped,
    /// There is none, and no job that will bring it.
    JobIsDead,
    /// A user says otherwise whether there is a header, as [`File::header`] has it.
    HeaderIs(i64),
}

/// Rows that are deleted in one transaction.
const ROWS_AT_ONCE: i64 = 5_000;

impl Database {
    pub(crate) async fn file(&self, id: &str) -> Result<Option<File>, sqlx::Error> {
        let select = "SELECT * FROM files WHERE id = ?";
        on_any!(self, pool => {
            match sqlx::query(select).bind(id).fetch_optional(pool).await? {
                Some(row) => Ok(Some(file_of!(row)?)),
                None => Ok(None),
            }
        })
    }

    pub(crate) async fn version(&self, id: &str) -> Result<Option<Version>, sqlx::Error> {
        let select = "SELECT done, state FROM files WHERE id = ?";
        let found: Option<(i64, String)> = on_any!(self, pool => {
            sqlx::query_as(select).bind(id).fetch_optional(pool).await?
        });
        Ok(found.map(|(done, state)| Version(done, state)))
    }

    pub(crate) async fn thumbnail(&self, id: &str) -> Result<Option<Vec<u8>>, sqlx::Error> {
        let select = "SELECT thumbnail FROM files WHERE id = ?";
        let found: Option<Option<Vec<u8>>> = on_any!(self, pool => {
            sqlx::query_scalar(select).bind(id).fetch_optional(pool).await?
        });
        Ok(found.flatten())
    }

    /// Takes a file over from every lease with a smaller fence: from here on their writes fail.
    pub(crate) async fn take(
        &self,
        id: &str,
        generation: i64,
        by: Attempt,
    ) -> Result<Taken, sqlx::Error> {
        let take = "UPDATE files SET fence = ?, attempt = ?, queued = ?, started = ?, lateness = ?, \
             state = CASE WHEN done = 0 THEN 'processing' ELSE state END \
             WHERE id = ? AND generation = ? AND fence < ? AND done < generation \
             AND state IN ('queued', 'processing', 'processed')";
        let taken = on_any!(self, pool => {
            sqlx::query(take)
                .bind(by.fence).bind(by.attempt).bind(by.queued).bind(by.started).bind(by.lateness)
                .bind(id).bind(generation).bind(by.fence)
                .execute(pool).await?.rows_affected()
        });
        Ok(match self.file(id).await? {
            Some(file) if taken == 1 => Taken::Ours(Box::new(file)),
            Some(file) if file.generation == generation && file.done == generation => {
                Taken::Done(Box::new(file))
            }
            Some(file) if file.generation == generation && file.fence > by.fence => Taken::Stale,
            _ => Taken::NotWanted,
        })
    }

    /// Adds rows and notes how far the attempt has come, in one transaction; `false` if a later
    /// lease has the file, and then nothing is changed.
    pub(crate) async fn add_rows(
        &self,
        file: &File,
        first: i64,
        rows: &[String],
        byte_offset: i64,
        row_total: i64,
    ) -> Result<bool, sqlx::Error> {
        let update = "UPDATE files SET byte_offset = ?, row_total = ? \
             WHERE id = ? AND generation = ? AND fence = ?";
        let places = vec!["(?, ?, ?, ?)"; rows.len()].join(", ");
        let insert = format!("INSERT INTO file_rows (file, generation, n, cells) VALUES {places}");
        on_any!(self, pool, begin => {
            let mut tx = pool.begin_with(begin).await?;
            let updated = sqlx::query(update)
                .bind(byte_offset).bind(row_total).bind(&file.id).bind(file.generation).bind(file.fence)
                .execute(&mut *tx).await?;
            if updated.rows_affected() == 0 {
                return Ok(false);
            }
            let mut insert = sqlx::query(AssertSqlSafe(insert));
            for (n, cells) in (first..).zip(rows) {
                insert = insert.bind(&file.id).bind(file.generation).bind(n).bind(cells);
            }
            if !rows.is_empty() {
                insert.execute(&mut *tx).await?;
            }
            tx.commit().await?;
        });
        Ok(true)
    }

    /// Stores the result; `false` if a later lease has the file.
    pub(crate) async fn store_result(
        &self,
        file: &File,
        result: &Value,
        thumbnail: Option<&[u8]>,
        now: i64,
    ) -> Result<bool, sqlx::Error> {
        let update = "UPDATE files SET state = 'processed', reason = NULL, done = generation, result = ?, \
             thumbnail = ?, ended = ? WHERE id = ? AND generation = ? AND fence = ?";
        let updated = on_any!(self, pool => {
            sqlx::query(update)
                .bind(result.to_string()).bind(thumbnail).bind(now)
                .bind(&file.id).bind(file.generation).bind(file.fence)
                .execute(pool).await?.rows_affected()
        });
        Ok(updated == 1)
    }

    /// Ends a file without a result: `refused` for what is in it, `failed` if its bytes are gone.
    /// The same bytes, sent again, are then a new file.
    pub(crate) async fn end_without_result(
        &self,
        file: &File,
        state: &str,
        reason: &str,
        now: i64,
    ) -> Result<bool, sqlx::Error> {
        let update = "UPDATE files SET state = ?, reason = ?, ended = ?, \
             hash = CASE WHEN ? = 'failed' THEN NULL ELSE hash END \
             WHERE id = ? AND generation = ? AND fence = ?";
        let updated = on_any!(self, pool => {
            sqlx::query(update).bind(state).bind(reason).bind(now).bind(state)
                .bind(&file.id).bind(file.generation).bind(file.fence)
                .execute(pool).await?.rows_affected()
        });
        Ok(updated == 1)
    }

    /// Asks for a new result, by a new generation and its job in one transaction. `seen` is the
    /// generation that the caller saw: of two callers one asks.
    pub(crate) async fn ask_again(
        &self,
        id: &str,
        seen: i64,
        why: Again,
    ) -> Result<bool, BoxError> {
        let update = "UPDATE files SET generation = generation + 1, byte_offset = 0, row_total = 0, job = ?, \
             state = CASE WHEN done = 0 THEN 'queued' ELSE 'processed' END, reason = NULL \
             WHERE id = ? AND generation = ? AND (state IN ('processed', 'refused') OR (? AND state <> 'expired'))";
        let choose = "UPDATE files SET header = ? WHERE id = ?";
        let drop_result = "UPDATE files SET done = 0, state = 'queued', result = NULL, thumbnail = NULL, ended = NULL \
             WHERE id = ?";
        let process = jobs::process(id, seen + 1)?;
        on_any!(self, pool, begin => {
            let mut tx = pool.begin_with(begin).await?;
            let asked = sqlx::query(update).bind(process.id.to_string()).bind(id).bind(seen)
                .bind(matches!(why, Again::JobIsDead | Again::HeaderIs(_)));
            if asked.execute(&mut *tx).await?.rows_affected() == 0 {
                return Ok(false);
            }
            if let Again::HeaderIs(header) = why {
                sqlx::query(choose).bind(header).bind(id).execute(&mut *tx).await?;
            }
            if matches!(why, Again::ResultIsDropped | Again::HeaderIs(_)) {
                sqlx::query(drop_result).bind(id).execute(&mut *tx).await?;
            }
            punctual_outbox::enqueue(&mut *tx, process).await?;
            tx.commit().await?;
        });
        Ok(true)
    }

    /// Ends the record; the result and the name of the bytes go with it, and no attempt may write.
    pub(crate) async fn expire(&self, id: &str) -> Result<(), BoxError> {
        self.end(id, None).await
    }

    /// Ends the record before its time; the job that removes its bytes is stored with that.
    pub(crate) async fn delete(&self, id: &str) -> Result<(), BoxError> {
        let file = id.to_owned();
        self.end(id, Some(NewJob::of(&jobs::Expire { file })?))
            .await
    }

    async fn end(&self, id: &str, then: Option<NewJob>) -> Result<(), BoxError> {
        let expire = "UPDATE files SET state = 'expired', hash = NULL, result = NULL, thumbnail = NULL, \
             reason = NULL, generation = generation + 1, done = 0 WHERE id = ? AND state <> 'expired'";
        let free =
            "UPDATE totals SET bytes = bytes - (SELECT size FROM files WHERE id = ?) WHERE id = 1";
        let forget = "DELETE FROM uploads WHERE id = (SELECT object FROM files WHERE id = ?)";
        on_any!(self, pool, begin => {
            let mut tx = pool.begin_with(begin).await?;
            if sqlx::query(expire).bind(id).execute(&mut *tx).await?.rows_affected() == 1 {
                sqlx::query(free).bind(id).execute(&mut *tx).await?;
                sqlx::query(forget).bind(id).execute(&mut *tx).await?;
            }
            if let Some(job) = then {
                punctual_outbox::enqueue(&mut *tx, job).await?;
            }
            tx.commit().await?;
        });
        Ok(())
    }

    /// Deletes the rows of generations before this one, a bounded number in each transaction.
    pub(crate) async fn delete_rows(&self, id: &str, before: i64) -> Result<(), sqlx::Error> {
        let last = "SELECT max(n) FROM file_rows WHERE file = ? AND generation < ?";
        let delete = "DELETE FROM file_rows WHERE file = ? AND generation < ? AND n >= ? AND n < ?";
        let last: Option<i64> = on_any!(self, pool => {
            sqlx::query_scalar(last).bind(id).bind(before).fetch_one(pool).await?
        });
        let mut from = 0;
        while last.is_some_and(|last| from <= last) {
            on_any!(self, pool => {
                sqlx::query(delete).bind(id).bind(before).bind(from).bind(from + ROWS_AT_ONCE)
                    .execute(pool).await.map(drop)
            })?;
            from += ROWS_AT_ONCE;
        }
        Ok(())
    }

    /// Rows of a generation from `from` on, as JSON; the header of a file is row 0.
    pub(crate) async fn rows(
        &self,
        id: &str,
        generation: i64,
        from: i64,
        at_most: i64,
    ) -> Result<Vec<(i64, String)>, sqlx::Error> {
        let select = "SELECT n, cells FROM file_rows WHERE file = ? AND generation = ? AND n >= ? ORDER BY n LIMIT ?";
        on_any!(self, pool => {
            sqlx::query_as(select).bind(id).bind(generation).bind(from).bind(at_most).fetch_all(pool).await
        })
    }

    /// Rows of the outbox: ids and jobs.
    pub(crate) async fn outbox(&self, at_most: i64) -> Result<Vec<(String, String)>, sqlx::Error> {
        let select = "SELECT id, job FROM punctual_outbox ORDER BY n LIMIT ?";
        on_any!(self, pool => sqlx::query_as(select).bind(at_most).fetch_all(pool).await)
    }

    /// Deletes rows of the outbox whose jobs are stored, and keeps those that were refused.
    pub(crate) async fn accept(
        &self,
        taken: &[(String, String)],
        refused: &[(String, String)],
    ) -> Result<(), sqlx::Error> {
        let keep = "INSERT INTO punctual_outbox_refused (id, job, error) SELECT id, job, ? FROM punctual_outbox WHERE id = ?";
        let places = vec!["?"; taken.len()].join(",");
        let delete = format!("DELETE FROM punctual_outbox WHERE id IN ({places})");
        on_any!(self, pool, begin => {
            let mut tx = pool.begin_with(begin).await?;
            for (id, why) in refused {
                sqlx::query(keep).bind(why).bind(id).execute(&mut *tx).await?;
            }
            let mut delete = sqlx::query(AssertSqlSafe(delete));
            for (id, _) in taken {
                delete = delete.bind(id);
            }
            delete.execute(&mut *tx).await?;
            tx.commit().await
        })
    }
}
