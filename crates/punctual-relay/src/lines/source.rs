//! A process that writes messages.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use punctual::time::{pause, seconds, within};
use punctual::{Error, ErrorKind, JobId, NewJob, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

use super::process::{self, Environment, Process};
use crate::message::{Message, foreign_id};
use crate::source::{Open, Refused, Source};

/// Reads the JSON of a job; one that names no id gets that one.
pub type ReadJob = Arc<dyn Fn(&str, JobId) -> Result<NewJob, String> + Send + Sync>;

/// A command that writes a line per message.
#[derive(Clone)]
pub struct LineSource {
    command: String,
    name: String,
    read_job: ReadJob,
    environment: Environment,
    /// Whether the command has written a line since this was made.
    has_worked: Arc<AtomicBool>,
}

impl LineSource {
    /// That command, run by `sh -c`. Ids come from the names of the relay and of the message.
    pub fn new(command: impl Into<String>, name: impl Into<String>, read_job: ReadJob) -> Self {
        Self {
            command: command.into(),
            name: name.into(),
            read_job,
            environment: Environment::new(),
            has_worked: Arc::default(),
        }
    }

    /// Sets a variable of the command's environment.
    #[must_use]
    pub fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }
}

impl fmt::Debug for LineSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LineSource({:?})", self.command)
    }
}

/// Lines that wait in this process, beyond a batch.
const LINES: usize = 64;
/// Lines, and bytes of them, that are read while the command reads no answer.
const EARLY_LINES_MAX: usize = 10_000;
const EARLY_BYTES_MAX: usize = 16 << 20;
/// How long a command that has written so much may leave its answers unread.
const ANSWERS_READ_WITHIN: Duration = seconds(30);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: Option<String>,
    job: Option<Box<RawValue>>,
    lag: Option<u64>,
    keeps_refused: Option<bool>,
    bad: Option<String>,
}

#[async_trait]
impl Open for LineSource {
    async fn open(&self) -> Result<Box<dyn Source>> {
        let (process, input, mut output) = process::start(&self.command, &self.environment)?;
        let (sender, lines) = mpsc::channel(LINES);
        // Apart from the source: a call that is dropped loses no half of a line.
        tokio::spawn(async move {
            loop {
                let line = output.next().await.transpose();
                let Some(line) = line else { break };
                let is_last = line.is_err();
                if sender.send(line).await.is_err() || is_last {
                    break;
                }
            }
        });
        Ok(Box::new(Running {
            settings: self.clone(),
            process,
            input,
            lines,
            early: VecDeque::new(),
            batch: Vec::new(),
            ids: HashSet::new(),
            held: None,
            lag: None,
            keeps_refused: false,
            has_ended: false,
        }))
    }
}

struct Running {
    settings: LineSource,
    process: Process,
    input: ChildStdin,
    lines: mpsc::Receiver<Result<String>>,
    /// Lines that came while answers were written.
    early: VecDeque<Result<String>>,
    /// Names and ids of the last batch.
    batch: Vec<(String, JobId)>,
    ids: HashSet<JobId>,
    /// A line whose job has the id of another one of the batch: it waits for the next batch, so
    /// that each of the two gets its own answer.
    held: Option<String>,
    lag: Option<u64>,
    keeps_refused: bool,
    has_ended: bool,
}

impl Running {
    /// The message of a line, if it has one.
    fn message(&mut self, text: &str) -> Result<Option<Message>> {
        let line: Line = serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
        self.settings.has_worked.store(true, Ordering::Relaxed);
        self.lag = line.lag.or(self.lag);
        self.keeps_refused = line.keeps_refused.unwrap_or(self.keeps_refused);
        let (name, job) = match (line.name, line.job) {
            (Some(name), Some(job)) => (name, job),
            (None, None) => return Ok(None),
            _ => return Err(wrong("a message has a name and a job")),
        };
        let id = foreign_id(&format!("lines {}", self.settings.name), &name);
        let read = match line.bad {
            Some(why) => Err(why),
            None => (self.settings.read_job)(job.get(), id).map_err(|why| format!("the job {why}")),
        };
        let message = read.map_or_else(
            |why| {
                let body = Bytes::copy_from_slice(job.get().as_bytes());
                Message::Bad { id, body, why }
            },
            Message::from,
        );
        if !self.ids.insert(message.id()) {
            self.held = Some(text.to_owned());
            return Ok(None);
        }
        self.batch.push((name, message.id()));
        Ok(Some(message))
    }

