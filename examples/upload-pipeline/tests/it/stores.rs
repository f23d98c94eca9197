//! Other stores, databases and engines, by their addresses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use punctual_redis::testing::TestServer;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::support::*;

/// What a bucket has, and the uploads that are open, with their parts.
#[derive(Default)]
struct Bucket {
    objects: BTreeMap<String, Bytes>,
    uploads: BTreeMap<String, (String, BTreeMap<usize, Bytes>)>,
    parts: usize,
    /// It fails every call.
    is_down: bool,
}

type Shared = Arc<Mutex<Bucket>>;

/// A store with the few calls of S3 that the pipeline makes; answers its address.
async fn store() -> (String, Shared) {
    let bucket = Shared::default();
    let router = Router::new()
        .route("/files", any(of_bucket))
        .route("/files/{key}", any(of_object))
        .layer(axum::extract::DefaultBodyLimit::disable())
        .with_state(bucket.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    (format!("http://{address}"), bucket)
}

/// The signature is checked by unit tests; here, that there is one, over these bytes.
fn is_signed(headers: &HeaderMap, body: &Bytes) -> bool {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, body);
    let hex: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    text("authorization").starts_with("AWS4-HMAC-SHA256 Credential=test/")
        && text("x-amz-content-sha256") == hex
}

type Words = Query<BTreeMap<String, String>>;

async fn of_bucket(
    State(bucket): State<Shared>,
    Query(query): Words,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    assert!(is_signed(&headers, &body));
    if bucket.lock().expect("a bucket").is_down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let bucket = bucket.lock().expect("a bucket");
    let prefix = query.get("prefix").cloned().unwrap_or_default();
    let open = bucket
        .uploads
        .iter()
        .filter(|(_, (key, _))| key.starts_with(&prefix));
    let open: String = open
        .map(|(id, _)| format!("<Upload><UploadId>{id}</UploadId></Upload>"))
        .collect();
    format!("<ListMultipartUploadsResult>{open}</ListMultipartUploadsResult>").into_response()
}

async fn of_object(
    State(bucket): State<Shared>,
    Path(key): Path<String>,
    method: Method,
    Query(query): Words,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    assert!(is_signed(&headers, &body));
    let mut bucket = bucket.lock().expect("a bucket");
    if bucket.is_down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let upload = query.get("uploadId").cloned().unwrap_or_default();
    match (method.as_str(), query.contains_key("uploadId")) {
        ("POST", false) => {
            let id = format!("upload+of/{key}");
            bucket.uploads.insert(id.clone(), (key, BTreeMap::new()));
            format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>").into_response()
        }
        ("PUT", true) => {
            let n: usize = query["partNumber"].parse().expect("a number");
            let Some((_, parts)) = bucket.uploads.get_mut(&upload) else {
                return StatusCode::NOT_FOUND.into_response();
            };
            parts.insert(n, body);
            bucket.parts += 1;
            ([("etag", format!("\"{n}\""))]).into_response()
        }
        ("POST", true) => {
            let (key, parts) = bucket.uploads.remove(&upload).expect("an upload");
            let text = String::from_utf8_lossy(&body).into_owned();
            assert_eq!(text.matches("<Part>").count(), parts.len());
            let whole: Vec<u8> = parts.into_values().flatten().collect();
            bucket.objects.insert(key, whole.into());
            "<CompleteMultipartUploadResult/>".into_response()
        }
        ("DELETE", true) => {
            bucket.uploads.remove(&upload);
            StatusCode::NO_CONTENT.into_response()
        }
        ("PUT", false) => {
            bucket.objects.insert(key, body);
            StatusCode::OK.into_response()
        }
        ("DELETE", false) => {
            bucket.objects.remove(&key);
            StatusCode::NO_CONTENT.into_response()
        }
        _ => range(&headers, bucket.objects.get(&key)),
    }
}

fn range(headers: &HeaderMap, object: Option<&Bytes>) -> Response {
    let Some(object) = object else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let range = headers["range"]
        .to_str()
        .expect("text")
        .trim_start_matches("bytes=");
    let (from, to) = range.split_once('-').expect("a range");
    let (from, to): (usize, usize) = (
        from.parse().expect("a number"),
        to.parse().expect("a number"),
    );
    match from < object.len() {
        true => (
            StatusCode::PARTIAL_CONTENT,
            object.slice(from..object.len().min(to + 1)),
        )
            .into_response(),
        false => StatusCode::RANGE_NOT_SATISFIABLE.into_response(),
    }
}

const KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "secret"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_in_a_bucket_are_stored_in_parts_read_by_range_and_cleaned_up() {
    let (endpoint, bucket) = store().await;
    let data = tempfile::tempdir().expect("a directory");
    let args = ["--store", "s3://files", "--s3-endpoint", &endpoint];
    let all = Process::start_with(data.path(), &args, &KEYS).await;
    let small = upload(&all.address, "small.csv", &csv("ann", 100))
        .await
        .expect("an id");
    assert_eq!(
        until_state(&all.address, &small, "processed").await["rows"],
        100
    );
    assert_eq!(bucket.lock().expect("a bucket").parts, 0);
    // 60 bytes a row: two whole parts, and a rest.
    let name = "a row that is long enough to fill more than two parts";
    let large = upload(&all.address, "large.csv", &csv(name, 200_000))
        .await
        .expect("an id");
    assert_eq!(bucket.lock().expect("a bucket").parts, 3);
    assert_eq!(
        until_state(&all.address, &large, "processed").await["rows"],
        200_000
    );
    // The same again: its parts are removed.
    assert_eq!(
        upload(&all.address, "large.csv", &csv(name, 200_000))
            .await
            .expect("an id"),
        large
    );
    until(|| bucket.lock().expect("a bucket").objects.len() == 2).await;

    // A process that dies in the middle leaves an open upload.
    all.kill().await;
    let hasty = [&args[..], &["--abandon-after", "3s"]].concat();
    let all = Process::start_with(data.path(), &hasty, &KEYS).await;
    let mut tcp = TcpStream::connect(&all.address)
        .await
        .expect("a connection");
    let head = format!(
        "POST /upload HTTP/1.1\r\nhost: {}\r\ncontent-length: 100000000\r\n\
         content-type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n",
        all.address
    );
    tcp.write_all(head.as_bytes()).await.expect("it sends");
    tcp.write_all(&part(
        "name=\"file\"; filename=\"a.csv\"",
        None,
        &csv(name, 150_000),
    ))
    .await
    .expect("it sends");
    until(|| !bucket.lock().expect("a bucket").uploads.is_empty()).await;
    all.kill().await;
    let all = Process::start_with(data.path(), &args, &KEYS).await;
    until(|| bucket.lock().expect("a bucket").uploads.is_empty()).await;
    // A file that is deleted takes its object with it.
    ask(&all.address, "DELETE", &format!("/files/{large}"), &[], "")
        .await
        .expect("an answer");
    until(|| bucket.lock().expect("a bucket").objects.len() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_delays_files_and_refuses_uploads() {
    let (endpoint, bucket) = store().await;
    let data = tempfile::tempdir().expect("a directory");
    let shared = ["--store", "s3://files", "--s3-endpoint", &endpoint];
    let role = |role: &'static str| [&shared[..], &["--role", role]].concat();
    let web = Process::start_with(data.path(), &role("web"), &KEYS).await;
    let worker = [&role("worker")[..], &["--pace", "200ms"]].concat();
    let worker = Process::start_with(data.path(), &worker, &KEYS).await;
    let name = "a row that is long enough to fill more than one range";
    let id = upload(&web.address, "some.csv", &csv(name, 40_000))
        .await
        .expect("an id");
    until(|| count(data.path(), "SELECT max(row_total) FROM files") > 0).await;
    bucket.lock().expect("a bucket").is_down = true;
    let file = part(
        "name=\"file\"; filename=\"other.csv\"",
        None,
        &csv("bob", 10),
    );
    let (status, answer) = post(&web.address, &[], form(&[file]))
        .await
        .expect("an answer");
    assert_eq!(
        (status, answer["error"]["code"].as_str()),
        (503, Some("unavailable"))
    );
    until(|| count(data.path(), "SELECT max(attempt) FROM files") > 1).await;
    bucket.lock().expect("a bucket").is_down = false;
    assert_eq!(
        until_state(&web.address, &id, "processed").await["rows"],
        40_000
    );
    crate::lives::assert_rows(data.path(), &id, 40_000).await;
    assert_eq!(bucket.lock().expect("a bucket").objects.len(), 1);
    drop(worker);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_on_redis_survive_kills_and_share_the_cache() {
    let server = TestServer::start();
    let data = tempfile::tempdir().expect("a directory");
    let address = format!("redis://127.0.0.1:{}", server.port());
    let shared = ["--engine", &address, "--cache", &address];
    let role = |role: &'static str| [&shared[..], &["--role", role]].concat();
    let web = Process::start(data.path(), &role("web")).await;
    let id = upload(&web.address, "some.csv", &csv("ann", 1_000))
        .await
        .expect("an id");
    web.kill().await;
    // The worker hands over what the web process had committed.
    let worker = Process::start(data.path(), &role("worker")).await;
    let web = Process::start(data.path(), &role("web")).await;
    assert_eq!(
        until_state(&web.address, &id, "processed").await["rows"],
        1_000
    );
    // Both see the entry, and it has a time to live.
    let key = format!("upload-pipeline:{{{id}}}:result");
    assert!(server.cli(&["GET", &key]).contains("processed"));
    assert!(
        server
            .cli(&["PTTL", &key])
            .trim()
            .parse::<i64>()
            .is_ok_and(|ms| ms > 0)
    );
    drop(worker);
}
