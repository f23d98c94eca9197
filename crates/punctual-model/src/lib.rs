//! The lease protocol with two workers and two jobs, small enough for a checker to visit every
//! state.
//!
//! [`Law`] defines claim, extend, settle, cancel, the end of a lease and the end of a process. It
//! also defines a failover to a replica, which has all answered changes or lacks some of them. The
//! checker compares each state with the invariants. [`replay`] plays walks of the model on an
//! engine and compares the answers, so the checked model is what engines do.
//!
//! ```
//! use punctual_model::{Act, Answer, Law};
//!
//! let law = Law::default();
//! let (world, answer) = law.step(&law.begin(), Act::Cancel(0));
//! assert_eq!(answer, Answer::Cancelled);
//! let (_, answer) = law.step(&world, Act::Cancel(0));
//! assert_eq!(answer, Answer::AlreadyCancelled);
//! ```
//!
//! # Where to start
//! - What each act does: [`Law::step`]. The state that it changes: [`World`].
//! - Visit every state: [`Law`] is a [`stateright::Model`]; `tests/it/exhaustive.rs` checks it.
//! - Compare an engine with the model: [`replay::walks`].
//! - Bugs that the invariants must find: [`Bug`].

mod bugs;
mod law;
mod properties;
pub mod replay;
mod world;

pub use bugs::Bug;
pub use law::{Law, Replication};
pub use world::{Act, Answer, ClaimedJob, Ending, Holding, JobTruth, Replica, Truth, World};
