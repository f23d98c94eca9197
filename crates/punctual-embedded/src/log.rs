//! The commit log: the only thing that is synced before an answer.
//!
//! Segment files, each a header and records with consecutive numbers; `FORMAT.md` says byte by
//! byte. A new segment is begun at each opening and wherever one is long enough, and whole
//! segments go once a checkpoint has put what they say into the store.

mod record;
mod recovery;
mod renewal;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use punctual::{Error, ErrorKind, Result};

use crate::disk::{Disk, DiskFile, create_anew, is_full};
pub(crate) use record::FORMAT;
use record::{HEADER_BYTES, Header, Record, Seed};
pub(crate) use recovery::{Flaw, Recovery, Tail};
use renewal::Renewal;

/// How a log is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogOptions {
    /// Bytes after which a segment is long enough.
    pub(crate) segment_bytes: u64,
    /// Whether to write zeros ahead: syncing is twice as fast where the file does not grow.
    pub(crate) write_ahead: bool,
}

/// The end of a log that is written.
#[derive(Debug)]
pub(crate) struct Log {
    disk: Arc<dyn Disk>,
    options: LogOptions,
    instance: u128,
    segments: VecDeque<Segment>,
    file: Arc<dyn DiskFile>,
    /// Where the next record goes, and up to where the file is filled with zeros.
    at: u64,
    filled: u64,
    number: u64,
    /// A record that is to be written.
    staged: Vec<u8>,
}

#[derive(Debug)]
struct Segment {
    first: u64,
    bytes: u64,
}

/// Pieces in which a long segment is copied.
const PIECES: u64 = 8;
const ZEROS_MIN: u64 = 64 << 10;
const ZEROS_MAX: u64 = 1 << 20;

impl Log {
    /// Begins a log after a commit; what was there of a log before is superseded.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        instance: u128,
        last: u64,
    ) -> io::Result<Self> {
        let segment = Segment::new(last + 1);
        let file = write_segment(&*disk, instance, last + 1, &[])?;
        Ok(Self {
            disk,
            options,
            instance,
            segments: VecDeque::from([segment]),
            file,
            at: HEADER_BYTES as u64,
            filled: HEADER_BYTES as u64,
            number: last,
            staged: Vec::new(),
        })
    }

    /// Replays what a log has and the store has not, cuts a torn tail, and goes on behind it.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        instance: u128,
        applied: u64,
        replay: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<(Self, Option<Flaw>)> {
        let found = Found::read(&*disk, instance, applied, replay)?;
        let tail = found.recovery.finish()?;
        let log = Self::go_on(disk, options, instance, found.segments, &tail);
        let log = log.map_err(|error| unwritable(error, "log"))?;
        for segment in found.superseded {
            let name = segment.name();
            log.disk
                .remove(&name)
                .map_err(|error| unwritable(error, &name))?;
        }
        Ok((log, tail.cut))
    }

    fn go_on(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        instance: u128,
        segments: Vec<Segment>,
        tail: &Tail,
    ) -> io::Result<Self> {
        let Tail { last, cut, .. } = tail;
        for name in &tail.without_header {
            disk.remove(name)?;
        }
        if let Some(flaw) = cut {
            cut_at(&*disk, flaw)?;
        }
        let is_kept = |segment: &Segment| {
            let name = segment.name();
            let is_cut = cut.as_ref().is_some_and(|flaw| flaw.later.contains(&name));
            !is_cut && !tail.without_header.contains(&name) && segment.first <= *last
        };
        let kept: Vec<_> = segments.into_iter().filter(is_kept).collect();
        let mut old = VecDeque::new();
        for (place, segment) in kept.iter().enumerate() {
            let next = kept.get(place + 1);
            let renewal = Renewal {
                instance,
                durable: tail.durable,
                before: next.map_or(u64::MAX, |next| next.first),
                piece_bytes: options.segment_bytes / PIECES,
            };
            old.append(&mut renewal.renew(&*disk, segment)?);
        }
        let mut log = Self::begin(disk, options, instance, *last)?;
        old.append(&mut log.segments);
        log.segments = old;
        Ok(log)
    }

    /// The last commit.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// The file that is written now.
    pub(crate) fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// Whether the next record should begin a new segment.
    pub(crate) fn is_long(&self) -> bool {
        self.at >= self.options.segment_bytes
    }

    /// Whether the segment that is written now holds no commit yet: it needs no other after it,
    /// which would have its name.
    pub(crate) fn is_fresh(&self) -> bool {
        let begins_with = self.segments.back().map(|segment| segment.first);
        begins_with == Some(self.number + 1)
    }

    /// Prepares the next commit; `durable` is the last one known to be on disk.
    pub(crate) fn stage(&mut self, payload: &[u8], durable: u64) {
        debug_assert!(self.staged.is_empty(), "one commit after the other");
        let number = self.number + 1;
        let record = Record {
            number,
            durable,
            payload,
        };
        record.encode(Seed::of(self.instance), &mut self.staged);
    }

    /// Writes the commit that was prepared; after a failure it may be tried again.
    pub(crate) fn write(&mut self) -> io::Result<u64> {
        let end = self.at + self.staged.len() as u64;
        if self.options.write_ahead && end > self.filled {
            self.fill(end);
        }
        self.file.write_at(self.at, &self.staged)?;
        self.staged.clear();
        self.at = end;
        self.number += 1;
        if let Some(segment) = self.segments.back_mut() {
            segment.bytes = self.at.max(self.filled);
        }
        Ok(self.number)
    }

    /// Begins a new segment; answers the file that was written until now, to be synced.
    ///
    /// The new segment is named durably once the caller has synced the directory.
    pub(crate) fn roll(&mut self) -> io::Result<Arc<dyn DiskFile>> {
        debug_assert!(!self.is_fresh(), "a segment has its name alone");
        debug_assert!(
            self.staged.is_empty(),
            "a commit is written where it was tried first"
        );
        let segment = Segment::new(self.number + 1);
        let file = begin_segment(&*self.disk, self.instance, segment.first, &segment.name())?;
        self.segments.push_back(segment);
        self.at = HEADER_BYTES as u64;
        self.filled = self.at;
        Ok(std::mem::replace(&mut self.file, file))
    }

    /// Gives up the segments that hold nothing after a commit; answers their names, to be removed
    /// in this order once the segment that is written now is there durably.
    pub(crate) fn retire(&mut self, applied: u64) -> Vec<String> {
        let mut retired = Vec::new();
        while self
            .segments
            .get(1)
            .is_some_and(|second| second.first <= applied + 1)
        {
            retired.extend(self.segments.pop_front().map(|segment| segment.name()));
        }
        retired
    }

    /// Zeros up to a place and some more. Only a matter of speed: where it fails, the write says
    /// so.
    fn fill(&mut self, end: u64) {
        // Where filling failed before, commits were written beyond what is filled.
        let from = self.filled.max(self.at);
        let more = from
            .clamp(ZEROS_MIN, ZEROS_MAX)
            .min(self.options.segment_bytes);
        let zeros = vec![0; usize::try_from(end - from + more).unwrap_or(0)];
        if self.file.write_at(from, &zeros).is_ok() {
            self.filled = from + zeros.len() as u64;
        }
    }
}

