//! Lists with `BRPOP` consumers.

use std::sync::Arc;

use punctual::{JobState, MemoryEngine};
use punctual_relay::redis::{End, ListSource, Place};

use crate::support::*;

fn source(redis: &Redis) -> ListSource {
    ListSource::new(redis.place("mail"), "mail").stale_after(AT_ONCE)
}

#[tokio::test]
async fn items_of_a_list_become_jobs_and_leave_the_list() {
    let mut redis = Redis::start().await;
    redis
        .run(&["LPUSH", "mail", r#"{"to":"ann"}"#, "plain text"])
        .await;
    let engine = Arc::new(MemoryEngine::new());
    let numbers = drained(&engine, source(&redis)).await;
    assert_eq!(
        (numbers.received, numbers.enqueued, numbers.lag),
        (2, 2, Some(0))
    );
    let jobs = jobs(&engine).await;
    assert_eq!(texts(&jobs), ["plain text", r#"{"to":"ann"}"#]);
    let types: Vec<&str> = jobs.iter().map(|job| job.content_type.as_str()).collect();
    assert!(
        types.contains(&"application/json") && types.contains(&"text/plain"),
        "{types:?}"
    );
    assert_eq!(redis.keys().await, [""; 0]);
}

#[tokio::test]
async fn items_keep_their_order() {
    for (push, end) in [("LPUSH", End::Right), ("RPUSH", End::Left)] {
        let mut redis = Redis::start().await;
        for n in 0..20 {
            redis.run(&[push, "mail", &format!("{n:02}")]).await;
        }
        let engine = Arc::new(MemoryEngine::new());
        drained(&engine, source(&redis).end(end)).await;
        let mut jobs = jobs(&engine).await;
        jobs.sort_by_key(|job| job.due);
        let sent: Vec<String> = (0..20).map(|n| format!("{n:02}")).collect();
        assert_eq!(texts(&jobs), sent);
    }
}

#[tokio::test]
async fn killed_at_any_step_a_list_relay_loses_and_doubles_nothing() {
    for step in Step::ALL {
        let mut redis = Redis::start().await;
        // Equal items are two messages.
        for item in ["a", "b", "c", "c", "d"] {
            redis.run(&["LPUSH", "mail", item]).await;
        }
        let (engine, done) = (Arc::new(MemoryEngine::new()), Done::default());
        killed_at(step, &engine, source(&redis)).await;
        // Jobs that are done are recognised as those that are not.
        done.work(&engine, "mail").await;
        drained(&engine, source(&redis)).await;
        done.work(&engine, "mail").await;
        let mut counts: Vec<_> = done.counts().into_iter().collect();
        counts.sort();
        let wanted = [("a", 1), ("b", 1), ("c", 2), ("d", 1)].map(|(text, n)| (text.into(), n));
        assert_eq!(counts, wanted, "{step:?}");
        assert_eq!(redis.keys().await, [""; 0], "{step:?}");
    }
}

#[tokio::test]
async fn a_parked_item_of_a_living_relay_is_left_to_it() {
    let mut redis = Redis::start().await;
    redis.run(&["LPUSH", "mail", "a"]).await;
    let engine = Arc::new(MemoryEngine::new());
    let long = source(&redis).stale_after(punctual::time::hours(1));
    killed_at(Step::AfterTake, &engine, long.clone()).await;
    redis.run(&["LPUSH", "mail", "b"]).await;
    killed_at(Step::AfterAccept, &engine, long).await;
    assert_eq!(texts(&jobs(&engine).await), ["b"]);
    assert_eq!(
        redis.keys().await,
        ["{mail}:punctual:bodies", "{mail}:punctual:parked"]
    );
}

#[tokio::test]
async fn two_relays_of_one_list_share_it() {
    let mut redis = Redis::start().await;
    for n in 0..500 {
        redis.run(&["LPUSH", "mail", &n.to_string()]).await;
    }
    let engine = Arc::new(MemoryEngine::new());
    // Parked items are taken again at once: both relays store many of the same.
    tokio::join!(
        drained(&engine, source(&redis)),
        drained(&engine, source(&redis))
    );
    let jobs = jobs(&engine).await;
    assert_eq!(jobs.len(), 500);
    assert!(
        jobs.iter().all(|job| job.state == JobState::Ready),
        "{:?}",
        jobs[0]
    );
    assert_eq!(redis.keys().await, [""; 0]);
}

#[tokio::test]
async fn a_relay_goes_on_after_its_server_was_restarted() {
    let mut redis = Redis::start().await;
    let engine = Arc::new(MemoryEngine::new());
    let relay = punctual_relay::Relay::new(&engine, "test").expect("a name");
    let health = relay.health();
    let running = tokio::spawn(relay.run_until(source(&redis), std::future::pending()));
    redis.server.kill();
    while health.numbers().restarts == 0 {
        punctual::time::pause(punctual::time::millis(1)).await;
    }
    redis.server.restart();
    let client = redis::Client::open(redis.server.address()).expect("an address");
    redis.client = client
        .get_multiplexed_async_connection()
        .await
        .expect("it runs");
    redis.run(&["LPUSH", "mail", "a"]).await;
    while health.numbers().enqueued == 0 {
        punctual::time::pause(punctual::time::millis(1)).await;
    }
    running.abort();
    assert_eq!(texts(&jobs(&engine).await), ["a"]);
    assert!(health.numbers().last_error.is_some());
}

/// A user that may pop and not park: nothing leaves the list.
#[tokio::test]
async fn a_missing_right_loses_no_item() {
    let mut redis = Redis::start().await;
    redis.run(&["LPUSH", "mail", "a", "b"]).await;
    redis
        .run(&[
            "ACL", "SETUSER", "relay", "on", ">pw", "~*", "&*", "+@all", "-hset",
        ])
        .await;
    let address = format!("redis://relay:pw@127.0.0.1:{}", redis.server.port());
    let place = Place::new(&address, "mail").expect("an address");
    let engine = Arc::new(MemoryEngine::new());
    let relay = punctual_relay::Relay::new(&engine, "test").expect("a name");
    let health = relay.health();
    let running =
        tokio::spawn(relay.run_until(ListSource::new(place, "mail"), std::future::pending()));
    while health.numbers().last_error.is_none() && !running.is_finished() {
        punctual::time::pause(punctual::time::millis(1)).await;
    }
    running.abort();
    assert_eq!(redis.run(&["LLEN", "mail"]).await, redis::Value::Int(2));
    assert_eq!(redis.keys().await, ["mail"]);
    drained(&engine, source(&redis)).await;
    assert_eq!(texts(&jobs(&engine).await), ["a", "b"]);
}

/// Redis refuses commands that may need memory then, and a list may be what filled it.
#[tokio::test]
async fn a_list_that_fills_its_server_is_drained() {
    let mut redis = Redis::start().await;
    for n in 0..100 {
        redis.run(&["LPUSH", "mail", &format!("{n:03}")]).await;
    }
    redis.run(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let engine = Arc::new(MemoryEngine::new());
    let relay = punctual_relay::Relay::new(&engine, "test").expect("a name");
    let relay = relay.until_idle().at_most(10);
    let relaying = relay.run_until(source(&redis), std::future::pending());
    let ended = punctual::time::within(punctual::time::seconds(10), relaying).await;
    ended.expect("it is not refused").expect("it ends");
    assert_eq!(jobs(&engine).await.len(), 100);
    assert_eq!(redis.keys().await, [""; 0]);
}

#[tokio::test]
async fn processing_lists_of_stopped_consumers_are_taken_first() {
    for keys in [
        &["mail:processing:*"][..],
        &["mail:processing:1", "mail:processing:2", "none"],
    ] {
        let mut redis = Redis::start().await;
        redis.run(&["LPUSH", "mail", "d", "e"]).await;
        redis.run(&["LPUSH", "mail:processing:1", "a"]).await;
        redis.run(&["LPUSH", "mail:processing:2", "b", "c"]).await;
        // No list: a pattern passes it by.
        redis.run(&["SET", "mail:processing:count", "3"]).await;
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let open = || source(&redis).processing(keys.clone()).expect("keys");
        let engine = Arc::new(MemoryEngine::new());
        for step in Step::ALL {
            killed_at(step, &engine, open()).await;
        }
        drained(&engine, open()).await;
        let mut found = jobs(&engine).await;
        assert_eq!(texts(&found), ["a", "b", "c", "d", "e"]);
        found.sort_by_key(|job| job.due);
        let last: Vec<&[u8]> = found[3..].iter().map(|job| &job.payload[..]).collect();
        assert_eq!(last, [b"d", b"e"], "the list comes after them");
        assert_eq!(redis.keys().await, ["mail:processing:count"]);
    }
    let redis = Redis::start().await;
    assert!(source(&redis).processing(vec!["mail".into()]).is_err());
}
