//! Tests of the public interface.

mod conformance;
mod histories;
