//! What runs in the memory of one process.

pub mod wheel;
