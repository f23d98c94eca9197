//! Tests of runs at an address.

use std::net::SocketAddr;
use std::sync::Arc;

use punctual::engine::{StatsRequest, Target};
use punctual::time::{millis, pause};
use punctual::{Engine, MemoryEngine, Namespace, NewJob};
use punctual_gateway::{Gateway, Scope, Serving, Tls, Token, Tokens};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestCluster, TestSentinels, TestServer};
use punctual_syncspy::SyncSpy;
use serde_json::Value;
use tokio::task::block_in_place;

use crate::support::{Run, run_with_token};

const TOKEN: &str = "a-token-of-another";

/// A short run at an address.
fn torture(address: &str) -> Run {
    block_in_place(|| torture_alone(address))
}

/// The same where nothing else goes on.
fn torture_alone(address: &str) -> Run {
    let arguments = ["--engine", address, "--minutes", "0.1", "--seed", "2"];
    run_with_token(&arguments, TOKEN)
}

/// It came to something, nothing promised was broken, and of faults there were some of these, and
/// none of others.
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

/// Jobs were acknowledged and run, and of each it was seen how it ended.
fn is_judged(run: &Run) {
    let rounds = run.rounds();
    let tally = |name: &str| rounds[0]["findings"]["tally"][name].as_u64();
    assert!(tally("acknowledged") > Some(10), "{}", run.said());
    assert!(tally("starts") > Some(10), "{}", run.said());
    assert_eq!(tally("unjudged"), Some(0), "{}", run.said());
    let verdicts = rounds[0]["findings"]["verdicts"].as_array();
    let verdicts = verdicts.expect("verdicts").iter();
    let mut of_loss = verdicts.filter(|verdict| verdict["name"] == "I1 nothing lost");
    let checked = of_loss
        .next()
        .and_then(|verdict| verdict["checked"].as_u64());
    assert!(checked >= tally("acknowledged"), "{}", run.said());
}

