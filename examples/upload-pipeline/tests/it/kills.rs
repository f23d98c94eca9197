//! Processes that are killed by -9, or stopped, at work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use punctual::time::{millis, pause};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::lives::assert_rows;
use crate::support::*;

#[tokio::test]
async fn a_file_is_processed_although_the_process_dies_right_after_the_answer() {
    let data = tempfile::tempdir().expect("a directory");
    for n in 0..3 {
        let all = Process::start(data.path(), &[]).await;
        let id = upload(&all.address, "some.csv", &csv(&format!("round {n}"), 1_000))
            .await
            .expect("an id");
        all.kill().await;
        let all = Process::start(data.path(), &[]).await;
        assert_eq!(
            until_state(&all.address, &id, "processed").await["rows"],
            1_000
        );
        assert_rows(data.path(), &id, 1_000).await;
    }
}

#[tokio::test]
async fn a_second_worker_goes_on_where_a_killed_one_came_to() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--role", "web"]).await;
    let slow = ["--role", "worker", "--pace", "100ms"];
    let first = Process::start(data.path(), &slow).await;
    let at = web.address.clone();
    let id = upload(&at, "long.csv", &csv("ann", 10_000))
        .await
        .expect("an id");
    let following = tokio::spawn({
        let (at, id) = (at.clone(), id.clone());
        async move { follow(&at, &id).await.expect("views") }
    });
    until(|| count(data.path(), "SELECT max(row_total) FROM files") >= 2_000).await;
    first.kill().await;
    let before = count(data.path(), "SELECT byte_offset FROM files");
    let _second = Process::start(data.path(), &["--role", "worker"]).await;
    let views = following.await.expect("it follows");
    let last = views.last().expect("a view");
    assert_eq!(
        (last["state"].as_str(), last["rows"].as_i64()),
        (Some("processed"), Some(10_000))
    );
    assert!(last["attempt"].as_i64() > Some(1), "{last}");
    assert!(
        views
            .iter()
            .any(|view| view["progress"]["bytes"].as_i64() >= Some(before))
    );
    assert!(views.iter().all(|view| view["state"] != "failed"));
    assert_rows(data.path(), &id, 10_000).await;
}

#[tokio::test]
async fn a_worker_that_wakes_up_late_writes_nothing() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--role", "web"]).await;
    let first = Process::start(data.path(), &["--role", "worker", "--pace", "100ms"]).await;
    let id = upload(&web.address, "long.csv", &csv("ann", 10_000))
        .await
        .expect("an id");
    until(|| count(data.path(), "SELECT max(row_total) FROM files") >= 2_000).await;
    first.signal("-STOP").await;
    let fence = count(data.path(), "SELECT fence FROM files");
    let second = Process::start(data.path(), &["--role", "worker", "--pace", "100ms"]).await;
    until(|| count(data.path(), "SELECT fence FROM files") > fence).await;
    // Both are at work now, and the first has the older fence.
    first.signal("-CONT").await;
    assert_eq!(
        until_state(&web.address, &id, "processed").await["rows"],
        10_000
    );
    assert_rows(data.path(), &id, 10_000).await;
    drop((first, second));
}

#[tokio::test]
async fn an_upload_whose_process_died_is_cleaned_up() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--abandon-after", "3s"]).await;
    let mut tcp = TcpStream::connect(&web.address)
        .await
        .expect("a connection");
    let head = format!(
        "POST /upload HTTP/1.1\r\nhost: {}\r\ncontent-length: 100000000\r\n\
         content-type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n",
        web.address
    );
    tcp.write_all(head.as_bytes()).await.expect("it sends");
    let file = part(
        "name=\"file\"; filename=\"a.csv\"",
        None,
        &csv("ann", 100_000),
    );
    tcp.write_all(&file).await.expect("it sends");
    until(|| objects(data.path()).len() == 1).await;
    web.kill().await;
    let _web = Process::start(data.path(), &[]).await;
    until(|| objects(data.path()).is_empty()).await;
    until(|| count(data.path(), "SELECT count(*) FROM uploads") == 0).await;
}

#[tokio::test]
async fn an_upload_that_goes_on_is_not_cleaned_up() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--abandon-after", "3s"]).await;
    let whole = csv("ann", 40);
    let form = form(&[part("name=\"file\"; filename=\"a.csv\"", None, &whole)]);
    let mut tcp = TcpStream::connect(&web.address)
        .await
        .expect("a connection");
    let head = format!(
        "POST /upload HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\nconnection: close\r\n\
         content-type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n",
        web.address,
        form.len()
    );
    tcp.write_all(head.as_bytes()).await.expect("it sends");
    // Some seconds, in pieces that are closer than the clean-up is.
    for piece in form.chunks(form.len() / 36 + 1) {
        tcp.write_all(piece).await.expect("it sends");
        pause(millis(150)).await;
    }
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
}

