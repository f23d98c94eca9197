//! A library to preload: it replaces the functions of the C library that write and sync files.
//!
//! Before a write the replacement records what a power cut would take back, and after a sync that
//! nothing of it is left. The records lie in files, outside of the memory of the process, so they
//! survive `kill -9`. The crate `punctual-syncspy` preloads this library and reads the records.
//!
//! # Where to start
//! - The replaced functions: `faults.rs`, with one file for each group of functions below
//!   `faults/`.
//! - What is recorded of a file: `journal.rs`. The words that control a run: `control.rs`.
//! - Which files are watched: `watched.rs`. The layout that both crates share: `layout.rs`.

mod control;
mod faults;
mod journal;
mod lock;
mod system_calls;
mod watched;

#[path = "../../punctual-syncspy/src/layout.rs"]
mod layout;
