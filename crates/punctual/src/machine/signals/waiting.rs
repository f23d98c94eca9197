//! Waiting for what a step brings about: look, await a notice, look again.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::select_all;

use super::Bells;
use crate::engine::{Change, Namespace, Waited};
use crate::error::Result;
use crate::job::JobId;
use crate::time::{SteadyClock, Timestamp};

impl Bells {
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
