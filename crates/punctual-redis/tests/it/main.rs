//! Tests of the public interface, on servers of their own.

/// Calls that tests make.
mod client;
/// The engine keeps the law on three masters of a cluster.
mod cluster;
/// The engine keeps the law on one server.
mod conformance;
/// Servers that are killed, stopped, emptied, filled.
mod faults;
/// Makes engines for all of them.
mod harness;
/// The engine and the reference model do the same, step by step.
mod histories;
