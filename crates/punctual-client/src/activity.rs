//! The activity of a connection: a deadline counts the time without a byte, not the size of a body.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use punctual::sync::Lock;
use punctual::time::{Stopwatch, within};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Runs from the last byte that moved, in either direction.
#[derive(Debug, Clone)]
pub(crate) struct Activity(Arc<Mutex<Stopwatch>>);

impl Activity {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Stopwatch::start())))
    }

    /// What the future answers, unless nothing moves for so long; it begins to count now.
    pub(crate) async fn unless_silent<F: Future>(
        &self,
        silence: Duration,
        future: F,
    ) -> Option<F::Output> {
        self.beat();
        let mut future = pin!(future);
        loop {
            let left = silence.saturating_sub(self.last().elapsed());
            if let Some(output) = within(left, future.as_mut()).await {
                return Some(output);
            }
            if self.last().elapsed() >= silence {
                return None;
            }
        }
    }

    fn beat(&self) {
        *self.last() = Stopwatch::start();
    }

    fn last(&self) -> MutexGuard<'_, Stopwatch> {
        self.0.locked()
    }
}

/// A stream that reports every byte to its activity.
pub(crate) struct ActivityStream<S> {
    pub(crate) stream: S,
    pub(crate) activity: Activity,
}

impl<S: AsyncRead + Unpin> AsyncRead for ActivityStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        if into.filled().len() > before {
            self.activity.beat();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> ActivityStream<S> {
    fn written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.activity.beat();
        }
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ActivityStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
