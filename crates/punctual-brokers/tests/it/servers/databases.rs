//! Outboxes of PostgreSQL and MariaDB.

use std::sync::Arc;

use punctual::{MemoryEngine, NewJob};
use punctual_outbox::{Dialect, ddl};
use sqlx::{AssertSqlSafe, MySqlPool, PgPool, Row};

use super::address;
use crate::outbox::{
    Database, REFUSED, drill, message, refuses, refuses_what_is_large, setting_is_wrong,
};
use crate::support::*;

/// A database of the test's own on that server.
pub(super) async fn postgres(name: &str) -> (Database, PgPool, String) {
    let server = address("PUNCTUAL_POSTGRES");
    let pool = PgPool::connect(&server).await.expect("it runs");
    let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::raw_sql(create)
        .execute(&pool)
        .await
        .expect("it makes one");
    let address = format!("{}{name}", server.trim_end_matches("shop"));
    let pool = PgPool::connect(&address).await.expect("it runs");
    let database = Database::Postgres(pool.clone());
    database.run(ddl(Dialect::Postgres)).await;
    (database, pool, address)
}

pub(super) async fn mysql(name: &str) -> (Database, MySqlPool, String) {
    let server = address("PUNCTUAL_MYSQL");
    let pool = MySqlPool::connect(&server).await.expect("it runs");
    let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::raw_sql(create)
        .execute(&pool)
        .await
        .expect("it makes one");
    let address = format!("{}{name}", server.trim_end_matches("shop"));
    let pool = MySqlPool::connect(&address).await.expect("it runs");
    let database = Database::Mysql(pool.clone());
    database.run(ddl(Dialect::Mysql)).await;
    (database, pool, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_is_one_job_and_rolled_back_is_none_in_postgres() {
    let (database, _, address) = postgres("drill").await;
    drill("outbox-postgres", &database, &address, 3_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_is_one_job_and_rolled_back_is_none_in_mariadb() {
    let (database, _, address) = mysql("drill").await;
    drill("outbox-mariadb", &database, &address, 3_000).await;
}

#[tokio::test]
async fn rows_that_are_no_jobs_move_to_the_refused_of_postgres() {
    let (database, _, address) = postgres("refused").await;
    refuses(&database, &address, REFUSED).await;
}

#[tokio::test]
async fn rows_that_are_no_jobs_move_to_the_refused_of_mariadb() {
    let (database, _, address) = mysql("refused").await;
    refuses(&database, &address, REFUSED).await;
}

/// As an older table is, or one that was made by hand.
#[tokio::test]
async fn large_and_odd_rows_move_to_the_refused_of_servers() {
    let (database, _, address) = postgres("odd").await;
    let loose = "ALTER TABLE punctual_outbox DROP CONSTRAINT punctual_outbox_job_check, \
                 ALTER COLUMN job DROP NOT NULL; \
                 INSERT INTO punctual_outbox (id, job) VALUES (gen_random_uuid(), NULL)";
    database.run(loose).await;
    let relayed = Arc::new(MemoryEngine::new());
    drained(&relayed, source("outbox --until-idle", &address)).await;
    let why = "punctual_outbox_refused WHERE error LIKE '%the job is NULL%'";
    assert_eq!(database.count(why).await, 1);
    database.run("DELETE FROM punctual_outbox_refused").await;
    refuses_what_is_large(&database, &address).await;

    let (database, _, address) = mysql("odd").await;
    database.run("DROP TABLE punctual_outbox").await;
    let loose = "CREATE TABLE punctual_outbox (n bigint AUTO_INCREMENT PRIMARY KEY, id varbinary(60), \
                 job longblob); \
                 INSERT INTO punctual_outbox (id, job) VALUES (NULL, '{}'), (x'ff00', x'ff'), \
                 (UUID(), NULL), (UUID(), x'22ff22'), (repeat('a', 60), '{}')";
    database.run(loose).await;
    drained(&relayed, source("outbox --until-idle", &address)).await;
    assert_eq!(jobs(&relayed).await.len(), 0);
    assert_eq!(database.count("punctual_outbox_refused").await, 5);
    database.run("DELETE FROM punctual_outbox_refused").await;
    database.run("DROP TABLE punctual_outbox").await;
    let loose = "CREATE TABLE punctual_outbox (n bigint AUTO_INCREMENT PRIMARY KEY, \
                 id char(36) NOT NULL, job longtext CHARACTER SET utf8mb4)";
    database.run(loose).await;
    refuses_what_is_large(&database, &address).await;
}

/// Names the user, the database or the table, and is no outage.
#[tokio::test]
async fn wrong_settings_of_servers_have_an_exit_status_of_their_own() {
    for (database, address) in [
        ("postgres", postgres("settings").await.2),
        ("mysql", mysql("settings").await.2),
    ] {
        let (scheme, rest) = address.split_once("://").expect("an address");
        let (_, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        // A user that is not there, as trust and sockets need no password.
        let login = format!("{scheme}://unknown:hunter2@{place}");
        setting_is_wrong(&login, "check both in the address");
        let other = address.replace("/settings", "/another");
        setting_is_wrong(&other, "no such database");
        let (sql, pool) = match database {
            "postgres" => {
                let pool = PgPool::connect(&address).await.expect("it runs");
                (Dialect::Postgres, Database::Postgres(pool))
            }
            _ => {
                let pool = MySqlPool::connect(&address).await.expect("it runs");
                (Dialect::Mysql, Database::Mysql(pool))
            }
        };
        pool.run("ALTER TABLE punctual_outbox_refused RENAME TO aside")
            .await;
        setting_is_wrong(&address, "punctual outbox ddl");
        pool.run("ALTER TABLE aside RENAME TO punctual_outbox_refused")
            .await;
        pool.run("ALTER TABLE punctual_outbox RENAME TO aside")
            .await;
        setting_is_wrong(&address, "punctual outbox ddl");
        assert!(ddl(sql).contains("CHECK"));
    }
}

/// The usual relay remembers the last number. A row whose transaction commits after a later number
/// was read is behind it, and never read.
#[tokio::test]
async fn a_cursor_loses_a_row_that_commits_late_and_the_relay_does_not() {
    let (database, pool, address) = postgres("late").await;
    let engine = Arc::new(MemoryEngine::new());
    let mut late = pool.begin().await.expect("a transaction");
    punctual_outbox::enqueue(&mut *late, NewJob::new("into", "late"))
        .await
        .expect("it inserts");
    database.enqueue(NewJob::new("into", "early"), true).await;

    // The cursor, on a copy of what it would see.
    let read = |after: i64| {
        let read = "SELECT n, job FROM punctual_outbox WHERE n > $1 ORDER BY n";
        sqlx::query(read).bind(after).fetch_all(&pool)
    };
    let first = read(0).await.expect("it reads");
    let last: i64 = first.last().expect("a row").get("n");
    drained(&engine, source("outbox --until-idle", &address)).await;
    late.commit().await.expect("it commits");
    let second = read(last).await.expect("it reads");
    assert_eq!(
        (first.len(), second.len()),
        (1, 0),
        "the cursor has seen one of two rows"
    );

    drained(&engine, source("outbox --until-idle", &address)).await;
    let mut found: Vec<String> = jobs(&engine)
        .await
        .iter()
        .map(|job| String::from_utf8_lossy(&job.payload).into_owned())
        .collect();
    found.sort();
    assert_eq!(found, ["early", "late"]);
}

#[tokio::test]
async fn other_languages_enqueue_by_a_function_of_the_database() {
    let engine = Arc::new(MemoryEngine::new());
    let (database, _, address) = postgres("byhand").await;
    database
        .run(
            r#"SELECT punctual_enqueue('orders', '{"order":7}', delay => '30 minutes',
               options => '{"unique":"order:7"}')"#,
        )
        .await;
    drained(&engine, source("outbox --until-idle", &address)).await;
    let (database, _, address) = mysql("byhand").await;
    database
        .run(r#"CALL punctual_enqueue('orders', '{"order":8}', 1800)"#)
        .await;
    drained(&engine, source("outbox --until-idle", &address)).await;
    let found = jobs(&engine).await;
    assert_eq!(found.len(), 2, "{found:?}");
    for job in &found {
        assert_eq!(job.due - job.enqueued_at, punctual::time::minutes(30));
    }
    assert!(found.iter().any(|job| job.unique.is_some()));
}

/// A server that is killed in the middle: sessions end, transactions roll back, nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn ended_sessions_of_postgres_lose_nothing() {
    let (database, pool, address) = postgres("sessions").await;
    let engine = Arc::new(MemoryEngine::new());
    let running = relay(&engine, source("outbox --poll 20ms --batch 10", &address));
    for n in 0..200 {
        database
            .enqueue(NewJob::new("into", message(n)), true)
            .await;
        if n % 50 == 25 {
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE datname = 'sessions' AND pid <> pg_backend_pid() \
                       AND query LIKE '%punctual_outbox AS o%'";
            sqlx::query(end)
                .execute(&pool)
                .await
                .expect("it ends sessions");
        }
    }
    until(|| running.health.numbers().enqueued >= 200).await;
    assert_eq!(jobs(&engine).await.len(), 200);
}

/// Transactions that end in another order than they began in, with rows of one group.
#[tokio::test]
async fn an_ordered_relay_waits_for_transactions_that_began_before() {
    let (database, pool, address) = postgres("ordered").await;
    let engine = Arc::new(MemoryEngine::new());
    let mut first = pool.begin().await.expect("a transaction");
    punctual_outbox::enqueue(&mut *first, NewJob::new("into", "1"))
        .await
        .expect("it inserts");
    database.enqueue(NewJob::new("into", "2"), true).await;
    let running = relay(&engine, source("outbox --ordered --poll 20ms", &address));
    punctual::time::pause(punctual::time::millis(300)).await;
    assert_eq!(
        jobs(&engine).await.len(),
        0,
        "the second waits for the first"
    );
    first.commit().await.expect("it commits");
    until(|| running.health.numbers().enqueued == 2).await;
    let mut found = jobs(&engine).await;
    found.sort_by_key(|job| job.enqueued_at);
    let order: Vec<&[u8]> = found.iter().map(|job| &job.payload[..]).collect();
    assert_eq!(order, [b"1", b"2"]);
    // A second relay stands by, and goes on once the first is gone.
    let other = relay(&engine, source("outbox --ordered --poll 20ms", &address));
    database.enqueue(NewJob::new("into", "3"), true).await;
    until(|| running.health.numbers().enqueued == 3).await;
    drop(running);
    database.enqueue(NewJob::new("into", "4"), true).await;
    until(|| other.health.numbers().enqueued == 1).await;
}

#[tokio::test]
async fn a_notified_relay_does_not_wait_for_its_poll() {
    let (database, _, address) = postgres("notified").await;
    let engine = Arc::new(MemoryEngine::new());
    let needs = drained_error("outbox --notify --until-idle", &address);
    assert!(needs.contains("punctual outbox ddl --notify"), "{needs}");
    database.run(punctual_outbox::NOTIFY).await;
    let running = relay(&engine, source("outbox --notify --poll 10m", &address));
    database.enqueue(NewJob::new("into", "first"), true).await;
    until(|| running.health.numbers().enqueued == 1).await;
    for n in 2..5 {
        // It waits for ten minutes by now, unless a NOTIFY comes.
        punctual::time::pause(punctual::time::millis(200)).await;
        database
            .enqueue(NewJob::new("into", message(n)), true)
            .await;
        until(|| running.health.numbers().enqueued == n as u64).await;
    }
    let (_, _, mysql) = mysql("notified").await;
    let refused = drained_error("outbox --notify", &mysql);
    assert!(refused.contains("only PostgreSQL has NOTIFY"), "{refused}");
    let refused = drained_error("outbox --ordered", &mysql);
    assert!(refused.contains("no order that holds"), "{refused}");
}

fn drained_error(arguments: &str, address: &str) -> String {
    let ran = std::process::Command::new(BINARY)
        .args(arguments.split(' '))
        .env("PUNCTUAL_RELAY_ADDRESS", address)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("it runs");
    assert!(!ran.status.success());
    String::from_utf8_lossy(&ran.stderr).into_owned()
}
