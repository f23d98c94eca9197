//! Streams with a consumer group.

use std::sync::Arc;

use punctual::{JobState, MemoryEngine};
use punctual_relay::redis::StreamSource;

use crate::support::*;

fn source(redis: &Redis) -> StreamSource {
    StreamSource::new(redis.place("files"), "files").stale_after(AT_ONCE)
}

#[tokio::test]
async fn entries_of_a_stream_become_jobs_and_are_acknowledged() {
    let mut redis = Redis::start().await;
    redis
        .run(&["XADD", "files", "1-1", "file", "7", "by", "ann"])
        .await;
    redis.run(&["XADD", "files", "1-2", "body", "text"]).await;
    let engine = Arc::new(MemoryEngine::new());
    let numbers = drained(&engine, source(&redis)).await;
    assert_eq!((numbers.enqueued, numbers.lag), (2, Some(0)));
    let found = jobs(&engine).await;
    assert_eq!(
        texts(&found),
        [r#"{"body":"text"}"#, r#"{"by":"ann","file":"7"}"#]
    );
    assert!(found.iter().all(|job| job.headers[0].0 == "stream-entry"));
    // Another relay of the group has nothing to do.
    let again = drained(&engine, source(&redis)).await;
    assert_eq!(again.received, 0);
}

#[tokio::test]
async fn a_field_is_the_payload_and_an_entry_without_it_is_dead() {
    let mut redis = Redis::start().await;
    redis
        .run(&["XADD", "files", "1-1", "body", r#"{"n":1}"#, "other", "x"])
        .await;
    redis.run(&["XADD", "files", "1-2", "other", "x"]).await;
    let engine = Arc::new(MemoryEngine::new());
    let numbers = drained(&engine, source(&redis).field("body").delete()).await;
    assert_eq!((numbers.enqueued, numbers.refused), (1, 1));
    let (dead, good): (Vec<_>, Vec<_>) = jobs(&engine)
        .await
        .into_iter()
        .partition(|job| job.state == JobState::Dead);
    assert_eq!(texts(&good), [r#"{"n":1}"#]);
    let why = dead[0].last_error.clone().unwrap_or_default();
    assert!(why.contains("no field \"body\""), "{why}");
    assert_eq!(redis.run(&["XLEN", "files"]).await, redis::Value::Int(0));
}

#[tokio::test]
async fn killed_at_any_step_a_stream_relay_loses_and_doubles_nothing() {
    for step in Step::ALL {
        let mut redis = Redis::start().await;
        for n in 1..=4 {
            redis
                .run(&["XADD", "files", &format!("{n}-0"), "n", &n.to_string()])
                .await;
        }
        let (engine, done) = (Arc::new(MemoryEngine::new()), Done::default());
        killed_at(step, &engine, source(&redis)).await;
        done.work(&engine, "files").await;
        drained(&engine, source(&redis)).await;
        done.work(&engine, "files").await;
        let mut counts: Vec<_> = done.counts().into_iter().collect();
        counts.sort();
        let wanted: Vec<(String, u32)> =
            (1..=4).map(|n| (format!(r#"{{"n":"{n}"}}"#), 1)).collect();
        assert_eq!(counts, wanted, "{step:?}");
    }
}

#[tokio::test]
async fn each_group_has_every_entry() {
    let mut redis = Redis::start().await;
    for n in ["1-1", "1-2"] {
        redis.run(&["XADD", "files", n, "n", n]).await;
    }
    let engine = Arc::new(MemoryEngine::new());
    for group in ["thumbnails", "archive"] {
        let of_group = StreamSource::new(redis.place("files"), group).group(group);
        let numbers = drained(&engine, of_group).await;
        assert_eq!((numbers.enqueued, numbers.refused), (2, 0), "{group}");
    }
    assert_eq!(jobs(&engine).await.len(), 4);
}

#[tokio::test]
async fn an_entry_with_a_field_twice_is_kept_dead_with_all_of_it() {
    let mut redis = Redis::start().await;
    redis
        .run(&["XADD", "files", "1-1", "tag", "a", "tag", "b"])
        .await;
    let engine = Arc::new(MemoryEngine::new());
    let numbers = drained(&engine, source(&redis)).await;
    assert_eq!((numbers.enqueued, numbers.refused), (0, 1));
    let found = jobs(&engine).await;
    let why = found[0].last_error.clone().unwrap_or_default();
    assert!(why.contains("\"tag\" twice"), "{why}");
    let text = &texts(&found)[0];
    assert!(text.contains('a') && text.contains('b'), "{text}");
}

/// After a deletion the server knows no lag, but what is pending.
#[tokio::test]
async fn a_relay_until_idle_waits_for_what_a_killed_one_took() {
    let mut redis = Redis::start().await;
    for n in ["1", "2", "3", "4"] {
        redis
            .run(&["XADD", "files", &format!("{n}-0"), "n", n])
            .await;
    }
    redis
        .run(&["XGROUP", "CREATE", "files", "punctual", "0"])
        .await;
    redis
        .run(&[
            "XREADGROUP",
            "GROUP",
            "punctual",
            "killed",
            "COUNT",
            "2",
            "STREAMS",
            "files",
            ">",
        ])
        .await;
    redis.run(&["XDEL", "files", "4-0"]).await;
    let engine = Arc::new(MemoryEngine::new());
    // It takes them over once they are stale.
    let source = source(&redis).stale_after(punctual::time::seconds(3));
    let numbers = drained(&engine, source).await;
    assert_eq!(numbers.enqueued, 3);
}

/// Redis 7.0.15 may count entries as unread, once it was restarted, that the group was given.
#[tokio::test]
async fn a_relay_until_idle_ends_where_the_server_miscounts_what_is_unread() {
    let mut redis = Redis::start().await;
    for n in ["1", "2", "3"] {
        redis
            .run(&["XADD", "files", &format!("{n}-0"), "n", n])
            .await;
    }
    let create = ["XGROUP", "CREATE", "files", "punctual", "3-0"];
    redis
        .run(&[&create[..], &["ENTRIESREAD", "1"]].concat())
        .await;
    let engine = Arc::new(MemoryEngine::new());
    let numbers = drained(&engine, source(&redis)).await;
    assert_eq!((numbers.enqueued, numbers.lag), (0, Some(0)));
    redis.run(&["XADD", "files", "4-0", "n", "4"]).await;
    let numbers = drained(&engine, source(&redis)).await;
    assert_eq!((numbers.enqueued, numbers.lag), (1, Some(0)));
}
