//! What an earlier run wrote, made durable: commits that no sync is known to have covered are
//! copied.
//!
//! To sync their file once more would prove nothing: after a sync that failed, a system may have
//! dropped what it could not write, and show it all the same until the power is cut.

use std::collections::VecDeque;
use std::io;

use super::record::{HEADER_BYTES, Header, Record, Seed};
use super::{Segment, write_segment};
use crate::disk::Disk;

/// The commits that a segment is to hold, and what is known of them.
pub(super) struct Renewal {
    pub(super) instance: u128,
    /// The last commit that is known to be on disk.
    pub(super) durable: u64,
    /// The first commit of the next segment: what stands here of it was copied there.
    pub(super) before: u64,
    /// Bytes that are copied at a time: so much room is needed, on a disk that may be full.
    pub(super) piece_bytes: u64,
}

impl Renewal {
    /// Makes a segment durable; answers the segments that hold its commits now, in order.
    ///
    /// The last commits go first, each piece to a segment of its own, and are then cut off here. A
    /// stop in between leaves commits in both, which reading back passes over.
    pub(super) fn renew(
        &self,
        disk: &dyn Disk,
        segment: &Segment,
    ) -> io::Result<VecDeque<Segment>> {
        let name = segment.name();
        let bytes = disk.read(&name)?;
        let starts = self.starts(&bytes);
        let known = starts.len() - 1;
        let durable = self.durable.saturating_add(1).saturating_sub(segment.first);
        let durable = usize::try_from(durable).map_or(known, |durable| durable.min(known));
        let (mut doubtful, mut end) = (&starts[durable..known], starts[known]);
        let mut renewed = VecDeque::new();
        let file = disk.open(&name)?;
        let cut = |end: usize| file.truncate(end as u64);
        if end < bytes.len() {
            cut(end)?;
        }
        while let Some(last) = doubtful.len().checked_sub(1) {
            let is_too_much = |at: &usize| (end - at) as u64 > self.piece_bytes;
            let piece = doubtful.partition_point(is_too_much).min(last);
            let at = doubtful[piece];
            let piece_first = segment.first + (durable + piece) as u64;
            write_segment(disk, self.instance, piece_first, &bytes[at..end])?;
            renewed.push_front(Segment {
                first: piece_first,
                bytes: (HEADER_BYTES + end - at) as u64,
            });
            if piece_first == segment.first {
                // It has taken the name, and with it the place.
                return Ok(renewed);
            }
            cut(at)?;
            (doubtful, end) = (&doubtful[..piece], at);
        }
        file.sync()?;
        renewed.push_front(Segment {
            first: segment.first,
            bytes: end as u64,
        });
        Ok(renewed)
    }

    /// Where each commit starts that is to be held, and where the last one ends.
    fn starts(&self, segment: &[u8]) -> Vec<usize> {
        let mut starts = vec![HEADER_BYTES.min(segment.len())];
        let Ok(Header { first, .. }) = Header::decode(segment) else {
            return starts;
        };
        for number in first..self.before {
            let at = starts[starts.len() - 1];
            let record = Record::decode(Seed::of(self.instance), segment, at);
            match record.filter(|record| record.number == number) {
                Some(record) => starts.push(at + record.size()),
                None => break,
            }
        }
        starts
    }
}
