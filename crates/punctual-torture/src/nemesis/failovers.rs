//! Failovers that no fault caused: on a machine that has other work sentinels may take a master for
//! gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use punctual::time::{millis, pause};
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use super::HEALS_MAX;
use crate::call_log::History;
use crate::cell::Servers;
use crate::event::Event;
use crate::stamp::stamp;
use crate::waits::Waits;

/// Compares how often sentinels have named another master, where there are any.
pub(crate) struct Failovers {
    servers: Arc<Mutex<Servers>>,
    /// When they were asked last, and what they said.
    at: AtomicU64,
    epoch: AtomicU64,
}

impl Failovers {
    /// Asks them for the first time.
    pub(crate) async fn watch(servers: Arc<Mutex<Servers>>) -> Self {
        let failovers = Self {
            servers,
            at: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
        };
        failovers.expect().await;
        failovers
    }

    /// Takes note of what a fault caused; answers whether there is more than was known, and since
    /// when that was.
    pub(crate) async fn expect(&self) -> Option<u64> {
        let epoch = epoch(&*self.servers.lock().await);
        let before = self.epoch.fetch_max(epoch, Relaxed);
        let since = self.at.swap(stamp(), Relaxed);
        (epoch > before).then_some(since)
    }

    /// Writes down that there was one, if there was, since they were asked last, and until the last
    /// master follows the new one: before that it may answer clients, and forget that.
    pub(crate) async fn check(&self, history: &History, waits: &Waits) {
        let mut since = None;
        while let Some(before) = self.expect().await {
            since.get_or_insert(before);
            let what = "a failover that no fault caused to be over";
            waits.on(HEALS_MAX, what, self.is_over()).await;
        }
        if let Some(since) = since {
            history.note(Event::FailedOver { since });
        }
    }

    async fn is_over(&self) {
        loop {
            let is_over = match &mut *self.servers.lock().await {
                Servers::Sentinels(sentinels) => block_in_place(|| sentinels.are_whole()),
                _ => true,
            };
            if is_over {
                return;
            }
            pause(millis(50)).await;
        }
    }
}

/// The number of the last failover that any sentinel knows.
fn epoch(servers: &Servers) -> u64 {
    let Servers::Sentinels(sentinels) = servers else {
        return 0;
    };
    let said = block_in_place(|| sentinels.ask_all(&["SENTINEL", "MASTER", "main"]));
    let epochs = said.iter().filter_map(|said| {
        let mut words = said.lines().skip_while(|word| *word != "config-epoch");
        words.nth(1)?.parse().ok()
    });
    epochs.max().unwrap_or_default()
}
