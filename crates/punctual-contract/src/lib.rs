//! The contract as tables: fields of a job, verbs, numbers of stored and sent forms, errors,
//! limits, keys, metrics.
//!
//! Every other copy is generated: constants of Rust and of the functions, and tables in pages.
//! After a change of a table run `cargo run -p punctual-contract`; a test fails while a copy
//! differs.
//!
//! ```
//! use punctual_contract::fields;
//!
//! let priority = fields::field("priority").expect("a field");
//! assert_eq!((priority.min, priority.max), (Some(0), Some(9)));
//! ```
//!
//! # Where to start
//! - Fields of a job and their defaults: [`fields`]. Hints about values: [`hints`].
//! - Verbs, and the functions on Redis: [`verbs`].
//! - Limits: [`limits`]. Errors: [`errors`] and [`texts`].
//! - Metrics: [`metrics`].
//! - Forms on Redis: [`numbers`] and [`keys`].
//! - What is generated, and into which files: [`output`].

pub mod errors;
pub mod fields;
pub mod hints;
pub mod keys;
pub mod limits;
pub mod metrics;
pub mod numbers;
pub mod output;
pub mod texts;
pub mod verbs;

/// How the copies are renewed.
pub const COMMAND: &str = "cargo run -p punctual-contract";
