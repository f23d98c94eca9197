//! Strict HTTP/1 framing against request smuggling: at most one length, and CRLF at every line end.
//! hyper accepts a repeated length, a length beside chunks, and a bare LF. A proxy in front may
//! parse such a message differently, so that one user's body becomes another user's request.
//! Correct clients never send these. [`guard`](crate::guard) refuses a second Host header, which
//! moves no boundary.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::upgrade::Upgrade;

/// A stream of requests. At a second length or a bare LF it writes a NUL byte, which every HTTP
/// parser refuses, and reads no further.
pub(crate) struct StrictFraming<S> {
    stream: S,
    reader: Reader,
    is_over: bool,
    /// From then on it carries something else than HTTP.
    upgrade: Upgrade,
}

impl<S> StrictFraming<S> {
    pub(crate) fn new(stream: S, upgrade: Upgrade) -> Self {
        Self {
            stream,
            reader: Reader::default(),
            is_over: false,
            upgrade,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StrictFraming<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        let came = &buf.filled()[before..];
        if this.upgrade.is() {
            return Poll::Ready(this.upgrade.came(came.len()));
        }
        if let Some(at) = this.reader.read(came) {
            buf.filled_mut()[before + at] = b'\0';
            buf.set_filled(before + at + 1);
            this.is_over = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StrictFraming<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

const CONTENT_LENGTH: &[u8] = b"content-length";
const TRANSFER_ENCODING: &[u8] = b"transfer-encoding";
/// Bytes of a header's name that are kept: one more than the longest known name.
const NAME_BYTES: usize = TRANSFER_ENCODING.len() + 1;

/// Follows requests byte by byte, as far as it takes to know where heads are. What is no HTTP it
/// may misread: hyper refuses that and closes.
#[derive(Debug, Default)]
struct Reader {
    at: At,
    name: Vec<u8>,
    length: Option<u64>,
    is_chunked: bool,
    /// The byte before, within a line.
    last: u8,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    /// Before a request; empty lines may stand there.
    #[default]
    Start,
    LineStart,
    Name,
    /// What goes on to the end of the line.
    Rest,
    /// The value of the length.
    Length,
    /// Bytes that are no head.
    Body(u64),
    ChunkSize(u64),
    /// What follows the size of a chunk of that many bytes.
    ChunkExtension(u64),
    Chunk(u64),
    ChunkEnd,
    TrailerStart,
    Trailer,
}

impl Reader {
    /// Reads on; where a head names a second length, or a line ends in a bare LF.
    fn read(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut next = 0;
        while let Some(byte) = bytes.get(next) {
            if let At::Body(left) | At::Chunk(left) = self.at {
                let here = left.min((bytes.len() - next) as u64);
                next += here as usize;
                self.at = match (self.at, left - here) {
                    (At::Body(_), 0) => At::Start,
                    (At::Body(_), left) => At::Body(left),
                    (_, 0) => At::ChunkEnd,
                    (_, left) => At::Chunk(left),
                };
                self.last = 0;
                continue;
            }
            let before = std::mem::replace(&mut self.last, *byte);
            if *byte == b'\n' && before != b'\r' {
                return Some(next);
            }
            match self.step(*byte) {
                Some(at) => self.at = at,
                None => return Some(next),
            }
            next += 1;
        }
        None
    }

    /// What follows a byte; nothing if it ends the name of a second length.
    fn step(&mut self, byte: u8) -> Option<At> {
        Some(match (self.at, byte) {
            (At::Start, b'\r' | b'\n') => At::Start,
            (At::LineStart, b'\r') => At::LineStart,
            (At::LineStart, b'\n') => self.end_head(),
            (At::Start | At::Rest, byte) => match byte {
                b'\n' => At::LineStart,
                _ => At::Rest,
            },
            (At::LineStart | At::Name, b':') => return self.end_name(),
            (At::Name, b'\n') => At::LineStart,
            (At::LineStart | At::Name, byte) => {
                if self.name.len() < NAME_BYTES {
                    self.name.push(byte.to_ascii_lowercase());
                }
                At::Name
            }
            (At::Length, b'\n') => At::LineStart,
            (At::Length, byte) => {
                let digit = u64::from(byte.wrapping_sub(b'0'));
                if digit < 10 {
                    let length = self.length.unwrap_or(0);
                    self.length = Some(length.saturating_mul(10).saturating_add(digit));
                }
                At::Length
            }
            (At::ChunkSize(size) | At::ChunkExtension(size), b'\n') => match size {
                0 => At::TrailerStart,
                size => At::Chunk(size),
            },
            (At::ChunkSize(size), byte) => match (byte as char).to_digit(16) {
                Some(digit) => At::ChunkSize(size.saturating_mul(16).saturating_add(digit.into())),
                None => At::ChunkExtension(size),
            },
            (At::ChunkExtension(size), _) => At::ChunkExtension(size),
            (At::ChunkEnd, b'\n') => At::ChunkSize(0),
            (At::ChunkEnd, _) => At::ChunkEnd,
            (At::TrailerStart, b'\r') => At::TrailerStart,
            (At::TrailerStart, b'\n') => At::Start,
            (At::Trailer, b'\n') => At::TrailerStart,
            (At::TrailerStart | At::Trailer, _) => At::Trailer,
            (at @ (At::Body(_) | At::Chunk(_)), _) => at,
        })
    }

    fn end_name(&mut self) -> Option<At> {
        let name = std::mem::take(&mut self.name);
        let (is_length, is_coding) = (name == CONTENT_LENGTH, name == TRANSFER_ENCODING);
        let has_one = self.length.is_some() || self.is_chunked;
        if (is_length || is_coding) && has_one {
            return None;
        }
        self.is_chunked |= is_coding;
        if is_length {
            self.length = Some(0);
            return Some(At::Length);
        }
        Some(At::Rest)
    }

    fn end_head(&mut self) -> At {
        let length = self.length.take().unwrap_or(0);
        if std::mem::take(&mut self.is_chunked) {
            return At::ChunkSize(0);
        }
        match length {
            0 => At::Start,
            length => At::Body(length),
        }
    }
}

#[cfg(test)]
mod tests;
