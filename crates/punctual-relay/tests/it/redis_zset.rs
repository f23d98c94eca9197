//! Sorted sets whose scores are instants.

use std::sync::Arc;

use punctual::time::{Clock, SystemClock, hours};
use punctual::{ErrorKind, JobState, MemoryEngine};
use punctual_relay::Relay;
use punctual_relay::redis::{Unit, ZsetSource};

use crate::support::*;

fn source(redis: &Redis) -> ZsetSource {
    ZsetSource::new(redis.place("delayed"), "orders").stale_after(AT_ONCE)
}

#[tokio::test]
async fn members_are_due_at_their_scores_in_any_unit() {
    let due = SystemClock.now() + hours(1);
    let micros = due.as_micros() / 1_000_000 * 1_000_000;
    for (unit, score) in [
        (Unit::Seconds, micros / 1_000_000),
        (Unit::Millis, micros / 1_000),
        (Unit::Micros, micros),
    ] {
        let mut redis = Redis::start().await;
        redis
            .run(&["ZADD", "delayed", &score.to_string(), "order 7"])
            .await;
        let guess = source(&redis).guess().await.expect("a guess");
        assert_eq!(guess.unit, Some(unit));
        let engine = Arc::new(MemoryEngine::new());
        drained(&engine, source(&redis)).await;
        let jobs = jobs(&engine).await;
        assert_eq!(texts(&jobs), ["order 7"]);
        assert_eq!(
            (jobs[0].due.as_micros(), jobs[0].state),
            (micros, JobState::Scheduled)
        );
        assert_eq!(redis.keys().await, [""; 0]);
    }
}

#[tokio::test]
async fn scores_that_are_delays_are_refused_and_taken_by_none() {
    let mut redis = Redis::start().await;
    redis.run(&["ZADD", "delayed", "3", "order3"]).await;
    let engine = Arc::new(MemoryEngine::new());
    let relay = Relay::new(&engine, "test").expect("a name");
    let refused = relay
        .run_until(source(&redis), std::future::pending())
        .await;
    let error = refused.expect_err("a delay is no instant");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains("no instant"), "{error}");
    assert_eq!(redis.keys().await, ["delayed"]);
}

#[tokio::test]
async fn scores_of_two_units_need_a_named_one() {
    let mut redis = Redis::start().await;
    redis
        .run(&["ZADD", "delayed", "1795454266", "a", "1795454266026", "b"])
        .await;
    let error = source(&redis).guess().await.expect_err("two units");
    assert!(error.message().contains("several units"), "{error}");
    let named = source(&redis)
        .unit(Unit::Millis)
        .guess()
        .await
        .expect("it is named");
    assert_eq!((named.samples.len(), named.refused), (1, 1));
}

#[tokio::test]
async fn a_delay_among_instants_becomes_a_dead_job() {
    let mut redis = Redis::start().await;
    redis.run(&["ZADD", "delayed", "4000000000", "a"]).await;
    let engine = Arc::new(MemoryEngine::new());
    killed_at(Step::BeforeTake, &engine, source(&redis)).await;
    let relay = Relay::new(&engine, "test").expect("a name");
    let health = relay.health();
    let running = tokio::spawn(relay.run_until(source(&redis), std::future::pending()));
    while health.numbers().enqueued == 0 {
        punctual::time::pause(punctual::time::millis(1)).await;
    }
    redis.run(&["ZADD", "delayed", "30", "soon"]).await;
    while health.numbers().refused == 0 {
        punctual::time::pause(punctual::time::millis(1)).await;
    }
    running.abort();
    let dead: Vec<_> = jobs(&engine)
        .await
        .into_iter()
        .filter(|job| job.state == JobState::Dead)
        .collect();
    assert_eq!(texts(&dead), ["soon"]);
    assert_eq!(dead[0].queue, "relay.test.refused");
    assert!(
        dead[0]
            .last_error
            .as_ref()
            .is_some_and(|why| why.contains("no instant"))
    );
}

#[tokio::test]
async fn killed_at_any_step_a_zset_relay_loses_and_doubles_nothing() {
    for step in Step::ALL {
        let mut redis = Redis::start().await;
        let past = (SystemClock.now() - hours(1)).as_millis().to_string();
        redis
            .run(&["ZADD", "delayed", &past, "a", &past, "b b", &past, "c"])
            .await;
        let (engine, done) = (Arc::new(MemoryEngine::new()), Done::default());
        killed_at(step, &engine, source(&redis)).await;
        done.work(&engine, "orders").await;
        drained(&engine, source(&redis)).await;
        done.work(&engine, "orders").await;
        let mut counts: Vec<_> = done.counts().into_iter().collect();
        counts.sort();
        assert_eq!(
            counts,
            ["a", "b b", "c"].map(|text| (text.into(), 1)),
            "{step:?}"
        );
        assert_eq!(redis.keys().await, [""; 0], "{step:?}");
    }
}

#[tokio::test]
async fn a_bad_score_at_a_reconnect_goes_to_the_refused() {
    let mut redis = Redis::start().await;
    redis.run(&["ZADD", "delayed", "4000000000", "a"]).await;
    let engine = Arc::new(MemoryEngine::new());
    let open = source(&redis);
    drained(&engine, open.clone()).await;
    redis.run(&["ZADD", "delayed", "3", "bad"]).await;
    // As after a lost connection: the same source is opened again.
    let numbers = drained(&engine, open).await;
    assert_eq!((numbers.refused, numbers.restarts), (1, 0));
}

#[tokio::test]
async fn bad_scores_among_instants_are_counted_and_refused() {
    for (unit, good, bad) in [
        (None, "4000000000", "3"),
        (Some(Unit::Seconds), "4000000000", "3"),
        (Some(Unit::Millis), "4000000000000", "4000000000"),
        (Some(Unit::Seconds), "4000000000", "inf"),
    ] {
        let mut redis = Redis::start().await;
        // More than are examined of one end.
        for n in 0..60 {
            let name = format!("bad{n:02}");
            redis.run(&["ZADD", "delayed", bad, &name]).await;
        }
        redis.run(&["ZADD", "delayed", good, "good"]).await;
        let open = || match unit {
            Some(unit) => source(&redis).unit(unit),
            None => source(&redis),
        };
        let guess = open().guess().await.expect("one is an instant");
        assert_eq!((guess.examined, guess.refused), (61, 60));
        let engine = Arc::new(MemoryEngine::new());
        let numbers = drained(&engine, open()).await;
        assert_eq!((numbers.enqueued, numbers.refused), (1, 60), "{unit:?}");
        let dead = jobs(&engine).await;
        let dead = dead.iter().find(|job| job.state == JobState::Dead);
        let why = dead
            .and_then(|job| job.last_error.clone())
            .unwrap_or_default();
        assert!(why.contains("2001 to 5138"), "{why}");
    }
}

#[tokio::test]
async fn a_named_unit_in_which_no_score_is_an_instant_is_refused() {
    let mut redis = Redis::start().await;
    redis.run(&["ZADD", "delayed", "3", "a"]).await;
    let error = source(&redis).unit(Unit::Seconds).guess().await;
    let text = error.expect_err("1970").to_string();
    assert!(
        text.contains("score: 3") && text.contains("unit: s"),
        "{text}"
    );
    assert_eq!(redis.keys().await, ["delayed"]);
}
