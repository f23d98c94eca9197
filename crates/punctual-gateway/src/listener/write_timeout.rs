//! The write timeout: a connection ends once a write has moved no byte for that long. A client that
//! reads nothing would otherwise hold a permit and an answer of many megabytes.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;
use punctual::time::seconds;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::upgrade::Upgrade;

/// The byte stream under a connection.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Writes what there is room for, even if the system did not report the socket as writable. It
    /// does that only once a third of its buffer is free, which a slow reader may not reach in
    /// time.
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Discards, at the end, bytes that were written but not read: the system would keep them for
    /// minutes.
    fn discard_unsent(&self);
}

impl Transport for TcpStream {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let same = self.as_fd().try_clone_to_owned()?;
        std::net::TcpStream::from(same).write(bytes)
    }

    fn discard_unsent(&self) {
        // If it cannot be said, the system lets go by itself, later.
        let _ = self.set_zero_linger();
    }
}

impl Transport for UnixStream {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let same = self.as_fd().try_clone_to_owned()?;
        std::os::unix::net::UnixStream::from(same).write(bytes)
    }

    fn discard_unsent(&self) {}
}

/// Extra time of a WebSocket: it has its own timeout of the same length, and then sends a close
/// frame.
const FOR_SOCKETS: Duration = seconds(5);

/// A stream that fails once a write to it has moved no byte for the timeout.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    timeout: Duration,
    upgrade: Upgrade,
    timer: TokioTimer,
    /// Made by the first write that has to wait.
    end: Option<Pin<Box<dyn Sleep>>>,
    /// Whether the last write moved nothing.
    waits: bool,
}

impl<S: Transport> WriteTimeout<S> {
    pub(crate) fn new(stream: S, timeout: Duration, upgrade: Upgrade) -> Self {
        Self {
            stream,
            timeout,
            upgrade,
            timer: TokioTimer::new(),
            end: None,
            waits: false,
        }
    }

    /// The answer of a write of these bytes, of which the stream took none.
    fn wait(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let timeout = match self.upgrade.is() {
            false => self.timeout,
            true => self.timeout + FOR_SOCKETS,
        };
        let end = self.end.get_or_insert_with(|| self.timer.sleep(timeout));
        if !std::mem::replace(&mut self.waits, true) {
            self.timer.reset(end, self.timer.now() + timeout);
        }
        ready!(end.as_mut().poll(cx));
        match self.stream.write_now(bytes) {
            Ok(moved) if moved > 0 => {
                self.waits = false;
                Poll::Ready(Ok(moved))
            }
            _ => {
                self.stream.discard_unsent();
                let message = "the client reads nothing";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
            }
        }
    }
}

impl<S: Transport> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl<S: Transport> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_write(cx, bytes) {
            Poll::Pending => this.wait(cx, bytes),
            moved => {
                this.waits = false;
                moved
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_write_vectored(cx, parts) {
            Poll::Pending => {
                let first = parts.iter().find(|part| !part.is_empty());
                this.wait(cx, first.map_or(&[][..], |part| part))
            }
            moved => {
                this.waits = false;
                moved
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // Neither waits for a reader: nothing is kept in front of the system.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
