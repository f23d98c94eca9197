//! Accepts and serves connections: bounded request heads, and a drain that fails no request.

mod write_timeout;

pub(crate) use self::write_timeout::Transport;
use self::write_timeout::WriteTimeout;

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use punctual::time::{millis, pause, seconds, within};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower_service::Service;

use crate::connection_limit::{AddressPermit, ConnectionLimit};
use crate::connection_permit::ConnectionPermit;
use crate::framing::StrictFraming;
use crate::http::Peer;
use crate::overload::OverloadResponse;
use crate::shared::Shared;
use crate::tls::Tls;
use crate::upgrade::Upgrade;

/// The most bytes of a request head, or a little more: hyper still reads what is buffered.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How long, at the end, a silent connection is kept for a request that may be on its way.
const LINGER: Duration = seconds(1);

/// Accepts connections.
pub(crate) trait Listener: Send + Sync + 'static {
    type Stream: Transport;

    /// The next connection; `None` if it is refused.
    fn accept(&self) -> impl Future<Output = io::Result<Option<(Self::Stream, Peer)>>> + Send;

    /// Stops listening; returns the connections accepted by the system until now.
    fn close(self) -> Vec<(Self::Stream, Peer)>;
}

/// The listeners of one gateway.
pub(crate) struct Listeners {
    pub(crate) shared: Shared,
    router: Router,
    closing: watch::Sender<bool>,
    /// Sends nothing: each connection listens as long as a part of it is open.
    open_connections: watch::Sender<()>,
    /// Each returns its open connections once it is closed.
    open: JoinSet<JoinSet<()>>,
}

impl Listeners {
    /// No listener yet; what they accept goes to that router.
    pub(crate) fn new(shared: Shared, router: Router) -> Self {
        Self {
            router,
            shared,
            closing: watch::Sender::new(false),
            open_connections: watch::Sender::new(()),
            open: JoinSet::new(),
        }
    }

    /// Takes connections from there, by TLS if it is given.
    pub(crate) fn open(&mut self, listener: impl Listener, tls: Option<Tls>) {
        let accept_loop = AcceptLoop {
            tls,
            shared: self.shared.clone(),
            router: self.router.clone(),
            open_connections: self.open_connections.subscribe(),
            connections: JoinSet::new(),
        };
        self.open
            .spawn(accept_loop.receive(listener, self.closing.subscribe()));
    }

    /// Ends; see [`Serving::drain`](crate::Serving::drain).
    pub(crate) async fn drain(mut self, limit: Duration) -> bool {
        let ended = async {
            // Closed before clients are asked to leave: those that reconnect reach the next server.
            self.closing.send_replace(true);
            let mut left = Vec::new();
            while let Some(listener) = self.open.join_next().await {
                left.extend(listener);
            }
            self.shared.ending.send_replace(true);
            for connections in &mut left {
                while connections.join_next().await.is_some() {}
            }
            // WebSockets run in tasks of their own.
            self.open_connections.closed().await;
        };
        within(limit, ended).await.is_some()
    }
}

/// Accepts and serves the connections of one listener.
struct AcceptLoop {
    tls: Option<Tls>,
    shared: Shared,
    router: Router,
    open_connections: watch::Receiver<()>,
    connections: JoinSet<()>,
}

