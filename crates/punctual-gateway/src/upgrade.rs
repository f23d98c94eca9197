//! What a connection is once it is a WebSocket, and how much may come over it then.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::sync::Lock;
use punctual::time::Stopwatch;

use crate::bodies::BodyPermit;

/// Whether one connection was upgraded. From then on so many bytes may come as its owner allowed:
/// the library of WebSockets has one bound of frames for all senders, and puts a frame together
/// first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Upgrade(Arc<Upgraded>);

#[derive(Debug, Default)]
struct Upgraded {
    is: AtomicBool,
    left: AtomicUsize,
    frame: Mutex<Option<Coming>>,
}

/// The frame that comes, once its sender is known.
#[derive(Debug)]
struct Coming {
    permit: BodyPermit,
    bytes: usize,
    /// Since its first bytes came.
    watch: Option<Stopwatch>,
    limit: Duration,
}

/// What is said of a frame that came too slowly, and of one that there is no room for.
pub(crate) const TOO_SLOW: &str = "a frame did not arrive in time";
pub(crate) const TOO_MANY: &str = "too many bytes are in flight";

impl Upgrade {
    pub(crate) fn is(&self) -> bool {
        self.0.is.load(Ordering::Relaxed)
    }

    pub(crate) fn happens(&self) {
        self.0.is.store(true, Ordering::Relaxed);
    }

    /// From now on frames are counted there, and may take so long each.
    pub(crate) fn counts(&self, permit: BodyPermit, limit: Duration) {
        let coming = Coming {
            permit,
            bytes: 0,
            watch: None,
            limit,
        };
        *self.frame() = Some(coming);
    }

    fn frame(&self) -> std::sync::MutexGuard<'_, Option<Coming>> {
        self.0.frame.locked()
    }

    /// A frame is there: from now on that many may come.
    pub(crate) fn allow(&self, bytes: usize) {
        self.0.left.store(bytes, Ordering::Relaxed);
        if let Some(coming) = &mut *self.frame() {
            (coming.bytes, coming.watch) = (0, None);
            // To take less is never refused.
            let _ = coming.permit.takes(0);
        }
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
            let message = "a frame is too long for this client";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        };
        self.0.left.store(left, Ordering::Relaxed);
        let mut frame = self.frame();
        let Some(coming) = &mut *frame else {
            return Ok(());
        };
        let over = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let watch = coming.watch.get_or_insert_with(Stopwatch::start);
        if watch.elapsed() > coming.limit {
            return Err(over(TOO_SLOW));
        }
        coming.bytes += bytes;
        let taken = coming.permit.takes(coming.bytes);
        taken.map_err(|_| over(TOO_MANY))
    }
}
