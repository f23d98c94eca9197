//! The gateway over real sockets.

mod access;
mod audit;
mod bounds_frames;
mod bulk;
mod cursors;
mod dead_groups;
mod drain;
mod events;
mod figures;
mod framing;
mod fuzz;
mod given_back;
mod health;
mod inputs;
mod jobs;
mod limits;
mod lists;
mod log;
#[path = "../../src/log.rs"]
mod logged;
mod metrics;
mod mistakes;
mod page;
mod push;
mod queue_limits;
mod refusals;
mod schedules;
mod scopes;
mod standin;
mod stats;
mod streams;
mod support;
mod tenants;
mod traces;
mod work;
mod workers;