impl AcceptLoop {
    async fn receive<D: Listener>(
        mut self,
        listener: D,
        mut closing: watch::Receiver<bool>,
    ) -> JoinSet<()> {
        let room = Arc::new(Semaphore::new(self.shared.limits.connections));
        let limit = ConnectionLimit::of(self.shared.limits.per_address());
        let overload = OverloadResponse::of(limit.most());
        loop {
            while self.connections.try_join_next().is_some() {}
            let next = async {
                let place = room.clone().acquire_owned().await;
                (place, listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => break,
                next = next => next,
            };
            match (place, accepted) {
                (Ok(place), Ok(Some(connection))) => {
                    match self.permit(&limit, connection.1) {
                        Some(permit) => {
                            self.begin(
                                connection,
                                ConnectionPermit::of(place, permit, self.open_connections.clone()),
                            );
                        }
                        // A TLS handshake for the response would cost more than to serve.
                        None if self.tls.is_some() => {}
                        None => overload.reject(connection.0, &mut self.connections),
                    }
                }
                (_, Ok(None)) => {}
                // Out of file handles, most likely: those that are open go on.
                _ => pause(millis(50)).await,
            }
        }
        for connection in listener.close() {
            let place = room.clone().try_acquire_owned().ok();
            if let Some((place, permit)) = place.zip(self.permit(&limit, connection.1)) {
                self.begin(
                    connection,
                    ConnectionPermit::of(place, permit, self.open_connections.clone()),
                );
            }
        }
        self.connections
    }

    /// A permit for its address; a trusted proxy is not counted, as many clients share it.
    fn permit(&self, limit: &Arc<ConnectionLimit>, peer: Peer) -> Option<AddressPermit> {
        let known = &self.shared.proxies;
        limit.admit(peer.address().filter(|address| !known.has(*address)))
    }

    fn begin(&mut self, (stream, peer): (impl Transport, Peer), permit: ConnectionPermit) {
        let (shared, router) = (self.shared.clone(), self.router.clone());
        // Under TLS, which has its own writes.
        let upgrade = Upgrade::default();
        let stream = WriteTimeout::new(stream, shared.limits.reader, upgrade.clone());
        let tls = self.tls.as_ref().map(Tls::acceptor);
        self.connections.spawn(async move {
            match tls {
                None => serve_connection(stream, upgrade, peer, permit, &shared, router).await,
                Some(tls) => match within(shared.limits.head, tls.accept(stream)).await {
                    Some(Ok(stream)) => {
                        serve_connection(stream, upgrade, peer, permit, &shared, router).await;
                    }
                    Some(Err(error)) => {
                        tracing::debug!(%error, "a connection failed its TLS handshake")
                    }
                    None => {
                        tracing::debug!("a connection did not finish its TLS handshake in time")
                    }
                },
            }
        });
    }
}

/// Serves one connection until it ends or is upgraded.
async fn serve_connection<S>(
    stream: S,
    upgrade: Upgrade,
    peer: Peer,
    permit: ConnectionPermit,
    shared: &Shared,
    router: Router,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = StrictFraming::new(stream, upgrade.clone());
    let known = shared.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let peer = match peer {
            Peer::Network(address) => {
                Peer::Network(known.proxies.client(address, request.headers()))
            }
            other => other,
        };
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(permit.clone());
        request.extensions_mut().insert(upgrade.clone());
        let answering = router.clone().call(request.map(Body::new));
        let upgrade = upgrade.clone();
        async move {
            let answer = answering.await;
            if let Ok(answer) = &answer
                && answer.status() == StatusCode::SWITCHING_PROTOCOLS
            {
                upgrade.happens();
            }
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.limits.head)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = shared.ending() => None,
    };
    // From now on every answer says that it is the last one on its connection.
    let ended = match ended {
        Some(ended) => Some(ended),
        None => within(LINGER, connection.as_mut()).await,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<Option<(TcpStream, Peer)>> {
        let (stream, peer) = Self::accept(self).await?;
        Ok(Some(welcome(stream, peer.ip())))
    }

    fn close(self) -> Vec<(TcpStream, Peer)> {
        let Ok(listener) = self.into_std() else {
            return Vec::new();
        };
        // The system resets those that it has taken and we have not: leave none.
        let taken: Vec<_> = std::iter::from_fn(|| listener.accept().ok()).collect();
        drop(listener);
        let streams = taken.into_iter().filter_map(|(stream, peer)| {
            stream.set_nonblocking(true).ok()?;
            let stream = TcpStream::from_std(stream).ok()?;
            Some(welcome(stream, peer.ip()))
        });
        streams.collect()
    }
}

fn welcome(stream: TcpStream, peer: IpAddr) -> (TcpStream, Peer) {
    // Small answers at once; a socket that refuses that is served all the same.
    let _ = stream.set_nodelay(true);
    (stream, Peer::Network(peer))
}

#[cfg(test)]
pub(crate) mod test_transport;
#[cfg(test)]
mod tests;
