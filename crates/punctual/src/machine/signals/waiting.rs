//! Waiting for what a step causes: read, await a notice, read again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;

use super::Wakeups;
use crate::engine::{Change, Namespace, Waited};
use crate::error::Result;
use crate::job::JobId;
use crate::time::{SteadyClock, Timestamp, seconds};

/// How often a waiter polls for work itself: the waiter that received a wakeup may have ended.
const POLLS_AGAIN: Duration = seconds(1);

impl Wakeups {
    /// Waits until a wakeup of one of the queues, or until `poll` finds work, at most until an
    /// instant. A wakeup sent while no call waited counts at once.
    pub async fn work<L: Future<Output = Result<bool>>>(
        &self,
        namespace: &Namespace,
        queues: &[String],
        clock: &SteadyClock,
        until: Timestamp,
        poll: impl Fn() -> L,
    ) -> Result<Waited> {
        let wakeups: Vec<_> = {
            let mut state = self.lock();
            let wakeup = |queue: &String| state.wakeup(namespace.as_str(), queue);
            queues.iter().map(wakeup).collect()
        };
        let mut wakeups = select_all(wakeups.iter().map(|wakeup| Box::pin(wakeup.notified())));
        loop {
            let now = clock.now();
            tokio::select! {
                biased;
                _ = &mut wakeups => return Ok(Waited::Work),
                () = clock.sleep_until(until.min(now + POLLS_AGAIN)) => {}
            }
            if until <= now + POLLS_AGAIN {
                return Ok(Waited::TimedOut);
            }
            if poll().await? {
                return Ok(Waited::Work);
            }
        }
    }

    /// Waits until all of these jobs are settled, as `poll` says, at most until an instant.
    pub async fn settled<L: Future<Output = Result<bool>>>(
        self: &Arc<Self>,
        namespace: &Namespace,
        ids: &[JobId],
        clock: &SteadyClock,
        until: Timestamp,
        poll: impl Fn() -> L,
    ) -> Result<Waited> {
        let watch = self.watch_settled(namespace, ids);
        let notices: Vec<_> = watch.notices().cloned().collect();
        let mut sleep = clock.sleep_until(until);
        loop {
            let notified =
                |notice: &Arc<tokio::sync::Notify>| Box::pin(notice.clone().notified_owned());
            let mut wakeups: Vec<_> = notices.iter().map(notified).collect();
            for notified in &mut wakeups {
                notified.as_mut().enable();
            }
            if poll().await? {
                return Ok(Waited::Settled);
            }
            tokio::select! {
                _ = select_all(wakeups) => {}
                () = &mut sleep => return Ok(Waited::TimedOut),
            }
        }
    }

    /// Waits until `poll` finds changes after a cursor, at most until an instant. It answers what
    /// [`Machine::changes`](crate::machine::Machine::changes) does.
    pub async fn feed<L: Future<Output = Result<(Vec<Change>, u64, bool)>>>(
        &self,
        mut after: Option<u64>,
        clock: &SteadyClock,
        until: Timestamp,
        poll: impl Fn(Option<u64>) -> L,
    ) -> Result<Waited> {
        let mut sleep = clock.sleep_until(until);
        loop {
            let mut notified = Box::pin(self.changes().notified_owned());
            notified.as_mut().enable();
            let (changes, cursor, gap) = poll(after).await?;
            let waited = Waited::Changes {
                changes,
                cursor,
                gap,
            };
            if matches!(&waited, Waited::Changes { changes, gap, .. } if *gap || !changes.is_empty())
            {
                return Ok(waited);
            }
            after = Some(cursor);
            tokio::select! {
                () = notified => {}
                () = &mut sleep => return Ok(waited),
            }
        }
    }
}
