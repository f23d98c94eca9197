//! What an engine implements to run the suite.

use std::sync::Arc;

use async_trait::async_trait;

use crate::engine::Engine;
use crate::job::Limits;
use crate::time::Timestamp;

/// The engine time at which every fresh subject starts: 2026-09-21T14:13:20Z.
pub const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

/// Makes engines for the suite: one line of set-up per engine under test.
///
/// Nothing here or in the laws assumes that the engine lives in this process.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// Makes an empty engine whose clock stands at [`START`] and moves only when a test moves it.
    ///
    /// It keeps these limits; everything else is at its default.
    async fn fresh(&self, limits: Limits) -> Box<dyn Subject>;
}

/// One engine under test, with its clock and its off switch.
#[async_trait]
pub trait Subject: Send + Sync {
    /// The engine; another one after [`reopen`](Subject::reopen) and [`crash`](Subject::crash).
    fn engine(&self) -> Arc<dyn Engine>;

    /// Sets the clock that the engine reads, back too, and wakes what sleeps until then.
    async fn set_time(&self, now: Timestamp);

    /// Closes the engine in good order and opens it again on the same data.
    async fn reopen(&mut self) {
        panic!("this harness cannot reopen its engine; unfold its suite without `durable`");
    }

    /// Ends the engine as a kill would, loses what is not durable, and opens it again.
    async fn crash(&mut self) {
        panic!("this harness cannot crash its engine; unfold its suite without `durable`");
    }
}
