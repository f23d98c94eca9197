//! `outbox` and `deliver`: effects of one shard for another.

use punctual::Result;
use punctual::engine::EnqueueVerdict;

use super::enqueue::verdict_of;
use super::mp::{MapWriter, Mp};
use super::numbers::{VERDICT_CLEARED, VERDICT_NOT_HERE};
use super::{Reader, damaged};

/// What names an entry of an outbox for good.
pub(crate) type EntryId = [u8; 16];

/// The clear of a name: one that goes where its job is, and one that a shard keeps for a job that
/// no shard knows.
pub(crate) const CLEAR: u64 = 1;
pub(crate) const KEEP: u64 = 4;

/// The target of what is wherever the job is.
pub(crate) const ANYWHERE: &str = "*";

/// An effect on its way.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) id: EntryId,
    pub(crate) target: String,
    pub(crate) kind: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Entries, and the source's instant at which they were read.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) entries: Vec<Posted>,
    pub(crate) now: u64,
}

/// What a target did with an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Enqueued(EnqueueVerdict),
    Cleared,
    NotHere,
}

impl Taken {
    pub(crate) fn verdict(self) -> Option<EnqueueVerdict> {
        match self {
            Self::Enqueued(verdict) => Some(verdict),
            Self::Cleared | Self::NotHere => None,
        }
    }
}

pub(crate) fn ask(ids: &[EntryId]) -> MapWriter {
    let mut map = MapWriter::default();
    map.put("t", list(ids));
    map
}

/// Asks for entries that should have been delivered before now.
pub(crate) fn ask_old(limit: usize) -> MapWriter {
    let mut map = MapWriter::default();
    map.put("li", limit);
    map
}

pub(crate) fn delivered(ids: &[EntryId]) -> MapWriter {
    let mut map = MapWriter::default();
    map.put("st", list(ids));
    map
}

fn list(ids: &[EntryId]) -> Vec<Mp> {
    ids.iter().map(|id| Mp::from(id.as_slice())).collect()
}

/// `[id, target, kind, bytes]` each.
pub(crate) fn read(reply: &Mp) -> Result<Outbox> {
    let entries = reply.get("e").list()?.iter().map(|entry| {
        let [id, target, kind, bytes] = entry.list()? else {
            return Err(damaged());
        };
        Ok(Posted {
            id: id.bytes()?.try_into().map_err(|_| damaged())?,
            target: target.text()?,
            kind: kind.number()?,
            bytes: bytes.bytes()?.to_vec(),
        })
    });
    Ok(Outbox {
        entries: entries.collect::<Result<_>>()?,
        now: reply.get("n").number()?,
    })
}

/// `[target, instant]` each: since when nothing that was posted before waits.
pub(crate) fn delivered_since(reply: &Mp) -> Result<Vec<(String, u64)>> {
    let pairs = reply.get("old").list()?.iter().map(|pair| {
        let [target, since] = pair.list()? else {
            return Err(damaged());
        };
        Ok((target.text()?, since.number()?))
    });
    pairs.collect()
}

pub(crate) fn deliver(
    source: &str,
    read_at: u64,
    ack: Option<(u64, u64)>,
    entries: &[Posted],
) -> MapWriter {
    let mut map = MapWriter::default();
    map.put("f", source).put("t", read_at);
    map.put_some(
        "k",
        ack.map(|(by, before)| vec![Mp::from(by), before.into()]),
    );
    let entry = |one: &Posted| {
        let parts = [
            one.id.as_slice().into(),
            one.kind.into(),
            one.bytes.as_slice().into(),
        ];
        Mp::List(parts.into())
    };
    map.put("e", entries.iter().map(entry).collect::<Vec<_>>());
    map
}

/// None if the entries were read too long ago for this target.
pub(crate) fn taken(reply: &Mp, count: usize) -> Result<Option<Vec<Taken>>> {
    if reply.get("st").is_set() {
        return Ok(None);
    }
    let verdicts = reply.get("v").list()?;
    if verdicts.len() != count {
        return Err(damaged());
    }
    let taken = verdicts.iter().map(|verdict| {
        let [number, other] = verdict.list()? else {
            return Err(damaged());
        };
        let number = u8::try_from(number.number()?).map_err(|_| damaged())?;
        let other = match other.bytes()? {
            [] => Ok(punctual::JobId::from_bytes([0; 16])),
            bytes => Reader(bytes).id(),
        };
        Ok(match number {
            VERDICT_CLEARED => Taken::Cleared,
            VERDICT_NOT_HERE => Taken::NotHere,
            number => Taken::Enqueued(verdict_of(number, other?)?),
        })
    });
    taken.collect::<Result<_>>().map(Some)
}
