//! Unit tests of `listener`.

use punctual::MemoryEngine;
use punctual::time::minutes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::test_transport::TestTransport;
use super::*;
use crate::{Gateway, GatewayLimits, Tokens};

impl TestTransport {
    /// The status of a request that shows a wrong token.
    async fn asked(&self, peer: &str, forwarded: &str) -> u16 {
        let mut stream = self.connect(from(peer));
        let head = format!(
            "GET /v1/info HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
             x-forwarded-for: {forwarded}\r\n\r\n",
            "wrong".repeat(4)
        );
        stream.write_all(head.as_bytes()).await.expect("written");
        let mut first = [0; 12];
        let read = within(seconds(20), stream.read_exact(&mut first)).await;
        read.expect("in time").expect("an answer");
        let status = String::from_utf8_lossy(&first[9..]).into_owned();
        status.parse().expect("a status")
    }

    /// A connection that is served, or `None` if it is closed.
    async fn served(&self, peer: Peer) -> Option<DuplexStream> {
        let mut stream = self.connect(peer);
        let _ = stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        let mut first = [0; 12];
        let read = within(seconds(20), stream.read_exact(&mut first)).await;
        let read = read.expect("it is served or closed");
        read.ok()?;
        if &first == b"HTTP/1.1 429" {
            return None;
        }
        assert_eq!(&first, b"HTTP/1.1 200");
        Some(stream)
    }
}

fn from(address: &str) -> Peer {
    Peer::Network(address.parse().expect("an address"))
}

