//! Encrypted connections.

use punctual::time::{minutes, seconds, within};
use punctual::{Error, ErrorKind, JobState};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestCluster, TestSentinels, TestServer};

use crate::client::{connect, drain, enqueue, options, state};

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");

pub(crate) fn path(name: &str) -> String {
    format!("{CERTIFICATES}/{name}")
}

/// The settings of servers that take encrypted connections only and show that certificate;
/// `clients` says whether they want one of who comes.
pub(crate) fn settings(certificate: &str, clients: &str) -> Vec<String> {
    let files = [
        ("cert", certificate),
        ("key", "server.key"),
        ("ca-cert", "ca.pem"),
    ];
    let files = files.map(|(what, name)| [format!("--tls-{what}-file"), path(name)]);
    let clients = ["--tls-auth-clients".into(), clients.into()];
    files.into_iter().flatten().chain(clients).collect()
}

pub(crate) fn that_shows(certificate: &str, clients: &str) -> TestServer {
    let settings = settings(certificate, clients);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    TestServer::with(&settings)
}

/// A job goes in and is done.
async fn is_of_use(address: &str) {
    let engine = connect(address).await;
    let id = enqueue(&engine).await.expect("enqueue");
    assert_eq!(drain(&engine).await, [id]);
}

#[tokio::test]
async fn an_encrypted_server_is_used_under_its_authority() {
    let server = that_shows("server.pem", "no");
    let address = format!("rediss://localhost:{}?ca={}", server.port(), path("ca.pem"));
    is_of_use(&address).await;
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_is_shown_the_one_of_the_address() {
    let server = that_shows("server.pem", "yes");
    let address = format!("rediss://localhost:{}?ca={}", server.port(), path("ca.pem"));
    let nameless = RedisEngine::connect(options(&address).deadline(HOUR));
    let words = ["wants a certificate", "?cert=FILE&key=FILE"];
    refused(async { nameless.await.map(drop) }, &words).await;
    let (mine, key) = (path("client.pem"), path("client.key"));
    is_of_use(&format!("{address}&cert={mine}&key={key}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted_clusters_and_sentinels_are_used_all_the_way() {
    let settings = settings("server.pem", "no");
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let cluster = tokio::task::block_in_place(|| TestCluster::with(&settings));
    let sentinels = tokio::task::block_in_place(|| TestSentinels::encrypted(&settings));
    for address in [cluster.address(), sentinels.address()] {
        let address = address.replacen("redis", "rediss", 1);
        is_of_use(&format!("{address}?ca={}", path("ca.pem"))).await;
    }
}

/// A caller that tries again would do so for as long as this; a test that waits for it fails.
const HOUR: std::time::Duration = minutes(60);

async fn refused(call: impl Future<Output = Result<(), Error>>, words: &[&str]) {
    is_reported(call, ErrorKind::InvalidInput, words).await;
}

async fn is_reported(
    call: impl Future<Output = Result<(), Error>>,
    kind: ErrorKind,
    words: &[&str],
) {
    let answered = within(seconds(60), call)
        .await
        .expect("at once, not at the deadline");
    let error = answered.expect_err("the certificate is not good");
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.message().contains(word), "no {word:?} in: {error}");
    }
}

/// No second try mends them, so there is none.
#[tokio::test]
async fn a_certificate_that_is_not_good_is_named_at_once_with_the_remedy() {
    let cases: [(&str, &str, &[&str]); 3] = [
        (
            "expired.pem",
            "?ca=expired.pem",
            &["has expired", "give the server a new one"],
        ),
        (
            "of_another_host.pem",
            "?ca=of_another_host.pem",
            &["of another host", "redis.example", "subjectAltName"],
        ),
        (
            "server.pem",
            "",
            &["an authority that is not known", "?ca=FILE"],
        ),
    ];
    for (shown, known, words) in cases {
        let server = that_shows(shown, "no");
        let known = known.replace("ca=", &format!("ca={CERTIFICATES}/"));
        let address = format!("rediss://localhost:{}{known}", server.port());
        let connected = RedisEngine::connect(options(&address).deadline(HOUR));
        let words = [words, &["redis at localhost:"]].concat();
        refused(async { connected.await.map(drop) }, &words).await;
    }
}

/// A running client gets the same error, and goes on by itself once there is a good one.
#[tokio::test]
async fn an_engine_goes_on_with_a_new_certificate_after_the_old_expired() {
    let with = |certificate: &str| {
        let keeps = TestServer::KEEPS_ALL.map(String::from);
        let all: Vec<String> = keeps
            .into_iter()
            .chain(settings(certificate, "no"))
            .collect();
        all
    };
    let good = with("server.pem");
    let mut server = TestServer::with(&good.iter().map(String::as_str).collect::<Vec<_>>());
    let read = |name| std::fs::read_to_string(path(name)).expect("it is kept here");
    let known = server.directory().join("known.pem");
    std::fs::write(&known, read("ca.pem") + &read("expired.pem")).expect("a file");
    let address = format!(
        "rediss://localhost:{}?ca={}",
        server.port(),
        known.display()
    );
    let engine = RedisEngine::connect(options(&address).deadline(HOUR)).await;
    let engine = engine.expect("it is good");
    let id = enqueue(&engine).await.expect("enqueue");
    let again = |server: &mut TestServer, settings: &[String]| {
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        server.restart_with(&settings);
    };
    server.kill();
    again(&mut server, &with("expired.pem"));
    // What was sent is not refused: a worker keeps what its jobs came to.
    let call = async { enqueue(&engine).await.map(drop) };
    is_reported(call, ErrorKind::EngineUnavailable, &["has expired"]).await;
    server.kill();
    again(&mut server, &good);
    assert_eq!(state(&engine, id).await, Some(JobState::Ready));
    assert_eq!(drain(&engine).await, [id]);
}
