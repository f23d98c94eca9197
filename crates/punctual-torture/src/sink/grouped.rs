//! Writes effects to a database, many in one transaction.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use punctual::JobId;
use punctual::sync::Lock;

use super::{Effect, Rows, Sink};

/// A connection that writes effects, many at a time.
pub(super) trait Store: Send {
    /// Writes each with its business row, both or neither; `false` for each that was there before.
    /// After an error it is not known which were written.
    fn write(&mut self, effects: &[Effect]) -> io::Result<Vec<bool>>;
    /// What is there of every job.
    fn rows(&mut self) -> io::Result<BTreeMap<JobId, Rows>>;
}

/// A sink whose callers write together: what comes while others are written goes with the next.
pub(super) struct Grouped<S> {
    store: Mutex<S>,
    waiting: Mutex<Vec<(Effect, Answer)>>,
}

/// Whether it was new, or why it was not written.
type Answer = Arc<OnceLock<Result<bool, String>>>;

impl<S: Store> Grouped<S> {
    pub(super) fn new(store: S) -> Self {
        Self {
            store: Mutex::new(store),
            waiting: Mutex::default(),
        }
    }

    fn flush(&self, store: &mut S) {
        let (effects, answers): (Vec<_>, Vec<_>) = std::mem::take(&mut *lock(&self.waiting))
            .into_iter()
            .unzip();
        match store.write(&effects) {
            Ok(new) => {
                for (answer, new) in answers.iter().zip(new) {
                    let _ = answer.set(Ok(new));
                }
            }
            Err(error) => {
                for answer in &answers {
                    let _ = answer.set(Err(error.to_string()));
                }
            }
        }
    }
}

impl<S: Store> Sink for Grouped<S> {
    fn write(&self, effect: Effect) -> io::Result<bool> {
        let answer = Answer::default();
        lock(&self.waiting).push((effect, answer.clone()));
        let mut store = lock(&self.store);
        // The holder before may have written this one too.
        if answer.get().is_none() {
            self.flush(&mut store);
        }
        let said = answer.get().cloned();
        said.unwrap_or_else(|| Err("no holder wrote it".into()))
            .map_err(io::Error::other)
    }

    fn rows(&self) -> io::Result<BTreeMap<JobId, Rows>> {
        lock(&self.store).rows()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.locked()
}
