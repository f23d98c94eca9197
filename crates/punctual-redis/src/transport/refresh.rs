//! Refreshes the topology, once for all callers that need it.

use std::sync::{Arc, Mutex, MutexGuard};

use punctual::sync::Lock;
use punctual::time::Stopwatch;
use punctual::{Error, ErrorKind, Result};
use tokio::sync::watch;

use crate::transport::address::Place;
use crate::transport::error_mapping::again;
use crate::transport::link::{Dialer, SHARED_FAILURE};
use crate::transport::topology::{Slot, Topology};

/// The last known topology, and the refresh that is under way.
#[derive(Debug)]
pub(crate) struct Refresh {
    place: Place,
    dialer: Dialer,
    topology: Arc<Mutex<Topology>>,
    last: Mutex<Option<Refreshing>>,
}

/// A refresh that all callers share. It goes on without them: a caller with a short deadline would
/// never see it end.
type Refreshing = watch::Receiver<Option<Refreshed>>;

/// How a refresh ended; if it failed, when.
type Refreshed = std::result::Result<(), (Error, Stopwatch)>;

impl Refresh {
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

    /// The servers of the address, for an error message.
    pub(crate) fn asked(&self) -> String {
        let hosts: Vec<_> = self.place.hosts().iter().map(ToString::to_string).collect();
        hosts.join(", ")
    }

    /// Asks the servers for the topology if it is not known of a slot, or of all; callers share the
    /// answer.
    pub(crate) async fn refresh(&self, of: Option<Slot>) -> Result<()> {
        let mut refreshing = {
            let mut last = self.last.locked();
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
        match refreshing.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Err((error, _)))) => Err(again(error)),
            Ok(_) => Ok(()),
            Err(_) => {
                let message = "the topology refresh ended with its runtime";
                Err(Error::new(ErrorKind::EngineUnavailable, message))
            }
        }
    }

    fn begin(&self) -> Refreshing {
        let (ends, refreshing) = watch::channel(None);
        let topology = self.topology.clone();
        let found = self.topology().fetch(&self.place, &self.dialer);
        tokio::spawn(async move {
            let found = found.await.map(|found| lock(&topology).learn(found));
            ends.send_replace(Some(found.map_err(|error| (error, Stopwatch::start()))));
        });
        refreshing
    }
}

fn lock(topology: &Mutex<Topology>) -> MutexGuard<'_, Topology> {
    topology.locked()
}
