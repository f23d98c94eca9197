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

    /// Inserts a row as it is.
    pub(crate) async fn insert(&self, id: &str, job: &str) {
        let (id, job) = (format!("'{id}'"), job.replace('\'', "''"));
        // Backslashes stand for themselves in PostgreSQL and SQLite, and not in MySQL.
        let job = match self {
            Self::Mysql(_) => job.replace('\\', "\\\\"),
            _ => job,
        };
        let insert = format!("INSERT INTO punctual_outbox (id, job) VALUES ({id}, '{job}')");
        let insert = AssertSqlSafe(insert);
        on_any!(self, pool => sqlx::raw_sql(insert).execute(pool).await.map(drop))
            .expect("it inserts");
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        on_any!(self, pool => sqlx::query_scalar(count).fetch_one(pool).await).expect("it counts")
    }

    /// Enqueues in a transaction that commits or not.
    pub(crate) async fn enqueue(&self, job: NewJob, commits: bool) {
        self.try_enqueue(job, commits).await.expect("it ends");
    }

    /// The same in a database that may be away: whether it committed.
    pub(crate) async fn try_enqueue(&self, job: NewJob, commits: bool) -> sqlx::Result<bool> {
        on_any!(self, pool => {
            let mut tx = pool.begin().await?;
            let inserted = punctual_outbox::enqueue(&mut *tx, job).await;
            inserted.map_err(|_| sqlx::Error::PoolClosed)?;
            match commits {
                true => tx.commit().await?,
                false => tx.rollback().await?,
            }
        });
        Ok(commits)
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

/// 5,000 rows of 8 KB.
const MANY: &str = r#"
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
INSERT INTO punctual_outbox (id, job)
SELECT printf('00000000-0000-4000-8000-%012x', i),
    '{"queue":"mail","payload":"' || hex(zeroblob(4000)) || '"}' FROM n;
"#;

/// Its lines are more than the other side reads before its answers are read.
#[tokio::test]
async fn a_large_batch_goes_over_at_once() {
    let (_directory, database, address) = sqlite().await;
    database.run(MANY).await;
    let engine = Arc::new(MemoryEngine::new());
    let outbox = source("outbox --until-idle --batch 10000", &address);
    let health = drained(&engine, outbox).await;
    assert_eq!(health.numbers().enqueued, 5_000, "{:?}", health.numbers());
    assert_eq!(health.numbers().restarts, 0, "{:?}", health.numbers());
}

/// A table that was made before the checks, or by hand: it takes anything.
const LOOSE: &str = "
DROP TABLE punctual_outbox;
CREATE TABLE punctual_outbox (n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, job TEXT);
INSERT INTO punctual_outbox (id, job) VALUES
    ('00000000-0000-4000-8000-000000000001', x'7b7d'),
    (x'00ff', '{}'), (NULL, '{}'), (CAST(x'ff41' AS TEXT), '{}'),
    ('00000000-0000-4000-8000-000000000005', NULL),
    ('00000000-0000-4000-8000-000000000006', CAST(x'22ff22' AS TEXT)),
    ('00000000-0000-4000-8000-000000000007', 7),
    (x'30303030303030302d303030302d343030302d383030302d303030303030303030303038',
        '{\"queue\":\"mail\",\"payload\":1}'),
    ('00000000-0000-4000-8000-000000000008', '{\"queue\":\"mail\",\"payload\":8}');
";

/// A column of SQLite takes a value of any type; one such row stopped the whole relay.
#[tokio::test]
async fn rows_of_a_wrong_type_move_to_the_refused_and_others_go_on() {
    let (_directory, database, address) = sqlite().await;
    database.run(LOOSE).await;
    let engine = Arc::new(MemoryEngine::new());
    let health = drained(&engine, source("outbox --until-idle", &address)).await;
    assert_eq!(health.numbers().restarts, 0, "{:?}", health.numbers());
    assert_eq!(health.numbers().refused, 8);
    let found = jobs(&engine).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(&found[0].payload[..], b"8");
    assert_eq!(database.count("punctual_outbox").await, 0);
    let blobs = "punctual_outbox_refused WHERE job = x'7b7d' AND error LIKE '%is a blob%'";
    for (rows, wanted) in [
        ("punctual_outbox_refused", 8),
        (blobs, 1),
        (
            "punctual_outbox_refused WHERE error LIKE '%id is NULL, or no text%'",
            4,
        ),
        (
            "punctual_outbox_refused WHERE error LIKE '%the job is NULL%'",
            1,
        ),
        (
            "punctual_outbox_refused WHERE error LIKE '%no text in UTF-8%'",
            1,
        ),
    ] {
        assert_eq!(database.count(rows).await, wanted, "{rows}");
    }
}

/// Rows that would break a line, a reason or a column further on; and one whose payload has more
/// digits than a float.
pub(crate) async fn refuses_what_is_large(database: &Database, address: &str) {
    let control = "\u{1}".repeat(1 << 20);
    let name = "x".repeat(200_000);
    let rows = [
        control,
        format!("{{\"{name}\":1}}"),
        r#"{"a\u0000b":1}"#.to_owned(),
        format!("\"{}\"", "y".repeat(1 << 20)),
        "[".repeat(100_000),
        "{\"queue\":\"mail\",\n\"payload\":123456789012345678901234567890}".to_owned(),
    ];
    for (n, job) in rows.iter().enumerate() {
        let id = format!("00000000-0000-4000-8000-00000000000{n}");
        database.insert(&id, job).await;
    }
    let engine = Arc::new(MemoryEngine::new());
    let health = drained(&engine, source("outbox --until-idle", address)).await;
    assert_eq!(health.numbers().restarts, 0, "{:?}", health.numbers());
    let found = jobs(&engine).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(&found[0].payload[..], b"123456789012345678901234567890");
    assert_eq!(health.numbers().refused, 5);
    assert_eq!(database.count("punctual_outbox_refused").await, 5);
    assert_eq!(database.count("punctual_outbox").await, 0);
}

#[tokio::test]
async fn large_and_odd_rows_move_to_the_refused_of_sqlite() {
    let (_directory, database, address) = sqlite().await;
    database.run("DROP TABLE punctual_outbox").await;
    let loose = "CREATE TABLE punctual_outbox (n INTEGER PRIMARY KEY, id TEXT, job TEXT)";
    database.run(loose).await;
    refuses_what_is_large(&database, &address).await;
}

#[tokio::test]
async fn the_table_of_sqlite_takes_no_row_that_is_none() {
    let (_directory, database, _) = sqlite().await;
    let Database::Sqlite(pool) = &database else {
        unreachable!("it is SQLite")
    };
    for values in [
        "'00000000-0000-4000-8000-000000000001', x'7b7d'",
        "x'30303030303030302d303030302d343030302d383030302d303030303030303030303038', '{}'",
        "'short', '{}'",
        "'00000000-0000-4000-8000-000000000001', NULL",
        "'00000000-0000-4000-8000-000000000001', printf('%.*c', 1048577, 'x')",
    ] {
        let insert = format!("INSERT INTO punctual_outbox (id, job) VALUES ({values})");
        let refused = sqlx::query(AssertSqlSafe(insert)).execute(pool).await;
        refused.expect_err(values);
    }
}

/// A wrong setting, by the exit status that a supervisor reads, and what it is.
pub(crate) fn setting_is_wrong(address: &str, says: &str) {
    let ran = std::process::Command::new(BINARY)
        .args(["outbox"])
        .env("PUNCTUAL_RELAY_ADDRESS", address)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(78), "{text}");
    assert!(text.contains(says) && !text.contains("running"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn wrong_settings_of_sqlite_have_an_exit_status_of_their_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| format!("sqlite:{}", directory.path().join(name).display());
    setting_is_wrong(
        &format!("{}?mode=rwc", file("none.db")),
        "punctual outbox ddl",
    );
    setting_is_wrong(&file("missing.db"), "cannot be opened");
    std::fs::write(directory.path().join("text.db"), "x".repeat(5_000)).expect("it writes");
    setting_is_wrong(&file("text.db"), "no database of SQLite");
    setting_is_wrong("oracle:x", "not an address of a database");
    setting_is_wrong("postgres://app:hunter2@127.0.0.1:none/shop", "malformed");
    let (database, address) = Database::sqlite(&directory.path().join("shop.db")).await;
    setting_is_wrong(&format!("{address}?mode=ro"), "can only be read");
    database.run("DROP TABLE punctual_outbox_refused").await;
    setting_is_wrong(&address, "punctual outbox ddl");
    // And it ends the relay.
    let engine = Arc::new(MemoryEngine::new());
    let relay = punctual_relay::Relay::new(&engine, "test").expect("a name");
    let ended = relay.run_until(source("outbox", &address), std::future::pending());
    let error = ended.await.expect_err("no retry mends it");
    assert!(error.to_string().contains("punctual outbox ddl"), "{error}");
    // Nothing listens there: that is an outage.
    let ran = std::process::Command::new(BINARY)
        .args(["outbox"])
        .env("PUNCTUAL_RELAY_ADDRESS", "postgres://app@127.0.0.1:1/shop")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(1), "{text}");
    assert!(text.contains("is it running?"), "{text}");
}
