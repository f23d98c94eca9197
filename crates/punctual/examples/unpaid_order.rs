//! An order that is unpaid after 30 minutes is cancelled; a payment takes the job away. The half
//! hour passes in milliseconds, on a manual clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use punctual::testing::{TestClock, advance};
use punctual::time::{Clock, minutes};
use punctual::worker::State;
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

/// Stands for the table of orders.
#[derive(Clone, Default)]
struct Orders(Arc<Mutex<BTreeMap<u64, &'static str>>>);

impl Orders {
    fn set(&self, order: u64, state: &'static str) {
        self.0.lock().unwrap().insert(order, state);
    }

    /// `UPDATE orders SET state = 'cancelled' WHERE id = ? AND state = 'unpaid'`: the table
    /// decides, and the same again changes nothing.
    fn cancel_if_unpaid(&self, order: u64) -> bool {
        let mut orders = self.0.lock().unwrap();
        let state = orders.get_mut(&order).filter(|state| **state == "unpaid");
        state.map(|state| *state = "cancelled").is_some()
    }
}

async fn cancel_unpaid(job: CancelUnpaid, State(orders): State<Orders>) {
    if orders.cancel_if_unpaid(job.order) {
        println!("order {} was not paid in time: cancelled", job.order);
    } else {
        println!("order {} is paid: nothing to cancel", job.order);
    }
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let clock = TestClock::default();
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let queue = Queue::new(&engine);
    let orders = Orders::default();
    let worker = Worker::new(&engine)
        .state(orders.clone())
        .handle(cancel_unpaid);

    for order in [1, 2, 3] {
        orders.set(order, "unpaid");
        queue
            .enqueue(CancelUnpaid { order })
            .delay(minutes(30))
            .unique(format!("order:{order}"))
            .await?;
    }
    advance(&clock, &worker, minutes(10)).await?;
    println!("{} order 1 is paid", clock.now());
    orders.set(1, "paid");
    queue.cancel(("orders", "order:1")).await?;

    // Order 2 is paid too, but the process dies before the cancel: the table still decides.
    orders.set(2, "paid");
    advance(&clock, &worker, minutes(20)).await?;

    let orders = orders.0.lock().unwrap().clone();
    let states: Vec<_> = orders.into_values().collect();
    assert_eq!(states, ["paid", "paid", "cancelled"]);
    println!("{} orders 1, 2 and 3 are {states:?}", clock.now());
    Ok(())
}
