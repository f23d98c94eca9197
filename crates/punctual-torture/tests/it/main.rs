//! The harness is proved: it finds injected bugs, sees settings lose what they may lose, and
//! nothing lost where nothing may be.

/// Engines that another operator keeps.
mod addresses;
/// Flows come to their end under faults.
mod flows;
/// Settings that may lose do, the others do not.
mod honest;
/// Every injected bug is found within a hundred faults.
#[cfg(feature = "injected")]
mod injected;
/// Limits hold under faults.
mod limits;
/// A seed is a plan, and kept histories are judged alike again.
mod plans;
/// What the fault proxy does to bytes.
mod proxy;
/// Messages come in by relays under faults.
mod relays;
/// How recipes call the program.
mod schedules;
mod script;
/// Effects are kept in servers, too.
mod sinks;
/// Runs the program.
mod support;
/// The tables of the pages are those of the totals.
mod tables;
/// Kept histories are held against what was said of them.
mod verify;
/// A round that gets stuck ends, and says in what.
mod waits;
