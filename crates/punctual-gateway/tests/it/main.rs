//! The gateway over real sockets.

mod access;
mod audit;
mod bounds_frames;
mod bulk;
mod drain;
mod events;
mod framing;
mod fuzz;
mod given_back;
mod inputs;
mod jobs;
mod limits;
mod lists;
mod metrics;
mod mistakes;
mod page;
mod push;
mod refusals;
mod stats;
mod streams;
mod support;
mod tenants;
mod traces;
mod work;
mod workers;
