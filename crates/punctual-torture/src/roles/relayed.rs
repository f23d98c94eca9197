//! Sends messages to the systems that relays take from, and runs their jobs. The recorder knows
//! nothing of them: they have words of their own in the history.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use punctual::time::{Timestamp, millis, pause, seconds, within};
use punctual::worker::Verdict;
use punctual::{Context, JobId, JobRecord, Worker};
use redis::aio::MultiplexedConnection;
use serde_json::json;

use super::Begun;
use crate::call_log::History;
use crate::event::Event;
use crate::relayed::{Places, QUEUE, System, name_in, name_of};
use crate::stamp::wall;

/// Between two messages of a producer to one system, at least.
const TURN: Duration = millis(80);
/// A message is due within so many milliseconds, where its system knows of dues.
const DELAY_MAX: u64 = 2_000;
/// One message in so many is no job.
const BAD: u32 = 15;
/// More than a payload may have.
const TOO_LARGE: usize = 300 << 10;
/// One transaction in so many is rolled back.
const ROLLED_BACK: u32 = 3;
/// One item of a list in so many was left behind by a consumer.
const LEFT_BEHIND: u32 = 4;
/// A server that does not answer is given up then.
const ANSWERS_WITHIN: Duration = seconds(3);

/// Sends messages to every system until there are enough.
pub(super) async fn produce(begun: Begun, seed: u64) {
    let Some(places) = begun.setting.relayed.clone() else {
        return;
    };
    let senders = places.systems().map(|system| {
        let sender = Sender {
            begun: begun.clone(),
            places: places.clone(),
            system,
            random: Rng::with_seed(seed ^ 0x4e1 ^ (system as u64) << 48),
            link: None,
        };
        tokio::spawn(sender.run())
    });
    for ended in join_all(senders).await {
        ended.expect("a sender does not panic");
    }
}

/// What one producer sends to one system.
struct Sender {
    begun: Begun,
    places: Places,
    system: System,
    random: Rng,
    link: Option<MultiplexedConnection>,
}

/// A message that is to be sent.
struct Outgoing {
    name: String,
    is_bad: bool,
    /// Microseconds, if it is not due at once.
    due: Option<u64>,
}

/// What is known of a message that was sent.
enum Sent {
    Accepted,
    RolledBack,
    /// It may be there or not.
    Unknown,
}

impl Sender {
    async fn run(mut self) {
        let round = self.begun.setting.round.file_name().unwrap_or_default();
        let round = round.to_string_lossy().into_owned();
        let mut number = 0;
        while !self.begun.setting.is_enough() {
            let name = name_of(&round, &self.begun.name, self.system, number);
            number += 1;
            let message = self.message(name.clone());
            self.begun.history.note(Event::MessageSend {
                name: name.clone(),
                system: self.system,
                is_bad: message.is_bad,
                due: message.due,
            });
            match self.send(message).await {
                Sent::Accepted => self.begun.history.note(Event::MessageOk { name }),
                Sent::RolledBack => self.begun.history.note(Event::MessageNone { name }),
                Sent::Unknown => {}
            }
            pause(TURN + millis(self.random.u64(0..60))).await;
        }
    }

    fn message(&mut self, name: String) -> Outgoing {
        let has_due = matches!(self.system, System::Zset | System::Lines | System::Outbox);
        // Scores are milliseconds.
        let due = (wall() / 1_000 + self.random.u64(0..DELAY_MAX)) * 1_000;
        Outgoing {
            name,
            is_bad: self.random.u32(0..BAD) == 0,
            due: has_due.then_some(due),
        }
    }

