//! A process that takes jobs.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::backoff::Backoff;
use punctual::sync::Lock;
use punctual::time::{pause, seconds, within};
use punctual::worker::Verdict;
use punctual::{Error, ErrorKind, JobId, JobRecord, Outcome, Result};
use serde::Deserialize;
use tokio::process::ChildStdin;
use tokio::sync::{Mutex as AsyncMutex, oneshot, watch};

use super::process::{self, Environment};
use crate::health::{RelayHealth, RelayState};

/// How long a job waits at least for a command that does not start.
const SNOOZE_MIN: Duration = seconds(1);

/// How long the last line of a command that reads no more is waited for.
const LAST_LINE_WITHIN: Duration = seconds(2);

/// Writes a job as JSON.
pub type WriteJob = Arc<dyn Fn(&JobRecord) -> String + Send + Sync>;

/// A command that reads a line per job. It is started at the first job, and again after it ended.
#[derive(Clone)]
pub struct LineSink(Arc<Inner>);

struct Inner {
    command: String,
    write_job: WriteJob,
    environment: Environment,
    running: AsyncMutex<Option<Running>>,
    backoff: Mutex<Backoff>,
    /// Between two starts of a command that ends before it answers, whatever waits for it.
    starts: Mutex<Backoff>,
    /// Whether the command has answered a job since it started.
    has_answered: AtomicBool,
    /// The last line that it wrote to its standard error when it ended.
    last_line: Mutex<Option<String>>,
    /// The last line of the command, once it has said that its settings are wrong.
    wrong_setting: watch::Sender<Option<String>>,
    health: RelayHealth,
}

/// Jobs that the command has and has not answered. A job that was handed over again after its
/// timeout waits for two answers, the older one first.
type Waiting = Arc<Mutex<Option<HashMap<JobId, VecDeque<oneshot::Sender<Answer>>>>>>;

struct Running {
    input: ChildStdin,
    waiting: Waiting,
    /// Ends the command with this.
    _ends: oneshot::Sender<()>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    id: String,
    #[serde(default)]
    done: bool,
    error: Option<String>,
    #[serde(default)]
    permanent: bool,
}

impl LineSink {
    /// That command, run by `sh -c`.
    pub fn new(command: impl Into<String>, write_job: WriteJob) -> Self {
        Self(Arc::new(Inner {
            command: command.into(),
            write_job,
            environment: Environment::new(),
            running: AsyncMutex::default(),
            backoff: Mutex::new(Backoff::engine()),
            starts: Mutex::new(Backoff::engine()),
            has_answered: AtomicBool::new(false),
            last_line: Mutex::default(),
            wrong_setting: watch::Sender::new(None),
            health: RelayHealth::default(),
        }))
    }

