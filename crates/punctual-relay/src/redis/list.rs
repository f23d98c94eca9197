//! A list to which producers push.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use punctual::{Error, ErrorKind, NewJob, Result};

use super::connection::{Connection, Place};
use super::parked::{Parked, STALE};
use crate::message::{Message, check_queue, content_type_of};
use crate::source::{Open, Refused, Source};

/// The items of a list become jobs that are due at once, in the place of `BRPOP` consumers.
#[derive(Debug, Clone)]
pub struct ListSource {
    place: Place,
    queue: String,
    end: End,
    processing: Vec<String>,
    stale: Duration,
}

/// Processing lists that may be named, and that a pattern may match.
const PROCESSING_MAX: usize = 10_000;

/// The end of a list from which items are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum End {
    /// Producers use `LPUSH`, consumers `BRPOP`.
    #[default]
    Right,
    /// Producers use `RPUSH`, consumers `BLPOP`.
    Left,
}

impl ListSource {
    /// The list there; its items become jobs of that queue.
    pub fn new(place: Place, queue: impl Into<String>) -> Self {
        Self {
            place,
            queue: queue.into(),
            end: End::default(),
            processing: Vec::new(),
            stale: STALE,
        }
    }

    /// Takes from that end.
    #[must_use]
    pub fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// Takes first what consumers of a reliable list have left in their processing lists: keys, or
    /// patterns with `*`. The consumers must be stopped: what one of them still does would be done
    /// twice. A consumer's item is taken at most once, by whichever relay comes first.
    pub fn processing(mut self, keys: Vec<String>) -> Result<Self> {
        if keys.len() > PROCESSING_MAX || keys.iter().any(String::is_empty) {
            let message = "name 1 to 10,000 processing lists, each by a key or a pattern with `*`";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        if keys.iter().any(|key| key == self.place.key()) {
            let message = "the list itself is no processing list; name those of its consumers";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        self.processing = keys;
        Ok(self)
    }

    /// The processing lists that are there.
    async fn found(&self, connection: &mut Connection) -> Result<Vec<String>> {
        let mut found = BTreeSet::new();
        for key in &self.processing {
            if !key.contains('*') {
                found.insert(key.clone());
                continue;
            }
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(key);
                scan.arg("COUNT").arg(1_000).arg("TYPE").arg("list");
                let (next, keys): (u64, Vec<String>) = connection.ask(&scan).await?;
                found.extend(keys.into_iter().filter(|key| key != self.place.key()));
                if found.len() > PROCESSING_MAX {
                    let message = "over 10,000 lists match; name fewer processing lists";
                    return Err(Error::new(ErrorKind::InvalidInput, message).with("pattern", key));
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Hands out again what lay parked for so long; 5 s by default.
    #[must_use]
    pub fn stale_after(mut self, span: Duration) -> Self {
        self.stale = span;
        self
    }
}

#[async_trait]
impl Open for ListSource {
    async fn open(&self) -> Result<Box<dyn Source>> {
        check_queue(&self.queue)?;
        let take = match self.end {
            End::Right => "RPOP",
            End::Left => "LPOP",
        };
        let mut parked = Parked::open(&self.place, take, self.stale).await?;
        let processing = self.found(parked.connection()).await?;
        let parked = parked.after(processing);
        let queue = self.queue.clone();
        Ok(Box::new(List { parked, queue }))
    }
}

struct List {
    parked: Parked,
    queue: String,
}

#[async_trait]
impl Source for List {
    async fn next(&mut self, at_most: usize) -> Result<Vec<Message>> {
        let taken = self.parked.next(at_most).await?;
        let job = |(id, body)| {
            let mut job = NewJob::with_id(id, self.queue.clone(), body);
            job.content_type = content_type_of(&job.payload).into();
            job.into()
        };
        Ok(taken.into_iter().map(job).collect())
    }

    async fn accept(&mut self, refused: &[Refused]) -> Result<()> {
        self.parked.accept(refused).await
    }

    async fn waiting(&mut self) -> Result<Option<u64>> {
        self.parked.waiting("LLEN").await.map(Some)
    }
}
