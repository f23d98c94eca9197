//! What stands in for the functions of the C library.

mod clocks;
mod names;
mod opens;
mod syncs;
mod writes;
