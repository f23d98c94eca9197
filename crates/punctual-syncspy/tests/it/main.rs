//! The spy on a small program, on redis-server, and on the embedded engine.

mod embedded;
mod program;
mod redis;
mod tiny;
