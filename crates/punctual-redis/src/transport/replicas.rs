//! Changes that wait for replicas.

use std::sync::{Mutex, MutexGuard};

use futures_util::future::join_all;
use punctual::Result;
use punctual::sync::Lock;
use punctual::time::millis;
use redis::{Cmd, RedisError, RedisResult, Value, cmd};
use tokio::sync::oneshot;

use crate::transport::link::Link;

/// Changes that are answered once they are on so many replicas. All that come while others are
/// waited for go together, under one `WAIT`, on a connection of their own: it blocks.
#[derive(Debug)]
pub(crate) struct Replicas {
    pub(crate) wanted: u8,
    pub(crate) link: Link,
    pending: Mutex<Vec<Pending>>,
    flushing: tokio::sync::Mutex<()>,
}

type Pending = (Cmd, oneshot::Sender<Reached>);

/// What became of a change.
#[derive(Debug)]
pub(crate) enum Reached {
    /// The answer, and it is on as many replicas as wanted if it is a good one.
    Answer(RedisResult<Value>),
    /// It is on that many only, by now.
    TooFew(u64),
    /// Nothing is known: its sender has gone.
    Unknown,
}

/// A master that has become a replica ends and refuses `WAIT`: only the new master knows which
/// replicas have the changes.
fn is_of_no_master(error: &RedisError) -> bool {
    let said = error.detail().unwrap_or("");
    error.code() == Some("UNBLOCKED") || said.contains("WAIT cannot be used with replica")
}

/// Changes under one `WAIT`; as many as are polled in their order, which is that of the connection.
const FLUSH_MAX: usize = 29;
/// How long replicas are waited for before it is said that they are too few.
const TIME_LIMIT: std::time::Duration = millis(1_000);

impl Replicas {
    pub(crate) fn new(wanted: u8, link: Link) -> Self {
        Self {
            wanted,
            link,
            pending: Mutex::default(),
            flushing: tokio::sync::Mutex::default(),
        }
    }

    /// Sends a change and waits for the replicas to have it.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Reached> {
        let (done, mut reached) = oneshot::channel();
        self.pending().push((command.clone(), done));
        loop {
            let _flushing = self.flushing.lock().await;
            match reached.try_recv() {
                Ok(reached) => return Ok(reached),
                Err(oneshot::error::TryRecvError::Closed) => return Ok(Reached::Unknown),
                Err(oneshot::error::TryRecvError::Empty) => self.flush().await?,
            }
        }
    }

    async fn flush(&self) -> Result<()> {
        let live = self.link.live().await?;
        let (commands, callers): (Vec<Cmd>, Vec<_>) = {
            let mut pending = self.pending();
            // Done now, it would come after what its caller has done since.
            pending.retain(|(_, caller)| !caller.is_closed());
            let end = pending.len().min(FLUSH_MAX);
            pending.drain(..end).unzip()
        };
        let mut wait = cmd("WAIT");
        wait.arg(self.wanted).arg(TIME_LIMIT.as_millis() as u64);
        let send = |command: Cmd| {
            let mut connection = live.connection.clone();
            async move { command.query_async::<Value>(&mut connection).await }
        };
        let mut answers = join_all(commands.into_iter().chain([wait]).map(send)).await;
        let reached = match answers.pop() {
            Some(Ok(Value::Int(reached))) => Ok(reached.unsigned_abs()),
            Some(Err(error)) => Err(error),
            _ => Ok(0),
        };
        if reached.is_err() {
            self.link.broken(live.generation);
        }
        for (caller, answer) in callers.into_iter().zip(answers) {
            let reached = match (answer, &reached) {
                (Err(error), _) => Reached::Answer(Err(error)),
                (Ok(_), Err(error)) if is_of_no_master(error) => Reached::TooFew(0),
                (Ok(_), Err(error)) => Reached::Answer(Err(error.clone())),
                (Ok(_), Ok(reached)) if *reached < self.wanted.into() => Reached::TooFew(*reached),
                (answer, _) => Reached::Answer(answer),
            };
            // Who has gone learns nothing; his change is done or not, as reported to no caller.
            let _ = caller.send(reached);
        }
        Ok(())
    }

    fn pending(&self) -> MutexGuard<'_, Vec<Pending>> {
        self.pending.locked()
    }
}

#[cfg(test)]
mod tests;
