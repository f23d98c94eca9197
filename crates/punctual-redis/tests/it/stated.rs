//! A managed server that denies CONFIG and BGREWRITEAOF: its operator states what it keeps.

use punctual::engine::{Durability, StatedDurability};
use punctual::{Engine, ErrorKind};
use punctual_redis::testing::TestServer;
use punctual_redis::{ACL_RULES, RedisEngine};

use crate::client::{connect, drain, here, job, options};

const SETTINGS: [&str; 6] = [
    "--save",
    "",
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
];

/// A server with a user who may do what the rules say but for these commands.
fn without(denied: &[&str]) -> (TestServer, String) {
    let server = TestServer::with(&SETTINGS);
    let mut rules = vec!["ACL", "SETUSER", "managed", "on", ">hunter2"];
    let allowed = |rule: &&str| !denied.contains(rule);
    rules.extend(ACL_RULES.split_whitespace().filter(allowed));
    assert_eq!(server.cli(&rules), "OK");
    let address = format!("redis://managed:hunter2@127.0.0.1:{}", server.port());
    (server, address)
}

#[tokio::test]
async fn what_is_stated_is_named_as_stated_where_it_cannot_be_checked() {
    let (_server, address) = without(&["+config|get", "+bgrewriteaof"]);
    let unstated = RedisEngine::connect(options(&format!("{address}?durability=fsync"))).await;
    let error = unstated.expect_err("no caller can check that");
    assert_eq!(error.kind(), ErrorKind::DurabilityUnavailable);
    assert!(error.message().contains("stated_durability="), "{error}");
    for (text, stated) in [
        ("fsync", StatedDurability::Fsync),
        ("os", StatedDurability::Os),
    ] {
        let engine = connect(&format!("{address}?stated_durability={text}")).await;
        let sent = engine.enqueue(&here(), vec![job()]).await.expect("enqueue");
        assert_eq!(sent.durability, Durability::Stated(stated));
        assert_eq!(sent.durability.to_string(), format!("stated({text})"));
        let info = engine.info().await.expect("info");
        assert_eq!(info.durability, Durability::Stated(stated));
        assert!(info.health.is_well(), "{:?}", info.health);
        assert_eq!(drain(&engine).await.len(), 1);
    }
}

#[tokio::test]
async fn what_is_stated_is_checked_where_it_can_be() {
    let server = TestServer::with(&SETTINGS);
    let engine = connect(&format!("{}?stated_durability=fsync", server.address())).await;
    let info = engine.info().await.expect("info");
    assert_eq!(info.durability, Durability::Fsync, "it was checked");
    let plain = TestServer::start();
    let address = format!("{}?stated_durability=fsync", plain.address());
    let refused = RedisEngine::connect(options(&address)).await;
    let error = refused.expect_err("it keeps no file");
    assert_eq!(error.kind(), ErrorKind::DurabilityUnavailable, "{error}");
}

#[tokio::test]
async fn a_rewrite_that_is_denied_leaves_what_is_stated() {
    let (_server, address) = without(&["+bgrewriteaof"]);
    let checked = RedisEngine::connect(options(&format!("{address}?durability=fsync"))).await;
    let error = checked.expect_err("what it appends to may be truncated");
    assert_eq!(error.kind(), ErrorKind::DurabilityUnavailable, "{error}");
    let engine = connect(&format!("{address}?stated_durability=fsync")).await;
    let info = engine.info().await.expect("info");
    assert_eq!(info.durability.to_string(), "stated(fsync)");
    assert!(info.health.is_well(), "{:?}", info.health);
}
