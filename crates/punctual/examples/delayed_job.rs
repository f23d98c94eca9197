//! A job that runs later: an order that is unpaid after a while is cancelled.

use std::sync::Arc;

use punctual::time::{millis, seconds};
use punctual::{Job, MemoryEngine, Queue, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct CancelUnpaid {
    order: u64,
}

impl Job for CancelUnpaid {
    const KIND: &str = "orders.cancel_unpaid";
    const QUEUE: &str = "orders";
}

async fn cancel_unpaid(job: CancelUnpaid) {
    println!("order {} was not paid in time: cancelled", job.order);
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let engine = Arc::new(MemoryEngine::new());
    let queue = Queue::new(&engine);

    // 30 minutes in real life.
    let receipt = queue
        .enqueue(CancelUnpaid { order: 7 })
        .delay(millis(300))
        .unique("order:7")
        .await?;
    println!("order 7 is to be paid until {}", receipt.due);

    let settled = async move {
        let _ = queue.wait_settled(receipt.id, seconds(10)).await;
    };
    Worker::new(&engine)
        .handle(cancel_unpaid)
        .run_until(settled)
        .await
}
