//! Reading a log back: what is whole is replayed, a torn tail is cut, damage is refused. Pure.
//!
//! A process that is killed leaves a prefix of what it wrote. A power cut may leave holes in what
//! was not synced yet. So a flaw with something whole behind it is a hole only if nothing behind
//! it knew the missing commit to be on disk, and the machine has started anew since. Anything else
//! is damage: bytes that were kept once and are kept no more.

use punctual::{Error, ErrorKind, Result};

use super::record::{HEADER_BYTES, Header, NoHeader, Record, Seed};

/// Takes the segments of one log in order.
#[derive(Debug)]
pub(crate) struct Recovery {
    instance: u128,
    boot: u128,
    /// The last commit that the store has: what it has is not replayed.
    applied: u64,
    /// The number of the next record, once a segment was seen.
    next: Option<u64>,
    /// The first commit that was not read yet: where an opening was copying and was stopped,
    /// commits stand in two segments.
    unread: u64,
    /// The last commit that one of those read knew to be on disk.
    durable: u64,
    last_segment: Option<Ended>,
    flaw: Option<Flaw>,
    /// Segments that were begun and hold nothing, not even a header.
    without_header: Vec<String>,
}

#[derive(Debug, Clone)]
struct Ended {
    name: String,
    at: usize,
    boot: u128,
}

/// The first place at which the log cannot be read on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) segment: String,
    pub(crate) offset: usize,
    /// The commit that should stand there.
    pub(crate) number: u64,
    /// Bytes there that are no record.
    pub(crate) torn: usize,
    /// Segments after it.
    pub(crate) later: Vec<String>,
    /// Whole records after it.
    pub(crate) whole: u64,
    boot: u128,
    /// Something after it proves that it was on disk once.
    is_damage: bool,
}

/// Where a log ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// The last commit of log and store.
    pub(crate) last: u64,
    /// What has to be cut before the log goes on.
    pub(crate) cut: Option<Flaw>,
    /// The last commit that is known to be on disk; 0 if none is.
    pub(crate) durable: u64,
    /// Segments to be removed: the log never went on in them.
    pub(crate) without_header: Vec<String>,
}

impl Recovery {
    pub(crate) fn new(instance: u128, boot: u128, applied: u64) -> Self {
        Self {
            instance,
            boot,
            applied,
            next: None,
            unread: 0,
            durable: 0,
            last_segment: None,
            flaw: None,
            without_header: Vec::new(),
        }
    }

    /// Reads the next segment; hands every commit that the store lacks to `replay`.
    pub(crate) fn segment(
        &mut self,
        name: &str,
        bytes: &[u8],
        replay: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let header = match Header::decode(bytes) {
            Ok(header) => header,
            Err(NoHeader::Newer(version)) => return Err(newer(name, version)),
            Err(NoHeader::Damaged) => {
                self.headless(name, bytes);
                return Ok(());
            }
        };
        if header.instance != self.instance {
            let message = "log segment belongs to another data directory; take it away";
            return Err(Error::new(ErrorKind::DataDamaged, message).with("file", name));
        }
        // What is missing ahead was copied to here and behind.
        let is_copied = |flaw: &mut Flaw| header.first <= flaw.number;
        self.flaw.take_if(is_copied);
        if self.flaw.is_some() {
            self.behind_the_flaw(name, bytes, HEADER_BYTES);
            return Ok(());
        }
        let next = self.next.unwrap_or(header.first.min(self.applied + 1));
        if header.first > next {
            self.gap(name, bytes, &header, next);
            return Ok(());
        }
        self.records(name, bytes, &header, replay)
    }

    /// Answers where the log ends, or why it must not be cut.
    pub(crate) fn finish(self) -> Result<Tail> {
        match &self.flaw {
            None if self.next.is_some_and(|next| next < self.unread) => {
                let next = self.next.unwrap_or_default();
                let ended = self.last_segment.as_ref();
                let (name, at) = ended.map_or(("log", 0), |ended| (&ended.name, ended.at));
                Err(damaged(&Flaw::new(name, at, next, 0, 0)))
            }
            Some(flaw) if flaw.is_damage => Err(damaged(flaw)),
            // What the store has is not all that there was: a log is made before the store takes
            // any.
            None if self.last_segment.is_none() && self.applied > 0 => {
                let name = self.without_header.first().map_or("log", String::as_str);
                Err(damaged(&Flaw::new(name, 0, self.applied + 1, 0, 0)))
            }
            _ => Ok(self.cut()),
        }
    }

