//! A list, a relay, a server and its jobs, with each of the three killed at random: what was pushed
//! is done once.

use std::process::{Child, Stdio};

use punctual::time::{Stopwatch, millis, pause, seconds};
use punctual_redis::testing::TestServer;

use crate::serve::Server;
use crate::support::Punctual;

const ITEMS: u64 = 600;
/// Items pushed between two kills.
const BETWEEN: u64 = 40;

/// Numbers from a seed: SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn relay(punctual: &Punctual, list: &[&str]) -> Killed {
    let mut command = punctual.command(list);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Killed(child.expect("it starts"))
}

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

async fn client(redis: &TestServer) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(redis.address()).expect("an address");
    let client = client.get_multiplexed_async_connection().await;
    client.expect("it runs")
}

/// Pushes items, and waits until no more than so many are in the list.
async fn push_and_wait(redis: &TestServer, items: std::ops::Range<u64>, left: u64) {
    let mut client = client(redis).await;
    let items: Vec<String> = items.map(|n| n.to_string()).collect();
    let mut push = redis::cmd("LPUSH");
    push.arg("mail").arg(&items);
    let mut length: u64 = push.query_async(&mut client).await.expect("it answers");
    while length > left {
        pause(millis(1)).await;
        let mut count = redis::cmd("LLEN");
        count.arg("mail");
        length = count.query_async(&mut client).await.expect("it answers");
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
    let mut relaying = relay(&punctual, &list);
    let mut kills = [0; 3];
    for from in (0..ITEMS).step_by(BETWEEN as usize) {
        // The next kill comes somewhere in the batches of these.
        push_and_wait(&redis, from..from + BETWEEN, draw.below(BETWEEN)).await;
        let which = draw.below(3) as usize;
        kills[which] += 1;
        match which {
            0 => {
                drop(relaying);
                relaying = relay(&punctual, &list);
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
    assert!(kills.iter().all(|times| *times > 1), "{kills:?}");
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
