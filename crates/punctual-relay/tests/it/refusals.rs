//! Messages that cannot be jobs, engines that are full, and bad settings.

use std::sync::Arc;

use punctual::engine::{Control, QueueSettings, RecordValue, SETTINGS_PREFIX};
use punctual::{Engine, JobState, MemoryEngine, Namespace};
use punctual_relay::Relay;
use punctual_relay::redis::{ListSource, Place};

use crate::support::*;

fn source(redis: &Redis) -> ListSource {
    ListSource::new(redis.place("mail"), "mail").stale_after(AT_ONCE)
}

#[tokio::test]
async fn an_item_over_the_limit_becomes_a_dead_job_and_blocks_no_other() {
    let mut redis = Redis::start().await;
    let large = "x".repeat(300 << 10);
    redis.run(&["LPUSH", "mail", "a", &large, "b"]).await;
    let engine = Arc::new(MemoryEngine::new());
    let numbers = drained(&engine, source(&redis)).await;
    assert_eq!((numbers.enqueued, numbers.refused), (2, 1));
    let (dead, good): (Vec<_>, Vec<_>) = jobs(&engine)
        .await
        .into_iter()
        .partition(|job| job.state == JobState::Dead);
    assert_eq!(texts(&good), ["a", "b"]);
    assert_eq!(
        (dead[0].queue.as_str(), dead[0].payload.len()),
        ("relay.test.refused", 256 << 10)
    );
    let why = dead[0].last_error.clone().unwrap_or_default();
    assert!(
        why.contains("payload is over the limit") && why.contains("cut"),
        "{why}"
    );
}

#[tokio::test]
async fn a_full_queue_leaves_messages_in_the_source() {
    let mut redis = Redis::start().await;
    for n in 0..50 {
        redis.run(&["LPUSH", "mail", &format!("{n:02}")]).await;
    }
    let engine = Arc::new(MemoryEngine::new());
    let settings = Control::Write {
        name: format!("{SETTINGS_PREFIX}mail"),
        expected: 0,
        value: Some(RecordValue::Queue(QueueSettings::new().max_pending(10))),
    };
    engine
        .control(&Namespace::default(), settings)
        .await
        .expect("it takes settings");
    let relay = Relay::new(&engine, "test").expect("a name").at_most(20);
    let health = relay.health();
    let running = tokio::spawn(relay.run_until(source(&redis), std::future::pending()));
    while health.numbers().state.name() != "engine_refuses" {
        punctual::time::pause(punctual::time::millis(1)).await;
    }
    // The first batch is taken; the rest is not touched.
    assert_eq!(redis.run(&["LLEN", "mail"]).await, redis::Value::Int(30));
    let done = Done::default();
    while done.counts().len() < 50 {
        done.work(&engine, "mail").await;
    }
    running.abort();
    assert!(
        done.counts().values().all(|count| *count == 1),
        "{:?}",
        done.counts()
    );
}

#[tokio::test]
async fn bad_settings_are_errors_that_name_the_remedy() {
    let mut redis = Redis::start().await;
    redis.run(&["SET", "mail", "no list"]).await;
    let engine = Arc::new(MemoryEngine::new());
    let relay = Relay::new(&engine, "test").expect("a name");
    let error = relay
        .run_until(source(&redis), std::future::pending())
        .await;
    let error = error.expect_err("it is no list");
    assert!(error.message().contains("another type"), "{error}");

    assert!(Relay::new(&engine, "no blanks please").is_err());
    let relay = Relay::new(&engine, "test").expect("a name");
    let long = relay.remember(punctual::time::days(8));
    let error = long.run_until(source(&redis), std::future::pending()).await;
    assert!(error.expect_err("8 days").message().contains("remember"));
    let queue = ListSource::new(redis.place("other"), "no queue");
    let relay = Relay::new(&engine, "test").expect("a name");
    let error = relay.run_until(queue, std::future::pending()).await;
    assert!(error.expect_err("a blank").message().contains("queue"));
    for (address, key) in [("127.0.0.1:1", ""), ("http://x", "mail"), ("::::", "mail")] {
        assert!(Place::new(address, key).is_err(), "{address} {key}");
    }
    let secret = Place::new("redis://:hunter2@127.0.0.1:70000/", "mail").expect_err("no port");
    assert!(!format!("{secret:?}").contains("hunter2"), "{secret:?}");
}

/// The wrong password of a server that runs is no outage.
#[tokio::test]
async fn a_refused_password_is_named_with_its_user() {
    let mut redis = Redis::start().await;
    redis.run(&["CONFIG", "SET", "requirepass", "right"]).await;
    redis
        .run(&["ACL", "SETUSER", "app", "on", ">secret", "+@all", "~*"])
        .await;
    let engine = Arc::new(MemoryEngine::new());
    for (login, user) in [
        ("", "default"),
        (":hunter2@", "default"),
        ("app:hunter2@", "app"),
    ] {
        let address = format!("redis://{login}127.0.0.1:{}", redis.server.port());
        let place = Place::new(&address, "mail").expect("an address");
        let relay = Relay::new(&engine, "test").expect("a name");
        let running = relay.run_until(ListSource::new(place, "mail"), std::future::pending());
        let ended = punctual::time::within(punctual::time::seconds(10), running).await;
        let error = ended
            .expect("it does not try for ever")
            .expect_err("no way in");
        let text = error.to_string();
        assert_eq!(error.kind(), punctual::ErrorKind::InvalidInput);
        assert!(
            text.contains("password") && text.contains(user) && !text.contains("running"),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
    }
}
