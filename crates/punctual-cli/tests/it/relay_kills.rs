//! A list, a relay, a server and its jobs, with each of the three killed at random: what was pushed
//! is done once.

use std::process::Stdio;

use punctual::time::{Stopwatch, millis, pause, seconds, within};
use punctual_redis::testing::TestServer;

use crate::relay::{client, start};
use crate::serve::Server;
use crate::support::{Draw, Punctual};

const ITEMS: u64 = 600;
/// Items pushed between two kills.
const BETWEEN: u64 = 40;

/// A server on the port that the first one had.
fn server(punctual: &Punctual, port: u16) -> Server {
    let listen = format!("127.0.0.1:{port}");
    let args = ["serve", "--listen", &listen, "--no-auth", "-o", "json"];
    let mut command = punctual.command(&args);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
    Server::of(command.spawn().expect("it starts"))
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

async fn number(redis: &TestServer, words: &[&str]) -> u64 {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let mut client = client(redis).await;
    command.query_async(&mut client).await.expect("it answers")
}

async fn push(redis: &TestServer, items: std::ops::Range<u64>) -> u64 {
    let items: Vec<String> = items.map(|n| n.to_string()).collect();
    let mut words = vec!["LPUSH", "mail"];
    words.extend(items.iter().map(String::as_str));
    number(redis, &words).await
}

/// Waits until no more than so many items are in the list.
async fn taken(redis: &TestServer, left: u64) {
    while number(redis, &["LLEN", "mail"]).await > left {
        pause(millis(1)).await;
    }
}

/// Waits until the relay has a batch that it cannot store: it has parked one, or has taken one
/// from the list.
async fn holds(redis: &TestServer, length: u64) {
    let parked = ["HLEN", "{mail}:punctual:bodies"];
    while number(redis, &parked).await == 0 && number(redis, &["LLEN", "mail"]).await >= length {
        pause(millis(1)).await;
    }
}

#[tokio::test]
async fn kills_of_relay_server_and_redis_lose_and_double_nothing() {
    let mut draw = Draw(21);
    let mut redis = TestServer::with(&TestServer::KEEPS_ALL);
    let punctual = Punctual::with_data();
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let address = redis.address();
    let list = [
        "relay",
        "redis-list",
        "--engine",
        &url,
        "--redis",
        &address,
        "--key",
        "mail",
        "--into",
        "mail",
        "--batch",
        "20",
    ];
    let mut serving = server(&punctual, port);
    let mut relaying = start(&punctual, &list);
    let mut kills = [0; 4];
    for from in (0..ITEMS).step_by(BETWEEN as usize) {
        let which = draw.below(4) as usize;
        kills[which] += 1;
        if which == 3 {
            // The relay dies with a batch that no server has taken.
            serving.kill();
            let length = push(&redis, from..from + BETWEEN).await;
            let _ = within(seconds(1), holds(&redis, length)).await;
            drop(relaying);
            serving = server(&punctual, port);
            relaying = start(&punctual, &list);
            continue;
        }
        // The kill comes somewhere in the batches of these.
        push(&redis, from..from + BETWEEN).await;
        taken(&redis, draw.below(BETWEEN)).await;
        match which {
            0 => {
                drop(relaying);
                relaying = start(&punctual, &list);
            }
            1 => {
                serving.kill();
                serving = server(&punctual, port);
            }
            _ => {
                redis.kill();
                redis.restart();
            }
        }
    }
    assert!(kills.iter().all(|times| *times > 0), "{kills:?}");
    drop(relaying);
    let watch = Stopwatch::start();
    punctual
        .run(&[&list[..], &["--until-idle"]].concat())
        .exits(0);
    assert!(watch.elapsed() < seconds(20), "{:?}", watch.elapsed());
    serving.kill();
    let exported = punctual.run(&["export"]).exits(0).documents();
    let number = |job: &serde_json::Value| job["payload"].as_u64();
    let mut seen: Vec<u64> = exported.iter().filter_map(number).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..ITEMS).collect::<Vec<u64>>(), "{kills:?}");
}
