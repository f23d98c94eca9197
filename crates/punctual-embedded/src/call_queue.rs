//! Calls on their way to the committer: bounded in number and bytes, in the order of arrival.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::machine::Machine;
use punctual::sync::Lock;
use punctual::time::{Timestamp, seconds};
use punctual::{Error, ErrorKind, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// What a call needs of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Takes room: refused when the disk is short of it, and answered when it is durable.
    Enqueue,
    /// Answered when it is durable.
    Change,
    /// Changes something that a crash may forget: answered when it is written.
    Claim,
    /// Answered as soon as it is known.
    Read,
}

/// A verb on its way to the machine.
pub(crate) struct Call {
    pub(crate) kind: Kind,
    verb: Verb,
    _permit: OwnedSemaphorePermit,
}

/// Runs on the machine at an instant, or answers why it does not.
type Verb = Box<dyn FnOnce(Result<Turn<'_>>) -> Done + Send>;
type Turn<'a> = (&'a mut Machine, Timestamp);

/// A verb that was done: its answer waits to be sent.
pub(crate) struct Done {
    /// The error with which it failed, if it is one of the store's.
    pub(crate) broke: Option<ErrorKind>,
    pub(crate) answer: Answer,
}

/// Sends the answer, or the error that came between.
pub(crate) struct Answer(Box<dyn FnOnce(Result<()>) + Send>);

impl Call {
    pub(crate) fn run(self, machine: &mut Machine, now: Timestamp) -> Done {
        (self.verb)(Ok((machine, now)))
    }

    /// Answers an error, and does nothing.
    pub(crate) fn refuse(self, error: Error) {
        (self.verb)(Err(error)).answer.send(Ok(()));
    }
}

impl Answer {
    pub(crate) fn send(self, kept: Result<()>) {
        (self.0)(kept);
    }
}

/// Where calls wait for the committer, and the committer for calls.
pub(crate) struct Calls {
    state: Mutex<State>,
    arrived: Condvar,
    /// One permit per KiB of a call that waits.
    room: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Call>,
    /// A checkpoint has ended: the last commit that the store has now.
    applied: Option<u64>,
    is_closing: bool,
    broken: Option<Broken>,
}

/// Why no call is answered any more.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    pub(crate) kind: ErrorKind,
    pub(crate) why: String,
}

impl Broken {
    pub(crate) fn of(error: &Error) -> Self {
        let (kind, why) = (error.kind(), error.message().to_owned());
        Self { kind, why }
    }

    /// After a failed sync nothing is known of any byte of the log.
    pub(crate) fn by_sync(error: &io::Error) -> Self {
        let why = format!(
            "sync of the log failed: {error}; nothing more is acknowledged, see to the disk and open the directory again"
        );
        let kind = ErrorKind::EngineUnavailable;
        Self { kind, why }
    }

    /// What every call answers from now on.
    pub(crate) fn error(&self) -> Error {
        let error = Error::new(ErrorKind::EngineStopped, self.why.clone());
        error.with("cause", self.kind.code())
    }
}

/// What the committer has to do next.
pub(crate) struct Work {
    pub(crate) calls: Vec<Call>,
    pub(crate) applied: Option<u64>,
    /// No call comes after these.
    pub(crate) is_last: bool,
}

const ROOM: usize = 64 << 10;
const CALL_MIN: usize = 16;
/// How long a full memory holds calls up before they are let in all the same.
const WAIT_MAX: Duration = seconds(5);
/// Calls that one commit takes at most.
const GROUP_MAX: usize = 1_024;

impl Calls {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::default(),
            arrived: Condvar::new(),
            room: Arc::new(Semaphore::new(ROOM)),
        }
    }

    /// Sends a verb to the machine and awaits its answer. `bytes` is about what it carries.
    pub(crate) async fn send<T: Send + 'static>(
        &self,
        kind: Kind,
        bytes: usize,
        verb: impl FnOnce(&mut Machine, Timestamp) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let room = (bytes / 1024).clamp(CALL_MIN, ROOM) as u32;
        let permit = self.room.clone().acquire_many_owned(room).await;
        let permit = permit.map_err(|_| closed())?;
        let (sender, receiver) = oneshot::channel();
        let call = Call {
            kind,
            verb: Box::new(move |machine| {
                let answer = machine.and_then(|(machine, now)| verb(machine, now));
                let broke = answer
                    .as_ref()
                    .err()
                    .map(Error::kind)
                    .filter(is_of_the_store);
                let answer = Answer(Box::new(move |kept| {
                    // The caller may have given up.
                    let _ = sender.send(kept.and(answer));
                }));
                Done { broke, answer }
            }),
            _permit: permit,
        };
        self.push(call)?;
        receiver.await.unwrap_or_else(|_| Err(self.why_gone()))
    }

    fn push(&self, call: Call) -> Result<()> {
        let mut state = self.lock();
        if let Some(broken) = &state.broken {
            return Err(broken.error());
        }
        if state.is_closing {
            return Err(closed());
        }
        state.waiting.push_back(call);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for something to do, at most for a span.
    pub(crate) fn take(&self, at_most: Duration) -> Work {
        let idle = |state: &mut State| {
            state.waiting.is_empty() && state.applied.is_none() && !state.is_closing
        };
        let state = self.arrived.wait_timeout_while(self.lock(), at_most, idle);
        let (mut state, _) = state.unwrap_or_else(PoisonError::into_inner);
        let group = state.waiting.len().min(GROUP_MAX);
        let calls = state.waiting.drain(..group).collect();
        Work {
            calls,
            applied: state.applied.take(),
            is_last: state.is_closing && state.waiting.is_empty(),
        }
    }

    /// Notifies the committer that a checkpoint has ended.
    pub(crate) fn applied(&self, commit: u64) {
        self.lock().applied = Some(commit);
        self.arrived.notify_one();
    }

    /// Lets the committer wait until a checkpoint has ended.
    pub(crate) fn wait_applied(&self) {
        let waits = |state: &mut State| state.applied.is_none() && !state.is_closing;
        let waited = self
            .arrived
            .wait_timeout_while(self.lock(), WAIT_MAX, waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Lets no call in any more; those that wait are still answered.
    pub(crate) fn close(&self) {
        self.lock().is_closing = true;
        self.arrived.notify_one();
    }

    /// Lets no call in any more, and those that wait fail: nothing more is acknowledged.
    pub(crate) fn break_down(&self, broken: Broken) {
        tracing::error!(why = broken.why, "embedded engine stops");
        let mut state = self.lock();
        state.broken.get_or_insert(broken);
        state.is_closing = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        // Their answers go unsent, which the caller notices.
        drop(waiting);
        self.arrived.notify_one();
    }

    pub(crate) fn broken(&self) -> Option<Broken> {
        self.lock().broken.clone()
    }

    fn why_gone(&self) -> Error {
        self.broken().map_or_else(closed, |broken| broken.error())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calls")
    }
}

fn closed() -> Error {
    Error::new(
        ErrorKind::EngineUnavailable,
        "embedded engine is closed; open the directory again",
    )
}

/// Whether an error says that the store failed, rather than that the call was wrong.
fn is_of_the_store(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Io | ErrorKind::DataDamaged | ErrorKind::Internal
    )
}
