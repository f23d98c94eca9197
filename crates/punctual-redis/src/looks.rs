//! Who answers for what: looked for once for all who want to know.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual::time::Stopwatch;
use punctual::{Error, ErrorKind, Result};
use tokio::sync::watch;

use crate::address::Place;
use crate::link::{Dialer, SHARED_FAILURE};
use crate::error_mapping::again;
use crate::topology::{Slot, Topology};

/// What was last heard of who answers, and the looks for it.
#[derive(Debug)]
pub(crate) struct Looks {
    place: Place,
    dialer: Dialer,
    topology: Arc<Mutex<Topology>>,
    last: Mutex<Option<Looking>>,
}

/// A look that all share who want to know. It goes on without any of them: who has less time than a silent server is
/// given would never be told.
type Looking = watch::Receiver<Option<Looked>>;

/// How a look has ended; if it failed, when.
type Looked = std::result::Result<(), (Error, Stopwatch)>;

impl Looks {
    pub(crate) fn new(place: &Place, dialer: &Dialer) -> Self {
        Self {
            place: place.clone(),
            dialer: dialer.clone(),
            topology: Arc::new(Mutex::new(Topology::of(place))),
            last: Mutex::default(),
        }
    }

    pub(crate) fn topology(&self) -> MutexGuard<'_, Topology> {
        lock(&self.topology)
    }

    /// The servers of the address, for who is to look after them.
    pub(crate) fn asked(&self) -> String {
        let hosts: Vec<_> = self.place.hosts().iter().map(ToString::to_string).collect();
        hosts.join(", ")
    }

    /// Asks the servers who answers for what, once for all who want to know, if that is not known of a slot or of all.
    pub(crate) async fn look(&self, of: Option<Slot>) -> Result<()> {
        let mut looking = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let is_known = match of {
                Some(slot) => self.topology().owner(slot).is_some(),
                None => self.topology().is_complete(),
            };
            if is_known {
                return Ok(());
            }
            let shared = last.take().filter(|last| match &*last.borrow() {
                None => last.has_changed().is_ok(),
                Some(Ok(())) => false,
                Some(Err((error, since))) => {
                    error.is_retryable() && since.elapsed() < SHARED_FAILURE
                }
            });
            last.insert(shared.unwrap_or_else(|| self.begin())).clone()
        };
        match looking.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Err((error, _)))) => Err(again(error)),
            Ok(_) => Ok(()),
            Err(_) => {
                let message = "the look for who answers has ended with its runtime";
                Err(Error::new(ErrorKind::EngineUnavailable, message))
            }
        }
    }

    fn begin(&self) -> Looking {
        let (ends, looking) = watch::channel(None);
        let topology = self.topology.clone();
        let found = self.topology().look(&self.place, &self.dialer);
        tokio::spawn(async move {
            let found = found.await.map(|found| lock(&topology).learn(found));
            ends.send_replace(Some(found.map_err(|error| (error, Stopwatch::start()))));
        });
        looking
    }
}

fn lock(topology: &Mutex<Topology>) -> MutexGuard<'_, Topology> {
    topology.lock().unwrap_or_else(PoisonError::into_inner)
}
