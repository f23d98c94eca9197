//! The seam to the store below the log: one atomic write per checkpoint, gets and scans.
//!
//! Narrow on purpose, so that a test can write one in memory; [`TreeStore`] is the real one. Why
//! there is a store and a log, and which: `docs/decisions/0003`.

mod pointer;
mod tree;

use punctual::Result;
use punctual::machine::{Base, RowVisitor};

pub use tree::TreeStore;

/// Hands every row of a checkpoint to a visitor, in the order of table and key.
pub type Rows<'a> = &'a dyn Fn(RowVisitor<'_>) -> Result<()>;

/// What checkpoints are written to. Errors of a full disk have an [`io`](std::io::Error) source
/// that says so.
pub trait Store: Base + 'static {
    /// The last commit that it has.
    fn applied(&self) -> Result<u64>;
    /// Takes the rows of a checkpoint and its last commit: all or nothing, durably.
    fn apply(&self, commit: u64, rows: Rows<'_>) -> Result<()>;
    /// Whether it should tidy up before it takes another checkpoint.
    fn is_behind(&self) -> bool;
    /// Tidies up a bounded part; whether there was anything to do. Readers and `apply` go on.
    fn compact(&self) -> Result<bool>;
    /// Tidies up all of it if much of it is dead; whether it was.
    fn shrink(&self) -> Result<bool>;
    /// Bytes that it takes on disk.
    fn disk_bytes(&self) -> u64;
    /// Bytes that it keeps in memory, about.
    fn memory_bytes(&self) -> u64;
}
