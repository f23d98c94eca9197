//! Encrypted connections, and users who may do little.

use punctual::{Engine, ErrorKind};
use punctual_redis::testing::TestServer;
use punctual_redis::{ACL_RULES, RedisEngine};

use crate::client::{connect, drain, enqueue, options};

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");

fn encrypted() -> TestServer {
    let file = |name: &str| format!("{CERTIFICATES}/{name}");
    let (ca, certificate, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
    TestServer::encrypted(&[
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        "no",
    ])
}

#[tokio::test]
async fn an_encrypted_server_is_used_under_its_authority() {
    let server = encrypted();
    let address = format!(
        "rediss://localhost:{}?ca={CERTIFICATES}/ca.pem",
        server.port()
    );
    let engine = connect(&address).await;
    let id = enqueue(&engine).await.expect("enqueue");
    assert_eq!(drain(&engine).await, [id]);
}

#[tokio::test]
async fn a_certificate_of_nobody_known_is_refused() {
    let server = encrypted();
    let address = format!("rediss://localhost:{}", server.port());
    let options = options(&address).deadline(punctual::time::millis(500));
    let error = RedisEngine::connect(options).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

fn with_user() -> TestServer {
    let server = TestServer::start();
    let mut rules = vec!["ACL", "SETUSER", "punctual", "on", ">hunter2"];
    rules.extend(ACL_RULES.split_whitespace());
    assert_eq!(server.cli(&rules), "OK");
    server
}

#[tokio::test]
async fn a_user_with_the_minimal_rules_may_do_all_that_is_needed() {
    let server = with_user();
    let engine = connect(&format!(
        "redis://punctual:hunter2@127.0.0.1:{}",
        server.port()
    ))
    .await;
    let waits = crate::client::waits_for_work(&engine);
    let id = enqueue(&engine).await.expect("enqueue");
    waits.await;
    assert_eq!(drain(&engine).await, [id]);
    engine.maintain().await.expect("maintain");
    assert!(engine.info().await.expect("info").health.ok);
    let said = server.cli(&["ACL", "LOG"]);
    assert_eq!(said, "", "nothing was denied");
}

#[tokio::test]
async fn a_user_with_the_minimal_rules_may_do_nothing_else() {
    let server = with_user();
    for forbidden in [
        "KEYS *",
        "FLUSHALL",
        "FLUSHDB",
        "EVAL return{} 0",
        "SCRIPT FLUSH",
        "FUNCTION FLUSH",
        "FUNCTION DELETE punctual_1",
        "CONFIG SET maxmemory 1",
        "CONFIG REWRITE",
        "DEBUG SLEEP 0",
        "SHUTDOWN NOSAVE",
        "MONITOR",
        "CLIENT KILL ID 1",
        "ACL LIST",
        "REPLICAOF NO ONE",
        "SAVE",
        "SET punctual:{default/0}:clock 1",
        "RENAME punctual:{default/0}:s punctual:a",
        "RESTORE punctual:a 0 a",
        "DEL other",
        "GET other",
        "SET other 1",
        "ZADD other 0 1",
        "HMGET other a",
        "SADD other a",
    ] {
        let words = [
            "--user",
            "punctual",
            "--pass",
            "hunter2",
            "--no-auth-warning",
        ];
        let arguments: Vec<&str> = words.into_iter().chain(forbidden.split(' ')).collect();
        let said = server.cli(&arguments);
        assert!(said.starts_with("NOPERM"), "{forbidden}: {said}");
    }
}

#[tokio::test]
async fn a_user_who_may_too_little_is_told() {
    let server = TestServer::start();
    server.cli(&[
        "ACL", "SETUSER", "poor", "on", ">hunter2", "~*", "+ping", "+info",
    ]);
    let address = format!("redis://poor:hunter2@127.0.0.1:{}", server.port());
    let error = RedisEngine::connect(options(&address))
        .await
        .expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("refuses a command"), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"));
}
