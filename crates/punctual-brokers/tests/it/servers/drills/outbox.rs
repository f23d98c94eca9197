//! Outboxes: writers commit and roll back while relays, the engine and the database are killed.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use punctual::time::{Clock, SystemClock, millis, pause};
use punctual::{Due, NewJob};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;

use super::*;
use crate::outbox::Database;
use crate::servers::crashes::crash;
use crate::servers::databases::{mysql, postgres};

const WRITERS: usize = 50;

#[tokio::test(flavor = "multi_thread")]
async fn an_outbox_of_postgres_goes_into_a_server_that_is_killed() {
    let (_, _, address) = postgres("engines").await;
    let pool = PgPoolOptions::new().max_connections(WRITERS as u32);
    let pool = pool.connect(&address).await.expect("it runs");
    let database = Database::Postgres(pool);
    drill(
        "outbox-postgres-file",
        database,
        &address,
        EngineProcess::serve(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outbox_of_mariadb_goes_into_a_redis_that_is_killed() {
    let (_, _, address) = mysql("engines").await;
    let pool = MySqlPoolOptions::new().max_connections(WRITERS as u32);
    let pool = pool.connect(&address).await.expect("it runs");
    let database = Database::Mysql(pool);
    drill(
        "outbox-mariadb-redis",
        database,
        &address,
        EngineProcess::redis(),
    )
    .await;
}

/// What writers know of their transactions.
#[derive(Clone, Default)]
struct Written {
    committed: Arc<Mutex<BTreeSet<String>>>,
    /// The database went away before it answered.
    unknown: Arc<Mutex<BTreeSet<String>>>,
    count: Arc<AtomicUsize>,
}

impl Written {
    /// Writes every so many rows, three in ten of which are rolled back.
    async fn write(self, database: Database, writer: usize, rows: usize) {
        for n in (writer..rows).step_by(WRITERS) {
            let due = SystemClock.now() + millis((n * 37 % 2_000) as u64);
            let text = format!("{n:06}-{}", due.as_micros());
            let job = NewJob::new("into", text.clone()).due(Due::At(due));
            match database.try_enqueue(job, n % 10 >= 3).await {
                Ok(true) => drop(self.committed.locked().insert(text)),
                Ok(false) => {}
                Err(_) => drop(self.unknown.locked().insert(text)),
            }
            self.count.fetch_add(1, Relaxed);
        }
    }
}

async fn drill(name: &str, database: Database, address: &str, mut engine: EngineProcess) {
    let rows = number("PUNCTUAL_DRILL_ROWS", 3_000);
    let is_large = rows > 10_000;
    let (relays, engines) = if is_large { (20, 3) } else { (5, 1) };
    let servers = if takes_servers_down() { 3 } else { 0 };
    let client = engine.client().await;
    let arrivals = Arrivals::default();
    let working = tokio::spawn(work(client.clone(), "into", arrivals.clone()));
    let into = engine.address();
    let common = ["relay", "outbox", "--sql", address, "--engine", &into];
    let arguments = [&common[..], &["--poll", "20ms"]].concat();

    let written = Written::default();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(written.clone().write(database.clone(), writer, rows));
    }
    let relay = SupervisedRelay::start(&arguments);
    for (at, act) in acts(rows, relays, engines, servers) {
        while written.count.load(Relaxed) < at {
            pause(millis(2)).await;
        }
        match act {
            Act::KillRelay => relay.kill(),
            Act::KillEngine => engine.kill(),
            Act::BreakServer(_) => break_database(&database, address).await,
        }
    }
    while let Some(ended) = writers.join_next().await {
        ended.expect("it writes");
    }
    // What no writer knows is in the table, or was rolled back: the table is emptied.
    while database.count("punctual_outbox").await > 0 {
        pause(millis(20)).await;
    }
    idle(&client, "into").await;
    drop(relay);
    working.abort();
    let (committed, unknown) = (written.committed.locked(), written.unknown.locked());
    let arrived: BTreeSet<String> = arrivals.messages().into_iter().collect();
    let phantoms = arrived.difference(&committed);
    let phantoms = phantoms.filter(|text| !unknown.contains(*text)).count();
    assert_eq!(phantoms, 0, "what was rolled back is no job");
    let sent = committed.len() + arrived.intersection(&unknown).count();
    assert_eq!(arrivals.report(name, sent), (0, 0, 0));
}

/// Kills the database, which recovers from its log.
async fn break_database(database: &Database, address: &str) {
    match database {
        Database::Mysql(_) => {
            let file = super::super::address("PUNCTUAL_MARIADB_PID");
            let pid = std::fs::read_to_string(file).expect("it runs");
            let killed = Command::new("kill").args(["-9", pid.trim()]).status();
            assert!(killed.expect("it is there").success());
        }
        _ => crash(address).await,
    }
}
