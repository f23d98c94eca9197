//! A transaction of SQL that is open when its job is cancelled: the handler is dropped, and the
//! database has nothing of it. [`servers`](crate::servers) does the same on MariaDB.

use std::sync::Arc;

use punctual::{Job, MemoryEngine};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

#[derive(Serialize, Deserialize)]
pub(crate) struct Transfer;

impl Job for Transfer {
    const KIND: &str = "transfer";
}

/// A database, and what says that a handler has written in its transaction.
#[derive(Clone)]
pub(crate) struct Bank<P> {
    pub(crate) pool: P,
    pub(crate) written: Arc<Notify>,
}

impl<P> Bank<P> {
    pub(crate) fn new(pool: P) -> Self {
        let written = Arc::default();
        Self { pool, written }
    }
}

/// Cancels a job in the middle of its transaction, on the pool of any database.
macro_rules! a_cancel_rolls_back {
    ($pool:expr, $Pool:ty) => {{
        use punctual::job::Stop;
        use punctual::time::{millis, seconds};
        use punctual::worker::State;
        use punctual::{Queue, Worker};

        use crate::transactions::{Bank, Transfer, engine};

        async fn transfer(_: Transfer, State(bank): State<Bank<$Pool>>) {
            let mut tx = bank.pool.begin().await.expect("a transaction");
            let take = sqlx::query("INSERT INTO transfers (amount) VALUES (-100)");
            take.execute(&mut *tx).await.expect("a row");
            bank.written.notify_one();
            // The other bank never answers.
            std::future::pending::<()>().await;
            tx.commit().await.expect("a commit");
        }

        let bank = Bank::<$Pool>::new($pool);
        let create = "CREATE TABLE transfers (amount bigint NOT NULL)";
        let created = sqlx::raw_sql(create).execute(&bank.pool).await;
        created.expect("a table");
        let engine = engine();
        let queue = Queue::new(&engine);
        let id = queue.enqueue(Transfer).await.expect("it is stored").id;
        let cancelled = {
            let (queue, bank) = (queue.clone(), bank.clone());
            async move {
                bank.written.notified().await;
                queue.cancel(id).await.expect("the engine is there");
                let settled = queue.wait_settled(id, seconds(60)).await;
                settled.expect("it settles");
            }
        };
        let worker = Worker::new(&engine)
            .state(bank.clone())
            .handle(transfer)
            .lease_duration(millis(300))
            .abort_grace(millis(50));
        worker.run_until(cancelled).await.expect("it runs");
        let got = queue.get(id).await.expect("the engine is there");
        let stopped = got.expect("it is kept").job().and_then(|job| job.stopped);
        assert_eq!(stopped, Some(Stop::Aborted));

        // Another one may write, and what was taken is not there.
        let give = sqlx::query("INSERT INTO transfers (amount) VALUES (7)");
        give.execute(&bank.pool).await.expect("nothing is locked");
        let sum = sqlx::query_as("SELECT count(*), max(amount) FROM transfers");
        let sum: (i64, i64) = sum.fetch_one(&bank.pool).await.expect("a row");
        assert_eq!(sum, (1, 7));
    }};
}
pub(crate) use a_cancel_rolls_back;

pub(crate) fn engine() -> Arc<MemoryEngine> {
    Arc::new(MemoryEngine::new())
}

#[tokio::test]
async fn a_cancel_rolls_back_the_transaction_of_its_handler() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = format!(
        "sqlite:{}?mode=rwc",
        directory.path().join("bank.db").display()
    );
    let pool = sqlx::SqlitePool::connect(&address).await;
    a_cancel_rolls_back!(pool.expect("a database"), sqlx::SqlitePool);
}
