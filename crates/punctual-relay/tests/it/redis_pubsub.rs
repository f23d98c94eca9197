//! Channels.

use std::sync::Arc;

use punctual::MemoryEngine;
use punctual::time::{millis, pause};
use punctual_relay::Relay;
use punctual_relay::redis::PubSubSource;

use crate::support::*;

#[tokio::test]
async fn what_is_published_while_a_relay_listens_is_a_job() {
    let mut redis = Redis::start().await;
    let engine = Arc::new(MemoryEngine::new());
    let open = PubSubSource::new(redis.place("news.*"), "news");
    let relay = Relay::new(&engine, "test").expect("a name");
    let running = tokio::spawn(relay.run_until(open, std::future::pending()));
    // Redis says how many listen.
    let publish = ["PUBLISH", "news.local", r#"{"n":1}"#];
    while redis.run(&publish).await == redis::Value::Int(0) {
        pause(millis(5)).await;
    }
    redis.run(&["PUBLISH", "other", "no"]).await;
    while jobs(&engine).await.is_empty() {
        pause(millis(5)).await;
    }
    let found = jobs(&engine).await;
    assert_eq!(texts(&found), [r#"{"n":1}"#]);
    assert_eq!(
        found[0].headers,
        [("channel".to_owned(), "news.local".to_owned())]
    );
    running.abort();
}
