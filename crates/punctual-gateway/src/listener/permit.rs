//! How long a connection counts: as HTTP, and as what it was upgraded to.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::connection_limit::AddressPermit;

/// The places of one connection. They are given back, and a drain waits for it no longer, when whatever
/// was made of the connection has dropped its clone.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionPermit(Arc<Held>);

#[derive(Debug)]
struct Held {
    _place: OwnedSemaphorePermit,
    _seat: AddressPermit,
    listeners: watch::Receiver<()>,
}

impl ConnectionPermit {
    pub(super) fn of(
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

    /// Ends once the gateway is dropped, or its drain may last no longer: what goes on then is cut off.
    pub(crate) async fn cut_off(&self) {
        let mut listeners = self.0.listeners.clone();
        while listeners.changed().await.is_ok() {}
    }
}
