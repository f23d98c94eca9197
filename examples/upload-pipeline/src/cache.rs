//! Results that are read often: in Redis, or in memory if one process does all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::time::{Stopwatch, millis, seconds, within};
use punctual::worker::BoxError;
use redis::aio::MultiplexedConnection;

use crate::db::{Database, File, Version};

/// A cache may be slow or away: then the database answers.
const ANSWER: Duration = millis(500);
/// Entries in memory; beyond that none is added until some have expired.
const ENTRIES_MAX: usize = 10_000;

/// A text in memory: of which version of its record, since when, and for how long.
pub(crate) struct Entry {
    text: String,
    version: Version,
    since: Stopwatch,
    span: Duration,
}

type Entries = HashMap<String, Entry>;

#[derive(Clone)]
pub(crate) enum Cache {
    /// Roles in processes of their own would not see each other's memory.
    None,
    Memory(Arc<Mutex<Entries>>),
    Redis(
        Box<(
            redis::Client,
            Arc<tokio::sync::Mutex<Option<MultiplexedConnection>>>,
        )>,
    ),
}

impl Entry {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < self.span
    }
}

impl Cache {
    pub(crate) fn redis(address: &str) -> Result<Self, BoxError> {
        // An error of the client repeats the address, and the address may hold a password.
        let client = redis::Client::open(address)
            .map_err(|_| "--cache is no address of Redis: redis://HOST:PORT")?;
        Ok(Self::Redis(Box::new((client, Arc::default()))))
    }

    /// The text of a file. Other processes do not see this one's memory, so what is there counts
    /// only while the record is still the one it was made of.
    pub(crate) async fn get(&self, file: &str, database: &Database) -> Option<String> {
        match self {
            Self::None => None,
            Self::Memory(entries) => {
                let (text, version) = {
                    let entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                    let entry = entries.get(file).filter(|entry| entry.is_fresh())?;
                    (entry.text.clone(), entry.version.clone())
                };
                let present = database.version(file).await.ok().flatten();
                (present == Some(version)).then_some(text)
            }
            Self::Redis(_) => self.ask(redis::cmd("GET").arg(key(file))).await.flatten(),
        }
    }

    pub(crate) async fn put(&self, file: &File, text: &str, span: Duration) {
        match self {
            Self::None => {}
            Self::Memory(entries) => {
                let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                if entries.len() >= ENTRIES_MAX {
                    entries.retain(|_, entry| entry.is_fresh());
                }
                if entries.len() < ENTRIES_MAX {
                    let entry = Entry {
                        text: text.to_owned(),
                        version: file.version(),
                        since: Stopwatch::start(),
                        span,
                    };
                    entries.insert(file.id.clone(), entry);
                }
            }
            // The span is a number of the command itself: an entry is never there without one.
            Self::Redis(_) => {
                let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1);
                let mut set = redis::cmd("SET");
                set.arg(key(&file.id)).arg(text).arg("PX").arg(ms);
                let _: Option<String> = self.ask(&set).await;
            }
        }
    }

    pub(crate) async fn remove(&self, file: &str) {
        match self {
            Self::None => {}
            Self::Memory(entries) => {
                entries
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .remove(file);
            }
            Self::Redis(_) => drop(self.ask::<i64>(redis::cmd("DEL").arg(key(file))).await),
        }
    }

    async fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Option<T> {
        let Self::Redis(redis) = self else {
            return None;
        };
        let (client, connection) = &**redis;
        let asked = within(ANSWER, async {
            let mut kept = connection.lock().await;
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => client.get_multiplexed_async_connection().await.ok()?,
            };
            *kept = Some(connection.clone());
            drop(kept);
            command.query_async(&mut connection).await.ok()
        });
        let answer = asked.await.flatten();
        if answer.is_none() {
            // Perhaps the connection is dead: the next call makes one.
            if let Some(mut kept) = within(seconds(1), connection.lock()).await {
                *kept = None;
            }
        }
        answer
    }
}

fn key(file: &str) -> String {
    format!("upload-pipeline:{{{file}}}:result")
}
