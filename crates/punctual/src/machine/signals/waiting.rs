//! Waiting for what a step causes: look, await a notice, look again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;

use super::Bells;
use crate::engine::{Change, Namespace, Waited};
use crate::error::Result;
use crate::job::JobId;
use crate::time::{SteadyClock, Timestamp, seconds};

/// How often one who waits for work looks for it himself, in case that the bell was lost with who
/// heard it: one that was told to end, or that has gone.
const LOOKS_AGAIN: Duration = seconds(1);

impl Bells {
    /// Waits until one of the queues' bells rings, or `look` finds work, at most until an instant.
    /// A bell that rang while nobody waited is heard at once.
    pub async fn work<L: Future<Output = Result<bool>>>(
        &self,
        namespace: &Namespace,
        queues: &[String],
        clock: &SteadyClock,
        until: Timestamp,
        look: impl Fn() -> L,
    ) -> Result<Waited> {
        let bells: Vec<_> = {
            let mut state = self.lock();
            let bell = |queue: &String| state.bell(namespace.as_str(), queue);
            queues.iter().map(bell).collect()
        };
        let mut rings = select_all(bells.iter().map(|bell| Box::pin(bell.notified())));
        loop {
            let now = clock.now();
            tokio::select! {
                biased;
                _ = &mut rings => return Ok(Waited::Work),
                () = clock.sleep_until(until.min(now + LOOKS_AGAIN)) => {}
            }
            if until <= now + LOOKS_AGAIN {
                return Ok(Waited::TimedOut);
            }
            if look().await? {
                return Ok(Waited::Work);
            }
        }
    }

    /// Waits until all of these jobs are settled, as `look` says, at most until an instant.
    pub async fn settled<L: Future<Output = Result<bool>>>(
        self: &Arc<Self>,
        namespace: &Namespace,
        ids: &[JobId],
        clock: &SteadyClock,
        until: Timestamp,
        look: impl Fn() -> L,
    ) -> Result<Waited> {
        let watch = self.watch_settled(namespace, ids);
        let notices: Vec<_> = watch.notices().cloned().collect();
        let mut sleep = clock.sleep_until(until);
        loop {
            let ring =
                |notice: &Arc<tokio::sync::Notify>| Box::pin(notice.clone().notified_owned());
            let mut rings: Vec<_> = notices.iter().map(ring).collect();
            for ring in &mut rings {
                ring.as_mut().enable();
            }
            if look().await? {
                return Ok(Waited::Settled);
            }
            tokio::select! {
                _ = select_all(rings) => {}
                () = &mut sleep => return Ok(Waited::TimedOut),
            }
        }
    }

    /// Waits until `look` finds changes after a cursor, at most until an instant. It answers what
    /// [`Machine::changes`](crate::machine::Machine::changes) does.
    pub async fn feed<L: Future<Output = Result<(Vec<Change>, u64, bool)>>>(
        &self,
        mut after: Option<u64>,
        clock: &SteadyClock,
        until: Timestamp,
        look: impl Fn(Option<u64>) -> L,
    ) -> Result<Waited> {
        let mut sleep = clock.sleep_until(until);
        loop {
            let mut ring = Box::pin(self.changes().notified_owned());
            ring.as_mut().enable();
            let (changes, cursor, gap) = look(after).await?;
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
                () = ring => {}
                () = &mut sleep => return Ok(waited),
            }
        }
    }
}