    /// Counts in those numbers, which a source may share; before the first job.
    #[must_use]
    pub fn health(mut self, health: RelayHealth) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.health = health;
        }
        self
    }

    /// Sets a variable of the command's environment; before the first job.
    #[must_use]
    pub fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.environment.push((name, value.into()));
        }
        self
    }

    /// Ends once the command has ended with the exit status 78 before it answered any job: a
    /// setting is wrong, and a person has to mend it. Its jobs snooze meanwhile.
    pub async fn setting_is_wrong(&self) -> Error {
        let mut wrong = self.0.wrong_setting.subscribe();
        let last = wrong.wait_for(Option::is_some).await;
        process::wrong_setting(
            last.ok()
                .as_deref()
                .and_then(Option::as_deref)
                .unwrap_or(""),
        )
    }

    /// The same for what has happened already.
    pub fn wrong_setting(&self) -> Option<Error> {
        let last = self.0.wrong_setting.borrow();
        last.as_deref().map(process::wrong_setting)
    }

    /// Hands a job over; answers once the command has. A handler of a worker.
    ///
    /// A command that ends before it answers anything, as one whose broker is away does, is no
    /// failure of the job: the job snoozes, which counts no attempt.
    pub async fn put(&self, job: &JobRecord) -> Verdict {
        let error = match self.hand_over(job).await {
            Ok(Ok(())) => return Verdict::completed(),
            Ok(Err(refused)) => return Verdict::failed(refused),
            Err(gone) => gone,
        };
        if self.0.has_answered.load(Ordering::Relaxed) {
            return Verdict::failed(error);
        }
        let after = self.0.backoff.locked().pause().max(SNOOZE_MIN);
        let mut verdict = Verdict::new(Outcome::Snooze { after });
        verdict.error = Some(error.into());
        verdict
    }

    /// What the command answered; an error if it is gone.
    async fn hand_over(&self, job: &JobRecord) -> Result<Result<()>> {
        let line = format!(
            "{{\"id\":\"{}\",\"job\":{}}}\n",
            job.id,
            (self.0.write_job)(job)
        );
        let answered = self.send(job.id, &line).await;
        let answered = match answered {
            Ok(answered) => answered,
            Err(error) => {
                // The worker tries again by the job's policy; the command gets a pause.
                let span = self.0.backoff.locked().pause();
                pause(span).await;
                return Err(error);
            }
        };
        let Ok(answer) = answered.await else {
            return Err(self.ended());
        };
        self.0.has_answered.store(true, Ordering::Relaxed);
        self.0.backoff.locked().reset();
        self.0.starts.locked().reset();
        match answer {
            Answer { done: true, .. } => {
                self.0.health.turn(|numbers| {
                    numbers.emitted += 1;
                    numbers.state = RelayState::Running;
                });
                Ok(Ok(()))
            }
            Answer {
                error, permanent, ..
            } => {
                let why = error.unwrap_or_else(|| "the sink gave no reason".into());
                self.0.health.turn(|numbers| {
                    numbers.refused += 1;
                    numbers.last_error = Some(why.clone());
                });
                Ok(Err(match permanent {
                    true => Error::permanent(why),
                    false => Error::new(ErrorKind::Handler, why),
                }))
            }
        }
    }

    async fn send(&self, id: JobId, line: &str) -> Result<oneshot::Receiver<Answer>> {
        let mut running = self.0.running.lock().await;
        let is_over = running
            .as_ref()
            .is_none_or(|one| one.waiting.locked().is_none());
        if is_over {
            // While its broker is away it is not started once for each job that waits.
            if running.is_some() && !self.0.has_answered.load(Ordering::Relaxed) {
                let span = self.0.starts.locked().pause();
                pause(span).await;
            }
            *running = Some(self.start()?);
        }
        let Some(one) = running.as_mut() else {
            return Err(self.ended());
        };
        let (sender, answered) = oneshot::channel();
        match &mut *one.waiting.locked() {
            Some(waiting) => waiting.entry(id).or_default().push_back(sender),
            None => return Err(self.ended()),
        }
        if let Err(error) = process::write(&mut one.input, line).await {
            // The senders go once the last line of a command that has ended is known.
            let has_ended = matches!(within(LAST_LINE_WITHIN, answered).await, Some(Err(_)));
            // It gets no more lines, and the next job starts another.
            one.waiting.locked().take();
            return Err(if has_ended { self.ended() } else { error });
        }
        Ok(answered)
    }

    /// The error of a job that the command has not answered, with the last line that it wrote to
    /// its standard error.
    fn ended(&self) -> Error {
        match self.0.last_line.locked().clone() {
            Some(last) => ended().with("stderr", last),
            None => ended(),
        }
    }

    fn start(&self) -> Result<Running> {
        self.0.has_answered.store(false, Ordering::Relaxed);
        let (mut process, input, mut output) =
            process::start(&self.0.command, &self.0.environment)?;
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let (answered, inner) = (waiting.clone(), self.0.clone());
        let (ends, mut is_over) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let why = loop {
                let line = tokio::select! {
                    line = output.next() => line,
                    _ = &mut is_over => return,
                };
                let line = match line {
                    Ok(Some(line)) => line,
                    // Why it ended is in its last line.
                    Ok(None) => match process.wait().await {
                        Ok((status, last)) => break inner.has_ended(status, last),
                        Err(error) => break error,
                    },
                    Err(error) => break error,
                };
                if let Err(why) = answer(&line, &answered) {
                    break why;
                }
            };
            inner.health.failed(&why.to_string());
            tracing::warn!(%why, "the command of a sink ended and starts again");
            // Dropping the senders ends every wait with an error.
            answered.locked().take();
        });
        Ok(Running {
            input,
            waiting,
            _ends: ends,
        })
    }
}

impl Inner {
    /// Why a command that has ended did so.
    fn has_ended(&self, status: ExitStatus, last: String) -> Error {
        let has_worked = self.has_answered.load(Ordering::Relaxed);
        let error = process::ended(ENDED, status, &last, has_worked);
        if error.kind() == ErrorKind::InvalidInput {
            self.wrong_setting.send_replace(Some(last.clone()));
        }
        *self.last_line.locked() = Some(last).filter(|last| !last.is_empty());
        error
    }
}

/// Hands an answer to the job that waits for it. A sink that answers anything else has lost count
/// of its jobs: which of them are done is unknown, so it starts again.
fn answer(line: &str, waiting: &Waiting) -> Result<()> {
    let wrong = |what: &'static str, which: &str| {
        let error = process::unavailable(what, which);
        Err(error)
    };
    let answer: Answer = match serde_json::from_str(line) {
        Ok(answer) => answer,
        Err(error) => {
            let what = "the sink wrote a line that is no answer; it starts again";
            return wrong(what, &error.to_string());
        }
    };
    if answer.done == answer.error.is_some() {
        let what = "an answer of the sink needs either `done` or `error`; it starts again";
        return wrong(what, &answer.id);
    }
    let Ok(id) = answer.id.parse::<JobId>() else {
        return wrong(
            "the sink answered what is no id; it starts again",
            &answer.id,
        );
    };
    let mut waiting = waiting.locked();
    let Some(waiting) = waiting.as_mut() else {
        return Ok(());
    };
    let sender = waiting.get_mut(&id).and_then(VecDeque::pop_front);
    if waiting.get(&id).is_some_and(VecDeque::is_empty) {
        waiting.remove(&id);
    }
    match sender {
        Some(sender) => {
            // Its receiver is gone if the job has timed out.
            let _ = sender.send(answer);
            Ok(())
        }
        None => {
            let what =
                "the sink answered a job twice, or one that it does not have; it starts again";
            wrong(what, &answer.id)
        }
    }
}

const ENDED: &str = "the command of the sink ended before it answered; it starts again";

fn ended() -> Error {
    Error::new(ErrorKind::Handler, ENDED)
}

impl fmt::Debug for LineSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LineSink({:?})", self.0.command)
    }
}
