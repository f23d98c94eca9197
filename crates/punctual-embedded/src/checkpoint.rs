//! Checkpoints: what is recent goes to the store, then the log that said it goes.
//!
//! On a thread of its own; tidying the store up, which may take long, on another.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};

use punctual::machine::{Frozen, RowVisitor};
use punctual::time::{millis, seconds};
use punctual::{Error, ErrorKind, Result};

use crate::activity::Activity;
use crate::call_queue::{Broken, Calls};
use crate::disk::{Disk, DiskFile};
use crate::store::{Rows, Store};

/// The threads that feed the store and tidy it up.
pub(crate) struct Checkpoints {
    shared: Shared,
    orders: Sender<Order>,
    tidying: Sender<Tidy>,
    threads: Vec<JoinHandle<()>>,
}

/// What a checkpoint writes.
enum Order {
    Apply {
        commit: u64,
        frozen: Frozen,
        file: Arc<dyn DiskFile>,
    },
    /// The store has what was frozen: these segments may go.
    Retire(Vec<String>),
    Close,
}

enum Tidy {
    /// A checkpoint was taken.
    Compact,
    /// No call waits: now is the time.
    Shrink,
    Close,
}

/// The problem that checkpoints fail, by its name in [`Activity`].
pub(crate) const FAILING: &str = "checkpoint";
/// The loop that tidies the store up, by its name in [`Activity`].
pub(crate) const TIDYING: &str = "tidy";

#[derive(Clone)]
struct Shared {
    disk: Arc<dyn Disk>,
    store: Arc<dyn Store>,
    calls: Arc<Calls>,
    activity: Arc<Activity>,
    is_closing: Arc<AtomicBool>,
}

impl Checkpoints {
    pub(crate) fn start(
        disk: Arc<dyn Disk>,
        store: Arc<dyn Store>,
        calls: Arc<Calls>,
        activity: Arc<Activity>,
    ) -> io::Result<Self> {
        let shared = Shared {
            disk,
            store,
            calls,
            activity,
            is_closing: Arc::default(),
        };
        let (orders, received) = channel();
        let (tidying, tidied) = channel();
        let (feeder, tidier, wake) = (shared.clone(), shared.clone(), tidying.clone());
        let named = |name: &str| thread::Builder::new().name(name.into());
        let threads = vec![
            named("punctual-store").spawn(move || feeder.feed(&received, &wake))?,
            named("punctual-tidy").spawn(move || tidier.tidy(&tidied))?,
        ];
        Ok(Self {
            shared,
            orders,
            tidying,
            threads,
        })
    }

    /// Takes a checkpoint of everything up to a commit; the log goes on after it in a new file. Its
    /// end comes to the committer by [`Calls::applied`].
    pub(crate) fn apply(&self, commit: u64, frozen: Frozen, file: Arc<dyn DiskFile>) {
        let order = Order::Apply {
            commit,
            frozen,
            file,
        };
        // The thread ends only when it is closed, or with the engine.
        let _ = self.orders.send(order);
    }

    /// Takes a checkpoint as [`Checkpoints::apply`] does, once the threads have ended.
    pub(crate) fn apply_now(
        &self,
        commit: u64,
        frozen: &Frozen,
        file: &dyn DiskFile,
    ) -> Result<()> {
        let begun = self.shared.sync_begun(file);
        begun.map_err(|error| Broken::by_sync(&error).error())?;
        self.shared.try_apply(commit, frozen)
    }

    /// Removes segments of the log that the store makes superfluous.
    pub(crate) fn retire(&self, segments: Vec<String>) {
        let _ = self.orders.send(Order::Retire(segments));
    }

    /// Tidies the store up as far as it is worth it.
    pub(crate) fn shrink(&self) {
        let _ = self.tidying.send(Tidy::Shrink);
    }

    /// Removes segments as [`Checkpoints::retire`] does, once the threads have ended.
    pub(crate) fn retire_now(&self, segments: &[String]) {
        self.shared.retire(segments);
    }

