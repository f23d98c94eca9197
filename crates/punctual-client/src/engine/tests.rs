use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use punctual::time::millis;

use super::*;

#[tokio::test]
async fn who_waits_for_work_asks_again_when_a_connection_is_dead_without_a_word() {
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

#[tokio::test]
async fn a_call_over_a_connection_that_is_dead_without_a_word_ends_at_its_deadline() {
    let gateway = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = gateway.local_addr().unwrap().to_string();
    let engine = HttpEngine::connect(&authority, None).unwrap();
    let engine = engine.deadline(millis(50));
    let error = engine.info().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable);
    assert!(error.is_retryable());
    assert!(error.to_string().contains("within 50ms"), "{error}");
}
