//! Which of the hashes of a shard a record or a bundle is in.

use punctual::JobId;

use super::numbers::{PART_OF_NUMBER, PARTS};

/// The part of an id, which that byte has: bits 9 to 13 of its milliseconds, so that jobs
/// of one time are together.
pub(crate) fn of_id(id: JobId, byte: u8) -> usize {
    usize::from((id.as_bytes()[usize::from(byte) - 1] >> 1) % PARTS)
}

/// The part of a bundle: bits 19 to 23 of the microseconds of its number.
pub(crate) fn of_number(number: [u8; 11]) -> usize {
    usize::from((number[usize::from(PART_OF_NUMBER) - 1] >> 3) % PARTS)
}
