//! Preloaded into a process, stands in for the functions of the C library that write and sync
//! files.
//!
//! Each does what the system's does, and before that notes what a power cut would take back.
//! Nothing is kept in the process's memory: what is known outlives `kill -9`. `punctual-syncspy`
//! reads it.

mod calls;
mod control;
mod faults;
mod journal;
mod lock;
mod watched;

#[path = "../../punctual-syncspy/src/layout.rs"]
mod layout;
