//! Tests of the public interface.

/// Calls that tests make.
mod client;
/// The engine keeps the law, over a disk and store that forget what was not synced.
mod conformance;
/// A backup of a directory in use has everything that was acknowledged.
mod copies;
/// A crash at any moment loses nothing acknowledged and leaves nothing half.
mod crash;
/// The engine keeps the law in a directory of the operating system.
mod directory;
/// Calls for many jobs read the store in passes.
mod few_reads;
/// A full disk lets jobs be settled; one that cannot sync ends all promises.
mod full;
/// Makes engines for all of them.
mod harness;
/// The engine and the reference model do the same, step by step, over crashes too.
mod histories;
/// A process that is killed at any moment loses nothing acknowledged.
mod kill;
/// What must not be opened is refused, with the reason and the remedy.
mod opening;
/// What must be there after an opening.
mod reopening;
/// What a version wrote, every later one reads.
mod samples;
/// An engine that stopped itself says so to every call.
mod stopped;
