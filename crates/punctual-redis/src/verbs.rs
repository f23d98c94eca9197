//! The verbs over the shards of a namespace: each call is cut into a part per shard, and the
//! answers are put together again in the order sent.

pub(crate) mod clock;
mod delete;
mod edit;
mod enqueue;
mod guard;
mod inspect;
pub(crate) mod key_sizes;
mod lease;
mod maintain;
mod outbox;
mod schedules;
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

/// What one call carries of each part, so that none keeps a server for long.
fn in_slices<T: Clone>(
    parts: Vec<(usize, Vec<usize>, Vec<T>)>,
    most: usize,
) -> impl Iterator<Item = (usize, Vec<usize>, Vec<T>)> {
    parts.into_iter().flat_map(move |(index, places, part)| {
        // A part without items is a call all the same.
        (0..part.len().max(1)).step_by(most).map(move |from| {
            let until = part.len().min(from.saturating_add(most));
            (
                index,
                places[from..until].to_vec(),
                part[from..until].to_vec(),
            )
        })
    })
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
    /// The walk that a cursor goes on with; `request` distinguishes walks.
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

    /// Whether a call that has examined so many ends behind this step: at its limit, or with a
    /// shard.
    fn is_enough(&self, inner: &Option<Cursor>, examined: usize, limit: usize) -> bool {
        examined >= limit || inner.is_none() && examined > 0
    }

    /// Goes on behind a step in this shard; whether there is more.
    fn advance(&mut self, inner: Option<Cursor>, count: usize) -> bool {
        self.index += usize::from(inner.is_none());
        self.inner = inner.map(|Cursor(inner)| inner.to_vec());
        self.index < count
    }

    /// For a call that goes on later.
    fn cursor(&self) -> Cursor {
        let inner = self.inner.as_deref().unwrap_or_default();
        let mut bytes = self.check.to_be_bytes().to_vec();
        bytes.extend((self.index as u16).to_be_bytes());
        bytes.extend(inner);
        Cursor(bytes.into())
    }
}

fn bad_cursor() -> Error {
    let message = "cursor is not of this request; start again without one";
    Error::new(ErrorKind::InvalidInput, message)
}
