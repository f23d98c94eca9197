//! Cursors: where a walk goes on, bound to its request, so that no cursor leads out of it.
//!
//! A cursor is a check of the request (verb, namespace, index, filter) and a position. A position
//! leaves out what the request fixes, such as the namespace or the queue: the engine puts it back,
//! so that the bytes of a caller never name a row of another tenant.

use std::fmt;

use bytes::Bytes;

use super::codec::{Reader, Writer};
use super::table::Key;
use crate::engine::Cursor;
use crate::error::{Error, ErrorKind, Result};

/// The request that a cursor belongs to.
pub(super) struct Request([u8; 8]);

impl Request {
    /// A request by everything that distinguishes it from another one.
    pub(super) fn of(request: fmt::Arguments<'_>) -> Self {
        let text = request.to_string();
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hash.to_be_bytes())
    }

    /// The position of a cursor; refuses the cursor of another request.
    pub(super) fn position<'a>(&self, cursor: Option<&'a Cursor>) -> Result<Option<&'a [u8]>> {
        let Some(Cursor(bytes)) = cursor else {
            return Ok(None);
        };
        let position = bytes.strip_prefix(&self.0[..]).ok_or_else(bad_cursor)?;
        Ok(Some(position))
    }

    /// The position of a cursor that is a text; refuses the cursor of another request.
    pub(super) fn text<'a>(&self, cursor: Option<&'a Cursor>) -> Result<Option<&'a str>> {
        let position = self.position(cursor)?;
        let text = position.map(std::str::from_utf8).transpose();
        text.map_err(|_| bad_cursor())
    }

    /// The cursor of a position.
    pub(super) fn cursor(&self, position: &[u8]) -> Cursor {
        Cursor(Bytes::from([&self.0[..], position].concat()))
    }
}

/// The part of a key that a request fixes: the bytes of its first key, without the last ones.
pub(super) struct Fixed(Vec<u8>);

impl Fixed {
    /// All of a key but its last `open` bytes.
    pub(super) fn but_last<K: Key>(key: &K, open: usize) -> Self {
        let mut bytes = bytes_of(key);
        bytes.truncate(bytes.len().saturating_sub(open));
        Self(bytes)
    }

    /// The first bytes of a key.
    pub(super) fn first<K: Key>(key: &K, fixed: usize) -> Self {
        let mut bytes = bytes_of(key);
        bytes.truncate(fixed);
        Self(bytes)
    }

    /// The position of a key that begins with this part.
    pub(super) fn write<K: Key>(&self, key: &K) -> Vec<u8> {
        let mut bytes = bytes_of(key);
        debug_assert!(bytes.starts_with(&self.0), "an index answers its own rows");
        bytes.drain(..self.0.len().min(bytes.len()));
        bytes
    }

    /// The key of a position.
    pub(super) fn read<K: Key>(&self, position: Option<&[u8]>) -> Result<Option<K>> {
        let Some(position) = position else {
            return Ok(None);
        };
        let bytes = [&self.0[..], position].concat();
        let mut reader = Reader(&bytes);
        let key = K::read(&mut reader).map_err(|_| bad_cursor())?;
        if !reader.0.is_empty() {
            return Err(bad_cursor());
        }
        Ok(Some(key))
    }
}

fn bytes_of<K: Key>(key: &K) -> Vec<u8> {
    let mut writer = Writer::default();
    key.write(&mut writer);
    writer.0
}

pub(super) fn bad_cursor() -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        "cursor is not of this request; start again without one",
    )
}
