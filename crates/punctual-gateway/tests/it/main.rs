//! The gateway over real sockets.

mod access;
mod bulk;
mod events;
mod fuzz;
mod jobs;
mod limits;
mod lists;
mod metrics;
mod stats;
mod support;
mod work;
mod workers;
