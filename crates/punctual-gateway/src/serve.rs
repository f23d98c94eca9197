//! Sockets: bounded heads, a drain without failed requests.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use punctual::time::{ManualClock, millis, pause, seconds, within};
use punctual::{Engine, Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower_service::Service;

use crate::access::Tokens;
use crate::api;
use crate::meters::{Measured, Meters, Registry};
use crate::state::{Inner, Shared};

/// Connections at the same time; more wait in the system's queue.
const CONNECTIONS_MAX: usize = 16_384;
/// How long a head may take to arrive.
const HEAD_SECONDS_MAX: u64 = 10;
/// Bytes of a head.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// An engine that is to be served.
#[derive(Debug)]
pub struct Gateway {
    engine: Arc<dyn Engine>,
    tokens: Tokens,
    hosts: Vec<String>,
    clock: Option<ManualClock>,
    registry: Registry,
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Over the network, loopback too.
    Network(IpAddr),
    Unknown,
}

impl Peer {
    pub(crate) fn address(self) -> Option<IpAddr> {
        match self {
            Self::Network(address) => Some(address),
            Self::Unknown => None,
        }
    }
}

impl Gateway {
    /// Serves that engine to those who show one of these tokens.
    pub fn new(engine: Arc<dyn Engine>, tokens: Tokens) -> Self {
        Self {
            engine,
            tokens,
            hosts: Vec::new(),
            clock: None,
            registry: Registry::default(),
        }
    }

    /// Answers to these names too, besides addresses and `localhost`.
    #[must_use]
    pub fn hosts(mut self, hosts: Vec<String>) -> Self {
        self.hosts = hosts;
        self
    }

    /// Shows on `/metrics` what is counted there, beside what the gateway counts itself.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Adds the route that moves this clock, for tests; only loopback may then be served.
    #[must_use]
    pub fn with_test_clock(mut self, clock: ManualClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Serves on an address until told to end; port 0 takes a free one.
    ///
    /// An address that is not loopback is refused without tokens, and with a test clock.
    pub async fn serve(self, address: SocketAddr) -> Result<Serving> {
        if !address.ip().is_loopback() && (self.tokens.is_open() || self.clock.is_some()) {
            let message = "an address that others can reach needs a token; \
                           set PUNCTUAL_TOKEN, or serve on 127.0.0.1";
            return Err(Error::new(ErrorKind::InvalidInput, message).with("address", address));
        }
        let unbound = |error: io::Error| {
            let message = "the address cannot be listened on; name another with --listen";
            Error::new(ErrorKind::Io, message)
                .with("address", address)
                .source(error)
        };
        let listener = TcpListener::bind(address).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        let mut serving = self.start(address);
        let accept = accept_tcp(listener, serving.shared.clone(), serving.router.clone());
        serving.doors.spawn(accept);
        Ok(serving)
    }

    fn start(self, address: SocketAddr) -> Serving {
        let meters = Arc::new(Meters::new(self.registry));
        let shared = Shared::new(Inner {
            engine: Arc::new(Measured::new(self.engine, meters.clone())),
            tokens: self.tokens,
            hosts: self.hosts,
            clock: self.clock,
            meters,
            ending: watch::Sender::new(false),
        });
        Serving {
            router: api::router(&shared),
            shared,
            address,
            doors: JoinSet::new(),
        }
    }
}

/// A gateway at work. Dropping it cuts everything off; [`drain`](Serving::drain) ends it well.
pub struct Serving {
    shared: Shared,
    router: Router,
    address: SocketAddr,
    doors: JoinSet<()>,
}

impl Serving {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no new connection, answers those who wait at once, lets requests end, at most that
    /// long; whether all did.
    pub async fn drain(mut self, limit: Duration) -> bool {
        self.shared.ending.send_replace(true);
        let doors = async { while self.doors.join_next().await.is_some() {} };
        within(limit, doors).await.is_some()
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Serving({})", self.address)
    }
}

async fn accept_tcp(listener: TcpListener, shared: Shared, router: Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let place = room.clone().acquire_owned();
        let accepted = tokio::select! {
            biased;
            () = shared.ending() => break,
            accepted = async { (place.await, listener.accept().await) } => accepted,
        };
        let (Ok(place), Ok((stream, peer))) = accepted else {
            // Out of file handles, most likely: those that are open go on.
            pause(millis(50)).await;
            continue;
        };
        // Small answers at once; a socket that refuses that is served all the same.
        let _ = stream.set_nodelay(true);
        let (shared, router) = (shared.clone(), router.clone());
        connections.spawn(async move {
            converse(stream, Peer::Network(peer.ip()), &shared, router).await;
            drop(place);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Serves one connection to its end.
async fn converse<S>(stream: S, peer: Peer, shared: &Shared, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.clone().call(request.map(Body::new))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(seconds(HEAD_SECONDS_MAX))
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = shared.ending() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection was cut off");
    }
}
