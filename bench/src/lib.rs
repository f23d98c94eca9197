//! Measurements beside rivals. See `bench/README.md`.

pub mod process;
pub mod random;
pub mod stopwatch;
