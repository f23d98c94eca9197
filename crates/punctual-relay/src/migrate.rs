//! Moves the jobs of other queue libraries on Redis into an engine, once and safely.
//!
//! A script moves each job from its key into parking keys beside it, under a number of its own. The
//! job is stored under an id that is derived from that number and the foreign name, and only then
//! is it taken off the list of what is to be stored. So a migration that is killed anywhere goes
//! on where it was: what was parked and not stored is stored under the same id. The parked jobs
//! stay for a week, and can be put back.

mod address;
mod bullmq;
mod celery;
mod found;
mod parking;
mod plan;
mod rq;
mod run;
mod sidekiq;
mod there;

use punctual::Result;

pub use address::Library;
pub use plan::{Plan, Samples};
pub use run::{Moved, Returned};

use self::address::Address;
use self::found::{Format, Place};
use crate::message::check_queue;
use crate::redis::Place as Key;

/// The jobs of one queue of another library.
#[derive(Debug)]
pub struct Migration {
    key: Key,
    format: Box<dyn Format>,
    places: Vec<Place>,
    /// Its name over there.
    queue: String,
    /// Names the source for ids and headers.
    source: String,
    into: String,
}

impl Migration {
    /// The queue at that address: `bullmq://HOST:PORT/QUEUE`, or with `sidekiq`, `celery`, `rq`; a
    /// user, a password and `?db=N&prefix=P` may be in it. Its jobs become jobs of the queue
    /// `into`.
    pub fn new(address: &str, into: impl Into<String>) -> Result<Self> {
        let into = into.into();
        check_queue(&into)?;
        let address = Address::parse(address)?;
        let format: Box<dyn Format> = match address.library {
            Library::Bullmq => Box::new(bullmq::Bullmq::new(&address)),
            Library::Sidekiq => Box::new(sidekiq::Sidekiq::new(&address)),
            Library::Celery => Box::new(celery::Celery::new(&address)),
            Library::Rq => Box::new(rq::Rq::new(&address)),
        };
        let source = format!("{}:{}", address.library.name(), address.queue);
        Ok(Self {
            key: Key::new(&address.redis, format!("punctual:migrated:{source}"))?,
            places: format.places(false),
            format,
            queue: address.queue,
            source,
            into,
        })
    }

    /// Also takes what workers of the library have begun, as if they had died: only once none runs.
    #[must_use]
    pub fn workers_stopped(mut self) -> Self {
        self.places = self.format.places(true);
        self
    }
}
