//! How a worker ends.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};

use super::ending::Cause;
use super::runtime::{Phase, Runtime};
use crate::time::{millis, seconds, within};

/// When a worker is to end, and how fast.
///
/// Made of any future: when that is done, the worker stops claiming, hands back what it has
/// claimed ahead, and lets its handlers end up to its drain limit; then it hands back the rest.
///
/// ```
/// # use punctual::worker::Shutdown;
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let shutdown = Shutdown::from(async { drop(stopped.await) });
/// # drop((stop, shutdown));
/// ```
pub struct Shutdown {
    pub(super) drain: BoxFuture<'static, ()>,
    pub(super) release: BoxFuture<'static, ()>,
}

impl Shutdown {
    /// Begins to drain when the first future is done, and hands everything back at once when the
    /// second one is.
    pub fn new(
        drain: impl Future<Output = ()> + Send + 'static,
        release: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self {
            drain: drain.boxed(),
            release: release.boxed(),
        }
    }
}

impl<F: Future<Output = ()> + Send + 'static> From<F> for Shutdown {
    fn from(drain: F) -> Self {
        Self::new(drain, std::future::pending())
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shutdown")
    }
}

/// A shutdown by SIGTERM or SIGINT (Ctrl-C): the first one drains, a second one releases at once.
///
/// # Panics
/// Outside of a tokio runtime that has its I/O driver enabled, as `#[tokio::main]` has.
pub fn shutdown_signal() -> Shutdown {
    let (count, counted) = tokio::sync::watch::channel(0_u32);
    let mut signals = Signals::new();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = signals.next() => {}
                () = count.closed() => return,
            }
            count.send_modify(|count| *count += 1);
            tracing::info!(signals = *count.borrow(), "asked to end");
        }
    });
    let reached = |least: u32| {
        let mut counted = counted.clone();
        async move {
            // The sender lives as long as a receiver lives.
            let _ = counted.wait_for(|count| *count >= least).await;
        }
    };
    Shutdown::new(reached(1), reached(2))
}

#[cfg(unix)]
struct Signals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(unix)]
impl Signals {
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).expect("the system refuses to deliver signals");
        Self(
            listen(SignalKind::terminate()),
            listen(SignalKind::interrupt()),
        )
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Self {
        Self
    }

    async fn next(&mut self) {
        tokio::signal::ctrl_c()
            .await
            .expect("the system refuses to deliver Ctrl-C");
    }
}

/// Handlers that a second signal releases have that long to stop by themselves.
const RELEASE_GRACE: Duration = millis(200);
/// What has ended may take that long to be settled; then its lease runs out.
const FLUSH_MAX: Duration = seconds(5);

impl Runtime {
    /// From the first signal to the last answer of the engine.
    pub(super) async fn wind_down(&self, mut release: BoxFuture<'static, ()>) {
        self.enter(Phase::Draining);
        self.activity.draining();
        let ahead = self.board().release_ahead();
        self.settle.notify_one();
        let running = self.board().runs.len();
        tracing::info!(running, released = ahead, "worker drains");

        let drained = within(self.setup.drain_limit, self.until(|board| board.is_idle()));
        let ended = tokio::select! {
            drained = drained => drained.map_or(Ended::Late, |()| Ended::InTime),
            () = &mut release => Ended::Released,
        };
        self.enter(Phase::Releasing);
        if ended == Ended::Late {
            // As long as after any other request to stop, unless a second signal comes.
            self.release(self.setup.abort_grace);
            tokio::select! {
                () = self.until(|board| board.is_idle()) => {}
                () = &mut release => self.release(RELEASE_GRACE),
            }
        } else if ended == Ended::Released {
            self.release(RELEASE_GRACE);
        }
        // The watch ends every run: by itself, aborted, or given up as blocked.
        self.until(|board| board.is_idle()).await;
        self.settle.notify_one();
        if within(FLUSH_MAX, self.until(|board| board.is_quiet()))
            .await
            .is_none()
        {
            let unsettled = self.board().unsettled();
            tracing::error!(unsettled, "engine did not answer; these leases run out");
        }
        self.enter(Phase::Over);
    }

    /// Asks what runs to stop, and aborts it after that span.
    fn release(&self, grace: Duration) {
        let running = {
            let mut board = self.board();
            board.stop_all(Cause::Shutdown, self.now().saturating_add(grace));
            board.runs.len()
        };
        tracing::warn!(running, "worker releases what still runs");
        self.watch.notify_one();
    }
}

/// How the drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// No handler was left.
    InTime,
    /// The drain limit passed.
    Late,
    /// By a second signal.
    Released,
}
