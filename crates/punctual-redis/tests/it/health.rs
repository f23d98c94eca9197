//! What `info` says of servers that are set up otherwise than when the engine started.

use punctual::Engine;
use punctual::engine::{Durability, Health};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{connect, enqueue};
use crate::faults::ALWAYS;

async fn health(engine: &RedisEngine) -> Health {
    engine.info().await.expect("info").health
}

/// Whoever looks is told what is so now, though it was good at the start, and that it is mended.
#[tokio::test]
async fn settings_that_change_stand_in_health_until_they_are_mended() {
    let server = TestServer::with(&ALWAYS);
    let engine = connect(&format!("{}?durability=fsync", server.address())).await;
    enqueue(&engine).await.expect("enqueue");
    let sets = |name, value| assert_eq!(server.cli(&["CONFIG", "SET", name, value]), "OK");
    for (name, bad, good) in [
        ("maxmemory-policy", "allkeys-lru", "noeviction"),
        ("appendfsync", "everysec", "always"),
        ("no-appendfsync-on-rewrite", "yes", "no"),
        ("appendonly", "no", "yes"),
    ] {
        let well = health(&engine).await;
        assert!(well.ok, "{name}: {:?}", well.problems);
        sets(name, bad);
        let ill = health(&engine).await;
        assert!(!ill.ok, "{name} {bad}");
        let remedy = format!("set {name} {good}");
        assert!(
            ill.problems.len() == 1 && ill.problems[0].contains(&remedy),
            "{name} {bad}: {:?}",
            ill.problems
        );
        let known = engine.server_infos();
        assert_eq!(known.len(), 1, "{name}: it is remembered what they said");
        assert_eq!(known[0].problems(Durability::Fsync).len(), 1, "{name}");
        sets(name, good);
    }
    let well = health(&engine).await;
    assert!(well.ok, "{:?}", well.problems);
}
