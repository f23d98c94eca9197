use std::net::SocketAddr;
use std::sync::Arc;

use punctual::{Engine, MemoryEngine, Namespace, NewJob};
use punctual_gateway::{Gateway, Scope, Serving, Token, Tokens};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;
use serde_json::Value;
use tokio::task::block_in_place;

use crate::support::{Run, run_with_token};

const TOKEN: &str = "a-token-of-somebody-else";

/// A short run at an address.
fn torture(address: &str) -> Run {
    let arguments = ["--engine", address, "--minutes", "0.1", "--seed", "2"];
    block_in_place(|| run_with_token(&arguments, TOKEN))
}

/// It came to something, nothing promised was broken, and of faults there were some of these, and none of others.
fn is_clean_under(run: &Run, expected: &[&str], others: &[&str]) {
    assert!(run.is_clean(), "{}", run.said());
    let rounds = run.rounds();
    assert_eq!(rounds.len(), 1, "{}", run.said());
    let count = |fault: &&str| {
        let faults = &rounds[0]["findings"]["tally"]["faults"];
        faults.get(*fault).and_then(Value::as_u64).unwrap_or(0)
    };
    assert!(
        expected.iter().any(|fault| count(fault) > 0),
        "{}",
        run.said()
    );
    assert!(
        others.iter().all(|fault| count(fault) == 0),
        "{}",
        run.said()
    );
}

/// Kills and terminations of workers, and what a network does.
const FROM_OUTSIDE: [&str; 5] = ["F01", "F31", "F11", "F12", "F13"];
/// What would be done to servers.
const TO_SERVERS: [&str; 7] = ["F02", "F06", "F09", "F10", "F16", "F17", "F18"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_of_somebody_else_is_tortured_from_outside_and_keeps_what_it_had() {
    let server = TestServer::start();
    let there = |arguments: &[&str]| server.cli(&[&["-n", "3"], arguments].concat());
    assert_eq!(there(&["SET", "somebody's", "key"]), "OK");
    let run = torture(&format!("{}/3?durability=memory", server.address()));
    is_clean_under(&run, &FROM_OUTSIDE, &TO_SERVERS);
    assert_eq!(there(&["GET", "somebody's"]), "key");
    let calls = server.cli(&["INFO", "commandstats"]);
    assert!(!calls.contains("cmdstat_flush"), "{calls}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_holds_jobs_is_refused_and_left_alone() {
    let server = TestServer::start();
    let address = format!("{}/3?durability=memory", server.address());
    let options = address.parse::<punctual_redis::Options>();
    let engine = RedisEngine::connect(options.expect("an address")).await;
    let job = NewJob::new("orders", "somebody's");
    let engine = engine.expect("a server");
    let sent = engine.enqueue(&Namespace::default(), vec![job]).await;
    sent.expect("it is stored");
    let before = server.cli(&["-n", "3", "DBSIZE"]);
    let run = torture(&address);
    assert!(!run.is_clean(), "{}", run.said());
    let said = "holds 1 jobs already, and a run would run them; give it one without jobs";
    assert!(run.said().contains(said), "{}", run.said());
    assert_eq!(server.cli(&["-n", "3", "DBSIZE"]), before);
}

async fn gateway() -> Serving {
    let token = Token::new(TOKEN, Namespace::default(), &Scope::ALL).expect("a token");
    let gateway = Gateway::new(Arc::new(MemoryEngine::new()), Tokens::new(vec![token]));
    let serving = gateway.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await;
    serving.expect("the loopback has a port")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_of_somebody_else_is_tortured_from_outside() {
    let serving = gateway().await;
    let run = torture(&format!("http://{}", serving.address()));
    is_clean_under(&run, &FROM_OUTSIDE, &TO_SERVERS);
}
