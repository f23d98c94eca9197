//! The packed forms of `docs/wire-protocol.md`: big-endian numbers, lengths before what varies.

pub(crate) mod bundle;
pub(crate) mod claim;
pub(crate) mod control;
pub(crate) mod edit;
pub(crate) mod ends;
pub(crate) mod enqueue;
pub(crate) mod extend;
pub(crate) mod flow;
pub(crate) mod guard;
pub(crate) mod inspect;
pub(crate) mod mp;
pub(crate) mod numbers;
pub(crate) mod opts;
pub(crate) mod outbox;
pub(crate) mod parts;
pub(crate) mod record;
pub(crate) mod schedule;
pub(crate) mod settle;
pub(crate) mod spec;
pub(crate) mod stats;

use std::time::Duration;

use punctual::engine::Token;
use punctual::time::Timestamp;
use punctual::{Error, ErrorKind, JobId, Result};

/// What a shard calls itself, so that one that lost its data is known; zeros while not known.
pub(crate) type Instance = [u8; 8];

/// What each call costs a server besides its items, in microseconds.
const CALL_US: usize = 8;

/// A packed call: its arguments, most often one.
#[derive(Debug)]
pub(crate) struct Packed(pub(crate) Vec<Vec<u8>>);

impl Packed {
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

impl From<Vec<u8>> for Packed {
    fn from(only: Vec<u8>) -> Self {
        Self(vec![only])
    }
}

/// Writes a packed form.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u16(&mut self, value: usize) -> &mut Self {
        self.bytes(&u16::try_from(value).unwrap_or(u16::MAX).to_be_bytes())
    }

    pub(crate) fn u32(&mut self, value: usize) -> &mut Self {
        self.bytes(&u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A name, whose length is checked to be at most 128.
    pub(crate) fn name(&mut self, name: &str) -> &mut Self {
        self.u8(name.len() as u8).bytes(name.as_bytes())
    }

    /// Bytes after their length in four.
    pub(crate) fn long(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len()).bytes(bytes)
    }

    pub(crate) fn token(&mut self, token: Token) -> &mut Self {
        self.u64(token.fence).u64(token.nonce)
    }

    pub(crate) fn id(&mut self, id: JobId) -> &mut Self {
        self.bytes(id.as_bytes())
    }
}

/// Reads a packed form; what does not fit it is damage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| damaged())
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<usize> {
        Ok(u16::from_be_bytes(self.array()?).into())
    }

    pub(crate) fn u32(&mut self) -> Result<usize> {
        Ok(u32::from_be_bytes(self.array()?) as usize)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn instant(&mut self) -> Result<Timestamp> {
        Ok(Timestamp::from_micros(self.u64()?))
    }

    /// An instant, or none for zero.
    pub(crate) fn some_instant(&mut self) -> Result<Option<Timestamp>> {
        let instant = self.instant()?;
        Ok(Some(instant).filter(|instant| *instant != Timestamp::ZERO))
    }

    pub(crate) fn id(&mut self) -> Result<JobId> {
        Ok(JobId::from_bytes(self.array()?))
    }

    pub(crate) fn ids(&mut self) -> Result<Vec<JobId>> {
        let count = self.u16()?;
        (0..count).map(|_| self.id()).collect()
    }

    pub(crate) fn token(&mut self) -> Result<Token> {
        let (fence, nonce) = (self.u64()?, self.u64()?);
        Ok(Token::new(fence, nonce))
    }

    pub(crate) fn instance(&mut self) -> Result<Instance> {
        self.array()
    }

    pub(crate) fn name(&mut self) -> Result<String> {
        let length = self.u8()?;
        text(self.take(length.into())?)
    }

    pub(crate) fn long(&mut self) -> Result<&'a [u8]> {
        let length = self.u32()?;
        self.take(length)
    }

    pub(crate) fn end(self) -> Result<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(damaged())
        }
    }
}

pub(crate) fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| damaged())
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// What a server answered cannot be read.
pub(crate) fn damaged() -> Error {
    let message = "redis holds what this version of punctual cannot read; is another program \
         writing under punctual:, or a newer version?";
    Error::new(ErrorKind::DataDamaged, message)
}

#[cfg(test)]
mod tests;