#[tokio::test]
async fn an_address_gets_half_of_all_connections_and_loopback_is_not_limited() {
    let limits = GatewayLimits {
        connections: 14,
        connections_per_address: Some(2),
        ..GatewayLimits::default()
    };
    let transport = TestTransport::new(limits);
    let mut open = Vec::new();
    for (first, another) in [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.8", "203.0.113.8"),
        ("2001:db8::1", "2001:db8::ffff:1"),
    ] {
        for _ in 0..2 {
            open.push(
                transport
                    .served(from(first))
                    .await
                    .expect("a place of its own"),
            );
        }
        for _ in 0..3 {
            assert!(transport.served(from(another)).await.is_none(), "{another}");
        }
    }
    open.push(
        transport
            .served(from("2001:db8:0:1::1"))
            .await
            .expect("another network"),
    );
    for peer in [
        from("127.0.0.1"),
        from("::1"),
        from("127.0.0.1"),
        Peer::Local,
        Peer::Local,
    ] {
        open.push(transport.served(peer).await.expect("never counted"));
    }
    // A place that is given back is there for the next one of that address.
    open.remove(0);
    let again = async {
        while transport.served(from("203.0.113.7")).await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    within(seconds(20), again).await.expect("a place again");
}

#[tokio::test]
async fn one_too_many_learns_the_setting_that_lets_it_in() {
    let transport = TestTransport::new(GatewayLimits {
        connections_per_address: Some(3),
        ..GatewayLimits::default()
    });
    let mut open = Vec::new();
    for _ in 0..3 {
        let one = transport.served(from("203.0.113.7")).await;
        open.push(one.expect("a place of its own"));
    }
    // It has said nothing yet.
    let mut fourth = transport.connect(from("203.0.113.7"));
    let mut reported = String::new();
    let read = within(seconds(20), fourth.read_to_string(&mut reported)).await;
    read.expect("it is closed").expect("it is text");
    assert!(reported.starts_with("HTTP/1.1 429 "), "{reported}");
    let (_, body) = reported.split_once("\r\n\r\n").expect("a body");
    let body: serde_json::Value = serde_json::from_str(body).expect("the form of errors");
    assert_eq!(body["error"]["code"], "too_many_connections");
    for named in ["connections_per_address", "trusted_proxies"] {
        assert!(reported.contains(named), "{reported}");
    }
    assert!(
        transport.served(from("203.0.113.8")).await.is_some(),
        "others"
    );
}

#[tokio::test]
async fn one_too_many_that_writes_a_whole_request_reads_its_answer() {
    let transport = TestTransport::new(GatewayLimits {
        connections_per_address: Some(1),
        ..GatewayLimits::default()
    });
    let peer = from("203.0.113.7");
    let _open = transport.served(peer).await.expect("a place of its own");
    let mut another = transport.connect(peer);
    let talk = async {
        let head = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1048576\r\n\r\n";
        another.write_all(head.as_bytes()).await?;
        another.write_all(&vec![b' '; 1 << 20]).await?;
        let mut reported = String::new();
        another.read_to_string(&mut reported).await?;
        io::Result::Ok(reported)
    };
    let reported = within(seconds(20), talk).await.expect("in time");
    let reported = reported.expect("nothing is cut off");
    assert!(reported.starts_with("HTTP/1.1 429 "), "{reported}");
}

#[tokio::test]
async fn one_too_many_that_never_ends_is_closed() {
    let transport = TestTransport::new(GatewayLimits {
        connections_per_address: Some(1),
        ..GatewayLimits::default()
    });
    let peer = from("203.0.113.7");
    let _open = transport.served(peer).await.expect("a place of its own");
    let mut another = transport.connect(peer);
    let endless = async { while another.write_all(&[b' '; 1 << 16]).await.is_ok() {} };
    within(seconds(60), endless).await.expect("it is closed");
}

#[tokio::test]
async fn ten_thousand_silent_connections_take_half_and_others_are_served() {
    let transport = TestTransport::new(GatewayLimits {
        head: minutes(10),
        ..GatewayLimits::default()
    });
    let limit = from("203.0.113.7");
    let silent: Vec<_> = (0..8_192).map(|_| transport.connect(limit)).collect();
    // They come in one by one: the first that is refused is the one after all that may.
    let refused: Vec<_> = (8_192..10_000).map(|_| transport.connect(limit)).collect();
    for mut one in refused {
        let mut reported = Vec::new();
        let read = within(seconds(60), one.read_to_end(&mut reported)).await;
        read.expect("it is closed").expect("in order");
        assert!(reported.is_empty() || reported.starts_with(b"HTTP/1.1 429 "));
    }
    assert!(
        transport.served(from("203.0.113.8")).await.is_some(),
        "others"
    );
    assert!(transport.served(limit).await.is_none(), "one too many");
    drop(silent);
    let again = async {
        while transport.served(limit).await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    within(seconds(60), again).await.expect("a place again");
}

#[tokio::test]
async fn a_trusted_proxy_has_as_many_connections_as_it_likes() {
    let limits = GatewayLimits {
        connections_per_address: Some(1),
        ..GatewayLimits::default()
    };
    let gateway = Gateway::new(Arc::new(MemoryEngine::new()), Tokens::open()).limits(limits);
    let proxies = vec!["203.0.113.7".parse().expect("an address")];
    let transport = TestTransport::of(gateway.trusted_proxies(proxies));
    let mut open = Vec::new();
    for _ in 0..4 {
        let one = transport.served(from("203.0.113.7")).await;
        open.push(one.expect("it is not counted"));
    }
    open.push(
        transport
            .served(from("203.0.113.8"))
            .await
            .expect("the first"),
    );
    assert!(transport.served(from("203.0.113.8")).await.is_none());
}

#[tokio::test]
async fn wrong_tokens_count_for_the_client_of_a_trusted_proxy_only() {
    let limits = GatewayLimits {
        failures: 2,
        ..GatewayLimits::default()
    };
    let token = crate::Token::new(&"x".repeat(16), Default::default(), &crate::Scope::ALL);
    let tokens = Tokens::new(vec![token.expect("it is long")]);
    let gateway = Gateway::new(Arc::new(MemoryEngine::new()), tokens).limits(limits);
    let proxies = vec!["10.0.0.0/8".parse().expect("a network")];
    let transport = TestTransport::of(gateway.trusted_proxies(proxies));
    for (peer, forwarded, status) in [
        ("10.0.0.7", "198.51.100.1", 401),
        ("10.0.0.8", "1.1.1.1, 198.51.100.1", 401),
        ("10.0.0.7", "2.2.2.2, 198.51.100.1, 10.0.0.9", 429),
        ("10.0.0.7", "198.51.100.2", 401),
        // A peer that is no proxy of ours is counted by its own address.
        ("203.0.113.7", "3.3.3.3", 401),
        ("203.0.113.7", "4.4.4.4", 401),
        ("203.0.113.7", "5.5.5.5", 429),
    ] {
        let reported = transport.asked(peer, forwarded).await;
        assert_eq!(reported, status, "{peer} for {forwarded}");
    }
}

#[test]
fn half_is_the_default_limit_of_an_address() {
    let mut limits = GatewayLimits::default();
    assert_eq!(limits.per_address(), 8_192);
    limits.connections = 1;
    assert_eq!(limits.per_address(), 1);
    limits.connections_per_address = Some(0);
    assert_eq!(limits.per_address(), 1);
}
