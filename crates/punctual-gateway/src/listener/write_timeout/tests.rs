//! Tests of write timeouts. The clock is tokio's, which stands still and jumps to the next timer
//! when all tasks wait: an awaited event comes after exactly the asserted span.

use axum::http::header;
use hyper::rt::Timer;
use hyper_util::rt::TokioTimer;
use punctual::time::{minutes, within};
use punctual::{Engine, MemoryEngine, Namespace, NewJob};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsConnector;

use std::sync::Arc;

use super::*;
use crate::http::Peer;
use crate::listener::test_transport::TestTransport;
use crate::tls::Tls;
use crate::{Gateway, GatewayLimits, Tokens};

const HOME: Peer = Peer::Network(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
const SCRIPT: &str = "GET /app.js HTTP/1.1\r\nhost: localhost\r\n\r\n";
const SOCKET: &str = "GET /v1/events HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
                      upgrade: websocket\r\nsec-websocket-version: 13\r\n\
                      sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A gateway with that many places, where only who takes nothing is not waited for.
fn gateway(engine: MemoryEngine, connections: usize) -> Gateway {
    Gateway::new(Arc::new(engine), Tokens::open()).limits(GatewayLimits {
        connections,
        head: minutes(60),
        body: minutes(60),
        reader: seconds(10),
        ..GatewayLimits::default()
    })
}

fn transport(connections: usize) -> TestTransport {
    TestTransport::to(gateway(MemoryEngine::new(), connections).shared())
}

/// A connection over which that is sent, of whose answer nothing is read.
async fn stalled(transport: &TestTransport, requests: &[u8]) -> DuplexStream {
    let mut stream = transport.connect(HOME);
    stream.write_all(requests).await.expect("written");
    stream
}

/// After how many seconds of silence another client is served.
async fn seconds_until_a_place_is_free(transport: &TestTransport) -> u64 {
    let begun = TokioTimer::new().now();
    let mut other = transport.connect(HOME);
    let ask = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    other.write_all(ask).await.expect("written");
    let mut reported = String::new();
    let read = within(seconds(60), other.read_to_string(&mut reported)).await;
    read.expect("a place").expect("an answer");
    assert!(reported.starts_with("HTTP/1.1 200"), "{reported}");
    (TokioTimer::new().now() - begun).as_secs()
}

/// What came before the end.
async fn rest(mut stream: DuplexStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let read = within(seconds(60), stream.read_to_end(&mut rest)).await;
    read.expect("an end").expect("what came before it");
    rest
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_no_static_file_gives_its_place_back() {
    let transport = transport(4);
    let mut unread = Vec::new();
    for _ in 0..4 {
        unread.push(stalled(&transport, SCRIPT.repeat(400).as_bytes()).await);
    }
    assert_eq!(seconds_until_a_place_is_free(&transport).await, 10);
    for stream in unread {
        // Not one of them was answered whole.
        assert!(rest(stream).await.len() < 1 << 17);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_whose_answer_is_not_read_releases_its_permit() {
    let transport = transport(1);
    // Less than the head of the answer.
    let mut unread = transport.connect_with(64, HOME);
    unread.write_all(SOCKET.as_bytes()).await.expect("written");
    assert_eq!(seconds_until_a_place_is_free(&transport).await, 15);
    let head = rest(unread).await;
    assert!(head.starts_with(b"HTTP/1.1 101"), "{head:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unread_list_in_gzip_gives_its_place_back() {
    let engine = MemoryEngine::new();
    // What gzip cannot shorten.
    let noise = || {
        (0..16 << 10)
            .map(|_| fastrand::alphanumeric())
            .collect::<String>()
    };
    let jobs = (0..200).map(|_| NewJob::new("mail", format!("\"{}\"", noise())));
    let put = engine.enqueue(&Namespace::default(), jobs.collect()).await;
    put.expect("receipts");
    let transport = TestTransport::to(gateway(engine, 1).shared());
    let list =
        "GET /v1/jobs?limit=200 HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip\r\n\r\n";
    let unread = stalled(&transport, list.as_bytes()).await;
    assert_eq!(seconds_until_a_place_is_free(&transport).await, 10);
    let reported = rest(unread).await;
    let head = String::from_utf8_lossy(&reported[..500]).into_owned();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("content-encoding: gzip"), "{head}");
    assert!(reported.len() < 200 * (8 << 10), "it was cut off");
}

#[tokio::test(start_paused = true)]
async fn unread_verdicts_of_a_stream_of_jobs_give_its_place_back() {
    let transport = transport(1);
    let line = "{\"queue\":\"mail\"}\n";
    let lines = line.repeat(20_000);
    let head = format!(
        "POST /v1/bulk HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n\
         {}: {}\r\n\r\n",
        header::CONTENT_LENGTH,
        lines.len()
    );
    let (unread, mut writer) = tokio::io::split(transport.connect(HOME));
    let writing = async {
        // It is cut off before all of that is sent.
        writer.write_all((head + &lines).as_bytes()).await
    };
    let (written, seconds) = tokio::join!(writing, seconds_until_a_place_is_free(&transport));
    assert!(written.is_err());
    assert_eq!(seconds, 10);
    let reported = rest(unread.unsplit(writer)).await;
    let reported = String::from_utf8_lossy(&reported);
    assert!(reported.contains("\"line\":1,"), "{reported}");
    assert!(!reported.contains("\"done\":true"), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_gets_all() {
    let transport = transport(1);
    let mut slow = transport.connect_with(4 << 10, HOME);
    let requests = SCRIPT.repeat(3).replace("\r\n\r\n", "\r\nx: y\r\n\r\n");
    let last = SCRIPT.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    slow.write_all((requests + &last).as_bytes())
        .await
        .expect("written");
    let mut reported = Vec::new();
    let mut some = [0; 4 << 10];
    loop {
        tokio::time::advance(seconds(9)).await;
        match slow.read(&mut some).await.expect("it is not cut off") {
            0 => break,
            read => reported.extend_from_slice(&some[..read]),
        }
    }
    let whole = include_bytes!("../../../assets/app.js");
    assert!(reported.ends_with(whole), "the last one");
    assert!(reported.len() > 4 * whole.len(), "and those before");
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_a_reader_that_takes_nothing() {
    let transport = transport(4);
    let mut unread = stalled(&transport, SCRIPT.repeat(400).as_bytes()).await;
    unread.read_u8().await.expect("it is being answered");
    assert!(transport.drain(seconds(60)).await);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_by_tls_gives_its_place_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let (chain, private) = (dir.path().join("chain.pem"), dir.path().join("key.pem"));
    let key = KeyPair::generate().expect("a key");
    let own = CertificateParams::new(vec!["localhost".to_owned()]).expect("a host");
    let own = own.self_signed(&key).expect("a certificate").pem();
    std::fs::write(&chain, &own).expect("written");
    std::fs::write(&private, key.serialize_pem()).expect("written");
    let tls = Tls::from_files(&chain, &private).expect("a pair");
    let transport = TestTransport::by(gateway(MemoryEngine::new(), 1).shared(), Some(tls));

    let mut known = RootCertStore::empty();
    let own = CertificateDer::from_pem_slice(own.as_bytes()).expect("PEM");
    known.add(own).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(known)
        .with_no_client_auth();
    let by_tls = async |stream| {
        let host = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(config.clone()))
            .connect(host, stream)
            .await
            .expect("TLS")
    };
    let mut unread = by_tls(transport.connect(HOME)).await;
    unread
        .write_all(SCRIPT.repeat(400).as_bytes())
        .await
        .expect("written");
    let begun = TokioTimer::new().now();
    // Greeted once there is a place.
    let _other = by_tls(transport.connect(HOME)).await;
    assert_eq!((TokioTimer::new().now() - begun).as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn bytes_are_written_before_the_system_reports_the_socket_writable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    // Of a size of its own, whatever the system gives.
    let reader = TcpSocket::new_v4().expect("a socket");
    reader.set_recv_buffer_size(64 << 10).expect("a buffer");
    let mut reader = reader.connect(address).await.expect("a connection");
    let (writer, _) = listener.accept().await.expect("the other end");
    let block = [0; 16 << 10];
    // The system's buffers are full: its word, and that of the runtime.
    while writer.write_now(&block).is_ok() {}
    while writer.try_write(&block).is_ok() {}
    let mut some = [0; 16 << 10];
    let mut read = 0;
    let moved = loop {
        read += reader.read(&mut some).await.expect("what was written");
        if let Ok(moved) = writer.write_now(&block) {
            break moved;
        }
    };
    assert!(moved > 0 && read > 0);
    let called = writer.try_write(&block);
    assert!(called.is_err(), "there is no difference any more");
    // As much again: it is there for who would be given up now.
    for _ in 0..read / some.len() {
        reader
            .read_exact(&mut some)
            .await
            .expect("what was written");
    }
    let mut writer = WriteTimeout::new(writer, seconds(10), Upgrade::default());
    let begun = TokioTimer::new().now();
    let moved = writer.write(&block).await.expect("it is not given up");
    assert!(moved > 0);
    assert_eq!((TokioTimer::new().now() - begun).as_secs(), 10);
}
