//! A table that each host scans by cron.

use std::sync::{Arc, Mutex};

use punctual::sync::Lock;
use punctual::time::{Stopwatch, millis, pause};
use rusqlite::{Connection, params};
use tokio::task::JoinSet;

use crate::ledger::Ledger;

/// From scan to scan; in production a minute.
const EVERY_MS: u64 = 500;

pub(super) async fn scan(ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    let table = Connection::open_in_memory().expect("a database");
    let made = table
        .execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, due INTEGER, state TEXT)");
    made.expect("a table");
    for id in 0..ledger.work.messages {
        let due = ledger.work.due(id);
        ledger.sends(id, due);
        let row = params![id, due.as_millis() as u64];
        let added = table.execute("INSERT INTO orders VALUES (?1, ?2, 'unpaid')", row);
        added.expect("a row");
    }
    let table = Arc::new(Mutex::new(table));
    let begun = Stopwatch::start();
    for _ in 0..ledger.work.workers {
        let (table, ledger) = (table.clone(), ledger.clone());
        tasks.spawn(async move {
            loop {
                pause(millis(EVERY_MS)).await;
                let now = begun.elapsed().as_millis() as u64;
                let due = due(&table.locked(), now);
                for id in due {
                    ledger.works(id).await;
                    let paid = "UPDATE orders SET state = 'cancelled' WHERE id = ?1";
                    table.locked().execute(paid, [id]).expect("a row");
                }
            }
        });
    }
}

fn due(table: &Connection, now: u64) -> Vec<u32> {
    let due = "SELECT id FROM orders WHERE state = 'unpaid' AND due <= ?1";
    let mut due = table.prepare(due).expect("a statement");
    let ids = due.query_map([now], |row| row.get(0)).expect("rows");
    ids.collect::<rusqlite::Result<_>>().expect("ids")
}
