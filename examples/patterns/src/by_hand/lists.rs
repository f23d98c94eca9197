//! Lists: a blocking pop, a processing list, and a hash of what is being done.

use std::sync::Arc;

use punctual::time::{millis, pause};
use punctual_redis::testing::{TestProxy, TestServer, Weather};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Direction};
use tokio::task::JoinSet;

use super::{connect, processes, send_each};
use crate::ledger::Ledger;

const PENDING: &str = "todo";
const DOING: &str = "doing";

/// `LPUSH` and `BRPOP`.
pub(super) async fn pop(server: &TestServer, ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    consume(server.address(), ledger, tasks);
    push_each(server, ledger).await;
}

fn consume(address: String, ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    let (ledger, count) = (ledger.clone(), ledger.work.workers);
    processes(tasks, count, move || {
        let (address, ledger) = (address.clone(), ledger.clone());
        async move {
            let mut redis = connect(&address).await;
            loop {
                let popped: redis::RedisResult<(String, u32)> = redis.brpop(PENDING, 0.0).await;
                let Ok((_, id)) = popped else { return };
                if !ledger.works(id).await {
                    return;
                }
            }
        }
    });
}

async fn push_each(server: &TestServer, ledger: &Ledger) {
    let redis = connect(&server.address()).await;
    send_each(ledger, |id| push(redis.clone(), id)).await;
}

async fn push(mut redis: MultiplexedConnection, id: u32) {
    let _: i64 = redis.lpush(PENDING, id).await.expect("it is stored");
}

/// The same, where a connection that was idle has been cut by something on the way: Redis hands the
/// message to it all the same.
pub(super) async fn cut(server: &TestServer, ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    let proxy = TestProxy::to(server.port()).await;
    consume(proxy.address(), ledger, tasks);
    let redis = connect(&server.address()).await;
    send_each(ledger, |id| {
        let (redis, proxy, cuts) = (redis.clone(), &proxy, ledger.work.cuts(id));
        async move {
            if cuts {
                proxy.set_weather(Weather::NoReplies);
            }
            push(redis, id).await;
            if cuts {
                pause(millis(100)).await;
                proxy.set_weather(Weather::Fair);
            }
        }
    })
    .await;
    // The consumer learns of the cut with its next message only.
    ledger.is_over().await;
}

/// `LMOVE` to a list of what is being done, and back from there when a worker starts.
pub(super) async fn reliable(server: &TestServer, ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    let (address, seen, count) = (server.address(), ledger.clone(), ledger.work.workers);
    processes(tasks, count, move || {
        let (address, ledger) = (address.clone(), seen.clone());
        async move {
            let mut redis = connect(&address).await;
            // What the one before it was doing when it died; and what others are doing now.
            loop {
                let back = redis.lmove(DOING, PENDING, Direction::Right, Direction::Right);
                let Ok(Some(_)) = back.await as redis::RedisResult<Option<u32>> else {
                    break;
                };
            }
            loop {
                let moved = redis.blmove::<_, _, Option<u32>>(
                    PENDING,
                    DOING,
                    Direction::Right,
                    Direction::Left,
                    0.0,
                );
                let Ok(Some(id)) = moved.await else { return };
                if !ledger.works(id).await {
                    return;
                }
                let _: i64 = redis.lrem(DOING, 1, id).await.expect("it is removed");
            }
        }
    });
    push_each(server, ledger).await;
}

/// How old an entry of the hash may be.
const TOO_OLD_MS: u64 = 300;

/// A pop, a hash with the instant of its start, and a scan for those that started long ago.
pub(super) async fn doing_hash(server: &TestServer, ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    let (address, seen, count) = (server.address(), ledger.clone(), ledger.work.workers);
    processes(tasks, count, move || {
        let (address, ledger) = (address.clone(), seen.clone());
        async move {
            let mut redis = connect(&address).await;
            let mut clock = connect(&address).await;
            loop {
                let popped: redis::RedisResult<(String, u32)> = redis.brpop(PENDING, 0.0).await;
                let Ok((_, id)) = popped else { return };
                let now = now_ms(&mut clock).await;
                let _: i64 = redis.hset(DOING, id, now).await.expect("it is stored");
                if !ledger.works(id).await {
                    return;
                }
                let _: i64 = redis.hdel(DOING, id).await.expect("it is removed");
            }
        }
    });
    let mut redis = connect(&server.address()).await;
    tasks.spawn(async move {
        loop {
            pause(millis(100)).await;
            let now = now_ms(&mut redis).await;
            let doing: Vec<(u32, u64)> = redis.hgetall(DOING).await.expect("a hash");
            for (id, since) in doing {
                if since + TOO_OLD_MS < now {
                    let _: i64 = redis.hdel(DOING, id).await.expect("it is removed");
                    push(redis.clone(), id).await;
                }
            }
        }
    });
    push_each(server, ledger).await;
}

pub(super) async fn now_ms(redis: &mut MultiplexedConnection) -> u64 {
    let (seconds, us): (u64, u64) = redis::cmd("TIME")
        .query_async(redis)
        .await
        .expect("the time");
    seconds * 1_000 + us / 1_000
}