/// Clients that send files.
const CLIENTS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eighty_uploads_survive_kills_of_web_and_workers() {
    uploads_survive_kills(80).await;
}

/// As many as the page says; the deep tier has this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_uploads_survive_kills_of_web_and_workers() {
    uploads_survive_kills(200).await;
}

async fn uploads_survive_kills(files: usize) {
    let data = Arc::new(tempfile::tempdir().expect("a directory"));
    let address = Arc::new(Mutex::new(String::new()));
    let (is_over, kills) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let killing = tokio::spawn(kill_in_turn(
        data.clone(),
        address.clone(),
        is_over.clone(),
        kills.clone(),
    ));
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (address, next) = (address.clone(), next.clone());
        clients.spawn(async move {
            let mut notified = 0;
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= files {
                    return notified;
                }
                let id = sent(&address, n).await;
                notified += noticed(&address, &id).await;
            }
        });
    }
    let mut notified = 0;
    while let Some(of_one) = clients.join_next().await {
        notified += of_one.expect("a client");
    }
    is_over.store(true, Ordering::Relaxed);
    let processes = killing.await.expect("the kills");
    let data = data.path();
    assert_eq!(count(data, "SELECT count(*) FROM files"), files as i64);
    assert_eq!(
        count(data, "SELECT count(*) FROM files WHERE state = 'processed'"),
        files as i64
    );
    assert_eq!(notified, files);
    let wrong = "SELECT count(*) FROM files WHERE (SELECT count(*) FROM file_rows WHERE file = id AND n > 0) <> 1200";
    assert_eq!(count(data, wrong), 0);
    // What killed uploads left goes with its delayed job.
    until(|| objects(data).len() == files).await;
    until(|| count(data, "SELECT count(*) FROM uploads WHERE state <> 'stored'") == 0).await;
    until(|| count(data, "SELECT count(*) FROM punctual_outbox") == 0).await;
    println!(
        "uploads {files}: processed {files}, notified {notified}, orphans 0, kills {}",
        kills.load(Ordering::Relaxed)
    );
    drop(processes);
}

/// A web process and two workers, one of which is killed every now and then and started again.
async fn kill_in_turn(
    data: Arc<tempfile::TempDir>,
    address: Arc<Mutex<String>>,
    is_over: Arc<AtomicBool>,
    kills: Arc<AtomicUsize>,
) -> Vec<Process> {
    let web = ["--role", "web", "--abandon-after", "20s"];
    let worker = ["--role", "worker", "--pace", "20ms"];
    let args: [&[&str]; 3] = [&web, &worker, &worker];
    let mut processes = Vec::new();
    for args in args {
        processes.push(Process::start(data.path(), args).await);
    }
    address
        .lock()
        .expect("an address")
        .clone_from(&processes[0].address);
    let mut turn = 0;
    while !is_over.load(Ordering::Relaxed) {
        pause(millis(700)).await;
        let process = processes.remove(0);
        process.kill().await;
        kills.fetch_add(1, Ordering::Relaxed);
        let process = Process::start(data.path(), args[turn % 3]).await;
        if turn % 3 == 0 {
            address
                .lock()
                .expect("an address")
                .clone_from(&process.address);
        }
        processes.push(process);
        turn += 1;
    }
    processes
}

fn now_at(address: &Mutex<String>) -> String {
    address.lock().expect("an address").clone()
}

/// Sends a file until there is an answer.
async fn sent(address: &Mutex<String>, n: usize) -> String {
    let bytes = csv(&format!("file {n}"), 1_200);
    loop {
        match upload(&now_at(address), "some.csv", &bytes).await {
            Ok(id) => return id,
            Err(_) => pause(millis(100)).await,
        }
    }
}

/// Follows a file, on a new connection after each kill, until a notice says that it is processed.
async fn noticed(address: &Mutex<String>, id: &str) -> usize {
    loop {
        let views = follow(&now_at(address), id).await.unwrap_or_default();
        match views.last() {
            Some(view) if view["state"] == "processed" => {
                assert_eq!(view["rows"], 1_200);
                return 1;
            }
            Some(view) if view["state"] == "failed" || view["state"] == "refused" => {
                panic!("{view}")
            }
            _ => pause(millis(100)).await,
        }
    }
}