    /// Writes answers. Meanwhile it goes on reading: a command that reads no answer before all its
    /// lines are written would wait for this side, and this side for it.
    async fn answer(&mut self, answers: &str) -> Result<()> {
        let Self {
            input,
            lines,
            early,
            ..
        } = self;
        let mut bytes: usize = early.iter().flatten().map(String::len).sum();
        let mut written = std::pin::pin!(process::write(input, answers));
        loop {
            let has_room = early.len() < EARLY_LINES_MAX && bytes < EARLY_BYTES_MAX;
            tokio::select! {
                biased;
                written = &mut written => return written,
                Some(line) = lines.recv(), if has_room => {
                    bytes += line.as_ref().map_or(0, String::len);
                    early.push_back(line);
                }
                () = pause(ANSWERS_READ_WITHIN), if !has_room => {
                    let message = "the command reads no answers; it shall read one for each line, \
                                   at the latest once 10,000 lines or 16 MiB are not answered";
                    return Err(Error::new(ErrorKind::EngineUnavailable, message));
                }
            }
        }
    }

    /// The command writes no more: an end without an error is a source that has no more.
    async fn ended(&mut self) -> Result<()> {
        let (status, last) = self.process.wait().await?;
        if !status.success() {
            let has_worked = self.settings.has_worked.load(Ordering::Relaxed);
            let what = "the command of the source ended";
            return Err(process::ended(what, status, &last, has_worked));
        }
        if self.has_ended {
            return Err(process::unavailable(
                "the command of the source has no more",
                status,
            ));
        }
        self.has_ended = true;
        self.lag = Some(0);
        Ok(())
    }
}

fn wrong(why: &str) -> Error {
    let message = "the command wrote a line that is no message; write {\"name\":..,\"job\":{..}}, \
                   and anything else to its standard error";
    Error::new(ErrorKind::EngineUnavailable, message).with("error", why)
}

#[async_trait]
impl Source for Running {
    async fn next(&mut self, at_most: usize) -> Result<Vec<Message>> {
        self.batch.clear();
        self.ids.clear();
        let mut messages = Vec::new();
        let mut line = match self.held.take().map(Ok).or_else(|| self.early.pop_front()) {
            Some(line) => Some(line),
            None => match within(seconds(1), self.lines.recv()).await {
                Some(Some(line)) => Some(line),
                Some(None) => {
                    self.ended().await?;
                    return Ok(messages);
                }
                None => None,
            },
        };
        while let Some(text) = line.take() {
            messages.extend(self.message(&text?)?);
            if messages.len() < at_most && self.held.is_none() {
                line = self
                    .early
                    .pop_front()
                    .or_else(|| self.lines.try_recv().ok());
            }
        }
        Ok(messages)
    }

    async fn accept(&mut self, refused: &[Refused]) -> Result<()> {
        let mut answers = String::new();
        for (name, id) in self.batch.drain(..) {
            let why = refused.iter().find(|one| one.id == id).map(|one| &one.why);
            let answer = match why {
                Some(why) => serde_json::json!({"name": name, "refused": why}),
                None => serde_json::json!({"name": name, "stored": id.to_string()}),
            };
            answers += &format!("{answer}\n");
        }
        self.answer(&answers).await
    }

    async fn waiting(&mut self) -> Result<Option<u64>> {
        Ok(self.lag)
    }

    fn has_more(&self) -> bool {
        !self.has_ended
    }

    fn keeps_refused(&self) -> bool {
        self.keeps_refused
    }
}
