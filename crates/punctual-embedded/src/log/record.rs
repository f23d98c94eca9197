//! The bytes of the log: one header per segment, then records. Pure: bytes in, records out.

use crc32fast::Hasher;
use punctual::injected::{Bug, is_injected};

const MAGIC: &[u8; 8] = b"PUNCTUAL";
/// The version of everything that `FORMAT.md` describes.
pub(crate) const FORMAT: u32 = 1;
/// Bytes of a segment before its first record.
pub(crate) const HEADER_BYTES: usize = 56;
/// Bytes of a record before its payload.
pub(crate) const RECORD_BYTES: usize = 24;

/// What stands at the start of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The number of its first record.
    pub(crate) first: u64,
    /// Which data directory it belongs to.
    pub(crate) instance: u128,
    /// The run of the machine in which it was written, 0 if unknown.
    pub(crate) boot: u128,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoHeader {
    /// A later version of this program wrote it.
    Newer(u32),
    /// It never was one, or is one no more.
    Damaged,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.first.to_be_bytes());
        bytes[20..36].copy_from_slice(&self.instance.to_be_bytes());
        bytes[36..52].copy_from_slice(&self.boot.to_be_bytes());
        let crc = crc32fast::hash(&bytes[..52]);
        bytes[52..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    pub(crate) fn decode(segment: &[u8]) -> Result<Self, NoHeader> {
        let bytes = segment.get(..HEADER_BYTES).ok_or(NoHeader::Damaged)?;
        let is_whole = u32_at(bytes, 52) == crc32fast::hash(&bytes[..52]);
        if &bytes[..8] != MAGIC || !is_whole {
            return Err(NoHeader::Damaged);
        }
        match u32_at(bytes, 8) {
            1..=FORMAT => {}
            version if version > FORMAT => return Err(NoHeader::Newer(version)),
            _ => return Err(NoHeader::Damaged),
        }
        Ok(Self {
            first: u64_at(bytes, 12),
            instance: u128_at(bytes, 20),
            boot: u128_at(bytes, 36),
        })
    }
}

/// What the checksums of a directory's records start with: bytes made elsewhere, such as a payload
/// that holds a copy of a log, never pass for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(u32);

impl Seed {
    pub(crate) fn of(instance: u128) -> Self {
        Self(crc32fast::hash(&instance.to_be_bytes()))
    }

    /// Over everything but the checksum itself.
    fn checksum(self, record: &[u8]) -> u32 {
        let mut hasher = Hasher::new_with_initial(self.0);
        hasher.update(&record[..4]);
        hasher.update(&record[8..]);
        hasher.finalize()
    }
}

/// One commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// One more than the record before.
    pub(crate) number: u64,
    /// The last commit known to be on disk when this one was written.
    pub(crate) durable: u64,
    /// The mutations of its steps.
    pub(crate) payload: &'a [u8],
}

impl<'a> Record<'a> {
    pub(crate) fn encode(&self, seed: Seed, to: &mut Vec<u8>) {
        let start = to.len();
        let len = u32::try_from(self.payload.len()).expect("a commit is far below 4 GiB");
        to.extend_from_slice(&len.to_be_bytes());
        to.extend_from_slice(&[0; 4]);
        to.extend_from_slice(&self.number.to_be_bytes());
        to.extend_from_slice(&self.durable.to_be_bytes());
        to.extend_from_slice(self.payload);
        let crc = seed.checksum(&to[start..]);
        to[start + 4..start + 8].copy_from_slice(&crc.to_be_bytes());
    }

    /// The record at a place, if one stands there whole.
    pub(crate) fn decode(seed: Seed, segment: &'a [u8], at: usize) -> Option<Self> {
        let bytes = segment.get(at..)?;
        let head = bytes.get(..RECORD_BYTES)?;
        let len = usize::try_from(u32_at(head, 0)).ok()?;
        let whole = bytes.get(..RECORD_BYTES.checked_add(len)?)?;
        // A commit is never empty, and the zeros of a segment's unused end are no record.
        let is_whole = u32_at(head, 4) == seed.checksum(whole) || is_injected(Bug::ChecksumIgnored);
        if len == 0 || !is_whole {
            return None;
        }
        Some(Self {
            number: u64_at(head, 8),
            durable: u64_at(head, 16),
            payload: &whole[RECORD_BYTES..],
        })
    }

    /// The first whole record from a place on whose number is after `after`, wherever it starts.
    pub(crate) fn find(
        seed: Seed,
        segment: &'a [u8],
        from: usize,
        after: u64,
    ) -> Option<(usize, Self)> {
        // A log never holds so many commits: most places are passed over without a checksum.
        let most = after.saturating_add(1 << 32);
        let last = segment.len().checked_sub(RECORD_BYTES)?;
        (from..=last).find_map(|at| {
            let number = u64_at(segment, at + 8);
            if number <= after || number > most {
                return None;
            }
            Self::decode(seed, segment, at).map(|record| (at, record))
        })
    }

    /// Bytes that it takes in a segment.
    pub(crate) fn size(&self) -> usize {
        RECORD_BYTES + self.payload.len()
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array_at(bytes, at))
}

fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_be_bytes(array_at(bytes, at))
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}
