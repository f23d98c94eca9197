//! Keys that expire.

use std::sync::Arc;

use punctual::time::{Clock, ManualClock, SystemClock, hours, millis, minutes, pause};
use punctual::{JobRecord, JobState, MemoryEngine};
use punctual_relay::Relay;
use punctual_relay::redis::{ExpirySource, Place};

use crate::support::*;

const NEXT_YEAR: u64 = 4_070_908_800_000;

async fn set(redis: &mut Redis, key: &str, ms: u64) {
    let ms = ms.to_string();
    redis.run(&["SET", key, "value", "PXAT", &ms]).await;
}

fn waiting(jobs: &[JobRecord]) -> Vec<(u64, String)> {
    let waits = jobs.iter().filter(|job| job.state == JobState::Scheduled);
    let mut waits: Vec<_> = waits
        .map(|job| {
            let payload: serde_json::Value = serde_json::from_slice(&job.payload).expect("JSON");
            let key = payload["key"].as_str().expect("a key").to_owned();
            (job.due.as_micros() / 1_000, key)
        })
        .collect();
    waits.sort();
    waits
}

#[tokio::test]
async fn each_key_with_the_prefix_is_a_job_at_its_expiry() {
    let mut redis = Redis::start().await;
    set(&mut redis, "order:*7", NEXT_YEAR + 1).await;
    set(&mut redis, "order:8", NEXT_YEAR + 2).await;
    set(&mut redis, "session:9", NEXT_YEAR).await;
    redis.run(&["SET", "order:10", "stays"]).await;
    let engine = Arc::new(MemoryEngine::new());
    let open = ExpirySource::new(redis.place("order:"), "timeouts");
    assert_eq!(drained(&engine, open.clone()).await.enqueued, 2);
    let found = waiting(&jobs(&engine).await);
    let wanted = [(NEXT_YEAR + 1, "order:*7"), (NEXT_YEAR + 2, "order:8")];
    assert_eq!(found, wanted.map(|(ms, key)| (ms, key.to_owned())));
    // Another relay, and the next sweep, find what is known.
    let again = drained(&engine, open.clone()).await;
    assert_eq!((again.enqueued, again.duplicates), (0, 2));
    // A prefix is no pattern.
    let odd = ExpirySource::new(redis.place("order:*"), "timeouts");
    assert_eq!(drained(&engine, odd).await.received, 1);
    // A key whose expiry moves has one job.
    set(&mut redis, "order:8", NEXT_YEAR + 9).await;
    assert_eq!(drained(&engine, open).await.enqueued, 1);
    let moved = waiting(&jobs(&engine).await);
    assert!(
        moved.contains(&(NEXT_YEAR + 9, "order:8".into())) && moved.len() == 2,
        "{moved:?}"
    );
}

#[tokio::test]
async fn what_redis_reports_is_a_job_before_the_next_sweep() {
    let mut redis = Redis::start().await;
    redis
        .run(&["CONFIG", "SET", "notify-keyspace-events", "Eg"])
        .await;
    let engine = Arc::new(MemoryEngine::new());
    let open = ExpirySource::new(redis.place("order:"), "timeouts").sweep_every(hours(1));
    let relay = Relay::new(&engine, "test").expect("a name");
    let running = tokio::spawn(relay.run_until(open, std::future::pending()));
    let mut n = 0;
    while jobs(&engine).await.is_empty() {
        n += 1;
        set(&mut redis, &format!("order:{n}"), NEXT_YEAR).await;
        pause(millis(20)).await;
    }
    running.abort();
}

#[tokio::test]
async fn an_expiry_that_has_happened_is_replaced_by_no_new_one() {
    let mut redis = Redis::start().await;
    let now = SystemClock.now();
    let clock = ManualClock::new(now);
    let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
    let open = ExpirySource::new(redis.place("order:"), "timeouts");
    let first = (now + minutes(30)).as_millis();
    set(&mut redis, "order:8", first).await;
    assert_eq!(drained(&engine, open.clone()).await.enqueued, 1);
    // Its job is ready, and no worker has taken it.
    clock.advance(hours(1));
    set(&mut redis, "order:8", NEXT_YEAR).await;
    assert_eq!(drained(&engine, open).await.enqueued, 1);
    let jobs = jobs(&engine).await;
    let mut found: Vec<_> = jobs
        .iter()
        .map(|job| (job.due.as_millis(), job.state))
        .collect();
    found.sort_by_key(|(due, _)| *due);
    let wanted = [(first, JobState::Ready), (NEXT_YEAR, JobState::Scheduled)];
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn the_same_key_of_two_databases_is_two_jobs() {
    let mut redis = Redis::start().await;
    let engine = Arc::new(MemoryEngine::new());
    for database in ["6", "7"] {
        redis.run(&["SELECT", database]).await;
        set(&mut redis, "order:9", NEXT_YEAR).await;
        let address = format!("redis://127.0.0.1:{}/{database}", redis.server.port());
        let place = Place::new(&address, "order:").expect("an address");
        let open = ExpirySource::new(place, "timeouts");
        assert_eq!(drained(&engine, open).await.enqueued, 1);
    }
    assert_eq!(waiting(&jobs(&engine).await).len(), 2);
}
