//! A stream, read by a consumer group.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use punctual::time::{Stopwatch, millis, pause, seconds};
use punctual::{NewJob, Result};
use redis::Value;

use super::connection::{Connection, Place};
use super::parked::STALE;
use crate::message::{Message, check_queue, content_type_of, foreign_id};
use crate::source::{Open, Refused, Source};

/// The entries of a stream become jobs that are due at once.
#[derive(Debug, Clone)]
pub struct StreamSource {
    place: Place,
    queue: String,
    group: String,
    field: Option<String>,
    delete: bool,
    stale: Duration,
}

/// The name by which relays read: all relays of a group share what is pending.
const CONSUMER: &str = "punctual";
const POLL_FIRST: Duration = millis(2);
const POLL_MAX: Duration = millis(50);
const WAIT: Duration = seconds(1);

impl StreamSource {
    /// The stream there; its entries become jobs of that queue.
    pub fn new(place: Place, queue: impl Into<String>) -> Self {
        Self {
            place,
            queue: queue.into(),
            group: "punctual".into(),
            field: None,
            delete: false,
            stale: STALE,
        }
    }

    /// Reads by that group, `punctual` by default; it is made if it is missing, at the first entry.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// That field is the payload. Without one the payload is a JSON object of all fields.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Deletes entries from the stream once they are stored.
    #[must_use]
    pub fn delete(mut self) -> Self {
        self.delete = true;
        self
    }

    /// Claims what was pending for so long; 5 s by default.
    #[must_use]
    pub fn stale_after(mut self, span: Duration) -> Self {
        self.stale = span;
        self
    }
}

#[async_trait]
impl Open for StreamSource {
    async fn open(&self) -> Result<Box<dyn Source>> {
        check_queue(&self.queue)?;
        let mut connection = self.place.connect().await?;
        let mut create = redis::cmd("XGROUP");
        create
            .arg("CREATE")
            .arg(self.place.key())
            .arg(&self.group)
            .arg(0)
            .arg("MKSTREAM");
        let made: Result<Value> = connection.ask(&create).await;
        // That it is there already is what is wanted.
        if let Err(error) = made
            && !error.context().any(|(_, text)| text.contains("BUSYGROUP"))
        {
            return Err(error);
        }
        Ok(Box::new(Stream {
            connection,
            settings: self.clone(),
            batch: Vec::new(),
        }))
    }
}

struct Stream {
    connection: Connection,
    settings: StreamSource,
    /// Names of the last batch's entries.
    batch: Vec<String>,
}

/// An entry: its name, and its fields one after the other.
type Entry = (String, Vec<(Bytes, Bytes)>);

impl Stream {
    /// Entries that were pending for long, then new ones.
    async fn take(&mut self, at_most: usize) -> Result<Vec<Entry>> {
        let settings = &self.settings;
        let mut claim = redis::cmd("XAUTOCLAIM");
        claim
            .arg(settings.place.key())
            .arg(&settings.group)
            .arg(CONSUMER);
        claim
            .arg(settings.stale.as_millis() as u64)
            .arg("0-0")
            .arg("COUNT")
            .arg(at_most);
        let claimed: Value = self.connection.ask(&claim).await?;
        let mut entries = match claimed {
            Value::Array(parts) => parts.into_iter().nth(1).map(entries).unwrap_or_default(),
            _ => Vec::new(),
        };
        let left = at_most.saturating_sub(entries.len());
        if left > 0 {
            let mut read = redis::cmd("XREADGROUP");
            read.arg("GROUP")
                .arg(&settings.group)
                .arg(CONSUMER)
                .arg("COUNT")
                .arg(left);
            read.arg("STREAMS").arg(settings.place.key()).arg(">");
            entries.extend(entries_read(self.connection.ask(&read).await?));
        }
        Ok(entries)
    }

    async fn has_entries_after(&mut self, name: &[u8]) -> Result<bool> {
        let mut range = redis::cmd("XRANGE");
        let after = [b"(", name].concat();
        range.arg(self.settings.place.key()).arg(after).arg("+");
        range.arg("COUNT").arg(1);
        Ok(!entries(self.connection.ask(&range).await?).is_empty())
    }

    fn message(&self, (name, fields): Entry) -> Message {
        let settings = &self.settings;
        // Each group has its own copy of a message.
        let source = format!(
            "stream {} in {} of {}",
            settings.place,
            settings.place.database(),
            settings.group
        );
        let id = foreign_id(&source, &name);
        match self.payload(fields) {
            Ok(payload) => {
                let mut job = NewJob::with_id(id, settings.queue.clone(), payload);
                job.content_type = content_type_of(&job.payload).into();
                job.headers = vec![("stream-entry".into(), name)];
                job.into()
            }
            Err((body, why)) => Message::Bad { id, body, why },
        }
    }

