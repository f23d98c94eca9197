//! A sorted set whose scores say when its members are due.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use punctual::time::Timestamp;
use punctual::{Due, Error, ErrorKind, JobId, NewJob, Result};

use super::connection::{Connection, Place};
use super::parked::{Parked, STALE};
use super::unit::Unit;
use crate::message::{Message, check_queue, content_type_of};
use crate::source::{Open, Refused, Source};

/// The members of a sorted set become jobs that are due at their scores. The relay takes all of
/// them at once: the engine waits for their instants.
#[derive(Debug, Clone)]
pub struct ZsetSource {
    place: Place,
    queue: String,
    unit: Option<Unit>,
    stale: Duration,
}

/// Members that are examined for a guess.
const SAMPLES: usize = 100;
/// Members of which an error or a note shows the score.
const SHOWN: usize = 3;

impl ZsetSource {
    /// The sorted set there; its members become jobs of that queue.
    pub fn new(place: Place, queue: impl Into<String>) -> Self {
        Self {
            place,
            queue: queue.into(),
            unit: None,
            stale: STALE,
        }
    }

    /// The unit of the scores. Without one each score is read by its size.
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// Hands out again what lay parked for so long; 5 s by default.
    #[must_use]
    pub fn stale_after(mut self, span: Duration) -> Self {
        self.stale = span;
        self
    }

    /// Reads a few scores and says what unit they are in, with up to three samples. It takes
    /// nothing. Scores that are no instants, or of several units, are an error.
    pub async fn guess(&self) -> Result<Guess> {
        self.guess_by(&mut self.place.connect().await?).await
    }

    async fn guess_by(&self, connection: &mut Connection) -> Result<Guess> {
        let mut command = redis::cmd("ZRANGE");
        command
            .arg(self.place.key())
            .arg(0)
            .arg(SAMPLES - 1)
            .arg("WITHSCORES");
        let flat: Vec<Vec<u8>> = connection.ask(&command).await?;
        let scores: Vec<f64> = (flat.chunks_exact(2))
            .filter_map(|pair| std::str::from_utf8(&pair[1]).ok()?.parse().ok())
            .collect();
        let units: Vec<Option<Unit>> = match self.unit {
            Some(unit) => scores.iter().map(|_| Some(unit)).collect(),
            None => scores.iter().map(|score| Unit::guess(*score)).collect(),
        };
        if let Some(at) = units.iter().position(Option::is_none) {
            return Err(no_instant(scores[at]));
        }
        let mut found: Vec<Unit> = units.into_iter().flatten().collect();
        found.dedup();
        if found.len() > 1 {
            let message = "the scores are of several units; name one: s, ms or us";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let samples = found.first().map_or_else(Vec::new, |unit| {
            let shown = scores.iter().take(SHOWN);
            shown
                .filter_map(|score| Some((*score, unit.instant(*score)?)))
                .collect()
        });
        Ok(Guess {
            unit: found.first().copied(),
            samples,
        })
    }
}

/// What the scores of a sorted set are.
#[derive(Debug, Clone, PartialEq)]
pub struct Guess {
    /// Their unit; `None` while the set is empty.
    pub unit: Option<Unit>,
    /// The first scores, and the instants that they are.
    pub samples: Vec<(f64, Timestamp)>,
}

fn no_instant(score: f64) -> Error {
    let message = "a score is no instant since 1970: it looks like a delay or a rank; \
                   write instants, or name the unit if they are some";
    Error::new(ErrorKind::InvalidInput, message).with("score", score)
}

#[async_trait]
impl Open for ZsetSource {
    async fn open(&self) -> Result<Box<dyn Source>> {
        check_queue(&self.queue)?;
        let mut parked = Parked::open(&self.place, "zset", self.stale).await?;
        self.guess_by(parked.connection()).await?;
        Ok(Box::new(Zset {
            parked,
            queue: self.queue.clone(),
            unit: self.unit,
        }))
    }
}

struct Zset {
    parked: Parked,
    queue: String,
    unit: Option<Unit>,
}

impl Zset {
    /// A parked member is its score, a blank, and its bytes.
    fn message(&self, id: JobId, parked: Bytes) -> Message {
        let at = parked.iter().position(|byte| *byte == b' ').unwrap_or(0);
        let score = std::str::from_utf8(&parked[..at])
            .ok()
            .and_then(|text| text.parse().ok());
        let body = parked.slice((at + 1).min(parked.len())..);
        let score: f64 = score.unwrap_or(f64::NAN);
        let unit = self.unit.or_else(|| Unit::guess(score));
        match unit.and_then(|unit| unit.instant(score)) {
            Some(due) => {
                let mut job = NewJob::with_id(id, self.queue.clone(), body).due(Due::At(due));
                job.content_type = content_type_of(&job.payload).into();
                job.into()
            }
            None => {
                let why = no_instant(score).to_string();
                Message::Bad { id, body, why }
            }
        }
    }
}

#[async_trait]
impl Source for Zset {
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
        self.parked.waiting("ZCARD").await.map(Some)
    }
}
