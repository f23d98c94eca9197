//! A listener through which tests send connections over streams in memory.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use punctual::MemoryEngine;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use super::{Listener, Listeners, Transport};
use crate::api;
use crate::http::Peer;
use crate::shared::Shared;
use crate::tls::Tls;
use crate::{Gateway, GatewayLimits, Tokens};

/// The listener itself.
struct ScriptedListener(tokio::sync::Mutex<mpsc::UnboundedReceiver<(DuplexStream, Peer)>>);

/// A read of a byte makes room for one, and the writer learns that at once.
impl Transport for DuplexStream {
    fn write_now(&self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn discard_unsent(&self) {}
}

impl Listener for ScriptedListener {
    type Stream = DuplexStream;

    async fn accept(&self) -> io::Result<Option<(DuplexStream, Peer)>> {
        match self.0.lock().await.recv().await {
            Some(connection) => Ok(Some(connection)),
            None => std::future::pending().await,
        }
    }

    fn close(self) -> Vec<(DuplexStream, Peer)> {
        Vec::new()
    }
}

/// A gateway, and the way to its listener from wherever a test likes.
pub(crate) struct TestTransport {
    listener: mpsc::UnboundedSender<(DuplexStream, Peer)>,
    listeners: Listeners,
}

impl TestTransport {
    pub(super) fn new(limits: GatewayLimits) -> Self {
        Self::of(Gateway::new(Arc::new(MemoryEngine::new()), Tokens::open()).limits(limits))
    }

    pub(super) fn of(gateway: Gateway) -> Self {
        Self::to(gateway.shared())
    }

    pub(crate) fn to(shared: Shared) -> Self {
        Self::by(shared, None)
    }

    pub(super) fn by(shared: Shared, tls: Option<Tls>) -> Self {
        let (listener, connections) = mpsc::unbounded_channel();
        let mut listeners = Listeners::new(shared.clone(), api::router(&shared));
        listeners.open(ScriptedListener(connections.into()), tls);
        Self {
            listener,
            listeners,
        }
    }

    pub(super) async fn drain(self, limit: Duration) -> bool {
        self.listeners.drain(limit).await
    }

    pub(super) fn connect(&self, peer: Peer) -> DuplexStream {
        self.connect_with(1 << 16, peer)
    }

    /// By a stream that keeps so many bytes in each direction until they are read.
    pub(crate) fn connect_with(&self, bytes: usize, peer: Peer) -> DuplexStream {
        let (here, there) = tokio::io::duplex(bytes);
        assert!(
            self.listener.send((there, peer)).is_ok(),
            "the listener is there"
        );
        here
    }
}
