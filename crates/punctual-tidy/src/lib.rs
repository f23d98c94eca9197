//! Rules of this repository that no compiler checks, as tests: `tests/it/tidy.rs` has them.
//!
//! A crate of its own, since its tests read every file of the tree and are optimised for it.
