//! Outboxes: what is the same for every database, and SQLite, which needs no server.

use std::path::Path;
use std::sync::Arc;

use punctual::time::{Clock, SystemClock, hours, minutes};
use punctual::{Due, Group, JobState, MemoryEngine, NewJob, RetryPolicy, Unique};
use punctual_outbox::{Dialect, ddl};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, MySqlPool, PgPool, SqlitePool};

use crate::support::*;

/// A database with the tables of an outbox.
#[derive(Clone)]
pub(crate) enum Database {
    Postgres(PgPool),
    Mysql(MySqlPool),
    Sqlite(SqlitePool),
}

/// Does the same to the pool of any database.
macro_rules! on_any {
    ($database:expr, $pool:ident => $done:expr) => {
        match $database {
            Database::Postgres($pool) => $done,
            Database::Mysql($pool) => $done,
            Database::Sqlite($pool) => $done,
        }
    };
}

impl Database {
    pub(crate) async fn sqlite(file: &Path) -> (Self, String) {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true);
        let options = options.busy_timeout(punctual::time::seconds(30));
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options)
            .await;
        let database = Self::Sqlite(pool.expect("a file"));
        database.run(ddl(Dialect::Sqlite)).await;
        (database, format!("sqlite:{}", file.display()))
    }

    /// Runs statements.
    pub(crate) async fn run(&self, statements: &'static str) {
        on_any!(self, pool => sqlx::raw_sql(statements).execute(pool).await.map(drop))
            .expect("it runs");
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        on_any!(self, pool => sqlx::query_scalar(count).fetch_one(pool).await).expect("it counts")
    }

    /// Enqueues in a transaction that commits or not.
    pub(crate) async fn enqueue(&self, job: NewJob, commits: bool) {
        on_any!(self, pool => {
            let mut tx = pool.begin().await.expect("a transaction");
            punctual_outbox::enqueue(&mut *tx, job).await.expect("it inserts");
            match commits {
                true => tx.commit().await,
                false => tx.rollback().await,
            }
        })
        .expect("it ends");
    }
}

/// A message that is due now.
pub(crate) fn message(n: usize) -> String {
    format!("{n:06}-{}", SystemClock.now().as_micros())
}

/// Writers, three in ten of whose transactions are rolled back, and relays that are killed.
pub(crate) async fn drill(name: &str, database: &Database, address: &str, rows: usize) {
    const WRITERS: usize = 10;
    let engine = Arc::new(MemoryEngine::new());
    let arrivals = Arrivals::default();
    let working = tokio::spawn(arrivals.work(&engine, "into"));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let database = database.clone();
        writers.spawn(async move {
            let mut committed = Vec::new();
            for n in (writer..rows).step_by(WRITERS) {
                let message = message(n);
                let commits = n % 10 >= 3;
                let job = NewJob::new("into", message.clone());
                database.enqueue(job, commits).await;
                if commits {
                    committed.push(message);
                }
            }
            committed
        });
    }
    let wanted = rows - rows * 3 / 10;
    let all = || arrivals.total() >= wanted;
    let relaying = killed_until(all, &engine, || source("outbox --poll 20ms", address), 20);
    let (mut committed, ()) = tokio::join!(
        async {
            let mut all = Vec::new();
            while let Some(some) = writers.join_next().await {
                all.extend(some.expect("it writes"));
            }
            all
        },
        relaying
    );
    committed.sort();
    // What remains in the table is stored, and recognised.
    drained(&engine, source("outbox --until-idle", address)).await;
    working.abort();
    assert_eq!(
        arrivals.messages(),
        committed,
        "what was rolled back is no job"
    );
    assert_eq!(database.count("punctual_outbox").await, 0);
    assert_eq!(arrivals.report(name, wanted), (0, 0, 0));
}

/// Rows that are no jobs move aside, and block no other.
pub(crate) async fn refuses(database: &Database, address: &str, inserts: &'static str) {
    database.run(inserts).await;
    let engine = Arc::new(MemoryEngine::new());
    let health = drained(&engine, source("outbox --until-idle", address)).await;
    let jobs = jobs(&engine).await;
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_eq!(
        (jobs[0].queue.as_str(), jobs[0].state),
        ("mail", JobState::Scheduled)
    );
    assert_eq!(
        jobs[0].id.to_string(),
        "00000000-0000-4000-8000-000000000004"
    );
    assert_eq!(health.numbers().refused, 3);
    assert_eq!(database.count("punctual_outbox_refused").await, 3);
    assert_eq!(database.count("punctual_outbox").await, 0);
}

/// No JSON, no object, an unknown field, and a job.
pub(crate) const REFUSED: &str = r#"
INSERT INTO punctual_outbox (id, job) VALUES ('00000000-0000-4000-8000-000000000001', 'no json');
INSERT INTO punctual_outbox (id, job) VALUES ('00000000-0000-4000-8000-000000000002', '[1]');
INSERT INTO punctual_outbox (id, job) VALUES ('00000000-0000-4000-8000-000000000003', '{"queu":"mail"}');
INSERT INTO punctual_outbox (id, job) VALUES ('00000000-0000-4000-8000-000000000004',
    '{"queue":"mail","payload":{"to": "ann"},"delay":"30m"}');
"#;

async fn sqlite() -> (tempfile::TempDir, Database, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let (database, address) = Database::sqlite(&directory.path().join("shop.db")).await;
    (directory, database, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_is_one_job_and_rolled_back_is_none_in_sqlite() {
    let (_directory, database, address) = sqlite().await;
    drill("outbox-sqlite", &database, &address, 300).await;
}

#[tokio::test]
async fn rows_that_are_no_jobs_move_to_the_refused_of_sqlite() {
    let (_directory, database, address) = sqlite().await;
    refuses(&database, &address, REFUSED).await;
}

#[tokio::test]
async fn a_job_arrives_with_every_field_that_it_was_sent_with() {
    let (_directory, database, address) = sqlite().await;
    let due = SystemClock.now() + hours(1);
    let mut job = NewJob::new("orders", &b"\x00\xff bytes"[..]).due(Due::At(due));
    job.kind = "orders.cancel".into();
    job.content_type = "application/octet-stream".into();
    job.headers = vec![("a".into(), "1".into()), ("a".into(), "2".into())];
    job.expires_at = Some(due + hours(1));
    job.priority = 2;
    job.unique = Some(Unique::new("order:7").hold(punctual::Hold::For(minutes(5))));
    job.group = Some(Group::new("ann").on_retry(punctual::OnRetry::Pass));
    job.max_attempts = 3;
    job.max_crashes = Some(1);
    job.retry = RetryPolicy::List(vec![minutes(1), minutes(7)]);
    job.timeout = Some(minutes(2));
    job.retention = hours(2);
    job.remember = Some(hours(3));
    database.enqueue(job.clone(), true).await;
    let engine = Arc::new(MemoryEngine::new());
    drained(&engine, source("outbox --until-idle", &address)).await;
    let found = jobs(&engine).await.remove(0);
    let wanted = punctual::JobRecord::new(job, due, found.enqueued_at);
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn a_database_without_the_tables_is_an_error_with_the_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = format!(
        "sqlite:{}?mode=rwc",
        directory.path().join("none.db").display()
    );
    let ran = std::process::Command::new(BINARY)
        .args(["outbox"])
        .env("PUNCTUAL_RELAY_ADDRESS", address)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(text.contains("punctual outbox ddl"), "{text}");
}