/// A log as it was found.
pub(crate) struct Found {
    segments: Vec<Segment>,
    /// Segments before those, which the store has made superfluous.
    superseded: Vec<Segment>,
    pub(crate) recovery: Recovery,
}

impl Found {
    /// Reads what is there of a log behind a store that has everything up to a commit.
    pub(crate) fn read(
        disk: &dyn Disk,
        instance: u128,
        applied: u64,
        replay: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Self> {
        let mut segments = segments_of(disk).map_err(|error| unreadable(error, "log"))?;
        let kept = segments.partition_point(|segment| segment.first <= applied + 1);
        let superseded = segments.drain(..kept.saturating_sub(1)).collect();
        let first = segments.first().ok_or_else(no_log)?.first;
        if first > applied + 1 {
            return Err(store_is_behind(first, applied));
        }
        let mut recovery = Recovery::new(instance, disk.boot(), applied);
        for segment in &segments {
            let name = segment.name();
            let bytes = disk.read(&name).map_err(|error| unreadable(error, &name))?;
            recovery.segment(&name, &bytes, replay)?;
        }
        Ok(Self {
            segments,
            superseded,
            recovery,
        })
    }
}

/// Removes what stands at a flaw and after it.
pub(crate) fn cut_at(disk: &dyn Disk, flaw: &Flaw) -> io::Result<()> {
    // The later first: a cut that is not finished leaves the flaw that it cuts.
    for name in flaw.later.iter().rev() {
        disk.remove(name)?;
    }
    disk.sync_names()?;
    let file = disk.open(&flaw.segment)?;
    file.truncate(flaw.offset as u64)?;
    file.sync()
}

/// Bytes of a segment up to the end of its last whole record.
pub(crate) fn whole_bytes(instance: u128, segment: &[u8]) -> usize {
    let Ok(header) = Header::decode(segment) else {
        return 0;
    };
    let (mut at, mut next) = (HEADER_BYTES, header.first);
    let record =
        |at, next| Record::decode(Seed::of(instance), segment, at).filter(|r| r.number == next);
    while let Some(record) = record(at, next) {
        at += record.size();
        next += 1;
    }
    at
}

impl Segment {
    fn new(first: u64) -> Self {
        let bytes = HEADER_BYTES as u64;
        Self { first, bytes }
    }

