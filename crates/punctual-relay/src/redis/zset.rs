//! A sorted set whose scores say when its members are due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Whether the set has been examined: what comes later goes to the refused, and ends nothing.
    is_examined: Arc<AtomicBool>,
}

/// Members of each end of the set that are examined for a guess.
const SAMPLES: isize = 50;
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
            is_examined: Arc::default(),
        }
    }

    /// The unit of the scores. Without one each score is read by its size. A score that is no
    /// instant of the years 2001 to 5138 makes a dead job either way.
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

    /// Reads scores of both ends of the set and says what unit they are in, with up to three
    /// samples. It takes nothing. Scores none of which is an instant, or of several units, are an
    /// error.
    pub async fn guess(&self) -> Result<Guess> {
        self.guess_by(&mut self.place.connect().await?).await
    }

    async fn guess_by(&self, connection: &mut Connection) -> Result<Guess> {
        let mut calls = redis::pipe();
        calls.cmd("ZCARD").arg(self.place.key());
        for (from, to) in [(0, SAMPLES - 1), (-SAMPLES, -1)] {
            let range = calls.cmd("ZRANGE").arg(self.place.key());
            range.arg(from).arg(to).arg("WITHSCORES");
        }
        let (members, first, mut last): (usize, Vec<Vec<u8>>, Vec<Vec<u8>>) =
            connection.ask_all(&calls).await?;
        // In a small set the ends are the same.
        let twice = (first.len() + last.len()).saturating_sub(2 * members);
        last.drain(..twice);
        let scores: Vec<f64> = (first.chunks_exact(2))
            .chain(last.chunks_exact(2))
            .filter_map(|pair| std::str::from_utf8(&pair[1]).ok()?.parse().ok())
            .collect();
        let (mut units, mut samples, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for score in scores.iter().copied() {
            let unit = self.unit.or_else(|| Unit::guess(score));
            let Some((unit, due)) = unit.and_then(|unit| Some((unit, unit.instant(score)?))) else {
                wrong.push(score);
                continue;
            };
            if !units.contains(&unit) {
                units.push(unit);
            }
            if samples.len() < SHOWN {
                samples.push((score, due));
            }
        }
        if let (Some(score), true) = (wrong.first(), samples.is_empty()) {
            return Err(no_instant(*score, self.unit));
        }
        if units.len() > 1 {
            let message = "the scores are of several units; name one: s, ms or us";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(Guess {
            unit: units.pop(),
            samples,
            examined: scores.len(),
            refused: wrong.len(),
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
    /// How many scores were examined, up to 50 of each end of the set.
    pub examined: usize,
    /// How many of these are no instants: the relay makes dead jobs of them.
    pub refused: usize,
}

fn no_instant(score: f64, unit: Option<Unit>) -> Error {
    let message = "a score is no instant of the years 2001 to 5138: it may be a delay, a rank, or of \
                   another unit; write instants";
    let error = Error::new(ErrorKind::InvalidInput, message).with("score", score);
    match unit {
        Some(unit) => error.with("unit", unit),
        None => error,
    }
}

#[async_trait]
impl Open for ZsetSource {
    async fn open(&self) -> Result<Box<dyn Source>> {
        check_queue(&self.queue)?;
        let mut parked = Parked::open(&self.place, "zset", self.stale).await?;
        if !self.is_examined.load(Ordering::Relaxed) {
            self.guess_by(parked.connection()).await?;
            self.is_examined.store(true, Ordering::Relaxed);
        }
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
                let why = no_instant(score, self.unit).to_string();
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
