//! Tests of the public interface.

/// The engine keeps the law, over a disk and store that forget what was not synced.
mod conformance;
/// A crash at any moment loses nothing acknowledged and leaves nothing half.
mod crash;
/// The engine keeps the law in a directory of the operating system.
mod directory;
/// Makes engines for all of them.
mod harness;
/// A process that is killed at any moment loses nothing acknowledged.
mod kill;
/// What must be there after an opening.
mod reopening;
