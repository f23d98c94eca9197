//! Turns of waiters: they keep the order, a waiter that gives up blocks no other, and each lock has
//! a wait queue of its own.

use std::time::Duration;

use super::{Turn, WAIT_QUEUES};
use crate::sync::Lock as _;
use crate::{MemoryEngine, Queue};

const MOMENT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn waiters_take_turns_in_order_and_leave_no_wait_queue() {
    let queue = Queue::new(MemoryEngine::new());
    let (a, b) = (queue.lock("turns:a"), queue.lock("turns:b"));
    let first = Turn::join(&a).await;
    let mut second = Turn::join(&a).await;
    let mut third = Turn::join(&a).await;
    // Another lock, and the same name at another engine, have wait queues of their own.
    assert!(first.is_first() && Turn::join(&b).await.is_first());
    let other = Queue::new(MemoryEngine::new());
    assert!(Turn::join(&other.lock("turns:a")).await.is_first());
    second.wait(MOMENT).await;
    assert!(!second.is_first() && !third.is_first());

    drop(first);
    second.wait(LONG).await;
    third.wait(MOMENT).await;
    assert!(second.is_first() && !third.is_first());
    // A waiter that gives up in the middle leaves its turn to the next.
    let fourth = Turn::join(&a).await;
    drop(fourth);
    let mut fifth = Turn::join(&a).await;
    drop(second);
    third.wait(LONG).await;
    drop(third);
    fifth.wait(LONG).await;
    assert!(fifth.is_first());
    drop(fifth);
    let all = WAIT_QUEUES.locked();
    assert!(!all.keys().any(|(_, _, name)| name.starts_with("turns:")));
}
