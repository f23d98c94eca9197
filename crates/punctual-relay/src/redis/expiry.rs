//! Keys that expire: a job at the instant of each, whether Redis says so in time or not.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::StreamExt;
use punctual::job::{Hold, Unique, UniquePolicy};
use punctual::time::{Clock, Stopwatch, SystemClock, Timestamp, days, seconds, within};
use punctual::{Due, Error, ErrorKind, JobId, NewJob, Result};

use super::connection::{Connection, Messages, Place};
use crate::message::{Message, check_queue, foreign_id};
use crate::source::{Open, Refused, Source};

/// Keys with a prefix become jobs that are due when they expire.
///
/// Redis removes expired keys when it comes across them, and notifies then: seconds late, or
/// never without a listener. So this source reads the instants: it sweeps over all keys, and
/// between sweeps reads each key of which Redis says that its expiry was set.
#[derive(Debug, Clone)]
pub struct ExpirySource {
    place: Place,
    queue: String,
    sweep: Duration,
}

/// Keys that one step of a sweep examines.
const STEP: usize = 1_000;
const WAIT: Duration = seconds(1);
/// Jobs that are known to be stored. Beyond it they are sent again, as duplicates.
const KNOWN_MAX: usize = 2_000_000;
/// The longest time for which a unique key is held.
const HOLD_MAX: Duration = days(365);

impl ExpirySource {
    /// The keys there that begin with the place's key; their jobs are of that queue.
    pub fn new(place: Place, queue: impl Into<String>) -> Self {
        Self {
            place,
            queue: queue.into(),
            sweep: seconds(30),
        }
    }

    /// The pause between two sweeps; 30 s by default.
    #[must_use]
    pub fn sweep_every(mut self, span: Duration) -> Self {
        self.sweep = span;
        self
    }
}

#[async_trait]
impl Open for ExpirySource {
    async fn open(&self) -> Result<Box<dyn Source>> {
        check_queue(&self.queue)?;
        let database = self.place.database();
        // Before the sweep: what is set meanwhile is in either.
        let events = self
            .place
            .listen(&format!("__keyevent@{database}__:expire"))
            .await?;
        Ok(Box::new(Expiry {
            connection: self.place.connect().await?,
            settings: self.clone(),
            events,
            cursor: Some(0),
            swept: Stopwatch::start(),
            known: HashSet::new(),
            seen: HashSet::new(),
            backlog: VecDeque::new(),
        }))
    }
}

struct Expiry {
    connection: Connection,
    settings: ExpirySource,
    events: Messages,
    /// Where the sweep is; `None` between two.
    cursor: Option<u64>,
    swept: Stopwatch,
    /// Jobs that are stored, of keys that the last sweep saw and of later ones.
    known: HashSet<JobId>,
    /// Those of the present sweep.
    seen: HashSet<JobId>,
    /// Jobs of the last step that are not handed out yet.
    backlog: VecDeque<Message>,
}

