//! Unit tests of `engine`.

use std::io::{Read, Write};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use punctual::JobId;
use punctual::time::{millis, pause};

use super::*;

#[tokio::test]
async fn a_waiter_asks_again_when_its_connection_is_silently_dead() {
    let gateway = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = gateway.local_addr().unwrap().to_string();
    let engine = HttpEngine::connect(&authority, None).unwrap();
    let waiting = tokio::spawn(async move {
        let work = WaitFor::Work(vec!["mail".into()]);
        let namespace = Namespace::default();
        engine.wait(&namespace, work, Timestamp::MAX).await
    });
    let (_silent, _) = gateway.accept().await.unwrap();
    let (mut second, _) = gateway.accept().await.unwrap();
    second.read_u8().await.unwrap();
    let body = wire::encode(&Answer::Wait(Waited::Work)).unwrap();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    second.write_all(head.as_bytes()).await.unwrap();
    second.write_all(&body).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Waited::Work);
}

/// No other task is woken for a call, and a kept connection has none either.
#[tokio::test]
async fn calls_drive_their_connection_which_is_kept() {
    let (engine, gateway) = with_a_silent_gateway(seconds(20)).await;
    let answers = async {
        let (mut asked, _) = gateway.accept().await.unwrap();
        for _ in 0..3 {
            assert!(asked.read(&mut [0; 4 << 10]).await.unwrap() > 0);
            let answer = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n";
            asked.write_all(answer).await.unwrap();
        }
    };
    let calls = async {
        for _ in 0..3 {
            let error = engine.info().await.unwrap_err();
            assert!(error.to_string().contains("is overloaded"), "{error}");
        }
    };
    tokio::join!(answers, calls);
    let runtime = tokio::runtime::Handle::current();
    assert_eq!(runtime.metrics().num_alive_tasks(), 0);
}

/// A worker whose handlers block the only thread of its runtime.
#[tokio::test]
async fn a_connection_that_closed_while_its_runtime_was_blocked_costs_no_call() {
    let (engine, gateway) = with_a_silent_gateway(seconds(20)).await;
    let gateway = gateway.into_std().unwrap();
    gateway.set_nonblocking(false).unwrap();
    let (closed, has_closed) = std::sync::mpsc::channel();
    let answering = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut asked, _) = gateway.accept().unwrap();
            assert!(asked.read(&mut [0; 4 << 10]).unwrap() > 0);
            let answer = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n";
            asked.write_all(answer).unwrap();
            drop(asked);
            closed.send(()).unwrap();
        }
    });
    for _ in 0..2 {
        let ids = vec![Target::Id(JobId::new()); 64];
        let error = engine.get(&Namespace::default(), ids, false).await;
        let error = error.unwrap_err();
        assert!(error.to_string().contains("is overloaded"), "{error}");
        has_closed.recv().unwrap();
        // Blocks the runtime while nothing else comes.
        assert!(has_closed.recv_timeout(seconds(1)).is_err());
    }
    answering.join().unwrap();
}

/// Seed 314 of `embedded-disk` had a producer without an answer after 102 s.
#[tokio::test]
async fn a_call_over_a_silent_connection_ends_at_its_deadline() {
    let gateway = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = gateway.local_addr().unwrap().to_string();
    let engine = HttpEngine::connect(&authority, None).unwrap();
    let engine = engine.deadline(millis(50));
    let error = engine.info().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable);
    assert!(error.is_retryable());
    assert!(error.to_string().contains("within 50ms"), "{error}");
}

/// An engine whose gateway takes connections and says nothing.
async fn with_a_silent_gateway(deadline: Duration) -> (HttpEngine, TcpListener) {
    let gateway = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = gateway.local_addr().unwrap().to_string();
    let engine = HttpEngine::connect(&authority, None).unwrap();
    (engine.deadline(deadline), gateway)
}