    /// Waits for the checkpoint in work, and ends the threads.
    pub(crate) fn close(&mut self) {
        self.shared.is_closing.store(true, Ordering::Release);
        let _ = self.orders.send(Order::Close);
        let _ = self.tidying.send(Tidy::Close);
        for thread in self.threads.drain(..) {
            // A panic of one was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// The store is released only after this, so that no other process writes beside its threads.
impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn feed(&self, orders: &Receiver<Order>, tidying: &Sender<Tidy>) {
        let mut freed = None;
        loop {
            self.activity.rest(FAILING);
            let Ok(order) = orders.recv() else { return };
            self.activity.beat(FAILING);
            match order {
                Order::Apply {
                    commit,
                    frozen,
                    file,
                } => {
                    if let Err(error) = self.sync_begun(&*file) {
                        return self.calls.break_down(Broken::by_sync(&error));
                    }
                    if !self.apply(commit, &frozen, orders) {
                        return;
                    }
                    // The machine still reads these rows; it must not be the one to free them.
                    freed = Some(frozen);
                    self.calls.applied(commit);
                    let _ = tidying.send(Tidy::Compact);
                }
                Order::Retire(segments) => {
                    freed = None;
                    self.retire(&segments);
                }
                Order::Close => return drop(freed),
            }
        }
    }

    /// Tries until it is done; `false` if the engine is closed before.
    fn apply(&self, commit: u64, frozen: &Frozen, orders: &Receiver<Order>) -> bool {
        let mut wait = millis(100);
        loop {
            let error = match self.try_apply(commit, frozen) {
                Ok(()) => {
                    self.activity.set(FAILING, None);
                    return true;
                }
                Err(error) => error,
            };
            let problem = format!("checkpoint failed and is tried again: {error}");
            self.activity.set(FAILING, Some(problem));
            self.activity.restarted(FAILING);
            match orders.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => wait = (wait * 2).min(seconds(5)),
                _ => return false,
            }
        }
    }

    /// Once the store has a checkpoint, the log begins with this file: it must be there whole.
    fn sync_begun(&self, file: &dyn DiskFile) -> io::Result<()> {
        file.sync()?;
        self.disk.sync_names()
    }

    fn try_apply(&self, commit: u64, frozen: &Frozen) -> Result<()> {
        let rows: Rows<'_> = &|visit| beating(&self.activity, &|visit| frozen.rows(visit), visit);
        let applied = catch_unwind(AssertUnwindSafe(|| self.store.apply(commit, rows)));
        applied.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "store panicked")))
    }

    fn retire(&self, segments: &[String]) {
        for name in segments {
            if let Err(error) = self.disk.remove(name) {
                // It is passed over, and removed, at the next opening.
                tracing::warn!(%error, name, "log segment could not be removed");
            }
        }
    }

    fn tidy(&self, orders: &Receiver<Tidy>) {
        loop {
            self.activity.rest(TIDYING);
            let Ok(order @ (Tidy::Compact | Tidy::Shrink)) = orders.recv() else {
                return;
            };
            let tidied = catch_unwind(AssertUnwindSafe(|| self.tidy_once(order)));
            let problem = match tidied {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format!("store could not be tidied up: {error}")),
                Err(_) => Some("tidying the store up panicked".into()),
            };
            if problem.is_some() {
                self.activity.restarted(TIDYING);
            }
            self.activity.set(TIDYING, problem);
        }
    }

    fn tidy_once(&self, order: Tidy) -> Result<()> {
        while !self.is_closing.load(Ordering::Acquire) {
            self.activity.beat(TIDYING);
            if !self.store.compact()? {
                if let Tidy::Shrink = order {
                    self.store.shrink()?;
                }
                break;
            }
        }
        Ok(())
    }
}

/// Rows of a checkpoint between two signs of life: a large one may take minutes, and is not stuck.
const ROWS_A_BEAT: u64 = 4_096;

/// Visits the rows of a checkpoint, and beats all along.
fn beating(activity: &Activity, rows: Rows<'_>, visit: RowVisitor<'_>) -> Result<()> {
    let mut seen: u64 = 0;
    rows(&mut |table, key, value| {
        seen += 1;
        if seen.is_multiple_of(ROWS_A_BEAT) {
            activity.beat(FAILING);
        }
        visit(table, key, value)
    })
}

#[cfg(test)]
mod tests;
