//! What is known of each host: how many deliveries it has, and whether it is worth asking.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual::sync::Lock;
use punctual::time::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::breaker::{Admission, Breaker};

/// Hosts that are remembered; beyond it those that are at rest are forgotten.
const HOSTS_MAX: usize = 4_096;
/// Jobs that may wait for each place: enough to go on with while others come back.
const WAITING_PER_PLACE: usize = 4;

/// Every host that was asked.
#[derive(Debug)]
pub(crate) struct Hosts {
    known: Mutex<HashMap<String, Arc<Host>>>,
    clock: Arc<dyn Clock>,
    per_host: usize,
}

#[derive(Debug)]
struct Host {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    breaker: Mutex<Breaker>,
}

/// Leave to post to a host; says how it went, or is dropped.
#[derive(Debug)]
pub(crate) struct Leave {
    host: Arc<Host>,
    clock: Arc<dyn Clock>,
    _place: OwnedSemaphorePermit,
    answered: bool,
}

/// Why a job is delayed without a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// The host has as many deliveries as it may, and enough wait.
    Full,
    /// It failed too often in a row.
    Open(Duration),
}

impl Hosts {
    pub(crate) fn new(clock: Arc<dyn Clock>, per_host: usize) -> Self {
        Self {
            known: Mutex::default(),
            clock,
            per_host,
        }
    }

    /// Waits for a place among the deliveries to that host, if few wait already.
    pub(crate) async fn enter(&self, name: &str) -> Result<Leave, Busy> {
        let host = self.host(name);
        let place = match host.places.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                let _waiting = Waiting::among(&host, self.per_host * WAITING_PER_PLACE)?;
                let place = host.places.clone().acquire_owned().await;
                place.map_err(|_| Busy::Full)?
            }
        };
        let admission = host.breaker().admit(self.clock.now());
        match admission {
            Admission::Wait(span) => Err(Busy::Open(span)),
            Admission::Go | Admission::Probe => Ok(Leave {
                host,
                clock: self.clock.clone(),
                _place: place,
                answered: false,
            }),
        }
    }

    fn host(&self, name: &str) -> Arc<Host> {
        let mut known = self.known.locked();
        if known.len() >= HOSTS_MAX && !known.contains_key(name) {
            known.retain(|_, host| Arc::strong_count(host) > 1 || !host.breaker().is_fresh());
            // All of them ill: some are learned anew.
            if known.len() >= HOSTS_MAX {
                known.retain(|_, host| Arc::strong_count(host) > 1);
            }
        }
        let new = || {
            Arc::new(Host {
                places: Arc::new(Semaphore::new(self.per_host)),
                waiting: AtomicUsize::new(0),
                breaker: Mutex::default(),
            })
        };
        known.entry(name.to_owned()).or_insert_with(new).clone()
    }
}

impl Host {
    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.locked()
    }
}

impl Leave {
    /// The host is well.
    pub(crate) fn well(mut self) {
        self.answered = true;
        self.host.breaker().well();
    }

    /// It is not; whether the host is blocked for a while now.
    pub(crate) fn ill(mut self) -> bool {
        self.answered = true;
        let now = self.clock.now();
        self.host.breaker().ill(now)
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if !self.answered {
            let now = self.clock.now();
            self.host.breaker().unknown(now);
        }
    }
}

/// One that waits for a place.
struct Waiting<'a>(&'a Host);

impl<'a> Waiting<'a> {
    fn among(host: &'a Host, most: usize) -> Result<Self, Busy> {
        let before = host.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Self(host);
        if before >= most {
            return Err(Busy::Full);
        }
        Ok(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
