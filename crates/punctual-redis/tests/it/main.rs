//! Tests of the public interface, on servers of their own.

/// The engine keeps the law on three masters of a cluster.
mod cluster;
/// The engine keeps the law on one server.
mod conformance;
/// Makes engines for all of them.
mod harness;
/// The engine and the reference model do the same, step by step.
mod histories;
