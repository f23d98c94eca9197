//! What is away, what is full, and what another process changed.

use std::process::Stdio;

use punctual::time::{Stopwatch, millis, pause, seconds, within};
use punctual_redis::testing::TestServer;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::*;

fn file(bytes: &[u8]) -> Vec<u8> {
    form(&[part("name=\"file\"; filename=\"a.csv\"", None, bytes)])
}

#[tokio::test]
async fn the_bytes_of_a_stored_file_are_found_though_the_quota_is_used_up() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--quota", "130000", "--role", "web"]).await;
    let at = &web.address;
    let whole = csv("ann", 10_000);
    let id = upload(at, "a.csv", &whole).await.expect("an id");
    assert!(whole.len() > 130_000 - whole.len(), "{}", whole.len());
    assert_eq!(upload(at, "b.csv", &whole).await.expect("an id"), id);
    // The same without a length in advance.
    let chunked = [("transfer-encoding", "chunked")];
    let (status, answer) = post(at, &chunked, file(&whole)).await.expect("an answer");
    assert_eq!((status, &answer["id"]), (200, &json!(id)), "{answer}");
    // Other bytes of that size are read and refused, and those of any other size at once.
    for (name, rows) in [("bob", 10_000), ("ann", 20_000)] {
        let other = file(&csv(name, rows));
        let (status, answer) = post(at, &[], other).await.expect("an answer");
        let code = answer["error"]["code"].as_str();
        assert_eq!((status, code), (507, Some("quota")), "{answer}");
    }
    until(|| objects(data.path()).len() == 1).await;
    until(|| count(data.path(), "SELECT count(*) FROM uploads") == 1).await;
    assert_eq!(count(data.path(), "SELECT count(*) FROM files"), 1);
}

#[tokio::test]
async fn two_processes_of_one_directory_answer_the_same_state() {
    let data = tempfile::tempdir().expect("a directory");
    let first = Process::start(data.path(), &[]).await;
    let second = Process::start(data.path(), &[]).await;
    let id = upload(&first.address, "a.csv", &csv("ann", 100)).await;
    let id = id.expect("an id");
    // Both have the result in memory now.
    for process in [&first, &second] {
        until_state(&process.address, &id, "processed").await;
        until_state(&process.address, &id, "processed").await;
    }
    let path = format!("/files/{id}");
    let (status, _) = ask(&second.address, "DELETE", &path, &[], "")
        .await
        .expect("an answer");
    assert_eq!(status, 204);
    for process in [&first, &second] {
        let (_, view) = get(&process.address, &path).await.expect("an answer");
        assert_eq!(view["state"], "expired", "{view}");
    }
}

#[tokio::test]
async fn a_queue_that_is_away_is_named_soon_and_loses_nothing() {
    let mut server = TestServer::with(&TestServer::KEEPS_ALL);
    let data = tempfile::tempdir().expect("a directory");
    let address = server.address();
    let web = Process::start(data.path(), &["--engine", &address, "--role", "web"]).await;
    let at = &web.address;
    let before = upload(at, "a.csv", &csv("ann", 100)).await.expect("an id");
    server.kill();
    let watch = Stopwatch::start();
    let (status, answer) = post(at, &[], file(&csv("bob", 100)))
        .await
        .expect("an answer");
    let code = answer["error"]["code"].as_str();
    assert_eq!((status, code), (503, Some("queue_is_away")), "{answer}");
    let (status, view) = get(at, &format!("/files/{before}")).await.expect("a view");
    assert_eq!((status, &view["state"]), (200, &json!("queued")), "{view}");
    let (status, _) = get(at, "/healthz").await.expect("an answer");
    assert_eq!(status, 503);
    let all = watch.elapsed();
    assert!(all < seconds(20), "the three answers took {all:?}");
    assert_eq!(objects(data.path()).len(), 1);
    assert_eq!(count(data.path(), "SELECT count(*) FROM uploads"), 1);

    server.restart();
    let _worker = Process::start(data.path(), &["--engine", &address, "--role", "worker"]).await;
    let bytes = csv("bob", 100);
    let after = loop {
        match upload(at, "b.csv", &bytes).await {
            Ok(id) => break id,
            Err(_) => pause(millis(100)).await,
        }
    };
    for id in [before, after] {
        assert_eq!(until_state(at, &id, "processed").await["rows"], 100);
    }
}

#[tokio::test]
async fn a_store_that_is_away_at_the_start_is_named_in_the_error() {
    let data = tempfile::tempdir().expect("a directory");
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let endpoint = format!("http://key:secret@127.0.0.1:{port}");
    let ended = tokio::process::Command::new(env!("CARGO_BIN_EXE_upload-pipeline"))
        .args(["--store", "s3://files", "--s3-endpoint", &endpoint])
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(data.path())
        .envs([("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")])
        .stdin(Stdio::null())
        .output();
    let ended = within(seconds(60), ended).await.expect("it ends");
    let ended = ended.expect("it starts");
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success());
    let place = format!("http://127.0.0.1:{port}/files");
    assert!(
        error.contains(&place) && !error.contains("secret"),
        "{error}"
    );
}

#[tokio::test]
async fn slow_clients_give_their_slots_to_others() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &[]).await;
    let head = format!(
        "POST /upload HTTP/1.1\r\nhost: {}\r\ncontent-length: 100000\r\n\
         content-type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n",
        web.address
    );
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut tcp = TcpStream::connect(&web.address)
            .await
            .expect("a connection");
        tcp.write_all(head.as_bytes()).await.expect("it sends");
        slow.push(tcp);
    }
    // They say nothing for the 30 s that they may; others are served long before that.
    let watch = Stopwatch::start();
    let bytes = csv("ann", 10);
    let id = loop {
        match upload(&web.address, "a.csv", &bytes).await {
            Ok(id) => break id,
            Err(error) => assert!(error.to_string().contains("busy"), "{error}"),
        }
        pause(millis(100)).await;
    };
    assert!(watch.elapsed() < seconds(25), "{:?}", watch.elapsed());
    until_state(&web.address, &id, "processed").await;
}
