//! What a connection is once it is a WebSocket, and how much may come over it then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Whether one connection was upgraded. From then on so many bytes may come as its owner allowed: the
/// library of WebSockets has one bound of frames for whoever sends them, and puts a frame together first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Upgrade(Arc<Upgraded>);

#[derive(Debug, Default)]
struct Upgraded {
    is: AtomicBool,
    left: AtomicUsize,
}

impl Upgrade {
    pub(crate) fn is(&self) -> bool {
        self.0.is.load(Ordering::Relaxed)
    }

    pub(super) fn happens(&self) {
        self.0.is.store(true, Ordering::Relaxed);
    }

    /// From now on that many may come.
    pub(crate) fn allow(&self, bytes: usize) {
        self.0.left.store(bytes, Ordering::Relaxed);
    }

    /// That many more.
    pub(crate) fn allow_more(&self, bytes: usize) {
        let more = |left: usize| Some(left.saturating_add(bytes));
        let _ = self
            .0
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// That many came; an error, from then on, if they are too many.
    pub(crate) fn came(&self, bytes: usize) -> io::Result<()> {
        let left = self.0.left.load(Ordering::Relaxed);
        let Some(left) = left.checked_sub(bytes) else {
            self.0.left.store(0, Ordering::Relaxed);
            let message = "a frame is too long for who sends it";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        };
        self.0.left.store(left, Ordering::Relaxed);
        Ok(())
    }
}
