use std::net::SocketAddr;
use std::sync::Arc;

use punctual::engine::{StatsRequest, Target};
use punctual::time::{millis, pause};
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
    // A user without a password takes any.
    let address = server.address().replace("://", "://default:hunter2@");
    let run = torture(&format!("{address}/3?durability=memory"));
    is_clean_under(&run, &FROM_OUTSIDE, &TO_SERVERS);
    assert!(!run.said().contains("hunter2"), "{}", run.said());
    let found = run.files_with("hunter2");
    assert!(found.is_empty(), "they hold the password: {found:?}");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_somebody_else_puts_in_meanwhile_is_told_of_and_left_alone() {
    let server = TestServer::start();
    let address = format!("{}/3?durability=memory", server.address());
    let options = address.parse::<punctual_redis::Options>();
    let engine = RedisEngine::connect(options.expect("an address")).await;
    let engine = engine.expect("a server");
    let running = tokio::task::spawn_blocking(move || {
        let arguments = ["--engine", &*address, "--minutes", "0.1", "--seed", "2"];
        run_with_token(&arguments, TOKEN)
    });
    // Once the run has sent something, it has looked whether the engine is empty.
    let namespace = Namespace::default();
    let began = async || {
        let stats = engine.stats(&namespace, StatsRequest::default()).await;
        !stats.expect("stats").queues.is_empty()
    };
    while !began().await {
        pause(millis(20)).await;
    }
    let mut job = NewJob::new("orders", "somebody's");
    job.headers = vec![("fate".into(), r#""dies""#.into())];
    let sent = engine.enqueue(&namespace, vec![job]).await;
    let id = sent.expect("it is stored").receipts[0].id;
    let run = running.await.expect("the run ends");
    assert!(!run.is_clean(), "{}", run.said());
    let told = format!("{id} was never sent by this run, and appeared");
    assert!(run.said().contains(&told), "{}", run.said());
    let got = engine.get(&namespace, vec![Target::Id(id)], false).await;
    let got = got.expect("it is asked").remove(0);
    assert!(got.is_some_and(|got| got.job().is_some()), "it is kept");
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