    async fn send(&mut self, message: Outgoing) -> Sent {
        match (self.system, self.places.outbox.clone()) {
            (System::Lines, _) => {
                let line = json!({"name": message.name, "job": job(&message)});
                append(&self.places.lines, &format!("{line}\n"))
                    .map_or(Sent::Unknown, |()| Sent::Accepted)
            }
            (System::Outbox, Some(file)) => {
                let is_rolled_back = self.random.u32(0..ROLLED_BACK) == 0;
                let inserting = tokio::task::spawn_blocking(move || {
                    insert(&file, &job(&message).to_string(), is_rolled_back)
                });
                match inserting.await.expect("an insert does not panic") {
                    Ok(()) if is_rolled_back => Sent::RolledBack,
                    Ok(()) => Sent::Accepted,
                    Err(_) => Sent::Unknown,
                }
            }
            _ => {
                let command = self.command(&message);
                match within(ANSWERS_WITHIN, self.ask(&command)).await {
                    Some(Ok(())) => Sent::Accepted,
                    _ => {
                        self.link = None;
                        Sent::Unknown
                    }
                }
            }
        }
    }

    /// What puts a message into Redis.
    fn command(&mut self, message: &Outgoing) -> redis::Cmd {
        let key = self.places.key(self.system);
        let pad = if message.is_bad { TOO_LARGE } else { 0 };
        let body = json!({"message": message.name, "pad": "x".repeat(pad)}).to_string();
        match self.system {
            System::Stream => {
                let mut add = redis::cmd("XADD");
                add.arg(key).arg("*").arg("message").arg(&message.name);
                if message.is_bad {
                    // A field twice is no object.
                    add.arg("message").arg(&message.name);
                }
                add
            }
            System::Zset => {
                let mut add = redis::cmd("ZADD");
                let score = message.due.unwrap_or_default() / 1_000;
                add.arg(key).arg(score).arg(body);
                add
            }
            _ => {
                let was_left = self.random.u32(0..LEFT_BEHIND) == 0;
                let consumer = self.random.u32(0..3).to_string();
                let left = self.places.processing(&consumer);
                let mut push = redis::cmd("LPUSH");
                push.arg(if was_left { left } else { key }).arg(body);
                push
            }
        }
    }

    async fn ask(&mut self, command: &redis::Cmd) -> redis::RedisResult<()> {
        let link = match &mut self.link {
            Some(link) => link,
            none => {
                let client = redis::Client::open(self.places.redis.as_str())?;
                none.insert(client.get_multiplexed_async_connection().await?)
            }
        };
        command.query_async(link).await
    }
}

/// The job of a message, as a line or a row has it.
fn job(message: &Outgoing) -> serde_json::Value {
    let payload = json!({"message": message.name});
    match message.due {
        _ if message.is_bad => json!({"queue": QUEUE, "payload": payload, "delay": "soon"}),
        Some(due) => {
            let at = Timestamp::from_micros(due).to_string();
            json!({"queue": QUEUE, "payload": payload, "at": at})
        }
        None => json!({"queue": QUEUE, "payload": payload}),
    }
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file: File = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(line.as_bytes())
}

/// Inserts a row as an application does: beside others, in a transaction that may be rolled back.
fn insert(file: &Path, job: &str, is_rolled_back: bool) -> rusqlite::Result<()> {
    let mut connection = rusqlite::Connection::open(file)?;
    connection.busy_timeout(seconds(20))?;
    let transaction = connection.transaction()?;
    let id = JobId::new().to_string();
    let row = "INSERT INTO punctual_outbox (id, job) VALUES (?1, ?2)";
    transaction.execute(row, (id, job))?;
    match is_rolled_back {
        true => transaction.rollback(),
        false => transaction.commit(),
    }
}

/// A worker for jobs of messages.
pub(super) fn worker(begun: &Begun) -> Worker {
    let history = begun.history.clone();
    let run = move |job: JobRecord, _: Context| run(history.clone(), job);
    let worker = Worker::new(&begun.direct)
        .queues([QUEUE])
        .handle_any(run)
        .concurrency(8);
    super::hasty(worker)
}

async fn run(history: Arc<History>, job: JobRecord) -> Verdict {
    let Some(name) = name_in(&job.payload) else {
        return Verdict::dead("payload is no message of this run");
    };
    history.note(Event::MessageStart {
        id: job.id,
        attempt: job.attempt,
        name,
        due: job.due.as_micros(),
        enqueued: job.enqueued_at.as_micros(),
        started: job.started_at.map_or(0, Timestamp::as_micros),
        wall: wall(),
    });
    Verdict::completed()
}
