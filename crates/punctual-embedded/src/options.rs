//! Options of an embedded engine.

use std::sync::Arc;
use std::time::Duration;

use punctual::Limits;
use punctual::engine::Durability;
use punctual::time::{Clock, SystemClock, seconds};
use punctual::{Error, ErrorKind, Result};

/// How an engine keeps its directory.
///
/// ```
/// use punctual::engine::Durability;
/// use punctual_embedded::Options;
///
/// let options = Options::default().durability(Durability::Os);
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) durability: Durability,
    pub(crate) limits: Limits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) create: bool,
    pub(crate) maintenance: bool,
    pub(crate) reserve_bytes: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) checkpoint_bytes: usize,
    pub(crate) idle_after: Duration,
}

impl Default for Options {
    /// On disk before an answer, the machine's clock, the default limits.
    fn default() -> Self {
        Self {
            durability: Durability::Fsync,
            limits: Limits::default(),
            clock: Arc::new(SystemClock),
            create: true,
            maintenance: true,
            reserve_bytes: 64 << 20,
            segment_bytes: 64 << 20,
            checkpoint_bytes: 64 << 20,
            idle_after: seconds(3),
        }
    }
}

impl Options {
    /// What an acknowledged change has survived: `fsync` (the default), `interval` or `os`.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Other bounds.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// A clock of your own, such as a [`ManualClock`](punctual::time::ManualClock).
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Whether to make the directory if it is not there; its parent must be. On by default.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whether the engine moves, expires, rescues and prunes by itself, between calls. On by
    /// default; a test that counts steps turns it off and calls
    /// [`maintain`](punctual::Engine::maintain).
    #[must_use]
    pub fn maintenance(mut self, maintenance: bool) -> Self {
        self.maintenance = maintenance;
        self
    }

    /// Bytes of the disk that are set aside, so that a full one lets jobs be claimed, settled and
    /// cancelled. 64 MiB by default. With less than that free besides, enqueue is refused.
    #[must_use]
    pub fn reserve_bytes(mut self, bytes: u64) -> Self {
        self.reserve_bytes = bytes;
        self
    }

    /// Bytes of recent rows that memory holds before a checkpoint writes them to the store.
    /// 64 MiB by default; log segments are as long.
    #[must_use]
    pub fn checkpoint_bytes(mut self, bytes: usize) -> Self {
        self.checkpoint_bytes = bytes;
        self.segment_bytes = bytes as u64;
        self
    }

    /// After that much real time without a call, recent rows go to the store and dead ones from it.
    /// 3 s by default.
    #[must_use]
    pub fn idle_after(mut self, span: Duration) -> Self {
        self.idle_after = span;
        self
    }

    /// Refuses what this engine cannot keep.
    pub(crate) fn check(&self) -> Result<()> {
        match self.durability {
            Durability::Fsync | Durability::Os => Ok(()),
            Durability::Interval(span) if !span.is_zero() => Ok(()),
            other => {
                let message =
                    "embedded engine cannot keep this durability; use fsync, interval or os";
                let error = Error::new(ErrorKind::DurabilityUnavailable, message);
                Err(error.with("durability", other))
            }
        }
    }
}
