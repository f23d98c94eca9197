//! A counter that is read and written under a lock, while holders stand still and the master dies.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::Queue;
use punctual::sync::Lock as _;
use punctual::time::{millis, pause, seconds};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestSentinels;

use crate::client::options;

const WORKERS: u64 = 8;
/// Increments of each.
const TURNS: u64 = 12;
const LEASE: Duration = millis(300);

/// A store that keeps the largest fence it has seen, if it knows fences.
struct Store {
    knows_fences: bool,
    kept: Mutex<(u64, u64)>,
}

impl Store {
    /// The number, for a holder: one that comes after a later one is refused.
    fn read(&self, fence: u64) -> Option<u64> {
        let (number, largest) = &mut *self.kept.locked();
        if self.knows_fences && fence < *largest {
            return None;
        }
        *largest = fence.max(*largest);
        Some(*number)
    }

    /// Writes the number, unless a later holder has read it.
    fn write(&self, fence: u64, wanted: u64) -> bool {
        let (number, largest) = &mut *self.kept.locked();
        if self.knows_fences && fence < *largest {
            return false;
        }
        *number = wanted;
        true
    }
}

/// Adds one, under the lock. A holder that stands still does not extend its lease.
async fn add_one(queue: &Queue, store: &Store, stands_still: bool) -> punctual::Result<bool> {
    let guard = queue
        .lock("counter")
        .lease(LEASE)
        .wait(seconds(120))
        .await?;
    let fence = guard.fence();
    let Some(number) = store.read(fence) else {
        return Ok(false);
    };
    if stands_still {
        guard.detach();
        pause(3 * LEASE).await;
        return Ok(store.write(fence, number + 1));
    }
    pause(millis(2)).await;
    let is_written = store.write(fence, number + 1);
    // The lease may have been lost with the old master.
    let _ = guard.release().await;
    Ok(is_written)
}

/// What the counter says after `WORKERS * TURNS` writes that were accepted.
async fn counted(servers: &mut TestSentinels, knows_fences: bool, fails_over: bool) -> u64 {
    let store = Arc::new(Store {
        knows_fences,
        kept: Mutex::default(),
    });
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let engine = RedisEngine::connect(options(&servers.address()).deadline(seconds(20)));
        let queue = Queue::new(engine.await.expect("the master answers"));
        let store = store.clone();
        workers.spawn(async move {
            let (mut turn, mut tries) = (0, 0);
            while turn < TURNS {
                let stands_still = tries == 0 && (worker + turn) % 6 == 0;
                tries += 1;
                match add_one(&queue, &store, stands_still).await {
                    Ok(true) => (turn, tries) = (turn + 1, 0),
                    Ok(false) => {}
                    // The master is gone: the lock is taken again at the next one.
                    Err(error) if error.is_retryable() => pause(millis(20)).await,
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    if fails_over {
        while store.kept.locked().0 < WORKERS * TURNS / 4 {
            pause(millis(5)).await;
        }
        tokio::task::block_in_place(|| servers.kill_master());
    }
    while let Some(ended) = workers.join_next().await {
        ended.expect("no panic");
    }
    let (number, _) = *store.kept.locked();
    number
}

/// A holder that is cut off or stands still writes late, and a master that dies before its replicas
/// have a lease lets two hold the lock. The fence keeps the counter right through both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_keeps_a_counter_right_through_stops_and_a_failover() {
    let mut servers = TestSentinels::start();
    assert_eq!(counted(&mut servers, true, true).await, WORKERS * TURNS);
}

/// The injected bug: the store takes every write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_fence_a_late_holder_undoes_what_others_wrote() {
    let mut servers = TestSentinels::start();
    let number = counted(&mut servers, false, false).await;
    assert!(number < WORKERS * TURNS, "{number}");
}
