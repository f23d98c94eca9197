//! SIGTERM and Ctrl-C, which end a command in good order.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure, Result};

/// Listens from the moment it is made.
pub(crate) struct Signals(Signal, Signal);

impl Signals {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(
            listen(SignalKind::terminate())?,
            listen(SignalKind::interrupt())?,
        ))
    }

    /// The next of either.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

/// Listens for one kind.
pub(crate) fn listen(kind: SignalKind) -> Result<Signal> {
    let refused = |error| Failure::new(Exit::Failed, "io", format!("no signals: {error}"));
    signal(kind).map_err(refused)
}