    fn name(&self) -> String {
        format!("{PREFIX}{:016x}", self.first)
    }
}

const PREFIX: &str = "log-";
/// A segment that has no name yet.
const BEGUN: &str = "log-begun";

/// The number of the first commit of a log segment, by its name.
pub(crate) fn first_of(name: &str) -> Option<u64> {
    let hex = name.strip_prefix(PREFIX).filter(|hex| hex.len() == 16)?;
    u64::from_str_radix(hex, 16).ok()
}

/// Whether a file is one of the log's, by its name.
pub(crate) fn is_name(name: &str) -> bool {
    name == BEGUN || first_of(name).is_some()
}

/// The number of the first commit that the segments of a disk hold, if there are any.
pub(crate) fn first(disk: &dyn Disk) -> io::Result<Option<u64>> {
    Ok(segments_of(disk)?.first().map(|segment| segment.first))
}

/// Which data directory the segments of a disk say they belong to, if one of them can be read.
pub(crate) fn instance_of(disk: &dyn Disk) -> io::Result<Option<u128>> {
    for segment in segments_of(disk)? {
        if let Ok(header) = Header::decode(&disk.read(&segment.name())?) {
            return Ok(Some(header.instance));
        }
    }
    Ok(None)
}

/// Whether any segment of a disk holds more than its header.
pub(crate) fn has_commits(disk: &dyn Disk) -> io::Result<bool> {
    for segment in segments_of(disk)? {
        let bytes = disk.read(&segment.name())?;
        if bytes.iter().skip(HEADER_BYTES).any(|byte| *byte != 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn begin_segment(
    disk: &dyn Disk,
    instance: u128,
    first: u64,
    name: &str,
) -> io::Result<Arc<dyn DiskFile>> {
    let header = Header {
        first,
        instance,
        boot: disk.boot(),
    };
    let file = create_anew(disk, name)?;
    file.write_at(0, &header.encode())?;
    Ok(file)
}

/// Makes a segment with what it is to hold, durably and in one step: one of its name may be there,
/// and must be there whole if this fails.
fn write_segment(
    disk: &dyn Disk,
    instance: u128,
    first: u64,
    records: &[u8],
) -> io::Result<Arc<dyn DiskFile>> {
    let file = begin_segment(disk, instance, first, BEGUN)?;
    if !records.is_empty() {
        file.write_at(HEADER_BYTES as u64, records)?;
    }
    file.sync()?;
    disk.rename(BEGUN, &Segment::new(first).name())?;
    disk.sync_names()?;
    Ok(file)
}

/// The segments that are there, in order.
fn segments_of(disk: &dyn Disk) -> io::Result<Vec<Segment>> {
    let names = disk.names()?.into_iter();
    let segment =
        |(name, bytes): (String, u64)| first_of(&name).map(|first| Segment { first, bytes });
    let mut segments: Vec<_> = names.filter_map(segment).collect();
    segments.sort_by_key(|segment| segment.first);
    Ok(segments)
}

fn no_log() -> Error {
    let message = "log of the data directory is missing; restore it from a backup";
    Error::new(ErrorKind::DataDamaged, message)
}

fn store_is_behind(first: u64, applied: u64) -> Error {
    let message =
        "commits between store and log are missing; restore the data directory from a backup";
    Error::new(ErrorKind::DataDamaged, message)
        .with("store_ends_with", applied)
        .with("log_begins_with", first)
}

fn unreadable(error: io::Error, name: &str) -> Error {
    let message = "data directory could not be read";
    Error::new(ErrorKind::Io, message)
        .with("file", name)
        .source(error)
}

fn unwritable(error: io::Error, name: &str) -> Error {
    let (kind, message) = if is_full(&error) {
        let message = "disk is full: the data directory cannot be written; free some space";
        (ErrorKind::EngineFull, message)
    } else {
        (ErrorKind::Io, "data directory could not be written")
    };
    Error::new(kind, message).with("file", name).source(error)
}
