//! Turns of waiters: in order, left behind by no waiter that gave up, and one line a lock.

use std::time::Duration;

use super::{LINES, Turn};
use crate::sync::Lock as _;
use crate::{MemoryEngine, Queue};

const MOMENT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn waiters_take_turns_in_order_and_leave_no_line() {
    let queue = Queue::new(MemoryEngine::new());
    let (a, b) = (queue.lock("turns:a"), queue.lock("turns:b"));
    let first = Turn::line_up(&a).await;
    let mut second = Turn::line_up(&a).await;
    let mut third = Turn::line_up(&a).await;
    // Another lock, and the same name at another engine, have lines of their own.
    assert!(first.is_first() && Turn::line_up(&b).await.is_first());
    let other = Queue::new(MemoryEngine::new());
    assert!(Turn::line_up(&other.lock("turns:a")).await.is_first());
    second.wait(MOMENT).await;
    assert!(!second.is_first() && !third.is_first());

    drop(first);
    second.wait(LONG).await;
    third.wait(MOMENT).await;
    assert!(second.is_first() && !third.is_first());
    // A waiter that gives up in the middle leaves its turn to the next.
    let fourth = Turn::line_up(&a).await;
    drop(fourth);
    let mut fifth = Turn::line_up(&a).await;
    drop(second);
    third.wait(LONG).await;
    drop(third);
    fifth.wait(LONG).await;
    assert!(fifth.is_first());
    drop(fifth);
    let lines = LINES.locked();
    assert!(!lines.keys().any(|(_, _, name)| name.starts_with("turns:")));
}
