//! Deliveries to a real server, by a worker on the memory engine.

mod alerts;
mod answers;
mod callbacks;
mod guarded;
mod hosts;
mod injected;
mod lookups;
mod maintenance;
mod posting;
mod requests;
mod support;
mod tls;
