use punctual::MemoryEngine;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use super::*;
use crate::{Gateway, GatewayLimits, Tokens};

/// A door through which a test sends visitors, from wherever it likes.
struct Scripted(tokio::sync::Mutex<mpsc::UnboundedReceiver<(DuplexStream, Peer)>>);

impl Door for Scripted {
    type Stream = DuplexStream;

    async fn accept(&self) -> io::Result<Option<(DuplexStream, Peer)>> {
        match self.0.lock().await.recv().await {
            Some(visitor) => Ok(Some(visitor)),
            None => std::future::pending().await,
        }
    }

    fn close(self) -> Vec<(DuplexStream, Peer)> {
        Vec::new()
    }
}

struct Street {
    door: mpsc::UnboundedSender<(DuplexStream, Peer)>,
    _doors: Doors,
}

impl Street {
    fn new(limits: GatewayLimits) -> Self {
        let (door, visitors) = mpsc::unbounded_channel();
        let gateway = Gateway::new(Arc::new(MemoryEngine::new()), Tokens::open()).limits(limits);
        let mut doors = Doors::of(gateway.shared());
        doors.open(Scripted(visitors.into()), None);
        Self {
            door,
            _doors: doors,
        }
    }

    fn come(&self, peer: Peer) -> DuplexStream {
        let (here, there) = tokio::io::duplex(1 << 16);
        assert!(self.door.send((there, peer)).is_ok(), "the door is there");
        here
    }

    /// A connection that is served, or `None` if it is closed.
    async fn served(&self, peer: Peer) -> Option<DuplexStream> {
        let mut stream = self.come(peer);
        let _ = stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        let mut first = [0; 12];
        let read = within(seconds(20), stream.read_exact(&mut first)).await;
        let read = read.expect("it is served or closed");
        read.ok().map(|_| {
            assert_eq!(&first, b"HTTP/1.1 200");
            stream
        })
    }
}

fn from(address: &str) -> Peer {
    Peer::Network(address.parse().expect("an address"))
}

#[tokio::test]
async fn an_address_has_half_of_all_connections_at_most_and_this_machine_as_many_as_it_likes() {
    let limits = GatewayLimits {
        connections: 14,
        connections_per_address: Some(2),
        ..GatewayLimits::default()
    };
    let street = Street::new(limits);
    let mut open = Vec::new();
    for (first, another) in [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.8", "203.0.113.8"),
        ("2001:db8::1", "2001:db8::ffff:1"),
    ] {
        for _ in 0..2 {
            open.push(
                street
                    .served(from(first))
                    .await
                    .expect("a place of its own"),
            );
        }
        for _ in 0..3 {
            assert!(street.served(from(another)).await.is_none(), "{another}");
        }
    }
    open.push(
        street
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
        open.push(street.served(peer).await.expect("never counted"));
    }
    // A place that is given back is there for the next one of that address.
    open.remove(0);
    let again = async {
        while street.served(from("203.0.113.7")).await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    within(seconds(20), again).await.expect("a place again");
}

#[test]
fn half_is_the_limit_of_an_address_unless_told() {
    let mut limits = GatewayLimits::default();
    assert_eq!(limits.per_address(), 8_192);
    limits.connections = 1;
    assert_eq!(limits.per_address(), 1);
    limits.connections_per_address = Some(0);
    assert_eq!(limits.per_address(), 1);
}
