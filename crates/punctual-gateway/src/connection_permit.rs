//! The permit of a connection: it counts as HTTP, and as the WebSocket it was upgraded to.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::connection_limit::AddressPermit;

/// The permits of one connection. When its last clone is dropped, they are released and a drain no
/// longer waits for the connection.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionPermit(Arc<Held>);

#[derive(Debug)]
struct Held {
    _place: OwnedSemaphorePermit,
    _seat: AddressPermit,
    listeners: watch::Receiver<()>,
}

impl ConnectionPermit {
    pub(crate) fn of(
        place: OwnedSemaphorePermit,
        permit: AddressPermit,
        listeners: watch::Receiver<()>,
    ) -> Self {
        Self(Arc::new(Held {
            _place: place,
            _seat: permit,
            listeners,
        }))
    }

    /// Ends once the gateway is dropped, or its drain has run out of time; then the socket must
    /// close.
    pub(crate) async fn cut_off(&self) {
        let mut listeners = self.0.listeners.clone();
        while listeners.changed().await.is_ok() {}
    }
}
