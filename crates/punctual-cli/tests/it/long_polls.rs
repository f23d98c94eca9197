//! Tests of the command: long polls.

use std::net::TcpStream;
use std::time::Duration;

use punctual::time::{Stopwatch, millis, pause, seconds};
use punctual_redis::testing::TestServer;

use crate::serve::Server;
use crate::support::Punctual;

/// Claims that wait at each of two gateways, and say nothing of their worker.
const POLLS: usize = 50;
/// Calls of functions a second that all of them may make together, and claims: those that come at
/// the same time leave together.
const CALLS_MAX: f64 = 50.0;
const SPAN: Duration = seconds(10);
/// The gateways ask how many there are, often while those have only just come: it has to come down
/// soon.
const SPANS_MAX: usize = 6;

#[tokio::test]
async fn a_hundred_claims_that_wait_at_two_gateways_of_one_redis_make_few_calls() {
    let redis = TestServer::start();
    let punctual = Punctual::new();
    let serve = || Server::start(&punctual, &["--engine", &redis.address()]);
    let gateways = [serve(), serve()];
    // They are answered before the last span is over if they wait for less.
    let polls: Vec<TcpStream> = (gateways.iter())
        .flat_map(|gateway| (0..POLLS).map(|_| poll(gateway)))
        .collect();
    for gateway in &gateways {
        while claims(gateway) < POLLS as u64 {
            pause(millis(50)).await;
        }
    }
    let mut rates = Vec::new();
    while rates.len() < SPANS_MAX && rates.last().is_none_or(|rate| *rate >= CALLS_MAX) {
        let all = || [calls(&redis), gateways.iter().map(claims).sum()];
        let (before, watch) = (all(), Stopwatch::start());
        pause(SPAN).await;
        let more = all().into_iter().zip(before).map(|(now, then)| now - then);
        let most = more.max().unwrap_or_default();
        rates.push(most as f64 / watch.elapsed().as_secs_f64());
    }
    println!("{} claims that wait: {rates:.1?} a second", polls.len());
    let bounded = rates.last().is_some_and(|rate| *rate < CALLS_MAX);
    assert!(bounded, "{rates:?} a second");

    // And they are all there still: each is answered a job of its own.
    for _ in &polls {
        let answer = gateways[0].request("POST /v1/jobs", r#"{"queue":"mail"}"#);
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
    for mut poll in polls {
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut poll, &mut answer).expect("an answer");
        assert!(answer.contains(r#""attempt":1"#), "{answer}");
    }
}

/// Dues a tenth of a second apart, all of them after every claim has looked once more.
const DUES: usize = 10;
/// All claims at every due would be a thousand, beside some two hundred of those that look.
const HERD_MAX: u64 = 500;

#[tokio::test]
async fn of_a_hundred_claims_that_wait_for_the_same_due_a_few_wake_up() {
    let redis = TestServer::start();
    let punctual = Punctual::new();
    let serve = || Server::start(&punctual, &["--engine", &redis.address()]);
    let gateways = [serve(), serve()];
    for due in 0..DUES {
        let body = format!(r#"{{"queue":"mail","delay":"{}ms"}}"#, 8_000 + 100 * due);
        let answer = gateways[0].request("POST /v1/jobs", &body);
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
    let polls: Vec<TcpStream> = (gateways.iter())
        .flat_map(|gateway| (0..POLLS).map(|_| poll(gateway)))
        .collect();
    let claimed = || -> usize {
        let stats = gateways[0].request("GET /v1/stats?queue=mail", "");
        let (_, active) = stats.split_once(r#""active":"#).expect("counts");
        let digits = active.split(|c: char| !c.is_ascii_digit()).next();
        digits
            .and_then(|count| count.parse().ok())
            .expect("a count")
    };
    while claimed() < DUES {
        pause(millis(50)).await;
    }
    let claims: u64 = gateways.iter().map(claims).sum();
    println!(
        "{} claims that wait: {claims} made for {DUES} dues",
        polls.len()
    );
    assert!(claims < HERD_MAX, "{claims}");
}

fn poll(gateway: &Server) -> TcpStream {
    gateway.send(
        "POST /v1/claims",
        r#"{"queues":["mail"],"wait":"60s","lease_duration":"1m"}"#,
    )
}

/// Claims that a gateway has made.
fn claims(gateway: &Server) -> u64 {
    const LINE: &str = "punctual_engine_seconds_count{verb=\"claim\"} ";
    let page = gateway.request("GET /metrics", "");
    let count = page.lines().find_map(|line| line.strip_prefix(LINE));
    count.map_or(0, |count| count.parse().expect("a number"))
}

/// Calls of functions, reading and writing ones, since the server began.
fn calls(redis: &TestServer) -> u64 {
    let stats = redis.cli(&["INFO", "commandstats"]);
    let count = |line: &str| {
        let line = line.strip_prefix("cmdstat_fcall")?;
        let (_, calls) = line.split_once(":calls=")?;
        calls.split(',').next()?.parse::<u64>().ok()
    };
    stats.lines().filter_map(count).sum()
}
