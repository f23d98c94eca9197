//! What `info` says of servers that are set up otherwise than when the engine started.

use punctual::engine::{Durability, Health};
use punctual::{Engine, Namespace, NewJob};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{connect, enqueue};
use crate::faults::ALWAYS;

async fn health(engine: &RedisEngine) -> Health {
    engine.info().await.expect("info").health
}

/// A reader gets what is so now, though it was good at the start, and that it is mended.
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

/// Damaged, lost and refused data of one namespace are problems of that namespace alone.
#[tokio::test]
async fn trouble_in_one_namespace_is_a_problem_of_that_one_alone() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let shop = Namespace::new("shop").expect("a good name");
    enqueue(&engine).await.expect("enqueue");
    let job = NewJob::new("mail", "{}");
    let sent = engine.enqueue(&shop, vec![job]).await;
    sent.expect("enqueue");
    let own = "punctual:{shop/0}:s";
    let saved = server.cli(&["COPY", own, "saved"]);
    assert_eq!(saved, "1");
    for (loss, reported) in [
        (&["SET", own, "mine"][..], "rename or delete it"),
        (&["DEL", own], "lost the jobs"),
    ] {
        server.cli(loss);
        let ill = health(&engine).await;
        assert!(ill.ok && ill.problems.is_empty(), "{ill:?}");
        let [problem] = &ill.of_namespaces[..] else {
            panic!("{loss:?}: {ill:?}");
        };
        assert_eq!(problem.namespace, shop);
        assert!(problem.text.contains(reported), "{loss:?}: {problem}");
        server.cli(&["COPY", "saved", own, "REPLACE"]);
        let well = health(&engine).await;
        assert!(well.is_well(), "after {loss:?}: {well:?}");
    }
    // Where no namespace answers, the engine is in trouble.
    server.cli(&["FLUSHALL"]);
    let ill = health(&engine).await;
    assert!(!ill.ok && ill.problems[0].contains("lost"), "{ill:?}");
}
