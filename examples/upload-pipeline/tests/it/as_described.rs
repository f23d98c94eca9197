//! The design of the article, step by step on a redis-server, and what it loses.

use punctual_redis::testing::TestServer;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, FromRedisValue, cmd};

const STREAM: &str = "uploads";
const GROUP: &str = "workers";

async fn connected(server: &TestServer) -> MultiplexedConnection {
    let address = format!("redis://127.0.0.1:{}", server.port());
    let client = redis::Client::open(address).expect("an address");
    let mut redis = client
        .get_multiplexed_async_connection()
        .await
        .expect("a connection");
    let _: () = ask(&mut redis, "XGROUP CREATE uploads workers 0 MKSTREAM").await;
    redis
}

/// Sends a command whose words have no blanks in them.
async fn ask<T: FromRedisValue>(redis: &mut MultiplexedConnection, words: &str) -> T {
    let mut words = words.split(' ');
    let mut command = cmd(words.next().expect("a command"));
    for word in words {
        command.arg(word);
    }
    command.query_async(redis).await.expect("an answer")
}

/// The upload: a record, its time to live, a message. The file itself is stored nowhere.
async fn upload(redis: &mut MultiplexedConnection, file: &str) {
    let _: i64 = ask(redis, &format!("HSET {file} state uploaded")).await;
    let _: i64 = ask(redis, &format!("EXPIRE {file} 3600")).await;
    let _: String = ask(redis, &format!("XADD {STREAM} * file {file}")).await;
}

/// The worker: skips a file that has a record, processes any other, and acknowledges nothing.
async fn work(redis: &mut MultiplexedConnection, worker: &str) -> Vec<String> {
    type Messages = Vec<(String, Vec<String>)>;
    let read = format!("XREADGROUP GROUP {GROUP} {worker} COUNT 100 STREAMS {STREAM} >");
    let read: Option<Vec<(String, Messages)>> = ask(redis, &read).await;
    let mut processed = Vec::new();
    for (_, fields) in read
        .into_iter()
        .flatten()
        .flat_map(|(_, messages)| messages)
    {
        let file = fields[1].clone();
        if redis.exists(&file).await.expect("an answer") {
            continue;
        }
        processed.push(file);
    }
    processed
}

async fn pending(redis: &mut MultiplexedConnection) -> usize {
    let summary: (usize, redis::Value, redis::Value, redis::Value) =
        ask(redis, &format!("XPENDING {STREAM} {GROUP}")).await;
    summary.0
}

#[tokio::test]
async fn as_described_no_upload_is_processed_and_no_message_acknowledged() {
    let server = TestServer::start();
    let mut redis = connected(&server).await;
    for n in 0..20 {
        upload(&mut redis, &format!("file:{n}")).await;
    }
    // The worker skips what the upload itself has just recorded.
    assert_eq!(work(&mut redis, "first").await, Vec::<String>::new());
    assert_eq!(pending(&mut redis).await, 20);
    // And a second worker is given none of them.
    assert_eq!(work(&mut redis, "second").await, Vec::<String>::new());
    assert_eq!(pending(&mut redis).await, 20);
}

#[tokio::test]
async fn as_described_the_time_to_live_is_an_error_and_the_record_stays() {
    let server = TestServer::start();
    let mut redis = connected(&server).await;
    let _: i64 = ask(&mut redis, "HSET file:1 state uploaded").await;
    let expire: redis::RedisResult<i64> = cmd("EXPIRE")
        .arg("file:1")
        .arg("60*60")
        .query_async(&mut redis)
        .await;
    let error = expire.expect_err("an error").to_string();
    assert!(error.contains("not an integer"), "{error}");
    let left: i64 = redis.ttl("file:1").await.expect("an answer");
    assert_eq!(left, -1, "it never expires");
}

#[tokio::test]
async fn as_described_a_death_after_the_record_leaves_a_file_without_a_message() {
    let server = TestServer::start();
    let mut redis = connected(&server).await;
    // The process dies between its second and its third command.
    let _: i64 = ask(&mut redis, "HSET file:1 state uploaded").await;
    let _: i64 = ask(&mut redis, "EXPIRE file:1 3600").await;
    let messages: usize = ask(&mut redis, "XLEN uploads").await;
    assert_eq!((messages, work(&mut redis, "first").await.len()), (0, 0));
}
