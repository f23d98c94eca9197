//! The lease protocol with two workers and two jobs, small enough to visit every state that there
//! is.
//!
//! [`Law`] says in plain words of its own what claim, extend, settle, cancel, the end of a lease,
//! the end of a process and a failover to a replica do, one that has all that was answered or one
//! that lacks some of it. A checker visits everything that can come of it and holds the invariants
//! against each state; [`replay`] plays walks through the same model on an engine and compares the
//! answers, so that what was checked is what engines do.

mod bugs;
mod law;
mod properties;
pub mod replay;
mod world;

pub use bugs::Bug;
pub use law::{Law, Replication};
pub use world::{Act, Answer, ClaimedJob, Ending, Holding, JobTruth, Replica, Truth, World};
