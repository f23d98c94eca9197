//! The pipeline as processes: uploads, kills, and requests that ask for trouble.

mod as_described;
mod away;
mod kills;
mod lives;
mod memory;
mod refusals;
mod servers;
mod stores;
mod support;
mod transactions;
