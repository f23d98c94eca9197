//! Callbacks of jobs that no worker settled: a scan of settled jobs finds them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::engine::{
    Control, Controlled, EnqueueVerdict, Enqueued, List, ListBy, RecordValue, StatsRequest,
};
use punctual::time::{Timestamp, hours, minutes, seconds};
use punctual::{Engine, Error, ErrorKind, JobRecord, JobState, Namespace, Result, push};

use crate::maintenance::{Heartbeat, Periodic};

/// Enqueues the callbacks of a namespace that no worker enqueued: of jobs that were cancelled while
/// they waited, expired, were replaced or purged, died by poison or overflow, or were settled by a
/// worker that knows no callbacks.
///
/// A worker that knows them enqueues the callback in the step that settles the job. A scan of
/// settled jobs finds the rest. A record in the engine says how far the scan has come: after a kill
/// it leaves nothing out and repeats no callback that is still known. The callback has the id that
/// a worker would have given it, so only the first is stored.
pub struct Callbacks {
    engine: Arc<dyn Engine>,
    namespace: Namespace,
    /// `None` until the record was read.
    place: Option<Place>,
    heartbeat: Option<Heartbeat>,
}

/// How far it has come.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Version of the record.
    version: u64,
    written: Timestamp,
    /// Jobs that settled before that have their callbacks, wherever they lie.
    whole: Timestamp,
    /// The same, as far as the engine lists the latest first.
    brief: Timestamp,
    /// When the last job with a callback settled: the record has to pass it before the callback is
    /// forgotten.
    posted: Timestamp,
    /// When a whole scan was made only so that the record passes that.
    caught_up: Timestamp,
    /// Settled jobs were not listed the latest first: there are several shards. A scan goes on for
    /// [`FAR`] then.
    is_sharded: bool,
}

/// The record that says how far it has come: an instant.
const RECORD: &str = "push/callbacks";
/// How often it scans.
const INTERVAL: Duration = seconds(5);
/// How often it reads every settled job of that time: some engines do not list the latest first.
/// Once more in that time where nothing has ended any more, so that the record passes what was
/// posted.
const WHOLE: Duration = minutes(10);
/// How often the record is written when there was no callback to enqueue.
const RECORD_AGE: Duration = hours(1);
/// How far clocks of shards may lie apart. Callbacks are known for much longer.
const APART: Duration = seconds(10);
/// Jobs of the first call, and of those that follow: most often there is nothing new.
const FEW: usize = 10;
const MANY: usize = 1_000;
/// Jobs of a state that a scan examines at least where some shards are listed after others.
const FAR: usize = 200;
/// The states in which jobs stay.
const ENDS: [JobState; 3] = [JobState::Completed, JobState::Cancelled, JobState::Dead];

impl Place {
    /// Whether a scan from the record meets jobs again whose callbacks were enqueued.
    fn is_behind(&self) -> bool {
        self.written <= self.posted + APART
    }

    /// Whether a whole scan now lets the record pass all callbacks.
    fn may_catch_up(&self, now: Timestamp) -> bool {
        self.is_behind() && self.posted + APART < now && self.caught_up + WHOLE <= now
    }
}

impl Callbacks {
    /// Those of that namespace.
    pub fn new(engine: Arc<dyn Engine>, namespace: Namespace) -> Self {
        Self {
            engine,
            namespace,
            place: None,
            heartbeat: None,
        }
    }

    /// Scans every five seconds, until it shall end; an error leaves the rest for the next scan.
    pub async fn run(mut self, heartbeat: Heartbeat) {
        self.heartbeat = Some(heartbeat.clone());
        heartbeat.repeat(self).await;
    }

    /// Scans once and enqueues the callbacks that are missing; returns how many these were.
    pub async fn scan(&mut self) -> Result<usize> {
        let mut place = match self.place {
            Some(place) => place,
            None => self.read().await?,
        };
        let stats = self.engine.stats(&self.namespace, StatsRequest::default());
        let stats = stats.await?;
        let is_in_turn = place.whole + WHOLE <= stats.now;
        let is_whole = is_in_turn || place.may_catch_up(stats.now);
        let since = if is_whole { place.whole } else { place.brief };
        // One clock needs no margin: without it no callback is enqueued again and again.
        let apart = match is_whole || place.is_sharded {
            true => APART.as_micros() as u64,
            false => 0,
        };
        let since = Timestamp::from_micros(since.as_micros().saturating_sub(apart));
        let mut enqueued = 0;
        for queue in &stats.queues {
            for state in ENDS {
                if queue.counts.of(state) > 0 && queue.queue != push::CALLBACK_QUEUE {
                    let by = ListBy::State {
                        queue: queue.queue.clone(),
                        state,
                    };
                    enqueued += self.enqueue(by, since, is_whole, &mut place).await?;
                }
            }
        }
        place.brief = stats.now;
        if is_whole {
            place.whole = stats.now;
            if !is_in_turn {
                place.caught_up = stats.now;
            }
            if place.is_behind() || place.written + RECORD_AGE <= stats.now {
                self.write(&mut place).await?;
            }
        }
        self.place = Some(place);
        Ok(enqueued)
    }