    fn payload(&self, fields: Vec<(Bytes, Bytes)>) -> Result<Bytes, (Bytes, String)> {
        let all = |fields: &[(Bytes, Bytes)]| {
            let parts = fields
                .iter()
                .flat_map(|(name, value)| [&name[..], &value[..]]);
            Bytes::from(parts.collect::<Vec<_>>().join(&b' '))
        };
        if let Some(wanted) = &self.settings.field {
            let found = fields.iter().find(|(name, _)| name == wanted.as_bytes());
            return found.map(|(_, value)| value.clone()).ok_or_else(|| {
                let why = format!("the entry has no field {wanted:?}; name another by --field");
                (all(&fields), why)
            });
        }
        let mut object = serde_json::Map::new();
        for (name, value) in &fields {
            let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value))
            else {
                let why = "the entry has bytes that are no text; name the payload by --field";
                return Err((all(&fields), why.into()));
            };
            if object.insert(name.into(), value.into()).is_some() {
                let why =
                    format!("the entry has the field {name:?} twice; name the payload by --field");
                return Err((all(&fields), why));
            }
        }
        Ok(serde_json::Value::from(object).to_string().into())
    }
}

/// The answer of XREADGROUP about one stream: none, or its name and its entries, as an array or,
/// in RESP 3, as a map.
fn entries_read(answer: Value) -> Vec<Entry> {
    match answer {
        Value::Array(mut streams) => match streams.pop() {
            Some(Value::Array(mut stream)) => stream.pop().map(entries).unwrap_or_default(),
            _ => Vec::new(),
        },
        Value::Map(mut streams) => streams
            .pop()
            .map(|(_, found)| entries(found))
            .unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Entries as servers write them. One that was deleted since has no fields.
fn entries(list: Value) -> Vec<Entry> {
    let Value::Array(list) = list else {
        return Vec::new();
    };
    let entry = |value: Value| {
        let Value::Array(parts) = value else {
            return None;
        };
        let mut parts = parts.into_iter();
        let name = String::from_utf8(bytes_of(parts.next()?)?.to_vec()).ok()?;
        let Some(Value::Array(flat)) = parts.next() else {
            return None;
        };
        let flat: Vec<Bytes> = flat.into_iter().filter_map(bytes_of).collect();
        let pairs = flat
            .chunks_exact(2)
            .map(|pair| (pair[0].clone(), pair[1].clone()));
        Some((name, pairs.collect()))
    };
    list.into_iter().filter_map(entry).collect()
}

fn bytes_of(value: Value) -> Option<Bytes> {
    match value {
        Value::BulkString(bytes) => Some(bytes.into()),
        Value::SimpleString(text) => Some(text.into()),
        _ => None,
    }
}

#[async_trait]
impl Source for Stream {
    async fn next(&mut self, at_most: usize) -> Result<Vec<Message>> {
        let watch = Stopwatch::start();
        let mut span = POLL_FIRST;
        loop {
            let taken = self.take(at_most).await?;
            if !taken.is_empty() || watch.elapsed() > WAIT {
                self.batch = taken.iter().map(|(name, _)| name.clone()).collect();
                return Ok(taken.into_iter().map(|entry| self.message(entry)).collect());
            }
            pause(span).await;
            span = (span * 2).min(POLL_MAX);
        }
    }

    async fn accept(&mut self, _: &[Refused]) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let key = self.settings.place.key();
        let mut calls = redis::pipe();
        calls.atomic();
        calls
            .cmd("XACK")
            .arg(key)
            .arg(&self.settings.group)
            .arg(&self.batch)
            .ignore();
        if self.settings.delete {
            calls.cmd("XDEL").arg(key).arg(&self.batch).ignore();
        }
        let () = self.connection.ask_all(&calls).await?;
        self.batch.clear();
        Ok(())
    }

    /// Entries that the group has not read, where the server counts them, and those pending.
    async fn waiting(&mut self) -> Result<Option<u64>> {
        let mut command = redis::cmd("XINFO");
        command.arg("GROUPS").arg(self.settings.place.key());
        let groups: Vec<std::collections::HashMap<String, Value>> =
            self.connection.ask(&command).await?;
        let number = |value: Option<&Value>| match value {
            Some(Value::Int(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let name = self.settings.group.as_bytes();
        let ours = groups.into_iter().find(|group| {
            group
                .get("name")
                .cloned()
                .and_then(bytes_of)
                .is_some_and(|found| found == name)
        });
        let Some(group) = ours else { return Ok(None) };
        let Some(pending) = number(group.get("pending")) else {
            return Ok(None);
        };
        // The server does not know the lag once an entry was deleted, and may count too many once
        // it was restarted (7.0.15). What the group was given last is exact.
        let mut lag = number(group.get("lag"));
        let last = group.get("last-delivered-id").cloned().and_then(bytes_of);
        if let Some(last) = last.filter(|_| lag != Some(0))
            && !self.has_entries_after(&last).await?
        {
            lag = Some(0);
        }
        Ok(lag.map_or(Some(pending).filter(|n| *n > 0), |lag| Some(pending + lag)))
    }
}
