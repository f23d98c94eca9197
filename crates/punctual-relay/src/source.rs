//! What a relay asks of the other system.

use async_trait::async_trait;
use punctual::{JobId, Result};

use crate::message::Message;

/// Makes a source: at the start of a relay, and again after each failure.
#[async_trait]
pub trait Open: Send + Sync {
    /// Connects. An error that no retry can mend (`invalid_input`, `unsupported`, `permanent`) ends
    /// the relay; after any other it tries again.
    async fn open(&self) -> Result<Box<dyn Source>>;
}

#[async_trait]
impl Open for Box<dyn Open> {
    async fn open(&self) -> Result<Box<dyn Source>> {
        (**self).open().await
    }
}

/// A connection to the other system, from which messages are taken batch by batch.
///
/// Two sources of the same messages may run at once: what one has taken, another takes only once
/// the first is likely dead, and under the same ids.
#[async_trait]
pub trait Source: Send {
    /// Takes the next messages, at most that many; waits up to a second for the first.
    ///
    /// The messages stay with the other system until [`accept`](Self::accept): a source that ends
    /// before takes them again later, under the same ids.
    async fn next(&mut self, at_most: usize) -> Result<Vec<Message>>;

    /// Every message of the last batch is stored, or among the refused: removes them over there.
    async fn accept(&mut self, refused: &[Refused]) -> Result<()>;

    /// How many messages wait over there, those of unfinished batches included, if it knows.
    async fn waiting(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Whether more messages may come although none waits now. A relay that shall end when idle
    /// goes on then.
    fn has_more(&self) -> bool {
        false
    }

    /// Whether the source keeps refused messages itself. If not, the relay stores each as a dead
    /// job of the queue `relay.NAME.refused`.
    fn keeps_refused(&self) -> bool {
        false
    }
}

/// A message that did not become a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The id that its job would have had.
    pub id: JobId,
    /// Why.
    pub why: String,
}