/// Kills and terminations of workers, and what a network does.
const FROM_OUTSIDE: [&str; 5] = ["F01", "F31", "F11", "F12", "F13"];
/// What would be done to servers.
const TO_SERVERS: [&str; 7] = ["F02", "F06", "F09", "F10", "F16", "F17", "F18"];
/// Where no proxy can stand before an engine, workers are all that is hit.
const OF_WORKERS: [&str; 4] = ["F01", "F08", "F29", "F31"];
const NOT_OF_WORKERS: [&str; 8] = ["F02", "F09", "F11", "F12", "F13", "F16", "F21", "F23"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_redis_is_tortured_from_outside_and_keeps_its_data() {
    let server = TestServer::start();
    let there = |arguments: &[&str]| server.cli(&[&["-n", "3"], arguments].concat());
    assert_eq!(there(&["SET", "another's", "key"]), "OK");
    // A user without a password takes any.
    let address = server.address().replace("://", "://default:hunter2@");
    let run = torture(&format!("{address}/3?durability=memory"));
    is_clean_under(&run, &FROM_OUTSIDE, &TO_SERVERS);
    assert!(!run.said().contains("hunter2"), "{}", run.said());
    let found = run.files_with("hunter2");
    assert!(found.is_empty(), "they hold the password: {found:?}");
    assert_eq!(there(&["GET", "another's"]), "key");
    let calls = server.cli(&["INFO", "commandstats"]);
    assert!(!calls.contains("cmdstat_flush"), "{calls}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_holds_jobs_is_refused_and_left_alone() {
    let server = TestServer::start();
    let address = format!("{}/3?durability=memory", server.address());
    let options = address.parse::<punctual_redis::Options>();
    let engine = RedisEngine::connect(options.expect("an address")).await;
    let job = NewJob::new("orders", "another's");
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
async fn a_job_of_another_client_meanwhile_is_reported_and_left_alone() {
    let server = TestServer::start();
    let address = format!("{}/3?durability=memory", server.address());
    let options = address.parse::<punctual_redis::Options>();
    let engine = RedisEngine::connect(options.expect("an address")).await;
    let engine = engine.expect("a server");
    let running = tokio::task::spawn_blocking(move || {
        let arguments = ["--engine", &*address, "--minutes", "0.1", "--seed", "2"];
        run_with_token(&arguments, TOKEN)
    });
    // Once the run has sent something, it has checked that the engine is empty.
    let namespace = Namespace::default();
    let began = async || {
        let stats = engine.stats(&namespace, StatsRequest::default()).await;
        !stats.expect("stats").queues.is_empty()
    };
    while !began().await {
        pause(millis(20)).await;
    }
    let mut job = NewJob::new("orders", "another's");
    job.headers = vec![("scripted".into(), r#""dies""#.into())];
    let sent = engine.enqueue(&namespace, vec![job]).await;
    let id = sent.expect("it is stored").receipts[0].id;
    let run = running.await.expect("the run ends");
    assert!(!run.is_clean(), "{}", run.said());
    let expected = format!("{id} was never sent by this run, and appeared");
    assert!(run.said().contains(&expected), "{}", run.said());
    let got = engine.get(&namespace, vec![Target::Id(id)], false).await;
    let got = got.expect("it is asked").remove(0);
    assert!(got.is_some_and(|got| got.job().is_some()), "it is kept");
}

/// Its clock reads an hour less, as that of another machine may, and it is not at 127.0.0.1.
#[test]
fn an_engine_elsewhere_with_a_wrong_clock_is_judged_by_that_clock() {
    let control = tempfile::tempdir().expect("a directory");
    let both = ["--save", "", "--bind", "127.0.0.2 127.0.0.1"];
    let server = TestServer::watched(&both, |data| {
        let spy = SyncSpy::new(control.path(), data).expect("a spy");
        spy.shift_clock(-3_600_000_000).expect("a clock");
        let variables = spy.environment().expect("its library is built");
        variables.map(|(name, value)| (name.into(), value)).into()
    });
    let seconds = |text: &str| text.lines().next().and_then(|line| line.parse().ok());
    let theirs: u64 = seconds(&server.cli(&["TIME"])).expect("a time");
    let ours = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    assert!(theirs + 3_000 < ours.cast_unsigned(), "it reads less");
    let place = format!("redis://127.0.0.2:{}", server.port());
    let run = torture_alone(&format!("{place}?durability=memory"));
    is_clean_under(&run, &OF_WORKERS, &NOT_OF_WORKERS);
    is_judged(&run);
    let starts = run.rounds()[0]["findings"]["lateness"].clone();
    assert_eq!(
        starts,
        serde_json::json!({}),
        "it is unknown how late it was"
    );
}

async fn gateway(with: impl FnOnce(Gateway) -> Gateway) -> Serving {
    let token = Token::new(TOKEN, Namespace::default(), &Scope::ALL).expect("a token");
    let gateway = Gateway::new(Arc::new(MemoryEngine::new()), Tokens::new(vec![token]));
    let serving = with(gateway)
        .serve(SocketAddr::from(([127, 0, 0, 1], 0)))
        .await;
    serving.expect("the loopback has a port")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_of_another_operator_is_tortured_from_outside() {
    let serving = gateway(|gateway| gateway).await;
    let run = torture(&format!("http://{}", serving.address()));
    is_clean_under(&run, &FROM_OUTSIDE, &TO_SERVERS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_gateway_of_others_is_tortured_by_its_workers() {
    let file = |name: &str| format!("{CERTIFICATES}/{name}");
    let (certificate, key) = (file("server.pem"), file("server.key"));
    let tls = Tls::from_files(certificate.as_ref(), key.as_ref()).expect("certificates");
    let serving = gateway(|gateway| gateway.tls(tls)).await;
    let port = serving.address().port();
    let run = torture(&format!("https://localhost:{port}?ca={}", file("ca.pem")));
    is_clean_under(&run, &OF_WORKERS, &NOT_OF_WORKERS);
    is_judged(&run);
}

/// It gets a gateway of the run, which is killed too.
#[test]
fn a_directory_behind_a_gateway_is_refused_once_it_has_data() {
    let place = tempfile::tempdir().expect("a directory");
    let address = format!("file:{}", place.path().join("data").display());
    let run = torture_alone(&address);
    is_clean_under(&run, &["F06", "F10"], &["F02", "F07", "F09", "F16", "F17"]);
    let again = torture_alone(&address);
    assert!(!again.is_clean(), "{}", again.said());
    assert!(again.said().contains("is not empty"), "{}", again.said());
}

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../punctual-redis/tests/tls");

#[test]
fn an_encrypted_redis_of_others_is_tortured_by_its_workers() {
    let file = |name: &str| format!("{CERTIFICATES}/{name}");
    let (ca, certificate, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
    let server = TestServer::with(&[
        "--save",
        "",
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        "no",
    ]);
    let place = format!("rediss://localhost:{}", server.port());
    let run = torture_alone(&format!("{place}/3?durability=memory&ca={ca}"));
    is_clean_under(&run, &OF_WORKERS, &NOT_OF_WORKERS);
    is_judged(&run);
}

#[test]
fn a_master_that_sentinels_name_is_tortured_by_its_workers() {
    let servers = TestSentinels::start();
    let run = torture_alone(&format!("{}?durability=replica(2)", servers.address()));
    is_clean_under(&run, &OF_WORKERS, &NOT_OF_WORKERS);
    is_judged(&run);
}

#[test]
fn a_cluster_of_others_is_tortured_by_its_workers() {
    let cluster = TestCluster::start();
    let run = torture_alone(&format!("{}?durability=memory", cluster.address()));
    is_clean_under(&run, &OF_WORKERS, &NOT_OF_WORKERS);
    is_judged(&run);
}