    /// Enqueues the callbacks of jobs of an index that settled since then; returns how many were
    /// new.
    async fn enqueue(
        &self,
        by: ListBy,
        since: Timestamp,
        is_whole: bool,
        place: &mut Place,
    ) -> Result<usize> {
        let (mut enqueued, mut examined, mut cursor, mut limit) = (0, 0, None, FEW);
        let mut latest = Timestamp::MAX;
        loop {
            // There may be millions of them.
            self.heartbeat.iter().for_each(Heartbeat::works);
            let list = List::new(by.clone()).cursor(cursor).limit(limit);
            let listing = self.engine.list(&self.namespace, list).await?;
            let ended = |job: &JobRecord| job.finished_at.unwrap_or(Timestamp::ZERO);
            for job in &listing.jobs {
                place.is_sharded |= ended(job) > latest;
                latest = ended(job);
            }
            let new = listing.jobs.iter().filter(|job| ended(job) >= since);
            let asking = new.filter_map(|job| Some((ended(job), push::callback_of(job)?)));
            let (ends, callbacks): (Vec<_>, Vec<_>) = asking.unzip();
            if !callbacks.is_empty() {
                let put = self.engine.enqueue(&self.namespace, callbacks).await?;
                enqueued += count_new(&put)?;
                place.posted = ends.into_iter().fold(place.posted, Timestamp::max);
            }
            cursor = listing.cursor;
            examined += listing.examined;
            let is_far = !place.is_sharded || examined >= FAR;
            if cursor.is_none() || (latest < since && is_far && !is_whole) {
                return Ok(enqueued);
            }
            limit = match place.is_sharded && !is_whole {
                true => FAR,
                false => MANY,
            };
        }
    }

    async fn read(&self) -> Result<Place> {
        let control = Control::Read {
            name: RECORD.to_owned(),
        };
        let mut place = Place {
            version: 0,
            written: Timestamp::ZERO,
            whole: Timestamp::ZERO,
            brief: Timestamp::ZERO,
            posted: Timestamp::ZERO,
            caught_up: Timestamp::ZERO,
            is_sharded: false,
        };
        let read = self.engine.control(&self.namespace, control).await?;
        if let Controlled::Record(Some(record)) = read {
            place.version = record.version;
            if let RecordValue::Opaque(bytes) = &record.value
                && let Ok(until) = serde_json::from_slice(bytes)
            {
                place.written = until;
                place.whole = until;
                place.brief = until;
            }
        }
        Ok(place)
    }

    /// Records how far it has come; of several that do so at the same time one is kept.
    async fn write(&self, place: &mut Place) -> Result<()> {
        let bytes = serde_json::to_vec(&place.whole).unwrap_or_default();
        let control = Control::Write {
            name: RECORD.to_owned(),
            expected: place.version,
            value: Some(RecordValue::Opaque(bytes.into())),
        };
        match self.engine.control(&self.namespace, control).await {
            Ok(Controlled::Written(version)) => {
                place.version = version;
                place.written = place.whole;
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::VersionConflict => {
                let theirs = self.read().await?;
                (place.version, place.written) = (theirs.version, theirs.written);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Periodic for Callbacks {
    const INTERVAL: Duration = INTERVAL;
    const FAILED: &'static str =
        "callbacks for settled jobs could not be enqueued; the scan will be retried";

    async fn once(&mut self) -> Result<()> {
        self.scan().await.map(drop)
    }
}

/// How many were not there yet; an error if one was not taken.
fn count_new(put: &Enqueued) -> Result<usize> {
    let verdicts = || put.receipts.iter().map(|receipt| receipt.verdict);
    if verdicts().any(|verdict| verdict == EnqueueVerdict::Full) {
        let message = "the queue of callbacks is full; raise its max_pending";
        return Err(Error::new(ErrorKind::EngineFull, message).with("queue", push::CALLBACK_QUEUE));
    }
    Ok(verdicts()
        .filter(|verdict| *verdict == EnqueueVerdict::Created)
        .count())
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Callbacks({})", self.namespace)
    }
}
