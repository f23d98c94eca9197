//! Sorted sets by due: polled by each worker, or emptied into a list by a timer.

use std::sync::Arc;

use punctual::time::{millis, pause};
use punctual_redis::testing::TestServer;
use redis::AsyncCommands;
use tokio::task::JoinSet;

use super::lists::now_ms;
use super::{connect, processes};
use crate::ledger::Ledger;

const DELAYED: &str = "delayed";
const READY: &str = "ready";

const MOVE_DUE: &str = "
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1], 'LIMIT', 0, 100)) do
  redis.call('RPUSH', KEYS[2], id)
  redis.call('ZREM', KEYS[1], id)
end";

async fn add_all(server: &TestServer, ledger: &Ledger) {
    let mut redis = connect(&server.address()).await;
    let now = now_ms(&mut redis).await;
    let mut adds = redis::pipe();
    for id in 0..ledger.work.messages {
        let due = ledger.work.due(id);
        ledger.sends(id, due);
        adds.zadd(DELAYED, id, now + due.as_millis() as u64)
            .ignore();
    }
    adds.exec_async(&mut redis).await.expect("they are stored");
}

/// `ZRANGEBYSCORE`, then work, then `ZREM`: what is removed first is lost with its worker, so
/// people remove it last.
pub(super) async fn poll(server: &TestServer, ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    add_all(server, ledger).await;
    let (address, seen, count) = (server.address(), ledger.clone(), ledger.work.workers);
    processes(tasks, count, move || {
        let (address, ledger) = (address.clone(), seen.clone());
        async move {
            let mut redis = connect(&address).await;
            loop {
                let now = now_ms(&mut redis).await;
                let due: Vec<u32> = redis
                    .zrangebyscore_limit(DELAYED, 0, now, 0, 1)
                    .await
                    .expect("a zset");
                let Some(id) = due.first() else {
                    pause(millis(10)).await;
                    continue;
                };
                if !ledger.works(*id).await {
                    return;
                }
                let _: i64 = redis.zrem(DELAYED, id).await.expect("it is removed");
            }
        }
    });
}

/// A timer in each process moves what is due to a list, from which workers pop.
pub(super) async fn timer(server: &TestServer, ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    add_all(server, ledger).await;
    let mut redis = connect(&server.address()).await;
    tasks.spawn(async move {
        loop {
            let now = now_ms(&mut redis).await;
            let mut moves = redis::cmd("EVAL");
            moves.arg(MOVE_DUE).arg(2).arg(DELAYED).arg(READY).arg(now);
            moves.exec_async(&mut redis).await.expect("they are moved");
            pause(millis(10)).await;
        }
    });
    let (address, seen, count) = (server.address(), ledger.clone(), ledger.work.workers);
    processes(tasks, count, move || {
        let (address, ledger) = (address.clone(), seen.clone());
        async move {
            let mut redis = connect(&address).await;
            loop {
                let popped: redis::RedisResult<(String, u32)> = redis.blpop(READY, 0.0).await;
                let Ok((_, id)) = popped else { return };
                if !ledger.works(id).await {
                    return;
                }
            }
        }
    });
}
