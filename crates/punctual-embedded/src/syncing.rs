//! Syncs the log, one sync for all that was written meanwhile, and sends the answers it covers.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use metrics::histogram;
use punctual::engine::Durability;
use punctual::injected::{Bug, is_injected};
use punctual::sync::Lock;
use punctual::time::Stopwatch;
use punctual::{Error, Result};

use crate::call_queue::{Answer, Broken, Calls};
use crate::disk::{Disk, DiskFile};

/// What was written of the log and what of it is on disk.
pub(crate) struct Syncing {
    durability: Durability,
    disk: Arc<dyn Disk>,
    calls: Arc<Calls>,
    state: Mutex<State>,
    written: Condvar,
    /// The last commit that is known to be on disk.
    synced: AtomicU64,
}

struct State {
    /// Answers with the commit that they wait for.
    waiting: VecDeque<(u64, Vec<Answer>)>,
    written: u64,
    /// The files written since the last sync; the last one is written now.
    files: Vec<Arc<dyn DiskFile>>,
    /// A file was begun since the last sync.
    has_begun: bool,
    is_closing: bool,
    has_failed: bool,
}

/// The last commit written, the files it and those before it are in, and whether one is new.
type Dirty = (u64, Vec<Arc<dyn DiskFile>>, bool);

impl Syncing {
    /// For a log that is on disk up to a commit and is written to a file.
    pub(crate) fn new(
        durability: Durability,
        disk: Arc<dyn Disk>,
        calls: Arc<Calls>,
        number: u64,
        file: Arc<dyn DiskFile>,
    ) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            written: number,
            files: vec![file],
            has_begun: false,
            is_closing: false,
            has_failed: false,
        };
        Self {
            durability,
            disk,
            calls,
            state: Mutex::new(state),
            written: Condvar::new(),
            synced: AtomicU64::new(number),
        }
    }

    /// The last commit that is known to be on disk.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// A commit was written: sends these answers once it is as durable as was asked for.
    pub(crate) fn written(&self, number: u64, answers: Vec<Answer>) {
        let at_once = self.durability != Durability::Fsync || self.synced() >= number;
        let mut state = self.lock();
        if state.has_failed {
            return drop(answers);
        }
        let was_behind = state.written > self.synced();
        state.written = number;
        if !at_once && !answers.is_empty() {
            state.waiting.push_back((number, answers));
            self.written.notify_one();
            return;
        }
        if !was_behind && matches!(self.durability, Durability::Interval(_)) {
            self.written.notify_one();
        }
        drop(state);
        answers.into_iter().for_each(|answer| answer.send(Ok(())));
    }

    /// The log goes on in another file.
    pub(crate) fn goes_on_in(&self, file: Arc<dyn DiskFile>) {
        let mut state = self.lock();
        state.files.push(file);
        state.has_begun = true;
    }

    /// Ends the loop after one more sync, whatever the durability.
    pub(crate) fn close(&self) {
        self.lock().is_closing = true;
        self.written.notify_one();
    }

    /// Syncs until it is closed, or fails.
    pub(crate) fn run(&self) -> Result<()> {
        while let Some((target, files, has_begun)) = self.next() {
            if let Err(error) = self.sync(&files, has_begun) {
                return Err(self.fail(&error));
            }
            self.synced.store(target, Ordering::Release);
            let mut state = self.lock();
            let covered = state
                .waiting
                .partition_point(|(number, _)| *number <= target);
            let answers: Vec<_> = state.waiting.drain(..covered).collect();
            drop(state);
            let answers = answers.into_iter().flat_map(|(_, answers)| answers);
            answers.for_each(|answer| answer.send(Ok(())));
        }
        Ok(())
    }

    /// Waits until something is to be synced; `None` once closed and all is.
    fn next(&self) -> Option<Dirty> {
        let mut state = self.lock();
        loop {
            let is_behind = state.written > self.synced();
            if state.is_closing && !is_behind {
                return None;
            }
            if state.is_closing || !state.waiting.is_empty() {
                return self.take(state);
            }
            state = match self.durability {
                Durability::Interval(span) if is_behind => {
                    let waited = self.written.wait_timeout(state, span);
                    let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    if timeout.timed_out() {
                        return self.take(state);
                    }
                    state
                }
                _ => self
                    .written
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn take(&self, mut state: MutexGuard<'_, State>) -> Option<Dirty> {
        let files = state.files.clone();
        let current = files.len() - 1;
        state.files.drain(..current);
        Some((state.written, files, std::mem::take(&mut state.has_begun)))
    }

    fn sync(&self, files: &[Arc<dyn DiskFile>], has_begun: bool) -> io::Result<()> {
        let watch = Stopwatch::start();
        if is_injected(Bug::SyncSkipped) {
            return Ok(());
        }
        files.iter().try_for_each(|file| file.sync())?;
        if has_begun {
            self.disk.sync_names()?;
        }
        histogram!("punctual_fsync_seconds").record(watch.elapsed());
        Ok(())
    }

    /// After a failed sync nothing is known of any byte: no answer is sent any more.
    fn fail(&self, error: &io::Error) -> Error {
        let broken = Broken::by_sync(error);
        let failed = broken.error();
        self.calls.break_down(broken);
        let mut state = self.lock();
        state.has_failed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
        failed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }
}
