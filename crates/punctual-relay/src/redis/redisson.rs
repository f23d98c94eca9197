//! A delayed queue of Redisson, `RDelayedQueue`: what waits in it, and what is due already.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use punctual::time::Timestamp;
use punctual::{Due, JobId, NewJob, Result};

use super::connection::Place;
use super::parked::{Parked, STALE};
use crate::message::{Message, check_queue, content_type_of};
use crate::source::{Open, Refused, Source};

/// The items of a delayed queue of Redisson become jobs that are due when the queue would have
/// moved them. Producers go on; items that Redisson has moved to the destination are taken from
/// there and are due at once.
///
/// Redisson keeps each item twice: in a sorted set by its instant in milliseconds, and in a list in
/// the order of the offers. An item is packed: an id, the length of the value, and the value, as
/// the codec of the application wrote it.
#[derive(Debug, Clone)]
pub struct RedissonSource {
    place: Place,
    queue: String,
    stale: Duration,
}

impl RedissonSource {
    /// The delayed queue whose destination has that key; its items become jobs of that queue.
    pub fn new(place: Place, queue: impl Into<String>) -> Self {
        Self {
            place,
            queue: queue.into(),
            stale: STALE,
        }
    }

    /// Hands out again what lay parked for so long; 5 s by default.
    #[must_use]
    pub fn stale_after(mut self, span: Duration) -> Self {
        self.stale = span;
        self
    }

    /// The sorted set and the list, as Redisson names them after the destination.
    fn keys(&self) -> [String; 2] {
        let key = self.place.key();
        let key = match key.contains('{') {
            true => key.to_owned(),
            false => format!("{{{key}}}"),
        };
        ["redisson_delay_queue_timeout", "redisson_delay_queue"].map(|name| format!("{name}:{key}"))
    }
}

#[async_trait]
impl Open for RedissonSource {
    async fn open(&self) -> Result<Box<dyn Source>> {
        check_queue(&self.queue)?;
        let parked = Parked::open(&self.place, "redisson", self.stale).await?;
        Ok(Box::new(Redisson {
            parked: parked.beside(self.keys()),
            waits: self.keys()[0].clone(),
            queue: self.queue.clone(),
        }))
    }
}

struct Redisson {
    parked: Parked,
    waits: String,
    queue: String,
}

impl Redisson {
    /// A parked item has its score in front, or `=` from the destination, or `-` without one.
    fn message(&self, id: JobId, parked: Bytes) -> Message {
        let at = parked.iter().position(|byte| *byte == b' ').unwrap_or(0);
        let score = String::from_utf8_lossy(&parked[..at]).into_owned();
        let item = parked.slice((at + 1).min(parked.len())..);
        if score == "=" {
            return self.job(id, item, Due::default()).into();
        }
        let due = match score.parse::<f64>() {
            Ok(ms) if (0.0..=MS_MAX).contains(&ms) => Timestamp::from_millis(ms as u64),
            _ => {
                let why = "the item has no instant in the sorted set: Redisson would never have \
                           moved it";
                return bad(id, item, why);
            }
        };
        match unpack(&item) {
            Some(value) => self.job(id, value, Due::At(due)).into(),
            None => bad(
                id,
                item,
                "the item is packed in no way that Redisson is known to use",
            ),
        }
    }

    fn job(&self, id: JobId, value: Bytes, due: Due) -> NewJob {
        let mut job = NewJob::with_id(id, self.queue.clone(), value).due(due);
        job.content_type = content_type_of(&job.payload).into();
        job
    }
}

fn bad(id: JobId, body: Bytes, why: &str) -> Message {
    let why = why.to_owned();
    Message::Bad { id, body, why }
}

/// The year 9999: a score beyond it is no instant.
const MS_MAX: f64 = 253_402_300_799_000.0;

/// The value of a packed item. Newer versions write the length of the id, the id, the length of the
/// value, and the value; older ones an id of eight bytes, the length, and the value.
fn unpack(item: &Bytes) -> Option<Bytes> {
    let value_at = |at: usize| {
        let length = item.get(at..at + 8)?.try_into().ok()?;
        let (length, begin) = (usize::try_from(u64::from_le_bytes(length)).ok()?, at + 8);
        (item.len() - begin == length).then(|| item.slice(begin..))
    };
    let id = usize::from(*item.first()?);
    value_at(1 + id).or_else(|| value_at(8))
}

#[async_trait]
impl Source for Redisson {
    async fn next(&mut self, at_most: usize) -> Result<Vec<Message>> {
        let taken = self.parked.next(at_most).await?;
        let messages = taken
            .into_iter()
            .map(|(id, parked)| self.message(id, parked));
        Ok(messages.collect())
    }

    async fn accept(&mut self, refused: &[Refused]) -> Result<()> {
        self.parked.accept(refused).await
    }

    async fn waiting(&mut self) -> Result<Option<u64>> {
        let due = self.parked.waiting("LLEN").await?;
        let mut count = redis::cmd("ZCARD");
        let delayed: u64 = self.parked.connection().ask(count.arg(&self.waits)).await?;
        Ok(Some(due + delayed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_unpacked_in_both_forms() {
        for (item, value) in [
            (&b"\x08abcdefgh\x05\0\0\0\0\0\0\0hello"[..], &b"hello"[..]),
            (b"\x10abcdefghabcdefgh\0\0\0\0\0\0\0\0", b""),
            (
                b"\x9a\x99\x99\x99\x99\x99\xc9\x3f\x02\0\0\0\0\0\0\0hi",
                b"hi",
            ),
        ] {
            assert_eq!(unpack(&Bytes::from_static(item)).as_deref(), Some(value));
        }
        for item in [
            &b""[..],
            b"\x08abc",
            b"plain text, which Redisson did not write",
            b"\x08abcdefgh\xff\xff\xff\xff\xff\xff\xff\xffhello",
            b"\x08abcdefgh\x04\0\0\0\0\0\0\0hello",
        ] {
            assert_eq!(unpack(&Bytes::from_static(item)), None, "{item:?}");
        }
    }
}
