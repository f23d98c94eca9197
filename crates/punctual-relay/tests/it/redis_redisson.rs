//! A delayed queue of Redisson. Items are packed by Redis itself, by the formats of Redisson's own
//! scripts: 3.x before and after the ids of items became bytes.

use std::sync::Arc;

use punctual::time::{Clock, SystemClock, hours};
use punctual::{ErrorKind, JobState, MemoryEngine};
use punctual_relay::Relay;
use punctual_relay::redis::RedissonSource;

use crate::support::*;

const TIMEOUT: &str = "redisson_delay_queue_timeout:{orders}";
const LIST: &str = "redisson_delay_queue:{orders}";
/// With a random number as the id, and with bytes.
const OLD: &str = "return struct.pack('dLc0', 0.2, #ARGV[1], ARGV[1])";
const NEW: &str = "return struct.pack('Bc0Lc0', 8, ARGV[2], #ARGV[1], ARGV[1])";

fn source(redis: &Redis) -> RedissonSource {
    RedissonSource::new(redis.place("orders"), "into").stale_after(AT_ONCE)
}

/// Offers a value, as Redisson does.
async fn offer(redis: &mut Redis, format: &str, value: &str, due_ms: u64) {
    let id = format!("{:08}", number_of(value));
    let mut pack = redis::cmd("EVAL");
    pack.arg(format).arg(0).arg(value).arg(id);
    let item: Vec<u8> = pack
        .query_async(&mut redis.client)
        .await
        .expect("it answers");
    let mut calls = redis::pipe();
    calls
        .cmd("ZADD")
        .arg(TIMEOUT)
        .arg(due_ms)
        .arg(&item)
        .ignore();
    calls.cmd("RPUSH").arg(LIST).arg(&item).ignore();
    let () = calls
        .query_async(&mut redis.client)
        .await
        .expect("it answers");
}

/// A number of eight digits that differs from value to value.
fn number_of(value: &str) -> u32 {
    let sum = value.bytes().fold(7_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    sum % 100_000_000
}

#[tokio::test]
async fn delayed_items_are_due_when_redisson_would_have_moved_them() {
    for format in [OLD, NEW] {
        let mut redis = Redis::start().await;
        let due = SystemClock.now() + hours(1);
        let ms = due.as_micros() / 1_000;
        offer(&mut redis, format, r#"{"order":7}"#, ms).await;
        // This one is moved already.
        redis.run(&["RPUSH", "orders", "\"moved\""]).await;
        let engine = Arc::new(MemoryEngine::new());
        drained(&engine, source(&redis)).await;
        let mut jobs = jobs(&engine).await;
        jobs.sort_by_key(|job| job.due);
        assert_eq!(texts(&jobs), ["\"moved\"", r#"{"order":7}"#]);
        assert_eq!(jobs[1].due.as_micros(), ms * 1_000);
        assert_eq!(
            [jobs[0].state, jobs[1].state],
            [JobState::Ready, JobState::Scheduled]
        );
        assert_eq!(redis.keys().await, [""; 0]);
    }
}

#[tokio::test]
async fn what_redisson_did_not_write_becomes_a_dead_job_with_the_reason() {
    let mut redis = Redis::start().await;
    redis
        .run(&["ZADD", TIMEOUT, "1795454266026", "no item"])
        .await;
    redis.run(&["RPUSH", LIST, "an orphan"]).await;
    offer(&mut redis, NEW, "good", 1_795_454_266_026).await;
    let engine = Arc::new(MemoryEngine::new());
    let numbers = drained(&engine, source(&redis)).await;
    assert_eq!((numbers.enqueued, numbers.refused), (1, 2));
    let mut reasons: Vec<String> = jobs(&engine)
        .await
        .into_iter()
        .filter(|job| job.queue == "relay.test.refused")
        .filter_map(|job| job.last_error)
        .collect();
    reasons.sort();
    assert!(reasons[0].contains("has no instant"), "{reasons:?}");
    assert!(reasons[1].contains("packed in no way"), "{reasons:?}");
    assert_eq!(redis.keys().await, [""; 0]);
}

#[tokio::test]
async fn keys_of_another_type_end_the_relay_with_the_remedy() {
    for key in [TIMEOUT, LIST, "orders"] {
        let mut redis = Redis::start().await;
        redis.run(&["SET", key, "text"]).await;
        let relay = Relay::new(MemoryEngine::new(), "test").expect("a name");
        let ran = relay.run_until(source(&redis), std::future::pending());
        let error = ran.await.expect_err("a key of another type");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{key}: {error}");
    }
}

#[tokio::test]
async fn killed_at_any_step_a_redisson_relay_loses_and_doubles_nothing() {
    for step in Step::ALL {
        let mut redis = Redis::start().await;
        let past = (SystemClock.now() - hours(1)).as_millis();
        for value in ["a", "b b", "c"] {
            offer(&mut redis, NEW, value, past).await;
        }
        redis.run(&["RPUSH", "orders", "d"]).await;
        let (engine, done) = (Arc::new(MemoryEngine::new()), Done::default());
        killed_at(step, &engine, source(&redis)).await;
        done.work(&engine, "into").await;
        drained(&engine, source(&redis)).await;
        done.work(&engine, "into").await;
        let mut counts: Vec<_> = done.counts().into_iter().collect();
        counts.sort();
        assert_eq!(
            counts,
            ["a", "b b", "c", "d"].map(|text| (text.into(), 1)),
            "{step:?}"
        );
        assert_eq!(redis.keys().await, [""; 0], "{step:?}");
    }
}
