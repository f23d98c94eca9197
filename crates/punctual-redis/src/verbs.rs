//! The verbs over the shards of a namespace: each call is cut into a part per shard, and the
//! answers are put together again in the order sent.

mod edit;
mod enqueue;
mod inspect;
mod lease;
mod maintain;
mod outbox;
mod settle;

use punctual::engine::Cursor;
use punctual::{Error, ErrorKind, Result};

/// The items of a call, each with its place in it, sorted by shard.
fn by_shard<T>(
    items: impl IntoIterator<Item = T>,
    count: usize,
    shard: impl Fn(&T) -> usize,
) -> Vec<(usize, Vec<usize>, Vec<T>)> {
    let mut parts: Vec<(usize, Vec<usize>, Vec<T>)> = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        let index = shard(&item).min(count - 1);
        match parts.iter_mut().find(|(known, ..)| *known == index) {
            Some((_, places, part)) => {
                places.push(place);
                part.push(item);
            }
            None => parts.push((index, vec![place], vec![item])),
        }
    }
    parts
}

/// Puts the answers of one part at their places.
fn put_back<T>(all: &mut [Option<T>], places: &[usize], answers: Vec<T>) -> Result<()> {
    if places.len() != answers.len() {
        return Err(crate::wire::damaged());
    }
    for (place, answer) in places.iter().zip(answers) {
        all[*place] = Some(answer);
    }
    Ok(())
}

/// Every answer, in the order sent.
fn all<T>(answers: Vec<Option<T>>) -> Result<Vec<T>> {
    let answers: Option<Vec<T>> = answers.into_iter().collect();
    answers.ok_or_else(crate::wire::damaged)
}

/// Where a walk over the shards goes on: which request it is of, which shard, and where there.
struct Walk {
    check: u32,
    index: usize,
    inner: Option<Vec<u8>>,
}

impl Walk {
    /// The walk that a cursor goes on with; `request` tells one walk from another.
    fn from(cursor: Option<&Cursor>, request: &str, count: usize) -> Result<Self> {
        let check = request.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let Some(Cursor(bytes)) = cursor else {
            return Ok(Self {
                check,
                index: 0,
                inner: None,
            });
        };
        let (head, rest) = bytes.split_first_chunk().ok_or_else(bad_cursor)?;
        let (index, inner) = rest.split_first_chunk().ok_or_else(bad_cursor)?;
        let index = usize::from(u16::from_be_bytes(*index));
        if u32::from_be_bytes(*head) != check || index >= count {
            return Err(bad_cursor());
        }
        Ok(Self {
            check,
            index,
            inner: Some(inner.to_vec()).filter(|inner| !inner.is_empty()),
        })
    }

    /// Goes on to the next shard, if this one is at its end and there is one.
    fn pass_over(&mut self, is_at_end: bool, count: usize) -> bool {
        let goes_on = is_at_end && self.index + 1 < count;
        if goes_on {
            self.index += 1;
            self.inner = None;
        }
        goes_on
    }

    /// The cursor after a step in this shard.
    fn next(&self, inner: Option<Cursor>, count: usize) -> Option<Cursor> {
        let (index, inner) = match inner {
            Some(Cursor(inner)) => (self.index, inner.to_vec()),
            None if self.index + 1 < count => (self.index + 1, Vec::new()),
            None => return None,
        };
        let mut bytes = self.check.to_be_bytes().to_vec();
        bytes.extend((index as u16).to_be_bytes());
        bytes.extend(inner);
        Some(Cursor(bytes.into()))
    }
}

fn bad_cursor() -> Error {
    let message = "cursor is not of this request; start again without one";
    Error::new(ErrorKind::InvalidInput, message)
}
