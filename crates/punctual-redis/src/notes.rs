use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::engine::{PageReport, Token};

use crate::wire::claim::{Note, PageNotes};

/// What is remembered of the pages that this process claimed, to settle them cheaply. Forgetting
/// costs the server a look at each job, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    pages: BTreeMap<Token, Vec<Note>>,
    order: VecDeque<(Token, usize)>,
    jobs: usize,
}

/// Jobs that are remembered at the same time, some 40 bytes each.
const JOBS_MAX: usize = 100_000;

impl Notes {
    pub(crate) fn remember(&self, pages: PageNotes) {
        let mut known = self.known();
        for (token, mut notes) in pages {
            notes.sort_unstable();
            known.jobs += notes.len();
            known.order.push_back((token, notes.len()));
            known.pages.insert(token, notes);
        }
        while known.jobs > JOBS_MAX {
            let Some((token, jobs)) = known.order.pop_front() else {
                return;
            };
            known.jobs -= jobs;
            known.pages.remove(&token);
        }
    }

    /// The notes of a report's jobs in their order, if they are all known.
    pub(crate) fn of(&self, report: &PageReport) -> Option<Vec<[u8; 16]>> {
        let known = self.known();
        let notes = known.pages.get(&report.token)?;
        let note = |id| {
            let at = notes.binary_search_by_key(&id, |(known, _)| *known).ok()?;
            Some(notes[at].1)
        };
        report.settlements.iter().map(|one| note(one.id)).collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
