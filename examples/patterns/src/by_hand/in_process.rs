//! In the memory of one process: a delay queue, a hashed timing wheel, a scheduler.

use std::future::pending;
use std::sync::Arc;

use punctual::time::{Stopwatch, millis, pause, seconds};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::ledger::Ledger;

/// A timer for each message. The process ends with the message that kills it; the one after it
/// knows nothing of the rest.
pub(super) async fn delay_queue(ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    let death = Arc::new(Notify::new());
    let mut process = JoinSet::new();
    for id in 0..ledger.work.messages {
        let due = ledger.work.due(id);
        ledger.sends(id, due);
        let (ledger, death) = (ledger.clone(), death.clone());
        process.spawn(async move {
            pause(due).await;
            if !ledger.works(id).await {
                death.notify_one();
            }
        });
    }
    tasks.spawn(async move {
        death.notified().await;
        drop(process);
        pending::<()>().await;
    });
}

const SLOTS: usize = 64;
const TICK_MS: u64 = 100;

/// A wheel of 64 slots, each a tick of 100 ms: a message goes to the slot after its due.
pub(super) async fn wheel(ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    let mut slots: Vec<Vec<(u64, u32)>> = vec![Vec::new(); SLOTS];
    for id in 0..ledger.work.messages {
        let due = ledger.work.due(id);
        ledger.sends(id, due);
        let tick = due.as_millis() as u64 / TICK_MS + 1;
        slots[tick as usize % SLOTS].push((tick / SLOTS as u64, id));
    }
    let ledger = ledger.clone();
    tasks.spawn(async move {
        for tick in 1.. {
            pause(millis(TICK_MS)).await;
            let slot = std::mem::take(&mut slots[tick % SLOTS]);
            for (rounds, id) in slot {
                if rounds > 0 {
                    slots[tick % SLOTS].push((rounds - 1, id));
                } else if !ledger.works(id).await {
                    return;
                }
            }
        }
    });
}

/// The instants of a rule, computed by the process from now on: those that pass while it is away
/// have no owner.
pub(super) fn scheduler(ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    let begun = Stopwatch::start();
    for id in 0..ledger.work.messages {
        ledger.sends(id, ledger.work.due(id) + seconds(1));
    }
    let ledger = ledger.clone();
    tasks.spawn(async move {
        let work = ledger.work.clone();
        loop {
            let from = begun.elapsed();
            let mut lives = true;
            for id in 0..work.messages {
                let due = work.due(id) + seconds(1);
                if due < from || !lives {
                    continue;
                }
                pause(due.saturating_sub(begun.elapsed())).await;
                lives = ledger.works(id).await;
            }
            if lives {
                return pending().await;
            }
            pause(millis(500)).await; // a deploy
        }
    });
}
