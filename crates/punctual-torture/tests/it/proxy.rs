//! Tests of the fault proxy.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use punctual::sync::Lock;
use punctual::time::{Stopwatch, millis, seconds, within};
use punctual_redis::testing::{Ending, TestProxy, Way, Weather};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Sends back what comes, and remembers it, all connections in one line.
struct Echo {
    port: u16,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let all = received.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(echo(connection, all.clone()));
            }
        });
        Self { port, received }
    }

    /// Waits until it has received this and nothing else.
    async fn receives(&self, all: &[u8]) {
        let received = within(seconds(30), async {
            while self.received() != all {
                tokio::task::yield_now().await;
            }
        });
        assert!(received.await.is_some(), "{:?}", self.received());
    }

    fn received(&self) -> Vec<u8> {
        let received = self.received.locked();
        received.clone()
    }
}

async fn echo(mut connection: TcpStream, received: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 4_096];
    while let Ok(read @ 1..) = connection.read(&mut buffer).await {
        received.locked().extend(&buffer[..read]);
        if connection.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// A server, a proxy before it, and a client of the proxy that has been answered once.
async fn met() -> (Echo, TestProxy, TcpStream) {
    let server = Echo::start().await;
    let proxy = TestProxy::to(server.port).await;
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port()))
        .await
        .expect("the proxy listens");
    ask(&mut client, b"hello").await;
    (server, proxy, client)
}

/// Sends it, and is sent the same back.
async fn ask(client: &mut TcpStream, what: &[u8]) {
    client.write_all(what).await.expect("it is sent");
    assert_eq!(answer(client, what.len()).await, what);
}

async fn answer(client: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut answer = vec![0; bytes];
    let read = within(seconds(30), client.read_exact(&mut answer)).await;
    read.expect("an answer in time").expect("an answer");
    answer
}

/// What the client reads once nothing more comes, or the error.
async fn rest(client: &mut TcpStream) -> Result<Vec<u8>, ErrorKind> {
    let mut rest = Vec::new();
    let read = within(seconds(30), client.read_to_end(&mut rest)).await;
    match read.expect("an end in time") {
        Ok(_) => Ok(rest),
        Err(error) => Err(error.kind()),
    }
}

/// Others are answered a hundred times: whatever was let through would have come before.
async fn time_goes_by(server: &Echo) {
    let mut beside = TcpStream::connect(("127.0.0.1", server.port))
        .await
        .expect("the server listens");
    for _ in 0..100 {
        ask(&mut beside, b".").await;
    }
}

#[tokio::test]
async fn nothing_passes_a_black_hole_until_it_is_over() {
    let (server, proxy, mut client) = met().await;
    proxy.set_weather(Weather::BlackHole);
    client.write_all(b"lost?").await.expect("it is sent");
    // Nor does anything that connects only now.
    let mut late = TcpStream::connect(("127.0.0.1", proxy.port()))
        .await
        .expect("the proxy listens");
    late.write_all(b"late?").await.expect("it is sent");
    time_goes_by(&server).await;
    assert_eq!(server.received().len(), "hello".len() + 100);
    let mut byte = [0];
    let read = client.try_read(&mut byte).map_err(|error| error.kind());
    assert_eq!(read, Err(ErrorKind::WouldBlock));
    proxy.set_weather(Weather::Fair);
    assert_eq!(answer(&mut client, 5).await, b"lost?");
    assert_eq!(answer(&mut late, 5).await, b"late?");
}

#[tokio::test]
async fn bytes_come_no_faster_than_their_rate_and_all_of_them() {
    let (_server, proxy, mut client) = met().await;
    let sent: Vec<u8> = (0..=255).cycle().take(2_048).collect();
    let fair = Stopwatch::start();
    ask(&mut client, &sent).await;
    let fair = fair.elapsed();
    proxy.set_weather(Weather::Thin(8_192));
    let thin = Stopwatch::start();
    ask(&mut client, &sent).await;
    // A quarter of a second there, and one back.
    assert!(thin.elapsed() >= millis(500), "{fair:?} when it was fair");
}

#[tokio::test]
async fn bytes_that_a_rate_held_come_once_it_is_over() {
    let (server, proxy, mut client) = met().await;
    proxy.set_weather(Weather::Thin(1));
    // A minute each way.
    let sent = [b'x'; 60];
    client.write_all(&sent).await.expect("it is sent");
    time_goes_by(&server).await;
    proxy.set_weather(Weather::Fair);
    assert_eq!(answer(&mut client, sent.len()).await, sent);
}

#[tokio::test]
async fn bytes_are_late_by_half_of_what_is_said_at_least_each_way() {
    let (_server, proxy, mut client) = met().await;
    proxy.set_weather(Weather::Slow(millis(200)));
    let slow = Stopwatch::start();
    ask(&mut client, b"slow").await;
    assert!(slow.elapsed() >= millis(200));
}

#[tokio::test]
async fn a_reset_is_one_and_an_end_in_good_order_is_none() {
    for (how, seen) in [
        (Ending::Reset, Err(ErrorKind::ConnectionReset)),
        (Ending::Closed, Ok(Vec::new())),
    ] {
        let (_server, proxy, mut client) = met().await;
        proxy.end_all(how);
        assert_eq!(rest(&mut client).await, seen, "{how:?}");
        // The next one is let through.
        let mut again = TcpStream::connect(("127.0.0.1", proxy.port()))
            .await
            .expect("the proxy listens");
        ask(&mut again, b"again").await;
    }
}

#[tokio::test]
async fn a_half_closed_client_receives_nothing_more_and_is_received() {
    let (server, proxy, mut client) = met().await;
    proxy.end_all(Ending::HalfClosed);
    assert_eq!(rest(&mut client).await, Ok(Vec::new()));
    client.write_all(b"still here").await.expect("it is sent");
    server.receives(b"hellostill here").await;
}

#[tokio::test]
async fn a_cut_lets_so_many_bytes_pass_that_way_and_ends_the_connection() {
    let (server, proxy, mut client) = met().await;
    proxy.cut_after(Way::Request, 3);
    client.write_all(b"request").await.expect("it is sent");
    // What the server has may still be answered, or not.
    let got = rest(&mut client).await;
    assert!(
        matches!(&got, Ok(got) if b"req".starts_with(got)) || got.is_err(),
        "{got:?}"
    );
    server.receives(b"helloreq").await;

    let (server, proxy, mut client) = met().await;
    proxy.cut_after(Way::Reply, 3);
    client.write_all(b"request").await.expect("it is sent");
    assert_eq!(rest(&mut client).await, Ok(b"req".to_vec()));
    server.receives(b"hellorequest").await;
}

#[tokio::test]
async fn a_swallowed_reply_leaves_its_request_delivered_and_its_connection_cut() {
    let (server, proxy, mut client) = met().await;
    proxy.set_weather(Weather::NoReplies);
    client.write_all(b"request").await.expect("it is sent");
    server.receives(b"hellorequest").await;
    time_goes_by(&server).await;
    proxy.set_weather(Weather::Fair);
    assert_eq!(rest(&mut client).await, Ok(Vec::new()));
}
