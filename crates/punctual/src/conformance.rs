//! The law as tests: one per law and case, the same for every engine.
//!
//! An author of an engine writes a [`Harness`] and one line; a failing test then names the law:
//!
//! ```text
//! punctual::conformance::suite!(MyHarness::new());           // laws of every engine
//! punctual::conformance::suite!(MyHarness::new(), durable);  // and of those that outlive a crash
//! ```
//!
//! A law with capabilities behind its name in [the list](LAWS) runs where all of them are claimed;
//! that an unclaimed one answers `unsupported` is a law too. What decides between a law and an
//! engine is `docs/job-lifecycle.md`.

mod case;
mod durable_laws;
mod harness;
mod history;
mod laws;
mod model;
mod polls;
mod run;
mod unfold;
mod verbs;

mod attempts;
mod bounds;
mod cancel;
mod capabilities;
mod claim;
mod clear_laws;
mod control;
mod cursors;
mod debounce;
mod delete;
mod draw;
mod durable;
mod early_clears;
mod edit;
mod effects;
mod ends;
mod enqueue;
mod expiry;
mod explain;
mod flow_calls;
mod flow_ends;
mod flow_gone;
mod flow_histories;
mod flow_imports;
mod flow_laws;
mod flow_parents;
mod flow_plans;
mod flow_retries;
mod flows;
mod groups;
mod guards;
mod import;
mod joins;
mod lease;
mod limits;
mod list;
mod log;
mod memos;
mod named;
mod named_calls;
mod named_full;
mod named_histories;
mod named_laws;
mod named_model;
mod names;
mod namespaces;
mod order;
mod payload;
mod retry;
mod schedule_histories;
mod schedule_runs;
mod schedules;
mod settle;
mod settled;
mod share_laws;
mod share_limits;
mod share_pending;
mod shares;
mod signals;
mod sizes;
mod stats;
mod step_laws;
mod suspects;
mod topic_laws;
mod topics;
mod unique;
mod wait;
mod wake;

pub use durable_laws::DURABLE_LAWS;
pub use harness::{Harness, START, Subject};
pub use history::{Failure, Histories, check_histories, run_histories};
pub use laws::{LAWS, Law};
#[cfg(feature = "injected-bugs")]
pub use run::find;
pub use run::{Broken, check, check_some, check_topic, first_broken};

/// Unfolds the suite into one test per law, for the harness that an expression makes.
///
/// `suite!(MyHarness::new())` holds the laws of every engine; `suite!(MyHarness::new(), durable)`
/// adds those of engines whose harness can [`crash`](Subject::crash) and
/// [`reopen`](Subject::reopen).
///
/// With `by topic` at the end it makes one test per topic, for a harness that is slow to start. A
/// failing test names the laws that the engine breaks. With `thirds` behind that, each topic has
/// another test of every third law, for a harness that is another way to the same engine.
pub use crate::__suite as suite;
