//! Unit tests of `events`.

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use punctual::time::{millis, seconds};
use punctual::{MemoryEngine, Namespace, NewJob};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio_tungstenite::tungstenite::{Error, Message as Received};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::*;
use crate::listener::test_transport::TestTransport;
use crate::log::Log;
use crate::{Gateway, GatewayLimits, Tokens};

fn shared(limits: GatewayLimits) -> Shared {
    let gateway = Gateway::new(Arc::new(MemoryEngine::new()), Tokens::open());
    gateway.limits(limits).shared()
}

fn transport(limits: GatewayLimits) -> TestTransport {
    TestTransport::to(shared(limits))
}

/// A socket that was welcomed, or the status of its refusal.
async fn socket(
    transport: &TestTransport,
) -> std::result::Result<WebSocketStream<DuplexStream>, u16> {
    let stream = transport.connect_with(1 << 16, Peer::Network([203, 0, 113, 7].into()));
    let asked = within(
        seconds(20),
        client_async("ws://localhost/v1/events", stream),
    )
    .await;
    let (mut socket, _) = match asked.expect("an answer in time") {
        Ok(opened) => opened,
        Err(Error::Http(refused)) => return Err(refused.status().as_u16()),
        Err(error) => panic!("no socket, and no answer: {error}"),
    };
    let hello = r#"{"type":"hello"}"#;
    socket.send(Received::text(hello)).await.expect("sent");
    let welcome = within(seconds(20), socket.next()).await.expect("in time");
    let welcome = welcome.expect("a frame").expect("a sound one");
    assert!(welcome.to_text().expect("text").contains("welcome"));
    Ok(socket)
}

#[tokio::test]
async fn a_socket_has_the_places_of_its_connection_until_it_ends() {
    let transport = transport(GatewayLimits {
        connections_per_address: Some(2),
        ..GatewayLimits::default()
    });
    let open = [socket(&transport).await, socket(&transport).await];
    let [first, second] = open.map(|one| one.expect("a place of its own"));
    for _ in 0..3 {
        assert_eq!(socket(&transport).await.expect_err("one too many"), 429);
    }
    drop(first);
    let again = async {
        loop {
            match socket(&transport).await {
                Ok(socket) => return socket,
                Err(status) => assert_eq!(status, 429),
            }
        }
    };
    let _third = within(seconds(20), again).await.expect("a place again");
    assert_eq!(socket(&transport).await.expect_err("one too many"), 429);
    drop(second);
}

#[tokio::test]
async fn a_client_that_answers_no_pings_is_dropped() {
    let transport = transport(GatewayLimits {
        ping: millis(200),
        ..GatewayLimits::default()
    });
    let mut there = socket(&transport).await.expect("a socket");
    let gone = socket(&transport).await.expect("a socket");
    let answering = async {
        for _ in 0..4 {
            let received = there.next().await.expect("a frame").expect("a sound one");
            assert!(matches!(received, Received::Ping(_)), "{received:?}");
        }
    };
    let vanishing = async {
        // No client answers for it: the frames are read as bytes.
        let mut reported = Vec::new();
        let mut stream = gone.into_inner();
        stream
            .read_to_end(&mut reported)
            .await
            .expect("it is closed");
    };
    let both = async { tokio::join!(answering, vanishing) };
    within(seconds(20), both).await.expect("in time");
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_closed_with_try_again_later() {
    let log = Log::default();
    let _keeps = log.keep();
    let shared = shared(GatewayLimits {
        reader: millis(20),
        ..GatewayLimits::default()
    });
    let transport = TestTransport::to(shared.clone());
    let mut socket = socket(&transport).await.expect("a socket");
    socket
        .send(Received::text(r#"{"type":"watch"}"#))
        .await
        .expect("sent");
    let watching = within(seconds(20), socket.next()).await.expect("in time");
    assert!(watching.expect("a frame").is_ok());
    // A frame of so many changes does not fit into the stream, and no client reads it.
    let jobs = (0..1_000).map(|_| NewJob::new("mail", "1")).collect();
    let put = shared.engine.enqueue(&Namespace::default(), jobs).await;
    put.expect("a receipt");
    let closing = async {
        while !log
            .lines()
            .iter()
            .any(|line| line.contains("reads nothing"))
        {
            tokio::task::yield_now().await;
        }
    };
    within(seconds(20), closing).await.expect("it is given up");
    let closing = async {
        loop {
            match socket.next().await.expect("a frame").expect("a sound one") {
                Received::Close(Some(close)) => return u16::from(close.code),
                Received::Close(None) => panic!("closed without a code"),
                _ => {}
            }
        }
    };
    assert_eq!(within(seconds(20), closing).await, Some(1013));
}
