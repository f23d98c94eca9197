//! Bytes of keys and values: big-endian keys that sort as their fields do, compact values.
//!
//! `FORMAT.md` of the embedded engine describes each row; a change here is a change of format.

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::job::JobId;
use crate::time::Timestamp;

/// Appends fields to a buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }
    pub(crate) fn bool(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }
    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }
    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }
    pub(crate) fn u128(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }
    pub(crate) fn time(&mut self, value: Timestamp) {
        self.u64(value.as_micros());
    }
    pub(crate) fn id(&mut self, id: JobId) {
        self.0.extend_from_slice(id.as_bytes());
    }
    /// LEB128: seven bits a byte, the lowest first.
    pub(crate) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }
    pub(crate) fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }
    /// A text inside a key: it holds no NUL, so a NUL ends it and order is kept.
    pub(crate) fn key_text(&mut self, value: &str) {
        debug_assert!(
            !value.as_bytes().contains(&0),
            "names and keys hold no control characters"
        );
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(0);
    }
    pub(crate) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            None => self.u8(0),
            Some(value) => {
                self.u8(1);
                write(self, value);
            }
        }
    }
    pub(crate) fn list<T>(&mut self, values: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.varint(values.len() as u64);
        for value in values {
            write(self, value);
        }
    }
}

/// Takes fields off a buffer; every take says `damaged` when the bytes end early.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

pub(crate) fn damaged(what: &str) -> Error {
    Error::new(
        ErrorKind::DataDamaged,
        format!("stored {what} cannot be read; run `punctual repair`"),
    )
}

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        if self.0.len() < n {
            return Err(damaged("row"));
        }
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        Ok(head)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }
    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }
    /// The first byte of a value, which must be this one.
    pub(crate) fn first_byte(&mut self, known: u8) -> Result<()> {
        match self.u8()? {
            first if first == known => Ok(()),
            _ => Err(damaged("row")),
        }
    }
    pub(crate) fn bool(&mut self) -> Result<bool> {
        Ok(self.u8()? != 0)
    }
    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }
    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }
    pub(crate) fn u128(&mut self) -> Result<u128> {
        Ok(u128::from_be_bytes(self.array()?))
    }
    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        Ok(Timestamp::from_micros(self.u64()?))
    }
    pub(crate) fn id(&mut self) -> Result<JobId> {
        Ok(JobId::from_bytes(self.array()?))
    }
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("number"))
    }
    pub(crate) fn bytes(&mut self) -> Result<Bytes> {
        let len = self.length()?;
        Ok(Bytes::copy_from_slice(self.take(len)?))
    }
    pub(crate) fn text(&mut self) -> Result<String> {
        let len = self.length()?;
        let bytes = self.take(len)?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| damaged("text"))
    }
    pub(crate) fn key_text(&mut self) -> Result<String> {
        let end = self
            .0
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| damaged("key"))?;
        let bytes = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| damaged("key"))
    }
    pub(crate) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.bool()? {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }
    pub(crate) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let len = self.length()?;
        (0..len).map(|_| read(self)).collect()
    }
    /// A length never exceeds what is left: a damaged one allocates nothing.
    fn length(&mut self) -> Result<usize> {
        let len = usize::try_from(self.varint()?).map_err(|_| damaged("length"))?;
        if len > self.0.len() {
            Err(damaged("length"))
        } else {
            Ok(len)
        }
    }
}