    /// Answers where the log is to be cut, whatever is lost by it.
    pub(crate) fn cut(self) -> Tail {
        let last = self.next.map_or(0, |next| next - 1);
        Tail {
            last: last.max(self.applied),
            cut: self.flaw,
            durable: self.durable,
            without_header: self.without_header,
        }
    }

    fn records(
        &mut self,
        name: &str,
        bytes: &[u8],
        header: &Header,
        replay: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let seed = Seed::of(self.instance);
        let (mut at, mut next) = (HEADER_BYTES, header.first);
        while let Some(record) = Record::decode(seed, bytes, at).filter(|r| r.number == next) {
            if next > self.applied && next >= self.unread {
                replay(record.payload)
                    .map_err(|error| error.with("file", name).with("offset", at))?;
            }
            self.durable = self.durable.max(record.durable);
            at += record.size();
            next += 1;
        }
        self.next = Some(next);
        let torn = used(&bytes[at..]);
        // A copy was on disk whole before it had its name.
        let is_damage = next < self.unread;
        self.unread = self.unread.max(next);
        if torn > 0 {
            let flaw = Flaw::new(name, at, next, torn, header.boot);
            self.flaw = Some(Flaw { is_damage, ..flaw });
            self.behind_the_flaw(name, bytes, at);
        }
        self.last_segment = Some(Ended {
            name: name.into(),
            at,
            boot: header.boot,
        });
        Ok(())
    }

    /// A segment that starts later than the one before it ends.
    fn gap(&mut self, name: &str, bytes: &[u8], header: &Header, next: u64) {
        self.next = Some(next);
        let mut flaw = match &self.last_segment {
            Some(ended) => Flaw::new(&ended.name, ended.at, next, 0, ended.boot),
            None => Flaw::new(name, 0, next, 0, header.boot),
        };
        // Before the first segment there is only the store, which was on disk when the log was cut;
        // and copies are made from the end on.
        flaw.is_damage = self.last_segment.is_none() || next < self.unread;
        self.flaw = Some(flaw);
        self.behind_the_flaw(name, bytes, HEADER_BYTES);
    }

    /// A segment whose header was never written whole, or is damaged.
    fn headless(&mut self, name: &str, bytes: &[u8]) {
        let next = self.next.unwrap_or(self.applied + 1);
        if self.flaw.is_none() && Record::find(Seed::of(self.instance), bytes, 0, 0).is_none() {
            // To begin it failed, and the log went on where it was. If it did not, there is a gap.
            return self.without_header.push(name.into());
        }
        if self.flaw.is_none() {
            let boot = self.last_segment.as_ref().map_or(0, |ended| ended.boot);
            let mut flaw = Flaw::new(name, 0, next, used(bytes), boot);
            // A log never starts in a segment without a header.
            flaw.is_damage = self.last_segment.is_none();
            self.next = Some(next);
            self.flaw = Some(flaw);
        }
        self.behind_the_flaw(name, bytes, 0);
    }

    /// Finds what is whole behind the flaw, and what it proves.
    fn behind_the_flaw(&mut self, name: &str, bytes: &[u8], from: usize) {
        let Some(flaw) = &mut self.flaw else { return };
        if flaw.segment != name {
            flaw.later.push(name.into());
        }
        let (seed, mut at) = (Seed::of(self.instance), from);
        let same_run = self.boot != 0 && flaw.boot == self.boot;
        while let Some((found, record)) = Record::find(seed, bytes, at, flaw.number - 1) {
            flaw.whole += 1;
            flaw.is_damage |= same_run || record.durable >= flaw.number;
            at = found + record.size();
        }
    }
}

impl Flaw {
    fn new(segment: &str, offset: usize, number: u64, torn: usize, boot: u128) -> Self {
        Self {
            segment: segment.into(),
            offset,
            number,
            torn,
            later: Vec::new(),
            whole: 0,
            boot,
            is_damage: false,
        }
    }
}

/// Bytes up to the last one that is not zero: unused ends of segments are zeros.
fn used(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

fn newer(name: &str, version: u32) -> Error {
    let message = "log was written by a newer version of punctual; open it with that version";
    Error::new(ErrorKind::DataNewer, message)
        .with("file", name)
        .with("format", version)
}

fn damaged(flaw: &Flaw) -> Error {
    let message = "log is damaged before its end; `punctual repair` cuts it there and keeps the original aside";
    Error::new(ErrorKind::DataDamaged, message)
        .with("file", &flaw.segment)
        .with("offset", flaw.offset)
        .with("commit", flaw.number)
}