impl Expiry {
    /// The next keys of the sweep.
    async fn step(&mut self, cursor: u64) -> Result<Vec<Vec<u8>>> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH");
        scan.arg(format!("{}*", escaped(self.settings.place.key())));
        scan.arg("COUNT").arg(STEP);
        let (next, keys): (u64, Vec<Vec<u8>>) = self.connection.ask(&scan).await?;
        self.cursor = Some(next).filter(|next| *next != 0);
        Ok(keys)
    }

    /// Keys whose expiry was set, for up to a second.
    async fn notified(&mut self, at_most: usize) -> Result<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        let mut span = WAIT;
        while keys.len() < at_most {
            match within(span, self.events.next()).await {
                Some(Some(message)) => {
                    let key = message.get_payload_bytes();
                    if key.starts_with(self.settings.place.key().as_bytes()) {
                        keys.push(key.to_vec());
                        // What is on its way comes along.
                        span = Duration::ZERO;
                    }
                }
                Some(None) => {
                    let message = "the source on Redis closed the connection; is it running?";
                    return Err(Error::new(ErrorKind::EngineUnavailable, message));
                }
                None => break,
            }
        }
        Ok(keys)
    }

    /// The jobs of keys that expire and are not known.
    async fn jobs(&mut self, keys: Vec<Vec<u8>>) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut calls = redis::pipe();
        for key in &keys {
            calls.cmd("PEXPIRETIME").arg(key);
        }
        let instants: Vec<i64> = self.connection.ask_all(&calls).await?;
        let (place, queue) = (&self.settings.place, &self.settings.queue);
        let source = format!("expiry {} in {}", place, place.database());
        let now = SystemClock.now();
        for (key, ms) in keys.into_iter().zip(instants) {
            let Some(due) = u64::try_from(ms).ok().and_then(of_millis) else {
                // It does not expire, or is gone.
                continue;
            };
            let text = String::from_utf8(key);
            let (name, shown) = match &text {
                Ok(text) => (
                    text.clone(),
                    serde_json::json!({"key": text, "expired_at": due.to_string()}),
                ),
                Err(bytes) => {
                    let text = BASE64_STANDARD.encode(bytes.as_bytes());
                    let shown =
                        serde_json::json!({"key_base64": text, "expired_at": due.to_string()});
                    (format!("base64 {text}"), shown)
                }
            };
            let id = foreign_id(&source, &format!("{ms} {name}"));
            self.seen.insert(id);
            // A failure of the relay opens the source anew, which knows none.
            if self.known.contains(&id) {
                continue;
            }
            if self.known.len() < KNOWN_MAX {
                self.known.insert(id);
            }
            let payload = Bytes::from(shown.to_string());
            let mut job = NewJob::with_id(id, queue.clone(), payload).due(Due::At(due));
            // A key whose expiry is moved has one job: the later instant replaces the earlier one.
            // What has expired has happened: a new expiry replaces it no more. The span is no
            // content of a job, so a repeat is a duplicate.
            if due > now {
                let hold = Hold::For((due - now).min(HOLD_MAX));
                let unique = Unique::new(unique_of(&place.home(), &name));
                job.unique = Some(unique.policy(UniquePolicy::Replace).hold(hold));
            }
            self.backlog.push_back(job.into());
        }
        Ok(())
    }
}

/// Of one key of one database: those of others may have the same name.
fn unique_of(home: &str, name: &str) -> String {
    format!("key {}", foreign_id(home, name))
}

fn of_millis(ms: u64) -> Option<Timestamp> {
    (ms <= Timestamp::MAX.as_micros() / 1_000).then(|| Timestamp::from_millis(ms))
}

/// A text that a pattern of Redis matches with itself alone.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if ['*', '?', '[', ']', '\\'].contains(&c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[async_trait]
impl Source for Expiry {
    async fn next(&mut self, at_most: usize) -> Result<Vec<Message>> {
        if self.cursor.is_none() && self.swept.elapsed() > self.settings.sweep {
            self.cursor = Some(0);
        }
        let watch = Stopwatch::start();
        while let (Some(cursor), true) = (self.cursor, self.backlog.is_empty()) {
            let keys = self.step(cursor).await?;
            self.jobs(keys).await?;
            if self.cursor.is_none() {
                self.swept = Stopwatch::start();
                // Of keys that are gone nothing need be known.
                let seen = std::mem::take(&mut self.seen);
                self.known.retain(|id| seen.contains(id));
            }
            if watch.elapsed() > WAIT {
                break;
            }
        }
        if self.backlog.is_empty() && self.cursor.is_none() {
            let keys = self.notified(at_most).await?;
            self.jobs(keys).await?;
        }
        let some = self.backlog.len().min(at_most);
        Ok(self.backlog.drain(..some).collect())
    }

    async fn accept(&mut self, _: &[Refused]) -> Result<()> {
        Ok(())
    }

    async fn waiting(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn has_more(&self) -> bool {
        self.cursor.is_some() || !self.backlog.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(escaped("a*[b]?\\"), "a\\*\\[b\\]\\?\\\\");
    }
}
