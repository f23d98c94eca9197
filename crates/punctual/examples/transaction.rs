//! A transaction that a cancel rolls back: the handler's future is dropped, and with it the
//! transaction, as those of SQL clients are when they were not committed.

use std::sync::{Arc, Mutex};

use punctual::job::Stop;
use punctual::time::{millis, seconds};
use punctual::worker::State;
use punctual::{Job, MemoryEngine, Queue, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// Stands for a database: rows, and transactions that roll back when they are dropped.
#[derive(Clone, Default)]
struct Db {
    rows: Arc<Mutex<Vec<String>>>,
    written: Arc<Notify>,
}

struct Transaction {
    db: Db,
    rows: Vec<String>,
    committed: bool,
}

impl Db {
    fn begin(&self) -> Transaction {
        Transaction {
            db: self.clone(),
            rows: Vec::new(),
            committed: false,
        }
    }
}

impl Transaction {
    async fn insert(&mut self, row: String) {
        self.rows.push(row);
        self.db.written.notify_one();
    }

    async fn commit(mut self) {
        self.committed = true;
        self.db.rows.lock().unwrap().append(&mut self.rows);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.committed {
            println!("rolled back: {:?}", self.rows);
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Transfer {
    amount: u64,
}

impl Job for Transfer {
    const KIND: &str = "transfer";
}

/// Knows nothing of cancellation: the worker aborts it at its next `await`.
async fn transfer(job: Transfer, State(db): State<Db>) {
    let mut transaction = db.begin();
    transaction.insert(format!("take {}", job.amount)).await;
    other_bank_answers().await;
    transaction.insert(format!("give {}", job.amount)).await;
    transaction.commit().await;
}

/// It never does.
async fn other_bank_answers() {
    std::future::pending().await
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let engine = Arc::new(MemoryEngine::new());
    let queue = Queue::new(&engine);
    let db = Db::default();
    let id = queue.enqueue(Transfer { amount: 100 }).await?.id;

    let cancelled = {
        let (queue, db) = (queue.clone(), db.clone());
        async move {
            db.written.notified().await;
            queue.cancel(id).await.expect("the engine is there");
            let _ = queue.wait_settled(id, seconds(10)).await;
        }
    };
    Worker::new(&engine)
        .state(db.clone())
        .handle(transfer)
        .lease_duration(millis(300))
        .abort_grace(millis(50))
        .run_until(cancelled)
        .await?;

    let got = queue.get(id).await?.expect("cancelled jobs are kept a day");
    let stopped = got.job().and_then(|job| job.stopped);
    assert_eq!(stopped, Some(Stop::Aborted));
    assert!(db.rows.lock().unwrap().is_empty());
    println!("the handler was aborted, and the table is empty");
    Ok(())
}
