//! A list to which producers push.

use std::time::Duration;

use async_trait::async_trait;
use punctual::{NewJob, Result};

use super::connection::Place;
use super::parked::{Parked, STALE};
use crate::message::{Message, check_queue, content_type_of};
use crate::source::{Open, Refused, Source};

/// The items of a list become jobs that are due at once, in the place of `BRPOP` consumers.
#[derive(Debug, Clone)]
pub struct ListSource {
    place: Place,
    queue: String,
    end: End,
    stale: Duration,
}

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
            stale: STALE,
        }
    }

    /// Takes from that end.
    #[must_use]
    pub fn end(mut self, end: End) -> Self {
        self.end = end;
        self
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
        let parked = Parked::open(&self.place, take, self.stale).await?;
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
