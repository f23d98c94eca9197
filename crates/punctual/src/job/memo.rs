//! Memos of a job: what its steps kept, the signals that it got, and the waits that timed out.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::bounds::{MEMO_BYTES_MAX, MEMOS_BYTES_MAX, MEMOS_MAX, TEXT_MEMO_BYTES, TEXT_MEMOS};
use super::limits::check_key;
use crate::error::{Error, ErrorKind, Result};
use crate::time::Timestamp;

/// A result under a name that outlives the attempt, until the record of its job goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Memo {
    /// Its name, once per source.
    pub name: String,
    /// Where it came from.
    pub source: MemoSource,
    /// What was kept; empty for a wait that timed out.
    pub value: Bytes,
    /// When the engine took it.
    pub at: Timestamp,
}

impl Memo {
    /// What was kept under that name at that instant.
    pub fn new(name: impl Into<String>, source: MemoSource, value: Bytes, at: Timestamp) -> Self {
        Self {
            name: name.into(),
            source,
            value,
            at,
        }
    }
}

/// Where a memo came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum MemoSource {
    /// An attempt kept it, under its token.
    Step = 0,
    /// A caller sent the job a signal.
    Signal = 1,
    /// The job waited for a signal, or slept, and the limit passed.
    TimedOut = 2,
}

impl MemoSource {
    /// Every source, in the order of its number.
    pub const ALL: [Self; 3] = [Self::Step, Self::Signal, Self::TimedOut];

    /// The name on the wire and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Signal => "signal",
            Self::TimedOut => "timed_out",
        }
    }
}

/// Checks the memos of one job in a call: names, sizes, and that they fit at all.
pub fn check_memos<'a>(memos: impl IntoIterator<Item = (&'a str, &'a Bytes)>) -> Result<()> {
    let (mut count, mut bytes) = (0, 0);
    for (name, value) in memos {
        check_key("name of a step", name)?;
        if value.len() > MEMO_BYTES_MAX {
            return Err(Error::new(ErrorKind::PayloadTooLarge, TEXT_MEMO_BYTES)
                .with("step", name)
                .with("bytes", value.len())
                .with("limit", MEMO_BYTES_MAX));
        }
        count += 1;
        bytes += name.len() + value.len();
    }
    match count > MEMOS_MAX || bytes > MEMOS_BYTES_MAX {
        true => Err(too_many_memos()),
        false => Ok(()),
    }
}

/// The error for one memo more than a job may have; engines answer it.
pub fn too_many_memos() -> Error {
    Error::new(ErrorKind::PayloadTooLarge, TEXT_MEMOS)
}

/// Appends a memo. One of that name and source stays as it is; `false` if there is no room.
pub(crate) fn append_memo(memos: &mut Vec<Memo>, memo: Memo) -> bool {
    let is_step = |one: &Memo| one.source == MemoSource::Step;
    let alike = |one: &&Memo| is_step(one) == is_step(&memo);
    if memos.iter().filter(alike).any(|one| one.name == memo.name) {
        return true;
    }
    let size = |one: &Memo| one.name.len() + one.value.len();
    let bytes: usize = memos.iter().filter(alike).map(size).sum();
    let fits =
        memos.iter().filter(alike).count() < MEMOS_MAX && bytes + size(&memo) <= MEMOS_BYTES_MAX;
    if fits {
        memos.push(memo);
    }
    fits
}