#[tokio::test]
async fn every_call_ends_where_a_gateway_takes_it_and_says_nothing() {
    let (engine, _gateway) = with_a_silent_gateway(millis(50)).await;
    let namespace = Namespace::default();
    let work = WaitFor::Work(vec!["mail".into()]);
    let errors = [
        engine.audit(&namespace).await.unwrap_err(),
        engine.set_test_clock(Timestamp::ZERO).await.unwrap_err(),
        engine.enqueue(&namespace, Vec::new()).await.unwrap_err(),
        // It lasts as long as a gateway that is there would be silent, and then that deadline.
        (engine.wait(&namespace, work, Timestamp::MAX).await).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
        assert!(
            error.to_string().contains("did not answer within"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_gateway_that_says_it_is_there_is_waited_for_longer_than_any_deadline() {
    let (engine, gateway) = with_a_silent_gateway(millis(50)).await;
    let waiting = tokio::spawn(async move {
        let work = WaitFor::Work(vec!["mail".into()]);
        let namespace = Namespace::default();
        engine.wait(&namespace, work, Timestamp::MAX).await
    });
    let (mut asked, _) = gateway.accept().await.unwrap();
    let body = wire::encode(&Answer::Wait(Waited::Work)).unwrap();
    let there = "HTTP/1.1 204 No Content\r\n\r\n".to_owned();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    for answer in [there.clone(), there, head] {
        let mut request = [0; 4 << 10];
        assert!(asked.read(&mut request).await.unwrap() > 0);
        asked.write_all(answer.as_bytes()).await.unwrap();
    }
    asked.write_all(&body).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Waited::Work);
}

/// The other end takes its time over what is large: that is no silence.
#[tokio::test]
async fn a_large_body_may_be_longer_on_its_way_than_the_deadline() {
    let deadline = seconds(2);
    let socket = TcpSocket::new_v4().unwrap();
    // Small, so that the sender has to wait for the reader.
    socket.set_recv_buffer_size(64 << 10).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gateway = socket.listen(8).unwrap();
    let authority = gateway.local_addr().unwrap().to_string();
    let connections = Connections::new(Place::Network(authority, None), None);
    let body = Bytes::from(vec![0; 48 << 20]);
    let sending = tokio::spawn(async move {
        let sent = connections.call(None, body, deadline).await;
        sent.map(|reply| reply.status)
    });
    let (mut reader, _) = gateway.accept().await.unwrap();
    let (mut left, mut buffer) = (48 << 20, vec![0; 256 << 10]);
    let watch = Stopwatch::start();
    // What stands in the head is read with it, and no harm is done.
    while left > 0 {
        let read = reader.read(&mut buffer).await.unwrap();
        assert!(read > 0, "given up after {:?}", watch.elapsed());
        left -= read.min(left);
        if watch.elapsed() < deadline + seconds(1) {
            pause(millis(20)).await;
        }
    }
    assert!(watch.elapsed() > deadline);
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    reader.write_all(answer).await.unwrap();
    assert_eq!(sending.await.unwrap().unwrap(), StatusCode::OK);
}

#[tokio::test]
async fn the_refusal_names_what_there_is_too_much_of() {
    for (body, reported) in [
        (r#"{"error":{"code":"too_many_requests"}}"#, "wrong tokens"),
        (
            r#"{"error":{"code":"too_many_connections"}}"#,
            "connections_per_address",
        ),
        (r#"{"error":"slow down"}"#, "is overloaded"),
        ("<h1>slow down</h1>", "is overloaded"),
    ] {
        let (engine, gateway) = with_a_silent_gateway(seconds(20)).await;
        let asking = tokio::spawn(async move { engine.info().await.unwrap_err() });
        let (mut asked, _) = gateway.accept().await.unwrap();
        assert!(asked.read(&mut [0; 4 << 10]).await.unwrap() > 0);
        let head = "HTTP/1.1 429 Too Many Requests\r\ncontent-length:";
        let answer = format!("{head} {}\r\n\r\n{body}", body.len());
        asked.write_all(answer.as_bytes()).await.unwrap();
        let error = asking.await.unwrap();
        assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{body}");
        assert!(error.to_string().contains(reported), "{body}: {error}");
    }
}
