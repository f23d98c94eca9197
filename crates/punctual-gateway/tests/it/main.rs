//! The gateway over real sockets.

mod access;
mod bulk;
mod events;
mod jobs;
mod limits;
mod metrics;
mod support;
mod work;
mod workers;
